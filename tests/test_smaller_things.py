"""Things that new users stumbled over, one test for each; most have more tests elsewhere."""

import json
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import cutplane as cp
from cutplane.cli.app import app
from cutplane.io import TraceWriter, read_trace

ROOT = Path(__file__).parents[1]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = (X[:, 0] > 0).astype(int)


def cutplane(*arguments, stdin=None):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)
    assert result.exit_code == 0, result.stderr
    return result


def risk():
    return cp.ScoredRisk(X, 2.0 * Y - 1.0, cp.Hinge())


def test_a_number_of_lams_is_how_many():
    assert len(cp.LinearClassifierCV(lams=10, cv=2, tol=0.01).fit(X, Y).lams_) == 10


def test_quantiles_from_the_command_line_and_in_files(tmp_path):
    data, model = tmp_path / "d.svm", tmp_path / "m"
    data.write_text("".join(f"{k % 7}.5 1:{k % 5} 2:{k % 3}\n" for k in range(40)))
    how = ("--task", "quantiles", "--quantiles", "0.2,0.8", "--tol", 0.01, "--out", model, "-q")
    cutplane("fit", data, *how)
    loaded = cp.load_model(model)
    assert isinstance(loaded, cp.LinearQuantiles)
    lines = cutplane("predict", model, data, "-q").stdout.splitlines()
    assert [len(line.split()) for line in lines] == [2] * 40


def test_many_labels_from_the_command_line_and_in_files(tmp_path):
    data, model = tmp_path / "d.svm", tmp_path / "m"
    labels = ["red", "red,round", "", "round"]
    rows = ["1:1", "1:1 2:1", "3:1", "2:1"]
    text = "".join(f"{label} {row}\n" for label, row in zip(labels, rows, strict=True)) * 5
    data.write_text(text)
    cutplane("fit", data, "--task", "multilabel", "--lam", 0.001, "--out", model, "-q")
    assert isinstance(cp.load_model(model), cp.MultilabelClassifier)
    assert cutplane("predict", model, data).stdout.splitlines() == labels * 5
    unlabeled = re.sub(r"^\S* ", "", text, flags=re.MULTILINE)
    assert cutplane("predict", model, "-", stdin=unlabeled).stdout.splitlines() == labels * 5


def test_min_count_is_for_dictionaries_too():
    tokens = [[{"a": 1}, {"b": 1}], [{"a": 1}]]
    tagger = cp.SequenceTagger(min_count=2).fit(tokens, [["x", "y"], ["x"]])
    assert tagger.vectorizer_.feature_names_ == ["a"]


def test_parameters_that_a_loss_does_not_use_are_told():
    with pytest.warns(cp.UnusedParameterWarning, match=r"beta=3.0 has no effect"):
        cp.LinearClassifier("hinge", beta=3.0).fit(X, Y)


def test_groups_of_documents_as_in_lightgbm():
    sizes = [10, 25, 5]
    by_group = cp.LinearRanker(lam=0.1).fit(X, Y, group=sizes)
    by_query = cp.LinearRanker(lam=0.1).fit(X, Y, qid=np.repeat([7, 8, 9], sizes))
    np.testing.assert_array_equal(by_group.coef_, by_query.coef_)
    scores = (
        by_group.score(X, Y, group=sizes),
        by_query.score(X, Y, qid=np.repeat([1, 2, 3], sizes)),
    )
    assert scores[0] == scores[1]
    for group, said in (
        ([10, 25], "group has 35 documents in all, X has 40 rows"),
        ([40, 0], "at least 1"),
        ([1.5, 38.5], "number of documents"),
    ):
        with pytest.raises(ValueError, match=said):
            cp.LinearRanker().fit(X, Y, group=group)
    with pytest.raises(ValueError, match="give qid or group, not both"):
        cp.LinearRanker().fit(X, Y, group=sizes, qid=np.zeros(40))


