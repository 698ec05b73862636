"""Costs of mistakes: in any form, in all methods, in model files and on the command line."""

import numpy as np
import pytest
from typer.testing import CliRunner

import cutplane as cp
from cutplane.cli.app import app
from cutplane.estimators.classifier import cost_matrix
from cutplane.io.examples import read_costs

pd = pytest.importorskip("pandas")

COSTS = np.array([[0.0, 1.0, 2.0], [0.5, 0.0, 4.0], [3.0, 1.0, 0.0]])
WORDS = np.array(["cat", "cow", "dog"])
NAMED = {
    str(true): {str(said): float(COSTS[i, j]) for j, said in enumerate(WORDS) if i != j}
    for i, true in enumerate(WORDS)
}
MULTI_CLASS = {"crammer_singer": "hinge", "softmax": "logistic"}
every = pytest.mark.parametrize("multi_class", MULTI_CLASS)


def sample(seed=0, n=60):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    y = (X[:, :3] + rng.gumbel(size=(n, 3))).argmax(axis=1)
    y[:3] = [0, 1, 2]
    return X, y


def test_all_forms_are_one_matrix():
    frame = pd.DataFrame(COSTS, index=WORDS, columns=WORDS)
    shuffled = frame.loc[["dog", "cat", "cow"], ["cow", "dog", "cat"]]
    for given in (COSTS, COSTS.tolist(), NAMED, frame, shuffled):
        np.testing.assert_array_equal(cost_matrix(given, WORDS), COSTS)
    numbered = {1: {2: 5.0}, "2": {1.0: 7.0}}
    for classes in (np.array([1, 2]), np.array([1.0, 2.0])):
        np.testing.assert_array_equal(cost_matrix(numbered, classes), [[0.0, 5.0], [7.0, 0.0]])


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        (COSTS[:2, :2], "costs are for 2 classes, there are 3"),
        ({"cat": {"cow": 1.0}}, "what it costs to predict dog where cat is true"),
        (NAMED | {"horse": {"cat": 1.0}}, "a class 'horse' that is none of y"),
        ({"cat": 1.0}, "costs of 'cat' must say what each class costs"),
        (-COSTS, "finite and not negative"),
        (NAMED | {"cat": {"cat": 1.0, "cow": 1.0, "dog": 1.0}}, "the true class must be zero"),
    ],
)
def test_what_are_no_costs_of_these_classes(costs, message):
    X, y = sample()
    model = cp.LinearClassifier(multi_class="crammer_singer", costs=costs)
    with pytest.raises(ValueError, match=message):
        model.fit(X, WORDS[y])


def test_costs_need_all_classes_at_once():
    X, y = sample()
    with pytest.raises(ValueError, match="multi_class='crammer_singer' or 'softmax'"):
        cp.LinearClassifier(costs=COSTS).fit(X, y)


@every
@pytest.mark.parametrize("method", ["auto", "newton", "dual-ascent", "bmrm-line-search", "level"])
def test_all_methods_agree(multi_class, method):
    X, y = sample()
    loss = MULTI_CLASS[multi_class]
    options = {"multi_class": multi_class, "lam": 0.05, "tol": 1e-5, "costs": COSTS}
    one, other = (
        cp.LinearClassifier(loss, method=each, **options).fit(X, y).certificate_
        for each in (method, "bmrm")
    )
    assert one.status is other.status is cp.Status.OPTIMAL
    assert one.lower_bound <= other.objective
    assert other.lower_bound <= one.objective


@every
def test_rare_costly_mistakes_become_rarer(multi_class):
    X, y = sample(1, n=600)
    costs = 1.0 - np.eye(3)
    costs[2, 0] = 20.0
    loss = MULTI_CLASS[multi_class]
    plain, careful = (
        cp.LinearClassifier(loss, multi_class=multi_class, lam=0.1, costs=given).fit(X, y)
        for given in (None, costs)
    )
    mistakes = [np.sum((y == 2) & (model.predict(X) == 0)) for model in (plain, careful)]
    assert mistakes[1] < mistakes[0]


@every
def test_files_keep_them(multi_class, tmp_path):
    X, y = sample()
    loss = MULTI_CLASS[multi_class]
    model = cp.LinearClassifier(loss, multi_class=multi_class, costs=NAMED, lam=0.1)
    model.fit(X, WORDS[y])
    np.testing.assert_array_equal(model.costs_, COSTS)
    cp.save_model(model, tmp_path / "model")
    again = cp.load_model(tmp_path / "model")
    np.testing.assert_array_equal(again.costs_, COSTS)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    again.fit(X, WORDS[y])
    np.testing.assert_array_equal(again.coef_, model.coef_)
    plain = cp.LinearClassifier(lam=0.1).fit(X, y)
    cp.save_model(plain, tmp_path / "plain")
    assert cp.load_model(tmp_path / "plain").costs_ is None


def test_lam_by_cross_validation_takes_them_along():
    X, y = sample()
    model = cp.LinearClassifierCV(
        multi_class="crammer_singer", costs=COSTS, lams=[1.0, 0.1], cv=2
    ).fit(X, y)
    plain = cp.LinearClassifier(multi_class="crammer_singer", costs=COSTS, lam=model.lam_)
    bounds = plain.fit(X, y).certificate_, model.certificate_
    assert bounds[0].lower_bound <= bounds[1].objective
    assert bounds[1].lower_bound <= bounds[0].objective


def run(tmp_path, table, *more):
    (tmp_path / "costs.csv").write_text(table)
    rows = [f"{label} 1:{i} 2:{i * i % 5}" for i, label in enumerate(["1", "2", "3"] * 4)]
    (tmp_path / "train.svm").write_text("\n".join(rows) + "\n")
    command = ["fit", str(tmp_path / "train.svm"), "--costs", str(tmp_path / "costs.csv"), *more]
    return CliRunner().invoke(app, command)


AT_ONCE = ("--multi-class", "crammer_singer", "--lam", "0.1", "--quiet")
TABLE = ",1,2,3\n1,0,1,2\n2,1,0,1\n3,5,1,0\n"


def test_command_line(tmp_path):
    model = tmp_path / "model"
    result = run(tmp_path, TABLE, *AT_ONCE, "--out", str(model))
    assert result.exit_code == 0, result.output
    np.testing.assert_array_equal(
        cp.load_model(model).costs_, [[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [5.0, 1.0, 0.0]]
    )
    assert read_costs(tmp_path / "costs.csv")["3"]["1"] == 5.0


@pytest.mark.parametrize(
    ("table", "more", "message"),
    [
        ("", AT_ONCE, "costs.csv: no costs"),
        ("\n,1,1\n", AT_ONCE, "line 1: no classes, or one of them twice"),
        (TABLE + "3,5,1,0\n", AT_ONCE, "line 5: class 3 has two lines"),
        (",1,2,3\n1,0,1\n", AT_ONCE, "line 2: 2 costs for 3 classes"),
        (",1,2,3\n1,0,1,x\n", AT_ONCE, "line 2: a cost is no number"),
        (",1,2,4\n1,0,1,1\n2,1,0,1\n4,1,1,0\n", AT_ONCE, "a class '4' that is none of y"),
        (TABLE, (), "--costs is for --multi-class crammer_singer or softmax"),
    ],
)
def test_bad_tables(tmp_path, table, more, message):
    result = run(tmp_path, table, *more)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())
