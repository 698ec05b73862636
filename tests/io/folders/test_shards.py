"""Data folders as shards: the same bits as from one place, and nothing but names on the way."""

import os
import pickle

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import dump_svmlight_file
from tests.risks.crew import Crew, Placement

import cutplane as cp
from cutplane.cluster.risk import ShardedRisk
from cutplane.compute import blocks
from cutplane.io import InputError, read_svmlight
from cutplane.io.folders import FolderRecipe, digest_of

OWNERS = [0, 1, 2, 0, 1, 1, 2, 0]


class FolderSource:
    """A data folder that shards are read from."""

    def __init__(self, folder):
        self.n_rows = len(folder)
        self._of = os.path.abspath(folder.path), digest_of(folder.manifest)

    def recipe(self, begin, end):
        return FolderRecipe(*self._of, begin, end)


@pytest.fixture(autouse=True)
def _short_blocks(monkeypatch):
    # So that a few hundred examples have as many blocks as millions.
    monkeypatch.setattr(blocks, "LEAST_NUMBERS", 16)
    monkeypatch.setattr(blocks, "LEAST_ENTRIES", 64)


@pytest.fixture
def source(tmp_path):
    """A file of 397 lines, some of them without features."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(397, 7)) * (rng.random((397, 7)) < 0.4)
    y = np.where(X @ rng.normal(size=7) + rng.normal(size=397) > 0.0, 1, -1)
    path = tmp_path / "data.svm"
    dump_svmlight_file(scipy.sparse.csr_array(X), y, str(path), zero_based=False)
    return path


def test_fits_have_the_bits_of_those_in_one_place(source, tmp_path):
    folder = cp.convert(source, tmp_path / "d")
    X, y, _ = read_svmlight(source)
    plain = cp.minimize(cp.ScoredRisk(X, y, cp.Hinge()), cp.L2(1e-2), method=cp.bmrm())
    sample = Placement(FolderSource(folder), Crew(3), OWNERS)
    result = cp.minimize(ShardedRisk(sample, cp.Hinge()), cp.L2(1e-2), method=cp.bmrm())
    sample.close()
    np.testing.assert_array_equal(result.w, plain.w)
    assert result.certificate.lower_bound == plain.certificate.lower_bound


def test_only_names_travel(source, tmp_path, monkeypatch):
    folder = cp.convert(source, tmp_path / "d")
    monkeypatch.chdir(tmp_path)
    recipe = FolderSource(cp.open_folder("d")).recipe(10, 20)
    letter = pickle.dumps(recipe)
    assert len(letter) < 500
    monkeypatch.chdir("/")
    rows = pickle.loads(letter).read()
    assert sorted(rows) == ["X", "y"]
    np.testing.assert_array_equal(rows["X"].toarray(), folder.X[10:20].toarray())
    np.testing.assert_array_equal(rows["y"], folder.y[10:20])


def test_words_weights_and_queries_of_some_rows(tmp_path):
    pa = pytest.importorskip("pyarrow", reason="tables are read by pyarrow")
    words = ["good", "bad", "ugly", "bad"]
    table = pa.table({"x": [1.0, 2, 3, 4], "y": words, "w": [1, 2, 3, 4], "q": [7, 7, 8, 9]})
    folder = cp.convert(table, tmp_path / "d", target="y", weights="w", query="q")
    rows = folder.rows(1, 3)
    assert {name: rows[name].tolist() for name in rows} == {
        "X": [[2.0], [3.0]], "y": ["bad", "ugly"], "weights": [2.0, 3.0], "queries": [7, 8],
    }  # fmt: skip


def test_other_data_are_refused(source, tmp_path):
    source_of_shards = FolderSource(cp.convert(source, tmp_path / "d"))
    source.write_bytes(source.read_bytes().replace(b"-1 ", b"1 ", 1))
    cp.convert(source, tmp_path / "d", force=True)
    with pytest.raises(InputError, match="d: not the data that the fit began with"):
        source_of_shards.recipe(0, 5).read()
    sample = Placement(source_of_shards, Crew(2), [0, 1])
    with pytest.raises(RuntimeError, match=r"shard 0 \(rows 0 to 197\): .*not the data that"):
        ShardedRisk(sample, cp.Hinge())


@pytest.mark.parametrize("owners", [[0], [0, 1]])
def test_shards_whose_file_changes_meanwhile(tmp_path, owners):
    pa = pytest.importorskip("pyarrow", reason="tables are read by pyarrow")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(397, 4))
    y = np.sign(X[:, 0] + rng.normal(size=397))
    table = pa.table({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "d": X[:, 3], "y": y})
    folder = cp.convert(table, tmp_path / "d", target="y")
    sample = Placement(FolderSource(folder), Crew(len(owners)), owners)

    def change(state):
        if state.iteration == 2:
            np.load(tmp_path / "d" / "X.npy", mmap_mode="r+")[:] *= 3.0

    risk = ShardedRisk(sample, cp.Hinge())
    method = cp.bmrm(line_search=False)
    result = cp.minimize(risk, cp.L2(1e-2), method=method, callbacks=[change])
    sample.close()
    assert result.status == "inconsistent"
    assert not result.certificate.valid
    assert result.certificate.reason.endswith("X.npy has changed since the fit began")
