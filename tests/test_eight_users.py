"""Eight people who know the documentation and nothing else, each from their data to a result.

What they write is what the pages say; what is asserted is what they came for.
"""

import http.server
import json
import os
import signal
import subprocess
import sys
import threading
import urllib.request
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import f1_score
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.processes import wait_until

import cutplane as cp

pytestmark = pytest.mark.slow


def cutplane(*arguments, cwd):
    """Run the program as a shell does; return what it printed."""
    command = [sys.executable, "-m", "cutplane", *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


# -- a CSV file with text columns, served by ONNX --------------------------------------------------


def salaries(n):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    table = pandas.DataFrame(
        {
            "age": rng.integers(20, 70, n).astype(float),
            "job": rng.choice(["cook", "nurse", "diver"], n),
            "town": rng.choice(["Rome", "Oslo"], n),
            "hours": rng.normal(38.0, 6.0, n).round(1),
        }
    )
    worth = (table.age - 45) / 10 + (table.hours - 38) / 6 + 2 * (table.job == "nurse")
    worth -= 2 * (table.town == "Rome") + rng.normal(0, 0.3, n)
    table["income"] = np.where(worth > 0, "high", "low")
    table.loc[::17, "age"] = np.nan
    table.loc[::23, "town"] = None
    return table


def test_a_table_becomes_a_service(tmp_path):
    pytest.importorskip("onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    table = salaries(600)
    table[:400].to_csv(tmp_path / "train.csv", index=False)
    table[400:].to_csv(tmp_path / "test.csv", index=False)
    how = ("--target", "income", "--loss", "logistic", "--cv", 5, "--out", "income.model", "-q")
    cutplane("fit", "train.csv", *how, cwd=tmp_path)
    measured = json.loads(cutplane("evaluate", "income.model", "test.csv", "--json", cwd=tmp_path))
    assert measured["accuracy"] > 0.85
    said = cutplane("predict", "income.model", "test.csv", cwd=tmp_path).split()
    assert np.mean(said == table.income[400:]) == pytest.approx(measured["accuracy"])

    cp.export_onnx(cp.load_model(tmp_path / "income.model"), tmp_path / "income.onnx")
    session = onnxruntime.InferenceSession(
        str(tmp_path / "income.onnx"), providers=["CPUExecutionProvider"]
    )

    class Service(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            person = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            feed = {}
            for each in session.get_inputs():
                value = person[each.name]
                if each.type == "tensor(double)":
                    feed[each.name] = np.array([[np.nan if value is None else value]])
                else:
                    feed[each.name] = np.array([[value or ""]], dtype=object)
            (label,) = session.run(["label"], feed)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(label.tolist()).encode())

        def log_message(self, *arguments):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Service) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            address = f"http://127.0.0.1:{server.server_port}"
            people = json.loads(table[400:].drop(columns="income").to_json(orient="records"))
            answers = []
            for person in people:
                request = urllib.request.Request(address, json.dumps(person).encode())
                with urllib.request.urlopen(request) as answer:
                    answers += json.load(answer)
        finally:
            server.shutdown()
            thread.join()
    assert answers == said


# -- columns of tokens, a tagger, a report ---------------------------------------------------------


def sentences(n, seed):
    """Noun phrases in made-up sentences, a token a line: word, part of speech, chunk."""
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(n):
        for _ in range(2):
            phrase = [("DT", rng.choice(["the", "a"]))] if rng.random() < 0.7 else []
            phrase += [("JJ", rng.choice(["old", "quick", "light"]))] if rng.random() < 0.5 else []
            phrase += [("NN", rng.choice(["cat", "dog", "light", "fish"]))]
            chunks = ["B-NP"] + ["I-NP"] * (len(phrase) - 1)
            lines += [f"{word} {tag} {c}" for (tag, word), c in zip(phrase, chunks, strict=True)]
            lines.append(f"{rng.choice(['sees', 'finds', 'light'])} VB O")
        lines.append("")
    return "\n".join(lines) + "\n"


def test_columns_become_a_tagger_and_a_report(tmp_path):
    (tmp_path / "train.txt").write_text(sentences(200, seed=0))
    (tmp_path / "test.txt").write_text(sentences(80, seed=1))
    how = ("--task", "sequences", "--lam", 1e-3, "--trace", "run.jsonl", "--out", "np.model", "-q")
    cutplane("fit", "train.txt", *how, cwd=tmp_path)
    measured = json.loads(cutplane("evaluate", "np.model", "test.txt", "--json", cwd=tmp_path))
    assert measured["chunk_f1"] > 0.95
    printed = cutplane("predict", "np.model", "test.txt", cwd=tmp_path).splitlines()
    rows = [line.split() for line in printed if line]
    assert np.mean([row[-2] == row[-1] for row in rows]) == pytest.approx(measured["accuracy"])
    report = ("report", "np.model", "run.jsonl", "--data", "test.txt", "-o", "report.html", "-q")
    cutplane(*report, cwd=tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert "<html" in page
    assert "NP" in page
    assert f"{measured['chunk_f1']:.4g}" in page

    # In Python the same tagger comes of it, with nothing but the templates said.
    X, y = cp.io.read_conll(tmp_path / "train.txt").split_labels()
    tagger = cp.SequenceTagger(lam=1e-3, templates="chunking").fit(X, y)
    loaded = cp.load_model(tmp_path / "np.model")
    assert loaded.get_params()["loss"] == tagger.loss == "crf"
    assert loaded.get_params()["pairs"] == tagger.pairs
    np.testing.assert_allclose(loaded.coef_.toarray(), tagger.coef_.toarray(), atol=1e-9)


# -- ranking ---------------------------------------------------------------------------------------


def documents(n_queries, seed):
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(n_queries), 12)
    X = rng.normal(size=(len(qid), 6))
    quality = X @ [1.0, -1.0, 0.5, 0.0, 0.0, 0.0] + 0.7 * rng.normal(size=len(qid))
    return X + rng.normal(size=(n_queries, 1))[qid], np.digitize(quality, [1.0, 2.5]), qid


def test_a_ranking_from_files_and_from_python(tmp_path):
    from sklearn.datasets import dump_svmlight_file
    from sklearn.metrics import ndcg_score

    for name, seed, n_queries in (("train", 0, 200), ("test", 1, 60)):
        X, y, qid = documents(n_queries, seed)
        dump_svmlight_file(X, y, str(tmp_path / f"{name}.txt"), query_id=qid, zero_based=False)
    how = ("--task", "ranking", "--lam", 1e-3, "--out", "model", "-q")
    cutplane("fit", "train.txt", *how, cwd=tmp_path)
    measured = json.loads(
        cutplane("evaluate", "model", "test.txt", "--at", "10", "--json", cwd=tmp_path)
    )
    scores = np.array(cutplane("predict", "model", "test.txt", cwd=tmp_path).split(), dtype=float)
    mean = np.mean(
        [
            ndcg_score([2.0 ** y[qid == q] - 1], [scores[qid == q]], k=10)
            for q in np.unique(qid)
            if y[qid == q].max() > 0
        ]
    )
    assert measured["ndcg_10"] == pytest.approx(mean, abs=1e-6)
    by_chance = np.random.default_rng(0).normal(size=len(y))
    assert mean > 0.85
    assert mean > 0.1 + np.mean(
        [
            ndcg_score([2.0 ** y[qid == q] - 1], [by_chance[qid == q]], k=10)
            for q in np.unique(qid)
            if y[qid == q].max() > 0
        ]
    )
    model = cp.LinearRanker(lam=1e-3).fit(*documents(200, 0)[:2], qid=documents(200, 0)[2])
    assert model.score(X, y, qid=qid) == pytest.approx(mean, abs=5e-3)


# -- quantiles of a table --------------------------------------------------------------------------


def test_quantiles_of_a_table(tmp_path):
    table = salaries(2000)
    rng = np.random.default_rng(1)
    table["pay"] = (20 + 3 * (table.job == "diver") + rng.exponential(4.0, len(table))).round(2)
    table[:1500].drop(columns="income").to_csv(tmp_path / "train.csv", index=False)
    table[1500:].drop(columns="income").to_csv(tmp_path / "test.csv", index=False)
    how = ("--task", "quantiles", "--quantiles", "0.1,0.5,0.9", "--lam", 1e-4, "--out", "model")
    cutplane("fit", "train.csv", "--target", "pay", *how, "-q", cwd=tmp_path)
    printed = cutplane("predict", "model", "test.csv", cwd=tmp_path).splitlines()
    predicted = np.array([line.split() for line in printed], dtype=float)
    assert predicted.shape == (500, 3)
    assert (np.diff(predicted, axis=1) >= 0).all()  # they never cross
    below = (table.pay.to_numpy()[1500:, None] <= predicted).mean(axis=0)
    np.testing.assert_allclose(below, [0.1, 0.5, 0.9], atol=0.05)
    divers = (table.job[1500:] == "diver").to_numpy()
    assert np.median(predicted[divers, 1]) - np.median(predicted[~divers, 1]) == pytest.approx(
        3.0, abs=1.0
    )
    measured = json.loads(cutplane("evaluate", "model", "test.csv", "--json", cwd=tmp_path))
    inside = ((predicted[:, 0] < table.pay[1500:]) & (table.pay[1500:] <= predicted[:, 2])).mean()
    assert measured["interval_coverage"] == pytest.approx(inside, abs=0.01)


# -- a researcher who compares methods -------------------------------------------------------------


def test_methods_and_peers_in_a_table_for_a_paper(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 12))
    y = np.where(X @ rng.normal(size=12) + rng.normal(size=1500) > 0, 1, -1)
    model = cp.LinearClassifier("logistic", lam=1e-3, fit_intercept=False)
    found = cp.compare(model, ["bmrm-line-search", "newton", "level"], X, y, peers=True)
    rows = found.rows()
    proven = [row for row in rows if row["status"] == "optimal"]
    assert [row["method"] for row in proven] == ["bmrm-line-search", "newton", "level"]
    peers = [row for row in rows if row["status"] == "no proof"]
    assert any("LogisticRegression" in row["method"] for row in peers)
    best = min(row["objective"] for row in rows)
    for row in proven:
        assert row["objective"] <= best * (1 + 1.1e-3)  # what the tolerance promises
    lines = found.table("latex").splitlines()
    assert lines[0].startswith(r"\begin{tabular}")
    assert lines[-1] == r"\end{tabular}"
    body = [line for line in lines if line.endswith(r"\\")]
    assert len(body) == len(rows) + 1
    assert len({line.count("&") for line in body}) == 1
    found.report().save(tmp_path / "comparison.html")
    page = (tmp_path / "comparison.html").read_text()
    assert all(row["method"].split(",")[0] in page for row in rows)