def test_a_missing_query_is_refused():
    with pytest.raises(ValueError, match="qid has a missing value in row 3"):
        cp.LinearRanker().fit(X, Y, qid=[1.0, 1.0, 2.0, np.nan] + [3.0] * 36)


def test_the_method_is_told(tmp_path):
    assert cp.LinearClassifier(method="level").fit(X, Y).method_ == "level"
    data = tmp_path / "d.svm"
    data.write_text("1 1:1\n0 1:-1\n1 1:2\n0 1:-2\n")
    report = json.loads(cutplane("fit", data, "--method", "level", "--json", "-q").stdout)
    assert report["method"] == "level"


def test_minimize_by_name_and_with_progress(capsys):
    by_name = cp.minimize(risk(), cp.L2(0.1), method="level", verbose=1)
    assert capsys.readouterr().out.split()[:2] == ["iteration", "objective"]
    by_hand = cp.minimize(risk(), cp.L2(0.1), method=cp.level())
    np.testing.assert_array_equal(by_name.w, by_hand.w)
    with pytest.raises(ValueError, match="unknown method 'levle': known are auto, bmrm"):
        cp.minimize(risk(), cp.L2(0.1), method="levle")


def test_traces_are_public(tmp_path):
    with TraceWriter(tmp_path / "run.jsonl") as trace:
        result = cp.minimize(risk(), cp.L2(0.1), callbacks=[trace])
    assert [record.objective for record in read_trace(tmp_path / "run.jsonl")] == [
        record.objective for record in result.history
    ]


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (
            lambda: cp.LinearClassifier(lam="auto").fit(X, Y),
            ValueError,
            "lam must be positive and finite, or 'cv'",
        ),
        (
            lambda: cp.minimize(lambda w: (w @ w, 2 * w), 1e-3),
            TypeError,
            r"regularizer must be one, such as cp.L2\(0.001\), got a number",
        ),
        (
            lambda: cp.LinearClassifier(callbacks=print).fit(X, Y),
            ValueError,
            "callbacks must be a sequence of callables",
        ),
        (
            lambda: cp.minimize(risk(), cp.L2(0.1), callbacks=print),
            TypeError,
            "callbacks must be a list of functions",
        ),
        (
            lambda: cp.LinearRegressor("quantile", quantile="0.9").fit(X, Y),
            ValueError,
            "quantile must be a number, got '0.9'",
        ),
        (
            lambda: cp.SequenceTagger().fit([[{"a": 1}, {"b": None}]], [["x", "y"]]),
            ValueError,
            "feature 'b' of token 1 is None: leave it out",
        ),
        (
            lambda: cp.LinearClassifier().fit([[1.0, None], [2.0, 3.0]], [0, 1]),
            ValueError,
            "contains NaN",
        ),
        (
            lambda: cp.LinearClassifier("quantile").fit(X, Y),
            ValueError,
            "'quantile' is a loss of LinearRegressor; LinearClassifier has hinge",
        ),
        (
            lambda: cp.LinearClassifier().fit(X, Y).predict_proba(X),
            AttributeError,
            "'hinge' implies no probabilities: fit with loss='logistic', or calibrate",
        ),
    ],
)
def test_messages_say_what_to_do(call, error, said):
    with pytest.raises(error, match=said):
        call()


def test_probabilities_that_are_not_there_are_no_attribute():
    assert not hasattr(cp.LinearClassifier().fit(X, Y), "predict_proba")
    fitted = cp.LinearClassifier("logistic").fit(X, Y)
    np.testing.assert_allclose(np.exp(fitted.predict_log_proba(X)), fitted.predict_proba(X))
    assert "probability" in cp.LinearClassifier.predict_proba.__doc__


