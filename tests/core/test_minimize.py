"""Every method meets every problem; then limits, interruptions, resumption and trouble."""

import sys
from dataclasses import replace
from functools import cache
from importlib import import_module
from itertools import pairwise

import numpy as np
import pytest

import cutplane as cp
from cutplane.core.policies.bmrm import AtCandidate, OnSegment
from cutplane.core.protocols import Plane
from cutplane.core.stopping import StoppingRule

from .problems import PROBLEMS, MaxOfPlanes, linear_problem

EPS = np.finfo(np.float64).eps

_FEW = {1: 0.05, 2: 0.02}  # with so few planes the gap closes like 1/t, so less is asked of them

SOUND = {
    **{
        f"{'line search' if line_search else 'plain'}, planes {planes}": (
            cp.bmrm(line_search=line_search, planes=planes),
            _FEW.get(planes, 1e-3),
        )
        for line_search in (False, True)
        for planes in (None, 1, 2, 5, 20)
    },
    **{
        f"beyond {beyond}, enough {enough}": (
            replace(cp.bmrm(), query=OnSegment(beyond=beyond, enough=enough)),
            1e-3,
        )
        for beyond in (0.0, 0.05, 0.3)
        for enough in (0.01, 1.0)
    },
}
GREEDY = {
    f"beyond {beyond}, enough 0": (
        replace(cp.bmrm(), query=OnSegment(beyond=beyond, enough=0.0)),
        1e-3,
    )
    for beyond in (0.0, 0.05, 0.3)
}
ALL = {**SOUND, **GREEDY}

every_problem = pytest.mark.parametrize("name", PROBLEMS)
every_method = pytest.mark.parametrize("how", ALL)


@cache
def run(name, how):
    problem, (method, tol) = PROBLEMS[name], ALL[how]
    risk = problem.make_risk()
    result = cp.minimize(risk, problem.regularizer, method=method, tol=tol, max_iter=20_000)
    return result, risk, tol


def rounding(*terms):
    """Allow a few dozen units in the last place of the terms of a sum."""
    return 64 * EPS * sum(abs(term) for term in terms)


def without_seconds(history):
    return [replace(record, seconds=0.0) for record in history]


# The matrix of methods and problems


@every_problem
@pytest.mark.parametrize("how", SOUND)
def test_reaches_its_tolerance(name, how):
    result, _, tol = run(name, how)
    assert result.status is cp.Status.OPTIMAL
    assert result.certificate.valid
    assert result.certificate.relative_gap <= tol
    assert result.objective - PROBLEMS[name].optimum <= tol * abs(result.objective)


@every_problem
@pytest.mark.parametrize("how", GREEDY)
def test_greedy_search_arrives_or_says_that_it_is_stuck(name, how):
    result, _, tol = run(name, how)
    assert result.status in (cp.Status.OPTIMAL, cp.Status.STALLED)
    assert (result.certificate.relative_gap <= tol) == (result.status is cp.Status.OPTIMAL)


def test_greedy_search_does_get_stuck():
    # Otherwise the second plane would be of no use, and the test above would allow too much.
    stuck = [name for name in PROBLEMS if not run(name, "beyond 0.0, enough 0")[0].status.success]
    assert stuck


@every_problem
@every_method
def test_the_optimum_lies_between_the_bounds_of_every_iteration(name, how):
    result, _, _ = run(name, how)
    # The reference is above the true minimum by 1e-9 at most, as another test shows, so only the
    # upper bounds need that allowance.
    optimum = PROBLEMS[name].optimum
    for record in [*result.history, result.certificate]:
        assert record.lower_bound <= optimum + rounding(optimum)
        assert record.objective >= optimum - 1e-9 * max(1.0, abs(optimum))


@every_problem
@every_method
def test_objective_is_that_of_w(name, how):
    result, _, _ = run(name, how)
    problem = PROBLEMS[name]
    again = problem.make_risk().at(result.w)
    # The library's own sums, to the last bit.
    assert problem.regularizer.value(result.w) + again.value == result.objective
    assert result.point.value == again.value
    # And those of the formula, in another order.
    assert problem.objective(result.w) == pytest.approx(result.objective, rel=1e-13, abs=1e-14)
    assert result.w is result.point.w


@every_problem
@every_method
def test_bounds_only_improve(name, how):
    result, _, _ = run(name, how)
    objectives = [record.objective for record in result.history]
    lowers = [record.lower_bound for record in result.history]
    assert objectives == sorted(objectives, reverse=True)
    assert lowers == sorted(lowers)
    assert [record.iteration for record in result.history] == list(range(1, len(objectives) + 1))
    seconds = [record.seconds for record in result.history]
    assert seconds == sorted(seconds)
    assert all(lower <= upper for lower, upper in zip(lowers, objectives, strict=True))