# -- a structured model of one's own ---------------------------------------------------------------


class Colors:
    """Label the cells of a ring so that neighbors agree where they can; by trying everything."""

    n_labels, n_features = 2, 3

    def __init__(self):
        self.n_parameters = self.n_labels * self.n_features + 1

    def outputs(self, x):
        return (np.array(y) for y in product(range(self.n_labels), repeat=len(x)))

    def joint_feature(self, x, y):
        psi = np.zeros(self.n_parameters)
        for features, label in zip(x, y, strict=True):
            psi[label * self.n_features : (label + 1) * self.n_features] += features
        psi[-1] = np.sum(y == np.roll(y, 1))
        return psi

    def loss(self, y, y_hat):
        return float(np.sum(y != y_hat))

    def inference(self, x, w):
        return max(self.outputs(x), key=lambda y: w @ self.joint_feature(x, y))

    def loss_augmented_inference(self, x, y, w):
        return max(
            self.outputs(x), key=lambda each: w @ self.joint_feature(x, each) + self.loss(y, each)
        )


def test_a_structured_model_of_ones_own(tmp_path):
    rng = np.random.default_rng(0)
    X, Y = [], []
    for _ in range(140):
        y = np.repeat(rng.integers(0, 2, size=2), 3)  # rings of six cells in two parts
        X.append(np.column_stack([y - 0.5, 0.5 - y, np.ones(6)]) + rng.normal(size=(6, 3)))
        Y.append(y)
    assert "finds the best of all outputs" in str(cp.testing.check_model(Colors(), X[:5], Y[:5]))
    predictor = cp.StructuredPredictor(Colors(), lam=1e-2).fit(X[:80], Y[:80])
    assert predictor.certificate_.status == "optimal"
    assert predictor.certificate_.valid
    alone = np.array([np.sum(Y[k] != (X[k][:, 0] > X[k][:, 1])) for k in range(80, 140)])
    assert -predictor.score(X[80:], Y[80:]) < alone.mean() - 0.1
    assert predictor.coef_[-1] > 0  # neighbors agree
    np.savez(tmp_path / "weights.npz", coef=predictor.coef_)
    again = cp.StructuredPredictor(Colors(), lam=1e-2)
    again.model_, again.coef_ = Colors(), np.load(tmp_path / "weights.npz")["coef"]
    assert all(map(np.array_equal, again.predict(X), predictor.predict(X)))


