"""The width of losses that give up on outliers: found in units of the errors, or as it is given."""

import numpy as np
import pytest
from sklearn.base import clone

import cutplane as cp
from cutplane.estimators.regressor import UNITS

every_loss = pytest.mark.parametrize("loss", UNITS)
COEF = np.array([1.0, -2.0, 0.5])


def spoiled(noise=0.3, n=200, seed=0, outliers=0.15):
    """Return examples of which some are far off, all to one side."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = X @ COEF + 3.0 + noise * rng.normal(size=n)
    return X, y + (rng.random(n) < outliers) * rng.uniform(5.0, 15.0, size=n)


def lam_for(loss, lam, factor):
    """Return the lam for which targets that are ``factor`` times as large have such a model."""
    return lam if UNITS[loss].power == 2 else lam / factor


def vector_of(model):
    return np.append(model.coef_, model.intercept_)


@every_loss
@pytest.mark.parametrize("noise", [0.3, 0.0])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_model_of_larger_targets_is_larger(loss, noise, fit_intercept):
    X, y = spoiled(noise)
    y = y if fit_intercept else y - 3.0
    options = {"fit_intercept": fit_intercept}
    plain = cp.LinearRegressor(loss, lam=1e-4, **options).fit(X, y)
    found = UNITS[loss].found
    # With a power of two all roundings are the same.
    for factor, rtol in ((2.0**20, 1e-6), (2.0**-20, 1e-6), (1000.0, 0.02), (1e-5, 0.02)):
        lam = lam_for(loss, 1e-4, factor)
        scaled = cp.LinearRegressor(loss, lam=lam, **options).fit(X, factor * y)
        assert getattr(scaled, found) == pytest.approx(factor * getattr(plain, found), rel=rtol)
        np.testing.assert_allclose(
            vector_of(scaled) / factor, vector_of(plain), rtol=rtol, atol=0.2 * rtol
        )


@every_loss
def test_the_strength_may_be_given_as_C(loss):
    X, y = spoiled()
    one, other = (
        cp.LinearRegressor(loss, C=lam_for(loss, 10.0, 1.0 / factor)).fit(X, factor * y)
        for factor in (1.0, 2.0**10)
    )
    np.testing.assert_allclose(vector_of(other) / 2.0**10, vector_of(one), rtol=1e-6, atol=1e-6)


@every_loss
@pytest.mark.parametrize("noise", [0.0, 1e-6, 0.1, 1.0])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_outliers_are_given_up(loss, noise, seed):
    X, y = spoiled(noise, seed=seed)
    model = cp.LinearRegressor(loss, lam=1e-5).fit(X, y)
    # With a tenth of the data for each coefficient, errors of least squares are about noise / 5.
    np.testing.assert_allclose(model.coef_, COEF, atol=0.3 * noise + 0.01)
    squares = cp.LinearRegressor(lam=1e-5).fit(X, y)
    assert abs(model.intercept_ - 3.0) < 0.3 * abs(squares.intercept_ - 3.0)


@pytest.mark.parametrize("noise", [0.1, 10.0])
@pytest.mark.parametrize("outliers", [0.0, 0.1])
def test_the_scale_is_that_of_most_errors(noise, outliers):
    X, y = spoiled(1.0, n=1000, outliers=outliers)
    model = cp.LinearRegressor("tukey", lam=1e-6).fit(X, noise * y)
    # A tenth of outliers moves the median of 1,000 sizes to their 55.6 % point: 1.13 times.
    assert 0.9 <= model.width_ / 4.685 / noise <= 1.25
    again = cp.LinearRegressor("clipped_absolute", lam=1e-6 / noise).fit(X, noise * y)
    assert again.clip_ / 3.0 == pytest.approx(model.width_ / 4.685, rel=0.05)


@every_loss
def test_a_number_means_what_it_says(loss):
    X, y = spoiled()
    unit = UNITS[loss]
    found = cp.LinearRegressor(loss, lam=1e-3).fit(X, y)
    width = getattr(found, unit.found)
    given = cp.LinearRegressor(loss, lam=1e-3, **{unit.parameter: width}).fit(X, y)
    assert not hasattr(given, unit.found)
    np.testing.assert_array_equal(given.coef_, found.coef_)
    assert repr(given.loss_function()) == repr(found.loss_function())
    assert given.certificate_.objective == found.certificate_.objective
    assert found.evaluations_ > given.evaluations_
    assert getattr(clone(found), unit.parameter) is None
    # What was found is forgotten by the next fit.
    assert not hasattr(found.set_params(loss="absolute").fit(X, y), unit.found)


@every_loss
def test_a_weight_counts_as_that_many_examples(loss):
    X, y = spoiled()
    counts = np.random.default_rng(1).integers(0, 4, len(y))
    weighted = cp.LinearRegressor(loss, lam=1e-3).fit(X, y, sample_weight=counts)
    copies = np.repeat(np.arange(len(y)), counts)
    repeated = cp.LinearRegressor(loss, lam=1e-3).fit(X[copies], y[copies])
    found = UNITS[loss].found
    assert getattr(weighted, found) == pytest.approx(getattr(repeated, found), rel=0.05)


@every_loss
@pytest.mark.filterwarnings("ignore::cutplane.ConstantModelWarning")
def test_targets_without_errors_have_a_width(loss):
    X = np.random.default_rng(0).normal(size=(30, 2))
    rare = np.zeros(30)
    rare[0] = 1.0
    for y in (np.zeros(30), np.full(30, 7.0), rare):
        model = cp.LinearRegressor(loss, lam=0.1).fit(X, y)
        assert np.isfinite(model.predict(X)).all()
        assert np.median(np.abs(model.predict(X) - y)) < 1e-3


@every_loss
def test_folds_and_paths_have_a_width_of_their_own(loss, tmp_path):
    X, y = spoiled()
    found = UNITS[loss].found
    options = {"lams": 3, "cv": 3, "checkpoint": tmp_path / "run"}
    model = cp.LinearRegressorCV(loss, **options).fit(X, y)
    again = cp.LinearRegressorCV(loss, **options).fit(X, y)
    np.testing.assert_array_equal(again.coef_, model.coef_)
    factor = 2.0**10
    scaled = cp.LinearRegressorCV(loss, lams=3, cv=3).fit(X, factor * y)
    # The lams of a grid are powers, whose roundings differ.
    np.testing.assert_allclose(scaled.scores_, model.scores_, rtol=0.02)
    np.testing.assert_allclose(vector_of(scaled) / factor, vector_of(model), rtol=0.02, atol=0.01)
    path = cp.path(X, factor * y, loss, scaled.lams_)
    assert getattr(path.model(0), found) == getattr(scaled, found)


@every_loss
def test_files_keep_what_was_found(loss, tmp_path):
    X, y = spoiled()
    model = cp.LinearRegressor(loss, lam=1e-3).fit(X, 100.0 * y)
    cp.save_model(model, tmp_path / "m")
    loaded = cp.load_model(tmp_path / "m")
    found, parameter = UNITS[loss].found, UNITS[loss].parameter
    assert getattr(loaded, parameter) is None
    assert getattr(loaded, found) == getattr(model, found)
    own, other = (cp.evaluate(of, X, 100.0 * y)["mean_loss"] for of in (model, loaded))
    assert own == other
    assert own == pytest.approx(
        model.certificate_.objective - 5e-4 * model.coef_ @ model.coef_, rel=1e-6
    )


def test_a_classifier_needs_a_number():
    X, y = spoiled()
    with pytest.raises(ValueError, match="clip must be a number, got None"):
        cp.LinearClassifier("ramp", clip=None).fit(X, y > 3.0)
