"""Figures 2 and 3 of paper 000, on small data in the place of the real ones."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from tests.random_arrays import random_array

import cutplane as cp
from cutplane.io import InputError
from cutplane.papers import EXPERIMENTS
from cutplane.papers.bundles import pegasos
from cutplane.papers.experiment import load


@pytest.fixture
def small_data(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    X = random_array((80, 30), density=0.2, rng=rng, format="csr")
    groups = rng.integers(0, 20, 80)
    y = np.where(groups < 10, 1, -1)
    for name in ("reuters_lasvm", "a9a"):
        (tmp_path / name).mkdir()
        scipy.sparse.save_npz(tmp_path / name / "train_X.npz", X)
        np.save(tmp_path / name / "train_y.npy", y)
    (tmp_path / "news20_ng").mkdir()
    scipy.sparse.save_npz(tmp_path / "news20_ng" / "uni_train_X.npz", X.astype(np.float32))
    np.savez(tmp_path / "news20_ng" / "uni_labels.npz", train=groups)
    monkeypatch.setenv("CUTPLANE_DATA", str(tmp_path))
    return X, y


def test_load(small_data):
    X, y = load("news20_ng")
    assert X.shape == (80, 30)
    assert np.array_equal(y, small_data[1])


def test_missing_data(monkeypatch, tmp_path):
    monkeypatch.setenv("CUTPLANE_DATA", str(tmp_path))
    with pytest.raises(InputError, match=r"CUTPLANE_DATA has no data set news20_ng: no .*npz"):
        load("news20_ng")
    monkeypatch.delenv("CUTPLANE_DATA")
    with pytest.raises(InputError, match="CUTPLANE_DATA is not set"):
        load("news20_ng")


@pytest.mark.parametrize("name", ["fig2-000", "fig3-000"])
def test_figures(name, small_data):
    experiment, shares = EXPERIMENTS[name], []
    rows = list(experiment.run(lambda share, message: shares.append(share)))
    assert len(rows) == len(shares) == 12  # three data sets; four lam, or four methods
    assert shares == sorted(shares)
    assert all(set(experiment.columns) <= set(row) for row in rows)
    figure = experiment.picture(rows)
    lines = sum(len(axes.get_legend().get_texts()) for axes in figure.axes)
    assert lines == len(rows) * (1 if name == "fig2-000" else 2)


def test_smaller_lam_takes_more_iterations(small_data):
    rows = list(EXPERIMENTS["fig2-000"].run(lambda share, message: None))
    first = [row["to_0.001"] for row in rows if row["data"] == "Reuters"]
    assert first == sorted(first)
    assert first[0] < first[-1]


def test_pegasos_comes_near_the_optimum():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(100, 5))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=100) > 0, 1.0, -1.0)
    risk, lam = cp.ScoredRisk(X, y, cp.Hinge(), intercept=False), 0.1
    optimum = cp.minimize(risk, cp.L2(lam), tol=1e-8).objective
    steps = pegasos(risk, lam, steps=300).history
    objectives = [step.lowest for step in steps]
    assert objectives == sorted(objectives, reverse=True)
    assert optimum * (1 - 1e-7) <= objectives[-1] <= optimum + 0.01
    # The first step goes from zero, where the hinge loss is one, to the end of the ball.
    slope = risk.at(np.zeros(5)).plane().slope
    w = -slope / max(lam, np.linalg.norm(slope) * np.sqrt(lam))
    assert steps[0].objective == pytest.approx(0.5 * lam * w @ w + risk.at(w).value, rel=1e-12)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_is_listed(name):
    page = Path(__file__).parents[2] / "docs" / "reproduce.md"
    assert f"\n{name} " in page.read_text()
