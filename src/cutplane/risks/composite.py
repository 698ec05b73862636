"""Sums of risks, ``R(w) = sum_k factor_k * R_k(w)``, and plain functions as risks.

Values, planes and lower bounds add. Where all parts have segments the sum has them too, and a
search along a ray adds up the parts' values and slopes there.

What a function of a user's returns is checked at every evaluation, so that whatever is wrong with
it is said in its own words, with the number of the evaluation, and not found out later by an inner
product.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from numbers import Real
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from cutplane.compute.arrays import MappedFile, Vector
from cutplane.compute.products import dot
from cutplane.core.interrupts import at_once
from cutplane.core.policies.bmrm import as_searchable
from cutplane.core.protocols import (
    KeptPoint,
    LibraryPoint,
    LibraryRisk,
    NonFiniteRisk,
    Plane,
    Point,
    Quadratic,
    Risk,
    Segment,
    along,
    is_risk,
    terms_at,
)
from cutplane.core.search import minimize_on_ray
from cutplane.core.state import facts_of
from cutplane.data.rows import RowFacts, Rows
from cutplane.losses.loss import ScoreLoss


def checked_lower_bound(value: float) -> float:
    """Return what a user says that a risk never goes below, or raise ValueError."""
    if not value < np.inf:
        raise ValueError(f"lower_bound must be a number or -inf, got {value}")
    return float(value)


class Summable(LibraryRisk):
    """What all risks of the library have: ``a + 2.0 * b`` is a `WeightedSum`."""

    @property
    def has_majorants(self) -> bool:
        """Whether there are convex risks above this one that touch it at a point."""
        return self.convex is True

    def majorant_at(self, point: Point) -> Risk:
        """Return a convex risk that is nowhere below this one, and the same at a point."""
        return self

    # NumPy would take a risk for an array of one object: np.float64(2) * risk is ours.
    __array_ufunc__ = None

    def __add__(self, other: Any) -> WeightedSum:
        return WeightedSum([*_terms(self), *_terms(other)]) if is_risk(other) else NotImplemented

    def __radd__(self, other: Any) -> Any:
        if isinstance(other, Real) and other == 0:  # where sum() begins
            return self
        return WeightedSum([*_terms(other), *_terms(self)]) if is_risk(other) else NotImplemented

    def __mul__(self, factor: Any) -> WeightedSum:
        if not isinstance(factor, Real):
            return NotImplemented
        return WeightedSum([(float(factor) * own, risk) for own, risk in _terms(self)])

    __rmul__ = __mul__


class SampleRisk(Summable):
    """The mean loss of scores on a sample, here or elsewhere.

    Attributes
    ----------
    loss : ScoreLoss
    rows : RowFacts
        What is known of the features, wherever they are.
    n_parameters, n_examples : int
    spans_examples : bool
        Whether the model is a function in the span of the examples, of a kernel.
    """

    loss: ScoreLoss
    rows: Rows | RowFacts
    spans_examples: bool = False

    @property
    def n_examples(self) -> int:
        """How many examples there are."""
        raise NotImplementedError


class InferenceRisk(Summable):
    """The mean loss of outputs with a structure: an inference on each example.

    Attributes
    ----------
    n_parameters, n_examples : int
    inferences : int
        How often inference ran on an example.
    inference_steps : int or None
        How many steps the dynamic programs of all examples take, if there are such.
    output_kind : {"labels", "features", ""}
        What outputs are kept as, if they can be.
    label_counts : tuple of two ints
        How many labels all outputs have, and how many kinds of them there are.
    probabilities : bool
        Whether outputs have probabilities: then the loss is smooth.
    rough_bends : bool
        Whether `bends_at` is known.
    """

    inferences: int
    inference_steps: int | None = None
    output_kind: str = ""
    label_counts: tuple[int, int]
    probabilities: bool = False
    rough_bends: bool = False

    @property
    def n_examples(self) -> int:
        """How many examples there are."""
        raise NotImplementedError

    @property
    def worst_outputs(self) -> bool:
        """Whether exact inference finds the worst output of an example."""
        return False

    def bends_at(self, w: Vector) -> Vector:
        """Return a rough second derivative by each parameter."""
        raise NotImplementedError


@runtime_checkable
class SumOfExamples(Risk, Protocol):
    """A risk that is a mean over examples, some of which have a risk of their own."""

    @property
    def n_examples(self) -> int:
        """How many examples there are."""

    def part(self, examples: Any) -> Risk:
        """Return the risk of some examples, with their weights scaled to sum to one."""


@runtime_checkable
class Weighted(Protocol):
    """A risk whose examples have weights, which sum to one."""

    weights: Vector


class WeightedSum(Summable):
    """A sum of risks, each with a factor.

    Risks of cutplane need only ``+`` and ``*``: ``a + 2.0 * b``. Risks of other classes can be
    added to one of them, or given here.

    Parameters
    ----------
    terms : sequence of pairs
        Factors and risks, all with the same number of parameters. The sum is convex if all risks
        are and no factor is negative; whether a function is may be unknown.
    """

    def __init__(self, terms: Sequence[tuple[float, Any]]) -> None:
        if not terms:
            raise ValueError("a sum needs at least one risk")
        self.terms: list[tuple[float, Risk]] = list(terms)
        for factor, _ in self.terms:
            if not np.isfinite(factor):
                raise ValueError(f"the factor of a risk must be finite, got {factor}")
        sizes = [risk.n_parameters for _, risk in self.terms]
        if len(set(sizes)) > 1:
            raise ValueError(
                f"risks with {' and '.join(map(str, sizes))} parameters cannot be added"
            )
        self.n_parameters = sizes[0]
        claims = [risk.convex if factor > 0.0 else factor == 0.0 for factor, risk in self.terms]
        # It hangs on what nobody has said, unless one is known not to be.
        self.convex = None if None in claims and False not in claims else all(claims)
        reasons = [facts_of(risk).unproven for factor, risk in self.terms if factor != 0.0]
        reasons += ["a risk is subtracted" for factor, _ in self.terms if factor < 0.0]
        self.unproven = "; ".join(filter(None, dict.fromkeys(reasons)))
        self.lower_bound = sum(
            factor * risk.lower_bound if factor > 0.0 else (-np.inf if factor < 0.0 else 0.0)
            for factor, risk in self.terms
        )
        self.evaluations = 0

    def at(self, w: Vector) -> SumPoint:
        """Evaluate all risks at ``w``."""
        self.evaluations += 1
        return _sum_point([(factor, risk.at(w)) for factor, risk in self.terms])

    @property
    def files(self) -> tuple[MappedFile, ...]:
        """Those of all terms."""
        return tuple(file for _, risk in self.terms for file in facts_of(risk).files)

    @property
    def has_majorants(self) -> bool:
        """Whether all terms have convex risks above them, and none is subtracted."""
        return all(
            factor >= 0.0 and isinstance(risk, Summable) and risk.has_majorants
            for factor, risk in self.terms
        )

    def majorant_at(self, point: Point) -> WeightedSum:
        """Return the sum of the convex risks above the terms that touch them at a point."""
        assert isinstance(point, SumPoint)
        above = list[tuple[float, Risk]]()
        for (factor, risk), (_, own) in zip(self.terms, point.parts, strict=True):
            assert isinstance(risk, Summable)
            above.append((factor, risk.majorant_at(own)))
        return WeightedSum(above)

    @property
    def term_size(self) -> float:
        """The size of the terms that values are made of."""
        return sum(abs(factor) * facts_of(risk).term_size for factor, risk in self.terms)

    def identity(self) -> dict[str, Any]:
        """Return what the sum consists of."""
        return {f"term {k}": term for k, term in enumerate(self.terms)}

    def __repr__(self) -> str:
        return " + ".join(
            repr(risk) if factor == 1.0 else f"{factor:g} * {risk!r}" for factor, risk in self.terms
        )


class SumPoint(LibraryPoint):
    """A sum of risks at ``w``; `parts` are their own points, with their factors."""

    def __init__(self, parts: list[tuple[float, Any]]) -> None:
        self.parts = parts

    @property
    def w(self) -> Vector:
        """The parameters."""
        w: Vector = self.parts[0][1].w
        return w

    @cached_property
    def value(self) -> float:
        """The sum of the values."""
        return float(sum(factor * point.value for factor, point in self.parts))

    @property
    def term_size(self) -> float:
        """The size of the terms that values are made of."""
        return sum(abs(factor) * terms_at(point) for factor, point in self.parts)

    def plane(self) -> Plane:
        """Return the sum of the planes; computed on first use, then kept."""
        if "_plane" not in vars(self):
            slope, offset = np.zeros(len(self.w)), 0.0
            for factor, point in self.parts:
                plane = point.plane()
                with np.errstate(over="ignore", invalid="ignore"):  # whoever asks looks at it
                    slope += factor * plane.slope
                offset += factor * plane.offset
            self._plane = Plane(slope, offset)
        return self._plane


class SearchableSumPoint(SumPoint):
    """A sum of risks whose parts all know themselves along a line."""

    def toward(self, other: SearchableSumPoint) -> SumSegment:
        """Return the sum on the ray from here through ``other``."""
        ends = zip(self.parts, other.parts, strict=True)
        segments = [(factor, start.toward(end)) for (factor, start), (_, end) in ends]
        return SumSegment(segments, other.w - self.w)


class SumSegment:
    """A sum of risks on a ray; `parts` are their own segments, with their factors."""

    def __init__(self, parts: list[tuple[float, Segment]], direction: Vector) -> None:
        self.parts = parts
        self._direction = direction

    def along(self, step: float) -> tuple[float, float]:
        """Return the value and its derivative by the step."""
        found = [(factor, along(segment, step, self._direction)) for factor, segment in self.parts]
        return sum(k * value for k, (value, _) in found), sum(k * slope for k, (_, slope) in found)

    def minimize(self, regularizer: Quadratic) -> float:
        """Return the step that minimizes the sum plus the regularizer on the ray."""
        return minimize_on_ray(self.along, regularizer)

    def at(self, step: float) -> SumPoint:
        """Return the point at ``step``."""
        return _sum_point([(factor, segment.at(step)) for factor, segment in self.parts])


def _sum_point(parts: list[tuple[float, Point]]) -> SumPoint:
    searchable = all(as_searchable(point) is not None for _, point in parts)
    return SearchableSumPoint(parts) if searchable else SumPoint(parts)


def _terms(risk: Risk) -> list[tuple[float, Risk]]:
    """Return the terms of a sum, or a risk alone: a sum of sums is one sum."""
    return risk.terms if isinstance(risk, WeightedSum) else [(1.0, risk)]


Function = Callable[[Vector], tuple[float, Vector]]
"""From parameters to the value there and a subgradient."""


class FunctionRisk(Summable):
    """A function ``w -> (value, subgradient)`` as a risk.

    `cutplane.minimize` also takes the function itself. The class is for what a function cannot
    say: a lower bound, that it is not convex, or a sum with other risks.

    Parameters
    ----------
    function : callable
        Gets a vector of length ``n_parameters`` and returns the value there and a subgradient of
        that length. Both are checked at every evaluation. The value may be infinite outside of
        the function's domain.
    n_parameters : int
        Number of parameters.
    convex : bool, optional
        Whether the function is convex. Only then is a gap a certificate. If nothing is said, the
        methods for convex risks assume it, and the certificate says that they did; those for risks
        that are not convex assume nothing.
    lower_bound : float
        A value that the function never goes below.

    Examples
    --------
    >>> import numpy as np
    >>> import cutplane as cp
    >>> risk = FunctionRisk(lambda w: (abs(w).sum(), np.sign(w)), 3, lower_bound=0.0)
    >>> risk
    FunctionRisk(the function, 3 parameters)
    >>> cp.minimize(risk, cp.L2(1.0, center=[2.0, 0.5, 0.0])).w
    array([1., 0., 0.])
    """

    def __init__(
        self,
        function: Function,
        n_parameters: int,
        *,
        convex: bool | None = None,
        lower_bound: float = -np.inf,
    ) -> None:
        if not callable(function):
            raise TypeError(f"function must be callable, got {function!r}")
        if n_parameters < 1:
            raise ValueError(f"a function needs at least 1 parameter, got {n_parameters}")
        self.function = function
        self.n_parameters = int(n_parameters)
        self.convex = convex
        self.lower_bound = checked_lower_bound(lower_bound)
        self.evaluations = 0

    def at(self, w: Vector) -> KeptPoint:
        """Call the function at ``w``, and check what it returns."""
        self.evaluations += 1
        try:
            with at_once():
                answer = self.function(w.copy())  # a copy, so that the function may write to it
        except Exception as error:
            error.add_note(f"raised by {name_of(self.function)} {self._here(w)}")
            raise
        try:
            value, subgradient = answer
        except (TypeError, ValueError):
            raise self._wrong(
                TypeError, f"must return (value, subgradient), returned {_shown(answer)}", w
            ) from None
        height = self._value(value, w)
        slope = self._subgradient(subgradient, height, w)
        return KeptPoint(w, height, Plane(slope, height - dot(slope, w)))

    def _value(self, value: Any, w: Vector) -> float:
        found = np.asarray(value)
        if found.ndim or found.dtype.kind not in "fiub":
            raise self._wrong(TypeError, f"must return a number first, returned {_shown(value)}", w)
        if np.isnan(found) or found == -np.inf:
            raise self._wrong(NonFiniteRisk, f"is {found}", w)
        return float(found)

    def _subgradient(self, subgradient: Any, value: float, w: Vector) -> Vector:
        found = np.asarray(subgradient)
        if found.dtype.kind not in "fiu":
            raise self._wrong(
                TypeError, f"must return real numbers second, returned {_shown(subgradient)}", w
            )
        if found.shape != w.shape:
            raise self._wrong(
                ValueError, f"returned a subgradient of shape {found.shape}, w has {w.shape}", w
            )
        # Where the value is infinite no plane is taken, and the subgradient is not looked at.
        bad = np.flatnonzero(~np.isfinite(found))
        if len(bad) and np.isfinite(value):
            raise self._wrong(
                NonFiniteRisk,
                f"returned a subgradient with {len(bad)} of {len(w)} entries not finite "
                f"(entry {bad[0]} is {found[bad[0]]})",
                w,
            )
        # A copy, because the function may use the same memory for the next answer.
        return np.array(found, dtype=np.float64)

    def _wrong(self, kind: type[Exception], what: str, w: Vector) -> Exception:
        return kind(f"{name_of(self.function)} {what} {self._here(w)}")

    def _here(self, w: Vector) -> str:
        return f"at evaluation {self.evaluations}, at a point of norm {np.linalg.norm(w):.3g}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({name_of(self.function)}, {self.n_parameters} parameters)"


def as_risk(risk: Risk | Function, like: ArrayLike | None) -> Risk:
    """Return a risk as it is, and a function as a risk.

    Parameters
    ----------
    risk : Risk or callable
        A risk, or a convex function ``w -> (value, subgradient)``.
    like : array-like or None
        A vector with as many entries as the function has parameters, if there is one.
    """
    if is_risk(risk):
        return risk
    if not callable(risk):
        raise TypeError(
            "risk must be a risk such as cp.ScoredRisk, or a function that returns "
            f"(value, subgradient), got {risk!r}"
        )
    if like is None:
        raise ValueError(
            f"{name_of(risk)} does not tell how many parameters it has: give "
            "start=np.zeros(d), with their number for d"
        )
    return FunctionRisk(risk, np.size(like))


def name_of(function: Any) -> str:
    """Return what to call a function in a message."""
    name = getattr(function, "__name__", type(function).__name__)
    return "the function" if name == "<lambda>" else f"{name}()"


def _shown(thing: Any) -> str:
    """Return what something is, in a few words."""
    if isinstance(thing, np.ndarray):
        return f"an array of shape {thing.shape} and dtype {thing.dtype}"
    text = repr(thing)
    return text if len(text) <= 60 else f"a {type(thing).__name__}"
