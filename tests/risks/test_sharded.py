"""Risks whose rows lie on workers: the same bits as with all rows here."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.risks.crew import placed

import cutplane as cp
from cutplane.cluster.risk import ShardedRisk, Target
from cutplane.cluster.sample import Holding
from cutplane.compute import blocks
from cutplane.data import AllPairs, as_rows
from cutplane.losses import (
    CLASSIFICATION,
    REGRESSION,
    ROBUST_CLASSIFICATION,
    ROBUST_REGRESSION,
)

N_SHARDS = 8


@pytest.fixture(autouse=True)
def _short_blocks(monkeypatch):
    # So that a few hundred examples have as many blocks as millions.
    monkeypatch.setattr(blocks, "LEAST_NUMBERS", 16)
    monkeypatch.setattr(blocks, "LEAST_ENTRIES", 64)


def data(task, m=397, d=7, sparse=False, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, d))
    if sparse:
        X[rng.random(X.shape) < 0.6] = 0.0
    score = X @ rng.normal(size=d) + rng.normal(size=m)
    y = np.where(score > 0.3, 1.0, -1.0)
    if task == "regression":
        y = np.abs(np.round(2.0 * score, 1))
    weights = rng.integers(0, 4, m).astype(float)
    return scipy.sparse.csr_array(X) if sparse else X, y, weights


LOSSES = [
    *((kind, kind().task) for kind in (CLASSIFICATION | ROBUST_CLASSIFICATION).values()),
    *((kind, kind().task) for kind in (REGRESSION | ROBUST_REGRESSION).values()),
]


@pytest.mark.parametrize("intercept", [False, True], ids=["plain", "intercept"])
@pytest.mark.parametrize(("kind", "task"), LOSSES, ids=lambda kind: getattr(kind, "__name__", kind))
def test_points_planes_and_searches_have_the_same_bits(kind, task, intercept):
    X, y, weights = data(task)
    plain = cp.ScoredRisk(X, y, kind(), weights=weights, intercept=intercept)
    sample = placed({"X": X, "y": y, "weights": weights}, [0, 1, 0, 2, 2, 1, 0, 2])
    risk = ShardedRisk(sample, kind(), intercept=intercept)
    w = 0.3 * np.random.default_rng(1).normal(size=7)
    here, there = plain.at(w), risk.at(w)
    assert there.value == here.value
    assert there.intercept == here.intercept
    assert np.array_equal(there.plane().slope, here.plane().slope)
    assert there.plane().offset == here.plane().offset
    assert risk.term_size == plain.term_size
    method = cp.bmrm() if plain.convex else cp.nrbm()
    options = {"method": method, "max_iter": 3, "start": w}
    one, other = (cp.minimize(each, cp.L2(0.1), **options) for each in (plain, risk))
    assert same(one, other)
    assert one.point.intercept == other.point.intercept
    assert one.status == other.status
    sample.close()


@given(st.lists(st.integers(0, 5), min_size=N_SHARDS, max_size=N_SHARDS), st.booleans())
@settings(max_examples=12, deadline=None)
def test_fits_have_the_same_bits_for_any_placement(owners, sparse):
    owners = np.unique(owners, return_inverse=True)[1].tolist()
    X, y, weights = data("classification", sparse=sparse)
    with blocks_as_short():
        plain = cp.minimize(
            cp.ScoredRisk(X, y, cp.Hinge(), weights=weights), cp.L2(1e-2), method=cp.bmrm()
        )
        sample = placed({"X": X, "y": y, "weights": weights}, owners)
        result = cp.minimize(ShardedRisk(sample, cp.Hinge()), cp.L2(1e-2), method=cp.bmrm())
    sample.close()
    assert same(plain, result)


class blocks_as_short:
    def __enter__(self):
        self.before = blocks.LEAST_NUMBERS, blocks.LEAST_ENTRIES
        blocks.LEAST_NUMBERS, blocks.LEAST_ENTRIES = 16, 64

    def __exit__(self, *error):
        blocks.LEAST_NUMBERS, blocks.LEAST_ENTRIES = self.before


def same(one, other):
    return (
        np.array_equal(one.w, other.w)
        and one.certificate.objective == other.certificate.objective
        and one.certificate.lower_bound == other.certificate.lower_bound
        and one.evaluations == other.evaluations
    )


@pytest.mark.parametrize("loss", [cp.Softmax(), cp.CrammerSinger()], ids=["softmax", "crammer"])
@pytest.mark.parametrize("intercept", [False, True], ids=["plain", "intercept"])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_all_classes_at_once(loss, intercept, sparse):
    X, _, weights = data("classification", sparse=sparse)
    y = np.random.default_rng(3).choice(["a", "b", "c"], len(weights))
    classes, numbers = np.unique(y, return_inverse=True)
    plain = cp.ScoredRisk(
        AllPairs(as_rows(X), 3), numbers, loss, weights=weights, intercept=intercept
    )
    sample = placed({"X": X, "y": y, "weights": weights}, [1, 0, 0, 2])
    risk = ShardedRisk(sample, loss, intercept=intercept, target=Target(classes=classes))
    results = [cp.minimize(each, cp.L2(1e-2), method=cp.bmrm(), tol=1e-2) for each in (plain, risk)]
    assert same(*results)
    sample.close()


@pytest.mark.parametrize(
    ("loss", "columns"),
    [
        (cp.NonCrossing([0.1, 0.5, 0.9]), False),
        (cp.SharedScore([cp.Quantile(0.2), cp.Quantile(0.8)]), False),
        (cp.LabelRanking("worst"), True),
    ],
    ids=["quantiles", "shared", "labels"],
)
def test_rows_of_scores(loss, columns):
    X, y, weights = data("regression")
    if columns:
        y = (np.random.default_rng(2).random((len(y), 4)) < 0.4).astype(float)
    plain = cp.ScoredRisk(X, y, loss, weights=weights)
    sample = placed({"X": X, "y": y, "weights": weights}, [1, 0, 0, 1])
    risk = ShardedRisk(sample, loss)
    results = [
        cp.minimize(each, cp.L2(1e-2), method=cp.level(), tol=1e-2) for each in (plain, risk)
    ]
    assert same(*results)
    sample.close()


def agree(one, other, tol):
    """Say whether two certificates of one problem are within a tolerance, and may both be true."""
    certificates = one.certificate, other.certificate
    return all(a.valid and a.relative_gap <= tol for a in certificates) and all(
        a.lower_bound <= b.objective for a in certificates for b in certificates
    )


class Losing:
    """A callback that loses a worker after some iterations, and looks at the bounds."""

    def __init__(self, sample, iterations):
        self.crew, self.iterations, self.seen = sample._places, [*iterations], []

    def __call__(self, state):
        self.seen.append((state.iteration, state.lower, state.objective))
        if self.iterations and state.iteration >= self.iterations[0]:
            del self.iterations[0]
            self.crew.kill(sorted(self.crew.holdings)[0])


@pytest.mark.parametrize("n_workers", [4, 1], ids=["others have the planes", "nobody has"])
def test_a_run_that_loses_workers_goes_on_from_its_best_point(n_workers):
    X, y, _ = data("classification")
    plain = cp.minimize(cp.ScoredRisk(X, y, cp.Logistic()), cp.L2(1e-3), method=cp.bmrm(), tol=1e-5)
    sample = placed({"X": X, "y": y}, [k % n_workers for k in range(8)])
    if n_workers == 1:
        sample._places.holdings["thread 1"] = Holding(1)  # one that has no shard
    losing = Losing(sample, [2, 5, 6][: max(n_workers - 1, 1)])
    result = cp.minimize(
        ShardedRisk(sample, cp.Logistic()),
        cp.L2(1e-3),
        method=cp.bmrm(),
        tol=1e-5,
        callbacks=[losing],
    )
    assert len(sample.losses) == max(n_workers - 1, 1)
    assert "thread 0, shards [0" in sample.losses[0]
    assert len(sample._places.holdings) == 1
    assert agree(plain, result, 1e-5)
    # Nothing that was proven is lost, and no iteration is counted twice.
    iterations, lowers, objectives = zip(*losing.seen, strict=True)
    assert list(iterations) == [record.iteration for record in result.history]
    assert list(iterations) == list(range(1, len(iterations) + 1))
    assert np.all(np.diff(lowers) >= 0.0)
    assert np.all(np.diff(objectives) <= 1e-12)
    if n_workers > 1:  # the planes are there still
        assert result.iterations <= plain.iterations + 5
    sample.close()


def test_workers_keep_no_more_than_is_needed():
    X, y, _ = data("classification")
    sample = placed({"X": X, "y": y}, [0, 1])
    risks = [ShardedRisk(sample, loss) for loss in (cp.Hinge(), cp.Logistic())]
    for risk in risks:
        result = cp.minimize(risk, cp.L2(1e-3), method=cp.bmrm(), tol=1e-4)
        assert risk.at(result.w).value == result.point.value
    holding = sample._places.holdings["thread 0"]
    assert sorted(holding.made) == ["risk", "rows"]
    assert holding.made["risk"][0] == risks[1].named.name
    assert holding.left == ("", None)
    sample.close()


def test_workers_that_round_differently_evaluate_at_the_same_points():
    X, y, _ = data("classification")
    sample = placed({"X": X, "y": y}, [0, 1, 2, 0])
    sample._places.alike = False
    plain = cp.minimize(cp.ScoredRisk(X, y, cp.Logistic()), cp.L2(1e-3), method=cp.bmrm())
    assert same(
        plain, cp.minimize(ShardedRisk(sample, cp.Logistic()), cp.L2(1e-3), method=cp.bmrm())
    )
    sample.close()


def test_limits_and_wishes_reach_all_workers():
    X, y, _ = data("classification")
    sample = placed({"X": X, "y": y}, [0, 1, 2, 0])
    risk = ShardedRisk(sample, cp.Logistic())
    run = partial(cp.minimize, risk, cp.L2(1e-5), method=cp.bmrm(), tol=1e-9)
    assert run(time_limit=1e-6).status is cp.Status.TIME_LIMIT
    assert run(max_iter=2).status is cp.Status.ITERATION_LIMIT
    stopped = run(callbacks=[lambda state: state.iteration == 3])
    assert stopped.status is cp.Status.STOPPED
    assert stopped.iterations == 3

    def press(state):
        if state.iteration == 2:
            raise KeyboardInterrupt

    interrupted = run(callbacks=[press])
    assert interrupted.status is cp.Status.INTERRUPTED
    assert interrupted.state.interrupted
    assert interrupted.certificate.valid

    def fail(state):
        if state.iteration == 4:
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full") as raised:
        run(callbacks=[fail])
    found = raised.value.result
    assert found.status is cp.Status.FAILED
    assert found.iterations == 4
    # From each of them a run goes on.
    for earlier in (stopped, interrupted, found):
        result = run(resume=earlier.state, tol=1e-4)
        assert result.status is cp.Status.OPTIMAL
        assert result.history[: earlier.iterations] == earlier.history
    again = cp.minimize(risk, cp.L2(1e-4), method=cp.bmrm(), planes_from=stopped.state)
    assert again.status is cp.Status.OPTIMAL
    assert not sample.losses
    sample.close()


def test_losses_that_are_not_sums_need_one_machine():
    X, y, _ = data("classification")
    sample = placed({"X": X, "y": y}, [0, 1])
    for loss in (cp.FBeta(), cp.ROCArea(), cp.PrecisionAtK()):
        with pytest.raises(ValueError, match="one machine"):
            ShardedRisk(sample, loss)


def test_errors_on_workers_reach_the_caller():
    X, y, _ = data("classification")
    sample = placed({"X": X, "y": y + 0.5}, [0, 1])
    with pytest.raises(ValueError, match="-1 and 1"):
        ShardedRisk(sample, cp.Hinge())
    sample = placed({"X": X * 1e300, "y": y}, [0, 1])
    risk = ShardedRisk(sample, cp.Hinge(), intercept=False)
    with pytest.raises(cp.NonFiniteRisk, match="scores overflow"):
        risk.at(np.full(7, 1e10))
    assert risk.at(np.zeros(7)).value == pytest.approx(1.0)
    sample.close()


class BrokenRecipe:
    def read(self):
        raise OSError("disk gone")


def test_a_shard_that_cannot_be_read_is_named():
    X, y, _ = data("classification")
    sample = placed({"X": X, "y": y}, [0, 1])
    sample.source = SimpleNamespace(n_rows=397, recipe=lambda begin, end: BrokenRecipe())
    with pytest.raises(RuntimeError, match=r"shard 0 \(rows 0 to 197\): disk gone"):
        ShardedRisk(sample, cp.Hinge())


@pytest.mark.parametrize("lost", [(), (1, 2, 3)], ids=["undisturbed", "losing workers"])
def test_a_run_goes_on_from_its_checkpoint_with_other_workers(tmp_path, lost):
    X, y, _ = data("classification")
    options = {"method": cp.bmrm(), "tol": 1e-5}
    plain = cp.minimize(cp.ScoredRisk(X, y, cp.Logistic()), cp.L2(1e-3), **options)
    sample = placed({"X": X, "y": y}, [0, 1, 2, 3] * 2)
    first = cp.minimize(
        ShardedRisk(sample, cp.Logistic()),
        cp.L2(1e-3),
        **options,
        max_iter=plain.iterations // 2,
        checkpoint=cp.Checkpoint(tmp_path / "run", every=0.0),
    )
    assert first.status is cp.Status.ITERATION_LIMIT
    sample.close()
    sample = placed({"X": X, "y": y}, [3, 1, 2, 0] * 2)
    risk = ShardedRisk(sample, cp.Logistic())
    losing = Losing(sample, [first.iterations + k for k in lost])
    result = cp.resume(tmp_path / "run", risk, cp.L2(1e-3), tol=1e-5, callbacks=[losing])
    assert len(sample.losses) == len(lost)
    assert agree(plain, result, 1e-5)
    assert losing.seen[0][0] == first.iterations + 1
    assert losing.seen[0][1] >= first.certificate.lower_bound
    assert result.history[: first.iterations] == first.history
    assert result.iterations <= plain.iterations + 5
    sample.close()
    other = ShardedRisk(placed({"X": X + 1.0, "y": y}, [0, 1]), cp.Logistic())
    with pytest.raises(cp.CheckpointError, match=r"another problem \(other: shards\)"):
        cp.resume(tmp_path / "run", other, cp.L2(1e-3))
