"""Figure 3 of paper 002, on small data in the place of the real ones."""

import lzma

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file

import cutplane as cp
from cutplane.io import InputError
from cutplane.papers import EXPERIMENTS
from cutplane.papers.experiment import load_letor


@pytest.fixture
def small_data(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    folder = tmp_path / "letor_mq2008"
    folder.mkdir()
    for part in (1, 2, 3):
        X = rng.random((30, 5))
        y = np.digitize(X @ np.arange(5.0) + rng.normal(size=30), [5.0, 7.0])
        text = folder / "text"
        qid = 10 * part + np.arange(30) // 6
        dump_svmlight_file(X, y, str(text), query_id=qid, zero_based=False)
        (folder / f"S{part}.txt.xz").write_bytes(lzma.compress(text.read_bytes()))
    monkeypatch.setenv("CUTPLANE_DATA", str(tmp_path))


def test_load(small_data):
    X, y, qid = load_letor("letor_mq2008", ["S1", "S3"])
    assert X.shape == (60, 5)
    assert sorted(set(qid)) == [*range(10, 15), *range(30, 35)]
    assert set(y) == {0.0, 1.0, 2.0}


def test_missing_data(monkeypatch, tmp_path):
    monkeypatch.setenv("CUTPLANE_DATA", str(tmp_path))
    with pytest.raises(InputError, match=r"S1.txt.xz: cannot read: no such file"):
        load_letor("letor_mq2008", ["S1"])


def test_figure(small_data):
    experiment, shares = EXPERIMENTS["fig3-ranking"], []
    rows = list(experiment.run(lambda share, message: shares.append(share)))
    assert len(rows) == len(shares) == 12
    assert all(set(experiment.columns) <= set(row) for row in rows)
    X, y, qid = load_letor("letor_mq2008", ["S1", "S2", "S3"])
    risk = cp.ScoredRisk(X, y, cp.NDCGListHinge(10).for_queries(qid), intercept=False)
    for row in rows:
        objectives = row["objectives"]
        assert objectives == sorted(objectives, reverse=True)
        assert row["after_200"] == objectives[-1]
        optimum = cp.minimize(risk, cp.L2(row["lam"]), tol=1e-4).certificate
        assert row["lower_bound"] <= optimum.objective
        assert optimum.lower_bound <= row["after_200"]
    figure = experiment.picture(rows)
    assert sum(len(axes.get_legend().get_texts()) for axes in figure.axes) == len(rows)
