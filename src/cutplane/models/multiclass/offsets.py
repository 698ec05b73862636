"""The best intercepts of all classes, and compiled loops over scores with one column a class.

``v_ij = scores_ij + offsets_j + margins_yj * [j != y_i]`` is what speaks for class j. Margins have
a row for each class, or one that serves all of them; an example's own class has no margin, whatever
they say. Weights are those of examples and sum to one. Each loop does one block of rows.

For a temperature T, both multi-class losses minimize over the offsets ``c``

    f(c) = sum_i p_i T log sum_j exp(v_ij / T) - mass.c
    v_ij = z_ij + c_j + margins_yj * [j != y_i]

where ``mass_j`` is the weight of class j. The softmax loss has T = 1, the loss of Crammer and
Singer is the limit T = 0. The slopes of f vanish where the shares ``P_ij``, ``exp(v_ij / T)``
scaled to rows that sum to one, have the column sums ``sum_i p_i P_ij = mass_j``.

Newton's method finds the place in a few steps if it starts near it. From far away, and to small T,
it is led there: the temperature falls by a constant factor, and the offsets for one temperature
are the start for the next. As ``c(T)`` is nearly straight, the line through the last two is
followed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.blocks import add_up, joined, placing, rows_in_all, total
from cutplane.compute.compiled import njit
from cutplane.compute.threads import map_arrays, map_parts
from cutplane.losses.smooth import exp_minus, log

Indices = NDArray[np.int64]
Logits: TypeAlias = tuple[Vector, Vector, Matrix, float]
"""How scores become logits: offsets and shifts of the classes, margins and temperature."""
Motion: TypeAlias = tuple[Vector, Vector, float, Matrix]
"""Offsets of the classes on a ray, their speeds, how far to go, and margins."""

# exp(-40) is 4e-18: beside the largest term, which is 1, such terms are not seen.
_NEGLIGIBLE = -40.0
# Examples whose shares are multiplied at a time: long enough for sums to vectorize.
_TILE = 128


@njit(cache=True, nogil=True)
def _set_logits(scores: Matrix, i: int, own: int, rule: Logits, logits: Vector) -> float:
    """Set ``v_ij / temperature + shifts_j``, up to a constant, and return the largest.

    The shifts are not a part of the offsets, because the sum would round them: at low temperatures
    they make differences that are far smaller than the offsets.
    """
    offsets, shifts, margins, temperature = rule
    base = -np.inf
    margin = margins[own if len(margins) > 1 else 0]
    for j in range(len(offsets)):
        logits[j] = scores[i, j] + offsets[j] + (margin[j] if j != own else 0.0)
        base = max(base, logits[j])
    top = -np.inf
    for j in range(len(offsets)):
        logits[j] = (logits[j] - base) / temperature + shifts[j]
        top = max(top, logits[j])
    return top


@njit(cache=True, nogil=True)
def fill_shares(rule: Logits, scores: Matrix, y: Indices, shares: Matrix) -> None:
    """Set each row of ``shares`` to the exponentials of the logits, scaled to sum to one."""
    for i in range(len(y)):
        row = shares[i]
        top = _set_logits(scores, i, y[i], rule, row)
        total = 0.0
        for j in range(len(row)):
            row[j] = math.exp(row[j] - top) if row[j] - top > _NEGLIGIBLE else 0.0
            total += row[j]
        for j in range(len(row)):
            row[j] /= total


@njit(cache=True, nogil=True)
def make_slopes(shares: Matrix, y: Indices) -> None:
    """Turn shares into slopes: subtract one from the share of each example's own class.

    As the sum of the other shares, with its sign changed, a small slope keeps all its digits.
    """
    for i in range(len(y)):
        others = 0.0
        for j in range(shares.shape[1]):
            if j != y[i]:
                others += shares[i, j]
        shares[i, y[i]] = -others


@njit(cache=True, nogil=True, error_model="numpy")
def move_shares(shares: Matrix, dropped: Vector, lacking: Vector) -> None:
    """Take from each example a part of its share of each class, and distribute it again."""
    for i in range(shares.shape[0]):
        lost = 0.0
        for j in range(shares.shape[1]):
            lost += dropped[j] * shares[i, j]
        for j in range(shares.shape[1]):
            shares[i, j] = shares[i, j] * (1.0 - dropped[j]) + lost * lacking[j]


@njit(cache=True, nogil=True)
def class_sums(shares: Matrix, y: Indices, weights: Vector) -> tuple[Vector, Vector]:
    """Return the share that each class has of all weight, and by how much that is too much.

    The latter is a sum of slopes, not a difference of sums, which would round a small one.
    """
    loads, excess = np.zeros(shares.shape[1]), np.zeros(shares.shape[1])
    for i in range(len(y)):
        others = 0.0
        for j in range(len(loads)):
            loads[j] += weights[i] * shares[i, j]
            if j != y[i]:
                excess[j] += weights[i] * shares[i, j]
                others += shares[i, j]
        excess[y[i]] -= weights[i] * others
    return loads, excess


@njit(cache=True, nogil=True)
def sums_of_pairs(shares: Matrix, y: Indices, weights: Vector) -> Matrix:
    """Return the share that each class has of the weight of each true class, a row for each."""
    sums = np.zeros((shares.shape[1], shares.shape[1]))
    for i in range(len(y)):
        of_class, weight = sums[y[i]], weights[i]
        for j in range(shares.shape[1]):
            of_class[j] += weight * shares[i, j]
    return sums


@njit(cache=True, nogil=True)
def decide(
    block: tuple[Matrix, Indices, Vector, Matrix],
    offsets: Vector,
    radius: float,
    keep: NDArray[np.bool_],
) -> tuple[float, float, Vector]:
    """Set ``keep`` where a class comes within ``radius`` of the best.

    Return, of the others, the mean of ``max_j v_ij - v_iy``, the weight of those whose best class
    is not their own, and by how much each class has too much of them.
    """
    scores, y, weights, margins = block
    value, wrong, excess = 0.0, 0.0, np.zeros(len(offsets))
    for i in range(len(y)):
        top, second, best = -np.inf, -np.inf, 0
        margin = margins[y[i] if len(margins) > 1 else 0]
        for j in range(len(offsets)):
            v = scores[i, j] + offsets[j] + (margin[j] if j != y[i] else 0.0)
            if v > top:
                top, second, best = v, top, j
            elif v > second:
                second = v
        keep[i] = top - second < radius and weights[i] > 0.0
        if not keep[i]:
            value += weights[i] * (top - scores[i, y[i]] - offsets[y[i]])
            if best != y[i]:
                wrong += weights[i]
                excess[best] += weights[i]
                excess[y[i]] -= weights[i]
    return value, wrong, excess


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _add_products(by_class: Matrix, weights: Vector, products: Matrix) -> None:
    """Add the weighted products of two classes' shares, summed over a tile of examples."""
    for a in range(len(products)):
        for b in range(a):
            x, z = by_class[a], by_class[b]
            total = 0.0
            for i in range(len(weights)):
                total += weights[i] * x[i] * z[i]
            products[a, b] += total


