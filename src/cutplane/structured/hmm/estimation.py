"""Maximum likelihood: segmental k-means, then expectation maximization.

Each class is fitted to its own sequences. At first each is cut into equal parts, one a state, and
the frames of a state into clusters, one a Gaussian. Then paths and models are found in turn, first
by the best paths (segmental k-means), then by all paths with their probabilities (EM, which never
lowers the likelihood as long as no floor is touched).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.threads import default_threads, run_blocks
from cutplane.structured.chains.kernels import Indices
from cutplane.structured.hmm.alignment import clusters, even_path
from cutplane.structured.hmm.gaussians import fill_best
from cutplane.structured.hmm.likelihood import Counts, align, count_expected, count_path
from cutplane.structured.hmm.model import Array, Covariance, GaussianHMMs
from cutplane.structured.hmm.paths import Path

# Probabilities of moves and of Gaussians are at least this: zeros would have no logarithm, and what
# was not seen in training must remain possible.
_LEAST_PROBABILITY = 1e-4
# A Gaussian that fewer frames belong to keeps mean and spread.
_FEWEST_FRAMES = 1e-3
# Added to full covariances, as a share of the floor: few frames leave them singular.
_RIDGE = 1e-6
# EM has converged when an iteration gains less than this, a frame.
_LEAST_GAIN = 1e-5


@dataclass(frozen=True)
class Likelihood:
    """How models are fitted by maximum likelihood.

    Parameters
    ----------
    n_alignments : int
        Rounds of segmental k-means.
    n_iterations : int
        Rounds of expectation maximization at most.
    floor : float
        Variances are at least this share of those of all frames.
    """

    n_alignments: int = 4
    n_iterations: int = 10
    floor: float = 0.01

    def fit(
        self,
        hmms: GaussianHMMs,
        frames: Matrix,
        offsets: Indices,
        y: NDArray[np.int32],
        weights: Vector,
        *,
        n_threads: int | None = None,
    ) -> tuple[Vector, list[list[float]]]:
        """Return the parameters, and for each class the log-likelihood before each EM step.

        Parameters
        ----------
        hmms : GaussianHMMs
        frames : ndarray of shape (n_frames, n_features)
        offsets : ndarray of shape (n_sequences + 1,)
            Where sequences begin, and the last ends.
        y : ndarray
            A class for each sequence; for each frame, if classes follow each other. A run of equal
            labels is one segment then.
        weights : ndarray of shape (n_sequences,)
            Weights of the sequences; a class whose weights are all zero gets a model of all frames.
        """
        used = np.repeat(weights, np.diff(offsets))
        mean = np.average(frames, axis=0, weights=used)
        variance = np.average((frames - mean) ** 2, axis=0, weights=used)
        # A feature that never changes tells nothing, whatever its spread is.
        floors = np.where(variance > 0.0, self.floor * variance, 1.0)
        bounds, labels, owners = segments_of(hmms, offsets, y)
        one = replace(
            hmms,
            n_classes=1,
            segments=False,
            covariance=Covariance.DIAGONAL
            if hmms.covariance is Covariance.SHARED
            else hmms.covariance,
        )
        found: list[tuple[Vector, list[float], Vector]] = [None] * hmms.n_classes  # type: ignore[list-item]

        def fit_class(first: int, last: int) -> None:
            for c in range(first, last):
                chosen = np.flatnonzero((labels == c) & (weights[owners] > 0.0))
                if not len(chosen):
                    chosen = np.flatnonzero(weights[owners] > 0.0)
                parts = [frames[bounds[i] : bounds[i + 1]] for i in chosen]
                ends = np.cumsum([0, *(len(part) for part in parts)])
                found[c] = self._fit_class(
                    one, np.concatenate(parts), ends, weights[owners[chosen]], floors
                )

        run_blocks(fit_class, hmms.n_classes, n_threads=n_threads or default_threads())
        parts = self._joined(hmms, one, found)
        parts |= _orders(hmms, labels, owners, weights)
        return hmms.join(parts), [history for _, history, _ in found]

    def _fit_class(
        self, one: GaussianHMMs, frames: Matrix, offsets: Indices, weights: Vector, floors: Vector
    ) -> tuple[Vector, list[float], Vector]:
        """Return the parameters of one class, log-likelihoods, and frames of its Gaussians."""
        frames = np.ascontiguousarray(frames)
        path = even_path(one, offsets)
        components = Path(clusters(frames, path.states, one), path.jumps)
        G = one.n_states * one.n_components
        parts = one.split(np.zeros(one.n_parameters))
        center = np.average(frames, axis=0, weights=np.repeat(weights, np.diff(offsets)))
        parts["means"][...] = center
        spread = ((frames - center) ** 2).mean(axis=0)
        parts["log_sds"][...] = 0.5 * np.log(np.maximum(spread, floors))
        scores = np.empty((len(frames), G))
        for step in range(self.n_alignments + 1):
            tables = one.tables(one.join(parts))
            if step:
                fill_best(frames, 0, len(frames), tables.gaussians, G, scores)
                align(offsets, scores, tables.moves, path, components)
            counts = _no_counts(one)
            means = tables.gaussians.means
            count_path(frames, offsets, weights, path, components, means, one.n_states, counts)
            parts = _reestimated(one, parts, counts, floors)
        history: list[float] = []
        for _ in range(self.n_iterations):
            tables, counts = one.tables(one.join(parts)), _no_counts(one)
            fill_best(frames, 0, len(frames), tables.gaussians, G, scores)
            history.append(
                count_expected(
                    frames, offsets, weights, scores, tables.moves, tables.gaussians.means, counts
                )
            )
            least = _LEAST_GAIN * float(weights @ np.diff(offsets))
            if len(history) > 1 and history[-1] - history[-2] < least:
                break
            parts = _reestimated(one, parts, counts, floors)
        return one.join(parts), history, counts.gaussians

    def _joined(
        self,
        hmms: GaussianHMMs,
        one: GaussianHMMs,
        found: list[tuple[Vector, list[float], Vector]],
    ) -> dict[str, Array]:
        """Return the models of all classes side by side."""
        each = [one.split(w) for w, _, _ in found]
        parts = {
            name: np.concatenate([own[name] for own in each], axis=axis)
            for name, axis in {
                **dict.fromkeys(("means", "log_sds", "lower", "weights"), 1),
                **dict.fromkeys(("start", "arcs", "end"), 0),
            }.items()
        }
        if hmms.covariance is Covariance.SHARED:
            # The maximum of the likelihood, given who belongs to whom: the mean of all variances.
            taken = np.array([counts for _, _, counts in found])
            taken = taken.reshape(hmms.n_classes, hmms.n_components, hmms.n_states)
            shares = np.moveaxis(taken, 0, 1)[..., None] / taken.sum()
            variance = (shares * np.exp(2.0 * parts["log_sds"])).sum(axis=(0, 1, 2))
            parts["log_sds"] = 0.5 * np.log(variance)
        return parts


def segments_of(
    hmms: GaussianHMMs, offsets: Indices, y: NDArray[np.int32]
) -> tuple[Indices, NDArray[np.int32], Indices]:
    """Return where segments begin (and the last ends), their classes, and their sequences."""
    if not hmms.segments:
        return offsets, y, np.arange(len(y))
    begins = np.zeros(len(y), dtype=np.bool_)
    begins[offsets[:-1]] = True
    begins[1:] |= y[1:] != y[:-1]
    firsts = np.flatnonzero(begins)
    owners = np.searchsorted(offsets, firsts, side="right") - 1
    return np.append(firsts, len(y)), y[firsts], owners


def _orders(
    hmms: GaussianHMMs, labels: NDArray[np.int32], owners: Indices, weights: Vector
) -> dict[str, Array]:
    """Return the logarithms of how probable classes are at first, and after each other."""
    C = hmms.n_classes
    first = np.append(True, owners[1:] != owners[:-1])
    counts = np.zeros(C)
    np.add.at(counts, labels[first], weights[owners[first]])
    follow = np.zeros(hmms.shapes["follow"])
    if hmms.segments:
        pairs = labels[:-1].astype(np.int64) * C + labels[1:]
        seen = np.where(first[1:], 0.0, weights[owners[1:]])
        seen_pairs: Array = np.zeros(C * C)
        np.add.at(seen_pairs, pairs, seen)
        # Any class may follow any, once more.
        follow = np.log(_probabilities(seen_pairs.reshape(C, C) + 1.0))
    return {"prior": np.log(_probabilities(counts[None, :]))[0], "follow": follow}


def _no_counts(one: GaussianHMMs) -> Counts:
    K, G, D = one.n_states, one.n_states * one.n_components, one.n_features
    products = D * D if one.covariance is Covariance.FULL else D
    return Counts(
        np.zeros(G),
        np.zeros((G, D)),
        np.zeros((G, products)),
        np.zeros(K),
        np.zeros((len(one.jumps), K)),
        np.zeros(K),
    )


def _reestimated(
    one: GaussianHMMs, parts: dict[str, Array], counts: Counts, floors: Vector
) -> dict[str, Array]:
    """Return the parameters of one class that are most likely, given these counts."""
    K, M, D = one.n_states, one.n_components, one.n_features
    n = counts.gaussians
    seen = n > _FEWEST_FRAMES
    safe = np.where(seen, n, 1.0)[:, None]
    shift = np.where(seen[:, None], counts.sums / safe, 0.0)
    means = parts["means"].reshape(-1, D) + shift
    log_sds, lower = parts["log_sds"].reshape(-1, D).copy(), parts["lower"].reshape(K * M, -1)
    if one.covariance is Covariance.FULL:
        lower = lower.copy()
        for g in np.flatnonzero(seen):
            products = counts.products[g].reshape(D, D) / n[g]
            covariance = products - np.outer(shift[g], shift[g]) + np.diag(_RIDGE * floors)
            log_sds[g], lower[g] = _regressions(covariance)
        log_sds = np.maximum(log_sds, 0.5 * np.log(floors))
    else:
        variances = np.maximum(counts.products / safe - shift**2, floors)
        log_sds[seen] = 0.5 * np.log(variances[seen])
    # What leaves a state goes on by an arc or ends.
    arcs = counts.bands[one.band_of_arc, one.arcs[:, 1]]
    leaving = np.zeros((K, K + 1))
    leaving[one.arcs[:, 0], one.arcs[:, 1]] = arcs
    leaving[:, K] = counts.end
    allowed = np.zeros((K, K + 1), dtype=np.bool_)
    allowed[one.arcs[:, 0], one.arcs[:, 1]] = allowed[:, K] = True
    log_leaving = np.log(_probabilities(leaving, allowed), where=allowed, out=np.zeros((K, K + 1)))
    mixture = np.log(_probabilities(n.reshape(M, K).T)).T
    return {
        "means": means.reshape(one.shapes["means"]),
        "log_sds": log_sds.reshape(one.shapes["means"]),
        "lower": lower.reshape(one.shapes["lower"]),
        "weights": mixture.reshape(one.shapes["weights"]),
        "start": np.log(_probabilities(counts.start[None, one.starts])),
        "arcs": log_leaving[one.arcs[:, 0], one.arcs[:, 1]][None, :],
        "end": log_leaving[:, K][None, :],
        "prior": np.zeros(1),
        "follow": np.zeros((0, 0)),
    }


def _probabilities(counts: Matrix, allowed: NDArray[np.bool_] | None = None) -> Matrix:
    """Return the shares of counts in their row, none too small; equal ones if there are none."""
    allowed = np.ones(counts.shape, dtype=np.bool_) if allowed is None else allowed
    totals = counts.sum(axis=1, keepdims=True)
    equal = allowed / allowed.sum(axis=1, keepdims=True)
    shares = np.where(totals > 0.0, counts / np.where(totals > 0.0, totals, 1.0), equal)
    shares = np.where(allowed, np.maximum(shares, _LEAST_PROBABILITY), 0.0)
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def _regressions(covariance: Matrix) -> tuple[Vector, Vector]:
    """Return each feature's spread given those before it (logarithms), and their coefficients.

    With a Cholesky factor ``L`` of the covariance, ``inv(L / diag(L))`` has them in its rows.
    """
    factor = np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)
    sds = np.diag(factor)
    unit = np.asarray(np.linalg.solve(factor / sds, np.eye(len(sds))), dtype=np.float64)
    return np.log(sds), unit[np.tril_indices(len(sds), -1)]
