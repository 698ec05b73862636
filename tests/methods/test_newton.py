"""Newton's method on the smoothed loss: valid planes, certified optima, every loss and layout."""

import math
import signal
import time
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import cutplane as cp
from cutplane.compute.products import solve_positive
from cutplane.core.state import Problem
from cutplane.losses import CLASSIFICATION, REGRESSION
from cutplane.solvers.newton import NewtonSteps, SmoothedNewton, newton

LOSSES = [factory() for factory in (*CLASSIFICATION.values(), *REGRESSION.values())]
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)
LAYOUTS = {
    "rows": np.ascontiguousarray,
    "columns": np.asfortranarray,
    "csr": sp.csr_array,
    "float32": lambda X: X.astype(np.float32),
}


def sample(loss, seed, m=40, d=5, layout="rows", intercept=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, d)) * (rng.uniform(size=(m, d)) < 0.7)
    if loss.task == "classification":
        y = rng.choice([-1.0, 1.0], m)
    else:
        y = rng.poisson(1.5, m) if isinstance(loss, cp.Poisson) else 3.0 * rng.normal(size=m)
    weights = rng.uniform(0.5, 2.0, m)
    weights[m // 2] = 0.0
    X = LAYOUTS[layout](X)
    return cp.ScoredRisk(X, y.astype(float), loss, weights=weights, intercept=intercept), rng


@every_loss
@settings(max_examples=10)
@given(seed=st.integers(0, 10**6), lam=st.sampled_from([1e-4, 1e-2, 1.0]), intercept=st.booleans())
def test_planes_stay_below_the_risk(loss, seed, lam, intercept):
    risk, rng = sample(loss, seed, intercept=intercept)
    start = risk.at(0.3 * rng.normal(size=risk.n_parameters))
    steps = SmoothedNewton(Problem(risk, cp.L2(lam)))
    state = steps.initial(start, 0.0 if loss.smoothed(1) is loss else 1.0, np.zeros(len(risk.y)))
    for _ in range(5):
        for plane in steps.step(state):
            for _ in range(5):
                w = rng.normal(size=risk.n_parameters) * rng.choice([0.1, 1.0, 10.0])
                height, value = plane.slope @ w + plane.offset, risk.at(w).value
                assert height <= value + 1e-11 * (abs(height) + abs(value) + abs(plane.offset))


@every_loss
@pytest.mark.parametrize("lam", [1e-3, 1e-1])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("intercept", [False, True])
def test_agrees_with_the_bundle_method(loss, lam, layout, intercept):
    risk, _ = sample(loss, 7, layout=layout, intercept=intercept)
    ours = cp.minimize(risk, cp.L2(lam), method=newton(), tol=1e-8)
    exact = cp.minimize(risk, cp.L2(lam), tol=1e-9, max_iter=5000)
    assert ours.status == "optimal"
    assert exact.status == "optimal"
    assert exact.certificate.lower_bound <= ours.objective <= exact.objective * (1 + 1e-8)
    for record in ours.history:
        assert record.lower_bound <= exact.objective
        assert record.objective >= exact.certificate.lower_bound


@every_loss
def test_takes_far_fewer_evaluations_than_planes_alone(loss):
    risk, _ = sample(loss, 5, m=2000, d=20, intercept=True)
    ours = cp.minimize(risk, cp.L2(1e-4), method=newton(sample=False), tol=1e-6)
    planes = cp.minimize(risk, cp.L2(1e-4), tol=1e-6)
    assert ours.status == "optimal"
    assert ours.evaluations < 0.6 * planes.evaluations


def test_many_examples_begin_with_a_sample():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8000, 4))
    y = np.sign(X @ [3.0, -2.0, 1.0, 0.0] + rng.logistic(size=8000))
    risk = cp.ScoredRisk(X, y, cp.Hinge())
    with_sample = cp.minimize(risk, cp.L2(1e-4), method=newton(), tol=1e-4)
    without = cp.minimize(risk, cp.L2(1e-4), method=newton(sample=False), tol=1e-4)
    assert with_sample.status == without.status == "optimal"
    assert with_sample.iterations < without.iterations
    # The sample's passes count as their share: more than the steps, the start and its solution.
    assert with_sample.evaluations > with_sample.iterations + 2
    assert with_sample.objective == pytest.approx(without.objective, rel=1e-4)


