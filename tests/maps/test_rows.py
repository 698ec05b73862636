"""The two products, for every format, against NumPy; and the threads that compute them."""

import os
import signal
import subprocess
import sys
import threading
import time
import warnings
import weakref

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.processes import PATIENCE, wait_until

from cutplane.compute import threads
from cutplane.compute.blocks import count_blocks
from cutplane.compute.threads import default_threads, run_blocks
from cutplane.data import Rows, as_rows

EPS = np.finfo(np.float64).eps


def csr64(X):
    """CSR with 64-bit indices, which SciPy's constructor would make 32-bit again."""
    X = scipy.sparse.csr_array(X)
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


FORMATS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "csr": scipy.sparse.csr_array,
    "csr_matrix": scipy.sparse.csr_matrix,
    "csr64": csr64,
}
in_every_format = pytest.mark.parametrize("store", FORMATS.values(), ids=FORMATS)
in_both_precisions = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def assert_products(rows, X, w, slopes):
    """Compare with NumPy in float64, up to the rounding a sum of that length may have."""
    X = np.asarray(X, dtype=np.float64)
    m, d = X.shape
    assert rows.shape == (m, d)
    for got, factor, vector in (
        (rows.scores(w), X, np.asarray(w)),
        (rows.pullback(slopes), X.T, np.asarray(slopes)),
    ):
        assert got.dtype == np.float64
        assert got.shape == factor.shape[:1]
        rounding = 2 * (factor.shape[1] + 2) * EPS * (np.abs(factor) @ np.abs(vector))
        np.testing.assert_array_less(np.abs(got - factor @ vector), rounding + 1e-300)


def sparse_normal(shape, dtype, rng, density=0.4):
    return np.where(rng.random(shape) < density, rng.standard_normal(shape), 0.0).astype(dtype)


def some_zero(slopes, rng):
    return np.where(rng.random(len(slopes)) < 0.5, slopes, 0.0)


# --- the products -----------------------------------------------------------------------------