@every_problem
@every_method
def test_evaluations_are_counted(name, how):
    result, risk, _ = run(name, how)
    # The last evaluation, which confirms the objective, is not part of the count.
    assert result.evaluations == risk.evaluations - 1
    # One at the start, one an iteration, and one for each confirmation that failed.
    assert result.iterations + 1 <= result.evaluations <= result.iterations + 4
    counts = [record.evaluations for record in result.history]
    assert all(later > earlier for earlier, later in pairwise(counts))


@every_problem
@pytest.mark.parametrize("how", ["plain, planes None", "line search, planes None"])
def test_tight_runs_agree_with_the_exact_solver(name, how):
    problem = PROBLEMS[name]
    result = cp.minimize(
        problem.make_risk(), problem.regularizer, method=ALL[how][0], tol=1e-10, max_iter=5000
    )
    assert result.status is cp.Status.OPTIMAL
    assert result.objective == pytest.approx(problem.optimum, rel=1e-9)


def test_default_method_is_the_line_search():
    problem = PROBLEMS["planes"]
    default = cp.minimize(problem.make_risk(), problem.regularizer)
    named = cp.minimize(problem.make_risk(), problem.regularizer, method=cp.bmrm())
    assert without_seconds(default.history) == without_seconds(named.history)


@pytest.mark.parametrize("name", ["planes", "planes with a floor", "planes centered"])
@every_method
def test_result_is_the_best_point_seen(name, how):
    result, risk, _ = run(name, how)
    problem = PROBLEMS[name]
    seen = [problem.objective(point.w) for point in risk.seen]
    assert result.objective <= min(seen) + rounding(result.objective)


def test_result_is_not_the_last_point():
    problem = PROBLEMS["planes"]

    def plain(max_iter):
        risk, objectives = problem.make_risk(), [problem.objective(np.zeros(5))]
        result = cp.minimize(
            risk,
            problem.regularizer,
            method=cp.bmrm(line_search=False),
            stop=cp.Gap(absolute=1e-12),
            max_iter=max_iter,
            callbacks=[lambda state: objectives.append(problem.objective(risk.seen[-1].w))],
        )
        return result, objectives

    _, objectives = plain(1000)
    # The plain method jumps about: some points are worse than one before. Stop at such a point.
    worse = [i for i in range(1, len(objectives)) if objectives[i] > min(objectives[:i])]
    assert worse
    for i in worse:
        result, until_then = plain(i)
        assert until_then == objectives[: i + 1]
        assert result.objective == pytest.approx(min(until_then), rel=8 * EPS)
        assert result.objective < until_then[-1]


# Where to start and when to stop


def test_start():
    problem = PROBLEMS["hinge"]
    near = PROBLEMS["hinge"].solve()
    risk = problem.make_risk()
    first = []
    result = cp.minimize(
        risk, problem.regularizer, start=list(near), callbacks=[lambda s: first.append(s.objective)]
    )
    assert result.status is cp.Status.OPTIMAL
    # It begins at the optimum, so no iteration finds anything better by more than rounding.
    assert first[0] == pytest.approx(problem.optimum, rel=1e-9)


def test_start_is_not_kept_or_written_to():
    problem = PROBLEMS["planes"]
    start = np.ones(5)
    result = cp.minimize(problem.make_risk(), problem.regularizer, start=start, max_iter=1)
    assert np.array_equal(start, np.ones(5))
    assert not np.shares_memory(result.w, start)


@pytest.mark.parametrize("start", [np.zeros(4), np.zeros((5, 1)), 0.0, np.zeros(0)])
def test_start_of_the_wrong_shape(start):
    problem = PROBLEMS["planes"]
    with pytest.raises(ValueError, match=r"start has shape .*, the risk has 5 parameters"):
        cp.minimize(problem.make_risk(), problem.regularizer, start=start)


@pytest.mark.parametrize("limit", [1, 2, 4])
def test_iteration_limit(limit):
    problem = PROBLEMS["planes"]
    result = cp.minimize(problem.make_risk(), problem.regularizer, tol=1e-9, max_iter=limit)
    assert result.status is cp.Status.ITERATION_LIMIT
    assert result.iterations == len(result.history) == limit
    assert not result.status.success
    assert result.certificate.valid
    assert result.certificate.lower_bound <= problem.optimum <= result.objective


