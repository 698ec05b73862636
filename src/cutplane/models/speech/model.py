"""The hidden Markov models of several classes, as one vector of parameters.

A class has K states, a state M Gaussians. A path through the states ``s`` and Gaussians ``m`` of a
class ``y`` scores the logarithm of its joint density with the frames (paper 004, section 5.5):

    prior[y] + start[s_1] + sum_t (arcs[s_t-1, s_t] + weights[s_t, m_t] + log N(x_t)) + end[s_n]

with ``log N(x) = -sum_d (z_d^2 / 2 + log sd_d) - D/2 log 2 pi`` and ``z = (x - mean) / sd``. With
full covariances ``z_d = (x_d - mean_d + sum_j<d lower_dj (x_j - mean_j)) / sd_d``: a feature is
regressed on those before it, and ``sd`` is what that leaves. Where classes follow each other in one
sequence, ``follow[y, y']`` and ``end`` of the one and ``start`` of the other are between them.

Scores need not be logarithms of probabilities that sum to one, and spreads are logarithms: so any
vector is a model, and nothing has to be projected.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.blocks import count_blocks
from cutplane.compute.threads import default_threads, run_blocks
from cutplane.models.sequences.chain import Indices, cut
from cutplane.models.speech.paths import (
    ENTERED,
    Gaussians,
    GaussianSums,
    Moves,
    MoveSums,
    Path,
    best_labels,
    class_scores,
    fill_best,
)

Array = NDArray[np.float64]


class Topology(StrEnum):
    """Which state may follow which.

    Left to right, a path begins in the first state, stays, goes on by one state or skips one, and
    may end anywhere: so no sequence is too short. In an ergodic model all is possible.
    """

    LEFT_TO_RIGHT = "left-to-right"
    ERGODIC = "ergodic"


class Covariance(StrEnum):
    """What Gaussians have for a covariance: a diagonal, one that all share, or a matrix each."""

    DIAGONAL = "diagonal"
    SHARED = "shared"
    FULL = "full"


_FARTHEST_JUMP = 2  # left to right
# How much scores count in a regularizer, beside means in standard deviations: chosen on Spoken
# Arabic Digits (docs/decisions/2026-11-18-structured-measured.md).
_SCORES = 0.03


class Tables(NamedTuple):
    """What paths are scored by: the parameters, arranged for the kernels."""

    gaussians: Gaussians
    moves: Moves


@dataclass(frozen=True)
class GaussianHMMs:
    """The shape of hidden Markov models, one for each class; their parameters are one vector.

    Parameters
    ----------
    n_classes, n_states, n_components, n_features : int
        States are those of a class, components the Gaussians of a state.
    topology : Topology
    covariance : Covariance
    segments : bool
        Whether classes follow each other in a sequence; otherwise a sequence has one class.
    """

    n_classes: int
    n_states: int
    n_components: int
    n_features: int
    topology: Topology = Topology.LEFT_TO_RIGHT
    covariance: Covariance = Covariance.DIAGONAL
    segments: bool = False

    def __post_init__(self) -> None:
        for name in ("n_classes", "n_states", "n_components", "n_features"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """The states of a class that a path may begin in."""
        n = 1 if self.topology is Topology.LEFT_TO_RIGHT else self.n_states
        return np.arange(n)

    @cached_property
    def arcs(self) -> NDArray[np.int64]:
        """The pairs of states, from (first column) and to, that may follow each other."""
        states = np.arange(self.n_states)
        jumps = states - states[:, None]
        anywhere = self.topology is Topology.ERGODIC
        return np.argwhere(anywhere | ((jumps >= 0) & (jumps <= _FARTHEST_JUMP)))

    @cached_property
    def jumps(self) -> NDArray[np.int64]:
        """By how many states arcs go forward, each once."""
        return np.unique(self.arcs[:, 1] - self.arcs[:, 0])

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the parts of a vector of parameters, in their order."""
        C, K, M, D = self.n_classes, self.n_states, self.n_components, self.n_features
        shared, full = self.covariance is Covariance.SHARED, self.covariance is Covariance.FULL
        return {
            "means": (M, C, K, D),
            "log_sds": (D,) if shared else (M, C, K, D),
            "lower": (M, C, K, D * (D - 1) // 2 if full else 0),
            "weights": (M, C, K),
            "start": (C, len(self.starts)),
            "arcs": (C, len(self.arcs)),
            "end": (C, K),
            "prior": (C,),
            "follow": (C, C) if self.segments else (0, 0),
        }

    @cached_property
    def n_parameters(self) -> int:
        """Length of the vector."""
        return sum(math.prod(shape) for shape in self.shapes.values())

    def split(self, w: Vector) -> dict[str, Array]:
        """Return the parts of a vector of parameters, by name: views of it."""
        ends = np.cumsum([math.prod(shape) for shape in self.shapes.values()])
        named = zip(self.shapes.items(), np.split(w, ends[:-1]), strict=True)
        return {name: part.reshape(shape) for (name, shape), part in named}

    def join(self, parts: dict[str, Array]) -> Vector:
        """Return the vector that has these parts."""
        w = np.empty(self.n_parameters)
        for name, part in self.split(w).items():
            part[...] = parts[name]
        return w

    def tables(self, w: Vector) -> Tables:
        """Return the parameters as the kernels read them: one column a Gaussian, or a state."""
        part, D, S = self.split(w), self.n_features, self.n_classes * self.n_states
        means = part["means"].reshape(-1, D)
        log_sds = part["log_sds"].reshape(-1, D)
        if len(log_sds) < len(means):  # one for all
            log_sds = np.repeat(log_sds, len(means), axis=0)
        constants = part["weights"].ravel() - log_sds.sum(axis=1) - 0.5 * D * math.log(2 * math.pi)
        with np.errstate(over="ignore"):  # what overflows makes a risk that is infinite
            scales = np.exp(-log_sds.T)
        lower = part["lower"].reshape(len(log_sds), -1).T
        start, bands = np.full(S, -np.inf), np.full(len(self.jumps) * S, -np.inf)
        start[self._places_of_starts] = part["start"]
        bands[self._places_of_arcs] = part["arcs"]
        return Tables(
            Gaussians(
                np.ascontiguousarray(means.T),
                np.ascontiguousarray(scales),
                np.ascontiguousarray(lower),
                constants,
            ),
            Moves(
                start,
                bands.reshape(-1, S),
                self.jumps,
                part["end"].flatten(),  # copies: one type for the kernels, whatever w is
                part["prior"].copy(),
                part["follow"].copy(),
            ),
        )

    def no_sums(self) -> tuple[GaussianSums, MoveSums]:
        """Return zeros: room for sums of slopes by all that the tables hold."""
        S, D = self.n_classes * self.n_states, self.n_features
        G = self.n_components * S
        gaussians = (G, D), (G, D), (G, self.shapes["lower"][-1]), (G,)
        moves = (S,), (len(self.jumps), S), (S,), (self.n_classes,), self.shapes["follow"]
        return GaussianSums(*map(np.zeros, gaussians)), MoveSums(*map(np.zeros, moves))

    def gathered(self, gaussians: GaussianSums, moves: MoveSums) -> Vector:
        """Return slopes by the entries of the tables as a vector of slopes by the parameters."""
        C, K = self.n_classes, self.n_states
        log_sds = gaussians.log_sds
        return self.join(
            {
                "means": gaussians.means.reshape(self.shapes["means"]),
                "log_sds": log_sds.sum(axis=0)
                if self.covariance is Covariance.SHARED
                else log_sds.reshape(self.shapes["means"]),
                "lower": gaussians.lower.reshape(self.shapes["lower"]),
                "weights": gaussians.weights.reshape(self.shapes["weights"]),
                "start": moves.start[self._places_of_starts],
                "arcs": moves.bands.ravel()[self._places_of_arcs],
                "end": moves.end.reshape(C, K),
                "prior": moves.prior,
                "follow": moves.follow,
            }
        )

    @cached_property
    def _places_of_starts(self) -> NDArray[np.int64]:
        """Where the parameters of starts stand among all states."""
        return np.arange(self.n_classes)[:, None] * self.n_states + self.starts

    @cached_property
    def _places_of_arcs(self) -> NDArray[np.int64]:
        """Where the parameters of arcs stand in the bands: rows are jumps, columns all states."""
        to = np.arange(self.n_classes)[:, None] * self.n_states + self.arcs[:, 1]
        return self.band_of_arc * (self.n_classes * self.n_states) + to

    @cached_property
    def band_of_arc(self) -> NDArray[np.int64]:
        """The number of each arc's jump."""
        return np.searchsorted(self.jumps, self.arcs[:, 1] - self.arcs[:, 0])

    def scale_free_weights(
        self, w: Vector, *, spreads: float = 1.0, scores: float = _SCORES
    ) -> Vector:
        """Return weights for a regularizer around ``w`` that do not depend on the features' units.

        A mean counts in standard deviations, the logarithm of one as it is: a move of a mean by
        one standard deviation costs as much as a spread that is e times as large. ``lower`` counts
        by what it adds to ``z`` per standard deviation of the other feature. Scores, which are
        logarithms of mixture weights, transitions and priors, count less by default: one adds to a
        path once where a mean acts through a whole frame.

        Parameters
        ----------
        w : ndarray
            The center, such as the solution of maximum likelihood.
        spreads, scores : float
            Factors for spreads, and for all that is no mean and no spread.
        """
        log_sds = np.broadcast_to(self.split(w)["log_sds"], self.shapes["means"])
        full = self.covariance is Covariance.FULL
        below, before = np.tril_indices(self.n_features if full else 0, -1)
        factors: dict[str, Array] = {
            name: np.full(shape, scores) for name, shape in self.shapes.items()
        }
        factors["means"] = np.exp(-log_sds)
        factors["log_sds"] = np.full(self.shapes["log_sds"], spreads)
        factors["lower"] = spreads * np.exp(log_sds[..., before] - log_sds[..., below])
        return self.join(factors)


def no_path(n_frames: int) -> Path:
    """Return room for a path."""
    return Path(np.empty(n_frames, dtype=np.int32), np.empty(n_frames, dtype=np.int32))


def blocks_of(hmms: GaussianHMMs, offsets: Indices) -> list[int]:
    """Return where blocks of sequences begin, and the last ends: of about as many frames each."""
    n_gaussians = hmms.n_classes * hmms.n_states * hmms.n_components
    work = int(offsets[-1]) * n_gaussians * hmms.n_features
    return [*map(int, cut(offsets, max(1, min(count_blocks(work), len(offsets) - 1))))]


def state_scores(
    hmms: GaussianHMMs, tables: Tables, frames: Matrix, begin: int, end: int
) -> Matrix:
    """Return what each state scores at some frames, by its best Gaussian."""
    n_all = hmms.n_classes * hmms.n_states
    scores = np.empty((end - begin, n_all))
    fill_best(frames, begin, end, tables.gaussians, n_all, scores)
    return scores


def _search(
    search: Callable[[int, int, Matrix, Moves], None],
    hmms: GaussianHMMs,
    w: Vector,
    frames: Matrix,
    offsets: Indices,
    n_threads: int | None,
) -> None:
    """Call a search on the sequences ``i <= k < j`` of each block, with their states' scores."""
    tables, bounds = hmms.tables(w), blocks_of(hmms, offsets)

    def run(first: int, last: int) -> None:
        for i, j in pairwise(bounds[first : last + 1]):
            if i < j:
                E = state_scores(hmms, tables, frames, int(offsets[i]), int(offsets[j]))
                search(i, j, E, tables.moves)

    run_blocks(run, len(bounds) - 1, n_threads=n_threads or default_threads())


def score_classes(
    hmms: GaussianHMMs, w: Vector, frames: Matrix, offsets: Indices, *, n_threads: int | None = None
) -> Matrix:
    """Return the score of the best path of each class (column) for each sequence."""
    found = np.empty((len(offsets) - 1, hmms.n_classes))

    def search(i: int, j: int, E: Matrix, moves: Moves) -> None:
        found[i:j] = class_scores(offsets, i, j, E, moves)

    _search(search, hmms, w, frames, offsets, n_threads)
    return found


def label_frames(
    hmms: GaussianHMMs, w: Vector, frames: Matrix, offsets: Indices, *, n_threads: int | None = None
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Return the class of each frame on the best path, and whether it begins a segment."""
    states, jumps = no_path(int(offsets[-1]))

    def search(i: int, j: int, E: Matrix, moves: Moves) -> None:
        here = slice(offsets[i], offsets[j])
        best_labels(offsets, i, j, E, moves, Path(states[here], jumps[here]))

    _search(search, hmms, w, frames, offsets, n_threads)
    return states // np.int32(hmms.n_states), jumps == ENTERED
