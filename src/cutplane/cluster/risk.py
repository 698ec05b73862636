"""The risk of scores on shards.

On the client, `ShardedRisk` says which examples there are and what their loss is. Each worker makes
an ordinary risk of its own rows, whose sums are those of all rows, and runs `cutplane.minimize`
(`cutplane.cluster.minimize`). So the bits are those of a risk with all rows in one place.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.cluster.minimize import Named, RemoteRisk
from cutplane.cluster.sample import Holding, ShardedSample
from cutplane.compute.arrays import Vector
from cutplane.compute.blocks import (
    add_up,
    bounds_here,
    least_blocks,
    placing,
    rounded_alike,
    rows_in_all,
    total,
)
from cutplane.compute.products import sum_over
from cutplane.compute.threads import map_blocks
from cutplane.core.protocols import Plane
from cutplane.data import AllPairs, Rows, as_rows
from cutplane.data.rows import RowFacts
from cutplane.losses.loss import Examples, Loss, ScoreLoss
from cutplane.models.ranking.loss import is_missing
from cutplane.risks.composite import SampleRisk
from cutplane.risks.scored import Groups, ScoredPoint, ScoredRisk


class Facts(NamedTuple):
    """What the client knows of a risk."""

    n_parameters: int
    rows: RowFacts
    lower_bound: float
    convex: bool
    unproven: str
    term_size: float
    intercept_shape: tuple[int, ...]
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

    def given(
        self, rows: Rows, arrays: dict[str, Any], loss: ScoreLoss
    ) -> tuple[Any, NDArray[Any], ScoreLoss, Vector | None]:
        """Return features, targets, loss and weights, as a risk takes them.

        The features are those of all classes at once if none of them is positive.
        """
        y, weights = self.of(arrays)
        features: Any = rows
        if "qid" in arrays:
            of_queries: Any = loss  # only losses for rankings are given queries
            loss = of_queries.for_queries(arrays["qid"])
        if self.classes is not None and self.positive is None:
            features = AllPairs(rows, len(self.classes))
        return features, y, loss, weights


@dataclass(frozen=True)
class ScoredRecipe:
    """How a worker makes the risk of its rows."""

    loss: ScoreLoss
    intercept: bool
    target: Target

    def make(self, holding: Holding) -> WorkerRisk:
        """Make it."""
        return WorkerRisk(holding, self)


class WorkerRisk(ScoredRisk):
    """The risk of scores on the rows of a worker, with sums over the rows of all.

    Parameters
    ----------
    holding : Holding
        The rows.
    recipe : ScoredRecipe
    """

    def __init__(self, holding: Holding, recipe: ScoredRecipe) -> None:
        self._holding, self._recipe = holding, recipe
        if "rows" not in holding.made:
            holding.made["rows"] = as_rows(holding.data["X"], n_threads=holding.n_threads)
        given = recipe.target.given(holding.made["rows"], holding.data, recipe.loss)
        features, y, loss, weights = given
        super().__init__(features, y, loss, weights=weights, intercept=recipe.intercept)

    @property
    def n_examples(self) -> int:
        """Number of examples, of all workers."""
        return rows_in_all(len(self.weights))

    def groups(self, n_groups: int) -> Any:
        """Return the partition of the examples into groups: of each shard the same share."""
        self._require_convex()
        if n_groups not in self._groups:
            known: Any = ShardGroups(self, self._holding, n_groups)
            self._groups[n_groups] = known
        return self._groups[n_groups]

    def at(self, w: Vector) -> ScoredPoint:
        """Evaluate the risk at ``w``, where all workers do."""
        return super().at(rounded_alike(w))

    def part(self, examples: Examples) -> ScoredRisk:
        """Return the risk of some examples of all workers, which are brought to each of them."""
        chosen = np.sort(np.asarray(examples))
        arrays = self._holding.chosen(chosen)
        arrays["weights"] = self._holding.numbers_of(self.weights, chosen)
        recipe = self._recipe
        target = replace(recipe.target, factors=None)  # they are in the weights
        with placing(None):  # everybody has the same
            features, y, loss, weights = target.given(as_rows(arrays["X"]), arrays, recipe.loss)
            return ScoredRisk(features, y, loss, weights=weights, intercept=recipe.intercept)


class ShardGroups:
    """A partition of the examples of all workers into groups: of each shard the same share."""

    def __init__(self, risk: ScoredRisk, holding: Holding, n_groups: int) -> None:
        bounds = bounds_here(len(risk.weights), least_blocks()).tolist()
        self._shards = [slice(begin, end) for begin, end in pairwise(bounds)]
        with placing(None):  # a shard's sums are its own
            self._groups = [
                Groups(
                    as_rows(arrays["X"], n_threads=holding.n_threads),
                    risk.y[rows],
                    risk.weights[rows],
                    n_groups,
                )
                for arrays, rows in zip(holding.shards(), self._shards, strict=True)
            ]

    def planes(self, loss: Loss, scores: Vector, slopes: Vector, *, tilted: bool) -> list[Plane]:
        """Return the plane of each group: see `cutplane.risks.scored.Groups`."""
        sums = []
        with placing(None):
            for groups, rows in zip(self._groups, self._shards, strict=True):
                own = groups.planes(loss, scores[rows], slopes[rows], tilted=tilted)
                parts = zip(*((each.slope, each.offset, each.tilt) for each in own), strict=True)
                sums.append(tuple(np.array(part) for part in parts))
        return [
            Plane(slope, float(offset), float(tilt))
            for slope, offset, tilt in zip(*add_up(sums), strict=True)
        ]

    def lower_bounds(self, loss: Loss) -> Vector:
        """Return what each group's part of the risk never goes below."""
        with placing(None):
            bounds = [each.lower_bounds(loss) for each in self._groups]
        found: Vector = total(bounds)
        return found


