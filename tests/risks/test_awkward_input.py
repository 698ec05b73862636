"""Awkward data get the right answer, an honest status or a clear error, and never a wrong bound.

Right answers come from equivalent problems of ordinary size, or from the exact solver.
"""

import numpy as np
import pytest
import scipy.sparse

import cutplane as cp

from .exact import Objective
from .test_linear import LOSSES, Sample, every_loss

EPS = np.finfo(np.float64).eps

HONEST = (cp.Status.OPTIMAL, cp.Status.STALLED, cp.Status.ITERATION_LIMIT)

both_intercepts = pytest.mark.parametrize("intercept", [False, True])
of_regression = pytest.mark.parametrize(
    "loss",
    [loss for loss in LOSSES if loss.task == "regression" and not isinstance(loss, cp.Poisson)],
    ids=repr,
)
of_classification = pytest.mark.parametrize(
    "loss", [loss for loss in LOSSES if loss.task == "classification"], ids=repr
)


def fit(
    X,
    y,
    loss,
    lam=0.1,
    *,
    weights=None,
    intercept=True,
    tol=1e-6,
    regularizer=None,
    max_iter=500,
):
    risk = cp.ScoredRisk(cp.as_rows(X), y, loss, weights=weights, intercept=intercept)
    return cp.minimize(risk, regularizer or cp.L2(lam), tol=tol, max_iter=max_iter)


def ordinary(loss, seed=1):
    sample = Sample(loss, seed, weighted=False, size=(30, 4))
    return sample.X, sample.y


def assert_right(result, optimum, *, tol=1e-6, rounding=64 * EPS):
    """Optimal, and the known optimum lies between the bounds."""
    assert result.status is cp.Status.OPTIMAL
    assert result.certificate.valid
    slack = rounding * max(1.0, abs(optimum))
    assert result.certificate.lower_bound <= optimum + slack
    assert result.objective >= optimum - slack
    assert result.objective - optimum <= tol * abs(result.objective) + slack


def assert_honest(result, *objectives):
    """Not necessarily optimal, but nothing reachable is below the lower bound."""
    assert result.status in HONEST
    assert result.certificate.valid
    for objective in (result.objective, *objectives):
        assert result.certificate.lower_bound <= objective * (1.0 + 64 * EPS)


# Scale of the features


@every_loss
@both_intercepts
@pytest.mark.parametrize("scale", [1e-200, 1e-160, 1e-100])
def test_tiny_features_say_nothing(loss, intercept, scale):
    X, y = ordinary(loss)
    result = fit(scale * X, y, loss, intercept=intercept)
    # Nothing to be gained by w: the objective is that of no features at all.
    assert_right(result, Objective(X, y, loss, 0.1, None, intercept).risk(np.zeros(4)))


@every_loss
@both_intercepts
@pytest.mark.parametrize("scale", [2.0**-300, 2.0**-50, 2.0**50, 2.0**300])
def test_scaled_features_with_a_scaled_regularizer(loss, intercept, scale):
    # lam/2 |scale * w|^2 in the scaled coordinates: the same problem, and by powers of two the
    # same rounding.
    X, y = ordinary(loss)
    plain = fit(X, y, loss, intercept=intercept)
    scaled = fit(
        scale * X,
        y,
        loss,
        intercept=intercept,
        regularizer=cp.L2(0.1, weights=np.full(4, scale)),
    )
    assert scaled.status is plain.status is cp.Status.OPTIMAL
    assert scaled.objective == pytest.approx(plain.objective, rel=1e-12)
    assert scaled.certificate.lower_bound == pytest.approx(plain.certificate.lower_bound, rel=1e-12)
    np.testing.assert_allclose(scale * scaled.w, plain.w, rtol=1e-9, atol=1e-12)


