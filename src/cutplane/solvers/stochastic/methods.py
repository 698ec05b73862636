"""Stochastic subgradient methods for the loop: each pass gives a plane, and so a lower bound.

A pass costs about as much as an evaluation. After it the objective is evaluated once, and its
slopes give one plane, so that a run is certified like all others. It reaches a rough model soon,
and takes long for the last digits: that is what the other methods are for.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from cutplane.core.certificate import Status
from cutplane.core.needs import PLAIN_L2, Need, offers, quadratic
from cutplane.core.policies.bmrm import as_searchable, best_step
from cutplane.core.solver import Solver, Step
from cutplane.core.state import Problem, Run
from cutplane.core.stopping import StoppingRule
from cutplane.solvers.bundle import checked_planes
from cutplane.solvers.stochastic import loops
from cutplane.solvers.stochastic.passes import passes_of
from cutplane.solvers.stochastic.settings import Begin, Iterate, Rule, Sampling, Settings, Walk

# Enough for the planes of many passes to be combined, few enough for the reduced problem to take
# next to no time.
_PLANES = 50


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

    needs = (
        Need("risk", "part", "a risk that is a sum over examples"),
        PLAIN_L2,
    )
    settings: Settings = field(default_factory=lambda: Settings(Rule.OPTIMISTIC))
    planes: int | None = _PLANES
    name: str = "optimistic"

    @property
    def has_epsilon(self) -> bool:
        """Whether a run can become `Confident`."""
        return self.settings.epsilon > 0.0

    def start(self, problem: Problem) -> Walk:
        """Return the walk before the first step."""
        return passes_of(problem, self.settings).begun()

    def step(self, run: Run, own: Walk) -> Step[Walk]:
        """Take a pass; return its plane, and where it led."""
        risk: Any = run.problem.risk
        on_ray = self._better(run, own)
        plane, at_step = passes_of(run.problem, self.settings).taken(own)
        points: list[Any] = [] if at_step is None else [at_step]
        if at_step is None and self.settings.iterate is not Iterate.AVERAGE:
            points.append(risk.at(own.w))
        objective = run.problem.objective(points[0]) if points else own.objective
        if self.settings.averages:
            points.append(risk.at(own.mean))
        if offers(risk, "minimizes_intercept"):
            own.numbers[loops.OFFSET] = points[0].offset  # the best one there
        if own.confident:
            points.append(risk.at(own.chosen.copy()))
        after = replace(own, objective=objective)
        return Step([*points, *on_ray], after, [plane], on_ray, moved=True)

    def _better(self, run: Run, own: Walk) -> list[Any]:
        """Go to a lower point if the bundle has led to one; return where it was looked for."""
        if self.settings.begin is Begin.LAST:
            return []
        there: Any = run.problem.risk.at(run.candidate.w)
        if (best := as_searchable(run.best)) is not None:
            segment = best.toward(there)
            along = quadratic(run.problem.regularizer).along(run.best.w, there.w)
            there = segment.at(best_step(segment, along))
        if not run.problem.objective(there) >= own.objective:
            own.move_to(there.w)
            if offers(run.problem.risk, "minimizes_intercept"):
                own.numbers[loops.OFFSET] = there.offset
        return [there]


@dataclass(frozen=True, slots=True)
class Confident(StoppingRule):
    """Stop when `cutplane.optimistic` has taken as many steps as Theorem 4 of paper 002 asks for.

    With probability ``1 - delta`` the result is then within ``epsilon`` of the optimum. The status
    is ``stopped``, unless the gap is small too: a probability is no proof.
    """

    def __call__(self, state: Run) -> Status:
        """Return the reason to stop, or `Status.RUNNING`."""
        solver = state.method
        if not (isinstance(solver, StochasticPasses) and solver.has_epsilon):
            raise ValueError(
                "Confident needs a method that says when: cp.optimistic(epsilon=..., delta=..., "
                f"sampling=cp.Sampling.DRAWN); got {solver.name} without epsilon"
            )
        walk: Walk = state.own
        return Status.STOPPED if walk.confident else Status.RUNNING


def _method(name: str, planes: int, settings: Settings) -> StochasticPasses:
    return StochasticPasses(settings, checked_planes(planes), name)


def pegasos(
    *,
    batch: int | None = 1,
    seed: int = 0,
    projected: bool = True,
    radius: float | None = None,
    iterate: Iterate = Iterate.LAST,
    sampling: Sampling = Sampling.SHUFFLED,
    planes: int = _PLANES,
) -> StochasticPasses:
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
    *,
    batch: int | None = 1,
    seed: int = 0,
    projected: bool = True,
    radius: float | None = None,
    iterate: Iterate = Iterate.LAST,
    sampling: Sampling = Sampling.SHUFFLED,
    planes: int = _PLANES,
) -> StochasticPasses:
    """Adaptive online gradient descent: ``tau_t`` pulls toward zero (paper 002, equation 4).

    P. Bartlett, E. Hazan, A. Rakhlin: Adaptive online gradient descent, 2008. For the parameters
    see `pegasos`; the sizes of steps depend on ``radius``.
    """
    settings = Settings(Rule.ADAPTIVE, batch, seed, projected, radius, iterate, sampling)
    return _method("adaptive", planes, settings)


def online_proximal(
    *,
    batch: int | None = 1,
    seed: int = 0,
    projected: bool = True,
    radius: float | None = None,
    iterate: Iterate = Iterate.LAST,
    sampling: Sampling = Sampling.SHUFFLED,
    planes: int = _PLANES,
) -> StochasticPasses:
    """Proximal projected subgradient steps with balanced ``tau_t`` (paper 002, Algorithm 2).

    For the parameters see `pegasos`; the sizes of steps depend on ``radius``.
    """
    settings = Settings(Rule.BALANCED, batch, seed, projected, radius, iterate, sampling)
    return _method("online-proximal", planes, settings)


def optimistic(
    *,
    epsilon: float = 0.0,
    delta: float = 1.0,
    longest: float = 0.0625,
    batch: int | None = 1,
    seed: int = 0,
    projected: bool = True,
    radius: float | None = None,
    iterate: Iterate = Iterate.LAST,
    sampling: Sampling = Sampling.SHUFFLED,
    begin: Begin = Begin.LAST,
    planes: int = _PLANES,
) -> StochasticPasses:
    """Proximal steps for a small ball, which grows when iterates come near (Algorithm 3).

    The stochastic method to begin with: it needs no constants, and small ``lam`` do not harm it.

    Parameters
    ----------
    epsilon, delta : float
        With ``stop=cp.Confident()`` the run ends when, with probability ``1 - delta``, it is within
        ``epsilon`` of the optimum (Theorem 4, which assumes ``Sampling.DRAWN``). By default there
        is no such end, as in the experiments of the paper.
    longest : float
        The ball grows where a step leads to its rim that is no longer than this share of its
        radius; until then iterates are scaled back to it. With ``math.inf`` the ball grows
        whatever the step, as in the paper; but the first step of a phase is up to twice the radius
        long, so that the ball may grow again and again for no reason.
    begin : Begin
        Where a pass begins: with ``cp.solvers.Begin.BETTER`` passes and planes take turns.
    batch, seed, projected, radius, iterate, sampling, planes
        See `pegasos`.
    """
    settings = Settings(
        *(Rule.OPTIMISTIC, batch, seed, projected, radius, iterate, sampling),
        *(epsilon, delta, longest, begin),
    )
    return _method("optimistic", planes, settings)