def test_limit_that_comes_with_the_promise_kept_is_optimal():
    # The run aims at a quarter of the tolerance, and settles for the whole at a limit.
    problem = PROBLEMS["absolute"]
    history = cp.minimize(problem.make_risk(), problem.regularizer, tol=1e-9).history
    between = next(r for r in history if r.relative_gap > 0.0)
    tol = 2.0 * between.relative_gap  # reached here, but not a quarter of it
    result = cp.minimize(
        problem.make_risk(), problem.regularizer, tol=tol, max_iter=between.iteration
    )
    assert result.iterations == between.iteration
    assert tol / 4 < result.certificate.relative_gap <= tol
    assert result.status is cp.Status.OPTIMAL


class SlowRisk(MaxOfPlanes):
    """A risk that takes its time, by the clock of the test."""

    def __init__(self, clock, *args):
        super().__init__(*args)
        self.clock = clock

    def at(self, w):
        self.clock[0] += 1.0
        return super().at(w)


def test_time_limit(monkeypatch):
    clock = [0.0]
    # By its name the package has the function of the module, so that a path to it leads nowhere.
    for name in ("solvers.minimize", "core.loop"):
        monkeypatch.setattr(import_module(f"cutplane.{name}"), "clock", lambda: clock[0])
    rng = np.random.default_rng(3)
    risk = SlowRisk(clock, rng.normal(size=(60, 8)), rng.normal(size=60))
    result = cp.minimize(risk, cp.L2(1e-3), tol=1e-12, time_limit=4.5)
    assert result.status is cp.Status.TIME_LIMIT
    assert result.iterations == 4  # second 1 is the start, and 5 is the first above the limit
    assert [record.seconds for record in result.history] == [2.0, 3.0, 4.0, 5.0]
    assert result.seconds == 5.0
    assert result.certificate.valid


def test_real_clock_stops_too():
    problem = PROBLEMS["hinge"]
    result = cp.minimize(
        problem.make_risk(), problem.regularizer, stop=cp.Gap(absolute=1e-300), time_limit=1e-9
    )
    assert result.status is cp.Status.TIME_LIMIT
    assert result.seconds > 0.0


def test_callback_ends_the_run():
    problem = PROBLEMS["hinge"]
    calls = []

    def third_time(state):
        calls.append(("first", state.iteration))
        return state.iteration == 3

    def never(state):
        calls.append(("second", state.iteration))

    result = cp.minimize(
        problem.make_risk(), problem.regularizer, tol=1e-9, callbacks=iter([third_time, never])
    )
    assert result.status is cp.Status.STOPPED
    assert result.iterations == 3
    assert calls == [(who, i) for i in (1, 2, 3) for who in ("first", "second")]
    assert result.certificate.valid
    assert result.certificate.lower_bound <= problem.optimum


def test_callbacks_see_the_record_and_the_best_point():
    problem = PROBLEMS["hinge"]

    def look(state):
        assert state.history[-1] == state.record()
        assert state.history[-1].iteration == state.iteration
        objective = problem.regularizer.value(state.best.w) + state.best.value
        assert objective == state.objective == state.history[-1].objective
        looked.append(state.iteration)

    looked = []
    result = cp.minimize(problem.make_risk(), problem.regularizer, callbacks=[look])
    assert looked == list(range(1, result.iterations + 1))


def test_absolute_gap():
    problem = PROBLEMS["quantile CSR"]
    loose = cp.minimize(problem.make_risk(), problem.regularizer, stop=cp.Gap(absolute=1e-2))
    tight = cp.minimize(problem.make_risk(), problem.regularizer, stop=cp.Gap(absolute=1e-8))
    assert loose.status is tight.status is cp.Status.OPTIMAL
    assert loose.certificate.gap <= 1e-2
    assert tight.certificate.gap <= 1e-8
    assert loose.iterations < tight.iterations


def test_either_gap_is_enough():
    problem = PROBLEMS["quantile CSR"]
    both = cp.Gap(relative=1e-12, absolute=1e-2)
    result = cp.minimize(problem.make_risk(), problem.regularizer, stop=both)
    alone = cp.minimize(problem.make_risk(), problem.regularizer, stop=cp.Gap(absolute=1e-2))
    assert result.iterations == alone.iterations
    assert result.status is cp.Status.OPTIMAL


