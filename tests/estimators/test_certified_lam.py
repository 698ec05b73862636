"""A choice of lam with a proof: what is proven of all lams is true of those that are tried."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold, StratifiedKFold

import cutplane as cp
from cutplane import LinearClassifierCV, LinearRegressorCV
from cutplane.lam_proof.certified import (
    LamProof,
    accuracy_at_most,
    best_between,
    minus_absolute_error,
    minus_squared_error,
    r2,
)

LAMS = [1.0, 0.1, 0.01, 1e-3]


def data(n=90, d=5, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 1.0
    y = X @ rng.normal(size=d) + rng.normal(size=n)
    if classes:
        y = np.digitize(y, np.quantile(y, np.arange(1, classes) / classes))
    return X, y


def errors_of_exact_fits(loss, X, y, folds, lams, *, intercept):
    """Return the error of nearly exact fits, in the mean over folds, for each lam.

    Scores that are nearer to zero than the fit may be off count as wrong, which few are: the best
    model makes no more errors than that.
    """
    signs = np.where(y == y.max(), 1.0, -1.0)
    errors = np.zeros(len(lams))
    for train, test in folds:
        risk = cp.ScoredRisk(X[train], signs[train], loss, intercept=intercept)
        known = None
        for k, lam in enumerate(lams):
            result = cp.minimize(risk, cp.L2(lam), tol=1e-11, planes_from=known, max_iter=5000)
            known = result.state
            radius = np.sqrt(2.0 * result.certificate.gap / lam) + 1e-9
            reach = np.linalg.norm(X[test], axis=1) + np.linalg.norm(X[train], axis=1).max()
            margins = signs[test] * (X[test] @ result.w + result.point.intercept)
            errors[k] += np.mean(margins <= radius * reach) / len(folds)
    return errors


def check_by_brute_force(loss, n_lams, *, intercept, d=5):
    X, y = data(d=d)
    folds = list(StratifiedKFold(3).split(X, y))
    model = LinearClassifierCV(
        loss, lams=LAMS, cv=folds, certified=0.04, fit_intercept=intercept
    ).fit(X, y)
    proof = model.lam_proof_
    assert proof.success
    assert proof.proven <= 0.04
    np.testing.assert_allclose(proof.error, 1.0 - model.scores_.mean(axis=0).max())
    lams = np.geomspace(LAMS[0], LAMS[-1], n_lams)
    found = errors_of_exact_fits(loss, X, y, folds, lams, intercept=intercept)
    bounds = np.array([proof.error_at_least(lam) for lam in lams])
    assert (bounds <= found + 1e-12).all()
    assert (found >= proof.error - 0.04 - 1e-12).all()


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("loss", [cp.Hinge(), cp.Logistic()], ids=repr)
def test_no_lam_beats_the_proof(loss, intercept):
    check_by_brute_force(loss, 40, intercept=intercept)


@pytest.mark.parametrize("intercept", [True, False])
def test_no_lam_beats_the_proof_with_one_feature(intercept):
    check_by_brute_force(cp.Logistic(), 20, intercept=intercept, d=1)


def test_what_is_wanted_is_proven_up_to_rounding():
    """Shares of examples: 16/20 less 15/20 is 0.05 and some last digits."""
    highs = lows = lams = np.ones(1)
    error, at_least = 1.0 - 0.75, np.array([1.0 - 0.8])
    assert error - at_least[0] > 0.05
    proof = LamProof(1.0, error, 0.05, highs, lows, at_least, lams, np.array([error]), "error")
    assert proof.success
    assert proof.proven == 0.05
    assert not replace(proof, wanted=0.05 - 1e-9).success


@pytest.mark.parametrize("seed", range(6))
def test_a_single_feature_is_enough(seed):
    """The gradient of an exact fit is zero but for rounding, perhaps below zero when squared."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 1)) * 10.0 ** rng.uniform(-3, 3)
    y = np.where(X[:, 0] / np.abs(X).max() + 0.3 * rng.normal(size=60) > 0.0, 1, -1)
    for fit_intercept in (True, False):
        model = LinearClassifierCV(
            "logistic", lams=[1.0, 0.05], cv=2, certified=0.05, fit_intercept=fit_intercept
        ).fit(X, y)
        assert model.lam_proof_.success


@pytest.mark.slow
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("loss", [cp.Hinge(), cp.SquaredHinge(), cp.Logistic()], ids=repr)
def test_no_lam_of_two_thousand_beats_the_proof(loss, intercept):
    check_by_brute_force(loss, 2000, intercept=intercept)


