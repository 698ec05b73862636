"""Memory for vectors: no two of them share it; one that is dropped leaves it to the next."""

import gc
import weakref

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import cutplane as cp
from cutplane.compute.arrays import BufferPool, empty, reusing

LARGE = 1 << 16


def test_a_vector_that_is_dropped_leaves_its_room():
    with reusing(BufferPool()):
        first = empty(LARGE)
        place = first.ctypes.data
        view = first[10:]
        del first
        other = empty(LARGE)
        assert not np.shares_memory(other, view)
        del view
        assert empty(LARGE).ctypes.data == place


def test_without_a_room_and_for_few_numbers_arrays_are_ordinary():
    assert empty(LARGE).base is None
    with reusing(BufferPool()):
        assert empty(10).base is None
        assert empty(3, 4).shape == (3, 4)


def test_shapes_and_types():
    with reusing(BufferPool()):
        matrix = empty(LARGE, 3)
    assert matrix.shape == (LARGE, 3)
    assert matrix.dtype == np.float64
    assert matrix.flags.c_contiguous
    assert matrix.flags.writeable
    assert matrix.flags.aligned


def test_what_is_still_used_outlives_its_room():
    with reusing(BufferPool()):
        kept = empty(LARGE)
        kept[:] = 3.0
    gc.collect()
    assert (kept == 3.0).all()


def test_memory_goes_with_the_room():
    room = BufferPool()
    vector = room.empty(LARGE)
    buffer = weakref.ref(vector.base._buffer)
    del vector
    assert buffer() is not None
    del room
    gc.collect()
    assert buffer() is None


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 2)), max_size=40))
def test_no_two_share_it(acts):
    """Whatever is made and dropped in whatever order, nobody writes into another's numbers."""
    alive = []
    with reusing(BufferPool()):
        for number, (make, which) in enumerate(acts):
            if make or not alive:
                vector = empty(LARGE + which)
                vector[[0, -1]] = number
                alive.append((number, vector))
            else:
                alive.pop(which % len(alive))
            for own, vector in alive:
                assert vector[0] == vector[-1] == own


def test_a_fit_has_the_same_bits_without_one(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(LARGE + 7, 3))
    y = np.where(X[:, 0] + rng.normal(size=len(X)) > 0.0, 1.0, -1.0)

    def fit():
        risk = cp.ScoredRisk(X, y, cp.Logistic())
        return cp.minimize(risk, cp.L2(1e-3), method=cp.bmrm(), tol=1e-6).w

    found = fit()
    monkeypatch.setattr("cutplane.compute.arrays._LEAST_NUMBERS", np.inf)
    assert found.tobytes() == fit().tobytes()
