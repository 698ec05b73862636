"""The risk of a model's scores: the weighted mean loss on a sample.

    R(w) = sum_i weight_i * loss(y_i, z_i(w))                       without intercepts
    R(w) = min_c sum_i weight_i * loss(y_i, z_i(w) + c)             with them

A map takes the parameters to the scores ``z(w)`` and slopes back, a loss sees scores only. The
intercepts are minimized out, so they are not regularized, and the solver never sees them (paper
000, section 2); where a loss ties them together they are parameters of the map. A point carries its
scores: moving along the line between two points costs no pass over the data.

With planes of groups, the rows are cut into consecutive blocks, and the blocks are dealt out to the
groups in turn. So each group is a sample from all of the data, also if the data are sorted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import EPS, Matrix, Vector, lazy
from cutplane.compute.blocks import even_bounds, joined, power_below, rows_in_all
from cutplane.compute.mapped import MappedFile, in_memory
from cutplane.compute.products import all_finite, between, largest_over, product_over, sum_over
from cutplane.compute.threads import map_arrays
from cutplane.core.protocols import LibraryPoint, NonFiniteRisk, Plane, Point, Quadratic
from cutplane.data import AllPairs, CenteredColumns, OneScore, Rows, ScoreMap, as_rows
from cutplane.losses import Loss
from cutplane.losses.loss import AtBestOffset, Examples, Ray, ScoreLoss, TiltedLoss
from cutplane.risks.composite import SampleRisk


def normalized(weights: Vector | None, n_samples: int) -> Vector:
    """Return weights that sum to one; equal ones if none are given."""
    if weights is None:
        return np.full(n_samples, 1.0 / rows_in_all(n_samples))
    weights = np.asarray(weights, dtype=np.float64)
    if weights.shape != (n_samples,):
        raise ValueError(f"weights have shape {weights.shape}, X has {n_samples} rows")
    if weights.strides == (0,) and 0.0 < weights[0] < np.inf:  # one number for all
        return np.full(n_samples, 1.0 / rows_in_all(n_samples))
    if not np.isfinite(weights).all() or (weights < 0.0).any():
        raise ValueError("weights must be finite and not negative")
    largest = largest_over(weights)
    if largest == 0.0:
        raise ValueError("at least one weight must be positive")
    # Scaled by the largest first, so that neither huge nor tiny weights overflow the sum.
    scaled = np.asarray(weights / largest)
    # Less than this has no effect, and is too close to the smallest numbers to divide by.
    scaled[scaled < 1e-200] = 0.0
    scaled /= sum_over(scaled)
    return scaled


def require_finite(
    scores: Iterable[NDArray[np.float64]], w: Vector, *, whose: str | None = None
) -> None:
    """Raise NonFiniteRisk if a score with the parameters ``w`` is infinite or NaN."""
    for part in scores:
        if not all_finite(part):
            raise overflow(part, w, whose=whose)


def overflow(scores: NDArray[np.float64], w: Vector, *, whose: str | None = None) -> NonFiniteRisk:
    """Return the error for scores of which one is infinite or NaN.

    If a network computed them, ``whose`` says what they are.
    """
    norm = np.linalg.norm(w)
    if whose is not None:
        what = "NaN" if np.isnan(scores).any() else "infinite"
        return NonFiniteRisk(f"{whose}: {what} at parameters of norm {norm:.3g}")
    return NonFiniteRisk(
        f"the scores overflow at coefficients of norm {norm:.3g}: scale the features, or raise lam"
    )


def middle(y: Vector, weights: Vector) -> float:
    """Return the target that is nearest to the mean, of those that have a weight.

    Not the mean itself, which is rounded: equal targets would differ from it. Differences from a
    target are exact for all others that are less than twice as large and more than half (Sterbenz).
    """
    distance = np.abs(y - product_over(weights, y))
    distance[weights == 0.0] = np.inf
    nearest = map_arrays(lambda far, y: (far[[k := far.argmin()]], y[[k]]), distance, y)
    distances, targets = joined(nearest)
    return float(targets[distances.argmin()])


def good_number_of_groups(n_entries: int, n_features: int) -> int:
    """Return how many groups should make a run the fastest: a power of two.

    It depends on the shape of the data alone, not on measured times, so that the same run always
    gives the same result.
    """
    # An iteration with g groups brings g planes, whose inner products with some 10 g others cost
    # 10 g^2 d; a pass over the data costs the number of entries. A twelfth of the latter is spent
    # (docs/decisions/2026-11-18-products.md).
    affordable = math.sqrt(n_entries / (12.0 * max(n_features, 1)))
    return power_below(min(int(affordable), 32))


class Groups:
    """A partition of the examples into ``n_groups``, the same for the same numbers.

    Parameters
    ----------
    rows : Rows
        The features.
    y, weights : ndarray of shape (n_samples,)
        Targets and weights.
    n_groups : int
        Number of groups. If there are fewer examples, some are empty.
    """

    def __init__(self, rows: Rows, y: Vector, weights: Vector, n_groups: int) -> None:
        m, d = rows.shape
        self._rows = rows
        # Sixteen blocks each; fewer if their sums, a vector of all features for each block, would
        # cost as much as the rows themselves.
        self._each = min(max(m // (n_groups * max(d, 1)), 1), 16)
        self._n_groups = n_groups
        n_blocks = self._each * n_groups
        self._bounds = even_bounds(m, n_blocks)
        block_of = np.repeat(np.arange(n_blocks), np.diff(self._bounds))
        self._group_of = block_of % n_groups
        # Losses are computed group by group: so their examples are brought together.
        self._order = np.argsort(self._group_of, kind="stable")
        sizes = np.bincount(self._group_of, minlength=n_groups)
        ends = np.cumsum(sizes)
        self._parts = [
            slice(end - size, end) for end, size in zip(ends.tolist(), sizes.tolist(), strict=True)
        ]
        self._y, self._weights = y[self._order], weights[self._order]

    def planes(self, loss: Loss, scores: Vector, slopes: Vector, *, tilted: bool) -> list[Plane]:
        """Return the plane of each group, from scores and from the slopes by them.

        Tilted planes are for an intercept that the groups share: it adds to all scores.
        """
        own_scores, own_slopes = scores[self._order], slopes[self._order]
        blocks = self._rows.block_pullbacks(slopes, self._bounds)
        pulled_back: Matrix = blocks.reshape(self._each, self._n_groups, -1).sum(axis=0)
        planes = []
        for slope, i in zip(pulled_back, self._parts, strict=True):
            part = own_slopes[i]
            offset = loss.tangent_offset(self._y[i], own_scores[i], part, self._weights[i])
            planes.append(Plane(slope, offset, _sum(part) if tilted else 0.0))
        return planes

    def lower_bounds(self, loss: Loss) -> Vector:
        """Return what each group's part of the risk never goes below."""
        if loss.lower_bound == -np.inf:
            return np.full(self._n_groups, -np.inf)
        return np.array([loss.lower_bound * self._weights[i].sum() for i in self._parts])