@every_loss
@both_intercepts
def test_features_of_1e15_with_lam_to_match(loss, intercept):
    X, y = ordinary(loss)
    formula = Objective(X, y, loss, 0.1, None, intercept)
    result = fit(1e15 * X, y, loss, 0.1 * 1e30, intercept=intercept)
    # Scores of 1e15 * 1e-15 carry one more rounding than the formula's.
    assert_right(result, formula.optimum, rounding=1e-9)


@every_loss
@both_intercepts
def test_features_of_1e15_with_ordinary_lam(loss, intercept):
    # As if lam were 1e-33: beyond double precision, so an honest status is all there is to ask.
    X, y = ordinary(loss)
    formula = Objective(X, y, loss, 1e-33, None, intercept)
    result = fit(1e15 * X, y, loss, 1e-3, intercept=intercept)
    assert_honest(result, formula(np.zeros(4)), formula(1e15 * result.w))


@every_loss
@both_intercepts
def test_features_of_1e_200_and_1e15_together(loss, intercept):
    X, y = ordinary(loss)
    scales = np.array([1e-200, 1.0, 1e15, 1.0])
    result = fit(scales * X, y, loss, intercept=intercept)
    formula = Objective(scales * X, y, loss, 0.1, None, intercept)
    assert_honest(result, formula(np.zeros(4)), formula(result.w))
    assert result.objective <= formula(np.zeros(4)) * (1.0 + 64 * EPS)


@pytest.mark.parametrize("X", [1e200, 1e308])
def test_features_whose_square_overflows(X):
    rng = np.random.default_rng(0)
    y = np.where(rng.normal(size=20) > 0, 1.0, -1.0)
    with pytest.raises(cp.NonFiniteRisk, match=r"subgradient .* in iteration 0 .* norm 0"):
        fit(X * rng.uniform(0.5, 1.0, (20, 2)), y, cp.Hinge(), intercept=False)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@both_intercepts
def test_features_that_are_no_numbers(bad, intercept):
    X, y = ordinary(cp.Hinge())
    X = X.copy()
    X[3, 1] = bad
    with pytest.raises(cp.NonFiniteRisk, match=r"scores overflow at coefficients of norm 0"):
        fit(X, y, cp.Hinge(), intercept=intercept)


# Shape of the data


@every_loss
@both_intercepts
@pytest.mark.parametrize(
    "change",
    [
        lambda X: np.column_stack([X, np.ones(30), np.full(30, 7.0)]),
        lambda X: X * (np.arange(30) % 3 > 0)[:, None],
        lambda X: np.column_stack([X, X, -X]),
        lambda X: X[:, :1],
        lambda X: scipy.sparse.csr_array(X * (np.arange(30) % 3 > 0)[:, None]),
        lambda X: scipy.sparse.csr_array((30, 3)),
    ],
    ids=["constant columns", "empty rows", "repeated columns", "d = 1", "empty CSR rows", "empty"],
)
def test_odd_matrices(loss, intercept, change):
    X, y = ordinary(loss)
    X = change(X)
    result = fit(X, y, loss, intercept=intercept)
    assert_right(result, Objective(X, y, loss, 0.1, None, intercept).optimum, rounding=1e-9)


@every_loss
@both_intercepts
def test_all_zero_features(loss, intercept):
    X, y = ordinary(loss)
    result = fit(np.zeros_like(X), y, loss, intercept=intercept)
    assert_right(result, Objective(0 * X, y, loss, 0.1, None, intercept).risk(np.zeros(4)))
    assert np.array_equal(result.w, np.zeros(4))


@every_loss
@both_intercepts
def test_no_features(loss, intercept):
    X, y = ordinary(loss)
    result = fit(X[:, :0], y, loss, intercept=intercept)
    assert_right(result, Objective(0 * X, y, loss, 0.1, None, intercept).risk(np.zeros(4)))


