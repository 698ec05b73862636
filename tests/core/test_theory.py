"""What the papers prove holds for ours (papers 000, 002, 003 and 004)."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
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
        risk = cp.ScoredRisk(cp.as_rows(X), y, cp.Hinge(), intercept=False)
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


@pytest.mark.parametrize("name", ["planes", "planes with a floor", "planes centered"])
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


# Paper 004: limited memory keeps the rate


LIMITED = pytest.mark.parametrize(
    "method",
    [cp.bmrm_without_qp(), *(cp.bmrm(line_search=False, planes=planes) for planes in (1, 2, 5))],
    ids=["without a QP", "1 plane", "2 planes", "5 planes"],
)


@LIMITED
@given(seed=st.integers(0, 10**6), lam=st.sampled_from([1.0, 10.0, 100.0]))
@settings(max_examples=20)
def test_lemma_3_of_paper_004_progress_of_every_step(method, seed, lam):
    risk, steepest, regularizer = random_problem(seed, lam)
    result = cp.minimize(risk, regularizer, method=method, stop=cp.Gap(absolute=1e-5), max_iter=100)
    for now, then in pairwise(result.history):
        progress = min(0.5 * now.gap, now.gap**2 * lam / (8.0 * steepest**2))
        slack = 2.0 * SHARE_OF_GAP * now.gap + 64 * EPS * abs(now.objective)
        assert now.gap - then.gap >= progress - slack


@LIMITED
@given(
    seed=st.integers(0, 10**6),
    lam=st.sampled_from([1.0, 10.0]),
    share=st.sampled_from([1e-1, 1e-2]),
    away=st.floats(0.0, 10.0),
)
@settings(max_examples=20)
def test_theorem_1_of_paper_004(method, seed, lam, share, away):
    risk, steepest, regularizer = random_problem(seed, lam)
    start = away * np.ones(8)
    first = risk.at(start).plane()
    epsilon = share * 4.0 * steepest**2 / lam
    before = 2.0 * np.log2(lam * np.linalg.norm(start + first.slope / lam) / steepest) - 2.0
    result = cp.minimize(
        risk,
        regularizer,
        method=method,
        start=start,
        stop=cp.Gap(absolute=epsilon),
        max_iter=None,
    )
    assert result.status is cp.Status.OPTIMAL
    assert result.iterations <= max(before + 8.0 * steepest**2 / (lam * epsilon) - 2.0, 1.0)


@given(seed=st.integers(0, 10**6), lam=st.sampled_from([0.1, 1.0, 10.0]))
@settings(max_examples=20)
def test_smooth_risks_converge_at_a_linear_rate(seed, lam):
    # Theorem 4, last case of (12): the gap falls by the share lam / (4 H) in every step, with H a
    # bound on the second derivatives of J, as they bound the gradient: |J'|^2 <= 2 H (J - min J).
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(50, 8))
    y = np.where(X[:, 0] + rng.normal(size=50) > 0, 1.0, -1.0)
    risk = cp.ScoredRisk(cp.as_rows(X), y, cp.Logistic(), intercept=False)
    highest = lam + float(np.linalg.eigvalsh(X.T @ X / 50).max()) / 4.0
    result = cp.minimize(risk, cp.L2(lam), method=PLAIN, stop=cp.Gap(absolute=1e-9), max_iter=300)
    assert result.status is cp.Status.OPTIMAL
    for now, then in pairwise(result.history):
        slack = 2.0 * SHARE_OF_GAP * now.gap + 64 * EPS * abs(now.objective)
        assert then.gap <= now.gap * (1.0 - lam / (4.0 * highest)) + slack


@given(
    seed=st.integers(0, 10**6),
    lam=st.sampled_from([0.1, 1.0, 10.0]),
    share=st.sampled_from([1e-1, 1e-3, 1e-6]),
)
@settings(max_examples=20)
def test_iterations_on_smooth_risks(seed, lam, share):
    # Paper 000, equation (14), for epsilon up to H / 2; the terms before the last do not count
    # where they are negative. The middle one is printed with the wrong sign: from 4 G^2 / lam down
    # to H / 2 by (12), in steps of lam / 8, are (4 G^2 / lam - H / 2) * 8 / lam steps.
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(50, 8))
    y = np.where(X[:, 0] + rng.normal(size=50) > 0, 1.0, -1.0)
    risk = cp.ScoredRisk(cp.as_rows(X), y, cp.Logistic(), intercept=False)
    highest = lam + float(np.linalg.eigvalsh(X.T @ X / 50).max()) / 4.0
    steepest = float(np.linalg.norm(X, axis=1).mean())
    epsilon = share * highest / 2.0
    bound = max(np.log2(lam * risk.at(np.zeros(8)).value / (4.0 * steepest**2)), 0.0)
    bound += 4.0 / lam * max(0.0, 8.0 * steepest**2 / lam - highest)
    bound += 4.0 * highest / lam * np.log(highest / (2.0 * epsilon))
    stop = cp.Gap(absolute=epsilon)
    result = cp.minimize(risk, cp.L2(lam), method=PLAIN, stop=stop, max_iter=None)
    assert result.status is cp.Status.OPTIMAL
    assert result.iterations <= bound + 1.0


@given(
    seed=st.integers(0, 10**6),
    lam=st.sampled_from([0.1, 1.0, 10.0]),
    share=st.sampled_from([1e-1, 1e-2]),
)
@settings(max_examples=20)
def test_iteration_bound_of_paper_003(seed, lam, share):
    # Half of the constant that paper 000 proves.
    risk, steepest, regularizer = random_problem(seed, lam)
    epsilon = share * 4.0 * steepest**2 / lam
    stop = cp.Gap(absolute=epsilon)
    result = cp.minimize(risk, regularizer, method=PLAIN, stop=stop, max_iter=None)
    assert result.status is cp.Status.OPTIMAL
    halvings = max(np.log2(lam * risk.at(np.zeros(8)).value / steepest**2), 0.0)
    assert result.iterations <= halvings + 4.0 * steepest**2 / (lam * epsilon) - 1.0


@given(seed=st.integers(0, 10**6), lam=st.sampled_from([0.1, 1.0]))
@settings(max_examples=10)
def test_theorem_5_of_paper_002(seed, lam):
    # Iterates are means of minus slopes over lam: none is farther from zero than A / lam = R.
    risk, steepest, regularizer = random_problem(seed, lam)
    best = cp.minimize(risk, regularizer, stop=cp.Gap(absolute=1e-9)).certificate.lower_bound
    method = cp.balanced_proximal(radius=steepest / lam)
    result = cp.minimize(risk, regularizer, method=method, stop=cp.Gap(absolute=1e-6), max_iter=100)
    for record in result.history:
        steps = record.iteration
        bound = (2.0 * steepest) ** 2 * (1.0 + np.log(steps)) / (lam * steps)
        assert record.objective - best <= bound + 1e-8


# Dual identities


@given(seed=st.integers(0, 10**6), lam=st.sampled_from([0.1, 1.0, 10.0]))
@settings(max_examples=20)
def test_dual_and_primal_of_the_reduced_problem_agree(seed, lam):
    # J_t(w_t) = D(alpha_t), w_t = -A'alpha/lam, and planes with weight are the highest at w_t
    # (paper 000, Theorem 2 and equation (6)).
    risk, _, regularizer = random_problem(seed, lam)
    state = cp.minimize(risk, regularizer, method=PLAIN, tol=1e-3, max_iter=15).state
    bundle = state.bundle
    bundle.weigh(lam, accuracy=0.0)
    alpha = bundle.alpha
    w = -bundle.slopes.T @ alpha / lam
    dual = alpha @ bundle.offsets - alpha @ bundle.gram @ alpha / (2.0 * lam)
    primal = 0.5 * lam * w @ w + np.max(bundle.slopes @ w + bundle.offsets)
    scale = 1.0 + np.abs(bundle.offsets).max() + lam * w @ w
    assert primal == pytest.approx(dual, abs=1e-12 * scale)
    heights = bundle.slopes @ w + bundle.offsets
    assert heights[alpha > 0.0].min() >= heights.max() - 1e-11 * scale


@given(seed=st.integers(0, 10**6), t=st.integers(2, 8))
@settings(max_examples=20)
def test_lemma_3_of_paper_002(seed, t):
    # D'_t([alpha; 1]) - D'_{t-1}(alpha) = f(w_t) - |lam w_t + a_t|^2 / (2 (lam t + tau_{1:t}))
    rng = np.random.default_rng(seed)
    d, lam = 3, float(rng.uniform(0.01, 1.0))
    tau, points = rng.uniform(0.0, 1.0, t), rng.normal(size=(t, d))
    slopes, offsets = rng.normal(size=(t, d)), rng.normal(size=t)
    alpha = rng.dirichlet(np.ones(t - 1)) * (t - 1)

    def dual(alpha, n):
        weighted = tau[:n] @ points[:n] - alpha @ slopes[:n]
        constant = 0.5 * tau[:n] @ np.sum(points[:n] ** 2, axis=1) + alpha @ offsets[:n]
        return constant - weighted @ weighted / (2.0 * (lam * n + tau[:n].sum()))

    before = lam * (t - 1) + tau[:-1].sum()
    points[-1] = w = (tau[:-1] @ points[:-1] - alpha @ slopes[:-1]) / before
    f = 0.5 * lam * w @ w + slopes[-1] @ w + offsets[-1]
    steep = lam * w + slopes[-1]
    difference = dual(np.append(alpha, 1.0), t) - dual(alpha, t - 1)
    assert difference == pytest.approx(
        f - steep @ steep / (2.0 * (lam * t + tau.sum())), rel=1e-9, abs=1e-9
    )
