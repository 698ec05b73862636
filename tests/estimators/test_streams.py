"""partial_fit: what it learns, what it proves, and what it refuses.

scikit-learn's own checks of it are in test_estimator_checks.py.
"""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import make_blobs

import cutplane as cp
from cutplane import LinearClassifier, LinearClassifierCV, LinearRegressor
from cutplane.losses import CLASSIFICATION, MEASURES, REGRESSION
from cutplane.solvers.registry import STOCHASTIC_METHODS


def stream(seed=0, m=400, d=6, task="classification"):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, d))
    signal = X @ np.arange(1.0, d + 1.0) / d + 0.5
    if task == "classification":
        return X, np.where(signal + 0.3 * rng.normal(size=m) > 0.0, "yes", "no")
    if task == "counts":
        return X, rng.poisson(np.exp(0.3 * signal)).astype(float)
    return X, signal + 0.3 * rng.normal(size=m)


def fed(model, X, y, size=50, **options):
    if isinstance(model, LinearClassifier):
        options["classes"] = np.unique(y)
    for begin in range(0, len(y), size):
        part = slice(begin, begin + size)
        model.partial_fit(X[part], y[part], **options)
    return model


MODELS = [
    *(LinearClassifier(loss, lam=0.01) for loss in CLASSIFICATION),
    *(LinearRegressor(loss, lam=0.01) for loss in REGRESSION),
]


@pytest.mark.parametrize("model", MODELS, ids=repr)
@settings(max_examples=10)  # two exact solutions each
@given(
    seed=st.integers(0, 10**6),
    sparse=st.booleans(),
    intercept=st.booleans(),
    weighted=st.booleans(),
    method=st.sampled_from([*STOCHASTIC_METHODS]),
    window=st.sampled_from([30, 1000]),
)
def test_what_is_proven_of_a_stream_holds(model, seed, sparse, intercept, weighted, method, window):
    task = "counts" if model.loss == "poisson" else model.description.loss_task
    X, y = stream(seed, m=120, task=task)
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.0, 2.0, len(y)) * (rng.random(len(y)) < 0.9) if weighted else None
    X = sp.csr_array(X) if sparse else X
    model = clone(model).set_params(method=method, fit_intercept=intercept)
    classes = {"classes": np.unique(y)} if model.description.loss_task == "classification" else {}
    for begin in range(0, len(y), 40):
        part = slice(begin, begin + 40)
        given = None if weights is None else weights[part]
        model.partial_fit(X[part], y[part], sample_weight=given, window=window, **classes)
    rough = model.certify(max_iter=0)
    certificate = model.certify()
    assert certificate is model.certificate_
    assert certificate.valid
    assert rough.lower_bound <= certificate.lower_bound
    assert rough.objective == certificate.objective
    last = slice(max(len(y) - window, 0), None)
    exact = _optimum(model, X[last], y[last], None if weights is None else weights[last])
    rounding = 1e-9 * (1.0 + exact.objective)
    assert certificate.lower_bound <= exact.objective + rounding
    assert certificate.objective >= exact.certificate.lower_bound - rounding
    everything = _optimum(model, X, y, weights)
    assert model.seen_lower_bound_ <= everything.objective + rounding


def _optimum(model, X, y, weights):
    if model.description.loss_task == "classification":
        y = np.where(y == "yes", 1.0, -1.0)
    risk = cp.ScoredRisk(
        X, y, model.loss_function(), weights=weights, intercept=model.fit_intercept
    )
    return cp.minimize(risk, cp.L2(0.01), tol=1e-5, max_iter=5000)


@pytest.mark.parametrize("method", STOCHASTIC_METHODS)
def test_a_stream_is_learned(method):
    X, y = stream(m=4000)
    model = fed(LinearClassifier(lam=0.01, method=method), X, y, window=4000)
    assert model.score(X, y) > 0.9
    certificate = model.certify()
    assert certificate.valid
    assert "on all 4000 examples" in str(certificate)
    # Slopes at models that were far off bound little: those of a small ball at first do not.
    least = 0.0 if method == "optimistic" else 0.3
    assert least <= model.seen_lower_bound_ / certificate.objective <= 1.0


def test_regression_streams():
    X, y = stream(m=4000, task="regression")
    model = fed(LinearRegressor(lam=1e-3), X, y, window=500)
    assert model.score(X, y) > 0.8
    assert "on the last 500 examples" in model.certify().reason
    assert model.n_seen_ == 4000