@pytest.mark.parametrize(
    ("stop", "status"),
    [
        (cp.Gap(absolute=1e-9) | cp.Iterations(2), cp.Status.ITERATION_LIMIT),
        (cp.Iterations(2) | cp.Gap(absolute=1e-9), cp.Status.ITERATION_LIMIT),
        (cp.Iterations(2), cp.Status.ITERATION_LIMIT),
        (cp.Seconds(1e-9), cp.Status.TIME_LIMIT),
        (cp.Gap(absolute=1e-9) | cp.Seconds(1e-9) | cp.Iterations(9), cp.Status.TIME_LIMIT),
        (cp.Gap(absolute=1e3) | cp.Iterations(9), cp.Status.OPTIMAL),
    ],
)
def test_rules_combine(stop, status):
    problem = PROBLEMS["quantile CSR"]
    result = cp.minimize(problem.make_risk(), problem.regularizer, stop=stop)
    assert result.status is status


class ChangesItsMind(StoppingRule):
    """Is satisfied once, not when asked again, and then after the sixth iteration."""

    def __init__(self):
        self.calls = 0

    def __call__(self, state):
        self.calls += 1
        enough = self.calls == 3 or state.iteration >= 6
        return cp.Status.OPTIMAL if enough else cp.Status.RUNNING


def test_run_goes_on_when_the_recomputed_objective_does_not_confirm_the_end():
    problem = large_problem()
    risk = problem.make_risk()
    result = cp.minimize(risk, problem.regularizer, stop=ChangesItsMind())
    assert result.iterations == 6
    assert result.status is cp.Status.OPTIMAL
    # The start, six iterations, and the confirmation that failed; the last is not counted.
    assert result.evaluations == 8 == risk.evaluations - 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tol": 0.0}, "relative tolerance must be positive, got 0"),
        ({"tol": -1e-3}, "relative tolerance must be positive, got -0.001"),
        ({"tol": np.nan}, "relative tolerance must be positive, got nan"),
        ({"max_iter": 0}, "iteration limit must be a whole number above 0, got 0"),
        ({"max_iter": -5}, "iteration limit must be a whole number above 0, got -5"),
        ({"max_iter": 2.5}, "iteration limit must be a whole number above 0, got 2.5"),
        ({"tol": "tight"}, "relative tolerance must be positive, got 'tight'"),
        ({"time_limit": 0.0}, "time limit must be positive, got 0"),
        ({"time_limit": np.nan}, "time limit must be positive, got nan"),
    ],
)
def test_bad_limits(options, message):
    problem = PROBLEMS["planes"]
    risk = problem.make_risk()
    with pytest.raises(ValueError, match=message):
        cp.minimize(risk, problem.regularizer, **options)
    assert risk.evaluations == 0  # said before any work


@pytest.mark.parametrize("make", [cp.Gap, lambda: cp.Gap(absolute=0.0), lambda: cp.bmrm(planes=0)])
def test_bad_rules_and_methods(make):
    with pytest.raises(ValueError, match=r"needs|must be positive"):
        make()


def test_method_must_be_one():
    problem = PROBLEMS["planes"]
    with pytest.raises(
        TypeError, match=r"method must be a Solver such as cp.bmrm\(\), or a name, got 3"
    ):
        cp.minimize(problem.make_risk(), problem.regularizer, method=3)


def test_no_limit_at_all():
    problem = PROBLEMS["hinge"]
    result = cp.minimize(problem.make_risk(), problem.regularizer, max_iter=None)
    assert result.status is cp.Status.OPTIMAL


# Ctrl-C


def large_problem():
    """Return a problem that takes some 30 iterations to 1e-6."""
    rng = np.random.default_rng(11)
    X = rng.normal(size=(200, 20))
    y = np.where(X @ rng.normal(size=20) + 2 * rng.normal(size=200) > 0, 1.0, -1.0)
    return linear_problem("large", X, y, cp.Hinge(), 1e-2)


class Once:
    """Raises KeyboardInterrupt at the n-th call, and never again."""

    def __init__(self, n):
        self.left = n

    def __call__(self, *args):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


@pytest.mark.parametrize("method", [cp.bmrm(), cp.bmrm(line_search=False), cp.bmrm(planes=3)])
@pytest.mark.parametrize("n", [1, 5])
@pytest.mark.parametrize("where", ["callback", "risk", "plane", "bundle"])
def test_interrupt_returns_the_best_point(method, n, where, monkeypatch):
    problem = large_problem()
    risk, once, callbacks = problem.make_risk(), Once(n), []
    if where == "callback":
        callbacks = [once]
    elif where == "bundle":
        from cutplane.core.bundle import Bundle

        weigh = Bundle.weigh
        monkeypatch.setattr(
            Bundle, "weigh", lambda self, lam, **options: (weigh(self, lam, **options), once())
        )
    else:
        # The first evaluation and the first plane are made before there is anything to return.
        once.left += 1
        name = {"risk": "scores", "plane": "pullback"}[where]
        product = getattr(risk.map, name)
        monkeypatch.setattr(risk.map, name, lambda v: (once(), product(v))[1])
    result = cp.minimize(risk, problem.regularizer, method=method, tol=1e-6, callbacks=callbacks)
    assert result.status is cp.Status.INTERRUPTED
    assert not result.status.success
    assert result.certificate.valid
    assert result.certificate.lower_bound <= problem.optimum
    assert result.objective >= problem.optimum - 1e-9
    assert problem.objective(result.w) == pytest.approx(result.objective, rel=1e-13)
    assert len(result.history) in (n, n - 1)
    if result.history:
        assert result.objective <= result.history[-1].objective + rounding(result.objective)


