"""The margin risk of hidden Markov models (paper 004, equation 21).

    R(w) = sum_i weight_i * max_y [ F(x_i, y, w) + Delta(y_i, y) - F(x_i, y_i, w) ]

``F`` is the score of the best path through hidden states and Gaussians, as
:mod:`cutplane.models.speech.model` defines it. ``Delta`` is the margin if the class of a sequence
is wrong; where classes follow each other in a sequence, the margin for each wrong frame. The paper
prints a sum over sequences; this is their mean.

``F`` is a maximum over paths, which is subtracted too, and a path's score is not linear in ``w``:
the risk is not convex. It is never below 0, which the true output attains.
"""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector
from cutplane.compute.products import dot
from cutplane.compute.threads import default_threads, summed
from cutplane.core.protocols import KeptPoint, Plane
from cutplane.models.sequences.chain import tokens_of
from cutplane.models.speech.model import GaussianHMMs, blocks_of, no_path, state_scores
from cutplane.models.speech.paths import (
    GaussianSums,
    MoveSums,
    add_differences,
    worst_classes,
    worst_labels,
)
from cutplane.risks.composite import Summable
from cutplane.risks.scored import normalized


class HMMRisk(Summable):
    """Mean margin loss of hidden Markov models on sequences of real vectors.

    Parameters
    ----------
    hmms : GaussianHMMs
        The shape of the models.
    frames : array-like of shape (n_frames, n_features)
        The frames of all sequences, one after the other.
    offsets : array-like of shape (n_sequences + 1,)
        Where each sequence begins, and where the last ends. None is empty.
    y : array-like
        The class of each sequence, numbered from 0 on; of each frame, if classes follow each other.
    margin : float
        What a wrong class, or a wrong frame, must score less.
    weights : ndarray of shape (n_sequences,), optional
        Weights of the sequences, not negative; scaled to sum to one. Equal by default.
    n_threads : int, optional
        Number of threads; all cores by default. It has no influence on the results.

    Attributes
    ----------
    inferences : int
        How often best paths were looked for in a sequence.
    """

    convex = False
    unproven = "a score is a maximum over hidden states, and not linear in the parameters"
    lower_bound = 0.0

    def __init__(
        self,
        hmms: GaussianHMMs,
        frames: Any,
        offsets: Any,
        y: Any,
        *,
        margin: float = 1.0,
        weights: Vector | None = None,
        n_threads: int | None = None,
    ) -> None:
        self.hmms = hmms
        self.n_parameters = hmms.n_parameters
        self.frames = np.ascontiguousarray(frames, dtype=np.float64)
        self.offsets = np.asarray(offsets, dtype=np.int64)
        lengths = np.diff(self.offsets)
        if self.frames.ndim != 2 or self.frames.shape[1] != hmms.n_features:
            raise ValueError(
                f"frames have shape {self.frames.shape}, the models {hmms.n_features} features"
            )
        if not np.isfinite(self.frames).all():
            raise ValueError("frames must be finite")
        if not len(lengths) or (lengths < 1).any() or self.offsets[0] != 0:
            raise ValueError("offsets must begin with 0 and rise: no sequence is empty")
        if self.offsets[-1] != len(self.frames):
            raise ValueError(f"offsets end at {self.offsets[-1]}, there are {len(frames)} frames")
        self.y = np.asarray(y, dtype=np.int32)
        if self.y.shape != (len(self.frames) if hmms.segments else len(lengths),):
            what = "frames" if hmms.segments else "sequences"
            raise ValueError(f"y has shape {self.y.shape}: it must have a class for all {what}")
        if self.y.min() < 0 or self.y.max() >= hmms.n_classes:
            raise ValueError(f"y must be from 0 to {hmms.n_classes - 1}")
        if not 0.0 < margin < np.inf:
            raise ValueError(f"margin must be positive and finite, got {margin}")
        self.margin = float(margin)
        self.weights = normalized(weights, len(lengths))
        self.n_threads = default_threads() if n_threads is None else n_threads
        self.evaluations = 0
        self.inferences = 0

    @property
    def n_examples(self) -> int:
        """Number of sequences."""
        return len(self.offsets) - 1

    def part(self, examples: NDArray[np.int64] | slice) -> HMMRisk:
        """Return the risk of some sequences, by their numbers or as a slice.

        Weights are scaled to sum to one.
        """
        chosen = np.arange(self.n_examples)[examples]
        if not len(chosen):
            raise ValueError("a risk needs at least one sequence")
        part = copy(self)
        rows, part.offsets = tokens_of(self.offsets, chosen)
        part.frames = self.frames[rows]
        part.y = self.y[rows if self.hmms.segments else chosen]
        part.weights = normalized(self.weights[chosen], len(chosen))
        part.evaluations = part.inferences = 0
        return part

    def at(self, w: Vector) -> KeptPoint:
        """Evaluate the risk at ``w``: best paths of all sequences, and the slopes along them.

        Where densities overflow the risk is infinite.
        """
        self.evaluations += 1
        self.inferences += self.n_examples
        tables = self.hmms.tables(w)
        gains, mistakes = np.zeros(self.n_examples), np.zeros(self.n_examples)
        bounds = blocks_of(self.hmms, self.offsets)

        n_states, find = self.hmms.n_states, worst_labels if self.hmms.segments else worst_classes

        def block(k: int) -> tuple[GaussianSums, MoveSums]:
            sums, first, last = self.hmms.no_sums(), bounds[k], bounds[k + 1]
            if first == last:
                return sums
            begin, end = int(self.offsets[first]), int(self.offsets[last])
            E = state_scores(self.hmms, tables, self.frames, begin, end)
            worst, true = no_path(end - begin), no_path(end - begin)
            find(
                self.offsets, first, last, E, tables.moves,
                self.y[begin:end] if self.hmms.segments else self.y, self.margin, worst, true,
                gains, mistakes,
            )  # fmt: skip
            if mistakes[first:last].any():
                add_differences(
                    self.frames, self.offsets, first, last, tables.gaussians, E.shape[1], n_states,
                    self.weights, mistakes, worst, true, *sums,
                )  # fmt: skip
            return sums

        sums = summed(block, len(bounds) - 1, _add, n_threads=self.n_threads)
        value = float(np.sum(self.weights * gains))
        slope = self.hmms.gathered(*sums) if mistakes.any() else np.zeros(self.n_parameters)
        if not (np.isfinite(value) and np.isfinite(slope).all()):
            return KeptPoint(w, np.inf, Plane(np.zeros_like(w), np.inf))
        return KeptPoint(w, value, Plane(slope, value - dot(slope, w)))

    def identity(self) -> dict[str, Any]:
        """Return what the risk consists of."""
        return {
            "models": self.hmms,
            "frames": self.frames,
            "sequences": self.offsets,
            "labels": self.y,
            "weights": self.weights,
            "margin": self.margin,
        }

    def __repr__(self) -> str:
        return (
            f"HMMRisk({self.n_examples} sequences, {len(self.frames)} frames, "
            f"{self.hmms.n_classes} classes, {self.n_parameters} parameters)"
        )


def _add(sums: tuple[GaussianSums, MoveSums], found: tuple[GaussianSums, MoveSums]) -> None:
    for whole, part in zip(sums, found, strict=True):
        for own, other in zip(whole, part, strict=True):
            own += other
