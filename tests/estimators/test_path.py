"""Regularization paths: valid certificates, less work than separate fits, tables and pictures."""

import sys
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

import cutplane as cp
from cutplane.estimators.lams import lam_grid
from cutplane.losses import CLASSIFICATION, REGRESSION
from cutplane.report.figures import PlottingUnavailable

LOSSES = CLASSIFICATION | REGRESSION


def labels_for(loss, y):
    """Return numbers, or counts, or labels, as the loss asks for."""
    if loss in CLASSIFICATION:
        return np.where(y > np.median(y), "yes", "no")
    return np.abs(np.round(y)) + 1.0 if loss == "poisson" else y


def targets_for(loss, y):
    return np.where(y == "yes", 1.0, -1.0) if loss in CLASSIFICATION else y


# -- laws ------------------------------------------------------------------------------------------


@given(
    seed=st.integers(0, 2**16),
    loss=st.sampled_from(list(LOSSES)),
    intercept=st.booleans(),
    weighted=st.booleans(),
    sparse=st.booleans(),
    lams=st.lists(st.sampled_from([10.0, 1.0, 0.3, 0.1, 0.03, 0.01]), min_size=1, max_size=4),
)
def test_every_certificate_holds(seed, loss, intercept, weighted, sparse, lams):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(25, 4)) * (rng.uniform(size=(25, 4)) < 0.8)
    y = labels_for(loss, X @ rng.normal(size=4) + rng.normal(size=25))
    weights = rng.uniform(0.1, 2.0, 25) if weighted else None
    data = sp.csr_array(X) if sparse else X
    path = cp.path(data, y, loss, lams, intercept=intercept, sample_weight=weights)
    np.testing.assert_array_equal(path.lams, sorted(set(lams), reverse=True))
    for i, lam in enumerate(path.lams):
        risk = cp.ScoredRisk(
            X, targets_for(loss, y), LOSSES[loss](), weights=weights, intercept=intercept
        )
        alone = cp.minimize(risk, cp.L2(lam), tol=1e-9).certificate
        known = path.certificates[i]
        assert known.status == "optimal"
        assert known.relative_gap <= 1e-3
        # Both runs' bounds enclose the same optimum.
        assert known.lower_bound <= alone.objective
        assert alone.lower_bound <= known.objective
        w, c = path.coefs[i], path.intercepts[i]
        mean_loss = LOSSES[loss]()(targets_for(loss, y), X @ w + c, risk.weights)[0]
        assert known.objective == pytest.approx(0.5 * lam * w @ w + mean_loss, rel=1e-9)


@pytest.mark.parametrize("tol", [1e-3, 1e-4])
@pytest.mark.parametrize("loss", ["hinge", "logistic", "absolute", "squared", "quantile"])
def test_a_path_takes_less_work_than_its_fits(cancer, diabetes, loss, tol):
    X, y = cancer if loss in CLASSIFICATION else diabetes
    estimator = cp.LinearClassifier if loss in CLASSIFICATION else cp.LinearRegressor
    evaluations = {}
    for method in ("bmrm-line-search", "newton"):
        path = cp.path(X, y, loss, tol=tol, method=method)
        fits = (estimator(loss, lam=lam, tol=tol, method=method).fit(X, y) for lam in path.lams)
        evaluations[method] = path.evaluations.sum(), sum(fit.evaluations_ for fit in fits)
    along, alone = evaluations["bmrm-line-search"]
    assert along < 0.75 * alone
    along_newton, alone_newton = evaluations["newton"]
    if loss == "squared":  # a Newton fit takes one step wherever it starts
        assert along_newton == 2 * len(path.lams)
    else:
        assert along_newton < 0.9 * alone_newton
    assert along_newton < 0.6 * alone


def test_the_automatic_choice_also_holds_for_a_path(cancer):
    assert np.array_equal(cp.path(*cancer).coefs, cp.path(*cancer, method="newton").coefs)


def test_idle_planes_are_left_behind(cancer):
    path = cp.path(*cancer, tol=1e-4, method="bmrm-line-search")
    assert path.planes.max() < 100 < path.evaluations.sum() / 2


# -- which lams ------------------------------------------------------------------------------------


def test_lams_in_any_order(cancer):
    path = cp.path(*cancer, lams=[0.1, 1.0, 0.1, 0.01])
    np.testing.assert_array_equal(path.lams, [1.0, 0.1, 0.01])
    np.testing.assert_array_equal(path.coefs, cp.path(*cancer, lams=[1.0, 0.1, 0.01]).coefs)
    single = cp.path(*cancer, lams=0.1)
    assert single.coefs.shape == (1, 30)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lams": [1.0, -0.5]}, "every lam must be positive and finite, got -0.5"),
        ({"lams": [0.0]}, "positive and finite, got 0"),
        ({"lams": [np.nan, 1.0]}, "positive and finite, got nan"),
        ({"lams": []}, "lams must be a list of numbers"),
        ({"lams": [[1.0, 2.0]]}, "lams must be a list of numbers"),
        ({"n_lams": 0}, "n_lams must be at least 1"),
        ({"loss": "hing"}, "unknown loss 'hing': did you mean 'hinge'"),
        ({"time_limit": 0.0}, "time_limit must be positive"),
        ({"method": "bmrn"}, "unknown method"),
        ({"tol": -1.0}, "tol must be positive"),
        ({"lams": 10}, "lams must be a list of numbers, got 10; n_lams says how many"),
        ({"lams": "many"}, "lams must be a list of numbers, got 'many'"),
    ],
)
def test_bad_options(cancer, options, message):
    with pytest.raises(ValueError, match=message):
        cp.path(*cancer, **options)


