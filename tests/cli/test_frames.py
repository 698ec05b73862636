"""Sequences of vectors on the command line: fit, predict and evaluate hidden Markov models."""

import gzip
import json
from collections import Counter

import numpy as np
import pytest

import cutplane as cp
from cutplane.io import load_model, read_frames, save_model

from ..estimators.test_hmm import sentences, words

TASKS = {"hmm-classification": cp.HMMClassifier, "hmm-tagging": cp.HMMTagger}
QUICK = ["--n-states", 2, "--tol", 0.1]
both = pytest.mark.parametrize("task", TASKS)


def text(task, seed=0, *, labels=True, separator=" "):
    X, y = words(45, seed) if task == "hmm-classification" else sentences(15, seed)
    if task == "hmm-classification":
        y = [[label] * len(x) for label, x in zip(y, X, strict=True)]
    return "\n".join(
        "".join(
            separator.join([*[label] * labels, *map(repr, frame.tolist())]) + "\n"
            for label, frame in zip(tags, frames, strict=True)
        )
        for tags, frames in zip(y, X, strict=True)
    )


@pytest.fixture
def data(tmp_path):
    """Return a function that writes a file for a task."""

    def write(task, *, name="data", **options):
        path = tmp_path / f"{name}-{task}"
        path.write_text(text(task, **options))
        return path

    return write


@pytest.fixture
def model(run, data, tmp_path):
    """Return a function that fits a model of a task."""

    def fit(task):
        path = tmp_path / f"{task}.model"
        assert run("fit", data(task), "--task", task, *QUICK, "--out", path, "-q").exit_code == 0
        return path

    return fit


def given(task, path):
    read = read_frames(path)
    return read.sequences, read.classes() if task == "hmm-classification" else read.cut(read.labels)


@both
def test_fit_agrees_with_the_estimator(run, data, task):
    path = data(task)
    options = ["--n-components", 2, "--covariance", "shared", "--topology", "ergodic"]
    options += ["--margin", 3, "--lam", 2, "--likelihood-iter", 4, "--variance-floor", 0.02]
    result = run("fit", path, "--task", task, *QUICK, *options, "--json", "-q")
    assert result.exit_code == 0
    report = json.loads(result.stdout)
    X, y = given(task, path)
    fitted = TASKS[task](
        2, n_components=2, covariance="shared", topology="ergodic", margin=3.0, lam=2.0,
        likelihood_iter=4, variance_floor=0.02, tol=0.1,
    ).fit(X, y)  # fmt: skip
    assert report["objective"] == fitted.certificate_.objective
    assert (report["estimator"], report["loss"]) == (TASKS[task].__name__, "margin")
    assert (report["n_samples"], report["n_frames"]) == (len(X), sum(map(len, X)))
    assert (report["n_features"], report["status"], report["valid"]) == (2, "stationary", False)


@both
def test_summary(run, data, task):
    result = run("fit", data(task), "--task", task, *QUICK)
    assert result.exit_code == 0
    X, _ = given(task, data(task))
    said = f"data       {len(X)} sequences, {sum(map(len, X))} frames, 2 features, 3 classes (down,"
    assert said in result.stdout
    assert "nothing is proven" in " ".join(result.stdout.split())


@both
@pytest.mark.parametrize("labels", [True, False])
def test_predict(run, data, model, task, labels):
    path, estimator = model(task), load_model(model(task))
    other = data(task, seed=1, labels=labels, separator=",", name="other")
    printed = run("predict", path, other).stdout
    X = read_frames(other, n_features=2, labels=False).sequences
    if task == "hmm-classification":
        assert printed.splitlines() == estimator.predict(X).tolist()
    else:
        blocks = [block.split("\n") for block in printed.removesuffix("\n\n").split("\n\n")]
        assert blocks == [tags.tolist() for tags in estimator.predict(X)]


def test_scores(run, data, model):
    path = model("hmm-classification")
    result = run("predict", path, data("hmm-classification"), "--scores")
    assert result.stderr == "columns: down flat up\n"
    X, _ = given("hmm-classification", data("hmm-classification"))
    scores = [[*map(float, line.split())] for line in result.stdout.splitlines()]
    np.testing.assert_array_equal(scores, load_model(path).decision_function(X))


def test_evaluate_classes(run, data, model):
    path, other = model("hmm-classification"), data("hmm-classification", seed=1, name="other")
    report = json.loads(run("evaluate", path, other, "--json").stdout)
    X, y = given("hmm-classification", other)
    assert report["accuracy"] == load_model(path).score(X, y)
    assert (report["n_samples"], report["classes"]) == (45, ["down", "flat", "up"])