@pytest.mark.parametrize("scoring", [None, "neg_mean_squared_error", "neg_mean_absolute_error"])
def test_numbers_are_compared_with_two_thousand_ridges(scoring):
    X, y = data(classes=0)
    folds = list(KFold(3).split(X))
    model = LinearRegressorCV(lams=LAMS, cv=folds, certified=0.05, scoring=scoring).fit(X, y)
    proof = model.lam_proof_
    assert proof.success
    lams = np.geomspace(LAMS[0], LAMS[-1], 2000)
    errors = np.zeros(len(lams))
    for train, test in folds:
        residuals = y[test, None] - predictions_of_ridge(X[train], y[train], X[test], lams)
        if scoring == "neg_mean_absolute_error":
            errors += np.abs(residuals).mean(axis=0) / 3
        else:
            errors += (residuals**2).mean(axis=0) / (1.0 if scoring else np.var(y[test])) / 3
    assert (errors >= proof.error - 0.05).all()
    for lam, error in zip(lams, errors, strict=True):
        assert proof.error_at_least(lam) <= error + 1e-9


def predictions_of_ridge(X, y, others, lams):
    """Return a column for each lam, from one eigendecomposition."""
    center, middle = X.mean(axis=0), y.mean()
    values, vectors = np.linalg.eigh((X - center).T @ (X - center) / len(y))
    along = vectors.T @ ((X - center).T @ (y - middle)) / len(y)
    return (others - center) @ vectors @ (along[:, None] / (values[:, None] + lams)) + middle


def test_the_ridge_of_the_tests_is_ours():
    X, y = data(classes=0)
    ours = cp.LinearRegressor(lam=0.1, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(
        ours.predict(X), predictions_of_ridge(X, y, X, [0.1])[:, 0], rtol=1e-5, atol=1e-6
    )


@pytest.mark.filterwarnings("ignore:.*coefficients of 1 of 3 classes are zero")
@pytest.mark.parametrize("loss", ["squared_hinge", "logistic", "hinge"])
def test_three_classes_each_against_the_rest(loss):
    X, y = data(classes=3)
    model = LinearClassifierCV(loss, lams=LAMS, cv=3, certified=0.1).fit(X, y)
    assert model.lam_proof_.success
    plain = LinearClassifierCV(loss, lams=np.geomspace(*LAMS[:: len(LAMS) - 1], 60), cv=3)
    plain.set_params(tol=1e-9).fit(X, y)
    errors = 1.0 - plain.scores_.mean(axis=0)
    bounds = [model.lam_proof_.error_at_least(lam) for lam in plain.lams_]
    assert (bounds <= errors + 1e-12).all()


def test_labels_weights_and_a_wanted_class_change_nothing_in_the_proof():
    X, y = data()
    words = np.array(["no", "yes"])[y]
    for options in ({"pos_label": "no"}, {"class_weight": "balanced"}, {}):
        model = LinearClassifierCV("squared_hinge", lams=LAMS, cv=3, certified=0.05, **options)
        model.fit(X, words, sample_weight=1.0 + (np.arange(len(y)) % 2))
        assert model.lam_proof_.success
        # At the lams that were fitted the error is known, and nearly exact.
        for lam, error in zip(model.lams_, 1.0 - model.scores_.mean(axis=0), strict=True):
            assert model.lam_proof_.error_at_least(lam) <= error + 1e-12


@pytest.mark.parametrize("loss", ["absolute", "quantile", "epsilon_insensitive"])
def test_numbers_with_kinks(loss):
    X, y = data(classes=0)
    # With equal weights the best intercept would not be unique for some lams.
    weights = np.random.default_rng(0).uniform(0.5, 1.5, size=len(y))
    scoring = "neg_mean_absolute_error"
    model = LinearRegressorCV(loss, lams=LAMS, cv=3, certified=0.05, scoring=scoring)
    model.fit(X, y, sample_weight=weights)
    assert model.lam_proof_.success
    plain = LinearRegressorCV(loss, lams=np.geomspace(LAMS[0], LAMS[-1], 40), cv=3, tol=1e-9)
    plain.set_params(scoring=scoring).fit(X, y, sample_weight=weights)
    errors = -plain.scores_.mean(axis=0)
    bounds = [model.lam_proof_.error_at_least(lam) for lam in plain.lams_]
    assert (bounds <= errors + 1e-4).all()


def test_equal_rows_and_weights_of_hinges():
    X, y = data()
    X = np.round(X)
    weights = 1.0 + (np.arange(len(y)) % 3)
    model = LinearClassifierCV("hinge", lams=LAMS, cv=3, certified=0.05)
    model.fit(X, y, sample_weight=weights)
    assert model.lam_proof_.success
    plain = LinearClassifierCV("hinge", lams=np.geomspace(LAMS[0], LAMS[-1], 40), cv=3, tol=1e-10)
    plain.fit(X, y, sample_weight=weights)
    errors = 1.0 - plain.scores_.mean(axis=0)
    bounds = [model.lam_proof_.error_at_least(lam) for lam in plain.lams_]
    # Scores of rows of whole numbers may be zero exactly, which no bound tells from a small one.
    assert (bounds <= errors + 0.01).all()


def test_the_intervals_cover_the_range():
    X, y = data()
    proof = LinearClassifierCV("logistic", lams=LAMS, cv=3, certified=0.03).fit(X, y).lam_proof_
    assert proof.highs[0] == LAMS[0]
    assert proof.lows[-1] == LAMS[-1]
    np.testing.assert_array_equal(proof.highs[1:], proof.lows[:-1])
    assert (proof.at_least >= proof.error - 0.03 - 1e-12).all()
    assert f"lam = {proof.lam:.3g}" in str(proof)
    assert "intervals" in repr(proof)
    with pytest.raises(ValueError, match="the range of the proof"):
        proof.error_at_least(10.0)
    pytest.importorskip("matplotlib")
    (axes,) = proof.plot().axes
    assert axes.get_ylabel() == "share of wrong predictions"


def test_what_was_not_proven_is_said():
    X, y = data()
    model = LinearClassifierCV("squared_hinge", lams=LAMS, cv=3, certified=1e-6, time_limit=1e-3)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        model.fit(X, y)
    # The fits themselves were cut short too.
    assert any("was to be certified to 1e-06" in str(each.message) for each in seen)
    assert {each.category for each in seen} == {ConvergenceWarning}
    proof = model.lam_proof_
    assert not proof.success
    assert proof.proven > 1e-6
    assert proof.lows[-1] == LAMS[-1]
    # What is said is true nevertheless.
    exact = LinearClassifierCV("squared_hinge", lams=LAMS, cv=3, tol=1e-9).fit(X, y)
    for lam, error in zip(exact.lams_, 1.0 - exact.scores_.mean(axis=0), strict=True):
        assert proof.error_at_least(lam) <= error + 1e-12


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "f1"}, "sum over examples"),
        ({"loss": "ramp"}, "convex loss"),
        ({"rule": "one_standard_error"}, "best lam"),
        ({"scoring": "roc_auc"}, "scoring by accuracy"),
        ({"certified": -1.0}, "certified must be"),
    ],
)
def test_what_cannot_be_bounded_is_refused(options, message):
    X, y = data(n=30)
    model = LinearClassifierCV(lams=LAMS, cv=3).set_params(**{"certified": 0.05} | options)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)


