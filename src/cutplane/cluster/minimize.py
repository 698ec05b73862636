"""Minimize a risk whose rows lie on workers: all workers run `cutplane.minimize`, in step.

Each worker has an ordinary risk of its own rows, whose sums are those of all rows
(`cutplane.cluster.allreduce`). So all come to the same points, planes and bounds. After every
iteration they wait for the client, which gets the new best point and bound, calls the callbacks,
and answers whether to go on: Ctrl-C and the wish of a callback reach all workers at the same place.

When a worker is lost, its shards are read by the others, and the run goes on from the best point
and the planes, which every worker has. What solvers know besides (duals, steps of the past, scores)
is forgotten then. Bounds and tolerance are what they are without a loss; the bits are not.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from pickle import loads
from typing import Any, NamedTuple, Protocol, cast
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from cutplane.checkpoints.checkpoint import NoKeeper, keeper
from cutplane.cluster.allreduce import LostWorker
from cutplane.cluster.sample import (
    FarPoint,
    Holding,
    ShardedSample,
    digests,
    far,
    with_problem,
    without_rows,
)
from cutplane.compute.arrays import Vector
from cutplane.compute.compiled import clock
from cutplane.core import interrupts
from cutplane.core.bundle import Bundle
from cutplane.core.certificate import Certificate, Record, Result, Status
from cutplane.core.loop import Callback, begun_again
from cutplane.core.protocols import Point, Regularizer, Risk
from cutplane.core.solver import AnySolver
from cutplane.core.state import Problem, Run
from cutplane.report.progress import Progress
from cutplane.risks.composite import Summable
from cutplane.solvers.minimize import Options, attach, minimize

try:  # Dask brings it; without Dask there are workers in this process only
    from cloudpickle import dumps
except ImportError:
    from pickle import dumps


class Recipe(Protocol):
    """How a worker makes the risk of its own rows."""

    def make(self, holding: Holding) -> Risk:
        """Make it."""


class Named(NamedTuple):
    """A recipe, with a name by which workers know what they have made of it."""

    name: str
    recipe: Recipe

    def risk(self, holding: Holding) -> Any:
        """Return the risk; a worker keeps the last one only."""
        if (known := holding.made.get("risk")) is None or known[0] != self.name:
            holding.made.pop("risk", None)
            holding.made["risk"] = known = self.name, self.recipe.make(holding)
        return known[1]


class RemoteRisk(Summable):
    """A risk whose rows lie on workers.

    Parameters
    ----------
    sample : ShardedSample
        The examples.
    recipe : Recipe

    Attributes
    ----------
    evaluations : int
        How often it was evaluated.
    """

    sharded = True
    n_parameters: int
    lower_bound: float

    def __init__(self, sample: ShardedSample, recipe: Recipe) -> None:
        self.sample, self.named = sample, Named(uuid4().hex, recipe)
        self.evaluations = 0

    @property
    def n_examples(self) -> int:
        """Number of examples."""
        return self.sample.source.n_rows

    def at(self, w: Vector) -> FarPoint:
        """Evaluate the risk at ``w``: two passes over the data."""
        self.evaluations += 1
        point: FarPoint = self.sample.ask(evaluated, self.named, np.array(w, dtype=np.float64))
        return replace(point, risk=self)

    def minimized(
        self,
        problem: Problem,
        method: AnySolver,
        options: Options,
        *,
        callbacks: Iterable[Callback],
        checkpoint: Any,
        verbose: int,
    ) -> Result:
        """Minimize the risk plus a regularizer: see `cutplane.minimize`."""
        progress = Progress(sys.stdout)
        called: tuple[Callback, ...] = (*callbacks, progress) if verbose else (*callbacks,)
        for earlier, what in (options.resume, "resume"), (options.planes_from, "planes_from"):
            if earlier is not None:
                problem.require_risk_of(earlier.problem, what)
        if options.resume is not None:
            problem.require_regularizer_of(options.resume.problem)
        with progress, keeper(checkpoint, problem, method) as kept, interrupts.running() as run:
            if kept.start is not None:
                options = options._replace(start=kept.start, resume=None, planes_from=None)
            watch = Watch(problem, method, called, kept, run, kept.state or options.resume)
            return watch.result(options)

    @cached_property
    def digests(self) -> NDArray[np.uint8]:
        """Digests of all shards, one row each, in their order."""
        found: NDArray[np.uint8] = self.sample.ask(digests)
        return found


def evaluated(holding: Holding, named: Named, w: Vector) -> FarPoint:
    """Evaluate the risk, with its plane."""
    point = named.risk(holding).at(w)
    return replace(far(point), touching=point.plane())


class Report(NamedTuple):
    """What the client gets after an iteration.

    Attributes
    ----------
    best : FarPoint or None
        The best point, if it is another one.
    objective, lower : float
        The bounds.
    record : Record
        The line of the history.
    stalled_for : int
        As in `Run`.
    inferences : int
        How many there were, if the risk counts them.
    """

    best: FarPoint | None
    objective: float
    lower: float
    record: Record
    stalled_for: int
    inferences: int


class Answer(NamedTuple):
    """What the client wants: that the run ends, somehow, or that all of it is sent."""

    stopped: bool = False
    interrupted: bool = False
    failed: bool = False
    wants_run: bool = False


class Outcome(NamedTuple):
    """How a run on the workers has ended."""

    final: FarPoint
    certificate: Certificate
    run: Run
    evaluations: int
    inferences: int


class Ended(Exception):
    """A run of which one worker alone knows that it has ended."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome)
        self.outcome = outcome