def test_evaluate_segments(run, data, model):
    path, other = model("hmm-tagging"), data("hmm-tagging", seed=1, name="other")
    report = json.loads(run("evaluate", path, other, "--json").stdout)
    X, y = given("hmm-tagging", other)
    estimator = load_model(path)
    assert report["accuracy"] == estimator.score(X, y)
    counts = cp.metrics.count_segments(y, estimator.predict(X))
    frames = {row["label"]: row["frames"] for row in report.pop("per_label")}
    assert frames == dict(Counter(label for labels in y for label in labels))
    assert report == {
        "n_samples": 15,
        "n_frames": sum(map(len, X)),
        "n_segments": counts.there,
        "accuracy": report["accuracy"],
        "segment_error_rate": counts.error_rate,
    }
    words = run("evaluate", path, other).stdout.splitlines()
    assert [line.split("  ")[0] for line in words[:7]] == [
        "samples", "frames", "segments", "accuracy", "segment error rate", "", "label"
    ]  # fmt: skip


@both
def test_models_of_python_and_labels_that_are_numbers(run, tmp_path, task):
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(6, 1)) + 3.0 * (i % 2) for i in range(10)]
    y = np.arange(10) % 2 if task == "hmm-classification" else [[i % 2] * 6 for i in range(10)]
    save_model(TASKS[task](1, tol=0.1).fit(X, y), tmp_path / "model")
    path = tmp_path / "data.gz"
    lines = "\n".join("".join(f"{i % 2}\t{float(x)!r}\n" for x in X[i][:, 0]) for i in range(10))
    path.write_bytes(gzip.compress(lines.encode()))
    assert json.loads(run("evaluate", tmp_path / "model", path, "--json").stdout)["accuracy"] > 0.9
    assert (
        run("fit", path, "--task", task, *QUICK, "--out", tmp_path / "again", "-q").exit_code == 0
    )
    assert load_model(tmp_path / "again").classes_.tolist() == [0, 1]
    assert set(run("predict", tmp_path / "again", path).stdout.split()) == {"0", "1"}


def test_standard_input(run):
    result = run("fit", "-", "--task", "hmm-tagging", *QUICK, "--json", stdin=text("hmm-tagging"))
    assert result.exit_code == 0
    assert json.loads(result.stdout)["n_samples"] == 15


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--n-states", 0], "--n-states must be a whole number above 0, not 0"),
        (["--margin", 0], "--margin must be positive and finite, not 0"),
        (["--variance-floor", 2], "--variance-floor must be above 0 and at most 1, not 2"),
        (["--topology", "ring"], "--topology: unknown name 'ring'; choose from left-to-right"),
        (["--method", "bmrm"], "--method: unknown name 'bmrm'; choose from auto, nrbm, nbm"),
        (["--loss", "crf"], "--loss crf is for sequences; losses for hmm-tagging are margin"),
        (["--C", 1], "--C is not for --task hmm-tagging"),
        (["--features", 2], "--features is not for --task hmm-tagging"),
    ],
)
def test_options_are_checked(complaint, data, options, said):
    path = data("hmm-tagging")
    assert complaint("fit", path, "--task", "hmm-tagging", *options).startswith(said)


def test_options_of_others(complaint, two_classes):
    assert complaint("fit", two_classes, "--n-states", 2) == (
        "--n-states is not for --task classification, but for hmm-classification and hmm-tagging"
    )


def test_what_does_not_suit(run, complaint, data, model, tmp_path):
    classifier, tagger = model("hmm-classification"), model("hmm-tagging")
    tags = data("hmm-tagging")
    said = complaint("fit", tags, "--task", "hmm-classification")
    assert "all frames of a sequence must have its class" in said
    assert complaint("evaluate", classifier, tags) == said
    wide, strange, single = (tmp_path / name for name in ("wide", "strange", "single"))
    wide.write_text("a 1 2 3\n")
    assert complaint("predict", tagger, wide) == (
        f"{wide}:1: 4 columns; expected a label and 2 numbers, or the numbers alone"
    )
    strange.write_text("x 1 2\n")
    assert complaint("evaluate", tagger, strange).startswith(
        f"{strange}: the model knows none of the labels: it knows down, flat, up"
    )
    single.write_text("a 1\na 2\n\na 3\n")
    assert complaint("fit", single, "--task", "hmm-classification") == (
        f"{single}: all labels are a; classification needs two classes"
    )
    assert run("fit", single, "--task", "hmm-tagging", *QUICK, "-q").exit_code == 0
    assert complaint("predict", tagger, tags, "--scores") == "--scores: a HMMTagger has none"
