"""Linear constraints on coefficients: exact optima, valid bounds, feasible results, refusals."""

import cvxpy
import numpy as np
import pytest
import scipy.sparse as sp
from cvxpy.transforms import indicator
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.preprocessing import scale

import cutplane as cp

from ..risks.exact import TWINS, clarabel

ORDERED = np.diff(np.eye(5), axis=0)
rng = np.random.default_rng(4)
X = rng.normal(size=(80, 5))
NUMBERS = X @ [1.0, 0.2, 0.5, -0.5, 0.8] + rng.normal(size=80)
LABELS = np.where(NUMBERS > 0.0, 1.0, -1.0)


@pytest.mark.parametrize(
    "loss", [cp.Hinge(), cp.Logistic(), cp.Squared(), cp.Quantile(0.7)], ids=repr
)
def test_the_optimum_is_that_of_an_exact_solver(loss):
    y = NUMBERS if loss.task == "regression" else LABELS
    A, lower = np.vstack([ORDERED, np.ones(5)]), np.append(np.zeros(4), 1.0)
    upper = np.append(np.full(4, np.inf), 1.0)
    estimator = cp.LinearRegressor if loss.task == "regression" else cp.LinearClassifier
    model = estimator(loss, lam=0.05, constraints=(A, lower, upper), tol=1e-7).fit(X, y)
    w, c = cvxpy.Variable(5), cvxpy.Variable()
    goal = 0.025 * cvxpy.sum_squares(w) + cvxpy.sum(
        TWINS[type(loss)].expression(loss, y, X @ w + c)
    ) / len(y)
    limits = [ORDERED @ w >= 0, cvxpy.sum(w) == 1]
    clarabel(cvxpy.Minimize(goal + indicator(limits)), 1e-9)
    assert model.certificate_.status is cp.Status.OPTIMAL
    assert model.certificate_.objective == pytest.approx(goal.value, rel=2e-6)
    coef = np.ravel(model.coef_)
    assert np.diff(coef).min() >= -1e-8
    assert coef.sum() == pytest.approx(1.0, abs=1e-8)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000))
def test_projection_is_feasible_and_its_value_bounds_the_conjugate(seed):
    rng = np.random.default_rng(seed)
    d, k = rng.integers(1, 8), rng.integers(1, 10)
    A, inside = rng.normal(size=(k, d)), rng.normal(size=d)
    lower = A @ inside - rng.choice([0.0, 1.0, np.inf], k)
    upper = A @ inside + rng.choice([0.0, 1.0, np.inf], k)
    lam = 10.0 ** rng.uniform(-6, 1)
    regularizer = cp.ConstrainedL2(lam, A, lower, upper)
    u = rng.normal(size=d) * 10.0 ** rng.uniform(-3, 3)
    conjugate, w = regularizer.conjugate(u)
    assert regularizer.violation(w) <= cp.ConstrainedL2.tolerance
    assert np.isfinite(regularizer.value(w))
    attained = u @ w - regularizer.value(w)
    size = abs(conjugate) + np.linalg.norm(u) * np.linalg.norm(w)
    assert conjugate >= attained - 1e-9 * size
    assert conjugate <= attained + 1e-6 * size
    # No other feasible point has more: on the way to one that is known.
    for share in (0.1, 0.5, 1.0):
        other = w + share * (inside - w)
        assert u @ other - 0.5 * lam * other @ other <= conjugate + 1e-9 * size


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array, lambda X: X.astype(np.float32)])
@pytest.mark.parametrize("intercept", [True, False])
def test_bounds_hold_at_every_step(convert, intercept):
    weights = rng.uniform(0.0, 2.0, 80)
    options = {"lam": 1e-3, "tol": 1e-6, "fit_intercept": intercept, "bounds": (-1.0, 0.6)}
    model = cp.LinearRegressor("huber", constraints=(ORDERED, -0.3, 0.5), **options)
    model.fit(convert(X), NUMBERS, sample_weight=weights)
    assert model.certificate_.status is cp.Status.OPTIMAL
    lowest = model.certificate_.objective
    for record in model.history_:
        assert record.lower_bound <= lowest + 1e-12
    steps = np.diff(model.coef_)
    assert steps.min() >= -0.3 - 1e-8
    assert steps.max() <= 0.5 + 1e-8
    assert model.coef_.max() <= 0.6 + 1e-8


