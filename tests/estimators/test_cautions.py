"""Warnings of models that say the same of everything, and of parameters without effect."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import scale

import cutplane as cp
from cutplane.estimators.cautions import warn_unless_successful
from cutplane.losses import CLASSIFICATION, MEASURES, REGRESSION


@pytest.fixture(scope="module")
def noise():
    """Features, and numbers that have nothing to do with them."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(300, 5)), rng.random(300)


def rarely(numbers):
    return np.where(numbers > 0.9, "rare", "usual")


# Models that are constant


@pytest.mark.parametrize("loss", ["hinge", "f1", "precision_at_k", "recall_at_k", "break_even"])
def test_classifiers_without_coefficients(noise, loss):
    X, numbers = noise
    model = cp.LinearClassifier(loss, lam=0.01, pos_label="rare")
    with pytest.warns(cp.ConstantModelWarning, match="coefficients are zero, and all scores the s"):
        model.fit(X, rarely(numbers))
    assert not model.coef_.any()
    assert model.certificate_.status is cp.Status.OPTIMAL


@pytest.mark.parametrize("loss", ["squared_hinge", "smooth_hinge"])
def test_classifiers_that_predict_one_class(noise, loss):
    X, numbers = noise
    model = cp.LinearClassifier(loss, lam=0.01)
    with pytest.warns(cp.ConstantModelWarning, match="predicts usual for all training examples; "):
        model.fit(X, rarely(numbers))
    assert (model.predict(X) == "usual").all()


@pytest.mark.parametrize("loss", ["logistic", "exponential", "roc_area"])
def test_probabilities_and_rankings_may_be_on_one_side(noise, loss):
    X, numbers = noise
    model = cp.LinearClassifier(loss, lam=0.01).fit(X, rarely(numbers))  # warnings are errors
    assert np.ptp(model.decision_function(X)) > 0.01


def test_the_advice_can_be_taken(noise):
    X, numbers = noise
    with pytest.warns(cp.ConstantModelWarning, match="class_weight='balanced', or loss='logistic'"):
        cp.LinearClassifier(lam=0.01).fit(X, rarely(numbers))
    with pytest.warns(cp.ConstantModelWarning, match="or loss='roc_area' or 'logistic'"):
        cp.LinearClassifier("f1", lam=0.01, pos_label="rare").fit(X, rarely(numbers))
    cp.LinearClassifier(lam=1e-5, class_weight="balanced").fit(X, rarely(numbers))


def test_some_of_many_classes(noise):
    X, numbers = noise
    y = np.where(X[:, 0] > 1.0, 2, np.where(X[:, 0] < -1.0, 0, 1))
    y[numbers > 0.97] = 3
    with pytest.warns(cp.ConstantModelWarning, match=r"coefficients of \d of 4 classes are zero"):
        cp.LinearClassifier(lam=0.01).fit(X, y)


def test_all_classes_at_once(noise):
    X, numbers = noise
    y = np.digitize(numbers, [0.05, 0.1])
    with pytest.warns(cp.ConstantModelWarning, match="all scores the same"):
        cp.LinearClassifier(multi_class="crammer_singer", lam=0.1).fit(X, y)


def test_paths_warn_if_no_lam_helps(noise):
    X, numbers = noise
    with pytest.warns(cp.ConstantModelWarning, match="path: .* zero for every lam"):
        cp.path(X, rarely(numbers), lams=[1.0, 0.01])


def test_grades(noise):
    X, numbers = noise
    with pytest.warns(cp.ConstantModelWarning, match="see whether the order is right: 0 < 1 < 2"):
        cp.OrdinalClassifier(lam=0.01).fit(X, np.digitize(numbers, [0.05, 0.1]))


def test_a_band_as_wide_as_the_targets(noise):
    X, numbers = noise
    model = cp.LinearRegressor("epsilon_insensitive", epsilon=1.0)
    with pytest.warns(cp.ConstantModelWarning, match="LinearRegressor: the best coefficients"):
        model.fit(X, numbers)


def test_rankings(noise):
    X, numbers = noise
    qid = np.arange(300) // 10
    with pytest.warns(cp.ConstantModelWarning, match="LinearRanker: .* all scores the same"):
        cp.LinearRanker(lam=1e-2, per="pair").fit(np.abs(X) * 1e-30, numbers > 0.5, qid=qid)