def facts_of(holding: Holding, named: Named) -> Facts:
    """Make the risk; return what the client knows of it."""
    risk: WorkerRisk = named.risk(holding)
    rows = risk.rows
    text = repr(risk).replace(f"({rows.shape[0]} x", f"({risk.n_examples} x", 1)
    return Facts(
        risk.n_parameters,
        RowFacts(
            (risk.n_examples, rows.shape[1]),
            rows.n_entries,
            rows.sparse,
            rows.second_derivatives,
            dual_steps=rows.sparse,  # of shards on duals of their own: written for CSR
        ),
        risk.lower_bound,
        bool(risk.convex),
        risk.unproven,
        risk.term_size,
        risk.intercept_shape,
        text,
    )


def class_masses(holding: Holding, classes: NDArray[Any]) -> Vector:
    """Return the weight of each class."""
    y, weights = holding.data["y"], weights_of(holding)
    places = np.asarray(np.searchsorted(classes, y) % len(classes))
    masses: Vector = total(
        map_blocks(
            lambda i: np.bincount(places[i], weights=weights[i], minlength=len(classes)), len(y)
        )
    )
    return masses


def total_weight(holding: Holding, target: Target) -> float:
    """Return the sum of the weights of all examples, with what their classes add to them."""
    return float(sum_over(weights_of(holding, target)))


def weights_of(holding: Holding, target: Target = Target()) -> Vector:
    """Return the weights of the examples here, with what their classes add to them."""
    weights = target.of(holding.data)[1]
    return np.ones(holding.data["X"].shape[0]) if weights is None else weights


def count_queries(holding: Holding) -> int:
    """Return how many queries there are; ValueError if a document has none."""

    def own(arrays: dict[str, Any]) -> NDArray[Any]:
        if is_missing(arrays["qid"]).any():
            raise ValueError("qid has a missing value")
        return np.unique(arrays["qid"])

    return len(np.unique(holding.of_shards(own)))


def extremes(holding: Holding, named: Named, w: Vector) -> tuple[float, float]:
    """Return the lowest and the highest score."""
    scores = named.risk(holding).at(w).scores.ravel()
    own = [(np.array([scores.min()]), np.array([scores.max()]))] * len(holding.held)
    lowest, highest = holding.worker.joined(own)
    return float(lowest.min()), float(highest.max())


class ShardedRisk(RemoteRisk, SampleRisk):
    """Mean loss of a model's scores on a sample whose rows lie on workers.

    A risk like others for `cutplane.minimize`: bundle methods, also with groups of planes,
    `cutplane.newton` and `cutplane.quasi_newton` run on it, with the same bits wherever the rows
    are; methods that need rows here say so. See docs/cluster.md.

    Parameters
    ----------
    sample : ShardedSample
        The examples, as `cutplane.sharded_sample` makes them: features, targets and, if they have
        any, weights and queries.
    loss : Loss
        A sum over examples or queries, of one score per example or of columns.
    intercept : bool
        Whether the model has intercepts.
    target : Target
        How targets are made of labels; by default they are targets as they are.
    """

    def __init__(
        self,
        sample: ShardedSample,
        loss: ScoreLoss,
        *,
        intercept: bool = True,
        target: Target = Target(),
    ) -> None:
        if not isinstance(loss, ScoreLoss):
            raise TypeError(f"loss must be a Loss such as cp.Hinge(), got {loss!r}")
        if not loss.in_blocks:
            raise ValueError(
                f"{loss!r} is not a sum over examples that is taken in blocks: it needs all of "
                "them on one machine"
            )
        if loss.of_shares and target.classes is None:
            raise ValueError(f"{loss!r} needs target=Target(classes), with all labels, sorted")
        super().__init__(sample, ScoredRecipe(loss, intercept, target))
        self.loss, self.intercept, self.target = loss, intercept, target
        self.facts: Facts = sample.ask(facts_of, self.named)
        self.n_parameters = self.facts.n_parameters
        self.lower_bound = self.facts.lower_bound
        self.convex = self.facts.convex
        self.unproven = self.facts.unproven
        self.rows = self.facts.rows

    @property
    def term_size(self) -> float:
        """The size of the terms that values are made of: those at scores of zero."""
        return self.facts.term_size

    def identity(self) -> dict[str, Any]:
        """Return what the risk consists of: of its rows their digests, shard by shard."""
        return {
            "shards": self.digests,
            "target": self.target,
            "loss": self.loss,
            "intercept": self.intercept,
        }

    def __repr__(self) -> str:
        return f"{self.facts.text}, {self.sample.n_shards} shards"
