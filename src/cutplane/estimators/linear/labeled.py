"""What the labeled examples among many say: which they are, and what share a class has.

A transductive fit can move the boundary through the bulk of the unlabeled examples, where one class
is rare above all: their mean score is held, but scores can grow until that says nothing. The labels
know better. A share of the second class among the unlabeled examples that is farther from the share
among the labeled ones than chance explains, and than what the machine of the labeled ones predicts,
contradicts them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector
from cutplane.core.certificate import Certificate, Result
from cutplane.maps import Rows

# How many standard errors of the share of a class the predictions may be off.
_ERRORS = 2.0


@dataclass(frozen=True, slots=True)
class LabeledMachine:
    """A support vector machine of the labeled examples, and what they say of the share.

    Attributes
    ----------
    w, intercept, certificate
        The machine.
    share, n_labeled : float
        The share of the second class among the labeled examples, and how many they are.
    before : float
        The share that the machine predicts for the others.
    free : ndarray of shape (n_samples,)
        Weights of the unlabeled examples, zero for the labeled ones.
    """

    w: Vector
    intercept: float
    certificate: Certificate
    share: float
    n_labeled: float
    before: float
    free: Vector

    @classmethod
    def of(
        cls, found: Result, rows: Rows, y: Vector, weights: Vector, free: Vector
    ) -> LabeledMachine:
        """Return the machine that a run has found for labels -1 and 1."""
        point: Any = found.point  # as in a fit of its own
        intercept, n_labeled = float(point.intercept), float(weights.sum())
        share = float(weights[y > 0.0].sum()) / n_labeled
        before = _share(rows.scores(found.w) + intercept, free)
        return cls(found.w, intercept, found.certificate, share, n_labeled, before, free)

    def is_contradicted_by(self, scores: Vector) -> bool:
        """Say whether these scores predict a share that the labels speak against."""
        # Two more examples, one of each class: no share is certain.
        n = self.n_labeled + 2.0
        guess = (self.share * self.n_labeled + 1.0) / n
        error = math.sqrt(guess * (1.0 - guess) / n)
        far = abs(_share(scores, self.free) - self.share)
        return far > max(_ERRORS * error, abs(self.before - self.share))


def _share(scores: Vector, weights: Vector) -> float:
    return float(weights[scores > 0.0].sum() / weights.sum())


def is_unlabeled(labels: NDArray[Any], mark: Any) -> NDArray[np.bool_]:
    """Say of each label whether it is none."""
    if labels.dtype.kind == "O":
        missing = [label is None or label != label or label == mark for label in labels.ravel()]
        return np.array(missing, dtype=np.bool_).reshape(labels.shape)
    # Words are never numbers, which NumPy would not compare.
    comparable = isinstance(mark, str) == (labels.dtype.kind in "US")
    marked = np.asarray(labels == mark if comparable else np.zeros(labels.shape, dtype=np.bool_))
    return np.asarray(marked | np.isnan(labels) if labels.dtype.kind == "f" else marked)
