"""Sequences on the command line: fit, predict and evaluate columns."""

import json
import math

import numpy as np
import pytest

import cutplane as cp
from cutplane.io import load_model, read_conll

WORDS = {"the": "DT", "old": "JJ", "cat": "NN", "dog": "NN", "sees": "VB", "sleeps": "VB"}


def sentence(rng):
    def phrase():
        words = ["the", *["old"] * int(rng.integers(0, 3)), str(rng.choice(["cat", "dog"]))]
        return [(word, "B-NP" if i == 0 else "I-NP") for i, word in enumerate(words)]

    if rng.random() < 0.5:
        return [*phrase(), ("sleeps", "B-VP")]
    return [*phrase(), ("sees", "B-VP"), *phrase()]


def text(n, seed, *, labels=True):
    rng = np.random.default_rng(seed)
    return "\n".join(
        "".join(
            f"{word} {WORDS[word]}{f' {label}' if labels else ''}\n"
            for word, label in sentence(rng)
        )
        for _ in range(n)
    )


@pytest.fixture
def train(tmp_path):
    path = tmp_path / "train.txt"
    path.write_text(text(30, 0))
    return path


@pytest.fixture
def model(run, train, tmp_path):
    path = tmp_path / "tagger.model"
    result = run("fit", train, "--task", "sequences", "--lam", 0.01, "--out", path, "-q")
    assert result.exit_code == 0
    return path


def test_fit_agrees_with_the_estimator(run, train):
    result = run("fit", train, "--loss", "margin", "--lam", 0.1, "--json", "-q")
    assert result.exit_code == 0
    report = json.loads(result.stdout)
    X, y = read_conll(train).split_labels()
    fitted = cp.SequenceTagger("margin", lam=0.1, templates="chunking", pairs="observed").fit(X, y)
    assert report["objective"] == fitted.certificate_.objective
    assert report["lower_bound"] == fitted.certificate_.lower_bound
    assert report["estimator"] == "SequenceTagger"
    assert (report["n_samples"], report["n_tokens"]) == (30, sum(map(len, y)))
    assert report["n_features"] == fitted.n_features_in_


def test_mean_over_tokens(run, train):
    def objective(*options):
        result = run("fit", train, "--task", "sequences", *options, "--json", "-q")
        assert result.exit_code == 0
        return json.loads(result.stdout)["objective"]

    _, y = read_conll(train).split_labels()
    length = sum(map(len, y)) / len(y)
    by_token = objective("--mean", "token", "--lam", 0.01)
    assert by_token * length == pytest.approx(objective("--lam", 0.01 * length), rel=2e-3)
    assert "did you mean" in run("fit", train, "--task", "sequences", "--mean", "tokens").stderr


def test_summary(run, train):
    result = run("fit", train, "--task", "sequences", "--lam", 0.1, "--C", 3)
    assert result.exit_code == 2
    result = run("fit", train, "--task", "sequences", "--C", 0.5)
    assert result.exit_code == 0
    assert "30 sequences, " in result.stdout
    assert "3 classes (B-NP, B-VP, I-NP)" in result.stdout
    assert f"crf loss, lam = {1 / 15:.6g}" in result.stdout
    assert "Certificate: no weights" in result.stdout


def test_templates_of_a_file(run, train, tmp_path):
    templates, out = tmp_path / "templates", tmp_path / "own.model"
    templates.write_text("# words\nU0:%x[0,0]\nU1:%x[0,1]\n\nB\n")
    options = ["--templates", templates, "--min-count", 5, "--pairs", "all", "--out", out, "-q"]
    assert run("fit", train, "--loss", "crf", "--lam", 0.1, *options).exit_code == 0
    loaded = load_model(out)
    assert (loaded.min_count, loaded.pairs) == (5, "all")
    assert set(loaded.vectorizer_.feature_names_) <= {
        *(f"U0:{word}" for word in WORDS),
        *(f"U1:{tag}" for tag in WORDS.values()),
    }
    assert loaded.coef_.shape == (3, len(loaded.vectorizer_.feature_names_))


