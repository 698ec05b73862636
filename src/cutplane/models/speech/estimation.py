"""Maximum likelihood of hidden Markov models: segmental k-means, then expectation maximization.

Each class is fitted to its own sequences. At first each is cut into equal parts, one a state, and
the frames of a state into clusters, one a Gaussian. Then paths and models are found in turn, first
by the best paths (segmental k-means), then by all paths with their probabilities (EM, which never
lowers the likelihood as long as no floor is touched). Sums over paths are in logarithms, so that no
sequence is too long.

With the share ``g_t`` of each frame that a Gaussian takes, its mean is the mean of frames, weighted
by them. Its variance is the weighted mean of squares around it; one variance for the Gaussians of
all classes is the mean over all of them, each with as many frames as it takes. Both maximize the
expected likelihood exactly, so that it never falls, as long as no floor is touched.

Where all Gaussians share a covariance, the classes go step by step together, and what never falls
is the sum of their likelihoods.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import njit
from cutplane.compute.threads import map_parts, thread_limit
from cutplane.models.sequences.chain import Indices, Labels, longest_in, tokens_of
from cutplane.models.speech.model import Array, Covariance, GaussianHMMs
from cutplane.models.speech.paths import Moves, Path, best_labels, fill_best
from cutplane.models.structured.forests import sum_product


class LikelihoodSettings(NamedTuple):
    """What keeps maximum likelihood away from the limits of numbers, and when it ends.

    Attributes
    ----------
    cluster_steps : int
        Of k-means at most, to begin with.
    least_probability : float
        Probabilities of moves and of Gaussians are at least this: zeros would have no logarithm,
        and what was not seen in training must remain possible.
    fewest_frames : float
        A Gaussian that fewer frames belong to keeps mean and spread.
    ridge : float
        Added to full covariances, as a share of the floor: few frames leave them singular.
    least_gain : float
        EM has converged when an iteration gains less than this for each frame.
    """

    cluster_steps: int = 10
    least_probability: float = 1e-4
    fewest_frames: float = 1e-3
    ridge: float = 1e-6
    least_gain: float = 1e-5


SETTINGS = LikelihoodSettings()


class Counts(NamedTuple):
    """How often states, Gaussians and moves are taken, and what the frames there are.

    Frames count as differences from the present mean, so that no digits are lost.
    """

    gaussians: Vector  # (G,)
    sums: Matrix  # (G, D)
    products: Matrix  # (G, D) or, for full covariances, (G, D * D)
    start: Vector  # (K,)
    bands: Matrix  # (n_jumps, K)
    end: Vector  # (K,)


@njit(cache=True, nogil=True)
def _take(
    frames: Matrix, t: int, means: Matrix, g: int, share: float, counts: Counts, x: Vector
) -> None:
    """Count a share of a frame for a Gaussian."""
    n_features, full = len(x), counts.products.shape[1] > len(x)
    counts.gaussians[g] += share
    for d in range(n_features):
        x[d] = frames[t, d] - means[d, g]
        counts.sums[g, d] += share * x[d]
    for d in range(n_features):
        if full:
            for j in range(n_features):
                counts.products[g, d * n_features + j] += share * x[d] * x[j]
        else:
            counts.products[g, d] += share * x[d] * x[d]


@njit(cache=True, nogil=True)
def count_expected(
    frames: Matrix, offsets: Indices, weights: Vector, scores: Matrix, moves: Moves,
    means: Matrix, counts: Counts,
) -> float:  # fmt: skip
    """Add what is expected of hidden states; return the weighted sum of log-likelihoods.

    ``scores`` are those of all Gaussians at all frames.
    """
    jumps, n_states = moves.jumps, len(moves.start)
    # The logarithm of each state's density is that of the sum over its Gaussians.
    E, seen = scores[:, :n_states].copy(), np.zeros((len(scores), n_states))
    for t in range(len(scores)):
        for s in range(n_states):
            for g in range(n_states + s, scores.shape[1], n_states):
                E[t, s] = np.logaddexp(E[t, s], scores[t, g])
    arcs = np.full((1, n_states, n_states), -np.inf)  # from each state to each other
    for j in range(len(jumps)):
        for s in range(n_states):
            if 0 <= s - jumps[j] < n_states:
                arcs[0, s - jumps[j], s] = moves.bands[j, s]
    order = np.arange(longest_in(offsets, 0, len(weights)))
    taken, log_sums, x = np.empty_like(arcs), np.empty(len(order)), np.empty(frames.shape[1])
    total = 0.0
    for i in range(len(weights)):
        i0, i1 = offsets[i], offsets[i + 1]
        weight, n = weights[i], i1 - i0
        if weight == 0.0:
            continue
        unary, taken[:] = E[i0:i1].copy(), 0.0
        for s in range(n_states):
            unary[0, s] += moves.start[s] + moves.prior[0]
            unary[n - 1, s] += moves.end[s]
        sum_product(unary, arcs, order[:n] - 1, order[:n], seen[i0:i1], taken, log_sums)
        for t in range(n):
            total += weight * log_sums[t]
            for s in range(n_states):
                if seen[i0 + t, s] > 0.0:
                    for g in range(s, scores.shape[1], n_states):
                        share = seen[i0 + t, s] * math.exp(scores[i0 + t, g] - E[i0 + t, s])
                        _take(frames, i0 + t, means, g, weight * share, counts, x)
        for s in range(n_states):
            counts.start[s] += weight * seen[i0, s]
            counts.end[s] += weight * seen[i1 - 1, s]
            for j in range(len(jumps)):
                if 0 <= s - jumps[j] < n_states:
                    counts.bands[j, s] += weight * taken[0, s - jumps[j], s]
    return total


@njit(cache=True, nogil=True)
def count_path(
    frames: Matrix, offsets: Indices, weights: Vector, path: Path, components: Labels,
    means: Matrix, n_states: int, counts: Counts,
) -> None:  # fmt: skip
    """Add what a path takes: its states, the Gaussian of each frame in its state, its moves."""
    x = np.empty(frames.shape[1])
    for i in range(len(weights)):
        i0, i1 = offsets[i], offsets[i + 1]
        for t in range(i0, i1):
            s = path.states[t]
            g = components[t] * n_states + s
            _take(frames, t, means, g, weights[i], counts, x)
            if t > i0:
                counts.bands[path.jumps[t], s] += weights[i]
        counts.start[path.states[i0]] += weights[i]
        counts.end[path.states[i1 - 1]] += weights[i]


def even_path(one: GaussianHMMs, offsets: Indices) -> Path:
    """Return a path through equal parts of each sequence, as far as moves allow it."""
    states = np.empty(offsets[-1], dtype=np.int32)
    jumps = np.zeros(offsets[-1], dtype=np.int32)
    for i0, i1 in pairwise(offsets.tolist()):
        t = np.arange(i1 - i0)
        states[i0:i1] = np.minimum(t * one.n_states // (i1 - i0), t * int(one.jumps[-1]))
        jumps[i0 + 1 : i1] = np.searchsorted(one.jumps, np.diff(states[i0:i1]))
    return Path(states, jumps)


def clusters(frames: Matrix, states: NDArray[np.int32], one: GaussianHMMs) -> NDArray[np.int32]:
    """Return the Gaussian of each frame in its state, by k-means; nothing is left to chance.

    Centers begin along the direction in which the frames of the state spread most, at quantiles.
    """
    found = np.zeros(len(frames), dtype=np.int32)
    scale = frames.std(axis=0)
    scale[scale == 0.0] = 1.0
    for s in range(one.n_states if one.n_components > 1 else 0):
        here = np.flatnonzero(states == s)
        if len(here) < 2:
            continue
        x = (frames[here] - frames[here].mean(axis=0)) / scale
        along = x @ _main_direction(x)
        order = np.argsort(along, kind="stable")
        own = np.empty(len(here), dtype=np.int64)
        own[order] = np.arange(len(here)) * one.n_components // len(here)
        for _ in range(SETTINGS.cluster_steps):
            n = np.bincount(own, minlength=one.n_components)
            centers = np.array([x[own == m].mean(axis=0) if n[m] else x[0] for m in range(len(n))])
            distances = ((x[:, None, :] - centers) ** 2).sum(axis=2)
            distances[:, n == 0] = np.inf
            nearest = distances.argmin(axis=1)
            if (nearest == own).all():
                break
            own = nearest
        found[here] = own
    return found


def _main_direction(x: Matrix) -> Vector:
    """Return a direction of large variance: a few powers of the covariance, without a BLAS."""
    covariance = np.einsum("ti,tj->ij", x, x)
    direction = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    for _ in range(20):
        length = math.sqrt(float((direction**2).sum()))
        if length == 0.0:
            return np.ones(x.shape[1])
        direction = np.einsum("ij,j->i", covariance, direction / length)
    return direction


def no_counts(one: GaussianHMMs) -> Counts:
    """Return zeros: room for the counts of one class."""
    K, G, D = one.n_states, one.n_states * one.n_components, one.n_features
    products = D * D if one.covariance is Covariance.FULL else D
    shapes = [(G,), (G, D), (G, products), (K,), (len(one.jumps), K), (K,)]
    return Counts(*(np.zeros(shape) for shape in shapes))


def _shifts(counts: Counts) -> Matrix:
    """Return by how much each mean moves."""
    seen = (counts.gaussians > SETTINGS.fewest_frames)[:, None]
    safe = np.where(seen, counts.gaussians[:, None], 1.0)
    return np.where(seen, counts.sums / safe, 0.0)


def reestimated(
    one: GaussianHMMs,
    parts: dict[str, Array],
    counts: Counts,
    floors: Vector,
    shared: Vector | None = None,
) -> dict[str, Array]:
    """Return the parameters of one class that are most likely, given these counts.

    ``shared`` is the variance of all Gaussians, where they share one.
    """
    K, M, D = one.n_states, one.n_components, one.n_features
    n, shift = counts.gaussians, _shifts(counts)
    seen = n > SETTINGS.fewest_frames
    means = parts["means"].reshape(-1, D) + shift
    log_sds, lower = parts["log_sds"].reshape(-1, D).copy(), parts["lower"].reshape(K * M, -1)
    if shared is not None:
        log_sds[:] = 0.5 * np.log(shared)
    elif one.covariance is Covariance.FULL:
        lower = lower.copy()
        for g in np.flatnonzero(seen):
            products = counts.products[g].reshape(D, D) / n[g]
            covariance = products - np.outer(shift[g], shift[g]) + np.diag(SETTINGS.ridge * floors)
            # Each feature's spread given those before it, and its coefficients for these: with a
            # Cholesky factor L of the covariance, inv(L / diag(L)) has them in its rows.
            factor = np.linalg.cholesky(covariance)
            unit = np.linalg.solve(factor / np.diag(factor), np.eye(D))
            log_sds[g], lower[g] = np.log(np.diag(factor)), unit[np.tril_indices(D, -1)]
        log_sds = np.maximum(log_sds, 0.5 * np.log(floors))
    else:
        safe = np.where(seen, n, 1.0)[:, None]
        variances = np.maximum(counts.products / safe - shift**2, floors)
        log_sds[seen] = 0.5 * np.log(variances[seen])
    # What leaves a state goes on by an arc or ends.
    arcs = counts.bands[one.band_of_arc, one.arcs[:, 1]]
    leaving = np.zeros((K, K + 1))
    leaving[one.arcs[:, 0], one.arcs[:, 1]] = arcs
    leaving[:, K] = counts.end
    allowed = np.zeros((K, K + 1), dtype=np.bool_)
    allowed[one.arcs[:, 0], one.arcs[:, 1]] = allowed[:, K] = True
    log_leaving = np.log(probabilities(leaving, allowed), where=allowed, out=np.zeros((K, K + 1)))
    mixture = np.log(probabilities(n.reshape(M, K).T)).T
    return {
        "means": means.reshape(one.shapes["means"]),
        "log_sds": log_sds.reshape(one.shapes["means"]),
        "lower": lower.reshape(one.shapes["lower"]),
        "weights": mixture.reshape(one.shapes["weights"]),
        "start": np.log(probabilities(counts.start[None, one.starts])),
        "arcs": log_leaving[one.arcs[:, 0], one.arcs[:, 1]][None, :],
        "end": log_leaving[:, K][None, :],
        "prior": np.zeros(1),
        "follow": np.zeros((0, 0)),
    }


def probabilities(counts: Matrix, allowed: NDArray[np.bool_] | None = None) -> Matrix:
    """Return the shares of counts in their row, none too small; equal ones if there are none."""
    allowed = np.ones(counts.shape, dtype=np.bool_) if allowed is None else allowed
    totals = counts.sum(axis=1, keepdims=True)
    equal = allowed / allowed.sum(axis=1, keepdims=True)
    shares = np.where(totals > 0.0, counts / np.where(totals > 0.0, totals, 1.0), equal)
    shares = np.where(allowed, np.maximum(shares, SETTINGS.least_probability), 0.0)
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


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
        shared = hmms.covariance is Covariance.SHARED
        one = replace(
            hmms,
            n_classes=1,
            segments=False,
            covariance=Covariance.DIAGONAL if shared else hmms.covariance,
        )

        def begin(c: int) -> ClassFit:
            chosen = np.flatnonzero((labels == c) & (weights[owners] > 0.0))
            own = len(chosen) > 0
            if not own:
                chosen = np.flatnonzero(weights[owners] > 0.0)
            rows, offsets = tokens_of(bounds, chosen)
            return ClassFit(one, frames[rows], offsets, weights[owners[chosen]], floors, own=own)

        n_numbers = frames.size * one.n_states * one.n_components

        def each(work: Callable[[ClassFit], None], groups: list[list[ClassFit]]) -> None:
            with thread_limit(n_threads):
                map_parts(work, [*chain.from_iterable(groups)], n_numbers)

        fits = [begin(c) for c in range(hmms.n_classes)]
        # Classes that share a covariance make one group, which converges together.
        groups = [fits] if shared else [[fit] for fit in fits]
        for _ in range(self.n_alignments + 1):
            each(ClassFit.count_path, groups)
            for group in groups:
                maximize(group, floors, shared=shared)
        for _ in range(self.n_iterations):
            each(ClassFit.count_expected, groups)
            groups = [group for group in groups if not _has_converged(group)]
            for group in groups:
                maximize(group, floors, shared=shared)
        parts = _orders(hmms, labels, owners, weights)
        for name in hmms.shapes.keys() - parts.keys():
            by_gaussian = name in ("means", "log_sds", "lower", "weights")
            parts[name] = np.concatenate([fit.parts[name] for fit in fits], axis=int(by_gaussian))
        if shared:
            parts["log_sds"] = parts["log_sds"][0, 0, 0]
        return hmms.join(parts), [fit.history for fit in fits]


class ClassFit:
    """The model of one class while it is fitted.

    Attributes
    ----------
    parts : dict
        Its parameters.
    counts : Counts
        Of the last path, or the last expectations.
    history : list of float
        The log-likelihood before each EM step.
    own : bool
        Whether the frames are those of the class.
    """

    def __init__(
        self,
        one: GaussianHMMs,
        frames: Matrix,
        offsets: Indices,
        weights: Vector,
        floors: Vector,
        *,
        own: bool = True,
    ) -> None:
        self.one, self.own = one, own
        self._frames, self._offsets, self._weights = np.ascontiguousarray(frames), offsets, weights
        self._path: Path | None = None
        self.n_frames = float(weights @ np.diff(offsets))
        self.counts = no_counts(one)
        self.history: list[float] = []
        self.parts = one.split(np.zeros(one.n_parameters))
        center = np.average(frames, axis=0, weights=np.repeat(weights, np.diff(offsets)))
        self.parts["means"][...] = center
        spread = ((frames - center) ** 2).mean(axis=0)
        self.parts["log_sds"][...] = 0.5 * np.log(np.maximum(spread, floors))
        self._scores = np.empty((len(frames), one.n_states * one.n_components))

    def count_path(self) -> None:
        """Count along the best paths; the first time, along even ones."""
        one, frames, offsets = self.one, self._frames, self._offsets
        tables = one.tables(one.join(self.parts))
        if self._path is None:
            self._path = even_path(one, offsets)
            self._components = clusters(frames, self._path.states, one)
        else:
            fill_best(frames, 0, len(frames), tables.gaussians, len(self._scores.T), self._scores)
            scores = self._scores.reshape(len(frames), one.n_components, one.n_states)
            best_labels(offsets, 0, len(offsets) - 1, scores.max(axis=1), tables.moves, self._path)
            along = scores[np.arange(len(frames)), :, self._path.states]
            self._components = along.argmax(axis=1).astype(np.int32)
        self.counts = no_counts(one)
        count_path(
            frames, offsets, self._weights, self._path, self._components, tables.gaussians.means,
            one.n_states, self.counts,
        )  # fmt: skip

    def count_expected(self) -> None:
        """Count what is expected of all paths, and note the likelihood."""
        one, frames = self.one, self._frames
        tables, self.counts = one.tables(one.join(self.parts)), no_counts(one)
        fill_best(frames, 0, len(frames), tables.gaussians, len(self._scores.T), self._scores)
        self.history.append(
            count_expected(
                frames, self._offsets, self._weights, self._scores, tables.moves,
                tables.gaussians.means, self.counts,
            )
        )  # fmt: skip


def maximize(group: list[ClassFit], floors: Vector, *, shared: bool) -> None:
    """Give classes the parameters that are most likely, given their counts."""
    variance = None
    if shared:
        # Of the Gaussians of all classes, around the new means. A frame of a Gaussian whose mean
        # stays counts around the old one.
        total, n = np.zeros_like(floors), 0.0
        for counts in [fit.counts for fit in group if fit.own]:
            squares = counts.products - counts.gaussians[:, None] * _shifts(counts) ** 2
            total, n = total + squares.sum(axis=0), n + float(counts.gaussians.sum())
        variance = np.maximum(total / n, floors)
    for fit in group:
        fit.parts = reestimated(fit.one, fit.parts, fit.counts, floors, variance)


def _has_converged(group: list[ClassFit]) -> bool:
    if len(group[0].history) < 2:
        return False
    counted = [fit for fit in group if fit.own] or group
    gain = sum(fit.history[-1] - fit.history[-2] for fit in counted)
    return gain < SETTINGS.least_gain * sum(fit.n_frames for fit in counted)


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
        follow = np.log(probabilities(seen_pairs.reshape(C, C) + 1.0))
    return {"prior": np.log(probabilities(counts[None, :]))[0], "follow": follow}