@in_every_format
@in_both_precisions
@settings(deadline=None, max_examples=25)
@given(
    m=st.integers(0, 40),
    d=st.integers(0, 12),
    density=st.sampled_from([0.0, 0.3, 1.0]),
    zeros=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_agrees_with_numpy(store, dtype, m, d, density, zeros, seed):
    rng = np.random.default_rng(seed)
    X = sparse_normal((m, d), dtype, rng, density)
    w, slopes = rng.standard_normal(d), rng.standard_normal(m)
    assert_products(as_rows(store(X)), X, w, some_zero(slopes, rng) if zeros else slopes)


@in_every_format
@in_both_precisions
def test_agrees_with_numpy_over_many_blocks(store, dtype):
    rng = np.random.default_rng(0)
    X = sparse_normal((40_003, 21), dtype, rng)
    X[1000:9000] = 0  # empty rows, so that blocks of CSR differ in length
    slopes = rng.standard_normal(len(X))
    assert_products(as_rows(store(X), n_threads=2), X, rng.standard_normal(21), slopes)


@in_every_format
def test_wide(store):
    rng = np.random.default_rng(1)
    X = sparse_normal((70, 9_001), np.float64, rng)
    rows = as_rows(store(X), n_threads=2)
    assert_products(rows, X, rng.standard_normal(9_001), rng.standard_normal(70))


@in_every_format
@pytest.mark.parametrize("m", [0, 7, 40_000])
def test_pullbacks_of_blocks(store, m):
    rng = np.random.default_rng(3)
    X = sparse_normal((m, 21), np.float64, rng)
    slopes = some_zero(rng.standard_normal(m), rng)
    bounds = np.sort(np.concatenate(([0, m], rng.integers(0, m + 1, 9))))  # some may be empty
    sums = as_rows(store(X), n_threads=2).block_pullbacks(slopes, bounds)
    assert sums.shape == (10, 21)
    for total, begin, end in zip(sums, bounds[:-1], bounds[1:], strict=True):
        part, vector = X[begin:end].T, slopes[begin:end]
        rounding = 2 * (len(vector) + 2) * EPS * (np.abs(part) @ np.abs(vector))
        np.testing.assert_array_less(np.abs(total - part @ vector), rounding + 1e-300)


@in_every_format
@in_both_precisions
def test_the_products_are_adjoint(store, dtype):
    rng = np.random.default_rng(2)
    X = sparse_normal((9_000, 33), dtype, rng)
    rows = as_rows(store(X), n_threads=2)
    w, q = rng.standard_normal(33), some_zero(rng.standard_normal(9_000), rng)
    size = np.abs(q) @ (np.abs(X.astype(float)) @ np.abs(w))
    assert abs(rows.scores(w) @ q - w @ rows.pullback(q)) <= 100 * EPS * size


@in_every_format
@in_both_precisions
def test_the_same_bits_for_any_number_of_threads(store, dtype):
    rng = np.random.default_rng(3)
    X = store(sparse_normal((30_011, 53), dtype, rng))
    w, dense = rng.standard_normal(53), rng.standard_normal(30_011)
    few = some_zero(dense, rng)
    products = [
        b"".join(r.tobytes() for r in (rows.scores(w), rows.pullback(dense), rows.pullback(few)))
        for rows in (as_rows(X, n_threads=n) for n in (1, 2, 3, 3))
    ]
    assert len(set(products)) == 1


def test_float32_is_summed_in_float64():
    X = np.full((1, 3), 1.0, dtype=np.float32)
    X[0, 0] = 2.0**25  # float32 could not hold this plus one
    assert as_rows(X).scores(np.ones(3))[0] == 2.0**25 + 2
    assert as_rows(X.T.copy()).pullback(np.ones(3))[0] == 2.0**25 + 2


def test_duplicate_unsorted_and_zero_entries_of_csr():
    values, indices, starts = [1.0, 0.0, 2.0, 4.0, 5.0], [2, 1, 0, 2, 1], [0, 4, 4, 5]
    X = scipy.sparse.csr_array((values, indices, starts), shape=(3, 3))
    rows = as_rows(X)
    np.testing.assert_array_equal(rows.scores([1.0, 10.0, 100.0]), [502.0, 0.0, 50.0])
    np.testing.assert_array_equal(rows.pullback([1.0, 7.0, 2.0]), [2.0, 10.0, 5.0])
    assert X.nnz == 5  # left as it was


@in_every_format
def test_extreme_scales(store):
    X = np.array([[1e-200, 1e15], [1e-200, -1e15], [0.0, 1e-300]])
    assert_products(as_rows(store(X)), X, np.array([1e200, 1e-15]), np.array([1.0, 0.5, 1e10]))


@in_every_format
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_shows(store, bad):
    rng = np.random.default_rng(4)
    rows = as_rows(store(np.abs(rng.standard_normal((9, 5))) + 1))
    assert not np.isfinite(rows.scores([1.0, 1.0, bad, 1.0, 1.0])).any()
    assert not np.isfinite(rows.pullback([1.0] * 8 + [bad])).any()


@pytest.mark.parametrize("store", [FORMATS["C"], FORMATS["csr"]], ids=["C", "csr"])
def test_rows_with_slope_zero_are_not_read(store):
    X = np.array([[np.inf, np.nan], [1.0, 2.0]])
    np.testing.assert_array_equal(as_rows(store(X)).pullback([0.0, 3.0]), [3.0, 6.0])


# --- what may be passed in --------------------------------------------------------------------


@in_both_precisions
@pytest.mark.parametrize("order", ["C", "F"])
def test_dense_is_used_where_it_lies(dtype, order, tmp_path):
    rng = np.random.default_rng(5)
    X = np.asarray(rng.standard_normal((50, 7)), dtype=dtype, order=order)
    X.flags.writeable = False
    mapped = np.memmap(tmp_path / "X", dtype, "w+", shape=X.shape, order=order)
    mapped[:] = X
    for stored in (X, mapped):
        rows = as_rows(stored)
        kept = rows.X
        assert np.shares_memory(kept, stored)
        assert kept.dtype == dtype
        assert_products(rows, X, rng.standard_normal(7), rng.standard_normal(50))


@in_both_precisions
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_csr_over_memory_maps_is_used_where_it_lies(dtype, index, tmp_path):
    rng = np.random.default_rng(6)
    dense = sparse_normal((50, 7), dtype, rng)
    X = scipy.sparse.csr_array(dense)
    for name, kind in (("data", dtype), ("indices", index), ("indptr", index)):
        np.save(tmp_path / name, getattr(X, name).astype(kind))
        setattr(X, name, np.load(tmp_path / f"{name}.npy", mmap_mode="r"))
    rows = as_rows(X)
    for kept, stored in ((rows.values, X.data), (rows.indices, X.indices)):
        assert isinstance(stored, np.memmap)
        assert np.shares_memory(kept, stored)
        assert kept.dtype == stored.dtype
    # Where rows begin is copied: a file that changes must not lead compiled code astray.
    assert not np.shares_memory(rows.starts, X.indptr)
    assert rows.starts.dtype == X.indptr.dtype
    np.testing.assert_array_equal(rows.starts, X.indptr)
    assert_products(rows, dense, rng.standard_normal(7), rng.standard_normal(50))


CONVERTED = {
    "list": lambda X: X.tolist(),
    "int16": lambda X: X.astype(np.int16),
    "bool": lambda X: X > 0,
    "float16": lambda X: X.astype(np.float16),
    "big-endian float64": lambda X: X.astype(">f8"),
    "big-endian float32": lambda X: X.astype(">f4"),
    "every other column": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "every other row": lambda X: np.repeat(X, 2, axis=0)[::2],
    "reversed": lambda X: X[::-1],
    "unaligned": lambda X: np.ndarray(X.shape, X.dtype, b"?" + X.tobytes(), offset=1),
    "csc": scipy.sparse.csc_array,
    "coo": scipy.sparse.coo_matrix,
    "csr of int64": lambda X: scipy.sparse.csr_array(X.astype(np.int64)),
    "csr of bool": lambda X: scipy.sparse.csr_array(X > 0),
}


@pytest.mark.parametrize("convert", CONVERTED.values(), ids=CONVERTED)
def test_other_formats_are_converted(convert):
    rng = np.random.default_rng(7)
    X = convert(rng.integers(-3, 4, (20, 6)).astype(np.float64))
    dense = X.toarray() if scipy.sparse.issparse(X) else np.asarray(X)
    assert_products(as_rows(X), dense, rng.standard_normal(6), rng.standard_normal(20))


def test_a_view_is_kept_but_never_written_to():
    X = np.ones((2, 2))
    rows = as_rows(X)
    X[0, 0] = 5.0
    np.testing.assert_array_equal(rows.scores([1.0, 1.0]), [6.0, 2.0])
    with pytest.raises(ValueError, match="read-only"):
        rows.X[0, 0] = 1.0


def test_rows_are_returned_as_they_are():
    rows = as_rows(np.ones((2, 2)))
    assert isinstance(rows, Rows)
    assert as_rows(rows) is rows


@in_every_format
def test_wrong_lengths(store):
    rows = as_rows(store(np.ones((4, 3))))
    with pytest.raises(ValueError, match=r"^w must have shape \(3,\) to match X, got \(4,\)\.$"):
        rows.scores(np.ones(4))
    with pytest.raises(ValueError, match=r"^slopes must have shape \(4,\) .* got \(4, 1\)\.$"):
        rows.pullback(np.ones((4, 1)))


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.ones(3), "two dimensions"),
        (np.ones((2, 2, 2)), "two dimensions"),
        (np.ones((2, 2), dtype=complex), "must be real"),
        (scipy.sparse.csr_array(np.ones((2, 2), dtype=complex)), "must be real"),
    ],
)
def test_what_is_no_matrix(X, message):
    with pytest.raises(ValueError, match=message):
        as_rows(X)


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("indices", [0, 3, 1], "Column indices must lie in 0 .. 2"),
        ("indices", [0, -1, 1], "Column indices must lie in 0 .. 2"),
        ("indices", [0, 1], "3 entries, more than are stored"),
        ("indptr", [0, 4, 3], "must rise from 0"),
        ("indptr", [1, 2, 3], "must rise from 0"),
        ("indptr", [0, 3], "must rise from 0"),
    ],
)
def test_a_broken_csr_is_refused(name, array, message):
    X = scipy.sparse.csr_array(([1.0, 1.0, 1.0], [0, 2, 1], [0, 2, 3]), shape=(2, 3))
    setattr(X, name, np.array(array, dtype=np.int32))
    with pytest.raises(ValueError, match=message):
        as_rows(X)