def test_predict_adds_a_column(run, model, tmp_path):
    fresh, bare = tmp_path / "fresh.txt", tmp_path / "bare.txt"
    fresh.write_text(text(5, 1))
    bare.write_text(text(5, 1, labels=False))
    lines = run("predict", model, fresh).stdout.splitlines()
    columns = [line.split() for line in lines if line]
    assert [line[:3] for line in columns] == [
        line.split() for line in fresh.read_text().splitlines() if line
    ]
    assert lines.count("") == 5
    # Labels that are there are not looked at.
    assert [line.split()[-1:] for line in run("predict", model, bare).stdout.splitlines()] == [
        line.split()[-1:] for line in lines
    ]
    predicted = load_model(model).predict(read_conll(bare).sequences)
    assert [line[-1] for line in columns] == np.concatenate(predicted).tolist()
    out = tmp_path / "out.txt"
    assert run("predict", model, fresh, "--out", out).exit_code == 0
    assert out.read_text() == run("predict", model, fresh).stdout


def test_probabilities(run, model, train, tmp_path):
    result = run("predict", model, train, "--probabilities")
    assert result.exit_code == 0
    assert result.stderr == "columns: B-NP B-VP I-NP\n"
    rows = [[float(x) for x in line.split()] for line in result.stdout.splitlines() if line]
    assert len(rows) == read_conll(train).n_tokens
    np.testing.assert_allclose(np.sum(rows, axis=1), 1.0)


@pytest.mark.parametrize("loss", ["crf", "margin"])
def test_n_best(run, train, tmp_path, loss):
    model, fresh = tmp_path / "n-best.model", tmp_path / "fresh.txt"
    fit = run("fit", train, "--loss", loss, "--lam", 0.1, "--pairs", "all", "--out", model, "-q")
    assert fit.exit_code == 0
    fresh.write_text(text(2, 1, labels=False) + "\n# SYM\n")  # a token like the line of a rank
    blocks = run("predict", model, fresh, "--n-best", 5).stdout.removesuffix("\n\n").split("\n\n")
    X = read_conll(fresh).sequences
    expected = load_model(model).predict_n_best(X, 5)
    assert [len(ranked) for ranked in expected] == [5, 5, 3]
    assert len(blocks) == 13
    pairs = [
        (x, rank, one)
        for x, all_of_x in zip(X, expected, strict=True)
        for rank, one in enumerate(all_of_x)
    ]
    for block, (x, rank, one) in zip(blocks, pairs, strict=True):
        title, *tokens = block.splitlines()
        mark, said_rank, value = title.split()
        assert (mark, int(said_rank)) == ("#", rank)
        assert float(value) == (math.exp(one.log_probability) if loss == "crf" else one.score)
        assert tokens == [
            " ".join((*token, label)) for token, label in zip(x, one.labels, strict=True)
        ]
    # The first of each is what predict prints without the option.
    first = [
        block.partition("\n")[2]
        for block, (_, rank, _) in zip(blocks, pairs, strict=True)
        if rank == 0
    ]
    assert "\n\n".join(first) + "\n\n" == run("predict", model, fresh).stdout


def test_evaluate(run, model, tmp_path):
    fresh = tmp_path / "fresh.txt"
    fresh.write_text(text(9, 1))
    report = json.loads(run("evaluate", model, fresh, "--json").stdout)
    X, y = read_conll(fresh).split_labels()
    tagger = load_model(model)
    assert report["accuracy"] == tagger.score(X, y)
    assert (report["n_samples"], report["n_tokens"]) == (9, sum(map(len, y)))
    right = [list(a) == list(b) for a, b in zip(tagger.predict(X), y, strict=True)]
    assert report["sequence_accuracy"] == np.mean(right)
    assert [chunk["type"] for chunk in report["chunks"]] == ["all", "NP", "VP"]
    for chunk in report["chunks"]:
        assert chunk["precision"] == chunk["right"] / chunk["predicted"]
        assert chunk["recall"] == chunk["right"] / chunk["there"]
    words = run("evaluate", model, fresh).stdout
    assert "sequence accuracy" in words
    assert words.splitlines()[-1].split()[0] == "VP"


