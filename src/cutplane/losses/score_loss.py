"""What a risk of scores asks of a loss, whatever the shape of the scores.

A loss sees targets ``y``, scores ``z`` (one an example, or a row of them) and weights that sum to
one, never the features. Its tangent ``sum_i slopes_i * z'_i + offset`` lies below it for all scores
``z'``; the risk pulls it back to a plane in the parameters.

Offsets are added to the scores, one for each column of them, and may be minimized out:

    R(z) = min_c sum_i weight_i * loss(y_i, z_i + c)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.core.protocols import Quadratic

Scores = NDArray[np.float64]
Examples = NDArray[np.int64] | slice

# The kinds of losses that dual coordinate ascent knows: made of pieces, of residuals or of margins
# (`losses/piecewise.py`), and the logistic one. Subgradient steps know two more.
RESIDUAL_PIECES, MARGIN_PIECES, LOGISTIC, EXPONENTIAL, POISSON = range(5)


class AtBestOffset(NamedTuple):
    """A loss minimized over offsets that are added to the scores.

    ``offset`` is None if nothing was added. ``witness`` is what the loss found on the way and can
    use again for the tangent there.
    """

    offset: Any
    value: float
    witness: Any = None


class Tangent(NamedTuple):
    """A function ``slopes.z + offset`` of the scores that is never above the loss."""

    slopes: Scores
    offset: float


class Ray(NamedTuple):
    """Scores that move: ``scores + offsets + k * (direction + speeds)``, for ``k >= 0``."""

    scores: Scores
    offsets: Any
    direction: Scores
    speeds: Any

    @classmethod
    def standing_still(cls, scores: Scores, offsets: Any) -> Ray:
        """Return a ray to look at where it begins."""
        return cls(scores, offsets, scores, offsets)


class ScoreLoss(ABC):
    """A function of scores, as a risk sees it.

    Attributes
    ----------
    lower_bound : float
        A value that the loss never goes below, or ``-inf``.
    convex : bool
        Whether its tangents are below it everywhere. Only then is a gap a certificate.
    unproven : str
        Why a bound would be no proof; empty if it is one.
    of_residual : bool
        Whether only ``z - y`` matters, so that targets may be shifted together with the intercept.
    additive : bool
        Whether it is a sum over examples of one score each. Only then may the examples be split
        into groups with planes of their own.
    in_blocks : bool
        Whether all of its sums over examples are taken block by block, along the tree of
        `cutplane.compute.blocks`. Only then may the examples lie on several machines.
    of_differences : bool
        Whether a constant added to all scores changes nothing. The intercept is then no matter of
        the loss: `threshold` says where to put it.
    ties_intercepts : bool
        Whether minimizing over the intercepts would be a problem of its own, because the loss ties
        the scores of an example together: then they are parameters of the map.
    finds_offsets : bool
        Whether a loss that is not convex finds the best offsets all the same, the same ones each
        time: then they may be minimized out.
    convex_twin : Loss or None
        A convex loss whose minimizer is where to begin with one that is not convex.
    convex_part : Loss or None
        A convex loss such that this one less it is concave: what `cutplane.cccp` needs, with a
        method ``concave_slopes(y, scores)``, the derivative of the concave rest for each example.
    has_curvatures, has_conjugate : bool
        Whether there are second derivatives, and a conjugate.
    smooth : bool
        Whether no slope jumps.
    straight : bool
        Whether each example's loss is made of straight pieces, at most three, and so its conjugate.
    dual_form : tuple or None
        What dual coordinate ascent has to know of the loss: the number of its kind and a matrix;
        None if it does not know it.
    slope_form : tuple or None
        The same for compiled subgradient steps, which know more losses.
    shown : tuple of str
        The numbers that tell a loss from others of its class, which are shown with its name.
    """

    lower_bound: float = 0.0
    convex: bool = True
    unproven: str = ""
    of_residual: bool = False
    additive: bool = False
    in_blocks: bool = False
    of_differences: bool = False
    ties_intercepts: bool = False
    finds_offsets: bool = False
    convex_twin: Any = None
    convex_part: Any = None
    has_curvatures: bool = False
    has_conjugate: bool = False
    smooth: bool = False
    straight: bool = False
    dual_form: tuple[int, Matrix] | None = None
    shown: ClassVar[tuple[str, ...]] = ()

    @property
    def slope_form(self) -> tuple[int, Matrix] | None:
        """See above."""
        return self.dual_form

    @abstractmethod
    def targets(self, y: Any, n_samples: int, weights: Vector) -> NDArray[Any]:
        """Return the targets as the other methods take them, or raise ValueError."""

    def score_shape(self, y: NDArray[Any]) -> tuple[int, ...]:
        """Return the shape of an example's scores: ``()`` for one."""
        return ()

    def offset_shape(self, score_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the offsets: one for each column of the scores."""
        return score_shape

    def check_scores(
        self, y: NDArray[Any], weights: Vector, shape: tuple[int, ...], *, intercept: bool
    ) -> None:
        """Raise ValueError if the loss is not defined for scores of this shape."""
        if shape != self.score_shape(y):
            raise ValueError(
                f"{self!r} takes scores of shape {self.score_shape(y)} for each example, the map "
                f"gives {shape}"
            )

    def constants(self, y: NDArray[Any], weights: Vector) -> Vector:
        """Return the scores that a model without features would give to all examples."""
        raise NotImplementedError(f"{self!r} has no constants: it does not tie intercepts")

    def threshold(self, y: Any, scores: Any, weights: Vector) -> float:
        """Return the score above which to predict the positive class, for losses of differences."""
        return 0.0

    def part(self, examples: Examples) -> Self:
        """Return the loss of some examples: the same, unless it knows them one by one."""
        return self

    @abstractmethod
    def value(self, y: Any, scores: Any, weights: Vector) -> float:
        """Return the weighted sum of losses."""

    @abstractmethod
    def at_best_offset(self, y: Any, scores: Any, weights: Vector, guess: Any) -> AtBestOffset:
        """Minimize the loss over offsets; ``guess`` is where to begin, None if nothing is known."""

    @abstractmethod
    def tangent(self, y: Any, scores: Any, weights: Vector, at: AtBestOffset) -> Tangent:
        """Return the tangent at ``scores``, or at the best offsets added to them.

        The tangent at the best offsets bounds the minimum over offsets: its slopes sum to zero.
        """

    def slopes_at(self, y: Any, scores: Any, weights: Vector, at: AtBestOffset) -> Scores:
        """Return the slopes of the tangent alone; a loss may know a faster way."""
        return self.tangent(y, scores, weights, at).slopes

    def ray(self, start: Scores, offsets: Any, end: Scores, end_offsets: Any) -> Ray:
        """Return the ray from some scores, with offsets, through others with theirs."""
        return Ray(start, offsets, end - start, end_offsets - offsets)

    @abstractmethod
    def on_ray(self, y: Any, ray: Ray, weights: Vector, step: float) -> tuple[float, float]:
        """Return the loss on the ray at ``step``, and its derivative by the step."""

    @abstractmethod
    def minimize_on_ray(self, y: Any, ray: Ray, weights: Vector, extra: Quadratic) -> float:
        """Return the ``k >= 0`` that minimizes the loss on the ray plus ``extra(k)``."""

    def __repr__(self) -> str:
        numbers = ", ".join(f"{getattr(self, name):g}" for name in self.shown)
        return f"{type(self).__name__}({numbers})"


def positive(name: str, value: float) -> float:
    """Return the value of a parameter, or raise ValueError unless it is positive and finite."""
    if not (np.isfinite(value) and value > 0.0):
        raise ValueError(f"{name} must be positive and finite, got {value}")
    return float(value)


def not_negative(name: str, value: float) -> float:
    """Return the value of a parameter, or raise ValueError if it is negative or not finite."""
    if not (np.isfinite(value) and value >= 0.0):
        raise ValueError(f"{name} must be finite and not negative, got {value}")
    return float(value)