class InterruptAtLine:
    """Raises KeyboardInterrupt at the n-th line that runs in the bundle or the memory."""

    FILES = ("bundle.py", "memory.py")

    def __init__(self, n):
        self.left = n
        self.seen = 0

    def __enter__(self):
        self.before = sys.gettrace()
        sys.settrace(self)
        return self

    def __exit__(self, *error):
        sys.settrace(self.before)

    def __call__(self, frame, event, arg):
        if not frame.f_code.co_filename.endswith(self.FILES):
            return None
        if event == "line":
            self.seen += 1
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self


@pytest.mark.parametrize("planes", [None, 2])
def test_interrupt_at_any_line_leaves_a_sound_state(planes):
    problem = PROBLEMS["planes"]
    method = cp.bmrm(planes=planes)

    def run(**options):
        options = {"method": method, "tol": 1e-2} | options
        return cp.minimize(problem.make_risk(), problem.regularizer, **options)

    # Lines of the first iterations, after the start (where there is nothing to return yet).
    with InterruptAtLine(0) as until_one:
        run(max_iter=1)
    with InterruptAtLine(0) as until_four:
        run(max_iter=4)
    interrupted = 0
    for n in range(until_one.seen + 1, until_four.seen):
        with InterruptAtLine(n):
            part = run()
        interrupted += part.status is cp.Status.INTERRUPTED
        assert part.certificate.valid
        assert part.certificate.lower_bound <= problem.optimum <= part.objective + 1e-9
        # What is left behind can be gone on with, and its bounds are right.
        rest = run(method=cp.bmrm(), resume=part.state)
        assert rest.status is cp.Status.OPTIMAL
        assert rest.certificate.lower_bound <= problem.optimum + rounding(problem.optimum)
        assert rest.objective >= problem.optimum - 1e-9
    assert interrupted > 30


def test_interrupt_before_the_first_point_propagates():
    class Impatient(MaxOfPlanes):
        def at(self, w):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cp.minimize(Impatient([[1.0]], [0.0]), cp.L2(1.0))


def test_interrupt_in_the_last_moment_of_a_finished_run_is_optimal():
    # The promise is kept, so there is nothing to warn of.
    problem = PROBLEMS["hinge"]
    tol = 1e-3

    def late(state):
        if state.relative_gap <= tol:
            raise KeyboardInterrupt

    result = cp.minimize(problem.make_risk(), problem.regularizer, tol=tol, callbacks=[late])
    assert result.status is cp.Status.OPTIMAL
    assert result.certificate.relative_gap <= tol


# Resumption


@pytest.mark.parametrize("how", ["plain, planes None", "line search, planes None", "both"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.8])
def test_resumed_run_equals_the_uninterrupted_one(how, share):
    method = cp.bmrm(planes=6) if how == "both" else ALL[how][0]
    problem = large_problem()
    options = {"method": method, "stop": cp.Gap(relative=1e-3)}
    whole = cp.minimize(problem.make_risk(), problem.regularizer, **options)
    assert whole.status is cp.Status.OPTIMAL
    first = max(1, int(share * whole.iterations))
    part = cp.minimize(problem.make_risk(), problem.regularizer, max_iter=first, **options)
    assert part.status is cp.Status.ITERATION_LIMIT
    rest = cp.minimize(problem.make_risk(), problem.regularizer, resume=part.state, **options)
    assert without_seconds(rest.history) == without_seconds(whole.history)
    assert np.array_equal(rest.w, whole.w)
    assert rest.certificate == whole.certificate


@pytest.mark.parametrize("how", ["plain, planes None", "line search, planes None"])
def test_resumed_run_on_the_core_alone(how):
    # The same for a risk whose points are the same bits however they are reached.
    rng = np.random.default_rng(5)
    slopes, offsets = rng.normal(size=(80, 12)), rng.normal(size=80)
    options = {"method": ALL[how][0], "tol": 1e-9}
    whole = cp.minimize(MaxOfPlanes(slopes, offsets), cp.L2(0.01), **options)
    part = cp.minimize(MaxOfPlanes(slopes, offsets), cp.L2(0.01), max_iter=4, **options)
    rest = cp.minimize(MaxOfPlanes(slopes, offsets), cp.L2(0.01), resume=part.state, **options)
    bounds = [(r.iteration, r.objective, r.lower_bound, r.planes) for r in rest.history]
    assert bounds == [(r.iteration, r.objective, r.lower_bound, r.planes) for r in whole.history]
    assert np.array_equal(rest.w, whole.w)