def test_labels(noise):
    X, numbers = noise
    Y = np.column_stack([numbers + 0.15 * X[:, 0] > 0.97, numbers + 0.15 * X[:, 1] < 0.03])
    with pytest.warns(cp.ConstantModelWarning, match="predicts no label for any training example"):
        cp.MultilabelClassifier("ranking", lam=0.1).fit(X, Y)
    with pytest.warns(cp.ConstantModelWarning, match="the best coefficients are zero"):
        cp.MultilabelClassifier("independent", lam=0.1).fit(X, np.roll(Y, 7, axis=0))


def test_a_cloud_around_the_origin(noise):
    X, _ = noise
    with pytest.warns(cp.ConstantModelWarning, match="no halfspace without the origin"):
        cp.NoveltyDetector(nu=0.05).fit(X + 0.3)


@pytest.mark.parametrize("loss", ["margin", "crf"])
def test_taggers(loss):
    rng = np.random.default_rng(0)
    X = [[[f"word {i}"] for i in rng.integers(0, 5, 6)] for _ in range(30)]
    y = [["name" if x > 0.9 else "other" for x in rng.random(6)] for _ in range(30)]
    with pytest.warns(cp.ConstantModelWarning, match="of 30 training sequences the label other; "):
        tagger = cp.SequenceTagger(loss, lam=1.0).fit(X, y)
    assert {*np.concatenate(tagger.predict(X))} == {"other"}


def test_structured_models():
    X, Y = np.eye(3), ["red", "green", "blue"]
    predictor = cp.StructuredPredictor(cp.MulticlassModel(), lam=0.01).fit(X, Y)
    assert predictor.predict(X) == Y
    with pytest.warns(cp.ConstantModelWarning, match="same outputs as weights of zero; try a s"):
        predictor = cp.StructuredPredictor(cp.MulticlassModel(), lam=1.0).fit(
            np.vstack([X, np.ones((20, 3))]), Y + ["blue"] * 20
        )
    assert set(predictor.predict(X)) == {"blue"}


def test_rna_without_pairs():
    rng = np.random.default_rng(0)
    model = cp.RNAFolding()
    secret = np.zeros(model.n_parameters)
    secret[model.places["stack"]] = rng.uniform(1, 4, 21)
    secret[model.places["closing"]] = -2
    X = ["".join(rng.choice(list("ACGU"), 20)) for _ in range(10)]
    Y = [model.inference(x, secret) for x in X]
    with pytest.warns(cp.ConstantModelWarning, match="the same outputs as weights of zero"):
        predictor = cp.StructuredPredictor(model, lam=10.0, tol=0.1).fit(X, Y)
    assert not any("(" in said for said in predictor.predict(X))


# Where a constant is what there is


@pytest.mark.parametrize("loss", [*CLASSIFICATION, *MEASURES])
def test_equal_rows_are_no_fault_of_the_model(loss):
    cp.LinearClassifier(loss, lam=0.1).fit(np.full((20, 3), 0.1), np.repeat([0, 1], [15, 5]))


def test_constant_targets_are_no_fault_of_the_model(noise):
    X, _ = noise
    assert cp.LinearRegressor().fit(X, np.full(300, 7.0)).intercept_ == 7.0
    cp.LinearQuantiles([0.1, 0.9]).fit(X, np.full(300, 7.0))


def test_numbers_that_differ_little_beside_their_size(noise):
    X, _ = noise
    model = cp.LinearRegressor("absolute", lam=1e-6).fit(X, 1e10 + X[:, 0])
    assert model.coef_[0] == pytest.approx(1.0, abs=0.05)


def test_a_fit_that_did_not_succeed_warns_once(noise):
    X, numbers = noise
    with pytest.warns(match="iteration_limit") as record:
        cp.LinearClassifier("f1", lam=1e-6, max_iter=1, tol=1e-9).fit(
            X, (numbers > 0.9).astype(int)
        )
    assert len(record) == 1


def test_the_line_of_the_user_is_named(noise):
    X, numbers = noise
    with pytest.warns(cp.ConstantModelWarning, match="coefficients are zero") as record:
        cp.LinearClassifier(lam=0.01).fit(X, rarely(numbers))
    assert record[0].filename == __file__
    with pytest.warns(cp.UnusedParameterWarning, match="quantile=0.9 has no") as record:
        cp.LinearRegressor(quantile=0.9).fit(X, numbers)
    assert record[0].filename == __file__
    words = np.array(["a", "b", "c"])[np.searchsorted([-0.5, 0.5], X[:, 0])]
    with pytest.warns(cp.LabelOrderWarning, match="in the order a < b < c") as record:
        cp.OrdinalClassifier().fit(X, words)
    assert record[0].filename == __file__


# Parameters without effect

