"""Files that change while a fit reads them: no claim is false, and nothing crashes."""

from __future__ import annotations

import copy
import json
import os
import pickle
import re
import subprocess
import sys

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import cutplane as cp
from cutplane.compute import arrays
from cutplane.compute.arrays import ChangedData, MappedFile
from cutplane.data import as_rows
from cutplane.solvers.registry import METHODS

from . import changing_files
from .changing_files import CHANGES

# Numbers that are read as a run goes on; those of the others are copied when it begins.
WATCHED = ("X", "values", "indices")
SPARSE = "values;indices;indptr;y;weights"
# They only run with a regularizer or a loss that these problems do not have.
NOT_FOR_THESE = {"coordinate-descent", "sparse-quasi-newton"}


def runs(*lists):
    """Run the fits in a process of their own, which must not crash; return what they claim."""
    program = [sys.executable, changing_files.__file__, *lists]
    done = subprocess.run(program, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def require_true(claim):
    """Assert that the claims of a run are true, or that it says itself that it has none."""
    file = claim["case"][4]
    if claim["changed"] and file in WATCHED:
        assert claim["status"] == "inconsistent", claim
    if claim["status"] == "inconsistent":
        assert not claim["valid"], claim
        assert f"{file}.npy has changed" in claim["reason"], claim
        assert "\n" not in claim["reason"], claim
        return
    rounding = 1e-9 * abs(claim["best"])
    assert claim["lower"] <= claim["best"] + rounding, claim
    assert abs(claim["objective"] - claim["true"]) <= rounding, claim
    if claim["status"] == "optimal":
        assert claim["true"] - claim["best"] <= changing_files.TOL * claim["true"] + rounding, claim


# What each of them does to a method: bounds of two problems, wrong indices, no pages.
COMMON = "scaled by 3;swapped, old times;out of range;truncated;and back"


def test_no_method_claims_anything_of_files_that_have_changed():
    methods = ";".join(METHODS.keys() - NOT_FOR_THESE)
    claims = runs(methods, "hinge", COMMON, "X;values;indices", "1")
    for claim in claims:
        require_true(claim)
    found = {claim["case"][0] for claim in claims if claim["status"] == "inconsistent"}
    # Others are done before the first change.
    assert found >= {"bmrm", "bmrm-line-search", "level", "newton", "proximal", "trust-region"}


def test_every_change_of_every_file():
    for claim in runs("bmrm", "hinge;logistic", ";".join(CHANGES), f"X;{SPARSE}", "0;2"):
        require_true(claim)


@pytest.mark.slow  # thousands of fits
@pytest.mark.parametrize("method", ["bmrm", "bmrm-line-search", "newton", "dual-ascent", "pegasos"])
def test_changes_at_many_iterations(method):
    seeds = ";".join(map(str, range(30)))
    for claim in runs(method, "hinge", ";".join(CHANGES), f"X;{SPARSE}", seeds):
        require_true(claim)


@pytest.fixture
def mapped_rows(tmp_path):
    """A file that was written long ago, and its numbers."""
    rng = np.random.default_rng(0)
    np.save(tmp_path / "X.npy", rng.normal(size=(300, 5)))
    return tmp_path / "X.npy", np.load(tmp_path / "X.npy", mmap_mode="r")


def targets_of(X):
    return np.sign(X[:, 0] + np.random.default_rng(1).normal(size=len(X)))


def scaling(path, factor=0.5):
    def at_the_second_iteration(state):
        if state.iteration == 2:
            changing_files.scaled(factor)(path)

    return at_the_second_iteration


def test_a_page_that_was_dirty_already(mapped_rows):
    """Nothing but the digest tells: neither time changes while such a page stays in memory."""
    path, X = mapped_rows
    held = np.load(path, mmap_mode="r+")
    held *= 1.0
    risk = cp.ScoredRisk(X, targets_of(X), cp.Hinge())

    def change(state):
        if state.iteration == 2:
            held[0, 0] += 1.0

    result = cp.minimize(risk, cp.L2(0.01), callbacks=[change])
    assert result.status == "inconsistent"
    assert result.certificate.reason == f"{path} has changed since the fit began"


@pytest.mark.parametrize("change", ["signs", "swapped", "one bit"])
def test_digests_differ(tmp_path, change):
    numbers = np.random.default_rng(0).normal(size=100_001)
    np.save(tmp_path / "X.npy", numbers)
    found = []
    for _ in range(2):
        file = MappedFile(np.load(tmp_path / "X.npy", mmap_mode="r"))
        found.append(file._digest_now())
        if change == "signs":
            numbers *= -1.0
        elif change == "swapped":
            numbers[[5, 9]] = numbers[[9, 5]]
        else:
            numbers.view(np.int64)[-1] ^= 1
        np.save(tmp_path / "X.npy", numbers)
    assert found[0] != found[1]


def test_large_files_that_have_settled_are_digested_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(arrays, "_SETTLED", 0)
    monkeypatch.setattr(arrays, "_MOST", 4 * arrays._PIECE)
    numbers = np.arange(arrays._PIECE, dtype=np.float64)
    np.save(tmp_path / "X.npy", numbers)
    held = np.load(tmp_path / "X.npy", mmap_mode="r+")
    held *= 1.0
    file = MappedFile(np.load(tmp_path / "X.npy", mmap_mode="r"))
    file.remember()
    assert file.change(thorough=True) == ""
    held *= 2.0
    assert file.change(thorough=True) != ""


def test_a_fit_that_nobody_disturbs(mapped_rows):
    _, X = mapped_rows
    y = targets_of(X)
    model = cp.LinearClassifier(lam=0.01).fit(X, y)
    alike = cp.LinearClassifier(lam=0.01).fit(np.array(X), y)
    assert model.certificate_ == alike.certificate_
    assert model.certificate_.valid


def test_a_file_without_a_name(mapped_rows):
    path, X = mapped_rows
    path.unlink()
    result = cp.minimize(cp.ScoredRisk(X, targets_of(X), cp.Hinge()), cp.L2(0.01))
    assert result.status == "optimal"


def test_a_risk_whose_file_has_changed_before_the_run(mapped_rows):
    path, X = mapped_rows
    risk = cp.ScoredRisk(X, targets_of(X), cp.Hinge())
    changing_files.scaled(2.0)(path)
    with pytest.raises(ChangedData, match=r"X\.npy has changed"):
        cp.minimize(risk, cp.L2(0.01))


def test_a_sum_of_risks(mapped_rows):
    path, X = mapped_rows
    risk = cp.ScoredRisk(X, targets_of(X), cp.Hinge(), intercept=False)
    other = cp.ScoredRisk(np.array(X), targets_of(X), cp.Logistic(), intercept=False)
    result = cp.minimize(other + 2.0 * risk, cp.L2(0.01), callbacks=[scaling(path)])
    assert result.status == "inconsistent"
    assert not result.certificate.valid


def test_a_checkpoint_is_not_written_any_more(mapped_rows, tmp_path):
    path, X = mapped_rows
    y, kept = targets_of(X), cp.Checkpoint(tmp_path / "state", every=0.0)
    risk = cp.ScoredRisk(X, y, cp.Hinge())
    result = cp.minimize(risk, cp.L2(0.01), checkpoint=kept, callbacks=[scaling(path)])
    assert result.status == "inconsistent"
    changing_files.scaled(2.0)(path)  # exactly what they were
    again = cp.ScoredRisk(np.load(path, mmap_mode="r"), y, cp.Hinge())
    resumed = cp.minimize(again, cp.L2(0.01), checkpoint=kept)
    fresh = cp.minimize(again, cp.L2(0.01))
    assert resumed.status == "optimal"
    assert resumed.certificate.lower_bound <= fresh.objective


def test_estimators_warn_with_the_name_of_the_file(mapped_rows):
    path, X = mapped_rows
    model = cp.LinearClassifier(lam=0.001, method="bmrm", callbacks=[scaling(path)])
    with pytest.warns(ConvergenceWarning, match=r"inconsistent.*X\.npy has changed"):
        model.fit(X, targets_of(X))
    assert not model.certificate_.valid


def scale_at_evaluation(number, path, monkeypatch):
    """Let a file change where no callback is called."""
    evaluate, seen = cp.ScoredRisk.at, []

    def at(risk, w):
        seen.append(risk)
        if len(seen) == number:
            changing_files.scaled(0.5)(path)
        return evaluate(risk, w)

    monkeypatch.setattr(cp.ScoredRisk, "at", at)


def require_inconsistent(model, at_least):
    """Assert that the last problems say so, and name the file."""
    certificates = model.certificate_[-at_least:]
    for certificate in certificates:
        assert certificate.status == "inconsistent"
        assert not certificate.valid
        assert re.fullmatch(r".*X\.npy has changed since the fit began", certificate.reason)
        assert np.isfinite(certificate.objective)


@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize("change", ["scaled by 3", "truncated"])
def test_all_problems_of_a_fit_end_alike(mapped_rows, tmp_path, change, labels):
    """Of three problems two have no point yet: their models stay zero."""
    path, X = mapped_rows
    y = np.arange(len(X)) % 3
    of = cp.MultilabelClassifier if labels else cp.LinearClassifier

    def spoil(state):
        if state.iteration == 2 and not spoiled:
            spoiled.append(CHANGES[change]()(path))

    spoiled = []
    model = of(lam=0.001, method="bmrm", callbacks=[spoil])
    with pytest.warns(ConvergenceWarning, match=r"inconsistent in 3 of 3 .*X\.npy has changed"):
        model.fit(X, np.eye(3, dtype=int)[y] if labels else y)
    require_inconsistent(model, 3)
    assert not model.coef_[1:].any()
    assert [each.objective for each in model.certificate_[1:]] == pytest.approx([1.0, 1.0])
    cp.save_model(model, tmp_path / "model")
    assert cp.load_model(tmp_path / "model").certificate_ == model.certificate_


def test_problems_side_by_side_end_alike(mapped_rows, monkeypatch):
    path, X = mapped_rows
    monkeypatch.setattr("cutplane.estimators.fit.LEAST_ENTRIES", 0)
    scale_at_evaluation(5, path, monkeypatch)
    model = cp.LinearClassifier(lam=1e-5, tol=1e-9, method="bmrm", n_jobs=2)
    with pytest.warns(ConvergenceWarning, match=r"inconsistent.*X\.npy has changed"):
        model.fit(X, np.arange(len(X)) % 6)
    require_inconsistent(model, 3)


@pytest.mark.parametrize("n_starts", [1, 2])
@pytest.mark.parametrize("classes", [2, 3])
def test_starts_of_a_fit_end_alike(mapped_rows, monkeypatch, classes, n_starts):
    """The convex fit, whose solution is the start, is the one that the change comes into."""
    path, X = mapped_rows
    scale_at_evaluation(3, path, monkeypatch)
    model = cp.LinearClassifier("ramp", lam=0.001, n_starts=n_starts)
    with pytest.warns(ConvergenceWarning, match=r"inconsistent.*X\.npy has changed"):
        model.fit(X, np.arange(len(X)) % classes)
    if classes == 2:
        model.certificate_ = [model.certificate_]
    require_inconsistent(model, len(model.certificate_))


def test_a_path_ends_with_the_lams_that_were_reached(mapped_rows, monkeypatch):
    path, X = mapped_rows
    scale_at_evaluation(15, path, monkeypatch)
    with pytest.warns(ConvergenceWarning, match=r"inconsistent.*X\.npy has changed"):
        found = cp.path(X, targets_of(X), method="bmrm")
    assert 1 < len(found.lams) < 20
    *before, last = found.certificates
    assert last.status == "inconsistent"
    assert all(certificate.valid for certificate in before)


def test_rows_can_be_pickled_and_copied(mapped_rows):
    _, X = mapped_rows
    rows = as_rows(X)
    for again in (pickle.loads(pickle.dumps(rows)), copy.deepcopy(rows)):
        np.testing.assert_array_equal(again.scores(np.ones(5)), rows.scores(np.ones(5)))


def test_mapped_targets_are_copied(tmp_path, mapped_rows):
    _, X = mapped_rows
    np.save(tmp_path / "y.npy", targets_of(X))
    y = np.load(tmp_path / "y.npy", mmap_mode="r")
    risk = cp.ScoredRisk(X, y, cp.Absolute(), intercept=False)
    os.truncate(tmp_path / "y.npy", 64)
    assert cp.minimize(risk, cp.L2(0.01)).status == "optimal"
