"""Stochastic gradient descent: its steps, its rules, and what it refuses."""

import math

import numpy as np
import pytest
import scipy.sparse

import cutplane as cp
from cutplane.solvers.stochastic import BottouSteps, ConstantSteps, PegasosSteps, sgd

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4))
Y = np.where(X @ [1.0, -1.0, 0.5, 0.0] + 0.5 * RNG.normal(size=60) > 0, 1.0, -1.0)


def hinge(**options):
    return cp.ScoredRisk(X, Y, cp.Hinge(), intercept=False, **options)


def chains(loss, *, n=20, **options):
    rng = np.random.default_rng(1)
    lengths = rng.integers(1, 5, n)
    y = rng.integers(0, 3, lengths.sum())
    features = scipy.sparse.csr_array(np.eye(3)[y] * rng.normal(size=(len(y), 3)))
    return cp.ChainRisk(
        features, y, np.concatenate([[0], np.cumsum(lengths)]), loss, n_labels=3, **options
    )


def test_steps_by_hand():
    # One example, x = 2 and y = 1, quadratic loss (w x - y)^2 / 2: the slope is (2 w - 1) 2.
    risk = cp.ScoredRisk([[2.0]], [1.0], cp.Squared(), intercept=False)
    slope = risk.at(np.array([0.0])).plane().slope[0]
    share = slope / -2.0  # of (w x - y) x in the library's loss
    run = sgd(risk, cp.L2(0.5), passes=2, rule=ConstantSteps(0.1))
    first = 0.0 - 0.1 * (0.5 * 0.0 + share * (0.0 - 1.0) * 2.0)
    second = first - 0.1 * (0.5 * first + share * (2.0 * first - 1.0) * 2.0)
    assert run.w == pytest.approx([second], rel=1e-14)
    assert run.averaged_w == pytest.approx([(first + 2.0 * second) / 3.0], rel=1e-14)
    assert [done.steps for done in run.history] == [1, 2]


def test_rules_by_hand():
    steps = np.arange(1, 4)
    assert PegasosSteps().sizes(steps, 0.5) == pytest.approx([2.0, 1.0, 2.0 / 3.0])
    assert BottouSteps(0.5).sizes(steps, 0.1) == pytest.approx([0.5, 0.5 / 1.05, 0.5 / 1.1])
    assert ConstantSteps(0.5).sizes(steps, 0.1) == pytest.approx([0.5, 0.5, 0.5])


@pytest.mark.parametrize("batch_size", [None, 60])
def test_a_batch_of_all_is_subgradient_descent(batch_size):
    risk, lam = hinge(), 0.1
    w = np.zeros(4)
    for t in range(1, 21):
        w = w - (lam * w + risk.at(w).plane().slope) / (lam * t)
        w *= min(1.0, 1.0 / math.sqrt(lam) / np.linalg.norm(w))
    run = sgd(
        risk,
        cp.L2(lam),
        passes=20,
        batch_size=batch_size,
        rule=PegasosSteps(),
        radius=1.0 / math.sqrt(lam),
    )
    assert run.w == pytest.approx(w, rel=1e-9, abs=1e-12)
    assert run.history[-1].steps == 20


def test_center_and_weights_are_other_coordinates():
    center, weights = np.array([1.0, -1.0, 0.5, 2.0]), np.array([1.0, 2.0, 0.5, 4.0])
    run = sgd(hinge(), cp.L2(0.1, center=center, weights=weights), passes=3, rule=PegasosSteps())
    # v = weights * (w - center) has the features X / weights, and the scores X center in addition.
    v = np.zeros(4)
    rng = np.random.default_rng(0)
    t = 0
    for _ in range(3):
        for i in rng.permutation(60):
            t += 1
            margin = Y[i] * (X[i] @ (center + v / weights))
            v = (1.0 - 1.0 / t) * v + (margin < 1.0) * Y[i] * X[i] / weights / (0.1 * t)
    assert run.w == pytest.approx(center + v / weights, rel=1e-9, abs=1e-12)


