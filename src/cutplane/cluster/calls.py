"""What members of a team are asked to do with a risk of scores; each is called on all at once.

The first argument is what a member holds. What is to be kept comes back as a pair: the thing, and
what the leader is told of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.cluster.member import Holding
from cutplane.compute.arrays import Vector
from cutplane.compute.blocks import placing, rows_in_all, total
from cutplane.compute.products import sum_over
from cutplane.compute.threads import map_blocks
from cutplane.core.fingerprint import fingerprint
from cutplane.core.protocols import Plane, Quadratic
from cutplane.data import AllPairs, Rows, as_rows
from cutplane.losses.score_loss import ScoreLoss
from cutplane.models.ranking.queries import is_missing
from cutplane.risks.groups import Groups
from cutplane.risks.scored import ScoredPoint, ScoredRisk


class Told(NamedTuple):
    """What the leader knows of a point."""

    value: float
    offset: Any
    intercept: Any


class Facts(NamedTuple):
    """What the leader knows of a risk."""

    n_parameters: int
    n_features: int
    n_entries: int
    sparse: bool
    second_derivatives: bool
    lower_bound: float
    convex: bool
    unproven: str
    term_size: float
    intercept_shape: tuple[int, ...]
    shift: float
    text: str


@dataclass(frozen=True)
class Target:
    """How targets are made of labels; by default they are targets as they are.

    Attributes
    ----------
    classes : ndarray, optional
        All labels, sorted. Their places become the targets, unless there is a positive one.
    positive : label, optional
        The one that becomes 1; all others become -1.
    factors : ndarray, optional
        What the weights of each class are multiplied by.
    """

    classes: NDArray[Any] | None = None
    positive: Any = None
    factors: Vector | None = None

    def of(self, arrays: dict[str, Any]) -> tuple[NDArray[Any], Vector | None]:
        """Return targets and weights of some examples."""
        y, weights = arrays["y"], arrays.get("weights")
        if self.classes is None:
            return y, weights
        places = np.searchsorted(self.classes, y) % len(self.classes)
        if self.factors is not None:
            weights = self.factors[places] * (1.0 if weights is None else weights)
        if self.positive is None:
            return places, weights
        return np.where(y == self.positive, 1.0, -1.0), weights

    def risk(
        self, rows: Rows, arrays: dict[str, Any], loss: ScoreLoss, *, intercept: bool
    ) -> ScoredRisk:
        """Return the risk of a loss: of all classes at once if none of them is positive."""
        y, weights = self.of(arrays)
        features: Any = rows
        if "qid" in arrays:
            of_queries: Any = loss  # only losses for rankings are given queries
            loss = of_queries.for_queries(arrays["qid"])
        if self.classes is not None and self.positive is None:
            features = AllPairs(rows, len(self.classes))
        return ScoredRisk(features, y, loss, weights=weights, intercept=intercept)


def rows_of(holding: Holding) -> Rows:
    """Return the features, as rows made once."""
    if "rows" not in holding.made:
        holding.made["rows"] = as_rows(holding.data["X"], n_threads=holding.n_threads)
    rows: Rows = holding.made["rows"]
    return rows


def make_risk(
    holding: Holding, loss: ScoreLoss, intercept: bool, target: Target
) -> tuple[ScoredRisk, Facts]:
    """Make the risk of a loss."""
    rows = rows_of(holding)
    risk = target.risk(rows, holding.data, loss, intercept=intercept)
    text = repr(risk).replace(f"({rows.shape[0]} x", f"({rows_in_all(rows.shape[0])} x", 1)
    return risk, Facts(
        risk.n_parameters,
        rows.shape[1],
        rows.n_entries,
        rows.sparse,
        rows.second_derivatives,
        risk.lower_bound,
        bool(risk.convex),
        risk.unproven,
        risk.term_size,
        risk.intercept_shape,
        risk.shift,
        text,
    )


def at(holding: Holding, risk: ScoredRisk, w: Vector) -> tuple[ScoredPoint, Told]:
    """Evaluate a risk."""
    return told_of(risk.at(w))


def again(holding: Holding, risk: ScoredRisk, w: Vector, offset: Any) -> tuple[ScoredPoint, Told]:
    """Evaluate a risk, where intercepts take a long search with given ones."""
    return told_of(risk.with_offset(w, offset))


def between(
    holding: Holding, start: ScoredPoint, end: ScoredPoint, step: float
) -> tuple[ScoredPoint, Told]:
    """Return the point on the ray through two others."""
    return told_of(start.toward(end).at(step))


def told_of(point: ScoredPoint) -> tuple[ScoredPoint, Told]:
    """Return a point to be kept, and what the leader knows of it."""
    return point, Told(point.value, point.offset, point.intercept)


def plane(holding: Holding, point: ScoredPoint) -> Plane:
    """Return the plane that touches at a point."""
    return point.plane()


def planes(holding: Holding, point: ScoredPoint, n_groups: int) -> list[Plane]:
    """Return the plane of each group: of the same share of the rows of all shards."""
    risk, slopes = point.risk, point.slopes
    scores = point.scores + point.offset if risk.minimizes_intercept else point.scores
    sums = []
    for rows, groups in _groups(holding, risk, n_groups):
        with placing(None):  # a shard's sums are its own
            own = groups.planes(risk.loss, scores[rows], slopes[rows], tilted=risk.intercept)
        parts = zip(*((each.slope, each.offset, each.tilt) for each in own), strict=True)
        sums.append(tuple(np.array(part) for part in parts))
    return [
        Plane(slope, float(offset), float(tilt))
        for slope, offset, tilt in zip(*holding.total(sums), strict=True)
    ]


def group_bounds(holding: Holding, risk: ScoredRisk, n_groups: int) -> Vector:
    """Return what each group's part of the risk never goes below."""
    groups = [groups for _, groups in _groups(holding, risk, n_groups)]
    with placing(None):
        bounds = [(each.lower_bounds(risk.loss),) for each in groups]
    total: Vector = holding.total(bounds)[0]
    return total


