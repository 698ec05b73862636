"""``model.report``: a page about every kind of model."""

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import cutplane as cp
from cutplane.estimators.report import report_of
from cutplane.report.page import MOST_BYTES

WICKED = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    return X, X[:, 0] + 0.3 * rng.normal(size=80)


def titles(report):
    return [section.title for section in report.sections]


def test_two_classes(rows):
    X, y = rows
    X = pd.DataFrame(X, columns=["size", WICKED, "c"])
    labels = np.where(y > 0, WICKED, "no")
    model = cp.LinearClassifier("logistic", lam=0.01).fit(X, labels)
    report = model.report(X, labels, bootstrap=10)
    assert titles(report) == [
        "The certificate",
        "The run",
        "Predictions of these data",
        "The data",
        "Largest coefficients",
        "Parameters",
        "Versions",
    ]
    page = report.html
    assert len(page.encode()) < MOST_BYTES
    assert "<img" not in page
    assert "&lt;img" in page
    assert 'id="chart-calibration"' in page
    assert f"{model.certificate_.objective:.8g}" in page
    assert "of the best possible" in page


def test_without_data(rows):
    model = cp.LinearRegressor("absolute", lam=0.01).fit(*rows)
    assert "Predictions of these data" not in titles(model.report())
    assert "feature 0" in model.report().html
    with pytest.raises(ValueError, match="give X and y, or neither"):
        model.report(rows[0])


def test_a_loaded_model_has_no_run(rows, tmp_path):
    model = cp.LinearRegressor("absolute", lam=0.01).fit(*rows)
    cp.save_model(model, tmp_path / "model")
    page = cp.load_model(tmp_path / "model").report(*rows)
    assert "The run" not in titles(page)
    assert "<figure" not in page.html


def test_several_problems(rows):
    X, y = rows
    labels = np.digitize(y, [-0.5, 0.5])
    model = cp.LinearClassifier("logistic", lam=0.01).fit(X, labels)
    page = model.report(X, labels).html
    assert "mean over 3 problems" in page
    assert "means over the problems" in page


def test_many_classes_stay_small():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5))
    y = np.array([f"a rather long name of class {i}" * 8 for i in range(100)])[np.arange(400) % 100]
    model = cp.LinearClassifier("logistic", lam=0.1, multi_class="softmax").fit(X, y)
    page = model.report(X, y, bootstrap=2).html
    assert len(page.encode()) < MOST_BYTES
    assert "and 60 others" in page


def test_quantiles_and_rankings(rows):
    X, y = rows
    model = cp.LinearQuantiles([0.1, 0.9], lam=1e-3).fit(X, y)
    assert 'id="chart-coverage"' in model.report(X, y).html
    relevance, qid = (y > 0).astype(float), np.repeat([f"q{i}" for i in range(10)], 8)
    ranker = cp.LinearRanker(lam=1e-2).fit(X, relevance, qid=qid)
    page = ranker.report(X, relevance, qid=qid).html
    assert 'id="chart-queries"' in page
    assert "The worst queries" in page
    nothing = ranker.report(X, np.zeros(80), qid=qid).html
    assert "No query has a relevant document." in nothing


def test_taggers():
    X = [[{"word": "the"}, {"word": WICKED}], [{"word": WICKED}]] * 4
    y = [["B-NP", "I-NP"], ["B-NP"]] * 4
    tagger = cp.SequenceTagger("crf", lam=0.1).fit(X, y)
    page = tagger.report(X, y).html
    assert "chunks" in page
    assert "word=the" in page
    assert "<img" not in page


def test_a_detector_has_no_measures(rows):
    X = rows[0] + 5
    report = cp.NoveltyDetector().fit(X).report(X, np.zeros(80))
    assert "Predictions of these data" not in titles(report)


def test_a_pipeline_names_its_features(rows):
    X, y = rows
    X = pd.DataFrame(X, columns=["one", "two", "three"])
    piped = make_pipeline(StandardScaler(), cp.LinearRegressor("absolute", lam=0.01)).fit(X, y)
    page = report_of(piped, X, y).html
    assert "three" in page
    assert "feature 0" not in page
    assert "LinearRegressor: optimal" in report_of(piped).html


def test_what_did_not_end_well_says_so(rows):
    model = cp.LinearRegressor("absolute", lam=1e-4, max_iter=1, tol=1e-9, method="bmrm")
    with pytest.warns(cp.estimators.cautions.ConvergenceWarning):
        model.fit(*rows)
    page = model.report().html
    assert 'class="verdict open"' in page
    assert "Tolerance not reached" in page
