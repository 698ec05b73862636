"""Runs with every regularizer, compared with CVXPY; bounds hold at every iteration."""

import warnings

import cvxpy
import numpy as np
import pytest

import cutplane as cp

from ..core.problems import MaxOfPlanes
from ..risks.exact import TWINS, Objective
from .registry import CASES, CoshRegularizer, D

_rng = np.random.default_rng(20240612)
X = _rng.normal(size=(40, D))
_signal = X @ np.array([1.5, -1.0, 0.2, 0.0]) + 0.5
TARGETS = {
    "hinge": (cp.Hinge(), np.where(_signal + _rng.normal(size=40) > 0, 1.0, -1.0)),
    "logistic": (cp.Logistic(), np.where(_signal + _rng.normal(size=40) > 0, 1.0, -1.0)),
    "absolute": (cp.Absolute(), _signal + _rng.standard_t(3, size=40)),
}
every = pytest.mark.parametrize("name", CASES)


def exact_optimum(case, objective):
    """Return J at CVXPY's solution, moved into the domain: not below the minimum."""
    w = cvxpy.Variable(D)
    scores = objective.rows @ w + (cvxpy.Variable() if objective.intercept else 0.0)
    losses = TWINS[type(objective.loss)].expression(objective.loss, objective.targets, scores)
    goal = cvxpy.Minimize(case.expression(w) + objective.shares @ losses)
    with warnings.catch_warnings():  # what it reaches is compared to 1e-6
        warnings.filterwarnings("ignore", message="Solution may be inaccurate")
        tolerances = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-10)
        cvxpy.Problem(goal, case.constraints(w)).solve(solver=cvxpy.CLARABEL, **tolerances)
    at = case.into_domain(w.value)
    return case.formula(at) + objective.risk(at)


@every
@pytest.mark.parametrize("loss", TARGETS)
@pytest.mark.parametrize("intercept", [False, True], ids=["", "intercept"])
def test_agrees_with_cvxpy(name, loss, intercept):
    case, (function, y) = CASES[name], TARGETS[loss]
    objective = Objective(X, y, function, np.nan, intercept=intercept)
    optimum = exact_optimum(case, objective)
    risk = cp.ScoredRisk(X, y, function, intercept=intercept)
    result = cp.minimize(risk, case.regularizer, tol=1e-7)
    assert result.status == "optimal"
    assert case.formula(result.w) + objective.risk(result.w) == pytest.approx(
        result.objective, rel=1e-9
    )
    assert result.objective <= optimum * (1 + 1e-6)
    assert result.objective >= optimum * (1 - 1e-6)
    for record in result.history:
        assert record.lower_bound <= optimum * (1 + 1e-9)
        assert record.objective >= optimum * (1 - 1e-6)


@every
@pytest.mark.parametrize(
    "method",
    [cp.bmrm(planes=5), cp.bmrm(groups=3)],
    ids=["planes", "groups"],
)
@pytest.mark.parametrize("intercept", [False, True], ids=["", "intercept"])
def test_other_methods_reach_the_same(name, method, intercept):
    loss, y = TARGETS["hinge"]
    regularizer = CASES[name].regularizer

    def run(method, tol):
        risk = cp.ScoredRisk(X, y, loss, intercept=intercept)
        return cp.minimize(risk, regularizer, method=method, tol=tol, max_iter=3000)

    best, other = run(None, 1e-7), run(method, 1e-4)
    assert other.status == "optimal"
    assert other.certificate.lower_bound <= best.objective
    assert other.objective >= best.certificate.lower_bound


@every
def test_without_a_line_search(name):
    loss, y = TARGETS["hinge"]
    risk = cp.ScoredRisk(X, y, loss)
    regularizer = CASES[name].regularizer
    plain = cp.minimize(risk, regularizer, method=cp.bmrm(line_search=False), tol=1e-3)
    assert plain.status == "optimal"
    searched = cp.minimize(risk, regularizer, tol=1e-6)
    assert plain.certificate.lower_bound <= searched.objective
    assert plain.objective >= searched.certificate.lower_bound