@every_loss
@both_intercepts
def test_duplicate_rows(loss, intercept):
    X, y = ordinary(loss)
    once = fit(X, y, loss, intercept=intercept, tol=1e-9)
    thrice = fit(np.tile(X, (3, 1)), np.tile(y, 3), loss, intercept=intercept, tol=1e-9)
    assert thrice.objective == pytest.approx(once.objective, rel=2e-9)


@every_loss
def test_one_example(loss):
    X, y = ordinary(loss)
    X, y = X[1:2], y[1:2]
    result = fit(X, y, loss, intercept=False)
    assert_right(result, Objective(X, y, loss, 0.1, None, False).optimum, rounding=1e-9)


@every_loss
def test_one_example_with_an_intercept_needs_no_features(loss):
    X, y = ordinary(loss)
    result = fit(X[1:2], y[1:2], loss, intercept=True, max_iter=5)
    assert result.certificate.valid
    assert 0.0 <= result.objective <= 1e-30
    assert np.abs(result.w).max() <= 1e-10


@of_classification
def test_one_class_without_an_intercept(loss):
    X, _ = ordinary(loss)
    y = np.ones(30)
    result = fit(X, y, loss, intercept=False)
    assert_right(result, Objective(X, y, loss, 0.1, None, False).optimum, rounding=1e-9)


@of_classification
def test_one_class_with_an_intercept(loss):
    X, _ = ordinary(loss)
    for y in (np.ones(30), -np.ones(30)):
        result = fit(X, y, loss, intercept=True, max_iter=3)
        # Everything on the right side, by the intercept alone.
        assert result.certificate.valid
        assert 0.0 <= result.objective <= 1e-30
        assert np.sign(result.point.intercept) == y[0]


# How the data are stored


@every_loss
def test_storage_does_not_matter(loss, tmp_path):
    X, y = ordinary(loss)
    y = y.copy()
    reference = fit(X, y, loss)

    frozen = X.copy()
    frozen.flags.writeable = False
    y.flags.writeable = False
    weights = np.ones(30)
    weights.flags.writeable = False
    file = tmp_path / "X.npy"
    np.save(file, X)
    mapped = np.load(file, mmap_mode="r")
    strided = np.zeros((60, 8))[::2, ::2]
    strided[:] = X
    for other in (frozen, mapped, strided, X.astype(">f8"), X.tolist()):
        result = fit(other, y, loss, weights=weights)
        assert np.array_equal(result.w, reference.w)
        assert result.certificate == reference.certificate
    np.testing.assert_array_equal(frozen, X)


@every_loss
def test_width_of_sparse_indices_does_not_matter(loss):
    X, y = ordinary(loss)
    narrow = scipy.sparse.csr_array(X)
    wide = narrow.copy()
    wide.indices = wide.indices.astype(np.int64)
    wide.indptr = wide.indptr.astype(np.int64)
    assert narrow.indices.dtype == np.int32
    one, other = fit(narrow, y, loss), fit(wide, y, loss)
    assert np.array_equal(one.w, other.w)
    assert one.certificate == other.certificate
    frozen = narrow.copy()
    for part in (frozen.data, frozen.indices, frozen.indptr):
        part.flags.writeable = False
    assert np.array_equal(fit(frozen, y, loss).w, one.w)


@every_loss
@both_intercepts
def test_unsorted_and_repeated_sparse_entries(loss, intercept):
    X, y = ordinary(loss)
    rows, columns = np.nonzero(X)
    order = np.random.default_rng(0).permutation(len(rows))
    # Each entry as two halves, in any order.
    halves = np.concatenate([0.5 * X[rows, columns][order]] * 2)
    twice = np.concatenate([columns[order]] * 2)
    by_row = np.argsort(np.concatenate([rows[order]] * 2), kind="stable")
    counts = 2 * np.bincount(rows, minlength=30)
    messy = scipy.sparse.csr_array(
        (halves[by_row], twice[by_row], np.concatenate([[0], np.cumsum(counts)])), shape=X.shape
    )
    assert not messy.has_canonical_format
    result = fit(messy, y, loss, intercept=intercept)
    assert_right(result, Objective(X, y, loss, 0.1, None, intercept).optimum, rounding=1e-9)


