"""Losses: what a risk of scores asks of one, those of one score per example, and sums of these.

A loss sees targets ``y``, scores ``z`` (one per example, or a row of them) and weights that sum to
one, never the features. Its tangent ``sum_i slopes_i * z'_i + offset`` lies below it for all scores
``z'``; the risk pulls it back to a plane in the parameters.

Offsets are added to the scores, one for each column of them, and may be minimized out:

    R(z) = min_c sum_i weight_i * loss(y_i, z_i + c)

`ScoreLoss` is that contract. `Loss` has one score per example, with searches along rays and over
the offset. `SharedScore` is a sum of several losses, each with an offset of its own; `TiltedLoss`
adds a linear function.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from cutplane.compute.arrays import EPS, Matrix, Vector, empty
from cutplane.compute.blocks import total
from cutplane.compute.products import (
    between,
    largest_size_over,
    product_over,
    sum_and_size_over,
    sum_over,
)
from cutplane.compute.threads import map_arrays, map_blocks
from cutplane.core.protocols import NonFiniteRisk, Quadratic
from cutplane.core.search import minimize_on_ray, minimize_roughly
from cutplane.named import ByName

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
    value: Annotated[float, "float"]
    witness: Annotated[Any, "witness"] = None


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
    n_offsets : int or None
        How many offsets there are, if not one for each column of the scores.
    ties_intercepts : bool
        Whether minimizing over the intercepts would be a problem of its own, because the loss ties
        the scores of an example together: then they are parameters of the map.
    finds_offsets : bool
        Whether a loss that is not convex finds the best offsets all the same, whatever the guess
        is: then they may be minimized out.
    convex_twin : Loss or None
        A convex loss whose minimizer is where to begin with one that is not convex.
    convex_part : Loss or None
        A convex loss such that this one less it is concave: what `cutplane.cccp` needs, with a
        method ``concave_slopes(y, scores)``, the derivative of the concave rest for each example.
    of_shares : bool
        Whether its slopes are shares of classes, less one for the own, and offsets take a search.
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
    n_offsets: int | None = None
    ties_intercepts: bool = False
    finds_offsets: bool = False
    of_shares: ClassVar[bool] = False
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

    def at_scores_of_zero(self, y: Any, weights: Vector) -> AtBestOffset | None:
        """Minimize the loss where all scores are zero, if that is less work there."""
        return None

    def at_offset(self, y: Any, scores: Any, weights: Vector, offset: Any) -> AtBestOffset:
        """Return the loss at offsets that are known, where finding the best takes a search."""
        return self.at_best_offset(y, scores, weights, offset)

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


def not_negative(name: str, value: float) -> float:
    """Return the value of a parameter, or raise ValueError if it is negative or not finite."""
    if not (np.isfinite(value) and value >= 0.0):
        raise ValueError(f"{name} must be finite and not negative, got {value}")
    return float(value)


Task = Literal["classification", "regression", "ranking"]


class Loss(ScoreLoss):
    """A function of one score an example, convex unless it says otherwise.

    A new loss needs only ``__call__``. It should also give `conjugate`, which makes its planes
    exact to rounding, and may replace the searches with faster ones. Whether there are conjugates
    and curvatures is seen from whether these methods are written.

    Attributes
    ----------
    task : {"classification", "regression", "ranking"}
        Classification losses see ``y`` in {-1, 1}; the others see numbers.
    search_slack : float
        The share of the possible gain that `minimize_along` may leave to save evaluations.
    ignores_targets : bool
        Whether targets have no meaning, as for examples without a label.
    steady_curvature : bool
        Whether the logarithm of the second derivative changes by at most as much as the score.
    """

    task: ClassVar[Task]
    additive = True
    search_slack: ClassVar[float] = 0.0
    ignores_targets: ClassVar[bool] = False
    steady_curvature: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "has_conjugate" not in vars(cls):
            cls.has_conjugate = cls.conjugate is not Loss.conjugate
        if "has_curvatures" not in vars(cls):
            cls.has_curvatures = cls.curvatures is not Loss.curvatures

    @abstractmethod
    def __call__(self, y: Vector, scores: Vector, weights: Vector) -> tuple[float, Vector]:
        """Return the weighted sum of losses and its derivative by each score."""

    def value(self, y: Vector, scores: Vector, weights: Vector) -> float:
        """Return the weighted sum of losses alone; a loss may know a faster way."""
        return self(y, scores, weights)[0]

    def slopes(self, y: Vector, scores: Vector, weights: Vector) -> Vector:
        """Return the derivative by each score alone; a loss may know a faster way."""
        return self(y, scores, weights)[1]

    def conjugate(self, y: Vector, slopes: Vector, weights: Vector) -> float | None:
        """Return ``max_z slopes.z - loss(y, z)``: infinite outside its domain, None if unknown."""
        return None

    def known_conjugate(self, y: Vector, slopes: Vector, weights: Vector) -> float:
        """Return the conjugate of a loss that has one."""
        conjugate = self.conjugate(y, slopes, weights)
        assert conjugate is not None
        return conjugate

    def known_curvatures(self, y: Vector, scores: Vector, weights: Vector) -> Vector:
        """Return the second derivatives of a loss that has them."""
        curvatures = self.curvatures(y, scores, weights)
        assert curvatures is not None
        return curvatures

    def curvatures(self, y: Vector, scores: Vector, weights: Vector) -> Vector | None:
        """Return the second derivative by each score, None if unknown."""
        return None

    def smoothed(self, width: float) -> Loss:
        """Return the loss with its kinks rounded: ``min_u loss(u) + (z - u)^2 / (2*width)``.

        Its slopes are slopes of the loss itself at ``u``. A loss without kinks returns itself.
        """
        return self

    def check_targets(self, y: Vector) -> None:
        """Raise ValueError if the loss is not defined for these targets."""
        if not np.isfinite(y).all():
            raise ValueError("a target is not finite")
        if self.task == "classification" and not (np.abs(y) == 1.0).all():
            raise ValueError("the targets of a classification loss are -1 and 1")

    def check_weights(self, weights: Vector) -> None:
        """Raise ValueError if the loss is not defined for these weights, all of them positive."""

    def predict(self, scores: Vector) -> Vector:
        """Return what a regression model with this loss predicts: the score itself by default."""
        return scores

    def probability(self, scores: Vector) -> Vector | None:
        """Return the probability of the positive class, or None if the loss implies none."""
        return None

    def tangent_offset(
        self, y: Vector, scores: Vector, slopes: Vector, weights: Vector, value: float | None = None
    ) -> float:
        """Return the offset of the tangent with these slopes at these scores.

        Through the conjugate it has no cancellation, and is right even where the slopes are not
        exactly those at ``scores``. Else it needs the ``value`` of the loss there. If the slopes
        sum to zero, that may be the value at scores shifted by a constant.
        """
        conjugate = self.conjugate(y, slopes, weights)
        if conjugate is not None:
            return -conjugate
        if value is None:
            value = self.value(y, scores, weights)
        return value - product_over(slopes, scores)

    def targets(self, y: Any, n_samples: int, weights: Vector) -> Vector:
        """Return the targets, one number an example, or raise ValueError."""
        numbers = np.ascontiguousarray(y, dtype=np.float64)
        if numbers.shape != (n_samples,):
            raise ValueError(f"y has shape {numbers.shape}, X has {n_samples} rows")
        if self.ignores_targets:
            return np.ones(n_samples)
        used = weights > 0.0
        self.check_targets(numbers[used])
        self.check_weights(weights[used])
        return numbers

    def at_best_offset(
        self, y: Vector, scores: Vector, weights: Vector, guess: float | None
    ) -> AtBestOffset:
        """Minimize the loss over a constant added to all scores, beginning at a guess."""
        if not guess or self.finds_offsets:
            return self.minimize_offset(y, scores, weights)
        best = self.minimize_offset(y, scores + guess, weights)
        return best._replace(offset=best.offset + guess)

    def tangent(self, y: Vector, scores: Vector, weights: Vector, at: AtBestOffset) -> Tangent:
        """Return the tangent at ``scores``, or at the best constant added to them."""
        slopes = self.slopes_at(y, scores, weights, at)
        return Tangent(slopes, self.tangent_offset(y, scores, slopes, weights, value=at.value))

    def slopes_at(self, y: Vector, scores: Vector, weights: Vector, at: AtBestOffset) -> Vector:
        """Return the slopes of the tangent alone."""
        if at.offset is None:
            return self.slopes(y, scores, weights)
        return self.zero_sum_slopes(y, scores, at.offset, weights)

    def ray(self, start: Vector, offsets: float, end: Vector, end_offsets: float) -> Ray:
        """Return the ray from some scores through others, with the constants added to them."""
        direction = empty(*start.shape)
        begin = empty(*start.shape) if offsets or end_offsets else start

        def block(i: slice) -> None:
            np.subtract(end[i], start[i], out=direction[i])
            if begin is not start:
                np.add(start[i], offsets, out=begin[i])
                direction[i] += end_offsets - offsets

        map_blocks(block, len(start))
        return Ray(begin, 0.0, direction, 0.0)

    def on_ray(self, y: Vector, ray: Ray, weights: Vector, step: float) -> tuple[float, float]:
        """Return the loss on the ray at ``step``, and its derivative by the step."""
        value, slopes = self(y, ray.scores + step * ray.direction, weights)
        return value, product_over(slopes, ray.direction)

    def minimize_on_ray(self, y: Vector, ray: Ray, weights: Vector, extra: Quadratic) -> float:
        """Return the ``k >= 0`` that minimizes the loss on the ray plus ``extra(k)``."""
        return self.minimize_along(y, ray.scores, ray.direction, weights, extra)

    def minimize_along(
        self, y: Vector, scores: Vector, direction: Vector, weights: Vector, extra: Quadratic
    ) -> float:
        """Return the ``k >= 0`` that minimizes ``loss(scores + k*direction) + extra(k)``."""
        ray = Ray(scores, 0.0, direction, 0.0)

        def along(step: float) -> tuple[float, float]:
            return self.on_ray(y, ray, weights, step)

        if self.search_slack > 0.0:
            return minimize_roughly(along, extra, share=self.search_slack)
        return minimize_on_ray(along, extra)

    def minimize_offset(self, y: Vector, scores: Vector, weights: Vector) -> AtBestOffset:
        """Minimize the loss over a constant added to all scores."""
        offset = self._best_offset(y, scores, weights)
        return AtBestOffset(offset, self._value_at(y, scores, offset, weights))

    def zero_sum_slopes(self, y: Vector, scores: Vector, offset: float, weights: Vector) -> Vector:
        """Return slopes at ``scores + offset`` that sum to zero; ``offset`` must be the best one.

        Slopes that sum to zero belong to a tangent that does not change with the constant, so it
        bounds the minimum from below for all other scores too. At a kink they are a mean of
        those on both sides.
        """
        slopes = self._slopes_at(y, scores, offset, weights)
        total, size = sum_and_size_over(slopes)
        if not np.isfinite(total):
            raise NonFiniteRisk("the loss is not finite for any intercept")
        if abs(total) <= 4.0 * EPS * size:
            return slopes
        # The minimum is at a kink or off by rounding: look a little to the other side of it.
        width = 4.0 * EPS * (abs(offset) + largest_size_over(scores) + 1.0)
        while True:
            beyond = self._slopes_at(y, scores, offset - np.copysign(width, total), weights)
            rest = sum_over(beyond)
            if np.sign(rest) * np.sign(total) <= 0.0:  # their own product may underflow to zero
                return between(slopes, beyond, total / (total - rest), out=beyond)
            width *= 4.0
            if not np.isfinite(width):
                raise NonFiniteRisk("the loss has no minimum over the intercept")

    def _value_at(self, y: Vector, scores: Vector, offset: float, weights: Vector) -> float:
        """Return the loss of ``scores + offset``."""
        return self.value(y, scores + offset, weights)

    def _slopes_at(self, y: Vector, scores: Vector, offset: float, weights: Vector) -> Vector:
        """Return the slopes at ``scores + offset``, in a vector of their own."""
        return self.slopes(y, scores + offset, weights)

    def _best_offset(self, y: Vector, scores: Vector, weights: Vector) -> float:
        if self.of_differences:
            return 0.0
        direction = np.ones_like(scores)
        if sum_over(self.slopes(y, scores, weights)) > 0.0:
            direction = -direction
        step = self.minimize_along(y, scores, direction, weights, Quadratic(0.0, 0.0))
        return step * float(direction[0])


class OffsetLoss(Loss):
    """A loss of two compiled loops, before which an offset is added block by block.

    So no vector of moved scores is needed.

    Attributes
    ----------
    loops : tuple of two functions
        Of targets, scores and weights: what returns the weighted sum of losses, and what fills in
        its derivative by each score.
    form : tuple
        What both loops take before that.
    """

    loops: ClassVar[tuple[Callable[..., float], Callable[..., None]]]
    form: tuple[Any, ...] = ()
    in_blocks = True

    def __call__(self, y: Vector, scores: Vector, weights: Vector) -> tuple[float, Vector]:
        """Return the weighted sum of losses and its derivative by each score."""
        return self.value(y, scores, weights), self.slopes(y, scores, weights)

    def value(self, y: Vector, scores: Vector, weights: Vector) -> float:
        """Return the weighted sum of losses."""
        return self._value_at(y, scores, 0.0, weights)

    def slopes(self, y: Vector, scores: Vector, weights: Vector) -> Vector:
        """Return the derivative by each score."""
        return self._slopes_at(y, scores, 0.0, weights)

    def _value_at(self, y: Vector, scores: Vector, offset: float, weights: Vector) -> float:
        loop, form = self.loops[0], self.form
        sums = map_arrays(
            lambda y, z, p: loop(*form, y, z + offset if offset else z, p), y, scores, weights
        )
        return float(total(sums))

    def _slopes_at(self, y: Vector, scores: Vector, offset: float, weights: Vector) -> Vector:
        loop, form, out = self.loops[1], self.form, empty(*scores.shape)
        map_arrays(
            lambda y, z, p, out: loop(*form, y, z + offset if offset else z, p, out),
            *(y, scores, weights, out),
        )
        return out


class SharedScore(ScoreLoss):
    """The sum of several losses of one score, each with an intercept of its own.

    Targets have a column for each loss; a single column serves all of them.

    Parameters
    ----------
    losses : sequence of Loss
        What looks at the score.
    """

    def __init__(self, losses: Sequence[Loss]) -> None:
        self.losses = list(losses)
        if not self.losses:
            raise ValueError("a risk needs at least one loss")
        for loss in self.losses:
            if not isinstance(loss, Loss):
                raise TypeError(f"a loss must be a Loss such as cp.Hinge(), got {loss!r}")
        self.n_offsets = len(self.losses)
        self.lower_bound = sum(loss.lower_bound for loss in self.losses)
        self.convex = all(loss.convex for loss in self.losses)
        self.unproven = "; ".join(
            filter(None, dict.fromkeys(loss.unproven for loss in self.losses))
        )
        self.smooth = all(loss.smooth for loss in self.losses)
        self.in_blocks = all(loss.in_blocks for loss in self.losses)

    def targets(self, y: Any, n_samples: int, weights: Vector) -> Matrix:
        """Return the targets, one column a loss, or raise ValueError."""
        columns: Matrix = np.asfortranarray(y, dtype=np.float64)
        if columns.ndim == 1:
            # One vector seen as all columns: `broadcast_to` would make it read-only.
            columns = as_strided(columns, (len(columns), len(self.losses)), (columns.itemsize, 0))
        if columns.shape != (n_samples, len(self.losses)):
            raise ValueError(
                f"targets have shape {columns.shape}, X has {n_samples} rows and there are "
                f"{len(self.losses)} losses"
            )
        used = weights > 0.0
        for target, loss in self._terms(columns):
            loss.check_targets(target[used])
            loss.check_weights(weights[used])
        return columns

    def part(self, examples: Examples) -> SharedScore:
        """Return the losses of some examples."""
        return SharedScore([loss.part(examples) for loss in self.losses])

    def value(self, y: Matrix, scores: Vector, weights: Vector) -> float:
        """Return the sum of the losses."""
        return sum(loss.value(target, scores, weights) for target, loss in self._terms(y))

    def at_best_offset(
        self, y: Matrix, scores: Vector, weights: Vector, guess: Vector | None
    ) -> AtBestOffset:
        """Minimize each loss over a constant of its own, added to all scores."""
        guesses = [None] * len(self.losses) if guess is None else guess.tolist()
        best = [
            loss.at_best_offset(target, scores, weights, own)
            for (target, loss), own in zip(self._terms(y), guesses, strict=True)
        ]
        offsets = np.array([found.offset for found in best])
        return AtBestOffset(offsets, float(sum(found.value for found in best)), best)

    def tangent(self, y: Matrix, scores: Vector, weights: Vector, at: AtBestOffset) -> Tangent:
        """Return the sum of the tangents."""
        total, offset = np.zeros_like(scores), 0.0
        found: list[AtBestOffset] = at.witness or [
            AtBestOffset(None, loss.value(target, scores, weights))
            for target, loss in self._terms(y)
        ]
        for (target, loss), own in zip(self._terms(y), found, strict=True):
            tangent = loss.tangent(target, scores, weights, own)
            total += tangent.slopes
            offset += tangent.offset
        return Tangent(total, offset)

    def on_ray(self, y: Matrix, ray: Ray, weights: Vector, step: float) -> tuple[float, float]:
        """Return the loss on the ray at ``step``, and its derivative by the step."""
        scores = ray.scores + step * ray.direction
        offsets = ray.offsets + step * ray.speeds
        value = slope = 0.0
        for k, (target, loss) in enumerate(self._terms(y)):
            own, slopes = loss(target, scores + offsets[k], weights)
            value += own
            slope += product_over(slopes, ray.direction) + ray.speeds[k] * sum_over(slopes)
        return value, slope

    def minimize_on_ray(self, y: Matrix, ray: Ray, weights: Vector, extra: Quadratic) -> float:
        """Return nearly the ``k >= 0`` that minimizes the loss on the ray plus ``extra(k)``."""
        # A poor step costs iterations, but no certificate is wrong because of it.
        return minimize_on_ray(
            lambda step: self.on_ray(y, ray, weights, step), extra, accuracy=1e-4
        )

    def _terms(self, y: Matrix) -> Iterator[tuple[Vector, Loss]]:
        """Return the targets of each loss, and the loss."""
        return zip(y.T, self.losses, strict=True)

    def __repr__(self) -> str:
        names = ", ".join(dict.fromkeys(map(repr, self.losses)))
        return f"SharedScore({len(self.losses)} of {names})"


class TiltedLoss(Loss):
    """``loss(y, z) + linear.z + constant``, for the examples and weights of one risk.

    Parameters
    ----------
    loss : Loss
        A convex loss.
    linear : ndarray of shape (n_samples,)
        The slope of the linear function by each score; weights are in it.
    constant : float
        Its value at scores of zero.
    lower_bound : float
        What the sum never goes below.
    """

    # The linear term is that of all examples, in their order: groups of them would not find theirs.
    additive = False

    def __init__(self, loss: Loss, linear: Vector, constant: float, lower_bound: float) -> None:
        self.loss, self.linear, self.constant = loss, linear, constant
        self.task = loss.task  # type: ignore[misc]  # that of the loss
        self.lower_bound = lower_bound
        self.of_residual, self.smooth = loss.of_residual, loss.smooth
        self.has_conjugate, self.has_curvatures = loss.has_conjugate, loss.has_curvatures

    @classmethod
    def above(
        cls, loss: Loss, y: Vector, scores: Vector, offset: float, weights: Vector
    ) -> TiltedLoss:
        """Return what lies above a loss with a ``convex_part`` and touches it at these scores."""
        at = scores + offset if offset else scores
        linear = weights * loss.concave_slopes(y, at)  # type: ignore[attr-defined]  # has one
        convex: Loss = loss.convex_part
        rest = loss.value(y, at, weights) - convex.value(y, at, weights)
        return cls(convex, linear, rest - product_over(linear, at), loss.lower_bound)

    def __call__(self, y: Vector, scores: Vector, weights: Vector) -> tuple[float, Vector]:
        """Return the sum of losses and its derivative by each score."""
        return self.value(y, scores, weights), self.slopes(y, scores, weights)

    def value(self, y: Vector, scores: Vector, weights: Vector) -> float:
        """Return the sum of losses."""
        tilt = product_over(self.linear, scores)
        return self.loss.value(y, scores, weights) + tilt + self.constant

    def slopes(self, y: Vector, scores: Vector, weights: Vector) -> Vector:
        """Return the derivative by each score."""
        return self.loss.slopes(y, scores, weights) + self.linear

    def conjugate(self, y: Vector, slopes: Vector, weights: Vector) -> float | None:
        """Return ``max_z slopes.z - loss(y, z)``."""
        own = slopes - self.linear
        own[np.abs(own) <= 8.0 * EPS * np.abs(self.linear)] = 0.0  # rounding of the sum
        found = self.loss.conjugate(y, own, weights)
        return None if found is None else found - self.constant

    def curvatures(self, y: Vector, scores: Vector, weights: Vector) -> Vector | None:
        """Return the second derivative by each score."""
        return self.loss.curvatures(y, scores, weights)

    def smoothed(self, width: float) -> Loss:
        """Return the loss with its kinks rounded."""
        rounded = self.loss.smoothed(width)
        if rounded is self.loss:
            return self
        return TiltedLoss(rounded, self.linear, self.constant, -np.inf)

    def part(self, examples: Examples) -> TiltedLoss:
        """Raise ValueError: the constant is that of all examples."""
        raise ValueError(f"{self!r} is a loss of all examples together")

    def minimize_along(
        self, y: Vector, scores: Vector, direction: Vector, weights: Vector, extra: Quadratic
    ) -> float:
        """Return the ``k >= 0`` that minimizes ``loss(scores + k*direction) + extra(k)``."""
        tilt = product_over(self.linear, direction)
        extra = Quadratic(extra.slope + tilt, extra.curvature)
        return self.loss.minimize_along(y, scores, direction, weights, extra)

    def __repr__(self) -> str:
        return f"TiltedLoss({self.loss!r})"


CLASSIFICATION = ByName[Callable[..., Loss]](
    {
        "hinge": "cutplane.losses.piecewise:Hinge",
        "squared_hinge": "cutplane.losses.piecewise:SquaredHinge",
        "smooth_hinge": "cutplane.losses.piecewise:SmoothHinge",
        "logistic": "cutplane.losses.smooth:Logistic",
        "exponential": "cutplane.losses.smooth:Exponential",
    }
)
"""Losses for labels -1 and 1, by the names that estimators and the command line know."""

MEASURES = ByName[Callable[..., Loss]](
    {
        "error_rate": "cutplane.models.measures.measures:ErrorRate",
        "f1": "cutplane.models.measures.f_beta:f1",
        "f_beta": "cutplane.models.measures.f_beta:FBeta",
        "precision_at_k": "cutplane.models.measures.measures:PrecisionAtK",
        "recall_at_k": "cutplane.models.measures.measures:RecallAtK",
        "break_even": "cutplane.models.measures.measures:BreakEven",
        "roc_area": "cutplane.models.measures.measures:ROCArea",
    }
)
"""Losses for labels -1 and 1 that judge the sample as a whole, by name."""

REGRESSION = ByName[Callable[..., Loss]](
    {
        "squared": "cutplane.losses.piecewise:Squared",
        "absolute": "cutplane.losses.piecewise:Absolute",
        "quantile": "cutplane.losses.piecewise:Quantile",
        "epsilon_insensitive": "cutplane.losses.piecewise:EpsilonInsensitive",
        "squared_epsilon_insensitive": "cutplane.losses.piecewise:SquaredEpsilonInsensitive",
        "huber": "cutplane.losses.piecewise:Huber",
        "poisson": "cutplane.losses.smooth:Poisson",
    }
)
"""Losses for numbers, by name."""

ROBUST_CLASSIFICATION = ByName[Callable[..., Loss]](
    {
        "ramp": "cutplane.losses.bounded:Ramp",
        "smooth_ramp": "cutplane.losses.bounded_smooth:SmoothRamp",
    }
)
"""Losses for labels -1 and 1 of which some are wrong, by name: they are not convex."""

ROBUST_REGRESSION = ByName[Callable[..., Loss]](
    {
        "clipped_absolute": "cutplane.losses.bounded:ClippedAbsolute",
        "tukey": "cutplane.losses.bounded_smooth:Tukey",
    }
)
"""Losses for numbers of which some are far off, by name: they are not convex."""

NU_CLASSIFICATION = ByName[Callable[..., Loss]]({"nu_hinge": "cutplane.losses.nu:NuHinge"})
"""Losses for labels -1 and 1 with a margin that a share of the examples says, by name."""

NU_REGRESSION = ByName[Callable[..., Loss]]({"nu_insensitive": "cutplane.losses.nu:NuInsensitive"})
"""Losses for numbers with a width that a share of the examples says, by name."""

UNLABELED = ByName[Callable[..., Loss]](
    {
        "hat": "cutplane.losses.bounded:Hat",
        "double_ramp": "cutplane.models.few_labels.losses:DoubleRamp",
        "smooth_hat": "cutplane.models.few_labels.losses:SmoothHat",
    }
)
"""Losses for examples without a label, by name: they are not convex."""

RANKING = ByName[Callable[..., Loss]](
    {
        "pairwise": "cutplane.models.ranking.losses:PairwiseHinge",
        "ndcg": "cutplane.models.ranking.losses:NDCGHinge",
        "ndcg_list": "cutplane.models.ranking.losses:NDCGListHinge",
    }
)
"""Losses for documents of queries, by name."""

VECTORS = ByName[Callable[..., ScoreLoss]](
    {
        "euclidean": "cutplane.models.columns.losses:Euclidean",
        "squared": "cutplane.models.columns.losses:SquaredEuclidean",
    }
)
"""Losses for rows of numbers, by name."""
