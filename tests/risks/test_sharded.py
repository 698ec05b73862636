"""Risks whose rows lie elsewhere: the same bits as with all rows here."""

import gc
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.risks.crew import placed

import cutplane as cp
from cutplane.cluster.calls import Target
from cutplane.cluster.risk import ShardedRisk
from cutplane.compute import blocks, threads
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
    monkeypatch.setattr(threads, "LEAST_ENTRIES", 64)


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
    w = 0.3 * np.random.default_rng(1).normal(size=(2, 7))
    points = [[each.at(v) for v in w] for each in (plain, risk)]
    assert [p.value for p in points[0]] == [p.value for p in points[1]]
    extra = cp.L2(0.1).along(*w)
    found = []
    for a, b in points:
        segment = a.toward(b)
        step = segment.minimize(extra)
        c = segment.at(step)
        found.append((step, segment.along(0.7), c.value, c.intercept, c.plane(), a.plane()))
    for one, other in zip(*found, strict=True):
        if isinstance(one, cp.Plane):
            assert np.array_equal(one.slope, other.slope)
            assert one.offset == other.offset
        else:
            assert one == other
    assert risk.term_size == plain.term_size
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
        self.before = blocks.LEAST_NUMBERS, threads.LEAST_ENTRIES
        blocks.LEAST_NUMBERS, threads.LEAST_ENTRIES = 16, 64

    def __exit__(self, *error):
        blocks.LEAST_NUMBERS, threads.LEAST_ENTRIES = self.before


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


def test_a_fit_that_loses_members_has_the_same_bits():
    X, y, weights = data("classification")
    arrays = {"X": X, "y": y, "weights": weights}
    plain = cp.minimize(cp.ScoredRisk(X, y, cp.Logistic()), cp.L2(1e-3), method=cp.bmrm(), tol=1e-5)
    del arrays["weights"]
    sample = placed(arrays, [0, 1, 2, 3] * 2)

    def lose_one(state):
        if state.iteration in (2, 5, 6):
            name = sorted(sample._places.holdings)[0]
            sample._places.kill(name)

    result = cp.minimize(
        ShardedRisk(sample, cp.Logistic()),
        cp.L2(1e-3),
        method=cp.bmrm(),
        tol=1e-5,
        callbacks=[lose_one],
    )
    assert len(sample.losses) == 3
    assert "thread 0, shards [0, 4]" in sample.losses[0]
    assert len(sample._places.holdings) == 1
    assert same(plain, result)
    sample.close()


def test_members_keep_no_more_than_is_alive():
    X, y, _ = data("classification")
    sample = placed({"X": X, "y": y}, [0, 1])
    risk = ShardedRisk(sample, cp.Hinge())
    result = cp.minimize(risk, cp.L2(1e-3), method=cp.bmrm(), tol=1e-4)
    gc.collect()
    last = risk.at(result.w)  # what was dropped before is told with the next call
    kept = sample._places.holdings["thread 0"]._kept
    assert len(kept) <= 4  # the risk, the best point of the state and of the result, the last one
    assert last.value == result.point.value
    sample.close()


def test_losses_that_are_no_sums_need_one_machine():
    X, y, _ = data("classification")
    sample = placed({"X": X, "y": y}, [0, 1])
    for loss in (cp.FBeta(), cp.ROCArea(), cp.PrecisionAtK()):
        with pytest.raises(ValueError, match="one machine"):
            ShardedRisk(sample, loss)


def test_errors_on_members_reach_the_caller():
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


@pytest.mark.parametrize("lost", [(), (1, 2, 3)], ids=["undisturbed", "losing members"])
def test_a_run_goes_on_from_its_checkpoint_with_other_members(tmp_path, lost):
    X, y, _ = data("classification")
    options = {"method": cp.bmrm(), "tol": 1e-5}
    plain = cp.minimize(cp.ScoredRisk(X, y, cp.Logistic()), cp.L2(1e-3), **options)
    sample = placed({"X": X, "y": y}, [0, 1, 2, 3] * 2)
    first = cp.minimize(
        ShardedRisk(sample, cp.Logistic()),
        cp.L2(1e-3),
        **options,
        max_iter=plain.iterations // 2,
        checkpoint=tmp_path / "run",
    )
    assert first.status is cp.Status.ITERATION_LIMIT
    sample.close()
    sample = placed({"X": X, "y": y}, [3, 1, 2, 0] * 2)
    risk = ShardedRisk(sample, cp.Logistic())
    crew = sample._places
    for holding in crew.holdings.values():
        holding._kept = Counted(holding._kept)

    def lose(state):
        if state.iteration - first.iterations in lost:
            crew.kill(min(crew.holdings))

    result = cp.resume(tmp_path / "run", risk, cp.L2(1e-3), tol=1e-5, callbacks=[lose])
    assert len(sample.losses) == len(lost)
    assert same(plain, result)
    # Points of the past are made anew one after the other, and not kept.
    most_kept = max(holding._kept.most for holding in crew.holdings.values())
    assert most_kept <= 8 < plain.iterations
    sample.close()
    other = ShardedRisk(placed({"X": X + 1.0, "y": y}, [0, 1]), cp.Logistic())
    with pytest.raises(cp.CheckpointError, match=r"another problem \(other: shards\)"):
        cp.resume(tmp_path / "run", other, cp.L2(1e-3))


class Counted(dict):
    """Knows how many entries there were at most."""

    most = 0

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        self.most = max(self.most, len(self))
