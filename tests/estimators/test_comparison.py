"""``cp.compare``: methods side by side, and scikit-learn's models with the same objective."""

import csv
import io
import json
import math
import signal

import numpy as np
import pytest

import cutplane as cp
from cutplane.core.certificate import Record
from cutplane.estimators.comparison import Comparison, Entry


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 4))
    return X, np.sign(X[:, 0] + rng.normal(size=120))


@pytest.fixture(scope="module")
def problem(data):
    X, y = data
    return cp.Problem(cp.ScoredRisk(cp.as_rows(X), y, cp.Hinge()), cp.L2(0.01))


def test_methods_on_a_problem(problem):
    found = cp.compare(problem, ["bmrm", cp.level(), "newton"], tol=1e-5)
    rows = found.rows()
    assert [row["method"] for row in rows] == ["bmrm", "level", "newton"]
    for row in rows:
        assert row["status"] == "optimal"
        assert 0 <= row["gap"] <= 1e-5
        # The best bound of all is at least as good as the method's own.
        assert -1e-12 <= row["above"] <= row["gap"] + 1e-12
        assert row["lower_bound"] <= found.lower_bound <= row["objective"] * (1 + 1e-12)
    assert problem.risk.evaluations > 0


def test_names_and_mappings(problem):
    found = cp.compare(problem, [cp.bmrm(), cp.bmrm(planes=5)])
    assert [entry.method for entry in found.entries] == ["bmrm", "bmrm #2"]
    found = cp.compare(problem, {"mine": cp.bmrm(), "yours": "level"}, max_iter=2, tol=1e-9)
    assert [row["status"] for row in found.rows()] == ["iteration_limit"] * 2
    assert [row["method"] for row in found.rows()] == ["mine", "yours"]


def test_a_method_that_cannot_be_used_says_why(data):
    X, y = data
    f1 = cp.LinearClassifier("f1", lam=0.1)
    found = cp.compare(f1, ["newton", "bmrm"], X, y)
    newton, bmrm = found.rows()
    assert newton["status"] == "not used"
    assert "second derivatives" in newton["note"]
    assert bmrm["status"] == "optimal"
    assert "newton: " in found.table()
    with pytest.raises(ValueError, match="second derivatives"):
        cp.compare(f1, ["newton"], X, y)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(
    "loss",
    ["hinge", "squared_hinge", "logistic", "squared", "absolute", "epsilon_insensitive",
     "squared_epsilon_insensitive"],
)  # fmt: skip
def test_peers_have_the_same_objective(data, loss, intercept):
    X, y = data
    kind = cp.LinearClassifier if loss in cp.LinearClassifier.description.losses else None
    kind = kind or cp.LinearRegressor
    model = kind(loss, lam=0.05, fit_intercept=intercept, tol=1e-6)
    own, *peers = cp.compare(model, ["auto"], X, y, peers=True).rows()
    assert own["status"] == "optimal"
    assert peers
    for row in peers:
        assert row["above"] >= -1e-12
        if row["method"] != "SGDClassifier":
            # An intercept that is regularized leads elsewhere, but not far.
            assert row["above"] <= (0.02 if intercept else 1e-3), row


def test_a_turned_class_has_peers_too(data):
    X, y = data
    model = cp.LinearClassifier("hinge", lam=0.05, pos_label=-1.0, tol=1e-6)
    _, svc, _ = cp.compare(model, ["auto"], X, y, peers=True).rows()
    assert svc["method"] == "LinearSVC"
    assert svc["above"] <= 0.02


def test_where_there_are_no_peers(data):
    X, y = data
    for model in (cp.LinearClassifier("logistic", lam=0.1, class_weight="balanced"),
                  cp.LinearClassifier("roc_area", lam=0.1)):  # fmt: skip
        *_, last = cp.compare(model, ["auto"], X, y, peers=True).rows()
        assert "there are none" in last["note"]
    ranker, qid = cp.LinearRanker(lam=0.1), np.arange(120) // 10
    found = cp.compare(ranker, ["bmrm"], X, y + 1, fit_params={"qid": qid}, peers=True)
    assert [row["status"] for row in found.rows()] == ["optimal", "not used"]


def test_several_problems_are_means(data):
    X, _ = data
    y = np.arange(120) % 3
    model = cp.LinearClassifier("logistic", lam=0.1)
    (row,) = cp.compare(model, ["newton"], X, y).rows()
    fitted = model.set_params(method="newton").fit(X, y)
    objectives = [own.objective for own in fitted.certificate_]
    assert row["objective"] == pytest.approx(np.mean(objectives), rel=1e-6)


def test_ctrl_c_keeps_what_was_run(problem):
    pressed = []

    class Press:
        """A risk at which Ctrl-C is pressed once, in the second run."""

        def __getattr__(self, name):
            return getattr(problem.risk, name)

        def at(self, w):
            pressed.append(1)
            if len(pressed) == 25:
                signal.raise_signal(signal.SIGINT)
            return problem.risk.at(w)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        found = cp.compare(
            cp.Problem(Press(), cp.L2(1e-4)), ["bmrm", "level", "proximal"], tol=1e-12
        )
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(found.entries) < 3
    assert found.rows()[-1]["status"] == "interrupted"


def test_wrong_arguments(problem, data):
    with pytest.raises(ValueError, match="list of names"):
        cp.compare(problem, "bmrm")
    with pytest.raises(ValueError, match="no method"):
        cp.compare(problem, [])
    with pytest.raises(ValueError, match="are for an estimator"):
        cp.compare(problem, ["bmrm"], peers=True)
    with pytest.raises(ValueError, match="give X and y"):
        cp.compare(cp.LinearClassifier(), ["bmrm"])
    with pytest.raises(TypeError, match="must be a Problem or an estimator"):
        cp.compare(3, ["bmrm"])
    with pytest.raises(ValueError, match="bmrn"):
        cp.compare(problem, ["bmrn"])


def made(method="a_b & <c>", **certificate):
    records = [Record(i, 2.0 + 1 / i, 1.0, i, i, 0.1 * i) for i in range(1, 4)]
    known = cp.Certificate(2.0 + 1 / 3, 2.0, cp.Status.OPTIMAL, True)
    return Comparison("t", [Entry(method, records, known), Entry("other", note="can't, 100%")])


def test_formats():
    found = made()
    rows = json.loads(found.table("json"))["rows"]
    assert rows == found.rows()
    assert rows[0]["gap"] == pytest.approx((1 / 3) / (2 + 1 / 3))
    read = list(csv.DictReader(io.StringIO(found.table("csv"))))
    assert [row["method"] for row in read] == ["a_b & <c>", "other"]
    assert float(read[0]["objective"]) == rows[0]["objective"]
    assert read[1]["note"] == "can't, 100%"
    latex = found.table("latex")
    assert r"a\_b \& <c>" in latex
    assert latex.count(r"\\") == 3
    assert found.table() == str(found)
    with pytest.raises(ValueError, match="format must be one of"):
        found.table("xml")


def test_the_page():
    page = made().report().html
    assert 'id="chart-above"' in page
    assert 'id="chart-gap"' in page
    assert "a_b &amp; &lt;c&gt;" in page
    assert "<c>" not in page
    assert "<path" in made()._repr_html_()


def test_without_a_bound_there_is_no_distance():
    records = [Record(1, 2.0, -math.inf, 1, 1, 0.1)]
    found = Comparison("t", [Entry("peer", records)])
    (row,) = found.rows()
    assert row["above"] is None
    assert row["status"] == "no proof"
    assert 'id="chart-above"' not in found.report().html