class _Failed(Exception):
    """A callback of the client has raised."""


def run(holding: Holding, named: Named, given: bytes, name: str) -> Outcome:
    """Minimize the risk of the rows here, in step with all other workers."""
    regularizer: Regularizer
    method: AnySolver
    options: Options
    regularizer, method, options = loads(given)
    risk = named.risk(holding)
    problem = Problem(risk, regularizer)
    before, counted = risk.evaluations, getattr(risk, "inferences", 0)
    if (earlier := options.resume) is not None:
        options = options._replace(resume=begun_again(earlier, problem, method))
    if (earlier := options.planes_from) is not None:
        best = cast(Point, replace(cast(FarPoint, earlier.best), risk=risk))
        earlier = replace(earlier, problem=problem, method=method, best=best)
        options = options._replace(planes_from=earlier)
    sent: list[Any] = [None]

    def report(state: Run) -> bool:
        """Report an iteration to the client; do what it answers."""
        holding.left = name, state
        best = far(state.best) if state.best is not sent[0] else None
        sent[0] = state.best
        inferences = getattr(risk, "inferences", 0) - counted
        bounds = state.objective, state.lower, state.history[-1], state.stalled_for
        answer: Answer = holding.worker.reported(Report(best, *bounds, inferences))
        if answer.wants_run:
            answer = holding.worker.reported(without_rows(state))
        if answer.interrupted:
            raise KeyboardInterrupt
        if answer.failed:
            raise _Failed
        return answer.stopped

    def outcome(result: Result) -> Outcome:
        return Outcome(
            far(result.point),
            result.certificate,
            without_rows(result.state),
            risk.evaluations - before,
            getattr(risk, "inferences", 0) - counted,
        )

    try:
        result = minimize(risk, regularizer, method=method, callbacks=[report], **options._asdict())
    except _Failed as error:
        holding.left = "", None
        return outcome(error.result)  # type: ignore[attr-defined]
    except Exception as error:
        if (found := getattr(error, "result", None)) is not None:
            error.result = outcome(found)  # type: ignore[attr-defined]
        raise
    holding.left = "", None
    if result.status is Status.INCONSISTENT:
        raise Ended(outcome(result))
    return outcome(result)


