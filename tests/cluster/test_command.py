"""``cutplane fit --scheduler`` and ``--workers``."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from tests.cli.conftest import complaint, run  # noqa: F401 (fixtures)

import cutplane as cp
from cutplane.cli import fitting as clusters

pytest.importorskip("distributed", reason="needs the extra cutplane[dask]")

from tests.cluster.processes import ended_after
from tests.processes import PATIENCE, wait_until

from cutplane.cluster import workers


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 4)).round(3)
    labels = np.where(X @ rng.normal(size=4) + rng.normal(size=900) > 0.0, "+1", "-1")
    lines = [
        f"{label} " + " ".join(f"{j}:{v}" for j, v in enumerate(row, start=1))
        for label, row in zip(labels.tolist(), X.tolist(), strict=True)
    ]
    path = tmp_path_factory.mktemp("data")
    (path / "data.svm").write_text("\n".join(lines))
    cp.convert(path / "data.svm", path / "d")
    return path / "d"


def test_a_folder_is_fitted_on_the_workers_of_a_scheduler(client, run, folder, tmp_path):  # noqa: F811
    address = client.scheduler.address
    options = ("fit", folder, "--loss", "logistic", "--method", "bmrm-line-search", "--json", "-q")
    told = [
        json.loads(run(*options, "--out", tmp_path / str(k), *where).stdout)
        for k, where in enumerate([(), ("--scheduler", address)])
    ]
    assert told[0]["n_samples"] == told[1]["n_samples"] == 900
    here, there = (cp.load_model(tmp_path / str(k)) for k in (0, 1))
    np.testing.assert_array_equal(here.coef_, there.coef_)
    assert here.classes_.tolist() == there.classes_.tolist()


def test_what_cannot_be_is_said_in_one_line(client, complaint, folder, monkeypatch):  # noqa: F811
    scheduler = ("--scheduler", client.scheduler.address)
    assert "on one machine" in complaint("fit", folder, *scheduler, "--loss", "f1", "-q")
    file = folder.parent / "data.svm"
    assert complaint("fit", file, "--workers", 2).endswith(f"cutplane convert {file} FOLDER")
    for task in ("ordinal", "novelty", "multilabel"):
        line = complaint("fit", folder, "--workers", 2, "--task", task)
        assert line == f"--workers: --task {task} needs one machine"
    assert "at least 1" in complaint("fit", folder, "--workers", 0)
    assert "not both" in complaint("fit", folder, "--workers", 2, *scheduler)
    assert "--cv needs one machine" in complaint("fit", folder, "--workers", 2, "--cv", 3)
    monkeypatch.setattr(workers, "WAITS", workers.WAITS._replace(scheduler=0.5))
    line = complaint("fit", folder, "--scheduler", "tcp://127.0.0.1:9")
    assert line == "--scheduler: no scheduler answers at tcp://127.0.0.1:9"
    monkeypatch.setattr(clusters.importlib.util, "find_spec", lambda name: None)
    line = complaint("fit", folder, "--workers", 2)
    assert line == '--workers needs Dask: pip install "cutplane[dask]"'


@pytest.mark.slow
def test_control_c_ends_a_fit_on_workers_started_here_with_its_best_model(
    start_process, folder, tmp_path
):
    command = [sys.executable, "-m", "cutplane", "fit", str(folder), "--workers", "2"]
    command += ["--loss", "hinge", "--lam", "1e-9", "--tol", "1e-12", "--out", str(tmp_path / "m")]
    process = start_process(command, stderr=subprocess.PIPE, text=True)
    with ended_after(process):
        while process.stderr.readline().split()[:1] != ["5"]:
            assert process.poll() is None
    # As a terminal does: to the program and to the workers that it has started.
    os.killpg(process.pid, signal.SIGINT)
    _, told = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, told
    assert cp.load_model(tmp_path / "m").coef_.shape == (1, 4)
    wait_until(lambda: not _is_there(process.pid))


def _is_there(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
