"""What a fit on a cluster would take, by counts and speeds."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cutplane as cp

SIZES = {
    "n_rows": st.integers(1, 10**10),
    "n_features": st.integers(1, 10**7),
    "n_workers": st.integers(1, 200),
}


@given(**SIZES, n_threads=st.integers(1, 64), per_row=st.none() | st.floats(0.1, 1000.0))
def test_more_workers_share_the_work_and_cost_more_messages(
    n_rows, n_features, n_workers, n_threads, per_row
):
    sizes = {"per_row": per_row, "n_threads": n_threads}
    one = cp.simulate(n_rows, n_features, 1, **sizes)
    few = cp.simulate(n_rows, n_features, n_workers, **sizes)
    more = cp.simulate(n_rows, n_features, n_workers + 1, **sizes)
    assert 0.0 < one.work / few.work <= n_workers * (1.0 + 1e-9)
    assert more.work <= few.work
    assert more.waiting >= few.waiting
    assert more.sending >= few.sending
    assert more.leading == few.leading
    assert math.isclose(few.seconds, few.iterations * sum(few[:4]))


@given(**SIZES, factor=st.floats(1.0, 100.0))
def test_worse_networks_take_longer(n_rows, n_features, n_workers, factor):
    good = cp.simulate(n_rows, n_features, n_workers)
    bad = cp.simulate(
        n_rows, n_features, n_workers, round_trip=factor * 5e-4, bandwidth=1.25e9 / factor
    )
    assert bad.seconds >= good.seconds
    assert bad.work == good.work


def test_workers_without_a_shard_do_nothing():
    # A shard has at least 32,768 rows, and there are at most 64.
    assert cp.simulate(65_536, 10, 3) == cp.simulate(65_536, 10, 2)
    assert cp.simulate(10**9, 10, 65) == cp.simulate(10**9, 10, 64)


def test_sizes_must_be_positive():
    with pytest.raises(ValueError, match="at least 1"):
        cp.simulate(10, 10, 0)


def test_speeds_are_measured():
    speeds = cp.Speeds.here(n_rows=1 << 13)
    assert 0.0 < speeds.entry < 1e-6
    assert 0.0 <= speeds.row < 1e-4
    assert 0.0 < speeds.number < 1e-5
    assert cp.simulate(10**6, 10, 2, speeds=speeds).seconds > 0.0