UNUSED = [
    (cp.LinearClassifier, {"loss": "hinge", "beta": 2.0}, "beta=2.0 has no effect with loss='hing"),
    (cp.LinearClassifier, {"loss": "f1", "k": 0.5}, "k=0.5 has no effect with loss='f1'"),
    (cp.LinearClassifier, {"loss": "f1", "beta": 2.0}, "beta=2.0 has no effect with loss='f1'"),
    (cp.LinearClassifier, {"loss": "hinge", "smoothing": 0.1}, "smoothing=0.1 has no effect"),
    (cp.LinearClassifier, {"loss": cp.FBeta(2.0), "beta": 2.0}, r"with loss=FBeta\(2\)"),
    (cp.LinearRegressor, {"loss": "squared", "quantile": 0.9}, "quantile=0.9 has no effect"),
    (cp.LinearRegressor, {"loss": "huber", "epsilon": 0.2}, "epsilon=0.2 has no effect"),
    (cp.LinearRegressor, {"loss": "absolute", "delta": 1.0}, "delta=1.0 has no effect"),
    (cp.OrdinalClassifier, {"loss": "hinge", "smoothing": 0.1}, "smoothing=0.1 has no effect"),
    (cp.MultilabelClassifier, {"smoothing": 0.1}, "smoothing=0.1 has no effect with loss='hinge'"),
    (cp.LinearQuantiles, {"parallel": True, "crossing_penalty": 2.0}, "no effect with parallel=T"),
]


@pytest.mark.parametrize(("estimator", "parameters", "message"), UNUSED)
def test_parameters_without_effect(noise, estimator, parameters, message):
    X, _ = noise
    model = estimator(lam=0.1, **parameters)
    with pytest.warns(cp.UnusedParameterWarning, match=f"^{estimator.__name__}: .*{message}"):
        model.fit(X, (X[:, 0] > 0.0).astype(int))


def test_parameters_of_rankers(noise):
    X, _ = noise
    y, qid = X[:, 0] > 0.0, np.arange(300) // 10
    cp.LinearRanker(k=3).fit(X, y, qid=qid)  # `score` uses it
    with pytest.warns(cp.UnusedParameterWarning, match="per='pair' has no effect with loss='ndcg'"):
        cp.LinearRanker("ndcg", per="pair", lam=0.01).fit(X, y, qid=qid)


def test_defaults_said_aloud_and_parameters_in_use(noise):
    X, _ = noise
    y = (X[:, 0] > 0.0).astype(int)
    cp.LinearClassifier("hinge", beta=1.0, k=0.1, smoothing=0.5).fit(X, y)
    cp.LinearClassifier("f_beta", beta=2).fit(X, y)
    for loss in REGRESSION:
        used = {"quantile": {"quantile": 0.9}, "huber": {"delta": 1.0}}.get(loss, {})
        cp.LinearRegressor(loss, **used).fit(X, y)


def test_searches_go_on(noise):
    X, _ = noise
    y = (X[:, 0] > 0.0).astype(int)
    search = GridSearchCV(
        cp.LinearClassifier(lam=0.1), {"loss": ["hinge", "f_beta"], "beta": [1.0, 2.0]}, cv=2
    )
    with pytest.warns(cp.UnusedParameterWarning, match="beta=2.0 has no effect with loss='hinge'"):
        search.fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert clone(search.best_estimator_).get_params()["lam"] == 0.1


def test_min_count_of_matrices():
    X, y = [np.eye(3), np.eye(3)], [["a", "b", "b"], ["a", "b", "b"]]
    with pytest.warns(cp.UnusedParameterWarning, match="min_count=2 has no effect on matrices"):
        cp.SequenceTagger(lam=0.01, min_count=2).fit(X, y)


# Parameters without sense


SENSELESS = [
    ({"tol": -1.0}, "tol must be positive, got -1.0"),
    ({"tol": True}, "tol must be positive, got True"),
    ({"lam": "0.1"}, "lam must be positive and finite, or 'cv', .*, got '0.1'$"),
    ({"lam": True}, "lam must be positive and finite, or 'cv', .*, got True$"),
    ({"max_iter": True}, "max_iter must be None or a whole number above 0, got True"),
    ({"time_limit": "1"}, "time_limit must be positive, got '1'"),
    ({"n_jobs": 1.5}, "n_jobs must be None, -1 or a whole number above 0, got 1.5"),
    ({"n_jobs": "2"}, "n_jobs must be None, -1 or a whole number above 0, got '2'"),
    ({"warm_start": "no"}, "warm_start must be True or False, got 'no'"),
    ({"verbose": "no"}, "verbose must be a whole number, not negative, got 'no'"),
    ({"callbacks": print}, "callbacks must be a sequence of callables"),
    ({"callbacks": None}, "callbacks must be a sequence of callables, got None"),
]
ESTIMATORS = [
    cp.LinearClassifier(),
    cp.LinearClassifierCV(),
    cp.LinearRegressor(),
    cp.OrdinalClassifier(),
    cp.MultilabelClassifier(),
    cp.LinearQuantiles(),
    cp.LinearRanker(),
    cp.NoveltyDetector(),
    cp.SequenceTagger(),
    cp.StructuredPredictor(cp.MulticlassModel()),
]