def test_evaluate_labels_that_mark_no_chunks(run, train, tmp_path):
    other, out = tmp_path / "other.txt", tmp_path / "other.model"
    other.write_text(text(20, 2).replace("B-NP", "det").replace("I-NP", "noun"))
    assert run("fit", other, "--loss", "crf", "--lam", 0.1, "--out", out, "-q").exit_code == 0
    report = json.loads(run("evaluate", out, other, "--json").stdout)
    assert set(report) == {"n_samples", "n_tokens", "accuracy", "sequence_accuracy", "per_label"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--task", "sequences", "--loss", "hinge"], "--loss hinge is for classification"),
        (["--task", "regression", "--loss", "crf"], "--loss crf is for sequences"),
        (
            ["--loss", "crf", "--class-weight", "balanced"],
            "--class-weight is not for --task sequences",
        ),
        (["--loss", "crf", "--features", 3], "--features is not for --task sequences"),
        (["--loss", "crf", "--no-intercept"], "--no-intercept is not for --task sequences"),
        (["--loss", "crf", "--quantile", 0.5], "--quantile has no effect with --loss crf"),
        (["--loss", "crf", "--method", "newton"], "--method: unknown name 'newton'"),
        (["--loss", "margin", "--method", "quasi-newton"], "'quasi-newton' is for smooth losses"),
        (["--loss", "crf", "--min-count", 0], "--min-count must be a whole number above 0"),
        (["--templates", "words"], "--templates is for --task sequences"),
        (["--pairs", "all"], "--pairs is for --task sequences"),
        (["--loss", "crf", "--templates", "chunk"], "--templates chunk: cannot read"),
        (["--loss", "crf", "--min-count", 10**6], "no feature occurs min_count = 1000000 times"),
    ],
)
def test_options_that_are_refused(complaint, train, options, said):
    assert said in complaint("fit", train, *options, "-q")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--n-best", 0], "--n-best must be at least 1, not 0"),
        (["--n-best", 2, "--probabilities"], "give --probabilities or --n-best, not both"),
        (["--n-best", 2, "--scores"], "give --scores or --n-best, not both"),
    ],
)
def test_n_best_that_is_refused(complaint, model, train, options, said):
    assert complaint("predict", model, train, *options) == said


def test_files_that_are_refused(run, complaint, model, train, tmp_path):
    def file(name, content):
        path = tmp_path / name
        path.write_text(content)
        return path

    templates = file("templates", "U0:%x[0,0]\nX\n")
    said = complaint("fit", train, "--loss", "crf", "--templates", templates)
    assert said == f"{templates}:2: a template begins with U, got 'X'"
    templates = file("templates", "words")  # not the name, although it is one
    said = complaint("fit", train, "--loss", "crf", "--templates", templates)
    assert said == f"{templates}:1: a template begins with U, got 'words'"
    templates.write_bytes(b"U0:%x[0,0]\n\xff\n")
    said = complaint("fit", train, "--loss", "crf", "--templates", templates)
    assert said.startswith(f"--templates {templates}:2: not UTF-8 text")
    words = file("words.txt", "a\nb\n")
    assert "one column only" in complaint("fit", words, "--loss", "crf")
    two = file("two.txt", "the O\ncat O\n")
    assert "the templates ask for 2" in complaint("fit", two, "--loss", "crf", "-q")
    assert "the model's templates ask for 2" in complaint("predict", model, words)
    assert "the model's templates ask for 2" in complaint("evaluate", model, two)
    foreign = file("foreign.txt", "the DT X\n")
    assert "knows none of the labels" in complaint("evaluate", model, foreign)
    assert "--scores: a SequenceTagger" in complaint("predict", model, train, "--scores")
    plain = tmp_path / "plain.model"
    cp.save_model(cp.SequenceTagger("margin").fit([np.eye(2)], [["a", "b"]]), plain)
    assert "without templates reads no columns" in complaint("predict", plain, train)
    assert "with the margin loss has none" in complaint("predict", plain, train, "--probabilities")
