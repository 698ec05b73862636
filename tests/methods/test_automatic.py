"""The automatic choice of a method."""

import threading
import time

import numpy as np
import pytest
import scipy.sparse as sp
from tests.random_arrays import random_array
from tests.risks.crew import placed

import cutplane as cp
from cutplane.compute.mapped import files_of
from cutplane.core.policies.bmrm import OnSegment
from cutplane.core.state import Problem
from cutplane.data import AllPairs, as_rows
from cutplane.data import rows as stored
from cutplane.solvers.automatic import automatic
from cutplane.solvers.block_ascent import BlockAscent
from cutplane.solvers.dual_ascent import DualEpochs
from cutplane.solvers.newton import NewtonSteps

rng = np.random.default_rng(0)
FEW = random_array((500, 20), density=0.3, rng=rng).tocsr()
MANY = random_array((500, 3000), density=0.01, rng=rng).tocsr()
LONG = rng.normal(size=(500, 700))
Y = rng.choice([-1.0, 1.0], 500)


def kind_of(method):
    """The solver that was chosen; of a bundle method what it is known by, its query."""
    return type(method.query if isinstance(method, cp.Method) else method)


@pytest.mark.parametrize(
    ("X", "loss", "expected"),
    [
        (MANY, cp.Hinge(), DualEpochs),
        (MANY, cp.Exponential(), OnSegment),
        (FEW, cp.Hinge(), NewtonSteps),
        (FEW, cp.Logistic(), NewtonSteps),
        (FEW.toarray(), cp.Hinge(), NewtonSteps),
        (LONG, cp.Hinge(), OnSegment),
    ],
)
@pytest.mark.parametrize("intercept", [False, True])
def test_follows_the_data_and_says_so_in_one_line(X, loss, expected, intercept, caplog):
    with caplog.at_level("INFO", logger="cutplane"):
        risk = cp.ScoredRisk(X, Y, loss, intercept=intercept)
        assert issubclass(kind_of(automatic(Problem(risk, cp.L2(1e-5)))), expected)
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith("method: ")


@pytest.mark.parametrize(
    ("lam", "intercept", "expected"),
    [(1.0, False, DualEpochs), (1.0, True, DualEpochs), (1e-6, False, NewtonSteps)],
)
def test_soft_problems_with_few_features_suit_dual_ascent(lam, intercept, expected):
    rows = sp.vstack([FEW] * 20).tocsr()
    risk = cp.ScoredRisk(rows, np.tile(Y, 20), cp.Hinge(), intercept=intercept)
    assert issubclass(kind_of(automatic(Problem(risk, cp.L2(lam)))), expected)


@pytest.mark.parametrize(
    ("loss", "n_features", "lam", "expected"),
    [
        (cp.Hinge(), 700, 1.0, DualEpochs),
        (cp.Hinge(), 700, 1e-5, OnSegment),
        (cp.Hinge(), 1200, 1e-5, DualEpochs),
        (cp.Logistic(), 1200, 1.0, OnSegment),
        (cp.Hinge(), 20, 1.0, NewtonSteps),
    ],
)
def test_dense_rows_suit_dual_ascent_where_newton_steps_are_dear(loss, n_features, lam, expected):
    rows = rng.normal(size=(500, n_features))
    problem = Problem(cp.ScoredRisk(rows, Y, loss), cp.L2(lam))
    assert issubclass(kind_of(automatic(problem)), expected)


@pytest.mark.parametrize("loss", [cp.Hinge(), cp.Logistic()], ids=repr)
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(("n_features", "expected"), [(80, NewtonSteps), (120, DualEpochs)])
def test_few_examples_for_each_feature_suit_dual_ascent(loss, intercept, n_features, expected):
    five = sum(np.roll(1.5 * np.eye(n_features), shift, axis=1) for shift in range(5))
    rows = sp.csr_array(np.resize(five, (2000, n_features)))
    risk = cp.ScoredRisk(rows, np.tile(Y, 4), loss, intercept=intercept)
    assert issubclass(kind_of(automatic(Problem(risk, cp.L2(1.0 / 2000)))), expected)


@pytest.mark.parametrize("intercept", [False, True])
def test_little_data_suit_methods_that_see_all_of_it(intercept):
    risk = cp.ScoredRisk(FEW, Y, cp.Hinge(), intercept=intercept)
    assert issubclass(kind_of(automatic(Problem(risk, cp.L2(1.0)))), NewtonSteps)


@pytest.mark.parametrize("last_bits", [0.0, 1e-15, -1e-15])
def test_last_bits_do_not_choose(last_bits):
    # Rows of length one, and lam such that mean |x|^2 / (m lam) is just the limit.
    rows = sp.csr_array(np.eye(20)[rng.integers(0, 20, 10_000)] * (1.0 + last_bits))
    risk = cp.ScoredRisk(rows, np.tile(Y, 20), cp.Hinge(), intercept=False)
    assert issubclass(kind_of(automatic(Problem(risk, cp.L2(1.0 / (1.5 * 10_000))))), DualEpochs)


