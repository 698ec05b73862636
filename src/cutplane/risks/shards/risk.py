"""A risk of scores whose rows lie elsewhere, in shards on the members of a team.

To the loop it is a risk like others. Its points stand for points on the members, each with the
scores of its own rows; only parameters, slopes of planes and a few numbers travel. All members run
the code of `ScoredRisk` at the same time, with sums taken along one tree (`cutplane.compute.team`),
so that the bits are those of a risk with all rows in one place.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector
from cutplane.core.protocols import Plane, Quadratic
from cutplane.losses.score_loss import ScoreLoss
from cutplane.maps import as_rows
from cutplane.risks.composite import Summable
from cutplane.risks.scored import ScoredRisk
from cutplane.risks.shards import calls
from cutplane.risks.shards.calls import Facts, Target, Told
from cutplane.risks.shards.member import name_of
from cutplane.risks.shards.sample import ShardedSample, Step


class ShardedRisk(Summable):
    """Mean loss of a model's scores on a sample whose rows lie elsewhere.

    Parameters
    ----------
    sample : ShardedSample
        The examples: features, targets and, if they have any, weights.
    loss : Loss
        A sum over examples; see `cutplane.ScoredRisk`.
    intercept : bool
        Whether the model has intercepts.
    target : Target
        How targets are made of labels.
    """

    sharded = True

    def __init__(
        self,
        sample: ShardedSample,
        loss: ScoreLoss,
        *,
        intercept: bool = True,
        target: Target = Target(),  # noqa: B008 (frozen)
    ) -> None:
        require_sum(loss)
        self.sample, self.loss, self.intercept, self._target = sample, loss, intercept, target
        self._step = Step(name_of(calls.make_risk), (), (loss, intercept, target))
        self.facts: Facts = sample.keep(self, self._step)
        self.n_parameters = self.facts.n_parameters
        self.lower_bound = self.facts.lower_bound
        self.convex = self.facts.convex
        self.unproven = self.facts.unproven
        self.evaluations = 0

    @property
    def n_examples(self) -> int:
        """Number of examples."""
        return self.sample.source.n_rows

    @property
    def term_size(self) -> float:
        """The size of the terms that values are made of: those at scores of zero."""
        return self.facts.term_size

    def at(self, w: Vector) -> ShardedPoint:
        """Evaluate the risk at ``w``: one pass over the data, and a second one for the plane."""
        self.evaluations += 1
        w = np.array(w, dtype=np.float64)
        return ShardedPoint(self, w, Step(name_of(calls.at), (self._step,), (w,)))

    def part(self, examples: NDArray[np.int64]) -> ScoredRisk:
        """Return the risk of some of the examples, which are brought here."""
        arrays = self.sample.ask(calls.some, (), np.sort(examples))
        rows = as_rows(arrays["X"])
        return self._target.risk(rows, arrays, self.loss, intercept=self.intercept)

    def identity(self) -> dict[str, Any]:
        """Return what the risk consists of: of its rows their digests, shard by shard."""
        return {
            "shards": self._digests,
            "target": self._target,
            "loss": self.loss,
            "intercept": self.intercept,
        }

    @cached_property
    def _digests(self) -> NDArray[np.uint8]:
        digests: NDArray[np.uint8] = self.sample.ask(calls.digests)
        return digests

    def __repr__(self) -> str:
        return f"{self.facts.text}, {self.sample.n_shards} shards"


class ShardedPoint:
    """The risk at ``w``; the scores there are where the rows are.

    Parameters
    ----------
    risk : ShardedRisk
    w : ndarray
        The parameters.
    step : Step
        How the members make the point.
    history : list of Step
        The steps before it, each after those that it depends on.
    """

    def __init__(
        self, risk: ShardedRisk, w: Vector, step: Step, history: list[Step] | None = None
    ) -> None:
        self._risk, self.w = risk, w
        # In this order a checkpoint tells how the point is made without going in circles.
        self._history = [*(history or []), step]
        self._told: Told = risk.sample.keep(self, step)

    @property
    def step(self) -> Step:
        """How the members make the point."""
        return self._history[-1]

    @property
    def value(self) -> float:
        """The risk."""
        return self._told.value

    @property
    def intercept(self) -> Any:
        """The best intercepts for these parameters; zero if the model has none."""
        return self._told.intercept

    @property
    def offset(self) -> Any:
        """What is added to the scores, for targets shifted as on the members."""
        return self._told.offset

    @property
    def has_segment(self) -> bool:
        """Whether `toward` knows the risk on a line."""
        return True

    def plane(self) -> Plane:
        """Return the plane that touches the risk here: one pass over the data, the first time."""
        return self._plane

    @cached_property
    def _plane(self) -> Plane:
        plane: Plane = self._risk.sample.ask(calls.plane, [self.step])
        return plane

    def toward(self, other: ShardedPoint) -> ShardedSegment:
        """Return the risk on the ray from here through ``other``."""
        return ShardedSegment(self._risk, self, other)


class ShardedSegment:
    """The risk on a ray between two points, from scores that stay where they are."""

    def __init__(self, risk: ShardedRisk, start: ShardedPoint, end: ShardedPoint) -> None:
        self._risk, self._start, self._end = risk, start, end
        self._last: tuple[float, ShardedPoint] | None = None

    def minimize(self, regularizer: Quadratic) -> float:
        """Return the step that minimizes the risk plus the regularizer on the ray."""
        return float(self._ask(calls.best_step, regularizer))

    def along(self, step: float) -> tuple[float, float]:
        """Return the risk at ``step`` and its derivative by the step."""
        value, slope = self._ask(calls.along, step)
        return value, slope

    def at(self, step: float) -> ShardedPoint:
        """Return the point at ``step``, without a pass over the data."""
        if self._last is None or self._last[0] != step:
            start, end = self._start, self._end
            w = start.w + step * (end.w - start.w)
            history = list(dict.fromkeys([*start._history, *end._history]))
            made = Step(name_of(calls.between), (start.step, end.step), (step,))
            self._last = step, ShardedPoint(self._risk, w, made, history)
        return self._last[1]

    def _ask(self, function: Any, argument: Any) -> Any:
        return self._risk.sample.ask(function, [self._start.step, self._end.step], argument)


def require_sum(loss: ScoreLoss) -> None:
    """Raise ValueError unless a loss is a sum over examples, as shards need."""
    if not isinstance(loss, ScoreLoss):
        raise TypeError(f"loss must be a Loss such as cp.Hinge(), got {loss!r}")
    if not loss.in_blocks:
        raise ValueError(
            f"{loss!r} is no sum over examples that is taken in blocks: it needs all of them on "
            "one machine"
        )
