"""CoNLL-2000 on the command line, from files of columns to the F1 of chunks."""

import json
from pathlib import Path

import pytest

from cutplane.io import read_columns

pytestmark = pytest.mark.slow

N_SENTENCES = 1000


@pytest.fixture
def folder(data_folder):
    return Path(data_folder) / "conll2000"


@pytest.fixture
def train(folder, tmp_path):
    """The first sentences of the training data."""
    data = read_columns(folder / "train.txt")
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
