"""The instance of paper 001 on which BMRM needs at least 2/(3 eps) steps.

With ``m`` examples, ``m + 1`` parameters and lam = 1,

    J(w) = |w|^2/2 + 1/m sum_i max(0, 1 - sqrt(m) w_0 - m w_i),      min J = 1/(4m).

From ``w = (1/sqrt(m), 0, ..., 0)`` on, all examples are at the kink of their hinge. If the oracle
answers with the subgradient of a single new one each time, the t-th candidate is
``(1/sqrt(m), 1/t, ..., 1/t, 0, ..., 0)`` with objective ``1/(2m) + 1/(2t)``, and the lower bound
is ``1/(2m) - 1/(2t)``.

For ``m = 1/eps`` the distance from the optimum, ``1/(4m) + 1/(2t)``, is above eps for all
``t < 2/(3 eps)``: the theorem. (The lecture writes ``m = 2/eps``, for which the same calculation
gives ``4/(7 eps)``.) The start itself is nearly optimal; the theorem is about the points that
follow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import cutplane as cp
from cutplane.compute.arrays import Vector
from cutplane.core.protocols import Plane, Quadratic, along
from cutplane.core.search import minimize_on_ray
from cutplane.papers.experiment import Experiment, Progress, Row, first, minimize, settings
from cutplane.report.figures import finish_axes, new_figure

_EPSILONS = (0.1, 0.03, 0.01, 0.003)

# Hinges this close to their kink are at it, but for rounding.
_KINK = 1e-9


class Variant(NamedTuple):
    """A method, and whether it is told that the risk is not negative."""

    name: str
    method: cp.Solver[Any]
    floor: bool = False


# A method that should be compared is one line here.
VARIANTS = (
    Variant("BMRM", cp.bmrm(line_search=False)),
    Variant("BMRM, 10 planes", cp.bmrm(line_search=False, planes=10)),
    Variant("BMRM without a QP", cp.bmrm_without_qp()),
    Variant("BMRM with line search", cp.bmrm()),
    Variant("proximal", cp.proximal(line_search=False)),
    Variant("trust region", cp.trust_region(line_search=False)),
    Variant("level", cp.level(line_search=False)),
    Variant("BMRM, 16 groups of examples", cp.bmrm(line_search=False, groups=16)),
    Variant("BMRM, told that R >= 0", cp.bmrm(line_search=False), floor=True),
)


def starting_point(m: int) -> Vector:
    """Return the point of the theorem, at which all examples are at the kink."""
    w = np.zeros(m + 1)
    w[0] = 1.0 / np.sqrt(m)
    return w


class HardRisk:
    """The mean hinge loss of ``m`` examples, with the least helpful subgradients.

    Where no hinge is above zero, the subgradient is that of the first example at its kink.
    ``candidates`` are the objectives of all points where a method evaluated the risk.
    """

    convex = True

    def __init__(self, m: int, *, floor: bool) -> None:
        self.n_parameters = m + 1
        self.lower_bound = 0.0 if floor else -np.inf
        self.evaluations = 0
        self.candidates: list[float] = []

    def at(self, w: Vector) -> HardPoint:
        """Evaluate the risk at ``w``."""
        m = self.n_parameters - 1
        self.evaluations += 1
        point = HardPoint(w, 1.0 - np.sqrt(m) * w[0] - m * w[1:])
        self.candidates.append(0.5 * float(w @ w) + point.value)
        return point

    def group_bounds(self, n_groups: int) -> Vector:
        """Return what each group's part of the risk never goes below."""
        return np.full(n_groups, self.lower_bound)