def test_a_window_follows_a_stream_that_changes():
    X, y = stream(m=20_000)
    labels = y.copy()
    labels[-1000:] = np.where(y[-1000:] == "yes", "no", "yes")
    follows = fed(LinearClassifier(lam=0.01), X, labels, window=500)
    remembers = fed(LinearClassifier(lam=0.01), X, labels)
    scores = [model.score(X[-300:], labels[-300:]) for model in (follows, remembers)]
    assert scores[0] > 0.8 > scores[1]
    assert follows.certify().valid


def test_more_than_two_classes():
    X, y = make_blobs(600, centers=4, cluster_std=0.5, random_state=0)
    model = fed(LinearClassifier(lam=1e-3), X, y, window=600)
    assert model.score(X, y) > 0.9
    assert len(model.certify()) == 4
    assert model.coef_.shape == (4, 2)


def test_batches_make_no_difference_to_what_is_kept():
    X, y = stream(m=90)
    model = fed(LinearClassifier(), X, y, size=20, window=33)
    assert model._memory.n_kept == 33
    kept = np.vstack([batch.X for batch in model._memory.kept])
    np.testing.assert_array_equal(kept, X[-33:])


@pytest.mark.parametrize("sparse", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_batches_may_be_dense_or_sparse(sparse):
    X, y = stream(m=200)
    model = LinearClassifier(lam=0.01)
    for k, kind in enumerate(sparse):
        part = slice(100 * k, 100 * k + 100)
        batch = sp.csr_array(X[part]) if kind else X[part]
        model.partial_fit(batch, y[part], classes=["no", "yes"], window=200)
    same = fed(LinearClassifier(lam=0.01), X, y, size=100, window=200)
    assert model.certify().objective == pytest.approx(same.certify().objective, rel=1e-9)


def test_same_seed_same_bits_and_pickles_go_on():
    X, y = stream(m=200)
    once, again = (fed(LinearClassifier(random_state=3), X, y) for _ in range(2))
    np.testing.assert_array_equal(once.coef_, again.coef_)
    assert not np.array_equal(once.coef_, fed(LinearClassifier(random_state=4), X, y).coef_)
    half = fed(LinearClassifier(random_state=3), X[:100], y[:100])
    half = pickle.loads(pickle.dumps(half))
    np.testing.assert_array_equal(fed(half, X[100:], y[100:]).coef_, once.coef_)


def test_fit_forgets_the_stream():
    X, y = stream()
    model = fed(LinearClassifier(), X, y).fit(X, y)
    np.testing.assert_array_equal(model.coef_, LinearClassifier().fit(X, y).coef_)
    model.partial_fit(X, y)  # with the classes of the fit
    afresh = LinearClassifier().partial_fit(X, y, classes=np.unique(y))
    np.testing.assert_array_equal(model.coef_, afresh.coef_)


def test_a_model_of_a_stream_can_be_saved(tmp_path):
    X, y = stream()
    model = fed(LinearClassifier(), X, y)
    cp.save_model(model, tmp_path / "model.safetensors")
    loaded = cp.load_model(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert not loaded.certificate_.valid


def test_zero_weights_are_no_examples():
    X, y = stream(m=100)
    weights = np.repeat([1.0, 0.0], 50)
    model = LinearClassifier(lam=0.01)
    model.partial_fit(X, y, classes=["no", "yes"], sample_weight=weights)
    alone = LinearClassifier(lam=0.01).partial_fit(X[:50], y[:50], classes=["no", "yes"])
    assert model.n_seen_ == 50
    np.testing.assert_array_equal(model.coef_, alone.coef_)


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda X, y: (X, np.where(y == "yes", "maybe", y)), "not among the classes: 'maybe'"),
        (lambda X, y: (np.where(X > 2.0, np.nan, X), y), "NaN"),
        (lambda X, y: (X[:, :-1], y), "features"),
        (lambda X, y: (X[:0], y[:0]), "0 sample"),
    ],
    ids=["new class", "NaN", "other features", "empty"],
)
def test_bad_batches_are_refused_and_change_nothing(change, words):
    X, y = stream()
    model = fed(LinearClassifier(), X, y, window=100)
    coef, seen = model.coef_.copy(), model.n_seen_
    with pytest.raises(ValueError, match=words):
        model.partial_fit(*change(X, y))
    np.testing.assert_array_equal(model.coef_, coef)
    assert model.n_seen_ == seen