# -- scikit-learn's tools --------------------------------------------------------------------------


def test_a_pipeline_a_search_and_a_file(tmp_path):
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    pipeline = make_pipeline(StandardScaler(), cp.LinearClassifier())
    grid = {
        "linearclassifier__loss": ["hinge", "logistic", "f1"],
        "linearclassifier__lam": [1e-3, 1e-2, 1e-1],
    }
    search = GridSearchCV(pipeline, grid, cv=3, scoring="f1").fit(X_train, y_train)
    assert len(search.cv_results_["params"]) == 9
    best = search.best_estimator_
    assert best[-1].certificate_.status == "optimal"
    assert f1_score(y_test, search.predict(X_test)) > 0.95
    cp.save_model(best, tmp_path / "model")
    loaded = cp.load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.decision_function(X_test), best.decision_function(X_test))
    assert loaded[-1].certificate_ == best[-1].certificate_


# -- data larger than memory -----------------------------------------------------------------------


def test_a_folder_a_kill_and_the_rest_of_the_fit(start_process, tmp_path):
    rng = np.random.default_rng(0)
    n, d = 20_000, 40
    X = rng.normal(size=(n, d)) * np.logspace(0, -2, d)
    y = X @ rng.normal(size=d) * 3 + rng.normal(size=n) > 0
    with open(tmp_path / "data.svm", "w") as file:
        for row, label in zip(X, y, strict=True):
            entries = " ".join(f"{j}:{value:.6g}" for j, value in enumerate(row, 1))
            file.write(f"{'+1' if label else '-1'} {entries}\n")
    cutplane("convert", "data.svm", "data", "--quiet", cwd=tmp_path)
    folder = cp.open_folder(tmp_path / "data", check=True)
    assert folder.shape == (n, d)
    how = ["fit", "data", "--lam", "1e-6", "--tol", "1e-5", "--method", "bmrm-line-search"]
    cutplane(*how, "--out", "whole.model", "-q", cwd=tmp_path)

    kept = ["--checkpoint", "state", "--every", "0", "--out", "killed.model"]
    command = [sys.executable, "-m", "cutplane", *how, *kept]
    fit = start_process(command, cwd=tmp_path, stderr=subprocess.DEVNULL)
    # The first writes are there.
    wait_until((tmp_path / "state" / "checkpoint.json").exists, process=fit)
    fit.send_signal(signal.SIGKILL if os.name == "posix" else signal.SIGTERM)
    assert fit.wait(600) != 0
    assert not (tmp_path / "killed.model").exists()

    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "going on from iteration" in done.stderr
    assert (tmp_path / "killed.model").read_bytes() == (tmp_path / "whole.model").read_bytes()
    cutplane("predict", "killed.model", "data", "--out", "said.txt", cwd=tmp_path)
    said = np.array(Path(tmp_path / "said.txt").read_text().split())
    assert set(said) == {"1", "-1"}
    assert np.mean((said == "1") == y) > 0.75
    model = cp.load_model(tmp_path / "killed.model")
    assert model.certificate_.valid
    assert model.certificate_.relative_gap <= 1e-5