def test_all_forms_of_constraints_mean_the_same():
    forms = [
        (ORDERED, 0.0, np.inf),
        LinearConstraint(ORDERED, lb=0.0),
        [(ORDERED[:2], 0.0, np.inf), (sp.csr_array(ORDERED[2:]), np.zeros(2), np.full(2, np.inf))],
    ]
    fits = [cp.LinearRegressor(lam=0.01, constraints=form).fit(X, NUMBERS) for form in forms]
    for other in fits[1:]:
        assert np.array_equal(other.coef_, fits[0].coef_)


@pytest.mark.parametrize("pos_label", [0, 1])
def test_they_hold_for_coefficients_as_they_are_returned(pos_label):
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)[:, :6]
    limit = (np.eye(6)[:2], -0.1, 0.3)
    model = cp.LinearClassifier("f1", constraints=limit, pos_label=pos_label, lam=0.01, tol=1e-2)
    coef = model.fit(X, y).coef_[0]
    assert ((coef[:2] >= -0.1 - 1e-8) & (coef[:2] <= 0.3 + 1e-8)).all()
    both = model.set_params(bounds=(None, 0.2)).fit(X, y)
    assert both.coef_.max() <= 0.2 + 1e-8
    assert both.coef_[0, :2].min() >= -0.1 - 1e-8


@pytest.mark.parametrize("multi_class", ["ovr", "softmax"])
def test_of_each_class(multi_class):
    X, y = load_iris(return_X_y=True)
    sums = (np.ones((1, 4)), 0.0, 0.5)
    model = cp.LinearClassifier(
        "logistic", multi_class=multi_class, constraints=sums, lam=0.01
    ).fit(scale(X), y)
    totals = model.coef_.sum(axis=1)
    assert ((totals >= -1e-8) & (totals <= 0.5 + 1e-8)).all()


def test_what_is_refused():
    cases = [
        ((np.ones((1, 5)), 2.0, 1.0), "contradict each other"),
        ([(np.ones((1, 5)), 1.0, 2.0), (np.ones((1, 5)), -1.0, 0.0)], "contradict each other"),
        ((np.ones((1, 4)), 0.0, 1.0), "constraints have 4 columns, X has 5 features"),
        (np.ones((1, 5)), r"a constraint must be \(A, lower, upper\)"),
        ((np.ones((2, 5)), [0.0, 0.0, 0.0], 1.0), r"a constraint must be \(A, lower, upper\)"),
        ((np.full((1, 5), np.nan), 0.0, 1.0), "the constraints must be finite"),
        ((np.ones((1, 5)), np.nan, 1.0), "the bounds of constraints must be numbers"),
        ([], "constraints is an empty list"),
    ]
    for constraints, said in cases:
        with pytest.raises(ValueError, match=said):
            cp.LinearRegressor(constraints=constraints).fit(X, NUMBERS)
    ordered = (ORDERED, 0.0, np.inf)
    with pytest.raises(ValueError, match="constraints go with penalty='l2', not with 'l1'"):
        cp.LinearRegressor(penalty="l1", constraints=ordered).fit(X, NUMBERS)
    with pytest.raises(ValueError, match="needs a quadratic regularizer"):
        cp.LinearRegressor(constraints=ordered, method="level").fit(X, NUMBERS)


@pytest.mark.parametrize("options", [{"positive": True}, {"constraints": (ORDERED, 0.0, np.inf)}])
def test_two_classes_at_once_have_no_coefficients_of_their_own_to_bound(options):
    model = cp.LinearClassifier("logistic", multi_class="softmax", **options)
    with pytest.raises(ValueError, match="of two classes need multi_class='ovr'"):
        model.fit(X, LABELS)
