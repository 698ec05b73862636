"""Stochastic subgradient methods, each pass certified by the plane of its slopes (paper 002).

A pass costs about as much as an evaluation. After it the objective is evaluated once, and its
slopes give one plane, so that a run is certified like all others. It reaches a rough model soon,
and takes long for the last digits: that is what the other methods are for.

Each example's slopes are taken at the iterate of their own moment. Any slopes with a finite
conjugate give a plane below the risk, so those of a pass do, all together:

    a = sum_i p_i q_i x_i,    b = -sum_i p_i l*(q_i)

There are three ways to take a pass. Compiled steps are for one score per example, on dense and
sparse rows, with losses that they know; others for the margin of chains, sequence by sequence. For
any other sum over examples, such as the risks of structured models, the risk of each batch is
evaluated by itself, and the planes of the batches are added up. A batch of all examples is the risk
itself.

To the theory a problem is a repeated game, whose constants the sizes of steps come from. The
minimizer is in a ball: from ``R(0) >= R(w*) + a.(0 - w*)`` and ``a = -lam w*`` it follows that
``lam |w*|^2 <= R(0) - R(w*)``. For the mean hinge loss that is the paper's ``1/sqrt(lam)``.

A pass is taken in pieces, between which it may end: the time is over, or Ctrl-C waits. All that a
pass has changed is whole between two pieces, to the last bit: in how many it is taken does not
show. Examples that it does not come to keep the slopes that they have.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Annotated, Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector, positive
from cutplane.compute.pace import hurried
from cutplane.compute.products import dot
from cutplane.core.protocols import Plane, Point, Risk
from cutplane.core.solver import Solver, Step
from cutplane.core.state import Problem, Run
from cutplane.losses.loss import LOGISTIC, MARGIN_PIECES, RESIDUAL_PIECES, not_negative
from cutplane.risks.composite import InferenceRisk, SampleRisk, SumOfExamples, Weighted
from cutplane.risks.scored import ScoredPoint, ScoredRisk
from cutplane.solvers.ascent import balanced
from cutplane.solvers.bundle import checked_planes
from cutplane.solvers.needs import OF_EXAMPLES, PLAIN_L2
from cutplane.solvers.row_steps import draw, entries_of, shuffle
from cutplane.solvers.stochastic import loops
from cutplane.solvers.stochastic.loops import Game

Indices = NDArray[np.int64]


def require_count(name: str, value: int) -> None:
    """Raise ValueError unless a number is whole and positive."""
    if value < 1 or value != int(value):
        raise ValueError(f"{name} must be a whole number of at least 1, got {value}")


class Rule(IntEnum):
    """How ``tau_t`` is chosen, and with it the size of steps."""

    PEGASOS = loops.PEGASOS
    ADAPTIVE = loops.ADAPTIVE
    BALANCED = loops.BALANCED
    OPTIMISTIC = loops.OPTIMISTIC


class Sampling(Enum):
    """Which examples a pass visits.

    ``SHUFFLED``: each once, in a random order. ``DRAWN``: as many as there are, each drawn by
    itself, as the theorems of paper 002 assume; those that were not drawn keep their slopes.
    """

    SHUFFLED = "shuffled"
    DRAWN = "drawn"


class Iterate(Enum):
    """What the objective is evaluated at after each pass.

    ``LAST``: the last iterate. ``AVERAGE``: the mean of the iterates of the pass. ``BEST``: both,
    of which the better counts. The result of a run is the best of all points that were evaluated.
    """

    LAST = "last"
    AVERAGE = "average"
    BEST = "best"


@dataclass(frozen=True, slots=True)
class Settings:
    """The options of `cutplane.pegasos` and its relatives."""

    rule: Rule
    batch: int | None = 1
    seed: int = 0
    projected: bool = True
    radius: float | None = None
    iterate: Iterate = Iterate.LAST
    sampling: Sampling = Sampling.SHUFFLED
    epsilon: float = 0.0
    delta: float = 1.0
    longest: float = 0.0625

    def __post_init__(self) -> None:
        if self.batch is not None and (self.batch < 1 or self.batch != int(self.batch)):
            raise ValueError(f"batch must be None or a whole number above 0, got {self.batch!r}")
        if self.seed < 0 or self.seed != int(self.seed):
            raise ValueError(f"seed must be a whole number, not negative, got {self.seed!r}")
        if self.radius is not None:
            positive("radius", self.radius)
        not_negative("epsilon", self.epsilon)
        if not 0.0 < self.delta <= 1.0:
            raise ValueError(f"delta must be above 0 and at most 1, got {self.delta!r}")
        if not self.longest > 0.0:
            raise ValueError(f"longest must be positive, got {self.longest!r}")
        for name, value, kind in (
            ("iterate", self.iterate, Iterate),
            ("sampling", self.sampling, Sampling),
        ):
            if not isinstance(value, kind):
                known = ", ".join(str(each) for each in kind)
                raise TypeError(f"{name} must be one of {known}, got {value!r}")

    @property
    def averages(self) -> bool:
        """Whether the mean of the iterates is wanted."""
        return self.iterate is not Iterate.LAST


@dataclass(frozen=True, slots=True)
class Walk:
    """Where stochastic steps have led; arrays are changed in place.

    Attributes
    ----------
    v : ndarray
        The iterate is ``numbers[SCALE]`` times this.
    summed : ndarray
        With it, the sum of iterates is known; empty if their mean is not wanted.
    chosen : ndarray
        The iterate that Algorithm 3 returns; empty for other rules.
    facts : ndarray
        A line for each example: what does not change, and the last slope of its loss.
    numbers : ndarray
        All else, by the places that `loops` names.
    seed : ndarray
        Of the next random number.
    """

    v: Vector
    summed: Annotated[Vector, "f8[p] | f8[0]"]
    chosen: Annotated[Vector, "f8[p] | f8[0]"]
    facts: Annotated[Matrix, "f8[n, 4] | f8[0, 4]"]
    numbers: Annotated[Vector, "f8~[13]"]
    seed: NDArray[np.uint64]

    @property
    def w(self) -> Vector:
        """The iterate."""
        return np.asarray(self.numbers[loops.SCALE] * self.v)

    @property
    def mean(self) -> Vector:
        """The mean of the iterates since it was last forgotten."""
        numbers = self.numbers
        total = self.summed + numbers[loops.MASS] * self.v
        return np.asarray(total / max(numbers[loops.SUMMANDS], 1.0))

    @property
    def confident(self) -> bool:
        """Whether a phase of Algorithm 3 has ended as hoped."""
        return bool(self.numbers[loops.SURE])

    def forget_mean(self) -> None:
        """Begin a new mean."""
        self.summed[:] = 0.0
        self.numbers[loops.MASS] = self.numbers[loops.SUMMANDS] = 0.0

    def move_to(self, w: Vector) -> None:
        """Go on from another point."""
        self.v[:] = w
        self.numbers[loops.SCALE] = 1.0
        self.numbers[loops.SQUARE] = dot(w, w)

    def fits(self, risk: SumOfExamples, solver: StochasticPasses) -> bool:
        """Say whether there are the arrays that the settings ask for."""
        settings = solver.settings
        chosen = settings.rule is Rule.OPTIMISTIC
        # Compiled steps on the rows of a linear risk have a line of facts for each of them.
        compiled = settings.batch is not None and settings.batch < risk.n_examples
        return (
            (len(self.summed) > 0) == settings.averages
            and (len(self.chosen) > 0) == chosen
            and (len(self.facts) > 0 or not (compiled and has_compiled_steps(risk)))
            and (chosen or not self.confident)
        )


def first_walk(settings: Settings, n_parameters: int, facts: Matrix, radius: float) -> Walk:
    """Return the walk before the first step, at zero."""
    numbers = np.zeros(loops.DROP + 1)  # the last of them
    numbers[loops.SCALE] = 1.0
    optimistic = settings.rule is Rule.OPTIMISTIC
    numbers[loops.RADIUS] = min(1.0, radius) if optimistic else radius
    # The first states of neighboring seeds are unrelated.
    seed = np.random.SeedSequence(settings.seed).generate_state(1, np.uint64)
    return Walk(
        v=np.zeros(n_parameters),
        summed=np.zeros(n_parameters if settings.averages else 0),
        chosen=np.zeros(n_parameters if optimistic else 0),
        facts=facts,
        numbers=numbers,
        seed=np.maximum(seed, np.uint64(1)),
    )


def game_of(settings: Settings, lam: float, drop: float, steepest: float) -> Game:
    """Return the constants, from ``R(0)`` less a lower bound, and the steepest slope in a round."""
    # Where zero costs nothing it is the minimizer, which lies in a ball of any radius; steps divide
    # by it.
    known = math.sqrt(max(drop, 0.0) / lam) or 1.0
    radius = known if settings.radius is None else settings.radius
    steepness = lam * radius + steepest if math.isfinite(steepest) else math.nan
    if settings.epsilon > 0.0 and not math.isfinite(steepness):
        raise ValueError(
            "epsilon must be 0 here: how many steps it takes is known only for losses whose "
            "slopes are bounded, such as cp.Hinge() and cp.Logistic(), on a linear model"
        )
    # So many phases there are at most: the radius doubles in square, from 1 or less up to twice
    # that of the ball and a little more. With the hinge loss and lam <= 1 it is 3 - log2(lam).
    phases = 3.0 + max(2.0 * math.log2(radius), 0.0)
    return Game(
        lam=lam,
        radius=radius,
        ball=radius if settings.projected else math.inf,
        steepness=steepness,
        epsilon=settings.epsilon,
        delta=settings.delta / phases,
    )


def steepest_slope(form: tuple[int, Any]) -> float:
    """Return the largest slope that a loss has anywhere, perhaps infinite."""
    kind, shape = form
    if kind == LOGISTIC:
        return 1.0
    if kind not in (MARGIN_PIECES, RESIDUAL_PIECES):
        return math.inf
    ends = np.where(np.isfinite(shape[:, 4]), shape[:, 3], np.inf)
    return float(ends.max())


class Passes(ABC):
    """A way to take passes on one problem; all that changes is in the `Walk`."""

    # Numbers that a piece of a pass reads: some milliseconds, beside which a call costs nothing.
    _in_a_piece = 1 << 20

    def __init__(self, problem: Problem, settings: Settings) -> None:
        self._settings, self._lam = settings, problem.norm.lam
        self._whole = OF_EXAMPLES.of(problem)
        self._steepest = math.inf

    def _facts(self) -> Matrix:
        """Return a line for each example, or none."""
        return np.empty((0, 4))

    def initial(self) -> Walk:
        """Return the walk before the first step, with what the constants of the game need."""
        risk = self._whole
        drop = float(risk.at(np.zeros(risk.n_parameters)).value) - risk.lower_bound
        game = self._game(drop)
        walk = first_walk(self._settings, risk.n_parameters, self._facts(), game.radius)
        if self._settings.rule is Rule.OPTIMISTIC:
            loops.begin_phase(walk.numbers, game, walk.seed)
        walk.numbers[loops.DROP] = drop
        return walk

    def _game(self, drop: float) -> Game:
        return game_of(self._settings, self._lam, drop, self._steepest)

    def until_hurried(self, order: Indices, n_entries: int, *, batch: int = 1) -> Iterator[Indices]:
        """Yield the order of a pass piece by piece, in whole batches, until the step should end.

        A pass reads so many numbers, ``n_entries``, in all.
        """
        steps = self._in_a_piece * len(order) // (batch * max(n_entries, 1))
        size = batch * max(steps, 1)
        for begin in range(0, len(order), size):
            if begin and hurried():
                return
            yield order[begin : begin + size]

    @abstractmethod
    def taken(self, walk: Walk) -> tuple[Plane, Point | None]:
        """Take a pass; return its plane, and the point it was taken at if it was a single step."""


def has_compiled_steps(risk: object) -> TypeGuard[ScoredRisk]:
    """Say whether rows are in memory, with one score each, and a loss that the steps know."""
    return (
        isinstance(risk, ScoredRisk)
        and risk.map.plain
        and risk.rows.one_by_one
        and risk.loss.slope_form is not None
    )


def passes_of(problem: Problem, settings: Settings) -> Passes:
    """Return the way to take passes on a problem, or raise ValueError if there is none."""
    risk = OF_EXAMPLES.of(problem)
    if settings.batch is None or settings.batch >= risk.n_examples:
        return WholeSteps(problem, settings)
    if has_compiled_steps(risk):
        return CompiledSteps(problem, settings)
    if isinstance(risk, SampleRisk) and not risk.loss.additive:
        raise ValueError(
            f"batches need a risk that is a sum over examples, and {risk!r} is none; use batch=None"
        )
    if isinstance(risk, ScoredRisk) and risk.minimizes_intercept:
        raise ValueError(
            f"batches with an intercept need dense or sparse rows in memory and a loss that "
            f"compiled steps know, got {risk!r}; use batch=None"
        )
    if settings.sampling is Sampling.DRAWN:
        raise ValueError(
            f"for {risk!r} slopes of examples are not kept: use Sampling.SHUFFLED, whose passes "
            "visit each example once"
        )
    single = settings.batch == 1 and not settings.averages
    if single and isinstance(risk, InferenceRisk) and risk.output_kind == "labels":
        from cutplane.models.sequences.passes import MarginSteps
        from cutplane.models.sequences.steps import as_chains

        if (chains := as_chains(risk)) is not None and chains.loss.worst_labels:
            return MarginSteps(problem, settings, chains)
    return PartSteps(problem, settings)


class CompiledSteps(Passes):
    """Compiled passes over rows."""

    def __init__(self, problem: Problem, settings: Settings) -> None:
        super().__init__(problem, settings)
        risk = problem.risk
        assert has_compiled_steps(risk)
        self._risk = risk
        assert risk.loss.slope_form is not None
        self._kind, self._shape = risk.loss.slope_form
        self._used = np.flatnonzero(risk.weights)
        self._importance = len(self._used) * risk.weights
        self._norms: Vector = risk.rows.squared_norms()
        self._steepest = steepest_slope((self._kind, self._shape))
        if math.isfinite(self._steepest):
            self._steepest *= float((self._importance * np.sqrt(self._norms)).max())

    def _facts(self) -> Matrix:
        y = self._risk.y
        return np.column_stack([y, self._importance, self._norms, np.zeros(len(y))])

    @property
    def _offset_reach(self) -> float:
        """About how large an intercept may be: beside margins, 1, and beside targets, as these."""
        risk = self._risk
        if not risk.minimizes_intercept:
            return 0.0
        size = float(risk.weights @ np.abs(risk.y)) if self._kind == RESIDUAL_PIECES else 1.0
        return size or 1.0

    def taken(self, walk: Walk) -> tuple[Plane, None]:
        """Take a pass; return the plane of all slopes, those of this pass and others."""
        self.steps(walk)
        return self.plane(walk), None

    def steps(self, walk: Walk) -> None:
        """Take the steps of a pass."""
        risk, settings, numbers = self._risk, self._settings, walk.numbers
        game = self._game(float(numbers[loops.DROP]))
        # Free of the rounding that the last pass has left.
        loops.multiply_out(walk.v, walk.summed, numbers, float(numbers[loops.SCALE]))
        numbers[loops.SQUARE] = dot(walk.v, walk.v)
        walk.forget_mean()
        if settings.sampling is Sampling.DRAWN:
            order = np.empty_like(self._used)
            draw(self._used, order, walk.seed)
        else:
            order = self._used.copy()
            shuffle(order, walk.seed)
        assert settings.batch is not None
        entries, offset_reach = entries_of(risk.rows), self._offset_reach
        for piece in self.until_hurried(order, risk.rows.n_entries, batch=settings.batch):
            loops.epoch(
                *entries, walk.facts, self._kind, self._shape, piece, settings.batch,
                int(settings.rule), game, offset_reach, settings.longest, walk.v, walk.summed,
                walk.chosen, numbers, walk.seed,
            )  # fmt: skip

    def plane(self, walk: Walk) -> Plane:
        """Return the plane of all slopes."""
        risk = self._risk
        slopes = risk.weights * walk.facts[:, loops.SLOPE]
        if risk.minimizes_intercept:
            slopes = balanced(slopes)
        conjugate = risk.pointwise.known_conjugate(risk.y, slopes, risk.weights)
        return Plane(risk.rows.pullback(slopes), -conjugate)


class Batches:
    """The examples of a risk, a few at a time. With the size None, all of it is one batch."""

    def __init__(self, risk: Risk, size: int | None) -> None:
        self.size = size
        self.risk = risk
        if size is None:
            self.weights, self.used = np.ones(1), np.zeros(1, dtype=np.int64)
            return
        require_count("batch_size", size)
        if not isinstance(risk, SumOfExamples):
            raise TypeError(
                f"{type(risk).__name__} has no part, which batches need, beside n_examples; use "
                "batch_size=None"
            )
        what = ""
        if isinstance(risk, ScoredRisk) and risk.minimizes_intercept:
            what = "its intercept is minimized out"
        elif isinstance(risk, SampleRisk) and not risk.loss.additive:
            what = f"{risk.loss!r} is not one"
        if what:
            raise ValueError(
                f"batches need a risk that is a sum over examples: {what}; use batch_size=None"
            )
        n = int(risk.n_examples)
        self.weights = np.full(n, 1.0 / n)
        if isinstance(risk, Weighted):
            self.weights = np.asarray(risk.weights)
        self.used = np.flatnonzero(self.weights)

    def cut(self, order: Indices) -> list[Indices]:
        """Return examples in batches."""
        return np.split(order, range(self.size or 1, len(order), self.size or 1))

    def risk_of(self, examples: Indices) -> Risk:
        """Return the risk of some examples, with their weights scaled to sum to one."""
        if self.size is None or not isinstance(self.risk, SumOfExamples):
            return self.risk
        return self.risk.part(examples)

    def factor(self, examples: Indices) -> float:
        """Return what their risk is multiplied by, so that its expectation is the whole risk."""
        return float(self.weights[examples].sum()) * len(self.used) / len(examples)


class EvaluatedSteps(Passes):
    """Steps whose subgradients come from evaluations, in plain arithmetic."""

    def _step(self, walk: Walk, w: Vector, slope: Vector) -> Vector:
        """Return the next iterate, given a subgradient of the risk of a batch."""
        numbers, rule = walk.numbers, int(self._settings.rule)
        game = self._game(float(numbers[loops.DROP]))
        gradient = game.lam * w + slope
        numbers[loops.STEPS] += 1.0
        before = game.lam * (numbers[loops.STEPS] - 1.0) + numbers[loops.TAU]
        steepness = math.sqrt(dot(gradient, gradient))
        new = loops.tau_of(rule, before + game.lam, steepness, float(numbers[loops.RADIUS]))
        eta = 1.0 / (before + game.lam + new)
        shrink = (before if rule == loops.ADAPTIVE else before + new) * eta
        numbers[loops.TAU] += new
        w = shrink * w - eta * slope
        length, longest = math.sqrt(dot(w, w)), self._settings.longest
        hoped = float(numbers[loops.RADIUS])
        ball = loops.reach_of(rule, game.ball, longest, hoped)
        if length > ball:
            w = (ball / length) * w
        numbers[loops.SQUARE] = dot(w, w)
        if rule == loops.OPTIMISTIC:
            settled = bool(eta * steepness <= longest * hoped)
            loops.end_step(numbers, settled, game, walk.seed)
        if self._settings.averages:
            walk.summed[:] += w
            numbers[loops.SUMMANDS] += 1.0
        return np.asarray(w)


class WholeSteps(EvaluatedSteps):
    """Batches of all examples: a pass is a step along a subgradient of the risk."""

    def taken(self, walk: Walk) -> tuple[Plane, Point]:
        """Take a step; return the point it was taken from, and the plane there."""
        w = walk.w
        walk.forget_mean()
        point: Point = self._whole.at(w)
        walk.move_to(self._step(walk, w, point.plane().slope))
        return point.plane(), point


class PartSteps(EvaluatedSteps):
    """Batches whose risk is evaluated by itself."""

    def taken(self, walk: Walk) -> tuple[Plane, None]:
        """Take a pass; return the sum of the planes of its batches."""
        risk, batches = self._whole, Batches(self._whole, self._settings.batch)
        weights = batches.weights
        order, done = batches.used.copy(), 0
        shuffle(order, walk.seed)
        walk.forget_mean()
        w, slope, offset = walk.w, np.zeros(risk.n_parameters), 0.0
        for batch in batches.cut(order):
            examples = np.sort(batch)
            share = float(weights[examples].sum())
            plane = batches.risk_of(examples).at(w).plane()
            slope += share * plane.slope
            offset += share * plane.offset
            w = self._step(walk, w, batches.factor(examples) * plane.slope)
            done += len(batch)
            if hurried() and len(left := order[done:]):
                # Of the others nothing is known but what they cost at least.
                rest = risk.part(np.sort(left))
                if not math.isfinite(rest.lower_bound):
                    continue
                offset += float(weights[left].sum()) * rest.lower_bound
                break
        # An evaluation of all examples, in parts.
        risk.evaluations += 1
        walk.move_to(w)
        return Plane(slope, offset), None


@dataclass(frozen=True, slots=True)
class StochasticPasses(Solver[Walk]):
    """Passes of stochastic subgradient steps over the examples.

    Parameters
    ----------
    settings : Settings
        The rule of the steps, and its options.
    planes : int or None
        How many planes are combined, besides the aggregated one; None for all.
    name : str
        What results call the solver.
    """

    needs = (OF_EXAMPLES, PLAIN_L2)
    settings: Settings = field(default_factory=lambda: Settings(Rule.OPTIMISTIC))
    # Enough for the planes of many passes to be combined, few enough for the reduced problem to
    # take next to no time.
    planes: int | None = 50
    name: str = "optimistic"

    def start(self, problem: Problem) -> Walk:
        """Return the walk before the first step."""
        return passes_of(problem, self.settings).initial()

    def step(self, run: Run, own: Walk) -> Step[Walk]:
        """Take a pass; return its plane, and where it led."""
        risk = run.problem.risk
        plane, at_step = passes_of(run.problem, self.settings).taken(own)
        points: list[Point] = [] if at_step is None else [at_step]
        if at_step is None and self.settings.iterate is not Iterate.AVERAGE:
            points.append(risk.at(own.w))
        if self.settings.averages:
            points.append(risk.at(own.mean))
        first = points[0]
        if isinstance(first, ScoredPoint) and first.risk.minimizes_intercept:
            own.numbers[loops.OFFSET] = first.offset  # the best one there
        return Step(points, own, [plane], moved=True)


def _method(name: str, planes: int, settings: Settings) -> StochasticPasses:
    return StochasticPasses(settings, checked_planes(planes), name)


def pegasos(
    *, batch: int | None = 1, seed: int = 0, projected: bool = True, radius: float | None = None,
    iterate: Iterate = Iterate.LAST, sampling: Sampling = Sampling.SHUFFLED, planes: int = 50,
) -> StochasticPasses:  # fmt: skip
    """Projected subgradient steps of size ``1/(lam t)`` (paper 002, Algorithm 1).

    Parameters
    ----------
    batch : int or None
        Examples a step; None for all of them.
    seed : int
        Of the random order. The same seed gives the same run.
    projected : bool
        Whether iterates are scaled back to the ball. Without that, losses whose slopes are not
        bounded may overflow.
    radius : float, optional
        Of a ball that is known to hold the minimizer. By default it follows from the risk at zero.
    iterate : Iterate
        Where the objective is evaluated after each pass.
    sampling : Sampling
        Which examples a pass visits.
    planes : int
        Size of the bundle, besides the aggregated plane.
    """
    settings = Settings(Rule.PEGASOS, batch, seed, projected, radius, iterate, sampling)
    return _method("pegasos", planes, settings)


def adaptive(
    *, batch: int | None = 1, seed: int = 0, projected: bool = True, radius: float | None = None,
    iterate: Iterate = Iterate.LAST, sampling: Sampling = Sampling.SHUFFLED, planes: int = 50,
) -> StochasticPasses:  # fmt: skip
    """Adaptive online gradient descent: ``tau_t`` pulls toward zero (paper 002, equation 4).

    P. Bartlett, E. Hazan, A. Rakhlin: Adaptive online gradient descent, 2008. For the parameters
    see `pegasos`; the sizes of steps depend on ``radius``.
    """
    settings = Settings(Rule.ADAPTIVE, batch, seed, projected, radius, iterate, sampling)
    return _method("adaptive", planes, settings)


def online_proximal(
    *, batch: int | None = 1, seed: int = 0, projected: bool = True, radius: float | None = None,
    iterate: Iterate = Iterate.LAST, sampling: Sampling = Sampling.SHUFFLED, planes: int = 50,
) -> StochasticPasses:  # fmt: skip
    """Proximal projected subgradient steps with balanced ``tau_t`` (paper 002, Algorithm 2).

    For the parameters see `pegasos`; the sizes of steps depend on ``radius``.
    """
    settings = Settings(Rule.BALANCED, batch, seed, projected, radius, iterate, sampling)
    return _method("online-proximal", planes, settings)


def optimistic(
    *, longest: float = 0.0625, batch: int | None = 1, seed: int = 0, projected: bool = True,
    radius: float | None = None, iterate: Iterate = Iterate.LAST,
    sampling: Sampling = Sampling.SHUFFLED, planes: int = 50,
) -> StochasticPasses:  # fmt: skip
    """Proximal steps for a small ball, which grows when iterates come near (Algorithm 3).

    The stochastic method to begin with: it needs no constants, and small ``lam`` do not harm it.

    Parameters
    ----------
    longest : float
        The ball grows where a step leads to its rim that is no longer than this share of its
        radius; until then iterates are scaled back to it. With ``math.inf`` the ball grows
        whatever the step, as in the paper; but the first step of a phase is up to twice the radius
        long, so that the ball may grow again and again for no reason.
    batch, seed, projected, radius, iterate, sampling, planes
        See `pegasos`.
    """
    settings = Settings(
        Rule.OPTIMISTIC, batch, seed, projected, radius, iterate, sampling, longest=longest
    )
    return _method("optimistic", planes, settings)
