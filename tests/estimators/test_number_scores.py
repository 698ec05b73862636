"""Scores of numbers: by what the loss makes a model predict, and so is lam chosen."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import d2_pinball_score, d2_tweedie_score, make_scorer, r2_score
from sklearn.model_selection import KFold, LeaveOneOut

import cutplane as cp
from cutplane.lam_proof.certified import best_between
from cutplane.metrics.measures import d2_of_counts, d2_of_quantiles

LAMS = [1.0, 0.1, 0.01, 1e-3]


def spread(n=120, seed=0):
    """Return features, and targets whose spread depends on them: no quantile is a mean."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, X[:, 0] + np.exp(X[:, 1]) * rng.exponential(size=n)


def counts(n=120, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, rng.poisson(np.exp(0.7 * X[:, 0] - 1.0)).astype(float)


def own_measure(loss, quantile=None):
    if loss == "quantile":
        # With weights, its constant is a quantile in all versions of scikit-learn.
        return lambda y, p, w=None: d2_pinball_score(
            y, p, sample_weight=np.ones(len(y)) if w is None else w, alpha=quantile
        )
    if loss == "poisson":
        return lambda y, p, w=None: d2_tweedie_score(y, p, sample_weight=w, power=1)
    return lambda y, p, w=None: r2_score(y, p, sample_weight=w)


@pytest.mark.parametrize("of", [cp.LinearRegressor, cp.KernelRegressor])
@pytest.mark.parametrize(
    ("loss", "quantile"),
    [("quantile", 0.05), ("quantile", 0.9), ("poisson", None), ("absolute", None), ("huber", None)],
)
def test_a_score_is_that_of_scikit_learn_for_what_is_predicted(of, loss, quantile):
    X, y = counts() if loss == "poisson" else spread()
    weights = np.random.default_rng(1).integers(1, 4, len(y)).astype(float)
    options = {} if quantile is None else {"quantile": quantile}
    model = of(loss, lam=1e-2, **options).fit(X, y)
    measure, predicted = own_measure(loss, quantile), model.predict(X)
    assert model.score(X, y) == pytest.approx(measure(y, predicted))
    assert model.score(X, y, weights) == pytest.approx(measure(y, predicted, weights))
    copies = np.repeat(np.arange(len(y)), weights.astype(int))
    assert model.score(X, y, weights) == pytest.approx(model.score(X[copies], y[copies]))


def test_a_loss_that_is_given_itself_is_known_too():
    X, y = spread()
    model = cp.LinearRegressor(cp.Quantile(0.8), lam=1e-2).fit(X, y)
    assert model.score(X, y) == pytest.approx(own_measure("quantile", 0.8)(y, model.predict(X)))


@pytest.mark.parametrize("quantile", [0.1, 0.95])
def test_lam_is_chosen_by_the_pinball_loss(quantile):
    scorer = make_scorer(own_measure("quantile", quantile))
    differ = 0
    for seed in range(4):
        X, y = spread(seed=seed)
        options = {"quantile": quantile, "tol": 1e-4}
        for of, search in (
            (cp.LinearRegressorCV, {"lams": LAMS, "cv": 3}),
            (cp.KernelRegressorCV, {"lams": LAMS, "cv": 3, "gammas": [0.1, 1.0]}),
        ):
            own = of("quantile", **options, **search).fit(X, y)
            same = of("quantile", **options, **search, scoring=scorer).fit(X, y)
            other = of("quantile", **options, **search, scoring="r2").fit(X, y)
            np.testing.assert_allclose(own.scores_, same.scores_)
            assert own.lam_ == same.lam_
            differ += own.lam_ != other.lam_
        searched = cp.CrossValidation(cv=3, lams=LAMS)
        own = cp.LinearRegressor("quantile", **options, lam=searched).fit(X, y)
        by_scorer = cp.CrossValidation(cv=3, lams=LAMS, scoring=scorer)
        same = cp.LinearRegressor("quantile", **options, lam=by_scorer).fit(X, y)
        np.testing.assert_allclose(own.scores_, same.scores_)
        assert own.lam_ == same.lam_
    assert differ  # R2 would have chosen others


def test_lam_of_counts_is_chosen_by_the_deviance():
    X, y = counts()
    own = cp.LinearRegressorCV("poisson", lams=LAMS, cv=3).fit(X, y)
    scorer = make_scorer(d2_tweedie_score, power=1)
    same = cp.LinearRegressorCV("poisson", lams=LAMS, cv=3, scoring=scorer).fit(X, y)
    np.testing.assert_allclose(own.scores_, same.scores_)
    assert own.lam_ == same.lam_


def test_the_score_of_one_example_is_not_defined():
    X, y = spread(20)
    for model in (cp.LinearRegressor("quantile", lam=0.1), cp.LinearQuantiles(lam=0.1, tol=0.1)):
        model.fit(X, y)
        with pytest.warns(UserWarning, match="less than two examples"):
            assert np.isnan(model.score(X[:1], y[:1]))
    with (
        pytest.warns(UserWarning, match="less than two examples"),
        pytest.raises(ValueError, match="a score is not finite"),
    ):
        cp.LinearRegressorCV("quantile", lams=LAMS, cv=LeaveOneOut()).fit(X, y)


def test_scores_of_constants_are_those_of_scikit_learn():
    ones, quantiles = np.ones(3), np.array([0.3])
    for predicted, expected in ((2.0, 1.0), (1.0, 0.0)):
        p = np.full((3, 1), predicted)
        assert d2_of_quantiles(2.0 * ones, p, quantiles, ones) == expected
        assert d2_of_counts(2.0 * ones, p[:, 0], ones) == expected
    assert d2_of_counts(0.0 * ones, ones, ones) == 0.0
    assert np.isfinite(d2_of_counts(np.array([0.0, 1.0]), np.zeros(2), np.ones(2)))
    with pytest.raises(ValueError, match="zero or positive"):
        d2_of_counts(-ones, ones, ones)


@given(st.integers(0, 10_000), st.floats(0.02, 0.98))
def test_no_prediction_between_bounds_is_better_than_the_bound(seed, quantile):
    rng = np.random.default_rng(seed)
    y, weights = rng.poisson(2.0, size=8).astype(float) + (seed % 2) / 8, rng.random(8) + 0.1
    lower = rng.gamma(2.0, size=8)
    upper = lower + rng.gamma(1.0, size=8)
    p = rng.uniform(lower, upper)
    levels = np.array([quantile])

    def pinball(y, p, weights):
        return d2_of_quantiles(y, p[:, None], levels, weights)

    for measure in (pinball, d2_of_counts):
        assert measure(y, p, weights) <= best_between(measure, y, lower, upper, weights) + 1e-12


@pytest.mark.parametrize(("loss", "quantile"), [("quantile", 0.77), ("poisson", None)])
def test_what_is_proven_is_about_the_own_score(loss, quantile):
    X, y = counts(90) if loss == "poisson" else spread(90)
    options = {} if quantile is None else {"quantile": quantile}
    folds = list(KFold(3).split(X))
    model = cp.LinearRegressorCV(loss, **options, lams=LAMS, cv=folds, certified=0.02).fit(X, y)
    proof, measure = model.lam_proof_, own_measure(loss, quantile)
    assert proof.success
    assert "loss" in proof.measure if quantile else "deviance" in proof.measure
    assert proof.error == pytest.approx(1.0 - model.scores_.mean(axis=0).max())
    for lam in np.geomspace(1.0, 1e-3, 9):
        scores = []
        for train, test in folds:
            exact = cp.LinearRegressor(loss, **options, lam=lam, tol=1e-9).fit(X[train], y[train])
            scores.append(measure(y[test], exact.predict(X[test])))
        error = 1.0 - np.mean(scores)
        assert error >= proof.error_at_least(lam) - 1e-4
        assert error >= proof.error - 0.02 - 1e-4