@every
def test_resumed_run_is_the_same(name):
    loss, y = TARGETS["logistic"]
    risk = cp.ScoredRisk(X, y, loss)
    regularizer = CASES[name].regularizer
    whole = cp.minimize(risk, regularizer, tol=1e-6)
    half = cp.minimize(risk, regularizer, tol=1e-6, max_iter=3)
    resumed = cp.minimize(risk, regularizer, tol=1e-6, resume=half.state)
    np.testing.assert_array_equal(whole.w, resumed.w)
    assert whole.certificate.lower_bound == resumed.certificate.lower_bound


@every
def test_planes_of_another_regularizer(name):
    loss, y = TARGETS["hinge"]
    risk = cp.ScoredRisk(X, y, loss)
    regularizer = CASES[name].regularizer
    # Where the best point of one with bounds is not allowed, the run starts elsewhere.
    for other in (cp.BoundedL2(0.5, lower=0.2, upper=0.2), cp.L2(0.05)):
        earlier = cp.minimize(risk, other, tol=1e-4)
        result = cp.minimize(risk, regularizer, planes_from=earlier.state, tol=1e-6)
        afresh = cp.minimize(risk, regularizer, tol=1e-6)
        assert result.status == "optimal"
        assert result.objective == pytest.approx(afresh.objective, rel=1e-6)


def test_another_regularizer_does_not_resume():
    risk = cp.ScoredRisk(X, TARGETS["hinge"][1], cp.Hinge())
    state = cp.minimize(risk, cp.ElasticNet(0.1), max_iter=2).state
    with pytest.raises(ValueError, match=r"resume is of a run with ElasticNet\(0.1, l1_ratio=0.5"):
        cp.minimize(risk, cp.L1(0.1), resume=state)


def test_flat_regularizer_needs_a_floor():
    risk = MaxOfPlanes([[1.0, 2.0], [-1.0, -1.0]], [0.0, 1.0])
    with pytest.raises(ValueError, match="L1 has no curvature"):
        cp.minimize(risk, cp.L1(0.1))


def test_start_outside_the_domain():
    risk = cp.ScoredRisk(X, TARGETS["hinge"][1], cp.Hinge())
    with pytest.raises(ValueError, match="does not allow the start"):
        cp.minimize(risk, cp.Entropy(0.1), start=-np.ones(D))


def test_bounds_are_kept():
    for name in ("BoundedL2", "BoundedL2 box"):
        regularizer = CASES[name].regularizer
        risk = cp.ScoredRisk(X, TARGETS["hinge"][1], cp.Hinge())
        w = cp.minimize(risk, regularizer, tol=1e-6).w
        assert (w >= regularizer.lower - 1e-15).all()
        assert (w <= regularizer.upper + 1e-15).all()


def test_large_l1_leaves_nothing():
    risk = cp.ScoredRisk(X, TARGETS["hinge"][1], cp.Hinge())
    result = cp.minimize(risk, cp.L1(10.0), tol=1e-9)
    assert result.status == "optimal"
    assert not result.w.any()


def test_user_regularizer_with_groups_and_many_planes():
    risk = cp.ScoredRisk(X, TARGETS["absolute"][1], cp.Absolute(), intercept=False)
    alone = cp.minimize(risk, CoshRegularizer(1e-3), tol=1e-6)
    grouped = cp.minimize(risk, CoshRegularizer(1e-3), tol=1e-6, method=cp.bmrm(groups=4))
    assert alone.status == grouped.status == "optimal"
    assert grouped.objective == pytest.approx(alone.objective, rel=1e-6)
    assert grouped.iterations < alone.iterations


@pytest.mark.parametrize("loss", [cp.Softmax(), cp.CrammerSinger()], ids=repr)
@pytest.mark.parametrize("regularizer", [cp.L1(0.02), cp.ElasticNet(0.02), cp.BoundedL2(0.02)])
def test_many_classes(loss, regularizer):
    y = np.arange(40) % 3
    risk = cp.ScoredRisk(X + y[:, None] * np.eye(3, D)[y], y, loss)
    result = cp.minimize(risk, regularizer, tol=1e-5)
    plain = cp.minimize(risk, regularizer, tol=1e-3, method=cp.bmrm(line_search=False))
    assert result.status == plain.status == "optimal"
    assert plain.certificate.lower_bound <= result.objective
    assert result.certificate.lower_bound <= plain.objective