def _groups(holding: Holding, risk: ScoredRisk, n_groups: int) -> list[tuple[slice, Groups]]:
    """Return the rows of each shard here, and how they are split into groups; made once."""
    known = holding.made.get("groups")
    if known is None or known[0] is not risk or known[1] != n_groups:
        found, begin = [], 0
        for arrays in holding.shards():
            rows = slice(begin, begin + arrays["X"].shape[0])
            with placing(None):
                part = as_rows(arrays["X"], n_threads=holding.n_threads)
                own = Groups(part, risk.y[rows], risk.weights[rows], n_groups)
            found.append((rows, own))
            begin = rows.stop
        holding.made["groups"] = known = risk, n_groups, found
    groups: list[tuple[slice, Groups]] = known[2]
    return groups


def best_step(
    holding: Holding, start: ScoredPoint, end: ScoredPoint, regularizer: Quadratic
) -> float:
    """Return the step that minimizes the risk plus the regularizer on a ray."""
    return start.toward(end).minimize(regularizer)


def along(
    holding: Holding, start: ScoredPoint, end: ScoredPoint, step: float
) -> tuple[float, float]:
    """Return the risk on a ray, and its derivative by the step."""
    return start.toward(end).along(step)


def digests(holding: Holding) -> NDArray[np.uint8]:
    """Return digests of all shards, one row each, in their order."""
    return holding.of_shards(_digest)


def _digest(arrays: dict[str, Any]) -> NDArray[np.uint8]:
    parts = [name + fingerprint(arrays[name]) for name in sorted(arrays)]
    return np.frombuffer(sha256("".join(parts).encode()).digest(), dtype=np.uint8)[None]


def class_masses(holding: Holding, classes: NDArray[Any]) -> Vector:
    """Return the weight of each class."""
    y, weights = holding.data["y"], _weights(holding)
    places = np.asarray(np.searchsorted(classes, y) % len(classes))
    masses: Vector = total(
        map_blocks(
            lambda i: np.bincount(places[i], weights=weights[i], minlength=len(classes)), len(y)
        )
    )
    return masses


def total_weight(holding: Holding, target: Target) -> float:
    """Return the sum of the weights of all examples, with what their classes add to them."""
    return float(sum_over(_weights(holding, target)))


def _weights(holding: Holding, target: Target = Target()) -> Vector:
    weights = target.of(holding.data)[1]
    return np.ones(holding.data["X"].shape[0]) if weights is None else weights


def count_queries(holding: Holding) -> int:
    """Return how many queries there are; ValueError if a document has none."""

    def own(arrays: dict[str, Any]) -> NDArray[Any]:
        if is_missing(arrays["qid"]).any():
            raise ValueError("qid has a missing value")
        return np.unique(arrays["qid"])

    return len(np.unique(holding.of_shards(own)))


def extremes(holding: Holding, point: ScoredPoint) -> tuple[float, float]:
    """Return the lowest and the highest score."""
    scores = point.scores.ravel()
    own = [(np.array([scores.min()]), np.array([scores.max()]))] * len(holding.held)
    lowest, highest = holding.joined(own)
    return float(lowest.min()), float(highest.max())


def some(holding: Holding, risk: ScoredRisk, examples: NDArray[np.int64]) -> dict[str, Any]:
    """Return some examples of all, by their numbers in ascending order, with a risk's weights."""
    return holding.chosen(examples) | {"weights": holding.numbers_of(risk.weights, examples)}
