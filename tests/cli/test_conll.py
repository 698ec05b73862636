"""CoNLL-2000 on the command line, from files of columns to the F1 of chunks."""

import json
from pathlib import Path

import numpy as np
import pytest

from cutplane.io import read_conll

pytestmark = pytest.mark.slow

N_SENTENCES = 1000


@pytest.fixture
def folder(data_folder):
    return Path(data_folder) / "conll2000"


@pytest.fixture
def train(folder, tmp_path):
    """The first sentences of the training data."""
    data = read_conll(folder / "train.txt")
    assert (len(data.sequences), data.n_tokens) == (8936, 211727)
    path = tmp_path / "train.txt"
    path.write_text(
        "\n".join(
            "".join(f"{' '.join(token)}\n" for token in sequence)
            for sequence in data.sequences[:N_SENTENCES]
        )
    )
    return path


@pytest.mark.parametrize("loss", ["crf", "margin"])
def test_chunks(run, folder, train, tmp_path, loss):
    model = tmp_path / "model"
    options = ["--loss", loss, "--lam", 2 / N_SENTENCES, "--tol", 0.01, "--out", model]
    fitted = json.loads(run("fit", train, *options, "--json", "-q").stdout)
    assert fitted["status"] == "optimal"
    assert fitted["relative_gap"] <= 0.01
    report = json.loads(run("evaluate", model, folder / "test.txt", "--json").stdout)
    assert (report["n_samples"], report["n_tokens"]) == (2012, 47377)
    (together,) = (chunk for chunk in report["chunks"] if chunk["type"] == "all")
    assert together["there"] == 23852  # as conlleval counts them
    assert together["f1"] > 0.89


def test_probabilities_of_the_best_labels(run, folder, train, tmp_path):
    model = tmp_path / "model"
    fit = ["fit", train, "--loss", "crf", "--C", 1, "--tol", 0.01, "--out", model, "-q"]
    assert run(*fit).exit_code == 0
    printed = run("predict", model, folder / "test.txt", "--n-best", 5).stdout
    said, right = np.zeros((2012, 5)), np.zeros((2012, 5))
    sentence = -1
    for block in printed.removesuffix("\n\n").split("\n\n"):
        (_, rank, probability), *tokens = (line.split() for line in block.split("\n"))
        sentence += rank == "0"
        said[sentence, int(rank)] = float(probability)
        right[sentence, int(rank)] = all(token[-2] == token[-1] for token in tokens)
    assert sentence == 2011
    assert (np.diff(said, axis=1) <= 0.0).all()
    # What is said to be right so often is, roughly, although the sentences are new.
    np.testing.assert_allclose(right.mean(axis=0), said.mean(axis=0), atol=0.05)
    likely = said[:, 0] > 0.5
    assert right[likely, 0].mean() > 0.6 > 0.4 > right[~likely, 0].mean()
