"""What the papers prove of plain BMRM holds for ours (paper 000: Lemma 1, Theorems 4 and 5)."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cutplane as cp

from .problems import PROBLEMS, MaxOfPlanes

EPS = np.finfo(np.float64).eps
PLAIN = cp.bmrm(line_search=False)

# The reduced problem is solved to this share of the gap, where the papers solve it exactly.
SHARE_OF_GAP = 1e-3


def random_problem(seed, lam):
    """Return a risk that is not negative, its largest slope G, and a regularizer."""
    rng = np.random.default_rng(seed)
    if seed % 2:
        slopes, offsets = rng.normal(size=(60, 8)), rng.uniform(0.0, 1.0, 60)
        slopes = np.vstack([slopes, np.zeros(8)])
        offsets = np.append(offsets, 0.0)
        risk = MaxOfPlanes(slopes, offsets, lower_bound=0.0)
        steepest = float(np.linalg.norm(slopes, axis=1).max())
    else:
        X = rng.normal(size=(50, 8))
        y = np.where(X[:, 0] + rng.normal(size=50) > 0, 1.0, -1.0)
        risk = cp.LinearRisk(cp.as_rows(X), y, cp.Hinge(), intercept=False)
        # A subgradient is minus a mean of some of the y_i x_i.
        steepest = float(np.linalg.norm(X, axis=1).mean())
    return risk, steepest, cp.L2(lam)


def iteration_bound(lam, steepest, at_zero, epsilon):
    """Equation (13), with H* = 1 for the squared norm (Remark 6)."""
    squared = steepest**2
    return np.log2(lam * at_zero / squared) + 8.0 * squared / (lam * epsilon) - 4.0


@given(
    seed=st.integers(0, 10**6),
    lam=st.sampled_from([0.1, 1.0, 10.0, 100.0]),
    share=st.sampled_from([1e-1, 1e-2, 1e-3]),
)
def test_theorem_5(seed, lam, share):
    risk, steepest, regularizer = random_problem(seed, lam)
    at_zero = risk.at(np.zeros(8)).value
    epsilon = share * min(at_zero, 4.0 * steepest**2 / lam)
    result = cp.minimize(
        risk, regularizer, method=PLAIN, stop=cp.Gap(absolute=epsilon), max_iter=None
    )
    assert result.status is cp.Status.OPTIMAL
    assert result.iterations <= iteration_bound(lam, steepest, at_zero, epsilon)


@pytest.mark.parametrize("epsilon", [0.1, 0.03, 0.01])
def test_theorem_5_where_it_is_nearly_tight(epsilon):
    # max_i w_i over many coordinates: each plane tells of one coordinate only, the lower bound
    # after t planes is -1/(2 lam t), and no point seen is better than zero by much.
    lam, d = 1.0, 200
    shift = 1.0 / (2.0 * lam)  # keeps J above zero
    risk = MaxOfPlanes(np.eye(d), np.full(d, shift))
    result = cp.minimize(
        risk, cp.L2(lam), method=PLAIN, stop=cp.Gap(absolute=epsilon), max_iter=None
    )
    bound = iteration_bound(lam, 1.0, shift, epsilon)
    assert result.status is cp.Status.OPTIMAL
    assert result.iterations <= bound
    # Within a factor of 20 of the bound, so a solver that needs 20 times as much would be caught.
    assert result.iterations >= bound / 20.0
    # And the run is the one that can be computed by hand.
    for record in result.history:
        by_hand = shift - 1.0 / (2.0 * lam * record.iteration)
        assert record.lower_bound <= by_hand + 64 * EPS
        assert record.lower_bound >= by_hand - SHARE_OF_GAP * (record.gap + 1.0 / record.iteration)


@given(seed=st.integers(0, 10**6), lam=st.sampled_from([1.0, 10.0, 100.0]))
def test_theorem_4_progress_of_every_step(seed, lam):
    risk, steepest, regularizer = random_problem(seed, lam)
    result = cp.minimize(risk, regularizer, method=PLAIN, stop=cp.Gap(absolute=1e-6), max_iter=200)
    history = result.history
    for now, then in pairwise(history):
        epsilon = now.gap
        progress = 0.5 * epsilon * min(1.0, lam * epsilon / (4.0 * steepest**2))
        # Two reduced problems, each to its share of the gap before it.
        slack = 2.0 * SHARE_OF_GAP * epsilon + 64 * EPS * abs(now.objective)
        assert epsilon - then.gap >= progress - slack


@pytest.mark.parametrize("name", PROBLEMS)
def test_lemma_1(name):
    problem = PROBLEMS[name]
    risk, regularizer = problem.make_risk(), problem.regularizer
    models = []
    result = cp.minimize(
        risk,
        regularizer,
        method=PLAIN,
        tol=1e-8,
        max_iter=300,
        callbacks=[lambda state: models.append(state.lower)],
    )
    # J_t'(w_t') <= J_t(w_t) <= J(w*) <= J(w_t) for t' <= t; the reference is good to 1e-9.
    assert models == sorted(models)
    assert models[-1] <= problem.optimum + 64 * EPS * abs(problem.optimum)
    assert all(record.objective >= problem.optimum - 1e-9 for record in result.history)
    # epsilon_t - epsilon_{t+1} >= J_{t+1}(w_{t+1}) - J_t(w_t) >= 0
    for now, then in pairwise(result.history):
        raised = then.lower_bound - now.lower_bound
        assert raised >= 0.0
        assert now.gap - then.gap >= raised - 8 * EPS * abs(now.objective)
    # epsilon_t bounds the distance from the optimum
    for record in result.history:
        assert record.gap >= record.objective - problem.optimum - 64 * EPS * abs(problem.optimum)


@pytest.mark.parametrize("name", ["planes", "planes with a floor", "planes centred"])
def test_model_touches_the_objective_where_it_was_evaluated(name):
    problem = PROBLEMS[name]
    risk = problem.make_risk()

    def look(state):
        w = risk.seen[-1].w
        model = np.max(state.bundle.slopes @ w + state.bundle.offsets)
        touched.append(model == pytest.approx(risk.seen[-1].value, rel=1e-13, abs=1e-13))

    touched = []
    result = cp.minimize(risk, problem.regularizer, method=PLAIN, callbacks=[look])
    assert len(touched) == result.iterations
    assert all(touched)