def _sum(slopes: Vector) -> float:
    """Return the sum of slopes, and zero where only rounding would be left of it."""
    total = float(slopes.sum())
    return 0.0 if abs(total) <= 4.0 * EPS * float(np.abs(slopes).sum()) else total


Scores = NDArray[np.float64]


class ScoredRisk(SampleRisk):
    """Mean loss of a model's scores on a sample.

    Parameters
    ----------
    features : array-like, Rows or ScoreMap
        The features; see `cutplane.as_rows`. The loss then says which map makes scores of them:
        one score an example, one column a class, or columns whose intercepts are parameters. Or a
        map that is made already.
    y : array-like
        Targets as the loss takes them: -1 and 1 for classification, numbers for regression,
        numbers of classes from 0 on, a column for each loss or label.
    loss : Loss
        The loss of the scores.
    weights : ndarray of shape (n_samples,), optional
        Weights of the examples, not negative; scaled to sum to one. Equal by default.
    intercept : bool
        Whether the model has intercepts.

    Attributes
    ----------
    map : ScoreMap
        From parameters to scores.
    rows : Rows
        The features.
    y : ndarray
        The targets, less ``shift``.
    shift : float
        What the intercept takes up of the targets. Without it, targets around 1e10 would leave
        their rounding errors in the offset of every plane.
    minimizes_intercept : bool
        Whether there are intercepts that are minimized out.
    convex : bool
        Whether planes of the risk stay below it everywhere.
    unproven : str
        If not, why a gap is no proof.
    """

    rows: Rows

    def __init__(
        self,
        features: Any,
        y: Any,
        loss: ScoreLoss,
        *,
        weights: Vector | None = None,
        intercept: bool = True,
    ) -> None:
        if not isinstance(loss, ScoreLoss):
            raise TypeError(f"loss must be a Loss such as cp.Hinge(), got {loss!r}")
        given = features if isinstance(features, ScoreMap) else None
        self.rows = as_rows(features) if given is None else given.rows
        n_samples = self.rows.shape[0]
        if n_samples == 0:
            raise ValueError("a risk needs at least one example")
        self.weights = normalized(weights, n_samples)
        self.loss = loss
        self.y = in_memory(loss.targets(y, n_samples, self.weights))
        self.intercept = intercept
        self.map = given or self._usual_map()
        # To a loss of differences of scores an intercept means nothing.
        self.minimizes_intercept = (
            intercept and not loss.of_differences and not self.map.has_intercepts
        )
        loss.check_scores(
            self.y, self.weights, self.map.score_shape, intercept=self.minimizes_intercept
        )
        knows_offsets = loss.convex or loss.finds_offsets
        if self.minimizes_intercept and (loss.ties_intercepts or not knows_offsets):
            raise ValueError(
                f"the intercepts of {loss!r} cannot be minimized out: give intercept=False, or a "
                "map that has them"
            )
        self.n_parameters = self.map.n_parameters
        self.intercept_shape = loss.offset_shape(self.map.score_shape)
        self.lower_bound = loss.lower_bound
        self.convex = loss.convex and self.map.linear
        self.unproven = loss.unproven
        if not self.convex and not self.unproven:
            self.unproven = (
                f"the scores of {self.map} are not linear in the parameters"
                if loss.convex
                else f"the loss {loss!r} is not convex"
            )
        self.shift = 0.0
        if self.minimizes_intercept and loss.of_residual:
            self._shift_targets()
        self._begin()

    def _usual_map(self) -> ScoreMap:
        """Return the map that the loss is made for."""
        loss, shape = self.loss, self.loss.score_shape(self.y)
        if not shape:
            return OneScore(self.rows)
        if self.intercept and loss.ties_intercepts:
            mean = self.rows.pullback(self.weights)
            return CenteredColumns(self.rows, loss.constants(self.y, self.weights), mean)
        return AllPairs(self.rows, *shape)

    def _shift_targets(self) -> None:
        center = middle(self.y, self.weights)
        if center:
            self.y, self.shift = self.y - center, self.shift + center

    def _begin(self) -> None:
        self.evaluations = 0
        self._groups: dict[int, Groups] = {}

    @property
    def n_examples(self) -> int:
        """Number of examples."""
        return len(self.weights)

    @property
    def pointwise(self) -> Loss:
        """The loss, where it is known to be one of a score for each example."""
        assert isinstance(self.loss, Loss)
        return self.loss

    @property
    def files(self) -> tuple[MappedFile, ...]:
        """The files that the features are read from while a run goes on."""
        return self.rows.files

    def part(self, examples: Examples) -> ScoredRisk:
        """Return the risk of some of the examples, with their weights scaled to sum to one.

        It has the same parameters and the same loss, so that a point of one is a point of the
        other.

        Parameters
        ----------
        examples : ndarray of ints or slice
            Which examples.
        """
        part = copy(self)
        part.map = self.map.part(examples)
        part.rows = part.map.rows
        n_samples = part.rows.shape[0]
        if n_samples == 0:
            raise ValueError("a risk needs at least one example")
        part.weights = normalized(self.weights[examples], n_samples)
        part.loss = self.loss.part(examples)
        part.y = part.loss.targets(self.y[examples], n_samples, part.weights)
        part.loss.check_scores(
            part.y, part.weights, part.map.score_shape, intercept=part.minimizes_intercept
        )
        if self.minimizes_intercept and self.loss.of_residual:
            part._shift_targets()
        part.__dict__.pop("term_size", None)
        part._begin()
        return part

    @property
    def has_majorants(self) -> bool:
        """Whether there are convex risks above this one that touch it: see `majorant_at`."""
        return self.map.linear and (self.convex or self.loss.convex_part is not None)

    def majorant_at(self, point: Point) -> ScoredRisk:
        """Return a convex risk that is nowhere below this one, and the same at a point.

        The concave part of the loss is replaced by its tangent there. Where the intercept is
        minimized out, this holds for each intercept, so for the minimum too.
        """
        if self.convex:
            return self
        assert isinstance(point, ScoredPoint)
        above = copy(self)
        above.loss = TiltedLoss.above(
            self.pointwise, self.y, point.scores, point.offset, self.weights
        )
        above.convex, above.unproven = True, ""
        above.__dict__.pop("term_size", None)
        above._begin()
        return above

    @property
    def good_groups(self) -> int:
        """How many groups should make a run the fastest."""
        self._require_convex()
        if not self.loss.additive:
            return 1
        return good_number_of_groups(self.rows.n_entries, self.rows.shape[1])

    def _require_convex(self) -> None:
        if not self.loss.convex:
            raise ValueError(f"groups of planes need a convex loss, {self.loss!r} is not")
        if not self.map.linear:
            raise ValueError(f"groups of planes need scores that are linear, not {self.map}")

    def groups(self, n_groups: int) -> Groups:
        """Return the partition of the examples into ``n_groups`` groups."""
        self._require_convex()
        if not self.loss.additive:
            raise ValueError(
                f"groups need a loss that is a sum over examples, with one score each, "
                f"{self.loss!r} is not"
            )
        if n_groups not in self._groups:
            self._groups[n_groups] = Groups(self.rows, self.y, self.weights, n_groups)
        return self._groups[n_groups]

    def group_bounds(self, n_groups: int) -> Vector:
        """Return what each group's part of the risk never goes below."""
        return self.groups(n_groups).lower_bounds(self.pointwise)

    def at(self, w: Vector) -> ScoredPoint:
        """Evaluate the risk at ``w``: one pass over the data, and a second one for the plane."""
        self.evaluations += 1
        return self.with_scores(w, self.map.scores(w))

    def evaluate_again(self, point: Point) -> ScoredPoint | None:
        """Evaluate the risk where a point is; where intercepts take a long search, with its own."""
        if not isinstance(point, ScoredPoint):
            return None
        if not (self.minimizes_intercept and self.loss.of_shares):
            return self.at(point.w)
        self.evaluations += 1
        scores = self.map.scores(point.w)
        at = self.loss.at_offset(self.y, scores, self.weights, point.offset)
        return self.with_scores(point.w, scores, at=at)

    def with_scores(self, w: Vector, scores: Scores, **known: Any) -> ScoredPoint:
        """Return the point at ``w``, whose scores are known; ``guess``, ``at`` as for the point."""
        if not all_finite(scores):
            raise overflow(scores, w, whose=None if self.map.linear else f"scores of {self.map}")
        return ScoredPoint(self, w, scores, **known)

    @lazy
    def term_size(self) -> float:
        """The size of the terms that values are made of: those at scores of zero."""
        zeros = np.zeros((len(self.y), *self.map.score_shape))
        return abs(float(self.loss.value(self.y, zeros, self.weights)))

    def identity(self) -> dict[str, Any]:
        """Return what the risk consists of."""
        return {
            "features": self.map,
            "targets": (self.y, self.shift),
            "weights": self.weights,
            "loss": self.loss,
            "intercept": self.intercept,
        }

    def __repr__(self) -> str:
        intercepts = "intercepts" if self.intercept_shape else "intercept"
        has = intercepts if self.intercept else f"no {intercepts}"
        return f"ScoredRisk({self.map}, {self.loss!r}, {has})"


