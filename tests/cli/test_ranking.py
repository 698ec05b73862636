"""Ranking on the command line: files with queries, in any order, right and wrong."""

import json
import lzma

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file

import cutplane as cp
from cutplane.io import load_model, read_svmlight
from cutplane.models.ranking.loss import Queries
from cutplane.models.ranking.quality import Rankings


@pytest.fixture
def queries(tmp_path):
    """A file of 12 queries with 8 documents each, interleaved, and 4 features."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(96, 4))
    y = np.digitize(X @ [1.0, 2.0, 0.0, -1.0] + rng.normal(size=96), [1.0, 3.0])
    qid = np.arange(96) % 12
    y[qid == 5] = 0
    path = tmp_path / "queries.txt"
    dump_svmlight_file(X, y, str(path), query_id=qid, zero_based=False)
    return path


@pytest.mark.parametrize(
    ("options", "model"),
    [
        (["--loss", "pairwise"], cp.LinearRanker(lam=0.01)),
        (["--task", "ranking"], cp.LinearRanker(lam=0.01)),
        (["--loss", "ndcg", "--k", 3], cp.LinearRanker("ndcg", lam=0.01, k=3)),
        (["--loss", "ndcg_list", "--k", 3], cp.LinearRanker("ndcg_list", lam=0.01, k=3)),
    ],
)
def test_fit(run, queries, tmp_path, options, model):
    path = tmp_path / "model"
    result = run("fit", queries, *options, "--lam", 0.01, "--out", path, "--json", "-q")
    assert result.exit_code == 0
    report = json.loads(result.stdout)
    data = read_svmlight(queries, queries=True)
    model.fit(data.X, data.y, qid=data.qid)
    assert (report["estimator"], report["n_queries"]) == ("LinearRanker", 12)
    assert report["objective"] == model.certificate_.objective
    assert report["lower_bound"] == model.certificate_.lower_bound
    loaded = load_model(path)
    assert np.array_equal(loaded.predict(data.X), model.predict(data.X))
    assert (loaded.loss, loaded.k) == (model.loss, model.k)
    printed = run("predict", path, queries).stdout.split()
    assert list(map(float, printed)) == model.predict(data.X).tolist()


def test_words(run, queries):
    text = run("fit", queries, "--loss", "pairwise", "--lam", 0.1).stdout
    assert "96 samples, 4 features, 12 queries" in text
    assert "Certificate: no weights" in text


def test_compressed(run, queries, tmp_path):
    path = tmp_path / "queries.txt.xz"
    path.write_bytes(lzma.compress(queries.read_bytes()))
    reports = [
        json.loads(run("fit", file, "--loss", "ndcg", "--lam", 0.1, "--json", "-q").stdout)
        for file in (queries, path)
    ]
    assert reports[0]["objective"] == reports[1]["objective"]


def test_evaluate(run, queries, tmp_path):
    path = tmp_path / "model"
    run("fit", queries, "--loss", "pairwise", "--lam", 0.01, "--out", path, "-q")
    report = json.loads(run("evaluate", path, queries, "--json").stdout)
    X, y, qid = read_svmlight(queries, queries=True)
    model = load_model(path)
    rankings = Rankings(y, model.predict(X), Queries(qid))
    for k in (1, 3, 5, 10):
        assert report[f"ndcg_{k}"] == pytest.approx(np.nanmean(rankings.ndcg(k)))
    assert report["ndcg_10"] == pytest.approx(model.score(X, y, qid=qid))
    assert report["map"] == pytest.approx(np.nanmean(rankings.average_precision()))
    assert report["mrr"] == pytest.approx(np.nanmean(rankings.reciprocal_rank()))
    assert report["pairwise_accuracy"] == rankings.pairwise_accuracy()
    assert (report["n_samples"], report["n_queries"]) == (96, 12)
    assert report["n_queries_without_relevant"] == 1
    lines = run("evaluate", path, queries).stdout.splitlines()
    assert [line.split()[0] for line in lines[3:6]] == ["NDCG@1", "NDCG@3", "NDCG@5"]


def test_evaluate_where_nothing_is_relevant(run, queries, tmp_path):
    path, data = tmp_path / "model", tmp_path / "none.txt"
    run("fit", queries, "--loss", "pairwise", "--lam", 0.01, "--out", path, "-q")
    data.write_text("0 qid:1 1:1\n0 qid:1 2:1\n")
    report = json.loads(run("evaluate", path, data, "--json").stdout)
    assert report["ndcg_10"] is report["map"] is report["mrr"] is None
    assert report["pairwise_accuracy"] is None
    assert "not defined here" in run("evaluate", path, data).stdout


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("1 1:1\n0 1:2\n", ": no line has a query (qid:number after the label)"),
        ("1 qid:1 1:1\n0 1:2\n", ":2: no query (qid:number after the label)"),
        ("1 qid:one 1:1\n0 qid:1 1:2\n", ":1: query 'one' is not a whole number"),
        ("1 qid:1 1:1\n0 qid:1.5 1:2\n", ":2: query '1.5' is not a whole number"),
        (
            "1 qid:1 1:1\n0 qid:2 1:2\n",
            ": nothing to rank: no query has two documents of different relevance and a weight",
        ),
        (
            "1 qid:1 1:1\n1 qid:1 1:2\n",
            ": nothing to rank: no query has two documents of different relevance and a weight",
        ),
        ("1 qid:1 1:1\n", ": nothing to rank: there is only 1 sample"),
        ("good qid:1 1:1\nbad qid:1 1:2\n", ": ranking needs numbers as labels, not 'good'"),
    ],
)
@pytest.mark.parametrize("loss", ["pairwise", "ndcg"])
def test_files_that_cannot_be_ranked(complaint, tmp_path, loss, content, said):
    path = tmp_path / "bad.txt"
    path.write_text(content)
    assert complaint("fit", path, "--loss", loss, "-q") == f"{path}{said}"


def test_negative_relevance(run, complaint, tmp_path):
    data, path = tmp_path / "negative.txt", tmp_path / "model"
    data.write_text("1 qid:1 1:1\n-1 qid:1 1:2\n")
    said = "relevance must not be negative"
    assert complaint("fit", data, "--loss", "ndcg", "-q") == f"{data}: {said} for NDCG, got -1"
    assert run("fit", data, "--loss", "pairwise", "--out", path, "-q").exit_code == 0
    assert complaint("evaluate", path, data) == f"{data}: {said}, got -1"


def test_a_ranker_needs_queries_to_be_evaluated(run, complaint, queries, two_classes, tmp_path):
    path = tmp_path / "model"
    run("fit", queries, "--loss", "pairwise", "--lam", 0.01, "--out", path, "-q")
    assert complaint("evaluate", path, two_classes) == (
        f"{two_classes}: no line has a query (qid:number after the label)"
    )
    assert len(run("predict", path, two_classes).stdout.splitlines()) == 60  # not to predict


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--loss", "pairwise", "--k", 5],
         "--k has no effect with --loss pairwise, "
         "only with precision_at_k or recall_at_k or ndcg or ndcg_list"),
        (["--loss", "ndcg", "--k", 0],
         "--k must be a whole number from 1 on, or a share below 1, not 0"),
        (["--loss", "ndcg", "--k", 0.5],
         "--k must be a whole number from 1 on for --loss ndcg, not 0.5"),
        (["--loss", "ndcg_list", "--k", 0.5],
         "--k must be a whole number from 1 on for --loss ndcg_list, not 0.5"),
        (["--task", "ranking", "--loss", "hinge"],
         "--loss hinge is for classification; losses for ranking are pairwise, ndcg, ndcg_list"),
        (["--loss", "ndcg", "--class-weight", "balanced"],
         "--class-weight is not for --task ranking, but for classification and "
         "kernel-classification"),
    ],
)  # fmt: skip
def test_options(complaint, queries, options, said):
    assert complaint("fit", queries, *options, "-q") == said


def test_scores_are_the_predictions(run, complaint, queries, tmp_path):
    path = tmp_path / "model"
    run("fit", queries, "--loss", "pairwise", "--lam", 0.01, "--out", path, "-q")
    assert "--probabilities: a LinearRanker" in complaint(
        "predict", path, queries, "--probabilities"
    )