@every_loss
@both_intercepts
def test_float32_is_the_same_problem_with_rounded_features(loss, intercept):
    X, y = ordinary(loss)
    single = X.astype(np.float32)
    narrow = fit(single, y, loss, intercept=intercept, tol=1e-9)
    wide = fit(single.astype(np.float64), y, loss, intercept=intercept, tol=1e-9)
    # All sums are in float64, so the bounds agree to far more digits than float32 has.
    assert narrow.objective == pytest.approx(wide.objective, rel=2e-9)
    formula = Objective(single, y, loss, 0.1, None, intercept)
    assert formula(narrow.w) == pytest.approx(narrow.objective, rel=1e-12)


# Weights


@every_loss
@both_intercepts
@pytest.mark.parametrize("unit", [1e-300, 1e-307, 1e300, 1e308])
def test_unit_of_the_weights_does_not_matter(loss, intercept, unit):
    X, y = ordinary(loss)
    weights = np.random.default_rng(2).uniform(0.5, 1.0, 30)
    plain = fit(X, y, loss, weights=weights, intercept=intercept)
    other = fit(X, y, loss, weights=unit * weights, intercept=intercept)
    assert other.status is cp.Status.OPTIMAL
    assert other.objective == pytest.approx(plain.objective, rel=2e-6)
    assert other.certificate.lower_bound <= plain.objective * (1.0 + 64 * EPS)


@every_loss
@both_intercepts
@pytest.mark.parametrize("tiny", [0.0, 1e-300, 1e-305, 1e-310, 5e-324])
def test_negligible_weights(loss, intercept, tiny):
    X, y = ordinary(loss)
    weights = np.ones(30)
    weights[12:] = tiny
    result = fit(X, y, loss, weights=weights, intercept=intercept)
    alone = Objective(X[:12], y[:12], loss, 0.1, None, intercept)
    assert_right(result, alone.optimum, rounding=1e-9)


@every_loss
@both_intercepts
def test_weights_of_1e300_and_1e_300_together(loss, intercept):
    X, y = ordinary(loss)
    weights = np.where(np.arange(30) < 12, 1e300, 1e-300)
    result = fit(X, y, loss, weights=weights, intercept=intercept)
    alone = Objective(X[:12], y[:12], loss, 0.1, None, intercept)
    assert_right(result, alone.optimum, rounding=1e-9)


# Targets


@of_regression
@both_intercepts
@pytest.mark.parametrize("scale", [1e-10, 1e10])
def test_scale_of_the_targets(loss, intercept, scale):
    X, y = ordinary(loss)
    result = fit(X, scale * y, loss, intercept=intercept)
    formula = Objective(X, scale * y, loss, 0.1, None, intercept)
    at_zero = formula(np.zeros(4))
    assert_honest(result, at_zero, formula(result.w))
    assert result.objective <= at_zero * (1.0 + 64 * EPS)
    if isinstance(loss, cp.Squared):
        # Homogeneous: the solution scales with the targets.
        plain = Objective(X, y, loss, 0.1, None, intercept)
        assert_right(result, scale**2 * plain.optimum, rounding=1e-9 * scale**2)
    elif isinstance(loss, cp.Absolute | cp.Quantile):
        plain = Objective(X, y, loss, 0.1 * scale, None, intercept)
        if scale > 1.0:
            assert_right(result, scale * plain.optimum, rounding=1e-9 * scale)


@of_regression
@pytest.mark.parametrize("shift", [1e4, 1e8, 1e10])
def test_targets_far_from_zero(loss, shift):
    # With an intercept only differences between targets matter.
    X, y = ordinary(loss)
    result = fit(X, y + shift, loss)
    optimum = Objective(X, (y + shift) - shift, loss, 0.1).optimum
    # Residuals carry the rounding of targets of size `shift`.
    assert_right(result, optimum, rounding=8 * EPS * shift + 1e-9)
    assert result.point.intercept == pytest.approx(shift, rel=1.0, abs=10.0)