class Watch:
    """What the client knows of a run on the workers, and does meanwhile."""

    def __init__(
        self,
        problem: Problem,
        method: AnySolver,
        callbacks: Iterable[Callback],
        kept: NoKeeper,
        pressed: interrupts.running,
        earlier: Run | None,
    ) -> None:
        self._problem, self._method = problem, method
        self._risk: RemoteRisk = problem.risk  # type: ignore[assignment]
        self._callbacks, self._kept, self._pressed = [*callbacks], kept, pressed
        self._name = uuid4().hex
        self._begin = clock() - (earlier.seconds if earlier else 0.0)
        self._error: BaseException | None = None
        self._inferences = getattr(problem.risk, "inferences", 0)
        self._earlier = earlier
        self.state: Run | None = None

    def result(self, options: Options) -> Result:
        """Return the result of the run."""
        try:
            outcome = self._outcome(options)
        except KeyboardInterrupt as error:
            # While workers were waited for, or again.
            if self.state is None:
                raise
            self._pressed.take()
            self.state.stopped = self.state.interrupted = True
            found = self._so_far(Status.INTERRUPTED)
            if self._pressed.insisted:
                attach(error, found)
                raise
            return found
        except Exception as error:
            known = getattr(error, "result", None)
            if isinstance(known, Outcome):
                attach(error, self._as_result(known))
            elif self.state is not None:
                attach(error, self._so_far(Status.FAILED))
            raise
        found = self._as_result(outcome)
        if self._error is not None:
            attach(self._error, found)
            raise self._error
        if found.status is Status.INTERRUPTED:
            self._pressed.take()
        if found.status is not Status.INCONSISTENT:
            self._kept.write(found.state)
        return found

    def _outcome(self, options: Options) -> Outcome:
        """Let the workers run, and go on when one is lost."""
        problem, sample = self._problem, self._risk.sample
        if options.planes_from is not None:
            options = options._replace(planes_from=without_rows(options.planes_from))
        while True:
            if self._earlier is not None:
                earlier = replace(without_rows(self._earlier), seconds=clock() - self._begin)
                options = options._replace(resume=earlier, planes_from=None, start=None)
            # Regularizers, policies and rules may be the user's own.
            given = dumps((problem.regularizer, self._method, options))
            try:
                found: Outcome = sample.ask_once(
                    run, self._risk.named, given, self._name, on_report=self._on_report
                )
                return found
            except Ended as error:
                return error.outcome
            except LostWorker:
                # Reading its shards again, workers still have what they knew of the run.
                left = sample.left(self._name)
                self._earlier = left or self.state or self._earlier
                if left is not None and self.state is not None:
                    self.state.history = list(left.history)
                self._inferences = getattr(self._risk, "inferences", 0)

    def _on_report(self, report: Report | Run) -> Answer:
        """Take what the workers report, call the callbacks, and say how to go on.

        After the report of an iteration comes the whole run, if it was asked for.
        """
        if isinstance(report, Run):
            self._kept.write_if_due(with_problem(report, self._problem, self._method))
            return Answer(stopped=self.state is not None and self.state.stopped)
        state = self._told(report)
        try:
            self._pressed.check()
            with interrupts.at_once():
                # Every callback is called, whatever the first one says.
                state.stopped = any([bool(callback(state)) for callback in self._callbacks])  # noqa: C419
            self._kept.after_iteration()
            return Answer(stopped=state.stopped, wants_run=self._kept.due)
        except KeyboardInterrupt:
            if self._pressed.insisted:
                raise
            return Answer(interrupted=True)
        except BaseException as error:
            self._error = error
            return Answer(failed=True)

    def _told(self, report: Report) -> Run:
        """Return the state of the run, as far as it is known here: without its planes."""
        record = report.record
        if self.state is None:
            assert report.best is not None
            problem, risk = self._problem, self._risk
            best = cast(Point, replace(report.best, risk=risk))
            self.state = Run(
                problem=problem,
                method=self._method,
                bundle=Bundle(risk.n_parameters, problem.regularizer),
                best=best,
                objective=report.objective,
                convex=self._method.takes_for_convex(risk),
                history=list(self._earlier.history) if self._earlier else [],
            )
        state = self.state
        if report.best is not None:
            state.best = cast(Point, replace(report.best, risk=self._risk))
        state.objective, state.lower = report.objective, report.lower
        state.iteration, state.evaluations = record.iteration, record.evaluations
        state.seconds, state.stalled_for = record.seconds, report.stalled_for
        state.history.append(record)
        self._count(report.inferences)
        return state

    def _count(self, inferences: int) -> None:
        """Add the inferences since the last start of the run to the risk, if it counts them."""
        if hasattr(self._risk, "inferences"):
            self._risk.inferences = self._inferences + inferences

    def _as_result(self, outcome: Outcome) -> Result:
        """Return what the workers have found, as the result of a run here."""
        risk = self._risk
        risk.evaluations += outcome.evaluations
        self._count(outcome.inferences)
        state = with_problem(outcome.run, self._problem, self._method)
        final = cast(Point, replace(outcome.final, risk=risk))
        return Result(final.w, final, outcome.certificate, state.history, state)

    def _so_far(self, status: Status) -> Result:
        """Return the best point that was reported, with its bound."""
        state = self.state
        assert state is not None
        lower = min(state.lower, state.objective)
        certificate = Certificate(state.objective, lower, status, valid=state.convex)
        return Result(state.best.w, state.best, certificate, state.history, state)
