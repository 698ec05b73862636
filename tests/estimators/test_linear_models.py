"""What users of scikit-learn expect of the estimators beyond its own checks."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.metrics import make_scorer, mean_pinball_loss
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import cutplane as cp
from cutplane import LinearClassifier, LinearRegressor
from cutplane.losses import CLASSIFICATION, REGRESSION
from cutplane.solvers.registry import METHODS, STOCHASTIC_METHODS


def objective(model, X, y, loss):
    """J of a fitted binary or regression model, computed the plain way."""
    w = np.ravel(model.coef_)
    scores = X @ w + np.ravel(model.intercept_)[0]
    mean_loss = loss(y, scores, np.full(len(y), 1.0 / len(y)))[0]
    return 0.5 * model.lam_ * w @ w + mean_loss


# -- agreement with others -------------------------------------------------------------------------


def test_agrees_with_linear_svc(cancer):
    X, y = cancer
    ours = LinearClassifier(lam=1e-2, fit_intercept=False, tol=1e-8).fit(X, y)
    theirs = LinearSVC(
        loss="hinge", C=1 / (1e-2 * len(y)), fit_intercept=False, tol=1e-10, max_iter=10**6
    ).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)


@pytest.mark.parametrize("weighted", [False, True])
def test_agrees_with_logistic_regression(cancer, weighted):
    X, y = cancer
    weights = np.random.default_rng(0).uniform(0, 3, len(y)) if weighted else None
    ours = LinearClassifier("logistic", C=0.5, tol=1e-10).fit(X, y, sample_weight=weights)
    theirs = LogisticRegression(C=0.5, tol=1e-10, max_iter=10**4).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-5)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-5)


def test_agrees_with_ridge(diabetes):
    X, y = diabetes
    ours = LinearRegressor(lam=0.1, tol=1e-12).fit(X, y)
    theirs = Ridge(alpha=0.1 * len(y)).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-4)
    assert ours.intercept_ == pytest.approx(theirs.intercept_)


def test_agrees_with_poisson_regressor(diabetes):
    X, y = diabetes
    ours = LinearRegressor("poisson", lam=0.5, tol=1e-12).fit(X, y)
    theirs = PoissonRegressor(alpha=0.5, tol=1e-9, max_iter=1000).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-5)


def test_quantiles_cover_what_they_say(diabetes):
    X, y = diabetes
    for quantile in (0.1, 0.5, 0.9):
        model = LinearRegressor("quantile", quantile=quantile, lam=1e-8, tol=1e-5).fit(X, y)
        assert (y <= model.predict(X)).mean() == pytest.approx(quantile, abs=0.03)


@pytest.mark.parametrize("name", [*CLASSIFICATION, *REGRESSION])
def test_certificate_is_about_the_fitted_coefficients(name, cancer, diabetes):
    estimator = LinearClassifier if name in CLASSIFICATION else LinearRegressor
    X, y = cancer if name in CLASSIFICATION else diabetes
    model = estimator(name, lam=0.1).fit(X, y)
    targets = np.where(y == 1, 1.0, -1.0) if name in CLASSIFICATION else y.astype(float)
    certificate = model.certificate_
    assert certificate.status == "optimal"
    assert certificate.valid
    assert certificate.relative_gap <= 1e-3
    assert certificate.objective == pytest.approx(
        objective(model, X, targets, model.loss_function()), rel=1e-12
    )
    assert model.history_[-1].relative_gap <= 1e-3
    assert model.n_iter_ == len(model.history_)


# -- parameters ------------------------------------------------------------------------------------


def test_c_is_lam_in_other_words(cancer):
    X, y = cancer
    by_c = LinearClassifier(C=2.0).fit(X, y)
    by_lam = LinearClassifier(lam=1 / (2.0 * len(y))).fit(X, y)
    np.testing.assert_array_equal(by_c.coef_, by_lam.coef_)
    assert by_c.lam_ == by_lam.lam_


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"loss": "hing"}, "unknown loss 'hing': did you mean 'hinge'"),
        ({"loss": "squared"}, "'squared' is a loss of LinearRegressor"),
        ({"loss": 3}, "unknown loss 3"),
        ({"method": "bmrn"}, "unknown method 'bmrn': did you mean 'bmrm'"),
        ({"lam": 0.0}, "lam must be positive"),
        ({"lam": -1.0}, "lam must be positive"),
        ({"lam": np.nan}, "lam must be positive"),
        ({"C": 0.0}, "C must be positive"),
        ({"lam": 1.0, "C": 1.0}, "lam or C, not both"),
        ({"tol": 0.0}, "tol must be positive"),
        ({"max_iter": 0}, "whole number above 0"),
        ({"max_iter": 2.5}, "whole number above 0"),
        ({"tol": "small"}, "tol must be positive"),
        ({"loss": cp.Absolute()}, "loss for regression"),
        ({"time_limit": -1.0}, "time_limit must be positive"),
        ({"n_jobs": 0}, "n_jobs must be"),
        ({"class_weight": {0: -1.0, 1: 1.0}}, "class weights must be positive"),
        ({"class_weight": "balance"}, "balance"),
        ({"loss": "smooth_hinge", "smoothing": 0.0}, "smoothing must be positive"),
    ],
)
def test_bad_parameters(cancer, parameters, message):
    with pytest.raises(ValueError, match=message):
        LinearClassifier(**parameters).fit(*cancer)


def test_bad_targets(diabetes):
    X, y = diabetes
    with pytest.raises(ValueError, match="zero or positive"):
        LinearRegressor("poisson").fit(X, -y)
    with pytest.raises(ValueError, match="two classes, got one class only: 1"):
        LinearClassifier().fit(X, np.ones(len(y), dtype=int))
    with pytest.raises(ValueError, match="at least one non-zero"):
        LinearClassifier().fit(X, y > y.mean(), sample_weight=np.zeros(len(y)))


def test_a_class_without_weight_does_not_count(iris):
    X, y = iris
    weights = (y != 1).astype(float)
    model = LinearClassifier().fit(X, y, sample_weight=weights)
    np.testing.assert_array_equal(model.classes_, [0, 2])
    expected = LinearClassifier().fit(X[y != 1], y[y != 1])
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-9)


def test_balanced_is_by_weight(cancer):
    X, y = cancer
    copies = np.random.default_rng(0).integers(1, 4, len(y))
    tight = LinearClassifier(class_weight="balanced", lam=0.1, tol=1e-10)
    weighted = clone(tight).fit(X, y, sample_weight=copies)
    repeated = clone(tight).fit(np.repeat(X, copies, axis=0), np.repeat(y, copies))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-5)
    by_hand = {0: len(y) / (2 * (y == 0).sum()), 1: len(y) / (2 * (y == 1).sum())}
    np.testing.assert_array_equal(
        clone(tight).fit(X, y).coef_,
        clone(tight).set_params(class_weight=by_hand).fit(X, y).coef_,
    )


def test_own_loss_object(cancer):
    X, y = cancer
    np.testing.assert_array_equal(
        LinearClassifier(cp.SmoothHinge(0.2)).fit(X, y).coef_,
        LinearClassifier("smooth_hinge", smoothing=0.2).fit(X, y).coef_,
    )


@pytest.mark.parametrize("method", [None, *METHODS, cp.bmrm()])
def test_methods_agree(cancer, method):
    X, y = cancer
    X = sp.csr_array(X)
    # Gaps of stochastic steps fall like one over their number.
    tol = 1e-3 if method in STOCHASTIC_METHODS else 1e-5
    loss = "logistic" if method == "sparse-quasi-newton" else "hinge"
    model = LinearClassifier(loss, lam=0.1, tol=tol, method=method).fit(X, y)
    reference = LinearClassifier(loss, lam=0.1, tol=1e-9).fit(X, y).certificate_
    assert model.certificate_.objective <= reference.objective * (1 + tol)
    assert model.certificate_.lower_bound <= reference.objective


def test_threads_do_not_change_a_bit(cancer):
    X, y = cancer
    X = np.tile(X, (40, 1))  # large enough to be shared among threads
    y = np.tile(y, 40)
    one, many = (LinearClassifier(n_jobs=n).fit(X, y) for n in (1, -1))
    np.testing.assert_array_equal(one.coef_, many.coef_)


# -- ends of a fit ---------------------------------------------------------------------------------


def test_iteration_limit_warns_with_the_gap(cancer):
    with pytest.warns(ConvergenceWarning, match=r"iteration_limit.*relative gap.*raise max_iter"):
        model = LinearClassifier(max_iter=2).fit(*cancer)
    assert model.certificate_.status == "iteration_limit"
    assert model.certificate_.valid
    assert model.n_iter_ == 2


def test_time_limit_is_for_all_classes_together(iris):
    X, y = iris
    with pytest.warns(ConvergenceWarning, match="time_limit in 3 of 3"):
        model = LinearClassifier(time_limit=1e-6).fit(X, y)
    assert [c.status for c in model.certificate_] == ["time_limit"] * 3
    assert model.coef_.shape == (3, 4)


def test_ctrl_c_keeps_the_best_model(iris):
    X, y = iris

    def interrupt(state):
        if state.iteration == 3:
            raise KeyboardInterrupt

    with pytest.warns(ConvergenceWarning, match="interrupted in 3 of 3"):
        model = LinearClassifier(callbacks=[interrupt]).fit(X, y)
    assert [len(history) for history in model.history_] == [3, 1, 1]
    assert all(certificate.valid for certificate in model.certificate_)
    assert model.predict(X).shape == y.shape


def test_a_callback_can_stop_the_fit(cancer):
    seen = []

    def stop_when_good_enough(state):
        seen.append(state.history[-1])
        return state.relative_gap < 0.2

    with pytest.warns(ConvergenceWarning, match="a callback ended the fit"):
        model = LinearClassifier(callbacks=[stop_when_good_enough]).fit(*cancer)
    assert model.certificate_.status == "stopped"
    assert seen == model.history_
    assert seen[-1].relative_gap < 0.2 <= seen[-2].relative_gap


def test_no_warning_when_the_promise_is_kept_by_the_limit(cancer):
    # A run aims at a quarter of tol; if a limit ends it between the two, it still is optimal.
    X, y = cancer
    history = LinearClassifier(lam=0.1).fit(X, y).history_
    kept = next(r.iteration for r in history if r.relative_gap <= 1e-3)
    assert kept < len(history)
    model = LinearClassifier(lam=0.1, max_iter=kept).fit(X, y)
    assert model.certificate_.status == "optimal"
    assert 0.25e-3 < model.certificate_.relative_gap <= 1e-3


def test_verbose_prints_the_progress(iris, capsys):
    LinearClassifier(verbose=1).fit(*iris)
    lines = capsys.readouterr().out.splitlines()
    assert sum("objective" in line for line in lines) == 3
    LinearClassifier().fit(*iris)
    assert capsys.readouterr().out == ""


def test_warm_start(cancer):
    X, y = cancer
    model = LinearClassifier(tol=1e-6, warm_start=True).fit(X, y)
    cold, coef = model.n_iter_, model.coef_
    model.fit(X, y)
    assert model.history_[0].objective <= model.history_[-1].objective * (1 + 1e-5)
    assert model.n_iter_ <= cold
    np.testing.assert_allclose(model.coef_, coef, atol=1e-2)
    model.fit(X[:, :5], y)  # another shape: starts afresh
    assert model.coef_.shape == (1, 5)


# -- data ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "layout",
    [
        np.ascontiguousarray,
        np.asfortranarray,
        sp.csr_matrix,
        sp.csr_array,
        sp.csc_array,
        sp.coo_array,
    ],
)
def test_layouts_agree(cancer, layout, dtype):
    X, y = cancer
    X = X.astype(np.float32).astype(np.float64)
    expected = LinearClassifier(lam=0.1, tol=1e-9).fit(X, y)
    model = LinearClassifier(lam=0.1, tol=1e-9).fit(layout(X.astype(dtype)), y)
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-6)
    assert (model.predict(layout(X)) == expected.predict(X)).mean() > 0.99


def test_int64_indices(cancer):
    X, y = cancer
    sparse = sp.csr_array(X)
    wide = sp.csr_array(
        (sparse.data, sparse.indices.astype(np.int64), sparse.indptr.astype(np.int64)), X.shape
    )
    np.testing.assert_array_equal(
        LinearClassifier().fit(sparse, y).coef_, LinearClassifier().fit(wide, y).coef_
    )


def test_data_frames(cancer):
    X, y = cancer
    frame = pd.DataFrame(X, columns=[f"feature {i}" for i in range(X.shape[1])])
    labels = pd.Series(np.where(y == 1, "benign", "malignant"))
    model = LinearClassifier().fit(frame, labels)
    assert list(model.feature_names_in_) == list(frame.columns)
    assert set(model.predict(frame)) == {"benign", "malignant"}
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[frame.columns[::-1]])


def test_many_classes(iris):
    X, y = iris
    model = LinearClassifier("logistic", lam=1e-3).fit(X, y)
    assert model.score(X, y) > 0.9
    assert model.coef_.shape == (3, 4)
    assert len(model.certificate_) == len(model.history_) == len(model.n_iter_) == 3
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.predict(X), model.predict_proba(X).argmax(axis=1))
    for k in range(3):
        binary = LinearClassifier("logistic", lam=1e-3).fit(X, y == k)
        np.testing.assert_array_equal(model.coef_[k], binary.coef_[0])


def test_probabilities_only_where_the_loss_has_them(cancer):
    X, y = cancer
    assert not hasattr(LinearClassifier("hinge"), "predict_proba")
    for loss in ("logistic", "exponential"):
        model = LinearClassifier(loss, lam=0.1).fit(X, y)
        p = model.predict_proba(X)
        np.testing.assert_allclose(p.sum(axis=1), 1.0)
        np.testing.assert_array_equal(p[:, 1] > 0.5, model.predict(X) == 1)
        np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), p)


def test_no_intercept(cancer):
    model = LinearClassifier(fit_intercept=False).fit(*cancer)
    assert model.intercept_ == 0.0


# -- as a part of scikit-learn ---------------------------------------------------------------------


def test_pickle_predicts_the_same(cancer, diabetes):
    for model, (X, y) in ((LinearClassifier(), cancer), (LinearRegressor("huber"), diabetes)):
        model.fit(X, y)
        copy = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(copy.predict(X), model.predict(X))
        assert copy.certificate_ == model.certificate_


def test_grid_search_in_a_pipeline(cancer):
    X, y = cancer
    search = GridSearchCV(
        make_pipeline(StandardScaler(), LinearClassifier()),
        {"linearclassifier__lam": [1e-3, 1e-1], "linearclassifier__loss": ["hinge", "logistic"]},
        cv=3,
    ).fit(X, y)
    assert search.best_score_ > 0.95


def test_sample_weights_are_routed(diabetes):
    X, y = diabetes
    weights = np.random.default_rng(0).uniform(size=len(y))
    with sklearn.config_context(enable_metadata_routing=True):
        model = LinearRegressor("quantile", quantile=0.8, lam=1e-3)
        scorer = make_scorer(mean_pinball_loss, alpha=0.8, greater_is_better=False)
        scorer.set_score_request(sample_weight=False)
        routed = cross_val_score(
            model.set_fit_request(sample_weight=True),
            X,
            y,
            scoring=scorer,
            params={"sample_weight": weights},
            cv=3,
        )
        plain = cross_val_score(
            model.set_fit_request(sample_weight=False), X, y, scoring=scorer, cv=3
        )
    assert np.isfinite(routed).all()
    assert (routed != plain).all()


def test_scikit_learn_callbacks(cancer, iris):
    callback = pytest.importorskip(
        "sklearn.callback", reason="scikit-learn has callbacks from version 1.9 on"
    )

    class Watch:
        def __init__(self):
            self.tasks, self.scores, self.stages = [], [], []

        def setup(self, estimator, context):
            self.stages.append("setup")

        def teardown(self, estimator, context):
            self.stages.append("teardown")

        def on_fit_task_begin(self, estimator, context):
            pass

        def on_fit_task_end(self, estimator, context, *, X, y, fitted_estimator):
            self.tasks.append(context.task_name)
            if fitted_estimator is not None:
                self.scores.append(fitted_estimator.score(X, y))

    for data, problems in ((cancer, 1), (iris, 3)):
        watch = Watch()
        assert isinstance(watch, callback.FitCallback)
        model = LinearClassifier().set_callbacks(watch).fit(*data)
        assert watch.stages == ["setup", "teardown"]
        assert watch.tasks.count("iteration") == np.sum(model.n_iter_)
        assert watch.tasks.count("one_vs_rest") == (problems if problems > 1 else 0)
        assert watch.tasks[-1] == "fit"
        assert watch.scores[-1] == model.score(*data)


def test_scikit_learn_callback_can_stop(cancer):
    pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks from version 1.9 on")

    class Stop:
        def setup(self, estimator, context):
            pass

        def teardown(self, estimator, context):
            pass

        def on_fit_task_begin(self, estimator, context):
            pass

        def on_fit_task_end(self, estimator, context):
            return context.task_name == "iteration"

    with pytest.warns(ConvergenceWarning, match="stopped"):
        model = LinearClassifier().set_callbacks(Stop()).fit(*cancer)
    assert model.n_iter_ == 1


def test_no_warnings_by_default(cancer, diabetes):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LinearClassifier().fit(*cancer)
        LinearRegressor().fit(*diabetes)


@pytest.mark.parametrize("loss", sorted(REGRESSION))
@pytest.mark.parametrize("constant", [0.3, 1.0, 2.0, 3.0, 7.0])
def test_targets_that_an_intercept_fits_exactly(loss, constant):
    """All that is left of the objective is rounding, which is no contradiction."""
    X = np.random.default_rng(0).normal(size=(30, 3))
    model = cp.LinearRegressor(loss).fit(X, np.full(30, constant))
    assert model.certificate_.status == "optimal"
    assert model.certificate_.valid
    width = model.epsilon if "insensitive" in loss else 0.0  # what costs nothing
    np.testing.assert_allclose(model.predict(X), constant, rtol=1e-7, atol=width)