def test_many_new_classes_are_not_all_named():
    X, y = stream(m=100)
    model = fed(LinearClassifier(), X, y)
    with pytest.raises(ValueError, match=r": 0, 1, 10, 11, 12 and 95 more; the first call of"):
        model.partial_fit(X, np.arange(100))


def test_a_refused_first_batch_leaves_a_fitted_model_as_it_was():
    X, y = stream(m=100)
    model = LinearClassifier().fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="not among the classes: 'no'"):
        model.partial_fit(X[:, :3], y, classes=["yes", "maybe", "never"])
    assert model.classes_.tolist() == ["no", "yes"]
    np.testing.assert_array_equal(model.predict(X), before)
    regressor = LinearRegressor("poisson").fit(*stream(m=100, task="counts"))
    with pytest.raises(ValueError, match="zero or positive"):
        regressor.partial_fit(X[:, :3], np.full(100, -1.0))
    assert regressor.predict(X).shape == (100,)


def test_small_batches_of_many_classes_raise_no_warning():
    # scikit-learn takes such targets for those of a regression; here warnings are errors.
    X = np.random.default_rng(0).normal(size=(52, 4))
    y = np.array([*"abcdefghijklmnopqrstuvwxyz"] * 2)
    assert fed(LinearClassifier(), X, y, size=26).n_seen_ == 52


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda X, y: (X, np.where(X[:, 0] > 2.0, np.nan, y)), "NaN"),
        (lambda X, y: (np.where(X > 2.0, np.nan, X), y), "NaN"),
        (lambda X, y: (X[:, :-1], y), "features"),
        (lambda X, y: (X[:0], y[:0]), "0 sample"),
        (lambda X, y: (X, y[:-1]), "inconsistent"),
    ],
    ids=["NaN in y", "NaN", "other features", "empty", "other lengths"],
)
@pytest.mark.parametrize("first", [False, True])
def test_bad_batches_of_numbers_are_refused_and_change_nothing(change, words, first):
    X, y = stream(task="regression")
    model = LinearRegressor() if first else fed(LinearRegressor(), X, y, window=100)
    before = {name: np.copy(value) for name, value in vars(model).items() if name == "coef_"}
    bad = change(X, y)
    if first and bad[0].shape[1] < X.shape[1]:
        return  # the first batch says how many features there are
    with pytest.raises(ValueError, match=words):
        model.partial_fit(*bad)
    for name, value in before.items():
        np.testing.assert_array_equal(getattr(model, name), value)
    assert getattr(model, "n_seen_", 0) == (0 if first else len(y))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"C": 1.0}, "lam in place of C"),
        ({"class_weight": "balanced"}, "balanced"),
    ],
)
def test_parameters_that_do_not_go_with_streams(options, words):
    X, y = stream()
    with pytest.raises(ValueError, match=words):
        fed(LinearClassifier(**options), X, y)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lam", 1.0),
        ("loss", "logistic"),
        ("method", "pegasos"),
        ("fit_intercept", False),
        ("pos_label", "no"),
    ],
)
def test_a_stream_keeps_its_rules(name, value):
    X, y = stream()
    model = fed(LinearClassifier(lam=0.1), X, y, window=100)
    coef = model.coef_.copy()
    model.set_params(**{name: value})
    for call in (lambda: model.partial_fit(X, y), model.certify):
        with pytest.raises(ValueError, match=f"{name} has changed since the stream began"):
            call()
    np.testing.assert_array_equal(model.coef_, coef)
    assert fed(clone(model), X, y).n_seen_ == len(y)
    # What does not change the problem may change.
    model.set_params(**{name: getattr(LinearClassifier(lam=0.1), name)}, tol=0.5, n_jobs=1)
    model.partial_fit(X, y)
    assert model.certify().status == "optimal"


def test_without_a_window_nothing_old_is_certified_on():
    X, y = stream()
    model = fed(LinearClassifier(), X, y, window=100)
    model.partial_fit(X[:50], y[:50], window=0)
    with pytest.raises(ValueError, match="give partial_fit a window"):
        model.certify()


