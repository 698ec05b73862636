"""Hidden Markov models by enumeration of all hidden paths: what the kernels are tested against."""

from itertools import product

import numpy as np

from cutplane.models.speech.model import Covariance, GaussianHMMs, Topology

SHAPES = {
    "left to right": GaussianHMMs(2, 3, 2, 2),
    "ergodic": GaussianHMMs(3, 2, 1, 2, Topology.ERGODIC),
    "one state": GaussianHMMs(2, 1, 3, 1),
    "shared": GaussianHMMs(2, 2, 2, 2, Topology.ERGODIC, Covariance.SHARED),
    "full": GaussianHMMs(2, 2, 2, 3, covariance=Covariance.FULL),
    "segments": GaussianHMMs(2, 2, 2, 2, segments=True),
    "segments, ergodic": GaussianHMMs(3, 2, 1, 1, Topology.ERGODIC, segments=True),
    "segments, full": GaussianHMMs(2, 2, 1, 2, covariance=Covariance.FULL, segments=True),
}


def drawn(hmms, seed=0):
    """Return random parameters: spreads near one, scores that are no logarithms of shares."""
    return np.random.default_rng(seed).normal(scale=0.6, size=hmms.n_parameters)


def gaussian_of(hmms, w, c, k, m):
    """Return weight, mean and covariance of a Gaussian."""
    part, D = hmms.split(w), hmms.n_features
    sds = np.exp(np.broadcast_to(part["log_sds"], hmms.shapes["means"])[m, c, k])
    regression = np.eye(D)
    if part["lower"].shape[-1]:
        regression[np.tril_indices(D, -1)] = part["lower"][m, c, k]
    root = np.linalg.inv(regression) * sds
    return part["weights"][m, c, k], part["means"][m, c, k], root @ root.T


def density(hmms, w, x, c, k, m):
    """Return the score of a frame under a Gaussian of a state."""
    weight, mean, covariance = gaussian_of(hmms, w, c, k, m)
    away = x - mean
    log_det = np.linalg.slogdet(2 * np.pi * covariance)[1]
    return weight - 0.5 * (away @ np.linalg.solve(covariance, away) + log_det)


def frame_scores(hmms, w, X, mixed=False):
    """Return the scores of states (class, state) at all frames, by the best Gaussian or by all."""
    M = range(hmms.n_components)
    together = np.logaddexp.reduce if mixed else max
    return np.array(
        [
            [
                [together([density(hmms, w, x, c, k, m) for m in M]) for k in range(hmms.n_states)]
                for c in range(hmms.n_classes)
            ]
            for x in X
        ]
    )


def paths(hmms, w, X, mixed=False):
    """Yield the labels of frames, where segments begin, and the score, of all paths."""
    part, n = hmms.split(w), len(X)
    E = frame_scores(hmms, w, X, mixed)
    arcs = {(a, b): i for i, (a, b) in enumerate(hmms.arcs.tolist())}
    states = [*product(range(hmms.n_classes), range(hmms.n_states))]
    for path in product(states, repeat=n):
        for entered in product([False, True] if hmms.segments else [False], repeat=n - 1):
            c, k = path[0]
            if k not in hmms.starts:
                continue
            score = part["prior"][c] + part["start"][c, k] + E[0, c, k]
            for t in range(1, n):
                (b, j), (c, k) = path[t - 1], path[t]
                if entered[t - 1]:
                    if k not in hmms.starts:
                        break
                    score += part["end"][b, j] + part["follow"][b, c] + part["start"][c, k]
                elif b != c or (j, k) not in arcs:
                    break
                else:
                    score += part["arcs"][c, arcs[j, k]]
                score += E[t, c, k]
            else:
                c, k = path[-1]
                yield tuple(c for c, _ in path), (True, *entered), score + part["end"][c, k]


def best_by_labels(hmms, w, X):
    """Return the score of the best path for each labeling of the frames."""
    best = {}
    for labels, _, score in paths(hmms, w, X):
        best[labels] = max(best.get(labels, -np.inf), score)
    return best


def loss(hmms, w, X, y, margin):
    """Return the margin loss of a sequence; ``y`` is a class, or the classes of its frames."""
    truth = tuple(np.broadcast_to(y, len(X)).tolist())
    best = best_by_labels(hmms, w, X)

    def delta(labels):
        wrong = sum(a != b for a, b in zip(labels, truth, strict=True))
        return margin * (wrong if hmms.segments else wrong > 0)

    return max(score + delta(labels) for labels, score in best.items()) - best[truth]
