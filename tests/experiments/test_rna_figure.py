"""Figure 3 of paper 002, on a few short sequences in the place of the real ones."""

import numpy as np
import pytest

import cutplane as cp
from cutplane.io import InputError
from cutplane.papers import EXPERIMENTS


@pytest.fixture
def small_data(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    model = cp.RNAFolding()
    w = rng.normal(size=model.n_parameters)
    w[:3] += 2.0
    lines = []
    for number in range(8):
        x = "".join(rng.choice(list("ACGU"), 24))
        lines += [f">{number}", x, model.inference(x, w)]
    (tmp_path / "rna_rfam151").mkdir()
    (tmp_path / "rna_rfam151" / "rfam151.dbn").write_text("\n".join(lines) + "\n")
    monkeypatch.setenv("CUTPLANE_DATA", str(tmp_path))


def test_figure(small_data):
    experiment, shares = EXPERIMENTS["fig3-rna"], []
    rows = list(experiment.run(lambda share, message: shares.append(share)))
    assert len(rows) == len(shares) == 9
    assert shares == sorted(shares)
    for row in rows:
        assert set(experiment.columns) <= set(row)
        assert row["objectives"] == sorted(row["objectives"], reverse=True)
        assert row["lower_bound"] <= row["after_50"] <= row["after_25"] <= row["after_10"]
    assert len(experiment.picture(rows).axes) == 3


def test_missing_data(tmp_path, monkeypatch):
    run = EXPERIMENTS["fig3-rna"].run
    monkeypatch.setenv("CUTPLANE_DATA", str(tmp_path))
    with pytest.raises(InputError, match=r"rfam151.dbn.*no such file"):
        list(run(lambda share, message: None))
    monkeypatch.delenv("CUTPLANE_DATA")
    with pytest.raises(InputError, match="CUTPLANE_DATA is not set"):
        list(run(lambda share, message: None))