def test_the_choice_is_not_made_by_the_clock(monkeypatch):
    # Other threads of the process may look at it: a cluster of other tests has one that does.
    here = threading.get_ident()

    def watched(read):
        def clock():
            assert threading.get_ident() != here, "somebody looked at a clock"
            return read()

        return clock

    for name in ("time", "perf_counter", "process_time", "monotonic"):
        monkeypatch.setattr(time, name, watched(getattr(time, name)))
    for X in (FEW, MANY, LONG):
        for loss in (cp.Hinge(), cp.Logistic()):
            for intercept in (False, True):
                risk = cp.ScoredRisk(X, Y, loss, intercept=intercept)
                first, second = (automatic(Problem(risk, cp.L2(1e-3))) for _ in range(2))
                assert first == second


@pytest.mark.parametrize("intercept", [False, True])
def test_logistic_duals_suit_many_features_only(intercept):
    for X, expected in [(MANY, DualEpochs), (FEW, NewtonSteps)]:
        risk = cp.ScoredRisk(X, Y, cp.Logistic(), intercept=intercept)
        assert issubclass(kind_of(automatic(Problem(risk, cp.L2(1.0)))), expected)


def test_a_loss_that_is_only_values_gets_the_bundle_method():
    class OnlyValues(cp.Loss):
        task = "classification"

        def __call__(self, y, scores, weights):
            return cp.Hinge()(y, scores, weights)

    risk = cp.ScoredRisk(FEW, Y, OnlyValues())
    assert issubclass(kind_of(automatic(Problem(risk, cp.L2(1e-3)))), OnSegment)


@pytest.mark.parametrize(
    ("lam", "said"), [(1e-1, "method: block-ascent"), (1e-5, "so few sequences")]
)
def test_margins_of_few_sequences_need_a_large_lam(lam, said, caplog):
    y = np.tile(np.arange(26), 10)
    risk = cp.ChainRisk(np.eye(26)[y], y, np.arange(0, 261, 13), cp.ChainMargin())
    with caplog.at_level("INFO", logger="cutplane"):
        automatic(Problem(risk, cp.L2(lam)))
    assert said in caplog.text


@pytest.mark.parametrize(
    ("n", "lam", "said"),
    [
        (400, 1e-2, "block-ascent (exact inference, 400 examples)"),
        (400, 1e-5, "lam is small for so few examples"),
        (50, 1.0, "few examples"),
    ],
)
def test_models_with_many_examples_get_block_ascent(n, lam, said, caplog):
    risk = cp.StructuredRisk(cp.MulticlassModel(), np.eye(5)[np.arange(n) % 5], np.arange(n) % 5)
    with caplog.at_level("INFO", logger="cutplane"):
        method = automatic(Problem(risk, cp.L2(lam)))
    assert said in caplog.text
    assert issubclass(kind_of(method), BlockAscent) == said.startswith("block")


def mapped(folder, X):
    """Return a matrix whose arrays are files."""
    arrays = [X] if isinstance(X, np.ndarray) else [X.data, X.indices, X.indptr]
    for number, array in enumerate(arrays):
        np.save(folder / f"{number}.npy", array)
    arrays = [np.load(folder / f"{n}.npy", mmap_mode="r") for n in range(len(arrays))]
    return arrays[0] if isinstance(X, np.ndarray) else sp.csr_array(tuple(arrays), shape=X.shape)


@pytest.mark.parametrize("X", [MANY, LONG], ids=["sparse", "dense"])
def test_rows_on_disk_are_never_visited_at_random(X, tmp_path, monkeypatch):
    X = mapped(tmp_path, X)
    assert not as_rows(X).on_disk  # little enough to stay in the system's cache
    parts = (X,) if isinstance(X, np.ndarray) else as_rows(X).entries()
    n_bytes = sum(part.nbytes for part in parts if files_of([part]))
    monkeypatch.setattr(stored, "IN_CACHE", n_bytes)
    assert not as_rows(X).on_disk
    monkeypatch.setattr(stored, "IN_CACHE", n_bytes - 1)
    rows = as_rows(X)
    assert rows.on_disk
    assert not as_rows(X.copy()).on_disk
    assert not rows.part(np.arange(5)).on_disk
    for loss in (cp.Hinge(), cp.Logistic()):
        method = automatic(Problem(cp.ScoredRisk(rows, Y, loss), cp.L2(1.0)))
        assert issubclass(kind_of(method), NewtonSteps | OnSegment)
    classes = cp.ScoredRisk(AllPairs(rows, 3), np.arange(500) % 3, cp.Softmax())
    chosen = kind_of(automatic(Problem(classes, cp.L2(1.0))))
    in_memory = cp.ScoredRisk(AllPairs(as_rows(X.copy()), 3), classes.y, cp.Softmax())
    assert chosen in (OnSegment, NewtonSteps)
    assert kind_of(automatic(Problem(in_memory, cp.L2(1.0)))) is not chosen


@pytest.mark.parametrize(
    ("X", "loss", "expected"),
    [
        (MANY, cp.Hinge(), DualEpochs),
        (MANY, cp.Exponential(), OnSegment),
        (MANY.toarray(), cp.Hinge(), OnSegment),
        (FEW, cp.Hinge(), NewtonSteps),
    ],
)
def test_wide_sparse_rows_on_shards_suit_local_dual_ascent(X, loss, expected):
    sample = placed({"X": X, "y": Y}, [0])
    chosen = automatic(Problem(cp.ShardedRisk(sample, loss), cp.L2(1e-3)))
    sample.close()
    assert issubclass(kind_of(chosen), expected)
    assert not (expected is DualEpochs and chosen.planes is not None)