def test_resumption_adds_time_and_evaluations():
    problem = large_problem()
    part = cp.minimize(problem.make_risk(), problem.regularizer, tol=1e-6, max_iter=5)
    before = part.evaluations, part.seconds
    risk = problem.make_risk()
    rest = cp.minimize(risk, problem.regularizer, tol=1e-6, resume=part.state)
    assert rest.evaluations == before[0] + risk.evaluations - 1  # the last one only confirms
    assert rest.seconds > before[1]
    assert rest.status is cp.Status.OPTIMAL


def test_first_result_stays_as_it_was():
    problem = large_problem()
    part = cp.minimize(problem.make_risk(), problem.regularizer, tol=1e-6, max_iter=5)
    before = part.w.copy(), part.certificate, part.iterations, len(part.history), part.evaluations
    cp.minimize(problem.make_risk(), problem.regularizer, tol=1e-6, resume=part.state)
    after = part.w, part.certificate, part.iterations, len(part.history), part.evaluations
    assert np.array_equal(before[0], after[0])
    assert before[1:] == after[1:]


def test_resume_after_a_callback_stopped_the_run():
    problem = large_problem()
    part = cp.minimize(
        problem.make_risk(), problem.regularizer, tol=1e-6, callbacks=[lambda s: s.iteration == 5]
    )
    assert part.status is cp.Status.STOPPED
    rest = cp.minimize(problem.make_risk(), problem.regularizer, tol=1e-6, resume=part.state)
    assert rest.status is cp.Status.OPTIMAL
    assert rest.iterations > 5


def test_resume_after_an_interrupt():
    problem = large_problem()
    part = cp.minimize(problem.make_risk(), problem.regularizer, tol=1e-6, callbacks=[Once(5)])
    assert part.status is cp.Status.INTERRUPTED
    rest = cp.minimize(problem.make_risk(), problem.regularizer, tol=1e-6, resume=part.state)
    assert rest.status is cp.Status.OPTIMAL
    assert rest.objective == pytest.approx(problem.optimum, rel=1e-6)


def test_resume_with_another_regularizer():
    # The lower bound of the first run says nothing about another objective.
    problem = large_problem()
    part = cp.minimize(problem.make_risk(), cp.L2(0.1), max_iter=3)
    with pytest.raises(
        ValueError, match=r"^resume is of a run with L2\(0\.1\), .* not for L2\(0\.01\)"
    ):
        cp.minimize(problem.make_risk(), cp.L2(0.01), resume=part.state)


def test_resume_of_a_finished_run_does_nothing_more():
    problem = large_problem()
    done = cp.minimize(problem.make_risk(), problem.regularizer, tol=1e-3)
    iterations = done.iterations
    again = cp.minimize(problem.make_risk(), problem.regularizer, tol=1e-3, resume=done.state)
    assert again.iterations == iterations
    assert again.status is cp.Status.OPTIMAL
    assert np.array_equal(again.w, done.w)


# Trouble


def test_stalls_where_rounding_ends_progress():
    problem = PROBLEMS["hinge"]
    result = cp.minimize(problem.make_risk(), problem.regularizer, tol=1e-30)
    assert result.status is cp.Status.STALLED
    assert not result.status.success
    assert result.certificate.valid
    assert 0.0 < result.certificate.relative_gap < 1e-12
    assert result.iterations < 200


def test_stalls_when_the_oracle_repeats_itself():
    class Stubborn(MaxOfPlanes):
        """Evaluates at zero, whatever it is asked: true planes, but no news."""

        def point(self, w):
            return super().point(np.zeros_like(w))

    risk = Stubborn([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0])
    result = cp.minimize(risk, cp.L2(1.0), method=cp.bmrm(line_search=False))
    assert result.status is cp.Status.STALLED
    assert result.certificate.valid
    assert result.objective == 0.0
    assert result.certificate.lower_bound <= -0.25  # the optimum of the true problem


class WrongSubgradient(MaxOfPlanes):
    def point(self, w):
        point = super().point(w)
        true = point.plane()
        # The plane touches the risk at w, with a slope that is not a subgradient.
        point.plane = lambda: Plane(-true.slope, point.value + float(true.slope @ w))
        return point