@pytest.mark.parametrize(
    ("loss", "y"),
    [
        (cp.Poisson(), np.r_[1.0, np.zeros(3999)]),
        (cp.Logistic(), np.r_[1.0, -np.ones(3999)]),
        (cp.Hinge(), np.r_[1.0, -np.ones(3999)]),
    ],
    ids=repr,
)
def test_a_sample_without_the_rare_target_does_no_harm(loss, y):
    X = np.random.default_rng(0).normal(size=(4000, 3))
    weights = np.r_[1.0, np.ones(3999)]
    risk = cp.ScoredRisk(X, y, loss, weights=weights)
    result = cp.minimize(risk, cp.L2(1e-2), method=newton(), tol=1e-6)
    exact = cp.minimize(risk, cp.L2(1e-2), tol=1e-8)
    assert result.status == "optimal"
    assert exact.certificate.lower_bound <= result.objective <= exact.objective * (1 + 1e-6)


def test_center_and_weights_of_the_regularizer():
    risk, rng = sample(cp.Hinge(), 3, intercept=True)
    regularizer = cp.L2(0.1, center=rng.normal(size=5), weights=rng.uniform(0.5, 2.0, 5))
    ours = cp.minimize(risk, regularizer, method=newton(), tol=1e-9)
    exact = cp.minimize(risk, regularizer, tol=1e-9)
    assert ours.status == exact.status == "optimal"
    assert ours.objective == pytest.approx(exact.objective, rel=1e-8)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("loss", [cp.Hinge(), cp.Absolute(), cp.Squared(), cp.Logistic()], ids=repr)
@pytest.mark.parametrize(
    "X",
    [
        np.zeros((4, 2)),
        np.ones((4, 2)),
        np.array([[1e8, 1.0], [1e8, -1.0], [-1e8, 0.0], [0.0, 1e-8]]),
        np.array([[1e-12], [2e-12], [-1e-12], [0.0]]),
    ],
    ids=["zeros", "equal columns", "scales far apart", "tiny"],
)
def test_awkward_features(X, loss, intercept):
    risk = cp.ScoredRisk(X, np.array([1.0, -1.0, 1.0, -1.0]), loss, intercept=intercept)
    result = cp.minimize(risk, cp.L2(1e-3), method=newton(), tol=1e-3)
    exact = cp.minimize(risk, cp.L2(1e-3), tol=1e-6)
    assert result.status == "optimal"
    assert result.objective >= exact.certificate.lower_bound
    assert result.certificate.lower_bound <= exact.objective


def test_the_same_run_gives_the_same_bits_also_when_resumed():
    risk, _ = sample(cp.Hinge(), 11, m=200, d=10)
    regularizer, method = cp.L2(1e-3), newton()
    whole = cp.minimize(risk, regularizer, method=method, tol=1e-12, max_iter=8)
    half = cp.minimize(risk, regularizer, method=method, tol=1e-12, max_iter=3)
    kept = half.state.own.point.w.copy()
    resumed = cp.minimize(
        risk, regularizer, method=method, tol=1e-12, max_iter=8, resume=half.state
    )
    np.testing.assert_array_equal(resumed.w, whole.w)
    np.testing.assert_array_equal(half.state.own.point.w, kept)
    bounds = [(r.objective, r.lower_bound) for r in whole.history]
    assert [(r.objective, r.lower_bound) for r in resumed.history] == bounds


def test_a_start_near_the_optimum_saves_steps():
    risk, _ = sample(cp.Quantile(0.9), 4, m=500, d=8, intercept=True)
    cold = cp.minimize(risk, cp.L2(1e-3), method=newton(), tol=1e-6)
    warm = cp.minimize(risk, cp.L2(1e-3), method=newton(), tol=1e-6, start=cold.w)
    assert warm.status == "optimal"
    assert warm.iterations < cold.iterations


