"""The same bits, whatever has no business to change them: threads, batches, a second fit.

All of it is promised on one kind of processor only: on another, coefficients may differ in their
last bits. Predictions with given coefficients may not.
"""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import cutplane as cp
from cutplane.compute.blocks import LEAST_ENTRIES

rng = np.random.default_rng(7)
N_SAMPLES, N_FEATURES = 300, 12
X = np.where(rng.random((N_SAMPLES, N_FEATURES)) < 0.7, rng.normal(size=(N_SAMPLES, 12)), 0.0)
GRADES = np.digitize(X[:, 0] + 0.3 * rng.normal(size=N_SAMPLES), [-0.5, 0.5])
QUERIES = np.repeat(np.arange(N_SAMPLES // 10), 10)
LABELS = (X[:, :4] + rng.normal(size=(N_SAMPLES, 4)) > 0.5).astype(int)

ESTIMATORS = {
    "two classes": (cp.LinearClassifier(lam=1e-2), {"y": GRADES > 0}),
    "one against the rest": (cp.LinearClassifier(lam=1e-2, method="bmrm"), {"y": GRADES}),
    "logistic": (cp.LinearClassifier(loss="logistic", lam=1e-2), {"y": GRADES}),
    "softmax": (
        cp.LinearClassifier(loss="logistic", multi_class="softmax", lam=1e-2),
        {"y": GRADES},
    ),
    "chosen by cross-validation": (cp.LinearClassifierCV(lams=[0.1, 0.01], cv=2), {"y": GRADES}),
    "regression": (cp.LinearRegressor(loss="absolute", lam=1e-2), {"y": X[:, 0] + X[:, 1] ** 2}),
    "quantiles": (cp.LinearQuantiles([0.25, 0.75], lam=1e-2), {"y": X[:, 0] + X[:, 1] ** 2}),
    "grades": (cp.OrdinalClassifier(loss="logistic", lam=1e-2), {"y": GRADES}),
    "labels": (cp.MultilabelClassifier(lam=1e-2), {"y": LABELS}),
    "novelty": (cp.NoveltyDetector(nu=0.2), {}),
    "ranking": (cp.LinearRanker(lam=1e-2), {"y": GRADES, "qid": QUERIES}),
}
every_estimator = pytest.mark.parametrize("case", ESTIMATORS)
PREDICTIONS = ("predict", "decision_function", "score_samples", "predict_proba")


def features(case):
    return X + 1.0 if case == "novelty" else X  # a detector separates from the origin


def fitted(case, store=np.asarray):
    model, targets = ESTIMATORS[case]
    return clone(model).fit(store(features(case)), **targets)


def predictions(model, X):
    return {name: getattr(model, name)(X) for name in PREDICTIONS if hasattr(model, name)}


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert found[name].tobytes() == values.tobytes(), name


def batches(n_rows, seed):
    """Rows one by one, the last ones, a permutation, and some rows more than once."""
    rng = np.random.default_rng(seed)
    return [
        *([i] for i in range(min(n_rows, 9))),
        np.arange(n_rows - 7, n_rows),
        rng.permutation(n_rows),
        rng.integers(0, n_rows, n_rows // 3),
    ]


def assert_batches_do_not_matter(model, X, seed=0):
    whole = predictions(model, X)
    assert "predict" in whole
    for store in (np.ascontiguousarray, np.asfortranarray, sp.csr_array):
        assert_same(predictions(model, store(X)), whole)
        for rows in batches(len(X), seed):
            part = {name: values[rows] for name, values in whole.items()}
            assert_same(predictions(model, store(X[rows])), part)
            assert_same(predictions(model, store(X)[rows]), part)


@every_estimator
def test_a_prediction_does_not_depend_on_its_batch(case):
    assert_batches_do_not_matter(fitted(case), features(case))


@pytest.mark.parametrize("store", [np.asarray, np.asfortranarray, sp.csr_array])
@pytest.mark.parametrize("pairs", ["all", "observed"])
def test_a_sequence_is_labeled_the_same_alone(store, pairs):
    tagger = cp.SequenceTagger(loss="crf", lam=1e-2, pairs=pairs)
    tagger.fit(sp.csr_array(X), GRADES, lengths=[20] * 15)
    labels = tagger.predict(store(X), lengths=[20] * 15)
    shares = tagger.predict_marginals(store(X), lengths=[20] * 15)
    for begin in range(0, N_SAMPLES, 20):
        alone, part = store(X[begin : begin + 20]), slice(begin, begin + 20)
        np.testing.assert_array_equal(tagger.predict(alone, lengths=[20]), labels[part])
        found = tagger.predict_marginals(alone, lengths=[20])
        assert found.tobytes() == shares[part].tobytes()


def test_a_row_with_the_same_score_for_two_classes_is_of_the_first_one():
    # Sums of these products depend on the order in which they are taken.
    values = np.array([0.1, 0.7, 1e3, -1e3, 0.3, 1 / 3, 0.6, 1e-3, 0.9])
    model = cp.LinearClassifier(lam=1.0).fit(np.eye(9)[:6], [0, 0, 1, 1, 2, 2])
    model.coef_ = np.array([values, values[::-1], values])
    model.intercept_ = np.zeros(3)
    many = np.tile(np.ones(9), (37, 1))
    scores = model.decision_function(many)
    assert (scores[:, 0] == scores[:, 2]).all()
    expected = 1 if scores[0, 1] > scores[0, 0] else 0
    for batch in (many, many[:1], many[:2], np.asfortranarray(many), sp.csr_array(many)):
        assert (model.predict(batch) == expected).all()
    model.coef_[:] = values
    assert (model.predict(many) == 0).all()


@every_estimator
def test_a_second_fit_is_the_same(case):
    first, second = fitted(case), fitted(case)
    assert first.coef_.tobytes() == second.coef_.tobytes()
    assert_same(predictions(second, X), predictions(first, X))


def tall(case):
    """Return enough copies of the data for several blocks of work, with targets to match."""
    times = 4 * LEAST_ENTRIES // X.size
    model, targets = ESTIMATORS[case]
    many = {name: np.concatenate([values] * times) for name, values in targets.items()}
    if "qid" in many:
        many["qid"] = np.repeat(np.arange(times * len(X) // 10), 10)
    data = np.tile(X, (times, 1)) + 1e-3 * np.random.default_rng(0).normal(size=(times * 300, 12))
    return model, data, many


@pytest.mark.parametrize("case", ["two classes", "softmax", "regression", "grades"])
@pytest.mark.parametrize("store", [np.asarray, sp.csr_array], ids=["dense", "csr"])
def test_threads_do_not_matter(case, store):
    model, data, targets = tall(case)
    one, *others = (
        clone(model).set_params(n_jobs=n_jobs).fit(store(data), **targets) for n_jobs in (1, 2, 4)
    )
    for other in others:
        assert other.coef_.tobytes() == one.coef_.tobytes()
        assert_same(predictions(other, store(data)), predictions(one, store(data)))


@every_estimator
def test_dense_and_sparse_data_are_the_same_problem(case):
    """Fits may end at other points; each bound holds for the other's objective all the same."""
    model, other = fitted(case), fitted(case, sp.csr_array)
    assert_same(predictions(model, sp.csr_array(X)), predictions(model, X))
    for ours, theirs in zip(
        np.atleast_1d(model.certificate_), np.atleast_1d(other.certificate_), strict=True
    ):
        assert ours.lower_bound <= theirs.objective + 1e-12
        assert theirs.lower_bound <= ours.objective + 1e-12


@pytest.mark.parametrize("loss", [cp.Hinge(), cp.Logistic(), cp.SquaredHinge()])
def test_dense_and_sparse_objectives(loss):
    y = np.where(GRADES > 0, 1.0, -1.0)
    for seed in range(5):
        w = np.random.default_rng(seed).normal(size=N_FEATURES)
        values = [
            cp.ScoredRisk(store(X), y, loss).at(w).value
            for store in (np.ascontiguousarray, np.asfortranarray, sp.csr_array)
        ]
        np.testing.assert_allclose(values, values[0], rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
@every_estimator
def test_many_batches(case, seed):
    rng = np.random.default_rng(seed)
    model = fitted(case)
    other = rng.normal(size=(1_000, N_FEATURES)) * 10.0 ** rng.integers(-6, 7, N_FEATURES)
    assert_batches_do_not_matter(model, other.astype(np.float32 if seed % 2 else np.float64), seed)