def test_weights_of_examples_count():
    # Examples that have twice the weight are as good as two; those without weight are not there.
    weights = np.where(np.arange(60) < 20, 0.0, np.where(np.arange(60) < 40, 2.0, 1.0))
    rows = np.repeat(np.arange(60), weights.astype(int))
    several = cp.ScoredRisk(X[rows], Y[rows], cp.Hinge(), intercept=False)
    optimum = cp.minimize(several, cp.L2(0.1), tol=1e-8).objective
    run = sgd(hinge(weights=weights), cp.L2(0.1), passes=300, rule=PegasosSteps())
    averaged = run.problem.objective(run.problem.risk.at(run.averaged_w))
    assert optimum * (1 - 1e-7) <= averaged <= optimum + 0.01
    # A batch of all with a weight has their risk.
    whole = sgd(hinge(weights=weights), cp.L2(0.1), passes=4, batch_size=60, rule=PegasosSteps())
    same = sgd(several, cp.L2(0.1), passes=4, batch_size=None, rule=PegasosSteps())
    assert whole.w == pytest.approx(same.w, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("rule", [BottouSteps(sample=30), PegasosSteps()], ids=repr)
@pytest.mark.parametrize("batch_size", [1, 7])
def test_comes_near_the_optimum(rule, batch_size):
    optimum = cp.minimize(hinge(), cp.L2(0.1), tol=1e-8).objective
    run = sgd(hinge(), cp.L2(0.1), passes=200, batch_size=batch_size, rule=rule)
    assert optimum * (1 - 1e-7) <= run.objective <= optimum + 0.01
    assert run.objective == min(done.objective for done in run.history)
    problem_value = 0.05 * run.best_w @ run.best_w + hinge().at(run.best_w).value
    assert run.objective == pytest.approx(problem_value, rel=1e-12)


def test_calibration_halves_the_best_power_of_two():
    run = sgd(hinge(), cp.L2(0.1), passes=1, rule=BottouSteps(sample=100))
    tried = {}
    for k in range(-12, 8):
        trial = sgd(hinge(), cp.L2(0.1), passes=1, rule=ConstantSteps(2.0**k))
        tried[2.0**k] = trial.history[0].objective
    # The sample are all examples, in the order of the first pass of the same seed.
    assert run.rule.eta0 == min(tried, key=tried.get) / 2.0
    assert run.calibration > 10.0


def test_a_seed_gives_the_same_run():
    runs = [sgd(hinge(), cp.L2(0.1), passes=3, seed=seed, batch_size=4) for seed in (5, 5, 6)]
    assert np.array_equal(runs[0].w, runs[1].w)
    assert not np.array_equal(runs[0].w, runs[2].w)
    assert [done[:4] for done in runs[0].history] == [done[:4] for done in runs[1].history]


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("loss", [cp.ChainMargin(), cp.ChainCRF()], ids=repr)
@pytest.mark.parametrize("rule", [PegasosSteps(), BottouSteps(0.3), BottouSteps()], ids=repr)
def test_compiled_steps_on_chains_equal_the_others(loss, ends, rule):
    risk = chains(loss, ends=ends, weights=np.arange(1.0, 21.0) ** 0.7)
    compiled = sgd(risk, cp.L2(0.05), passes=3, rule=rule)
    # With a center, steps go through the risks of single sequences.
    general = sgd(risk, cp.L2(0.05, center=np.zeros(risk.n_parameters)), passes=3, rule=rule)
    assert compiled.w == pytest.approx(general.w, rel=1e-6, abs=1e-9)
    assert compiled.rule == general.rule


def test_compiled_steps_on_observed_pairs():
    # The weights are there so that no labels tie, which rounding would decide.
    risk = chains(cp.ChainMargin(), observed_only=True, weights=np.arange(1.0, 21.0) ** 0.7)
    compiled = sgd(risk, cp.L2(0.05), passes=3, rule=PegasosSteps())
    general = sgd(
        risk, cp.L2(0.05, center=np.zeros(risk.n_parameters)), passes=3, rule=PegasosSteps()
    )
    assert compiled.w == pytest.approx(general.w, rel=1e-6, abs=1e-9)


def test_compiled_steps_with_transitions_far_apart():
    risk = chains(cp.ChainCRF())
    start = np.zeros(risk.n_parameters)
    start[9:] = np.linspace(-600.0, 600.0, 9)
    rule = ConstantSteps(0.1)
    compiled = sgd(risk, cp.L2(0.05), passes=1, rule=rule, start=start)
    center = np.zeros(risk.n_parameters)
    general = sgd(risk, cp.L2(0.05, center=center), passes=1, rule=rule, start=start)
    assert compiled.w == pytest.approx(general.w, rel=1e-6, abs=1e-9)


def test_evaluations_and_an_end():
    run = sgd(hinge(), cp.L2(0.1), passes=7, evaluate_every=3, rule=PegasosSteps())
    assert [done.passes for done in run.history] == [3, 6, 7]
    run = sgd(hinge(), cp.L2(0.1), passes=7, until=lambda done: done.passes == 2)
    assert len(run.history) == 2


def test_a_start():
    start = np.array([1.0, 2.0, 3.0, 4.0])
    run = sgd(hinge(), cp.L2(0.1), passes=1, start=start, rule=ConstantSteps(1e-9))
    assert run.w == pytest.approx(start, abs=1e-6)


def test_a_function_takes_whole_steps():
    risk = cp.FunctionRisk(lambda w: (abs(w[0]), np.sign(w)), 1, convex=False)
    run = sgd(risk, cp.L2(1.0), passes=50, batch_size=None, start=[3.0], rule=ConstantSteps(0.1))
    assert run.objective < 0.1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"passes": 0}, "passes must be a whole number of at least 1, got 0"),
        ({"passes": 1, "batch_size": 0}, "batch_size must be a whole number of at least 1, got 0"),
        ({"passes": 1, "evaluate_every": 0.5}, "evaluate_every must be a whole number"),
        ({"passes": 1, "radius": -1.0}, "radius must be positive and finite, got -1"),
        ({"passes": 1, "start": [0.0]}, r"start must be 4 finite numbers, got \[0.0\]"),
        ({"passes": 1, "regularizer": cp.L1(0.1)}, "sgd needs a quadratic regularizer"),
        ({"passes": 1, "risk": cp.ScoredRisk(X, Y, cp.Hinge())}, "its intercept is minimized out"),
        (
            {"passes": 1, "risk": cp.ScoredRisk(X, Y, cp.ROCArea(), intercept=False)},
            r"a sum over examples: ROCArea\(\) is not one; use batch_size=None",
        ),
    ],
)
def test_refuses(options, message):
    arguments = {"risk": hinge(), "regularizer": cp.L2(0.1)} | options
    with pytest.raises(ValueError, match=message):
        sgd(arguments.pop("risk"), arguments.pop("regularizer"), **arguments)


def test_refuses_other_kinds():
    with pytest.raises(TypeError, match=r"rule must be a StepRule such as PegasosSteps\(\)"):
        sgd(hinge(), cp.L2(0.1), passes=1, rule="pegasos")
    function = cp.FunctionRisk(lambda w: (0.0, w), 1)
    with pytest.raises(TypeError, match="FunctionRisk has no part, which batches need"):
        sgd(function, cp.L2(0.1), passes=1)
    with pytest.raises(ValueError, match="eta0 must be positive and finite, got 0"):
        BottouSteps(0.0)
    with pytest.raises(ValueError, match="eta must be positive and finite, got nan"):
        ConstantSteps(math.nan)
