"""Check a risk: values, planes, convexity, lower bound, segments."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.core.policies.bmrm import as_searchable
from cutplane.core.protocols import GroupedPoint, Point, Quadratic, Risk, SearchablePoint, is_risk
from cutplane.regularizers import L2
from cutplane.risks.composite import Function, FunctionRisk, SampleRisk, as_risk, name_of
from cutplane.solvers.bundle import bmrm
from cutplane.solvers.minimize import minimize
from cutplane.testing.functions import STEPS, Report, Tried, check_convex, check_slopes

_INEXACT = 1e-3  # a poor step costs iterations, but no certificate is wrong because of it


def check_risk(
    risk: Risk | Function,
    n_parameters: int | None = None,
    *,
    around: Vector | None = None,
    scale: float = 1.0,
    n_points: int = 20,
    rounding: float = 1e-10,
    seed: int = 0,
) -> Report:
    """Check a risk; return a report, or raise AssertionError if anything is wrong.

    It may also be a function ``w -> (value, subgradient)``. Values must be repeatable and not below
    the lower bound; planes must touch the risk, and have the slopes that finite differences show; a
    convex risk must lie above its planes and below its chords; segments and planes of groups must
    agree with the risk.

    Parameters
    ----------
    risk : Risk or callable
        What to check. A function is taken for convex: see `cutplane.FunctionRisk`.
    n_parameters : int, optional
        Number of parameters; needed for a function, unless ``around`` is given.
    around : ndarray, optional
        The middle of the places to try; zero by default.
    scale : float
        How far from it they are, in each coordinate.
    n_points : int
        Number of places. Each takes some ten evaluations.
    rounding : float
        Relative error that values may have; 1e-5 for a function that computes in float32.
    seed : int
        Of the random places.

    Examples
    --------
    >>> print(check_risk(lambda w: (abs(w).sum(), np.sign(w)), 5))
    the function
      ok: values are finite and repeatable
      ok: planes touch the risk
      ok: subgradients agree with finite differences
      ok: convex: chords above, planes below
      ok: no value seen below the lower bound -inf
    """
    name = _name_of(risk)
    risk = as_risk(risk, around if n_parameters is None else np.zeros(n_parameters))
    rng = np.random.default_rng(seed)
    center = np.zeros(risk.n_parameters) if around is None else np.asarray(around, dtype=np.float64)
    places = [center + scale * rng.normal(size=risk.n_parameters) for _ in range(n_points)]
    tried = Tried(name, lambda w: _value_and_slope(risk.at(w)), places, rounding, rng)

    points = [risk.at(w) for w in places]
    _check_repeatable(tried, risk, points)
    for point in points:
        _check_touch(tried, point)
    check_slopes(tried)
    passed = [
        "values are finite and repeatable",
        "planes touch the risk",
        "subgradients agree with finite differences",
    ]
    if risk.convex is not False:  # a function that says nothing is taken for convex
        check_convex(tried)
        passed.append("convex: chords above, planes below")
    _check_lower_bound(tried, risk, points, center, scale)
    passed.append(f"no value seen below the lower bound {risk.lower_bound:g}")
    searchable = [found for found in map(as_searchable, points) if found is not None]
    if len(searchable) == len(points):
        for start, end in pairwise(searchable):
            _check_segment(tried, risk, start, end)
        passed.append("segments agree with the risk")
    whole = isinstance(risk, SampleRisk) and not (risk.loss.additive and risk.convex)
    grouped = [point for point in points if isinstance(point, GroupedPoint)]
    if grouped and not whole:
        for point in grouped:
            _check_groups(tried, point)
        passed.append("planes of groups add up")
    return Report(name, tuple(passed))


def _name_of(risk: Risk | Function) -> str:
    if not is_risk(risk):
        return name_of(risk)
    words = repr(risk)
    return type(risk).__name__ if " object at 0x" in words else words


def _value_and_slope(point: Point) -> tuple[float, Vector]:
    return point.value, point.plane().slope


def _check_repeatable(tried: Tried, risk: Risk, points: list[Point]) -> None:
    before = risk.evaluations
    for point in points:
        tried.require(
            np.isfinite(point.value),
            f"the risk is {point.value} at a place that was tried; other places can be chosen by "
            "around and scale",
        )
        again = risk.at(point.w).value
        tried.require(
            abs(again - point.value) <= tried.noise(point.value),
            f"evaluated twice at the same point, it is first {point.value:.12g} and then "
            f"{again:.12g}",
        )
    tried.require(risk.evaluations > before, "evaluations does not count calls of at()")


def _check_touch(tried: Tried, point: Point) -> None:
    plane = point.plane()
    height, offset = float(plane.slope @ point.w), plane.offset
    tried.require(
        abs(height + offset - point.value) <= tried.noise(height, offset, point.value),
        f"a plane does not touch the risk: at its own point it is {height + offset:.8g} high, the "
        f"risk {point.value:.8g}. The offset is value - slope @ w",
    )


def _check_lower_bound(
    tried: Tried, risk: Risk, points: list[Point], center: Vector, scale: float
) -> None:
    """Look for values below the lower bound, also where a short run finds small ones."""
    lowest = min(point.value for point in points)
    if risk.convex is not False and risk.lower_bound > -np.inf:
        # Without the lower bound: a wrong one would mislead the run.
        free = FunctionRisk(tried.function, risk.n_parameters)
        steepest = max(float(np.linalg.norm(point.plane().slope)) for point in points)
        lam = max(steepest, 1e-6) / (10.0 * scale * np.sqrt(risk.n_parameters))
        run = minimize(
            free, L2(lam, center=center), method=bmrm(line_search=False), max_iter=2 * len(points)
        )
        if run.state.stopped:  # Ctrl-C, which ends the check as a whole
            raise KeyboardInterrupt
        lowest = min(lowest, run.point.value)
    tried.require(
        lowest >= risk.lower_bound - tried.noise(lowest, risk.lower_bound),
        f"lower_bound is {risk.lower_bound:g}, but a value of {lowest:.8g} was found",
    )


def _check_segment(tried: Tried, risk: Risk, start: SearchablePoint, end: SearchablePoint) -> None:
    segment = start.toward(end)
    for k in STEPS:
        w, point = start.w + k * (end.w - start.w), segment.at(k)
        tried.require(
            np.allclose(point.w, w, rtol=1e-9, atol=1e-12),
            f"a segment at step {k} is not at w0 + {k}*(w1 - w0)",
        )
        value = risk.at(w).value
        tried.require(
            abs(point.value - value) <= 10 * tried.noise(point.value, value),
            f"a segment is {point.value:.8g} at step {k}, the risk there {value:.8g}",
        )
    for extra in (Quadratic(0.0, 1.0), Quadratic(-1.0, 0.1)):
        step = segment.minimize(extra)
        tried.require(
            np.isfinite(step) and step >= 0.0,
            f"the best step of a segment is {step}, it must be finite and >= 0",
        )
        reached = segment.at(step).value + extra.slope * step + extra.curvature * step**2 / 2
        tried.require(
            reached <= start.value + _INEXACT * abs(start.value),
            f"a segment's best step leads up, from {start.value:.8g} to {reached:.8g}",
        )


def _check_groups(tried: Tried, point: GroupedPoint) -> None:
    plane, planes = point.plane(), point.planes(2)
    slope, offset = sum(part.slope for part in planes), sum(part.offset for part in planes)
    size = float(np.linalg.norm(plane.slope))
    tried.require(
        float(np.linalg.norm(slope - plane.slope)) <= 10 * tried.noise(size, 1.0)
        and abs(offset - plane.offset) <= 10 * tried.noise(offset, plane.offset, 1.0),
        "the planes of two groups do not add up to plane()",
    )