class OnlyProducts:
    def __init__(self, X):
        self.X, self.shape = X, X.shape

    def scores(self, w):
        return self.X @ w

    def pullback(self, slopes):
        return self.X.T @ slopes


class NoCurvature(cp.Loss):
    task = "classification"

    def __call__(self, y, scores, weights):
        return cp.Hinge()(y, scores, weights)


class NoConjugate(cp.Logistic):
    has_conjugate = False

    def conjugate(self, y, slopes, weights):
        return None


def test_says_why_it_cannot_be_used():
    X, y = np.eye(3), np.array([1.0, -1.0, 1.0])
    plain = cp.L2(0.1)
    for risk, regularizer, why in [
        (cp.ScoredRisk(OnlyProducts(X), y, cp.Hinge()), plain, "on dense or CSR rows"),
        (cp.ScoredRisk(X, y, NoCurvature()), plain, "a loss with second derivatives"),
        (cp.ScoredRisk(X, y, NoConjugate()), plain, "a loss with a conjugate"),
        (cp.ScoredRisk(X, y, cp.Hinge()), object(), "the regularizer cp.L2"),
        (object(), plain, "a linear risk"),
    ]:
        assert why in newton().obstacle(Problem(risk, regularizer))
    with pytest.raises(
        ValueError, match=r"^NewtonSteps needs a loss with second derivatives; got "
    ):
        cp.minimize(cp.ScoredRisk(X, y, NoCurvature()), plain, method=newton())
    assert newton().obstacle(Problem(cp.ScoredRisk(X, y, cp.Hinge()), plain)) is None
    assert newton() == NewtonSteps()


@given(seed=st.integers(0, 10**6), n=st.integers(1, 12), rank=st.integers(1, 14))
def test_positive_systems_are_solved_also_if_singular(seed, n, rank):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, rank))
    matrix, right = A @ A.T, A @ rng.normal(size=rank)
    x = solve_positive(np.tril(matrix), right)
    np.testing.assert_allclose(matrix @ x, right, atol=1e-4 * np.abs(right).max())


def test_ctrl_c_keeps_the_best_point_and_the_run_can_go_on(monkeypatch):
    risk, _ = sample(cp.Hinge(), 1, m=300, d=8)
    regularizer = cp.L2(1e-3)
    whole = cp.minimize(risk, regularizer, method=newton(), tol=1e-8)
    pullback = type(risk.rows).pullback
    for stop_at in range(3, 30, 4):
        calls = 0

        def interrupt(rows, slopes, stop_at=stop_at):
            nonlocal calls
            calls += 1
            if calls == stop_at:
                raise KeyboardInterrupt
            return pullback(rows, slopes)

        with monkeypatch.context() as patch:
            patch.setattr(type(risk.rows), "pullback", interrupt)
            cut_short = cp.minimize(risk, regularizer, method=newton(), tol=1e-8)
        assert cut_short.status == "interrupted"
        assert cut_short.certificate.lower_bound <= whole.objective <= cut_short.objective
        resumed = cp.minimize(risk, regularizer, method=newton(), tol=1e-8, resume=cut_short.state)
        assert resumed.status == "optimal"
        assert resumed.objective == pytest.approx(whole.objective, rel=1e-8)


def many_examples(m=40_000):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(m, 4))
    return cp.ScoredRisk(X, np.sign(X @ [3.0, -2.0, 1.0, 0.0] + rng.logistic(size=m)), cp.Hinge())


def sample_runs(monkeypatch, before):
    """Call a function before each run on a sample; return the list that their results go to."""
    module = import_module("cutplane.solvers.newton")
    results = []

    def run(risk, regularizer, **options):
        before(options)
        results.append(cp.minimize(risk, regularizer, **options))
        return results[-1]

    monkeypatch.setattr(module, "minimize", run)
    return results