def test_all_classes_at_once_are_refused():
    X, y = data(classes=3)
    model = LinearClassifierCV("logistic", multi_class="softmax", certified=0.05)
    with pytest.raises(ValueError, match="one score each"):
        model.fit(X, y)


def test_a_fit_without_a_proof_forgets_the_last_one():
    X, y = data()
    model = LinearClassifierCV(lams=LAMS, cv=3, certified=0.1).fit(X, y)
    assert hasattr(model, "lam_proof_")
    assert not hasattr(model.set_params(certified=None).fit(X, y), "lam_proof_")


def test_measures_of_scores_between_bounds():
    rng = np.random.default_rng(0)
    y, weights = rng.normal(size=8), rng.uniform(0.5, 2.0, size=8)
    center, width = rng.normal(size=8), rng.uniform(0.0, 1.0, size=8)
    lower, upper = center - width, center + width
    for _ in range(200):
        z = rng.uniform(lower, upper)
        square = np.average((y - z) ** 2, weights=weights)
        spread = np.average((y - np.average(y, weights=weights)) ** 2, weights=weights)
        assert -np.average(abs(y - z), weights=weights) <= best_between(
            minus_absolute_error, y, lower, upper, weights
        )
        assert -square <= best_between(minus_squared_error, y, lower, upper, weights)
        assert 1.0 - square / spread <= best_between(r2, y, lower, upper, weights)
    nearest = np.clip(y, lower, upper)
    np.testing.assert_allclose(
        best_between(minus_squared_error, y, lower, upper, weights),
        -np.average((y - nearest) ** 2, weights=weights),
    )
    assert best_between(r2, np.ones(8), lower, upper, weights) == 1.0
    codes = np.array([0, 1, 1, 0, 1, -1, 0, 1])
    both = accuracy_at_most(codes, lower[None], upper[None], np.ones(8))
    surely = [
        code < 0 or (high < 0 if code else low > 0)
        for code, low, high in zip(codes, lower, upper, strict=True)
    ]
    np.testing.assert_allclose(both, 1.0 - np.mean(surely))
