"""Maximum likelihood: segmental k-means, then expectation maximization.

Each class is fitted to its own sequences. At first each is cut into equal parts, one a state, and
the frames of a state into clusters, one a Gaussian. Then paths and models are found in turn, first
by the best paths (segmental k-means), then by all paths with their probabilities (EM, which never
lowers the likelihood as long as no floor is touched).

Where all Gaussians share a covariance, the classes go step by step together, and what never falls
is the sum of their likelihoods.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.threads import default_threads, run_blocks
from cutplane.structured.chains.kernels import Indices
from cutplane.structured.hmm.alignment import clusters, even_path
from cutplane.structured.hmm.gaussians import fill_best
from cutplane.structured.hmm.likelihood import align, count_expected, count_path
from cutplane.structured.hmm.maximization import (
    no_counts,
    probabilities,
    reestimated,
    shared_variance,
)
from cutplane.structured.hmm.model import Array, Covariance, GaussianHMMs
from cutplane.structured.hmm.paths import Path

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
            parts = [frames[bounds[i] : bounds[i + 1]] for i in chosen]
            ends = np.cumsum([0, *(len(part) for part in parts)])
            return ClassFit(
                one, np.concatenate(parts), ends, weights[owners[chosen]], floors, own=own
            )

        def each(work: Callable[[ClassFit], None], groups: list[list[ClassFit]]) -> None:
            fits = [fit for group in groups for fit in group]

            def block(first: int, last: int) -> None:
                for fit in fits[first:last]:
                    work(fit)

            run_blocks(block, len(fits), n_threads=n_threads or default_threads())

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
        parts = _side_by_side(fits, shared=shared)
        parts |= _orders(hmms, labels, owners, weights)
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
        self._components: Path | None = None
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
        if self._path is None or self._components is None:
            self._path = path = even_path(one, offsets)
            self._components = Path(clusters(frames, path.states, one), path.jumps)
        else:
            fill_best(frames, 0, len(frames), tables.gaussians, len(self._scores.T), self._scores)
            align(offsets, self._scores, tables.moves, self._path, self._components)
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
        variance = shared_variance([fit.counts for fit in group if fit.own], floors)
    for fit in group:
        fit.parts = reestimated(fit.one, fit.parts, fit.counts, floors, variance)


def _has_converged(group: list[ClassFit]) -> bool:
    if len(group[0].history) < 2:
        return False
    counted = [fit for fit in group if fit.own] or group
    gain = sum(fit.history[-1] - fit.history[-2] for fit in counted)
    return gain < _LEAST_GAIN * sum(fit.n_frames for fit in counted)


def _side_by_side(fits: list[ClassFit], *, shared: bool) -> dict[str, Array]:
    """Return the models of all classes side by side."""
    parts = {
        name: np.concatenate([fit.parts[name] for fit in fits], axis=axis)
        for name, axis in {
            **dict.fromkeys(("means", "log_sds", "lower", "weights"), 1),
            **dict.fromkeys(("start", "arcs", "end"), 0),
        }.items()
    }
    if shared:
        parts["log_sds"] = parts["log_sds"][0, 0, 0]
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
        follow = np.log(probabilities(seen_pairs.reshape(C, C) + 1.0))
    return {"prior": np.log(probabilities(counts[None, :]))[0], "follow": follow}