@pytest.mark.parametrize("method", [cp.bmrm(), cp.bmrm(line_search=False)])
def test_wrong_subgradient_is_inconsistent(method):
    rng = np.random.default_rng(0)
    slopes = np.vstack([rng.normal(size=(10, 3)), -rng.normal(size=(10, 3))])
    risk = WrongSubgradient(slopes, rng.normal(size=20))
    result = cp.minimize(risk, cp.L2(0.1), method=method, start=np.ones(3), max_iter=200)
    assert result.status is cp.Status.INCONSISTENT
    assert not result.certificate.valid
    assert not result.status.success
    assert "not a proof" in str(result.certificate)


class Raised(MaxOfPlanes):
    """From the n-th evaluation on, planes lie a little above the risk where they should touch."""

    def __init__(self, n):
        rng = np.random.default_rng(4)
        super().__init__(rng.normal(size=(40, 6)), rng.normal(size=40))
        self.n = n

    def point(self, w):
        point = super().point(w)
        if self.evaluations >= self.n:
            true = point.plane()
            point.plane = lambda: Plane(true.slope, true.offset + 1e-3)
        return point


@pytest.mark.parametrize("line_search", [False, True])
def test_plane_above_the_risk_ends_the_run_soon(line_search):
    # Long before the bounds cross, which a small error may never make them do.
    method = cp.bmrm(line_search=line_search)
    sound = cp.minimize(Raised(1000), cp.L2(1e-2), method=method, tol=1e-6)
    assert sound.status is cp.Status.OPTIMAL
    assert sound.iterations > 4
    result = cp.minimize(Raised(4), cp.L2(1e-2), method=method, tol=1e-6)
    assert result.status is cp.Status.INCONSISTENT
    assert not result.certificate.valid
    # The fourth evaluation belongs to the third iteration. A search takes its plane a little beyond
    # the points whose risk it knows, so there the next iteration may have to tell.
    assert result.iterations <= (4 if line_search else 3)


class Waves:
    """``R(w) = |w| + 2*sin(3*w)`` in one dimension: not convex."""

    n_parameters = 1
    lower_bound = -np.inf

    def __init__(self, convex):
        self.convex = convex
        self.evaluations = 0

    def at(self, w):
        self.evaluations += 1
        return WavesPoint(w)


class WavesPoint:
    def __init__(self, w):
        self.w = w
        self.value = float(np.abs(w[0]) + 2.0 * np.sin(3.0 * w[0]))

    def plane(self):
        slope = np.sign(self.w) + 6.0 * np.cos(3.0 * self.w)
        return Plane(slope, self.value - float(slope @ self.w))


def test_non_convex_risk_declared_convex_is_inconsistent():
    result = cp.minimize(
        Waves(convex=True), cp.L2(1.0), method=cp.bmrm(line_search=False), start=np.array([1.0])
    )
    assert result.status is cp.Status.INCONSISTENT
    assert not result.certificate.valid
    assert "not a proof" in str(result.certificate)


def test_non_convex_risk_is_at_best_stationary():
    # Started near the bottom of a wave, with a regularizer that keeps it there.
    bottom = -0.5
    result = cp.minimize(
        Waves(convex=False),
        cp.L2(100.0, center=[bottom]),
        method=cp.nrbm(line_search="none"),
        start=np.array([bottom]),
    )
    assert result.status is cp.Status.STATIONARY
    assert result.status.success
    assert not result.certificate.valid
    assert "not a proof" in str(result.certificate)
    assert abs(result.w[0] - bottom) < 0.1


class Broken(MaxOfPlanes):
    """Not finite from the n-th evaluation on, in one part."""

    def __init__(self, part, n, what):
        rng = np.random.default_rng(4)
        super().__init__(rng.normal(size=(20, 3)), rng.normal(size=20))
        self.part, self.n, self.what = part, n, what

    def point(self, w):
        point = super().point(w)
        if self.evaluations >= self.n:
            true = point.plane()
            if self.part == "value":
                point.value = self.what
            elif self.part == "slope":
                point.plane = lambda: Plane(true.slope * [1.0, self.what, 1.0], true.offset)
            else:
                point.plane = lambda: Plane(true.slope, self.what)
        return point