@pytest.mark.parametrize(("parameters", "message"), SENSELESS)
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda model: type(model).__name__)
def test_senseless_parameters_of_all_estimators(estimator, parameters, message):
    (name,) = parameters
    if name not in estimator.get_params():
        assert name in ("lam", "warm_start")
        return
    with pytest.raises(ValueError, match=message) as error:
        clone(estimator).set_params(**parameters).fit(np.eye(6), [0, 1, 0, 1, 0, 1])
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (cp.LinearClassifier("f_beta", beta="2"), "beta must be a number, got '2'"),
        (cp.LinearClassifier("precision_at_k", k=True), "k must be a number, got True"),
        (cp.LinearClassifier(fit_intercept="no"), "fit_intercept must be True or False, got 'no'"),
        (cp.LinearRegressor("quantile", quantile="x"), "quantile must be a number, got 'x'"),
        (cp.LinearRegressor("huber", delta=None), "delta must be a number, got None"),
        (cp.LinearQuantiles("0.5"), "quantiles must be a sequence of numbers, got '0.5'"),
        (cp.LinearQuantiles(parallel="no"), "parallel must be True or False, got 'no'"),
        (cp.NoveltyDetector(nu="x"), "nu must be a number, got 'x'"),
        (cp.LinearRanker(k=0), "k must be a positive whole number, got 0"),
        (cp.SequenceTagger(min_count=0), "min_count must be a whole number above 0, got 0"),
        (cp.SequenceTagger(templates=3), "templates must be None or text, got 3"),
        (cp.SequenceTagger(fit_ends="no"), "fit_ends must be True or False, got 'no'"),
        (cp.StructuredPredictor(cp.MulticlassModel(), lam=None), "lam must be positive"),
        (cp.LinearClassifierCV(lams=True), "lams must be a list of numbers, got True"),
        (cp.LinearClassifierCV(lams=0), "lams must be at least 1, got 0"),
        (cp.LinearClassifierCV(lams="many"), "lams must be a list of numbers, got 'many'"),
    ],
    ids=repr,
)
def test_senseless_parameters_of_one(estimator, message):
    with pytest.raises(ValueError, match=message):
        estimator.fit(np.eye(6), [0, 1, 0, 1, 0, 1])


def test_sensible_parameters_of_other_types():
    X, y = np.eye(6), [0, 1, 0, 1, 0, 1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cp.ConstantModelWarning)
        cp.LinearClassifier(
            lam=np.float32(0.5),
            tol=np.float64(1e-2),
            max_iter=np.int64(50),
            n_jobs=np.int32(1),
            fit_intercept=np.True_,
            verbose=False,
            callbacks=[],
        ).fit(X, y)


# Advice for bounds that stand still


@pytest.mark.parametrize(
    ("X", "scaled"),
    [
        (scale(np.random.default_rng(1).exponential(size=(200, 4)) * [1e-4, 1, 1e3, 0]), True),
        (np.random.default_rng(1).normal(size=(50, 3)) * [1.0, 1e4, 1.0], False),
        (np.random.default_rng(1).normal(size=(50, 3)) * 1e-5, False),
        (sp.random_array((60, 30), density=0.1, rng=np.random.default_rng(1)).tocsr(), True),
        (sp.random_array((60, 30), density=0.1, rng=np.random.default_rng(1)).tocsr() * 1e6, False),
        (np.eye(5, dtype=np.uint8), True),
        ([["words"], ["more"]], False),
    ],
)
def test_only_features_that_are_not_scaled_are_to_be_scaled(X, scaled):
    stalled = cp.Certificate(1.0, 0.9, cp.Status.STALLED, True)
    with pytest.warns(ConvergenceWarning, match="raise lam or tol") as record:
        warn_unless_successful("Model", 1e-3, [stalled], X)
    assert ("scale the features" in str(record[0].message)) is not scaled
