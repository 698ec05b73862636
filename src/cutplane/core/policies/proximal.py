"""The proximal stabilizer: stay near a center, which moves when a step was serious (paper 001).

The candidate minimizes ``r(w) + mu/2 |w - c|^2`` plus the planes. By the model it is better than
the center by

    promised = J(c) - ( r(w) + max_i a_i.w + b_i )  >=  0

If a tenth of that is achieved, the step is **serious**: the best point becomes the center. Else it
is a **null** step, which only makes the model better.

The weight ``mu`` is fixed, or follows Kiwiel's rule (Mathematical Programming 46, 1990). Suppose
that J is a parabola on the way from the center to the candidate. Then, if the share ``s`` of what
was promised is achieved at the candidate, the candidate is its minimum for the weight
``2 mu (1 - s)``. The weight moves to it, down after steps that are better than half of the promise,
up after null steps.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.core.needs import QUADRATIC, quadratic
from cutplane.core.policies import Stabilizer
from cutplane.core.problem import Candidate
from cutplane.core.reduced.proximal import (
    PlainBound,
    ProximalProblem,
    distance,
    reach,
    stabilized,
)
from cutplane.core.state import State

_SERIOUS = 0.1  # the share of what was promised that makes a step serious
_GOOD = 0.5  # and the share with which the weight falls
_FASTEST = 10.0  # the factor by which the weight changes at most

# Where an adaptive weight begins, and how small it gets. With less than the regularizer's own
# weight, it is hardly felt.
_FIRST, _LEAST = 5.0, 0.1

# Steps shorter than this share of the distance within which the optimum must be are short enough.
# (Hinge loss, lam 1e-6, relative gap 1e-3, no line search; a9a and ijcnn1: 299 and 81 iterations
# with 0.02, 266 and 177 with 0.05, 867 and 186 with 0.1. Without this rule the weight grows
# without limit on a9a.)
_SHORT = 0.05


@dataclass(frozen=True, slots=True)
class Course:
    """What is kept from one iteration to the next.

    Attributes
    ----------
    center, objective : Vector, float
        The center, and the objective there.
    weight : float
        ``mu / lam``.
    candidate : Candidate, optional
        The last one.
    """

    center: Vector
    objective: float
    weight: float
    candidate: Candidate | None = None
    plain: PlainBound = field(default_factory=PlainBound)


@dataclass(frozen=True, slots=True)
class Proximal(Stabilizer):
    """Add ``mu/2 |w - c|^2`` to the reduced problem, in the metric of the regularizer.

    Parameters
    ----------
    weight : float or None
        ``mu / lam``; None for one that adapts itself.
    """

    needs = (*Stabilizer.needs, QUADRATIC)
    weight: float | None = 10.0

    def __post_init__(self) -> None:
        if self.weight is not None and not (np.isfinite(self.weight) and self.weight > 0.0):
            raise ValueError(f"the weight must be positive and finite, got {self.weight}")

    def propose(self, state: State, own: Course | None) -> tuple[Candidate, Course]:
        """Solve the reduced problem near the center."""
        regularizer = quadratic(state.problem.regularizer)
        course = self._course(state, own)
        here = ProximalProblem(state.bundle, regularizer, course.center, state.accuracy)
        solution = here.minimize(course.weight * regularizer.lam)
        plain, bound = course.plain.solved(state.bundle, regularizer, state.accuracy)
        candidate = stabilized(solution, plain, state)
        return candidate, replace(course, candidate=candidate, plain=bound)

    def _course(self, state: State, course: Course | None) -> Course:
        """Return center and weight after what the last step achieved."""
        if course is None or course.candidate is None:
            weight = _FIRST if self.weight is None else self.weight
            return Course(state.best.w, state.objective, weight)
        regularizer, last = state.problem.regularizer, course.candidate
        promised = course.objective - (regularizer.value(last.w) + last.model)
        serious = course.objective - state.objective >= _SERIOUS * promised
        weight = course.weight
        if self.weight is None and promised > 0.0:
            weight = _adapted(course, promised, serious, state)
        if not serious:
            return replace(course, weight=weight)
        return replace(course, weight=weight, center=state.best.w, objective=state.objective)


def _adapted(course: Course, promised: float, serious: bool, state: State) -> float:
    """Return the weight that fits the last step better."""
    regularizer = quadratic(state.problem.regularizer)
    assert course.candidate is not None
    w, bundle, weight = course.candidate.w, state.bundle, course.weight
    # The objective at the candidate if its plane was taken there, as without a line search, and
    # else a value below it.
    there = regularizer.value(w) + float(bundle.heights_at(w)[-bundle.n_groups :].sum())
    achieved = (course.objective - there) / promised
    fitting = 2.0 * weight * (1.0 - achieved)
    if serious and achieved >= _GOOD:
        return max(fitting, weight / _FASTEST, _LEAST)
    too_far = distance(regularizer, course.center, w) > _SHORT * reach(regularizer, state.gap)
    if not serious and too_far:
        return min(max(fitting, weight), _FASTEST * weight)
    return weight