@njit(cache=True, nogil=True)
def newton_sums(
    scores: Matrix, y: Indices, weights: Vector, rule: Logits
) -> tuple[float, float, float, Vector, Matrix]:
    """Return what a Newton step for the offsets needs, with shares as in `fill_shares`.

    These are the mean of ``max_j v_ij - v_iy``; how much lower it is if the mean weighted by the
    shares takes the place of the maximum; the mean share of classes that are not the own; by how
    much each class has too much; and the mean products of the shares of two classes, of which only
    those below the diagonal are set.
    """
    n_classes, temperature = scores.shape[1], rule[3]
    value, blur, wrong = 0.0, 0.0, 0.0
    excess = np.zeros(n_classes)
    products = np.zeros((n_classes, n_classes))
    share = np.empty(n_classes)
    by_class = np.empty((n_classes, _TILE))
    n = 0
    for i in range(len(y)):
        top = _set_logits(scores, i, y[i], rule, share)
        value += weights[i] * temperature * (top - share[y[i]])
        total, below = 0.0, 0.0
        for j in range(n_classes):
            logit = share[j] - top
            share[j] = math.exp(logit) if logit > _NEGLIGIBLE else 0.0
            total += share[j]
            below -= share[j] * logit
        blur += weights[i] * temperature * below / total
        scale, others = 1.0 / total, 0.0
        for j in range(n_classes):
            share[j] *= scale
            by_class[j, n] = share[j]
            if j != y[i]:
                excess[j] += weights[i] * share[j]
                others += share[j]
        excess[y[i]] -= weights[i] * others
        wrong += weights[i] * others
        n += 1
        if n == _TILE or i == len(y) - 1:
            _add_products(by_class, weights[i + 1 - n : i + 1], products)
            n = 0
    return value, blur, wrong, excess, products


