"""A risk of scores whose rows lie elsewhere, in shards on the members of a team.

To the loop it is a risk like others. Its points stand for points on the members, each with the
scores of its own rows; only parameters, slopes of planes and a few numbers travel. All members run
the code of `ScoredRisk` at the same time, with sums taken along one tree (`cutplane.cluster.team`),
so that the bits are those of a risk with all rows in one place.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.cluster import calls
from cutplane.cluster.calls import Facts, Target, Told
from cutplane.cluster.member import name_of
from cutplane.cluster.sample import ShardedSample, Step
from cutplane.compute.arrays import Vector
from cutplane.compute.mapped import MappedFile
from cutplane.core.needs import offers
from cutplane.core.protocols import Plane, Quadratic
from cutplane.data import as_rows
from cutplane.losses.score_loss import ScoreLoss
from cutplane.risks.composite import Summable
from cutplane.risks.groups import good_number_for
from cutplane.risks.scored import ScoredRisk


class RowFacts(NamedTuple):
    """What is known of features that lie elsewhere: the sizes of the whole sample."""

    shape: tuple[int, int]
    n_entries: int
    sparse: bool
    second_derivatives: bool

    @property
    def files(self) -> tuple[MappedFile, ...]:
        """None here: members look at their own."""
        return ()

    @property
    def sizes(self) -> tuple[int, int]:
        """The numbers of entries and of features."""
        return self.n_entries, self.shape[1]

    @property
    def dual_steps(self) -> bool:
        """Whether shards can improve duals of their own: that is written for CSR."""
        return self.sparse


class ShardedRisk(Summable):
    """Mean loss of a model's scores on a sample whose rows lie elsewhere.

    A risk like others for `cutplane.minimize`: bundle methods, also with groups of planes,
    `cutplane.newton` and `cutplane.quasi_newton` run on it, with the same bits wherever the rows
    are; methods that need rows here say so. See docs/cluster.md.

    Parameters
    ----------
    sample : ShardedSample
        The examples, as `cutplane.sharded_sample` makes them: features, targets and, if they have
        any, weights and queries.
    loss : Loss
        A sum over examples or queries, of one score an example or of columns.
    intercept : bool
        Whether the model has intercepts.
    target : Target
        How targets are made of labels; by default they are targets as they are.
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
        if offers(loss, "of_shares") and target.classes is None:
            raise ValueError(f"{loss!r} needs target=Target(classes), with all labels, sorted")
        self.sample, self.loss, self.intercept, self.target = sample, loss, intercept, target
        self.step = Step(name_of(calls.make_risk), (), (loss, intercept, target))
        self.facts: Facts = sample.keep(self, self.step)
        self.n_parameters = self.facts.n_parameters
        self.lower_bound = self.facts.lower_bound
        self.convex = self.facts.convex
        self.unproven = self.facts.unproven
        self.n_examples = sample.source.n_rows
        self.evaluations = 0

    @property
    def term_size(self) -> float:
        """The size of the terms that values are made of: those at scores of zero."""
        return self.facts.term_size

    @property
    def rows(self) -> RowFacts:
        """What is known here of the features."""
        facts = self.facts
        shape = (self.n_examples, facts.n_features)
        return RowFacts(shape, facts.n_entries, facts.sparse, facts.second_derivatives)

    @property
    def good_groups(self) -> int:
        """How many groups should make a run the fastest."""
        return good_number_for(*self.rows.sizes) if self.loss.additive and self.convex else 1

    def group_bounds(self, n_groups: int) -> Vector:
        """Return what each group's part of the risk never goes below."""
        if not (self.loss.additive and self.convex):
            raise ValueError(
                f"groups need a convex loss that is a sum over examples, with one score each, "
                f"{self.loss!r} is not"
            )
        bounds: Vector = self.sample.ask(calls.group_bounds, [self.step], n_groups)
        return bounds

    def at(self, w: Vector) -> ShardedPoint:
        """Evaluate the risk at ``w``: one pass over the data, and a second one for the plane."""
        self.evaluations += 1
        w = np.array(w, dtype=np.float64)
        return ShardedPoint(self, w, Step(name_of(calls.at), (self.step,), (w,)))

    def evaluate_again(self, point: ShardedPoint) -> ShardedPoint:
        """Evaluate the risk where a point is, as `ScoredRisk.evaluate_again` does."""
        self.evaluations += 1
        again = Step(name_of(calls.again), (self.step,), (point.w, point.offset))
        return ShardedPoint(self, point.w, again)

    def part(self, examples: NDArray[np.int64]) -> ScoredRisk:
        """Return the risk of some of the examples, which are brought here."""
        arrays = self.sample.ask(calls.some, [self.step], np.sort(examples))
        target = replace(self.target, factors=None)  # they are in the weights
        rows = as_rows(arrays["X"])
        return target.risk(rows, arrays, self.loss, intercept=self.intercept)

    def identity(self) -> dict[str, Any]:
        """Return what the risk consists of: of its rows their digests, shard by shard."""
        return {
            "shards": self._digests,
            "target": self.target,
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

    Attributes
    ----------
    value : float
        The risk.
    intercept : float or ndarray
        The best intercepts for these parameters; zero if the model has none.
    offset : float or ndarray
        What is added to the scores, for targets shifted as on the members.
    has_segment : bool
        That `toward` knows the risk on a line.
    """

    has_segment = True

    def __init__(
        self, risk: ShardedRisk, w: Vector, step: Step, history: list[Step] | None = None
    ) -> None:
        self._risk, self.w = risk, w
        # In this order a checkpoint tells how the point is made without going in circles.
        self.history = [*(history or []), step]
        self._group_planes: dict[int, list[Plane]] = {}
        told: Told = risk.sample.keep(self, step)
        self.value, self.offset, self.intercept = told

    @property
    def step(self) -> Step:
        """How the members have made the point."""
        return self._risk.sample.kept(self, self.history[-1])

    def plane(self) -> Plane:
        """Return the plane that touches the risk here: one pass over the data, the first time."""
        return self._plane

    @cached_property
    def _plane(self) -> Plane:
        plane: Plane = self._risk.sample.ask(calls.plane, [self.step])
        return plane

    def planes(self, n_groups: int) -> list[Plane]:
        """Return the plane of each group, all in one pass over the data, the first time."""
        if n_groups not in self._group_planes:
            found = self._risk.sample.ask(calls.planes, [self.step], n_groups)
            self._group_planes[n_groups] = found
        return self._group_planes[n_groups]

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
            history = list(dict.fromkeys([*start.history, *end.history]))
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