# --- threads ----------------------------------------------------------------------------------


@pytest.mark.parametrize("n_threads", [1, 2, 3, 8])
@pytest.mark.parametrize("n_blocks", [1, 2, 7, 64])
def test_every_block_is_run_once(n_threads, n_blocks):
    counts = np.zeros(n_blocks, dtype=int)

    def count(first, last):
        counts[first:last] += 1

    run_blocks(count, n_blocks, n_threads=n_threads)
    np.testing.assert_array_equal(counts, 1)


def test_helpers_work_at_the_same_time_as_the_caller():
    meeting = threading.Barrier(3)  # breaks unless three threads are inside at once
    run_blocks(lambda first, last: meeting.wait(PATIENCE), 3, n_threads=3)
    assert not meeting.broken


@pytest.mark.parametrize(("m", "asked"), [(200, 0), (40_000, 2)])
def test_only_large_products_ask_for_help(m, asked, monkeypatch):
    calls = []
    ask = threads.Helpers.ask
    monkeypatch.setattr(
        threads.Helpers, "ask", lambda self, n, job: (calls.append(n), ask(self, n, job))
    )
    rows = as_rows(np.ones((m, 20)), n_threads=2)
    rows.scores(np.ones(20))
    rows.pullback(np.ones(m))
    assert len(calls) == asked


