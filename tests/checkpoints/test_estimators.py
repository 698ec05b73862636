"""Fits that are killed and go on give the same model, to the last bit."""

import os
from functools import cache, partial

import numpy as np
import pytest

import cutplane as cp

from .killing import (
    at_call,
    calls_of,
    in_child,
    interrupted_at,
    require_kill,
    require_same_after_kills_at_boundaries,
)
from .runs import ESTIMATORS, dense
from .test_store import contents

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: None)


@cache
def baseline(name):
    return ESTIMATORS[name]()


def checkpointed(name, folder, every=0.0):
    return ESTIMATORS[name](cp.Checkpoint(folder, every))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_checkpoints_change_nothing(name, tmp_path):
    assert checkpointed(name, tmp_path) == baseline(name)
    assert checkpointed(name, tmp_path) == baseline(name)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_goes_on_after_two_kills(name, tmp_path):
    calls = calls_of(partial(checkpointed, name, tmp_path / "first"))
    work = partial(checkpointed, name, tmp_path / "killed")
    for _ in range(2):
        require_kill(work, partial(at_call, int(0.4 * calls)))
    assert in_child(work) == (0, baseline(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", ESTIMATORS)
def test_kills_anywhere(name, tmp_path):
    calls = calls_of(partial(checkpointed, name, tmp_path / "first"))
    points = np.random.default_rng(len(name)).integers(calls // 20, calls * 9 // 10, size=5)
    for nth in points.tolist():
        work = partial(checkpointed, name, tmp_path / str(nth))
        require_kill(work, partial(at_call, nth))
        assert in_child(work) == (0, baseline(name))


@pytest.mark.slow
def test_every_write_boundary_of_several_problems(tmp_path):
    work = partial(ESTIMATORS["classifier, three classes"], max_iter=2)
    require_same_after_kills_at_boundaries(work, tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        *("classifier", "regressor", "ranker", "tagger", "structured", "hidden Markov models"),
        *(name for name in ESTIMATORS if name == "tagger, network"),
    ],
)
def test_ctrl_c(name, tmp_path):
    for work, (status, found) in interrupted_at((0.0, 0.3, 0.6), checkpointed, name, tmp_path):
        assert status == 0
        assert "Status.INTERRUPTED" in found["certificate_"]
        assert in_child(work) == (0, baseline(name))


def test_each_problem_has_a_folder(tmp_path):
    ESTIMATORS["classifier, three classes"](tmp_path)
    assert sorted(os.listdir(tmp_path)) == [f"problem-{k}" for k in range(4)]
    ESTIMATORS["classifier, cross-validated"](tmp_path / "folds")
    assert sorted(os.listdir(tmp_path / "folds")) == ["final", "fold-0", "fold-1"]


def test_problems_that_are_done_take_no_work(tmp_path):
    X, y = dense()
    model = cp.LinearClassifier(checkpoint=tmp_path).fit(X, y)
    seen = []
    again = cp.LinearClassifier(checkpoint=tmp_path, callbacks=[seen.append]).fit(X, y)
    assert again.coef_.tobytes() == model.coef_.tobytes()
    assert seen == []


@pytest.mark.parametrize(
    ("change", "other"),
    [
        ({"lam": 1e-2}, "regularizer"),
        ({"loss": "squared_hinge"}, "loss"),
        ({"fit_intercept": False}, "intercept"),
        ({"class_weight": {-1.0: 2.0}}, "weights"),
        ({"method": "level"}, "method"),
    ],
)
def test_another_fit_is_refused_and_nothing_changes(tmp_path, change, other):
    X, y = dense()
    cp.LinearClassifier(checkpoint=tmp_path).fit(X, y)
    before = contents(tmp_path)
    with pytest.raises(cp.CheckpointError, match=f"^{tmp_path}: .*{other}"):
        cp.LinearClassifier(checkpoint=tmp_path, **change).fit(X, y)
    assert contents(tmp_path) == before


def test_one_problem_and_several_do_not_share_a_folder(tmp_path):
    ESTIMATORS["classifier"](tmp_path / "one")
    with pytest.raises(cp.CheckpointError, match="one: a checkpoint of one problem"):
        ESTIMATORS["classifier, three classes"](tmp_path / "one")
    ESTIMATORS["classifier, three classes"](tmp_path / "four")
    with pytest.raises(cp.CheckpointError, match="four: not a checkpoint, but a folder with prob"):
        ESTIMATORS["classifier"](tmp_path / "four")


def test_the_parameter_is_checked():
    with pytest.raises(ValueError, match="checkpoint must be None, a path or a Checkpoint"):
        cp.LinearClassifier(checkpoint=3).fit(*dense())