class ScoredPoint(LibraryPoint):
    """The risk at ``w``, with the scores there.

    Parameters
    ----------
    risk : ScoredRisk
    w : ndarray
        The parameters.
    scores : ndarray
        Those of the map at ``w``, without intercepts that are minimized out.
    guess : float or ndarray, optional
        Where to begin to look for the best intercepts.
    at : AtBestOffset, optional
        The loss at the best intercepts, if they are known.
    """

    def __init__(
        self, risk: ScoredRisk, w: Vector, scores: Scores, guess: Any = None, at: Any = None
    ) -> None:
        self._risk = risk
        self.w = w
        self.scores = scores
        # Slopes, as large as the scores, are not kept: the plane is all they are for, and of most
        # points it is not wanted.
        self._group_planes: dict[int, list[Plane]] = {}
        self._at = at or (
            risk.loss.at_best_offset(risk.y, scores, risk.weights, guess)
            if risk.minimizes_intercept
            else AtBestOffset(None, risk.loss.value(risk.y, scores, risk.weights))
        )

    @property
    def risk(self) -> ScoredRisk:
        """The risk that it is a point of."""
        return self._risk

    @property
    def has_segment(self) -> bool:
        """Whether `toward` knows the risk on a line: if scores are linear in the parameters."""
        return self._risk.map.linear

    @property
    def value(self) -> float:
        """The risk."""
        return self._at.value

    @property
    def offset(self) -> Any:
        """What is added to the scores: the best intercepts, for targets shifted as in the risk."""
        if self._at.offset is not None:
            return self._at.offset
        shape = self._risk.intercept_shape
        return np.zeros(shape) if shape else 0.0

    @property
    def slopes(self) -> Scores:
        """The derivative of the risk by each score; computed afresh each time."""
        risk, loss = self._risk, self._risk.loss
        return loss.slopes_at(risk.y, self.scores, risk.weights, self._at)

    @property
    def term_size(self) -> float:
        """The size of scores and targets, times the slopes of the loss: rounding of a value."""
        risk, scores = self._risk, self.scores
        # Targets that are no numbers beside the scores, such as classes, count as margins of one.
        sizes = np.abs(risk.y) + abs(risk.shift) if np.shape(risk.y) == scores.shape else 1.0
        # Intercepts may be several for one score, as thresholds are.
        sizes = sizes + float(np.abs(self.offset).max(initial=0.0))
        with np.errstate(over="ignore", invalid="ignore"):  # nothing vanishes beside such terms
            return float(np.sum(np.abs(self.slopes) * (np.abs(scores) + sizes)))

    @lazy
    def intercept(self) -> Any:
        """The best intercepts for these parameters; zero if the model has none.

        Where the loss has none to prefer, what its threshold says.
        """
        risk = self._risk
        if risk.map.has_intercepts:
            return risk.map.intercepts(self.w)
        if risk.intercept and risk.loss.of_differences:
            return -risk.loss.threshold(risk.y, self.scores, risk.weights)
        return self.offset + risk.shift

    def plane(self) -> Plane:
        """Return the plane that touches the risk here: one pass over the data, the first time."""
        if "_plane" not in vars(self):
            risk = self._risk
            tangent = risk.loss.tangent(risk.y, self.scores, risk.weights, self._at)
            self._plane = Plane(*risk.map.plane_at(self.w, self.scores, *tangent))
        return self._plane

    def planes(self, n_groups: int) -> list[Plane]:
        """Return the plane of each group, all in one pass over the data, the first time."""
        if n_groups not in self._group_planes:
            risk = self._risk
            scores = self.scores + self.offset if risk.minimizes_intercept else self.scores
            self._group_planes[n_groups] = risk.groups(n_groups).planes(
                risk.pointwise, scores, self.slopes, tilted=risk.intercept
            )
        return self._group_planes[n_groups]

    def toward(self, other: ScoredPoint) -> ScoredSegment:
        """Return the risk on the ray from here through ``other``."""
        return ScoredSegment(self._risk, self, other)