@pytest.mark.parametrize(("loss", "scale"), [("squared", 1e100), ("absolute", 1e200)])
def test_steps_that_overflow_end_the_stream(loss, scale):
    X, y = stream(task="regression")
    model = fed(LinearRegressor(loss), X, y)
    coef = model.coef_.copy()
    said = "the steps overflow: scale the features, or raise lam; the next batch begins a new"
    with pytest.raises(cp.NonFiniteRisk, match=said):
        model.partial_fit(scale * X, y)
    np.testing.assert_array_equal(model.coef_, coef)
    assert np.isfinite(model.partial_fit(X, y).coef_).all()
    assert model.n_seen_ == len(y)


@pytest.mark.parametrize("method", STOCHASTIC_METHODS)
def test_the_method_is_told_by_its_name(method):
    X, y = stream()
    assert fed(LinearClassifier(method=method), X, y).method_ == method


def test_other_refusals():
    X, y = stream()
    with pytest.raises(ValueError, match="window must be"):
        fed(LinearClassifier(), X, y, window=-1)
    with pytest.raises(ValueError, match="classes"):
        LinearClassifier().partial_fit(X, y)
    with pytest.raises(ValueError, match="needs two classes, got none"):
        LinearClassifier().partial_fit(X, y, classes=[])
    with pytest.raises(ValueError, match="not among the classes: None"):
        fed(LinearClassifier(), X, y).partial_fit(X, np.full(len(X), None))
    with pytest.raises(ValueError, match="give partial_fit a window"):
        fed(LinearClassifier(), X, y).certify()
    with pytest.raises(ValueError, match="max_iter must be a whole number, not negative, got -1"):
        fed(LinearClassifier(), X, y, window=9).certify(max_iter=-1)
    with pytest.raises(ValueError, match=r"not finite|inf"):
        LinearRegressor().partial_fit(X, np.full(len(X), np.inf))
    with pytest.raises(AttributeError, match="partial_fit") as caught:
        fed(LinearClassifier(method="newton"), X, y)
    assert "stochastic steps" in str(caught.value.__cause__)
    assert not hasattr(LinearClassifier(multi_class="crammer_singer"), "partial_fit")
    sums = {"error_rate"}  # the hinge loss, for a measure
    for model in (LinearClassifierCV(), *map(LinearClassifier, MEASURES.keys() - sums)):
        assert not hasattr(model, "partial_fit")


COSTLESS = [
    "squared",
    "absolute",
    "quantile",
    "huber",
    "epsilon_insensitive",
    "squared_epsilon_insensitive",
]


@pytest.mark.parametrize("method", STOCHASTIC_METHODS)
@pytest.mark.parametrize("first", [0.0, 1e-300, 1e-12])
@pytest.mark.parametrize("loss", COSTLESS)
def test_a_first_batch_that_costs_nothing_is_no_obstacle(loss, first, method):
    """The ball that holds the minimizer has no radius then, or next to none."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 4))
    y = X @ [1.0, -1.0, 0.5, 2.0] + 0.5
    errors = []
    for scale in (first, 1.0):
        model = LinearRegressor(loss, lam=1e-3, method=method)
        for begin in range(0, 2000, 100):
            part = slice(begin, begin + 100)
            model.partial_fit(X[part], y[part] if begin else scale * y[part])
            assert np.isfinite([*model.coef_, model.intercept_, model.seen_lower_bound_]).all()
        errors.append(np.mean(np.abs(X @ model.coef_ + model.intercept_ - y)))
    # As well as from a stream with an ordinary first batch, though some methods learn slowly.
    assert errors[0] <= 2.0 * errors[1] + 0.5


@pytest.mark.parametrize("loss", COSTLESS)
def test_a_stream_that_costs_nothing_is_certified(loss):
    X = np.random.default_rng(0).normal(size=(100, 4))
    model = LinearRegressor(loss, lam=1e-2).partial_fit(X, np.zeros(100), window=50)
    certificate = model.certify()
    assert (certificate.objective, certificate.lower_bound) == (0.0, 0.0)
    assert certificate.valid
    assert certificate.status == "optimal"


def test_an_objective_that_overflows_is_not_certified():
    rng = np.random.default_rng(0)
    X, y = 30.0 * rng.normal(size=(200, 5)), np.where(rng.random(200) < 0.5, 1.0, -1.0)
    model = LinearClassifier("exponential", lam=1e-5, method="pegasos", fit_intercept=False)
    model.partial_fit(X, y, classes=[-1.0, 1.0], window=100)
    certificate = model.certify()
    assert certificate.objective == np.inf
    assert not certificate.valid
    assert certificate.status == "stopped"
    assert certificate.reason == "the objective is inf, on the last 100 examples"
