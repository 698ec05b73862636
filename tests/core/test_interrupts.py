"""Ctrl-C: when it waits, when it is raised, and that Python's own handler comes back."""

import os
import signal
import threading
import time

import numpy as np
import pytest
from tests.processes import PATIENCE

import cutplane as cp
from cutplane.core import interrupts, loop
from cutplane.core.interrupts import at_once, held, interrupted_so_far, is_interrupt, running

RISK_AND_REGULARIZER = cp.FunctionRisk(lambda w: (float(abs(w).sum()), np.sign(w)), 3), cp.L2(1.0)


@pytest.fixture(autouse=True)
def pythons_own_handler():
    # Where the tests themselves run in the background, Ctrl-C may be ignored by inheritance.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def patient(monkeypatch):
    """Presses that follow each other at once count as several."""
    monkeypatch.setattr(interrupts, "ONE_PRESS", 0.0)


def press():
    signal.raise_signal(signal.SIGINT)


def test_it_waits_in_a_run_until_it_is_looked_at():
    with running() as run:
        press()
        assert run.late
        with pytest.raises(KeyboardInterrupt):
            run.check()
        run.take()
        run.check()
        assert interrupted_so_far()


def test_it_is_raised_before_the_first_run_of_a_block_and_waits_afterwards():
    with held(), pytest.raises(KeyboardInterrupt):
        press()
    with held():
        with running():
            pass
        press()
        assert interrupted_so_far()
    with pytest.raises(KeyboardInterrupt):
        press()


def test_it_leaves_code_of_the_user_at_once():
    with running() as run:
        with pytest.raises(KeyboardInterrupt), at_once():
            press()
        assert not run.late
    with running():
        press()
        with pytest.raises(KeyboardInterrupt), at_once():
            pytest.fail("it had come before")


@pytest.mark.usefixtures("patient")
def test_the_second_one_is_raised_wherever_it_comes():
    with running():
        press()
        with pytest.raises(KeyboardInterrupt):
            press()


def test_signals_at_the_same_moment_are_one():
    # `timeout` signals the process, and then its group.
    with running() as run:
        press()
        press()
        assert run.late


def test_whoever_has_to_wait_is_told(capfd):
    with held("wait a moment\n"), running():
        press()
    with held(), running():
        press()
    assert capfd.readouterr().err == "wait a moment\n"


def test_a_run_inside_a_run_leaves_it_to_the_outer_one_to_end_too():
    with running() as outer:
        with at_once():
            with running() as inner:
                press()
                inner.take()
            assert outer.late
        with pytest.raises(KeyboardInterrupt):
            outer.check()
        outer.take()
    with held():
        with running() as first:
            press()
            first.take()
        with running() as second:
            assert not second.late


def test_a_handler_of_somebody_else_stays():
    calls = []
    signal.signal(signal.SIGINT, lambda *_: calls.append(1))
    mine = signal.getsignal(signal.SIGINT)
    result = cp.minimize(*RISK_AND_REGULARIZER, callbacks=[lambda state: press()])
    assert result.status == "optimal"
    assert calls
    assert signal.getsignal(signal.SIGINT) is mine
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with running():
        signal.signal(signal.SIGINT, mine)
    assert signal.getsignal(signal.SIGINT) is mine
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_an_error_gives_pythons_handler_back():
    def fail(w):
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        cp.minimize(fail, cp.L2(1.0), start=np.zeros(2))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_other_threads_install_nothing():
    found = []

    def fit():
        with running() as run:
            found.append((signal.getsignal(signal.SIGINT), run.late))

    with running():
        press()
        thread = threading.Thread(target=fit)
        thread.start()
        thread.join()
    assert found[0][1] is False
    thread = threading.Thread(target=fit)
    thread.start()
    thread.join()
    assert found[1][0] is signal.default_int_handler


def system_error():
    """Return the error that a call of compiled code ends with if Ctrl-C comes in the midst."""
    inner = SystemError("a function returned a result with an exception set")
    inner.__cause__ = KeyboardInterrupt()
    error = SystemError("CPUDispatcher(...) returned a result with an exception set")
    error.__cause__ = inner
    return error


def test_ctrl_c_in_compiled_code_is_ctrl_c():
    assert is_interrupt(system_error())
    assert is_interrupt(KeyboardInterrupt())
    assert not is_interrupt(SystemError())
    assert not is_interrupt(ValueError())
    for block in (held, running, at_once):
        with pytest.raises(KeyboardInterrupt), block():
            raise system_error()
    calls = 0

    def late(state):
        nonlocal calls
        calls += 1
        if calls == 2:
            raise system_error()

    risk = cp.ScoredRisk(np.eye(30), np.arange(30.0), cp.Absolute())
    result = cp.minimize(risk, cp.L2(1e-3), tol=1e-9, callbacks=[late])
    assert result.status == "interrupted"


@pytest.mark.parametrize("n", [1, 3])
def test_a_slow_function_is_left_at_once(n):
    calls = 0

    def slow(w):
        nonlocal calls
        calls += 1
        if calls == n:
            threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
            time.sleep(PATIENCE)
        return float(np.abs(w - np.arange(5.0)).sum()), np.sign(w - np.arange(5.0))

    begin = time.monotonic()
    if n == 1:  # there is nothing to return
        with pytest.raises(KeyboardInterrupt):
            cp.minimize(slow, cp.L2(0.1), start=np.zeros(5))
    else:
        result = cp.minimize(slow, cp.L2(0.1), start=np.zeros(5), tol=1e-9)
        assert result.status == "interrupted"
        assert result.certificate.valid
    assert time.monotonic() - begin < PATIENCE


@pytest.mark.usefixtures("patient")
def test_a_second_one_while_the_objective_is_computed_afresh_carries_the_result():
    calls = 0

    def function(w):
        nonlocal calls
        calls += 1
        if calls in (4, 5):
            press()
        return float(np.abs(w - np.arange(5.0)).sum()), np.sign(w - np.arange(5.0))

    with pytest.raises(KeyboardInterrupt) as caught:
        cp.minimize(function, cp.L2(0.1), start=np.zeros(5), tol=1e-9)
    result = caught.value.result
    assert result.status == "interrupted"
    assert result.certificate.lower_bound <= result.objective


def test_one_in_the_last_moment_tells_callers_with_more_runs_to_come(monkeypatch):
    # While the objective is computed afresh, at the end of a run that has reached its tolerance.
    recomputed = loop.recomputed

    def pressed(state):
        press()
        return recomputed(state)

    monkeypatch.setattr(loop, "recomputed", pressed)
    risk = cp.ScoredRisk(np.eye(4), np.arange(4.0), cp.Absolute())
    result = cp.minimize(risk, cp.L2(1.0))
    assert result.status == "optimal"
    assert result.state.stopped
    limited = cp.minimize(risk, cp.L2(1e-3), max_iter=1, tol=1e-12)
    assert limited.status == "interrupted"


def test_a_run_in_a_callback_ends_the_run_around_it():
    inner = []

    def nested(state):
        if state.iteration == 2:
            inner.append(cp.minimize(risk, cp.L2(1e-3), tol=1e-9, callbacks=[lambda s: press()]))

    risk = cp.ScoredRisk(np.eye(30), np.arange(30.0), cp.Absolute())
    outer = cp.minimize(risk, cp.L2(1e-3), tol=1e-9, callbacks=[nested])
    assert inner[0].status == "interrupted"
    assert outer.status == "interrupted"
    assert outer.iterations == 2
