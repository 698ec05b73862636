"""Problems side by side: the same bits as one after the other, in order, few at a time."""

import signal
import threading
import time

import numpy as np
import pytest
from tests.processes import PATIENCE
from tests.random_arrays import random_array

import cutplane as cp
from cutplane.core.interrupts import held, interrupted_so_far
from cutplane.estimators import fit
from cutplane.estimators.fit import SideBySide, problems_at_once


def texts(n_classes=5, seed=0):
    rng = np.random.default_rng(seed)
    X = random_array((240, 60), density=0.15, rng=rng, format="csr")
    return X, (X @ rng.normal(size=(60, n_classes))).argmax(axis=1)


@pytest.fixture
def threads(monkeypatch):
    """Let problems of any size be solved side by side; return the threads that they ran in."""
    monkeypatch.setattr(fit, "LEAST_ENTRIES", 0)
    used, minimize = set(), fit.minimize

    def noted(*args, **options):
        used.add(threading.current_thread().name)
        return minimize(*args, **options)

    monkeypatch.setattr(fit, "minimize", noted)
    return used


@pytest.mark.parametrize("method", ["dual-ascent", "newton", "grouped"])
def test_classes_side_by_side_have_the_bits_of_one_after_the_other(threads, method):
    X, y = texts()
    alone = cp.LinearClassifier(method=method, n_jobs=1).fit(X, y)
    assert threads == {threading.current_thread().name}
    together = cp.LinearClassifier(method=method, n_jobs=3).fit(X, y)
    assert len(threads) > 1
    np.testing.assert_array_equal(together.coef_, alone.coef_)
    np.testing.assert_array_equal(together.intercept_, alone.intercept_)
    assert together.certificate_ == alone.certificate_
    assert together.method_ == alone.method_
    assert together.evaluations_ == alone.evaluations_
    np.testing.assert_array_equal(together.n_iter_, alone.n_iter_)


@pytest.mark.parametrize(
    "options", [{"callbacks": [lambda state: None]}, {"time_limit": 60.0}, {"n_jobs": 1}]
)
def test_watched_or_limited_fits_go_one_after_the_other(threads, options):
    X, y = texts(n_classes=3)
    cp.LinearClassifier(**({"n_jobs": 2} | options)).fit(X, y)
    assert threads == {threading.current_thread().name}


def test_small_problems_go_one_after_the_other():
    X, y = texts(n_classes=3)
    risks = [cp.ScoredRisk(X, np.where(y == k, 1.0, -1.0), cp.Hinge()) for k in range(3)]
    assert problems_at_once(cp.LinearClassifier(n_jobs=2), risks) == 1


def result_of(status):
    certificate = cp.Certificate(1.0, 0.5, status, valid=True)
    return cp.Result(np.zeros(1), None, certificate, [], None)


def test_results_come_in_order_and_few_problems_are_begun():
    begun = []

    def solve(k, stopped):
        begun.append(k)
        time.sleep(0.02 * (k % 3 == 0))  # the first of them is the last to end
        return result_of(cp.Status.OPTIMAL) if k % 2 else result_of(cp.Status.STALLED)

    with SideBySide(solve, 9, 2) as ahead:
        for k in range(9):
            expected = cp.Status.OPTIMAL if k % 2 else cp.Status.STALLED
            assert ahead.result(k).status is expected
            assert len(begun) <= k + 4
    assert sorted(begun) == list(range(9))


def test_an_error_in_one_problem_ends_the_others():
    ended = threading.Event()

    def solve(k, stopped):
        if k == 0:
            raise ZeroDivisionError("the first")
        while not stopped(None):
            time.sleep(0.001)
        ended.set()
        return result_of(cp.Status.STOPPED)

    with pytest.raises(ZeroDivisionError, match="the first"), SideBySide(solve, 3, 2) as ahead:
        ahead.result(0)
    assert ended.wait(PATIENCE)


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="needs signals of threads")
def test_ctrl_c_ends_runs_that_are_on_and_spares_those_that_are_finished():
    main = threading.main_thread().ident

    def solve(k, stopped):
        if k == 0:
            return result_of(cp.Status.OPTIMAL)
        if k == 1:
            signal.pthread_kill(main, signal.SIGINT)
        while not stopped(None):
            time.sleep(0.001)
        return result_of(cp.Status.STOPPED)

    with held(), SideBySide(solve, 4, 2) as ahead:
        statuses = [ahead.result(k).status for k in range(4)]
        assert interrupted_so_far()
    assert statuses == [cp.Status.OPTIMAL] + 3 * [cp.Status.INTERRUPTED]