def test_more_than_two_classes(iris):
    with pytest.raises(ValueError, match="a path is for two classes, y has 3"):
        cp.path(*iris)


@given(seed=st.integers(0, 2**16), loss=st.sampled_from(list(LOSSES)), power=st.integers(-8, 8))
def test_the_grid_begins_where_zero_is_nearly_best(seed, loss, power):
    rng = np.random.default_rng(seed)
    X = 10.0**power * rng.normal(size=(20, 3))
    y = targets_for(loss, labels_for(loss, rng.normal(size=20)))
    risk = cp.ScoredRisk(X, y, LOSSES[loss]())
    lams = lam_grid([risk], 5)
    np.testing.assert_allclose(lams[:-1] / lams[1:], 10.0)
    best = cp.minimize(risk, cp.L2(lams[0]), tol=1e-3).certificate
    assert best.lower_bound >= 0.499 * risk.at(np.zeros(3)).value


def test_a_grid_without_signal():
    X, y = np.zeros((10, 2)), np.array([0, 1] * 5)
    path = cp.path(X, y, n_lams=3)
    np.testing.assert_allclose(path.lams, [1.0, 1e-2, 1e-4])
    assert not path.coefs.any()
    constant = cp.path(np.eye(4), np.full(4, 3.0), "squared", n_lams=1)
    np.testing.assert_allclose(constant.intercepts, 3.0)


# -- ends ------------------------------------------------------------------------------------------


def test_limits_warn_with_the_gap(cancer):
    with pytest.warns(ConvergenceWarning, match=r"path ended .* iteration_limit in \d of 2 runs"):
        path = cp.path(*cancer, lams=[1e-2, 1e-3], max_iter=2)
    assert path.certificates[-1].status == "iteration_limit"
    assert path.certificates[-1].valid
    with pytest.warns(ConvergenceWarning, match="time_limit in 20 of 20") as record:
        cp.path(*cancer, time_limit=1e-6)
    assert record[0].filename == __file__


def path_interrupted_at(evaluation, data, monkeypatch):
    at = cp.ScoredRisk.at

    def interrupt(risk, w):
        if risk.evaluations == evaluation:
            monkeypatch.undo()
            raise KeyboardInterrupt
        return at(risk, w)

    monkeypatch.setattr(cp.ScoredRisk, "at", interrupt)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return cp.path(*data, method="bmrm")


def test_ctrl_c_keeps_the_lams_so_far(cancer, monkeypatch):
    # Within runs, between them, and while an objective is recomputed.
    paths = [path_interrupted_at(k, cancer, monkeypatch) for k in range(4, 24)]
    last = {path.certificates[-1].status for path in paths}
    assert last == {"interrupted", "optimal"}
    for path in paths:
        assert 1 <= len(path.lams) == len(path.coefs) == len(path.certificates) < 20
        assert all(certificate.valid for certificate in path.certificates)


def test_ctrl_c_before_the_first_fit(cancer, monkeypatch):
    with pytest.raises(KeyboardInterrupt):
        path_interrupted_at(0, cancer, monkeypatch)


# -- what a path offers ----------------------------------------------------------------------------


def test_models_are_fitted_estimators(cancer):
    X, y = cancer
    labels = np.where(y == 1, "benign", "malignant")
    path = cp.path(X, labels, lams=[1.0, 0.1])
    model = path.model(-1)
    assert isinstance(model, cp.LinearClassifier)
    assert (model.lam, model.lam_) == (0.1, 0.1)
    assert model.certificate_ is path.certificates[1]
    scores = path.score(X, labels)
    assert scores.shape == (2,)
    assert scores[1] == np.mean(model.predict(X) == labels)
    assert model.fit(X, labels).certificate_.status == "optimal"  # a full estimator
    np.testing.assert_array_equal(path.coefs[1], path.model(1).coef_[0])


def test_scores_of_a_regression(diabetes):
    X, y = diabetes
    path = cp.path(X, y, cp.Huber(10.0), lams=[1.0, 0.1])
    weights = np.arange(len(y))
    expected = [path.model(i).score(X, y, weights) for i in (0, 1)]
    np.testing.assert_array_equal(path.score(X, y, weights), expected)


def test_table(cancer):
    path = cp.path(*cancer, lams=[1.0, 0.1])
    title, first, second = path.table().splitlines()
    assert title.split()[:2] == ["lam", "objective"]
    assert first.split()[0] == "1"
    assert second.split()[0] == "0.1"
    assert "optimal" in second
    assert repr(path).startswith("Path(2 lams from 1 to 0.1, ")


def test_picture(cancer):
    X, y = cancer
    path = cp.path(X[::2], y[::2], n_lams=5)
    assert len(path.plot().axes) == 2
    figure = path.plot(path.score(X[1::2], y[1::2]))
    bounds, gaps, scores = figure.axes
    assert scores.get_xlabel() == "lam"
    assert "best" in scores.texts[0].get_text()
    assert bounds.get_xscale() == gaps.get_yscale() == "log"
    assert path.png().startswith(b"\x89PNG")


def test_picture_of_one_lam(cancer):
    assert cp.path(*cancer, lams=[1.0]).png([0.5]).startswith(b"\x89PNG")


def test_hint_without_matplotlib(cancer, monkeypatch):
    path = cp.path(*cancer, lams=[1.0])
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(PlottingUnavailable, match=r'pip install "cutplane\[plot\]"'):
        path.plot()
