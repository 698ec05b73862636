"""The search by trials: its two conditions, its bracket, and what bmrm makes of it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cutplane as cp
from cutplane.core.policies.bmrm import as_searchable
from cutplane.core.search import (
    Trial,
    between,
    beyond,
    is_too_long,
    is_too_short,
    wolfe_search,
)
from cutplane.data import ScoreMap

from .oracles import FunctionRisk, largest
from .problems import PROBLEMS

numbers = st.floats(-3.0, 3.0)


@st.composite
def functions(draw):
    """Functions of one step that fall at first, and rise at last: ``max`` of parabolas or not."""
    start_slope = draw(st.floats(-5.0, -0.1))
    curvature = draw(st.floats(0.01, 10.0))
    kinks = draw(st.lists(st.tuples(st.floats(0.05, 4.0), st.floats(-2.0, 4.0)), max_size=4))
    wave = draw(st.floats(0.0, 0.3))

    def function(k):
        value = start_slope * k + 0.5 * curvature * k * k + wave * (np.cos(5.0 * k) - 1.0)
        slope = start_slope + curvature * k - 5.0 * wave * np.sin(5.0 * k)
        for at, turn in kinks:
            value += turn * max(k - at, 0.0)
            slope += turn * (k > at)
        return Trial(k, float(value), float(slope))

    return function


def run(function, first, **options):
    trials = []

    def evaluate(step):
        trials.append(function(step))
        return trials[-1]

    wolfe_search(evaluate, function(0.0), first, **options)
    return trials


@given(functions(), st.floats(1e-3, 1e3))
def test_last_trial_satisfies_both_conditions(function, first):
    trials = run(function, first, most=200)
    start, last = function(0.0), trials[-1]
    assert len(trials) < 200
    assert not is_too_long(last, start)
    assert not is_too_short(last, start)
    assert last.value < start.value
    for trial in trials[:-1]:
        assert is_too_long(trial, start) or is_too_short(trial, start)


def test_a_larger_constant_is_content_with_shorter_steps():
    def parabola(k):
        return Trial(k, (k - 1.0) ** 2, 2.0 * (k - 1.0))

    # At 0.2 the slope is 0.8 of that at the start.
    assert [trial.step for trial in run(parabola, 0.2, most=9, curvature=0.9)] == [0.2]
    assert len(run(parabola, 0.2, most=9, curvature=0.7)) > 1


@given(functions(), st.floats(1e-3, 1e3))
def test_every_trial_is_inside_the_bracket(function, first):
    start = function(0.0)
    low, high = 0.0, np.inf
    for trial in run(function, first, most=200):
        assert low < trial.step < high
        if is_too_long(trial, start):
            high = trial.step
        else:
            low = trial.step


@given(functions(), st.floats(1e-3, 1e3), st.integers(1, 5))
def test_trials_are_limited(function, first, most):
    assert len(run(function, first, most=most)) <= most


@given(st.floats(0.1, 10.0), st.floats(0.05, 20.0))
def test_parabola_takes_two_trials_once_bracketed(bottom, first):
    def parabola(k):
        return Trial(k, (k - bottom) ** 2, 2.0 * (k - bottom))

    trials = run(parabola, first, most=50, margin=0.05)
    if is_too_long(trials[0], parabola(0.0)) and 0.05 <= bottom / first <= 0.95:
        assert len(trials) == 2
        assert trials[1].step == pytest.approx(bottom)


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_infinite_values_are_too_long(value):
    def function(k):
        return Trial(k, -k, -1.0 + k) if k < 2.0 else Trial(k, value, np.nan)

    trials = run(function, 1e6, most=100)
    assert trials[0].step == 1e6
    assert trials[-1].step < 2.0


@given(numbers, numbers, numbers, numbers)
def test_between_and_beyond(value, slope, rise, end):
    low, high = Trial(1.0, value, slope), Trial(3.0, value + rise, end)
    assert 1.0 < between(low, high) < 3.0
    assert 1.0 < beyond(low, Trial(0.0, 0.0, slope - 1.0)) <= 4.0


# Convex risks without segments


@pytest.mark.parametrize("planes", [None, 5])
def test_bmrm_searches_by_trials_where_there_are_no_segments(planes):
    rng = np.random.default_rng(20240607)
    slopes, offsets = rng.normal(size=(30, 5)), rng.normal(size=30)
    risk = FunctionRisk(largest(slopes, offsets), 5, convex=True)
    result = cp.minimize(risk, cp.L2(0.3), method=cp.bmrm(planes=planes), tol=1e-4)
    optimum = PROBLEMS["planes"].optimum  # the same slopes and offsets
    assert result.status is cp.Status.OPTIMAL
    assert result.certificate.valid
    assert result.certificate.lower_bound <= optimum <= result.objective + 1e-9
    assert result.evaluations == risk.evaluations - 1
    assert result.objective == pytest.approx(min(0.15 * p.w @ p.w + p.value for p in risk.seen))


def test_search_by_trials_saves_evaluations():
    # A mean over many examples is nearly smooth: there the search pays.
    rng = np.random.default_rng(5)
    X = rng.normal(size=(500, 20))
    y = np.where(X @ rng.normal(size=20) + rng.normal(size=500) > 0, 1.0, -1.0)

    def hinge(w):
        z = y * (X @ w)
        return np.mean(np.maximum(1.0 - z, 0.0)), X.T @ np.where(z < 1.0, -y, 0.0) / len(y)

    def evaluations(line_search):
        risk = FunctionRisk(hinge, 20, convex=True, lower_bound=0.0)
        method = cp.bmrm(line_search=line_search)
        result = cp.minimize(risk, cp.L2(1e-3), method=method, tol=1e-3)
        assert result.status is cp.Status.OPTIMAL
        return result.evaluations

    assert evaluations(True) < evaluations(False)


class Squares(ScoreMap):
    """Scores that are not linear in the parameters: ``X w^2``."""

    linear = False

    def __init__(self, rows):
        self.rows, self.n_parameters = rows, rows.shape[1]

    def scores(self, w):
        self.w = w
        return self.rows.scores(w**2)

    def pullback(self, slopes):
        return 2.0 * self.w * self.rows.pullback(slopes)

    def part(self, examples):
        return Squares(self.rows.part(examples))


def test_scores_that_are_not_linear_know_no_segments():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), rng.normal(size=40)
    risk = cp.ScoredRisk(Squares(cp.as_rows(X)), y, cp.Squared(), intercept=False)
    point = risk.at(np.ones(3))
    assert as_searchable(point) is None
    linear = cp.ScoredRisk(X, y, cp.Squared(), intercept=False).at(np.ones(3))
    assert as_searchable(linear) is linear