class ScoredSegment:
    """The risk on a ray between two points, from their scores alone.

    With intercepts, the search goes along the ray of parameters and intercepts together: at both
    ends the intercepts are the best ones, in between they are nearly so, and no inner minimization
    is needed.
    """

    def __init__(self, risk: ScoredRisk, start: ScoredPoint, end: ScoredPoint) -> None:
        self._risk = risk
        self._start = start
        self._end = end
        # A search that takes its plane at the lowest point asks for that point twice.
        self._last: tuple[float, ScoredPoint] | None = None

    def minimize(self, regularizer: Quadratic) -> float:
        """Return the step that minimizes the risk plus the regularizer on the ray."""
        risk = self._risk
        loss: ScoreLoss = risk.loss
        return loss.minimize_on_ray(risk.y, self._ray(), risk.weights, regularizer)

    def along(self, step: float) -> tuple[float, float]:
        """Return the risk at ``step`` and its derivative by the step."""
        risk = self._risk
        loss: ScoreLoss = risk.loss
        return loss.on_ray(risk.y, self._kept_ray, risk.weights, step)

    def _ray(self) -> Ray:
        """Return the scores at the start, and how they change from there to the end."""
        start, end = self._start, self._end
        loss: ScoreLoss = self._risk.loss
        return loss.ray(start.scores, start.offset, end.scores, end.offset)

    @lazy
    def _kept_ray(self) -> Ray:
        # A search by single steps looks at it again and again.
        return self._ray()

    def at(self, step: float) -> ScoredPoint:
        """Return the point at ``step``, without a pass over the data."""
        if self._last is not None and self._last[0] == step:
            return self._last[1]
        start, end = self._start, self._end
        w = start.w + step * (end.w - start.w)
        guess = start.offset + step * (end.offset - start.offset)
        point = ScoredPoint(self._risk, w, between(start.scores, end.scores, step), guess)
        self._last = step, point
        return point
