"""Sums of risks: ``R(w) = sum_k factor_k * R_k(w)``.

Values, planes and lower bounds add. Where all parts have segments the sum has them too, and a
search along a ray adds up the parts' values and slopes there.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.compute.mapped import MappedFile
from cutplane.core import needs
from cutplane.core.policies.bmrm import as_searchable
from cutplane.core.protocols import Plane, Point, Quadratic, Risk, Segment
from cutplane.core.search import minimize_on_ray


class Summable:
    """What all risks of the library have: ``a + 2.0 * b`` is a `WeightedSum`, and defaults.

    Attributes
    ----------
    convex : bool or None
        Whether planes of the risk stay below it everywhere; None if nobody has said.
    unproven : str
        Why a gap is no proof, where there is more to say than that the risk is not convex.
    rows : Rows or None
        The features, if it has any.
    """

    convex: bool | None = True
    unproven = ""
    rows: Any = None

    @property
    def files(self) -> tuple[MappedFile, ...]:
        """The files that the features are read from while a run goes on."""
        return () if self.rows is None else self.rows.files

    @property
    def term_size(self) -> float:
        """The size of the terms that values are sums of, where they may cancel."""
        return 0.0

    @property
    def good_groups(self) -> int:
        """How many groups should make a run the fastest; 1 if the risk cannot be split."""
        return 1

    @property
    def has_majorants(self) -> bool:
        """Whether there are convex risks above this one that touch it at a point."""
        return self.convex is True

    def majorant_at(self, point: Any) -> Any:
        """Return a convex risk that is nowhere below this one, and the same at a point."""
        return self

    # NumPy would take a risk for an array of one object: np.float64(2) * risk is ours.
    __array_ufunc__ = None

    def __add__(self, other: Any) -> WeightedSum:
        return (
            WeightedSum([*_terms(self), *_terms(other)]) if needs.is_risk(other) else NotImplemented
        )

    def __radd__(self, other: Any) -> Any:
        if isinstance(other, Real) and other == 0:  # where sum() begins
            return self
        return (
            WeightedSum([*_terms(other), *_terms(self)]) if needs.is_risk(other) else NotImplemented
        )

    def __mul__(self, factor: Any) -> WeightedSum:
        if not isinstance(factor, Real):
            return NotImplemented
        return WeightedSum([(float(factor) * own, risk) for own, risk in _terms(self)])

    __rmul__ = __mul__


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
        self.convex = _all(
            [risk.convex if factor > 0.0 else factor == 0.0 for factor, risk in self.terms]
        )
        reasons = [needs.why_unproven(risk) for factor, risk in self.terms if factor != 0.0]
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
        return tuple(file for _, risk in self.terms for file in needs.files_of(risk))

    @property
    def has_majorants(self) -> bool:
        """Whether all terms have convex risks above them, and none is subtracted."""
        return all(
            factor >= 0.0 and needs.offers(risk, "has_majorants") for factor, risk in self.terms
        )

    def majorant_at(self, point: SumPoint) -> WeightedSum:
        """Return the sum of the convex risks above the terms that touch them at a point."""
        terms: list[tuple[float, Any]] = self.terms
        pairs = zip(terms, point.parts, strict=True)
        return WeightedSum([(factor, risk.majorant_at(own)) for (factor, risk), (_, own) in pairs])

    @property
    def term_size(self) -> float:
        """The size of the terms that values are made of."""
        return sum(abs(factor) * needs.term_size(risk) for factor, risk in self.terms)

    def identity(self) -> dict[str, Any]:
        """Return what the sum consists of."""
        return {f"term {k}": term for k, term in enumerate(self.terms)}

    def __repr__(self) -> str:
        return " + ".join(
            repr(risk) if factor == 1.0 else f"{factor:g} * {risk!r}" for factor, risk in self.terms
        )


class SumPoint:
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
        return sum(abs(factor) * needs.terms_at(point) for factor, point in self.parts)

    def plane(self) -> Plane:
        """Return the sum of the planes; computed on first use, then kept."""
        return self._plane

    @cached_property
    def _plane(self) -> Plane:
        slope, offset = np.zeros(len(self.w)), 0.0
        for factor, point in self.parts:
            plane = point.plane()
            with np.errstate(over="ignore", invalid="ignore"):  # whoever asks looks at it
                slope += factor * plane.slope
            offset += factor * plane.offset
        return Plane(slope, offset)


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
        found = [
            (factor, needs.along(segment, step, self._direction)) for factor, segment in self.parts
        ]
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


def _all(claims: list[bool | None]) -> bool | None:
    """Return whether all are true, or None if that hangs on something nobody has said."""
    return None if None in claims and False not in claims else all(claims)


def _terms(risk: Any) -> list[tuple[float, Any]]:
    """Return the terms of a sum, or a risk alone: a sum of sums is one sum."""
    return risk.terms if isinstance(risk, WeightedSum) else [(1.0, risk)]