def test_several_callers_at_once():
    rng = np.random.default_rng(8)
    X, w = rng.standard_normal((30_000, 20)), rng.standard_normal((4, 20))
    rows = as_rows(X, n_threads=3)
    expected = [rows.scores(v) for v in w]
    wrong = []

    def call(v, scores):
        wrong.extend(1 for _ in range(20) if not np.array_equal(rows.scores(v), scores))

    callers = [threading.Thread(target=call, args=pair) for pair in zip(w, expected, strict=True)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(PATIENCE)
    assert not any(caller.is_alive() for caller in callers)
    assert not wrong


def test_a_task_may_share_its_own_work():
    counts = np.zeros((4, 4), dtype=int)

    def outer(first, last):
        for row in range(first, last):

            def inner(first, last, row=row):
                counts[row, first:last] += 1

            run_blocks(inner, 4, n_threads=3)

    run_blocks(outer, 4, n_threads=3)
    np.testing.assert_array_equal(counts, 1)


@pytest.mark.parametrize("guilty", ["caller", "helper"])
def test_an_exception_reaches_the_caller_and_breaks_nothing(guilty):
    both_inside = threading.Barrier(2)
    main = threading.current_thread()
    at_work = []

    def task(first, last):
        at_work.append(first)
        both_inside.wait(PATIENCE)
        if (threading.current_thread() is main) == (guilty == "caller"):
            raise KeyboardInterrupt
        time.sleep(0.02)
        at_work.remove(first)

    with pytest.raises(KeyboardInterrupt):
        run_blocks(task, 2, n_threads=2)
    assert len(at_work) == 1  # the other one was waited for
    test_every_block_is_run_once(2, 64)


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="needs POSIX signals")
def test_ctrl_c_while_waiting_for_a_helper():
    both_inside = threading.Barrier(2)
    main = threading.current_thread()
    finished = []

    def task(first, last):
        both_inside.wait(PATIENCE)
        if threading.current_thread() is not main:
            time.sleep(0.1)  # now the caller waits, unless much else runs
            signal.pthread_kill(main.ident, signal.SIGALRM)
            time.sleep(0.2)
            finished.append(first)

    def interrupt(signal_number, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_blocks(task, 2, n_threads=2)
        assert len(finished) == 1
    finally:
        signal.signal(signal.SIGALRM, before)


def test_an_idle_helper_does_not_keep_the_data_alive():
    X = np.ones((40_000, 20))
    rows = as_rows(X, n_threads=2)
    rows.scores(np.ones(20))
    gone = weakref.ref(rows)
    del rows
    wait_until(lambda: gone() is None)  # a helper may only just be letting go


def test_without_new_threads_the_caller_works_alone(monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threads, "pool", threads.Helpers())
    monkeypatch.setattr(threading.Thread, "start", refuse)
    test_every_block_is_run_once(3, 64)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_works_in_a_forked_child():
    rows = as_rows(np.ones((40_000, 20)), n_threads=2)
    rows.scores(np.ones(20))  # the parent has helpers now, the child will not
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: fork with threads
        child = os.fork()
    if child == 0:
        correct = False
        try:
            meeting = threading.Barrier(2)
            run_blocks(lambda first, last: meeting.wait(PATIENCE), 2, n_threads=2)
            correct = bool((rows.scores(np.ones(20)) == 20).all())
        finally:
            os._exit(0 if correct else 1)
    deadline = time.monotonic() + PATIENCE
    while (done := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
        time.sleep(0.01)
    if done == (0, 0):
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert done == (child, 0)


def test_the_interpreter_exits_with_idle_helpers():
    program = (
        "import atexit, numpy as np; from cutplane.data import as_rows\n"
        "rows = as_rows(np.ones((40_000, 20)), n_threads=2); rows.scores(np.ones(20))\n"
        "atexit.register(lambda: print(rows.scores(np.ones(20)).sum()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "800000.0\n", "")


@given(n_entries=st.integers(0, 10**9), most=st.integers(0, 1000))
def test_blocks_are_few_even_and_large(n_entries, most):
    n_blocks = count_blocks(n_entries, most=most)
    assert n_blocks.bit_count() == 1
    assert 1 <= n_blocks <= max(1, min(most, n_entries // 2**17, 256))


def test_number_of_threads_from_the_environment(monkeypatch):
    names = ["CUTPLANE_NUM_THREADS", "NUMBA_NUM_THREADS", "OMP_NUM_THREADS"]
    for name in names:
        monkeypatch.delenv(name, raising=False)
    if hasattr(os, "sched_getaffinity"):
        assert default_threads() == len(os.sched_getaffinity(0))
    for n_threads, name in enumerate(reversed(names), start=5):
        monkeypatch.setenv(name, str(n_threads))
        assert default_threads() == n_threads  # the last one set here is the first one asked
    monkeypatch.setenv(names[0], "")
    assert default_threads() == 6
    monkeypatch.delenv(names[1])
    monkeypatch.setenv(names[2], "3,2")
    assert default_threads() == 3


@pytest.mark.parametrize("value", ["two", "0", "-1", "1.5"])
def test_a_malformed_number_of_threads(value, monkeypatch):
    monkeypatch.setenv("CUTPLANE_NUM_THREADS", value)
    with pytest.raises(
        ValueError, match=f"CUTPLANE_NUM_THREADS must be a positive whole number, got '{value}'"
    ):
        as_rows(np.ones((2, 2)))
    assert as_rows(np.ones((2, 2)), n_threads=1).shape == (2, 2)  # the argument overrides
    with pytest.raises(ValueError, match="n_threads must be at least 1"):
        as_rows(np.ones((2, 2)), n_threads=0)


@in_every_format
@in_both_precisions
@given(seed=st.integers(0, 10**6), m=st.integers(0, 40), d=st.integers(0, 9))
def test_weighted_gram_matrix(store, dtype, seed, m, d):
    rng = np.random.default_rng(seed)
    X = sparse_normal((m, d), dtype, rng)
    curvatures = rng.random(m) * (rng.random(m) < 0.6)
    got = as_rows(store(X)).weighted_gram(curvatures)
    X = X.astype(np.float64)
    np.testing.assert_allclose(got, X.T @ (curvatures[:, None] * X), atol=1e-12)
    np.testing.assert_array_equal(got, got.T)


def test_weighted_gram_matrix_adds_up_repeated_entries():
    X = scipy.sparse.csr_array(
        (np.array([1.0, 2.0, 4.0]), np.array([1, 0, 1]), np.array([0, 3])), shape=(1, 2)
    )
    np.testing.assert_array_equal(as_rows(X).weighted_gram(np.ones(1)), [[4.0, 10.0], [10.0, 25.0]])


@in_every_format
def test_weighted_gram_matrix_does_not_depend_on_threads(store):
    rng = np.random.default_rng(0)
    X, curvatures = store(rng.normal(size=(20_000, 30))), rng.random(20_000)
    alone, together = (as_rows(X, n_threads=n).weighted_gram(curvatures) for n in (1, 3))
    np.testing.assert_array_equal(alone, together)


@in_every_format
@in_both_precisions
def test_some_of_the_rows(store, dtype):
    rng = np.random.default_rng(1)
    X = sparse_normal((30, 5), dtype, rng)
    chosen = np.array([3, 4, 17, 29])
    rows = as_rows(store(X)).part(chosen)
    assert type(rows) is type(as_rows(store(X)))
    assert_products(rows, X[chosen], rng.normal(size=5), rng.normal(size=4))


@given(order=st.permutations(range(6)))
def test_results_are_handed_over_in_order(order):
    taken = []
    in_order = threads.InOrder(taken.append)
    for count, number in enumerate(order, start=1):
        in_order.put(number, str(number))
        come = set(order[:count])
        ready = next(k for k in range(7) if k not in come)
        assert taken == [str(k) for k in range(ready)]