@njit(cache=True, nogil=True)
def largest(v: Vector) -> float:
    """Return the maximum, by four at a time: each waits for its own last comparison only."""
    rest = len(v) - len(v) % 4
    first = second = third = fourth = v[0]
    for j in range(0, rest, 4):
        first, second = max(first, v[j]), max(second, v[j + 1])
        third, fourth = max(third, v[j + 2]), max(fourth, v[j + 3])
    for j in range(rest, len(v)):
        first = max(first, v[j])
    highest: float = max(max(first, second), max(third, fourth))
    return highest


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def softmax_on_ray(
    rule: Motion, scores: Matrix, direction: Matrix, y: Indices, weights: Vector
) -> tuple[float, float, float]:
    """Return the softmax loss at ``scores + step * direction``, and its derivatives by the step."""
    offsets, speeds, step, margins = rule
    value, first, second = 0.0, 0.0, 0.0
    n_classes = len(offsets)
    v, speed, part = np.empty(n_classes), np.empty(n_classes), np.empty(n_classes)
    for i in range(len(y)):
        if weights[i] == 0.0:
            continue
        margin = margins[y[i] if len(margins) > 1 else 0]
        for j in range(n_classes):
            speed[j] = direction[i, j] + speeds[j]
            v[j] = scores[i, j] + offsets[j] + step * speed[j] + margin[j]
        v[y[i]] = scores[i, y[i]] + offsets[y[i]] + step * speed[y[i]]
        highest = largest(v)
        top = 0
        while top < n_classes - 1 and v[top] != highest:
            top += 1
        for j in range(n_classes):
            part[j] = exp_minus(highest - v[j])
        # The others' sum apart from the largest term, so that a small loss keeps its digits.
        part[top] = 0.0
        others, mean, square = 0.0, 0.0, 0.0
        for j in range(n_classes):
            # Relative to the largest, so that the second moment does not cancel.
            ahead = speed[j] - speed[top]
            others += part[j]
            mean += part[j] * ahead
            square += part[j] * ahead * ahead
        mean /= 1.0 + others
        square /= 1.0 + others
        value += weights[i] * (math.log1p(others) + (highest - v[y[i]]))
        first += weights[i] * (mean + (speed[top] - speed[y[i]]))
        second += weights[i] * max(square - mean * mean, 0.0)
    return value, first, second


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def minus_entropy(slopes: Matrix, y: Indices, weights: Vector) -> float:
    """Return the weighted sum of ``sum_j P_j log P_j``, given the slopes ``P - e_y``."""
    total = 0.0
    for i in range(len(y)):
        others = 0.0
        for j in range(slopes.shape[1]):
            share = max(slopes[i, j], 0.0)  # the slope of the own class is not positive
            others += share * log(max(share, 1e-300))
        own = max(slopes[i, y[i]], -1.0)
        if own > -1.0:
            others += (1.0 + own) * math.log1p(own)
        total += weights[i] * others
    return total


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def mean_margin(margins: Matrix, slopes: Matrix, y: Indices, weights: Vector) -> float:
    """Return the weighted sum of the mean margins of shares, given the slopes ``P - e_y``."""
    total = 0.0
    for i in range(len(y)):
        margin = margins[y[i] if len(margins) > 1 else 0]
        mean = 0.0
        for j in range(slopes.shape[1]):
            mean += slopes[i, j] * margin[j]
        # The own class has no margin.
        total += weights[i] * (mean - slopes[i, y[i]] * margin[y[i]])
    return total