@of_regression
def test_constant_targets_need_no_features(loss):
    X, _ = ordinary(loss)
    result = fit(X, np.full(30, 3.0), loss)
    assert result.certificate.valid
    assert 0.0 <= result.objective <= 1e-30
    assert result.point.intercept == pytest.approx(3.0, abs=0.2)


@pytest.mark.parametrize("value", [3.0, 0.1, -1.1e10, 7e-5])
@pytest.mark.parametrize("loss", [cp.Squared(), cp.Absolute(), cp.Quantile(0.9)], ids=repr)
def test_constant_targets_leave_no_rounding(loss, value):
    X, _ = ordinary(loss)
    weights = np.random.default_rng(0).uniform(0.1, 1.0, 30)  # their mean is rounded
    result = fit(X, np.full(30, value), loss, weights=weights)
    assert result.status is cp.Status.OPTIMAL
    assert result.objective == 0.0
    assert result.point.intercept == value


@pytest.mark.parametrize("loss", [cp.Squared(), cp.Absolute(), cp.Quantile(0.9)], ids=repr)
def test_targets_that_differ_by_their_last_bits(loss):
    X, _ = ordinary(loss)
    steps = np.random.default_rng(0).integers(0, 4, 30).astype(np.float64)
    ulp = np.spacing(1e10)
    # Homogeneous: the optimum scales with the targets, or with their squares.
    lam, unit = (0.1, ulp**2) if isinstance(loss, cp.Squared) else (0.1 / ulp, ulp)
    result = fit(X, 1e10 + ulp * steps, loss, lam)
    optimum = unit * Objective(X, steps, loss, 0.1).optimum
    assert result.status is cp.Status.OPTIMAL
    assert result.certificate.lower_bound <= optimum * (1.0 + 1e-6)
    assert optimum * (1.0 - 1e-6) <= result.objective <= optimum * (1.0 + 3e-6)


@pytest.mark.parametrize("intercept", [False, True])
def test_targets_whose_square_overflows(intercept):
    X, y = ordinary(cp.Squared())
    with pytest.raises(cp.NonFiniteRisk, match="the risk is inf in iteration 0"):
        fit(X, 1e160 * y, cp.Squared(), intercept=intercept)


def test_poisson_with_large_counts():
    X, y = ordinary(cp.Poisson())
    result = fit(X, 1e10 * y, cp.Poisson())
    formula = Objective(X, 1e10 * y, cp.Poisson(), 0.1)
    assert_honest(result, formula(np.zeros(4)), formula(result.w))


# Strength of the regularizer


@every_loss
@both_intercepts
def test_huge_lam_leaves_nothing(loss, intercept):
    X, y = ordinary(loss)
    result = fit(X, y, loss, 1e12, intercept=intercept)
    assert_right(result, Objective(X, y, loss, 1e12, None, intercept)(np.zeros(4)), rounding=1e-11)
    assert np.abs(result.w).max() <= 1e-10


@every_loss
@both_intercepts
def test_tiny_lam(loss, intercept):
    X, y = ordinary(loss)
    formula = Objective(X, y, loss, 1e-12, None, intercept)
    result = fit(X, y, loss, 1e-12, intercept=intercept)
    assert_honest(result, formula(result.w), formula(np.zeros(4)))
    # Without an intercept the Poisson loss grows too fast for its planes to be accurate.
    if not isinstance(loss, cp.Poisson):
        assert result.certificate.relative_gap <= 1e-4
    # Unregularized to all digits that can be compared.
    stronger = Objective(X, y, loss, 1e-6, None, intercept)
    assert result.objective <= stronger.optimum * (1.0 + 1e-4)