def test_ctrl_c_in_the_sample_ends_the_run_with_what_the_sample_gave(monkeypatch):
    def press_early(options):
        options["callbacks"] = [lambda state: signal.raise_signal(signal.SIGINT)]

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        inner = sample_runs(monkeypatch, press_early)
        risk = many_examples()
        result = cp.minimize(risk, cp.L2(1e-4), method=newton(), tol=1e-6)
    finally:
        signal.signal(signal.SIGINT, before)
    assert inner[0].status == "interrupted"
    assert result.status == "interrupted"
    assert result.iterations == 1
    assert result.certificate.valid
    np.testing.assert_array_equal(result.w, inner[0].w)
    monkeypatch.undo()
    exact = cp.minimize(risk, cp.L2(1e-4), method=newton(), tol=1e-6, resume=result.state)
    assert exact.status == "optimal"
    assert result.certificate.lower_bound <= exact.objective <= result.objective


LIMIT = 600.0  # which no machine is too busy for: a clock is set forward


@pytest.mark.parametrize(
    "limit", [{"time_limit": LIMIT}, {"stop": cp.Gap(1e-6) | cp.Seconds(LIMIT)}]
)
def test_the_time_limit_is_that_of_the_sample_too(monkeypatch, limit):
    late = 0.0

    def be_late(state):
        nonlocal late
        late += 2.0 * LIMIT

    def slow(options):
        assert 0.0 < options["time_limit"] <= LIMIT
        options["callbacks"] = [be_late]

    clock = SimpleNamespace(perf_counter=lambda: time.perf_counter() + late)
    monkeypatch.setattr("cutplane.compute.compiled.time", clock)
    inner = sample_runs(monkeypatch, slow)
    result = cp.minimize(many_examples(), cp.L2(1e-4), method=newton(), **limit)
    assert inner[0].status == "time_limit"
    assert inner[0].iterations <= 2  # that it is late shows after the second
    assert result.status == "time_limit"
    assert result.iterations == 1


def test_evaluations_of_the_sample_count_as_their_share(monkeypatch):
    inner = sample_runs(monkeypatch, lambda options: None)
    risk = many_examples()
    result = cp.minimize(risk, cp.L2(1e-4), method=newton(), tol=1e-6)
    # The start, the sample's solution, a step an iteration; and a tenth of the sample's own,
    # its last one, which only confirms, included.
    share = math.ceil(0.1 * (inner[0].evaluations + 1))
    assert result.evaluations == 2 + result.iterations + share


def test_duals_of_another_problem_do_not_stop_it():
    risk, rng = sample(cp.Hinge(), 1, m=300, d=8)
    exact = cp.minimize(risk, cp.L2(1e-3), tol=1e-10)
    wrong = rng.uniform(-1.0, 1.0, 300) * (risk.y < 0)
    problem = Problem(risk, cp.L2(1e-3))
    steps = SmoothedNewton(problem)
    state = steps.initial(risk.at(np.zeros(8)), 1e-6, wrong)
    for _ in range(200):
        steps.step(state)
    reached = problem.objective(state.point)
    assert reached == pytest.approx(exact.objective, rel=1e-9)


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("tol", [1e-9, 1e-10, 1e-12])
def test_from_the_solution_of_classes_that_can_be_separated(times, tol):
    """The risk all but vanishes there, which says nothing of how widely to round: few steps do."""
    X = np.tile([[1.0, 3.0], [2.0, 1.0], [3.0, 3.0], [4.0, 1.0]], (times, 1))
    risk = cp.ScoredRisk(X, np.tile([1.0, -1.0], 2 * times), cp.Hinge())
    first = cp.minimize(risk, cp.L2(0.1), method=newton(), tol=tol)
    again = cp.minimize(risk, cp.L2(0.1), method=newton(), start=first.w, tol=1e-8)
    assert again.status is cp.Status.OPTIMAL
    assert again.iterations <= 8