@njit(cache=True, nogil=True)
def hinge_on_ray(
    rule: Motion, scores: Matrix, direction: Matrix, y: Indices, weights: Vector
) -> tuple[float, float]:
    """Return the loss of Crammer and Singer at ``scores + step * direction``, and its slope."""
    offsets, speeds, step, margins = rule
    value, slope = 0.0, 0.0
    n_classes = len(offsets)
    v = np.empty(n_classes)
    for i in range(len(y)):
        if weights[i] == 0.0:
            continue
        margin = margins[y[i] if len(margins) > 1 else 0]
        for j in range(n_classes):
            v[j] = scores[i, j] + offsets[j] + step * (direction[i, j] + speeds[j]) + margin[j]
        own = scores[i, y[i]] + offsets[y[i]] + step * (direction[i, y[i]] + speeds[y[i]])
        v[y[i]] = own
        top = largest(v)
        if top > own:
            best = 0
            while v[best] != top:
                best += 1
            value += weights[i] * (top - own)
            slope += weights[i] * (
                (direction[i, best] + speeds[best]) - (direction[i, y[i]] + speeds[y[i]])
            )
    return value, slope


T = TypeVar("T")

_ROUNDING = 2.0 * float(np.finfo(np.float64).eps)
_COOLING = 4.0
_COLDEST = 1e-14  # relative to the size of the scores, where rounding decides
_MOST_STEPS = 30  # for one temperature
_LOST = 1e-8  # the share of the loss that weight out of balance may cost before that is repaired
_MOST_WARMED = 3  # how often offsets may be so far away that the temperature must rise
_NEAR = 1.0  # a step that changes no logit by more than this leads near enough to cool down
# The first temperature is this times the weight that is out of balance. On digits 0.5 takes half
# the time of a start at the size of the scores; the offsets of a neighboring point are that good.
_EAGER = 0.5
_REACH = 40.0  # exp(-40) is nothing, beside one
_ENOUGH = 2048  # examples to find offsets from which few steps with all examples are left
_ROUGH = 1e-4
_THERE = 1e-8  # after such a step the error is of the size of its square: rounding


class BestOffsets(NamedTuple):
    """Offsets ``base + temperature * shifts``: at that temperature they balance the shares."""

    base: Annotated[Vector, "f8[c]"]
    shifts: Annotated[Vector, "f8[c]"]
    temperature: Annotated[float, "float"]

    @property
    def offsets(self) -> Vector:
        """The offsets as one vector."""
        return self.base + self.temperature * self.shifts


class Scores(NamedTuple):
    """What the search for offsets looks at; all classes have some weight."""

    scores: Matrix
    y: Indices
    weights: Vector
    margins: Matrix  # as in the kernels


def smooth_offsets(data: Scores, start: Vector | None, accuracy: float) -> BestOffsets:
    """Return the best offsets at temperature 1; parameters as in `sharp_offsets`."""
    start = _roughly(smooth_offsets, data) if start is None else start
    search = _Cooling(data, start)
    if search.temperature > 1.0:
        search.begin_colder(coldest=1.0)
    while search.temperature > 1.0:
        search.settle(_NEAR)
        search.cool(coldest=1.0)
    search.temperature = 1.0
    # The error after a step is of the size of its square.
    if not search.settle(max(np.sqrt(accuracy), _THERE)) and start is not None:
        return smooth_offsets(data, None, accuracy)  # it was not near
    return search.result()


def sharp_offsets(data: Scores, start: Vector | None, accuracy: float) -> BestOffsets:
    """Return offsets for temperature 0.

    ``accuracy`` is how far from the best the offsets may be, and the shares below them, as a share
    of the loss. ``start`` are offsets that should be near; None if nothing is known.
    """
    start = _roughly(sharp_offsets, data) if start is None else start
    search = _Cooling(data, start)
    coldest = _COLDEST * search.temperature
    search.begin_colder(coldest=coldest)
    while True:
        if not search.settle(_NEAR) and search.warm():
            continue
        if search.blur <= accuracy * search.value or search.temperature <= coldest:
            # The blur says how far from the best the offsets are only where the shares balance.
            settled = search.settle(max(np.sqrt(accuracy), _THERE))
            if search.temperature <= coldest:
                return search.result()
            if settled and search.blur <= accuracy * search.value:
                return search.result()
        search.cool(coldest=coldest)