class HardPoint:
    """The risk at ``w``, with the hinges ``1 - y_i x_i.w`` there."""

    def __init__(self, w: Vector, hinges: Vector) -> None:
        self.w = w
        self.hinges = hinges
        self.value = float(np.maximum(hinges, 0.0).mean())

    def plane(self) -> Plane:
        """Return the plane that touches the risk here."""
        return self.planes(1)[0]

    def planes(self, n_groups: int) -> list[Plane]:
        """Return the plane of each group; every n-th example belongs to the same."""
        everyone = np.arange(len(self.hinges))
        return [self._plane_of(everyone[k::n_groups]) for k in range(n_groups)]

    def _plane_of(self, group: NDArray[np.int64]) -> Plane:
        m = len(self.hinges)
        active = group[self.hinges[group] > _KINK]
        if not len(active):
            active = group[self.hinges[group] >= -_KINK][:1]
        slope = np.zeros(m + 1)
        slope[0] = -len(active) / np.sqrt(m)
        slope[1 + active] = -1.0
        return Plane(slope, len(active) / m)

    def toward(self, other: HardPoint) -> HardSegment:
        """Return the risk on the ray from here through ``other``."""
        return HardSegment(self, other)


class HardSegment(NamedTuple):
    """The risk on a ray: the hinges are linear there."""

    start: HardPoint
    end: HardPoint

    def at(self, step: float) -> HardPoint:
        """Return the point at ``step``."""
        start, end = self
        hinges = start.hinges + step * (end.hinges - start.hinges)
        return HardPoint(start.w + step * (end.w - start.w), hinges)

    def minimize(self, regularizer: Quadratic) -> float:
        """Return the step that minimizes the risk plus the regularizer on the ray."""
        direction = self.end.w - self.start.w
        return minimize_on_ray(lambda step: along(self, step, direction), regularizer)


def run_variant(variant: Variant, eps: float) -> Row:
    """Return how many steps a method takes on the instance for ``eps``."""
    m = round(1.0 / eps)
    risk = HardRisk(m, floor=variant.floor)
    enough = 1.0 / (4.0 * m) + eps
    result = minimize(
        risk,
        cp.L2(1.0),
        method=variant.method,
        stop=cp.Gap(absolute=1e-3 * eps),
        start=starting_point(m),
        max_iter=2 * m,
        callbacks=[lambda state: state.gap <= eps and min(risk.candidates[1:]) <= enough],
    )
    candidates = risk.candidates[1 : 1 + result.iterations]  # not the start, nor the final check
    return {
        "eps": eps,
        "method": variant.name,
        "theorem": 2.0 / (3.0 * eps),
        "steps": first(objective <= enough for objective in candidates),
        "iterations": first(record.gap <= eps for record in result.history),
        "status": str(result.status),
    }


def _run(progress: Progress) -> Iterator[Row]:
    variants = {variant.name: variant for variant in VARIANTS}
    for eps, name in settings(progress, eps=_EPSILONS, method=variants):
        yield run_variant(variants[name], eps)


_MARKERS = "osD^vPX*ph"


def _picture(rows: Sequence[Row]) -> Any:
    figure = new_figure((8.0, 5.0))
    axes = figure.subplots()
    # Most methods need the same number of iterations: wide lines below, thin ones on top, and marks
    # of their own keep all of them in sight.
    names = list(dict.fromkeys(row["method"] for row in rows))
    for number, name in enumerate(names):
        own = [row for row in rows if row["method"] == name and row["iterations"]]
        axes.loglog(
            [1 / row["eps"] for row in own],
            [row["iterations"] for row in own],
            marker=_MARKERS[number % len(_MARKERS)],
            markersize=4 + 2.5 * (len(names) - number),
            markerfacecolor="none",
            linewidth=1 + 1.6 * (len(names) - 1 - number),
            alpha=0.8,
            zorder=2 + number,
            label=name,
        )
    inverse = sorted({1 / row["eps"] for row in rows})
    axes.loglog(inverse, [x / 2 for x in inverse], color="0.6", ls=":", label="1/(2 eps)")
    axes.set_xlabel("1/eps")
    finish_axes(axes, "iterations to a gap of eps")
    return figure


EXPERIMENTS = [
    Experiment(
        name="lower-bound",
        title="Paper 001: an instance on which BMRM needs 2/(3 eps) steps",
        paper=(
            "The paper proves that no step before 2/(3 eps) brings BMRM within eps of the "
            "optimum. It is about the plain method, and a subgradient of the adversary's choice."
        ),
        run=_run,
        columns={
            "eps": "eps",
            "method": "method",
            "theorem": "paper: steps >=",
            "steps": "steps to J - J* <= eps",
            "iterations": "iterations to gap <= eps",
        },
        picture=_picture,
    ),
]
