"""Many quantiles: order everywhere, what sorting does, separate fits, awkward targets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import mean_pinball_loss
from sklearn.utils.estimator_checks import parametrize_with_checks

from cutplane import LinearQuantiles, LinearRegressor, Status

TIGHT = {"lam": 0.1, "tol": 1e-9}
COLUMNS = dict.fromkeys(
    ["check_estimator_sparse_array", "check_estimator_sparse_matrix"],
    "it wants predictions with the shape of y; here they have one column a quantile",
)


# Some checks have labels at random.
@pytest.mark.filterwarnings("ignore::cutplane.ConstantModelWarning")
@parametrize_with_checks(
    [LinearQuantiles(**TIGHT), LinearQuantiles(parallel=True, **TIGHT)],
    expected_failed_checks=lambda model: COLUMNS,
)
def test_estimator_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def fan():
    """Targets that spread with the first feature: lines that meet where it is near zero."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 3.0, size=(120, 6))
    return X, X[:, 0] * rng.normal(size=120)


LEVELS = np.arange(1, 20) / 20


def pinball(y, predicted):
    return sum(
        mean_pinball_loss(y, column, alpha=level)
        for level, column in zip(LEVELS, predicted.T, strict=True)
    )


def test_the_penalty_keeps_quantiles_in_order(fan):
    X, y = fan
    free = LinearQuantiles(LEVELS, crossing_penalty=0.0, lam=1e-3).fit(X, y)
    kept = LinearQuantiles(LEVELS, crossing_penalty=10.0, lam=1e-3).fit(X, y)
    assert kept.certificate_.status is Status.OPTIMAL
    raw = X @ kept.coef_.T + kept.intercept_
    assert kept.largest_crossing_ == pytest.approx(max(-np.diff(raw).min(), 0.0), abs=1e-12)
    assert free.largest_crossing_ > 0.01
    assert kept.largest_crossing_ < 0.01 * free.largest_crossing_


def test_predictions_never_cross(fan):
    X, y = fan
    model = LinearQuantiles(LEVELS, crossing_penalty=0.0, lam=1e-3).fit(X, y)
    far = np.random.default_rng(1).normal(scale=20.0, size=(500, 6))
    raw, predicted = far @ model.coef_.T + model.intercept_, model.predict(far)
    assert (np.diff(raw) < 0.0).any()
    assert (np.diff(predicted) >= 0.0).all()


@given(seed=st.integers(0, 10**6))
def test_sorting_never_costs(seed):
    rng = np.random.default_rng(seed)
    y, raw = rng.normal(size=30), rng.normal(size=(30, len(LEVELS)))
    assert pinball(y, np.sort(raw, axis=1)) <= pinball(y, raw) + 1e-12


def test_parallel_quantiles_cannot_cross(fan):
    X, y = fan
    model = LinearQuantiles(LEVELS, parallel=True, lam=1e-3).fit(X, y)
    assert (model.coef_ == model.coef_[0]).all()
    assert (np.diff(model.intercept_) >= 0.0).all()
    assert model.largest_crossing_ == 0.0
    for level, column in zip(LEVELS, model.predict(X).T, strict=True):
        assert abs((y <= column).mean() - level) <= 1 / len(y)


def test_without_a_penalty_they_are_separate_fits(diabetes):
    X, y = diabetes
    together = LinearQuantiles([0.2, 0.8], crossing_penalty=0.0, lam=0.01, tol=1e-8).fit(X, y)
    apart = [
        LinearRegressor("quantile", quantile=level, lam=0.01, tol=1e-8).fit(X, y)
        for level in (0.2, 0.8)
    ]
    # The intercepts are regularized, in the middle of the data: so they differ a little (1.3e-4).
    objective = sum(model.certificate_.objective for model in apart)
    assert together.certificate_.objective >= objective * (1 - 1e-8)
    assert together.certificate_.objective == pytest.approx(objective, rel=1e-3)


def test_one_quantile_is_enough(diabetes):
    X, y = diabetes
    model = LinearQuantiles([0.5], lam=1e-3).fit(X, y)
    assert model.predict(X).shape == (len(y), 1)
    assert model.largest_crossing_ == 0.0


@pytest.mark.parametrize("parallel", [False, True])
def test_far_targets_make_no_difference(diabetes, parallel):
    X, y = diabetes
    near, far = (
        LinearQuantiles(parallel=parallel, lam=0.1, tol=1e-6).fit(X, y + shift)
        for shift in (0.0, 2.0**30)
    )
    assert near.certificate_.objective == pytest.approx(far.certificate_.objective, rel=2e-6)
    np.testing.assert_allclose(far.predict(X) - 2.0**30, near.predict(X), rtol=0.01, atol=1.0)


def test_the_score_is_a_share_of_the_loss(fan, diabetes):
    X, y = diabetes
    model = LinearQuantiles([0.1, 0.5, 0.9], lam=1e-3).fit(X, y)
    constants = np.quantile(y, [0.1, 0.5, 0.9], method="inverted_cdf") + np.zeros((len(y), 1))
    losses = [
        sum(
            mean_pinball_loss(y, column, alpha=level)
            for level, column in zip([0.1, 0.5, 0.9], predicted.T, strict=True)
        )
        for predicted in (model.predict(X), constants)
    ]
    assert model.score(X, y) == pytest.approx(1.0 - losses[0] / losses[1])
    assert model.score(X, y, np.ones(len(y))) == pytest.approx(model.score(X, y))
    assert 0.2 < model.score(X, y) < 1.0


@pytest.mark.parametrize("parallel", [False, True])
def test_a_warm_start_goes_on_from_there(diabetes, parallel):
    X, y = diabetes
    model = LinearQuantiles(parallel=parallel, warm_start=True, lam=1e-2).fit(X, y)
    first = model.n_iter_
    assert model.fit(X, y).n_iter_ < first


def test_quantiles_are_checked():
    with pytest.raises(ValueError, match="quantiles must ascend"):
        LinearQuantiles([0.9, 0.1]).fit([[1.0], [2.0]], [1.0, 2.0])