def _roughly(
    find: Callable[[Scores, Vector | None, float], BestOffsets], data: Scores
) -> Vector | None:
    """Return the offsets of a few of many examples; None if they are few, or would lack a class."""
    scores, y, weights, margins = data
    stride = rows_in_all(len(y)) // _ENOUGH
    if stride < 4:
        return None
    parts = map_arrays(lambda *each: tuple(part[::stride] for part in each), scores, y, weights)
    few_scores, few_y, few_weights = joined(parts)
    if not np.bincount(few_y, weights=few_weights, minlength=scores.shape[1]).all():
        return None
    with placing(None):  # everybody has the same few
        return find(Scores(few_scores, few_y, few_weights, margins), None, _ROUGH).offsets


class _Cooling:
    """Offsets that follow a falling temperature.

    The colder it is, the fewer examples are undecided between classes. Only these are looked at;
    of the others the class is known, as long as the offsets do not move far.
    """

    def __init__(self, data: Scores, start: Vector | None) -> None:
        self._data = data
        self._shifts = np.zeros(data.scores.shape[1])
        self._base = self._shifts if start is None else start
        self._warmer: tuple[float, Vector] | None = None
        sizes = map_arrays(
            lambda part: float(np.abs(part).mean(axis=0).mean()) * len(part), data.scores
        )
        size = float(total(sizes)) / rows_in_all(len(data.y))
        self.temperature = 0.5 * (size + float(data.margins.max()))
        self._hottest = self.temperature + float(np.ptp(self._base))
        self._n_warmed = 0
        self._forget_decisions()

    def result(self) -> BestOffsets:
        """Return where the search has come to."""
        return BestOffsets(self._base, self._shifts, self.temperature)

    def begin_colder(self, *, coldest: float) -> None:
        """Lower the first temperature if the offsets to start with leave little out of balance."""
        self._decide(0.0)
        imbalance = float(np.abs(self._decided[2]).sum())
        self.temperature = max(min(1.0, _EAGER * imbalance) * self.temperature, coldest)
        self._go_on_from(self._base)

    def cool(self, *, coldest: float) -> None:
        """Lower the temperature, and continue the line on which the offsets move with it."""
        warm, before = self.temperature, self._warmer
        offsets = self.result().offsets
        self._warmer = (warm, offsets)
        self.temperature = max(warm / _COOLING, coldest)
        if before is not None:
            speed = (offsets - before[1]) / (warm - before[0])
            offsets = offsets + speed * (self.temperature - warm)
        self._go_on_from(offsets, far=bool(np.ptp(offsets - self._base) > _REACH * warm))

    def warm(self) -> bool:
        """Raise the temperature, from which the offsets were too far away; return whether it is.

        Not where next to nothing is out of balance, or where that did not help before.
        """
        harmless = self.imbalance * self._hottest <= _LOST * self.value
        if harmless or self._n_warmed == _MOST_WARMED:
            return False
        self._n_warmed += 1
        offsets, self._warmer = self.result().offsets, None
        self.temperature = min(self.temperature * _COOLING**3, self._hottest)
        self._go_on_from(offsets)
        return True

    def settle(self, near: float) -> bool:
        """Take Newton steps at this temperature until one is not longer than ``near``.

        Return whether that took no more steps than allowed. The damping makes every step one
        downhill: along a line, the third derivative of f is at most the second times the spread of
        the direction. The attributes ``value`` and ``blur`` are those before the last step.
        """
        for _ in range(_MOST_STEPS):
            wrong, excess, hessian = self._sums()
            self.imbalance = float(np.abs(excess).max())
            if self.imbalance <= _ROUNDING * wrong:
                return True
            # A constant added to all offsets changes nothing; the ones keep it out of the step. The
            # ridge is for classes that share no example with others: rounding of their excess must
            # not make the step long, because the damping would then stop all other classes too.
            scale = max(float(np.trace(hessian)) / len(excess), _ROUNDING * wrong)
            ridge = max(1e-12, _ROUNDING * wrong / scale)
            matrix = hessian / scale + ridge * np.eye(len(excess)) + 1.0
            step = -np.linalg.solve(matrix, excess / scale)
            spread = float(np.ptp(step))
            damping = np.log1p(spread) / spread if spread > 0.0 else 1.0
            self._shifts = self._shifts + damping * step
            if np.ptp(self._shifts) > _REACH:
                self._go_on_from(self.result().offsets)
            if spread <= near:
                return True
        return False

    def _go_on_from(self, offsets: Vector, *, far: bool = True) -> None:
        """Go on from other offsets: if these are far away, with all examples undecided."""
        if far:
            self._forget_decisions()
        self._base, self._shifts = offsets, np.zeros_like(offsets)
        self._decide(2.0 * _REACH * self.temperature)

    def _forget_decisions(self) -> None:
        scores, y, weights, margins = self._data
        self._undecided = map_arrays(
            lambda scores, y, weights: Scores(scores, y, weights, margins), scores, y, weights
        )
        self._decided = (0.0, 0.0, np.zeros_like(self._base))

    def _decide(self, radius: float) -> None:
        """Take the examples out whose best class is ahead of all others by ``radius``."""

        def part(block: Scores) -> tuple[tuple[float, float, Vector], Scores]:
            scores, y, weights, margins = block
            keep = np.empty(len(y), dtype=np.bool_)
            sums = decide(block, self._base, radius, keep)
            left = Scores(scores[keep], y[keep], weights[keep], margins)
            return sums, block if keep.all() else left

        sums, self._undecided = map(list, zip(*self._map(part), strict=True))
        value, wrong, excess = (a + b for a, b in zip(self._decided, add_up(sums), strict=True))
        self._decided = (value, wrong, excess)

    def _map(self, task: Callable[[Scores], T]) -> list[T]:
        """Return the results of ``task`` on the examples of each block that are undecided."""
        n_numbers = sum(block.scores.size for block in self._undecided)
        return map_parts(task, self._undecided, n_numbers)

    def _sums(self) -> tuple[float, Vector, Matrix]:
        """Return the share of wrong classes, the excess of each, and second derivatives."""

        def part(block: Scores) -> tuple[float, float, float, Vector, Matrix]:
            scores, y, weights, margins = block
            rule = (self._base, self._shifts, margins, self.temperature)
            return newton_sums(scores, y, weights, rule)

        value, blur, wrong, excess, products = add_up(self._map(part))
        self.value, self.blur = self._decided[0] + value, blur
        products = products + products.T
        # Rows sum to zero, which gives the diagonal without a difference of large numbers.
        hessian = np.diag(products.sum(axis=0)) - products
        return self._decided[1] + wrong, self._decided[2] + excess, hessian


