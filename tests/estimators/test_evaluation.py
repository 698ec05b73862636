"""``cp.evaluate``: all measures that go with an estimator's predictions."""

import json

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import cutplane as cp


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    return X, X[:, 0] + 0.3 * rng.normal(size=80)


def test_probabilities_are_judged_where_the_loss_implies_them(rows):
    X, y = rows
    labels = np.where(y > 0, "yes", "no")
    logistic = cp.evaluate(cp.LinearClassifier("logistic", lam=0.01).fit(X, labels), X, labels)
    hinge = cp.evaluate(cp.LinearClassifier("hinge", lam=0.01).fit(X, labels), X, labels)
    assert {"brier", "log_loss", "calibration"} <= logistic.measures.keys()
    assert not {"brier", "log_loss", "calibration"} & hinge.measures.keys()
    assert logistic["positive_class"] == "yes"
    assert "Brier score" in str(logistic)
    assert "accuracy=" in repr(hinge)


def test_the_positive_class_may_be_the_first(rows):
    X, y = rows
    labels = np.where(y > 0, "yes", "no")
    model = cp.LinearClassifier("logistic", lam=0.01, pos_label="no").fit(X, labels)
    found = cp.evaluate(model, X, labels)
    other = cp.evaluate(model.set_params(pos_label=None).fit(X, labels), X, labels)
    assert found["positive_class"] == "no"
    assert found["recall"] == found["per_class"][0]["recall"]
    # Both look at the same model from its two sides.
    assert found["roc_area"] == pytest.approx(other["roc_area"])
    assert found["brier"] == pytest.approx(other["brier"])


def test_a_pipeline_is_its_last_step(rows):
    X, y = rows
    piped = make_pipeline(StandardScaler(), cp.LinearRegressor("absolute", lam=0.01)).fit(X, y)
    scaled = StandardScaler().fit_transform(X)
    assert cp.evaluate(piped, X, y) == cp.evaluate(piped[-1], scaled, y)
    alone = make_pipeline(cp.LinearRegressor(lam=0.01)).fit(X, y)
    assert cp.evaluate(alone, X, y)["mae"] > 0


def test_a_quantile_has_a_coverage(rows):
    X, y = rows
    model = cp.LinearRegressor("quantile", quantile=0.9, lam=1e-4).fit(X, y)
    found = cp.evaluate(model, X, y)
    assert found["quantile"] == 0.9
    assert found["coverage"] == pytest.approx(np.mean(y <= model.predict(X)))
    assert 0.8 <= found["coverage"] <= 1.0


def test_quantiles_and_sets_of_labels(rows):
    X, y = rows
    found = cp.evaluate(cp.LinearQuantiles([0.1, 0.9], lam=1e-4).fit(X, y), X, y)
    assert [row["quantile"] for row in found["per_quantile"]] == [0.1, 0.9]
    sets = (X > 0).astype(int)
    found = cp.evaluate(cp.MultilabelClassifier(lam=1e-3).fit(X, sets), X, sets)
    assert found["n_labels"] == 3
    assert found["micro_f1"] > 0.9


def test_rankings(rows):
    X, y = rows
    relevance, qid = (y > 0).astype(float), np.arange(80) // 8
    model = cp.LinearRanker(lam=1e-3).fit(X, relevance, qid=qid)
    found = cp.evaluate(model, X, relevance, qid=qid, at=[7, 2, 2], bootstrap=20)
    assert [row["k"] for row in found["at"]] == [2, 7]
    assert found["intervals"]["unit"] == "queries"
    low, high = found["intervals"]["ndcg_2"]
    assert 0 < low <= high <= 1
    with pytest.raises(ValueError, match="qid is needed"):
        cp.evaluate(model, X, relevance)
    with pytest.raises(ValueError, match="79 queries for 80 documents"):
        cp.evaluate(model, X, relevance, qid=qid[1:])
    with pytest.raises(ValueError, match="at must be"):
        cp.evaluate(model, X, relevance, qid=qid, at=[0])


def test_everything_is_plain(rows):
    X, y = rows
    labels = np.digitize(y, [-0.5, 0.5]).astype(np.int32)
    model = cp.LinearClassifier("logistic", lam=0.01).fit(X, labels)
    found = cp.evaluate(model, X, labels, bootstrap=10)
    assert json.loads(json.dumps(found.measures, allow_nan=False)) == found.measures


def test_labels_are_text_in_notebooks(rows):
    X, y = rows
    labels = np.where(y > 0, "<script>alert(1)</script>", "a & b")
    page = cp.evaluate(cp.LinearClassifier(lam=0.01).fit(X, labels), X, labels)._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "a &amp; b" in page


def test_wrong_arguments(rows):
    X, y = rows
    model = cp.LinearRegressor(lam=0.01).fit(X, y)
    with pytest.raises(ValueError, match="qid is for rankers"):
        cp.evaluate(model, X, y, qid=np.zeros(80))
    with pytest.raises(ValueError, match="bootstrap must not be negative"):
        cp.evaluate(model, X, y, bootstrap=-1)
    with pytest.raises(ValueError, match="level must be between 0 and 1"):
        cp.evaluate(model, X, y, level=1.0)
    with pytest.raises(TypeError, match="not an estimator of cutplane: StandardScaler"):
        cp.evaluate(StandardScaler().fit(X), X, y)
    with pytest.raises(TypeError, match="no measures for a NoveltyDetector"):
        cp.evaluate(cp.NoveltyDetector().fit(X + 5), X, y)


def test_kernel_machines_of_numbers(rows):
    X, y = rows
    model = cp.KernelRegressor("absolute", lam=0.01).fit(X, y)
    found = cp.evaluate(model, X, y)
    assert found["mean_loss"] == pytest.approx(np.abs(model.predict(X) - y).mean(), rel=1e-12)