def test_predict_takes_lines_without_labels_and_prints_them_as_they_stood(tmp_path):
    data, model = tmp_path / "d.svm", tmp_path / "m"
    data.write_text("+1 1:2 2:1\n-1 1:-1\n+1 1:3\n-1 2:-2\n+1 1:1.5\n-1 1:-2\n")
    cutplane("fit", data, "--lam", 0.1, "--out", model, "-q")
    expected = ["+1", "-1", "+1", "-1", "+1", "-1"]
    assert cutplane("predict", model, data).stdout.split() == expected
    unlabeled = re.sub(r"^\S+ ", "", data.read_text(), flags=re.MULTILINE)
    assert cutplane("predict", model, "-", stdin=unlabeled).stdout.split() == expected
    with_comments = unlabeled.replace("\n", " # so\n").replace("1:3", "\t qid:7 1:3")
    assert cutplane("predict", model, "-", stdin=with_comments).stdout.split() == expected


def test_labels_of_a_table_are_printed_as_they_stood(tmp_path):
    pytest.importorskip("pandas")
    data, model = tmp_path / "d.csv", tmp_path / "m"
    data.write_text("x,y\n" + "".join(f"{k},{['01', '02'][k > 9]}\n" for k in range(20)))
    cutplane("fit", data, "--target", "y", "--out", model, "-q")
    assert set(cutplane("predict", model, data).stdout.split()) == {"01", "02"}


def test_labels_are_still_needed_to_learn_from(tmp_path):
    (tmp_path / "d.svm").write_text("1:2 2:1\n1:3\n")
    result = CliRunner().invoke(app, ["fit", str(tmp_path / "d.svm")])
    assert result.exit_code == 2
    assert "the label is missing" in result.stderr


def test_one_column_is_no_columns(tmp_path):
    train, data = tmp_path / "t.txt", tmp_path / "d.txt"
    train.write_text("a b X\nc d Y\n")
    data.write_text("a b X\nc\n")
    result = CliRunner().invoke(app, ["fit", str(data), "--task", "sequences"])
    assert "1 column, but the first line has 3" in result.stderr


def test_progress_names_the_class(tmp_path, capsys):
    labels = np.array(["ash", "elm", "oak"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cp.LinearClassifier(lam=0.01, verbose=1).fit(X, labels)
    printed = capsys.readouterr().out
    for line in ("class ash (1 of 3)", "class elm (2 of 3)", "class oak (3 of 3)"):
        assert printed.count(line) == 1


def test_numbers_to_predict_are_not_taken_for_classes(tmp_path):
    data = tmp_path / "d.svm"
    data.write_text("".join(f"{k}.25 1:{k}\n" for k in range(30)))
    result = CliRunner().invoke(app, ["fit", str(data)])
    assert "try --task regression" in result.stderr


def test_all_curves_of_the_lower_bound_are_seen():
    """Curves that coincide differ in width and marks, so that none hides another."""
    pytest.importorskip("matplotlib")
    from cutplane.papers import EXPERIMENTS
    from cutplane.papers.bundles import VARIANTS

    experiment = EXPERIMENTS["lower-bound"]
    rows = [
        {"method": variant.name, "eps": eps, "iterations": 1 / eps}
        for variant in VARIANTS
        for eps in (0.1, 0.01)
    ]
    lines = [line for line in experiment.picture(rows).axes[0].lines if line.get_marker() != "None"]
    assert len(lines) == len(VARIANTS)
    assert len({line.get_marker() for line in lines}) == len(VARIANTS)
    widths = [line.get_linewidth() for line in lines]
    assert widths == sorted(widths, reverse=True)
    assert len(set(widths)) == len(widths)


def test_the_picture_in_the_readme_is_of_the_command_beside_it(tmp_path, monkeypatch):
    """Drawn again by the commands of the page, it has the same title."""
    text = (ROOT / "README.md").read_text()
    command = re.search(r"cutplane fit (\S+) .*--plot convergence.png", text)
    assert command, "the README draws its picture"
    assert "docs/images/convergence.png" in text