class Repair(NamedTuple):
    """Changes shares so that each class has the weight of its examples.

    Columns with too much are scaled down; what a row loses goes to the columns with too little, in
    proportion to what they lack. Rows keep their sums, and no share becomes negative.

    Attributes
    ----------
    dropped : ndarray of shape (n_classes,)
        The part that is taken of the shares of each class.
    lacking : ndarray of shape (n_classes,)
        Which part of that goes to each class.
    """

    dropped: Vector
    lacking: Vector

    @classmethod
    def of(cls, loads: Vector, excess: Vector) -> Repair:
        """Return the repair where classes have these loads, which are too much by the excess."""
        dropped = np.divide(excess, loads, out=np.zeros_like(loads), where=excess > 0.0)
        lacking = np.maximum(-excess, 0.0)
        total = float(lacking.sum())
        return cls(dropped, lacking / total) if total > 0.0 else cls(lacking, lacking)

    def change(self, sums: Matrix) -> Matrix:
        """Return how sums over the examples change that are linear in the shares.

        A row is what belongs to the shares of a class, so that no example is looked at.
        """
        return np.outer(self.lacking, self.dropped @ sums) - self.dropped[:, None] * sums

    def apply(self, shares: Matrix) -> None:
        """Change the shares of examples in place."""
        if self.dropped.any():
            map_arrays(lambda part: move_shares(part, self.dropped, self.lacking), shares)


def repaired(shares: Matrix, y: Indices, weights: Vector) -> Matrix:
    """Change shares in place so that each class has the weight of its examples, and return them."""
    Repair.of(*add_up(map_arrays(class_sums, shares, y, weights))).apply(shares)
    return shares