@pytest.mark.parametrize("line_search", [False, True])
@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize(
    ("part", "what", "message"),
    [
        ("value", np.nan, "the risk is nan"),
        ("value", np.inf, "the risk is inf"),
        ("value", -np.inf, "the risk is -inf"),
        ("slope", np.nan, "the subgradient is not finite"),
        ("slope", np.inf, "the subgradient is not finite"),
        ("offset", np.nan, "the offset of the plane is nan"),
        ("offset", -np.inf, "the offset of the plane is -inf"),
    ],
)
def test_non_finite_risk(line_search, n, part, what, message):
    risk = Broken(part, n, what)
    with pytest.raises(cp.NonFiniteRisk) as caught:
        cp.minimize(risk, cp.L2(0.1), method=cp.bmrm(line_search=line_search), tol=1e-9)
    assert message in str(caught.value)
    assert f"in iteration {max(n - 2, 0)} " in str(caught.value)
    guilty = [f"at a point of norm {np.linalg.norm(point.w):.3g}" for point in risk.seen]
    assert any(words in str(caught.value) for words in guilty)
    assert isinstance(caught.value, ArithmeticError)


class Failing(MaxOfPlanes):
    error = RuntimeError("the oracle's own words")

    def __init__(self, place):
        super().__init__(np.eye(3), np.zeros(3))
        self.place = place

    def at(self, w):
        if self.place == "at" and self.evaluations == 1:
            raise self.error
        return super().at(w)

    def point(self, w):
        point = super().point(w)
        if len(self.seen) > 1 and self.place in ("plane", "toward"):
            setattr(point, self.place, self.fail)
        if len(self.seen) == 1 and self.place == "toward":
            point.toward = self.fail
        return point

    def fail(self, *args):
        raise self.error


@pytest.mark.parametrize("place", ["at", "plane", "toward"])
def test_errors_of_the_oracle_propagate_unchanged(place):
    with pytest.raises(RuntimeError) as caught:
        cp.minimize(Failing(place), cp.L2(0.1))
    assert caught.value is Failing.error


def test_errors_of_a_callback_propagate_unchanged():
    error = ZeroDivisionError("mine")

    def fail(state):
        raise error

    problem = PROBLEMS["planes"]
    with pytest.raises(ZeroDivisionError) as caught:
        cp.minimize(problem.make_risk(), problem.regularizer, callbacks=[fail])
    assert caught.value is error


# What a run says of itself


def test_words():
    problem = PROBLEMS["hinge"]
    result = cp.minimize(problem.make_risk(), problem.regularizer)
    assert str(result.certificate) in repr(result)
    assert f"{result.iterations} iterations, {result.evaluations} evaluations" in repr(result)
    assert "(optimal: no model is better by more than" in str(result.certificate)
    assert repr(result.state).startswith(f"Run(iteration {result.iterations}, objective 0.")
    assert {str(status) for status in cp.Status} == {
        "running",
        "optimal",
        "stationary",
        "iteration_limit",
        "time_limit",
        "interrupted",
        "stopped",
        "stalled",
        "inconsistent",
        "failed",
    }


def test_gap_of_a_zero_objective():
    # The optimum is zero and is reached: the relative gap is zero too, not 0/0.
    result = cp.minimize(MaxOfPlanes([[0.0]], [0.0]), cp.L2(1.0))
    assert result.objective == 0.0
    assert result.status is cp.Status.OPTIMAL
    assert result.certificate.relative_gap == 0.0


def test_query_at_candidate_evaluates_there():
    problem = PROBLEMS["planes"]
    risk = problem.make_risk()
    cp.minimize(
        risk, problem.regularizer, method=replace(cp.bmrm(), query=AtCandidate()), max_iter=1
    )
    # After the start: the minimizer of the first plane plus the regularizer.
    first = risk.seen[0].plane()
    np.testing.assert_allclose(risk.seen[1].w, -first.slope / problem.regularizer.lam, rtol=1e-14)


class FitsExactly:
    """``|w - 1|`` with an error that is different each time: rounding, or a fault."""

    n_parameters, convex, lower_bound, evaluations = 1, True, 0.0, 0

    def __init__(self, error):
        self.error = error

    def at(self, w):
        self.evaluations += 1
        slope = 1.0 if w[0] > 1.0 else -1.0
        risk = self

        class Here:
            value = abs(w[0] - 1.0) + risk.error * (1 + risk.evaluations % 7)

            def plane(self):
                return Plane(np.array([slope]), -slope)

        here = Here()
        here.w = w
        return here


@pytest.mark.parametrize(("error", "consistent"), [(1e-17, True), (1e-9, False)])
def test_rounding_where_the_risk_vanishes_is_no_contradiction(error, consistent):
    method = cp.bmrm(line_search=False)
    result = cp.minimize(FitsExactly(error), cp.L2(1e-16), method=method, tol=1e-6)
    assert (result.status != "inconsistent") == consistent
    assert result.certificate.valid == consistent
