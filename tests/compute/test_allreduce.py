"""Sums along the tree: the same bits wherever the blocks lie."""

import gc
import sys
import threading
from multiprocessing import Pipe

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.processes import PATIENCE

from cutplane.cluster.allreduce import (
    Leader,
    LostWorker,
    packed,
    serve,
    subtrees,
    sum_of_subtrees,
)
from cutplane.compute.blocks import even_bounds, power_below, total_of_rows, tree_sum, vector_blocks

rng = np.random.default_rng(0)


@given(st.integers(1, 10**12), st.integers(0, 12), st.integers(0, 6))
def test_coarser_bounds_are_some_of_the_finer_ones(n_rows, level, below):
    coarse, fine = even_bounds(n_rows, 1 << level), even_bounds(n_rows, 1 << (level + below))
    assert np.array_equal(coarse, fine[:: 1 << below])
    assert fine[0] == 0
    assert fine[-1] == n_rows
    assert np.ptp(np.diff(fine)) <= 1


def test_blocks_of_vectors_are_powers_of_two_and_not_short():
    for n_rows in [1, 2, 1000, 32768, 65535, 65536, 581_012, 10**9]:
        n_blocks = vector_blocks(n_rows)
        assert n_blocks == power_below(n_blocks)
        assert n_blocks == 1 or n_rows // n_blocks >= 1 << 15


@given(st.integers(0, 6), st.integers(0, 2**31))
def test_sums_of_arrays_and_of_rows_are_the_same(level, seed):
    parts = np.random.default_rng(seed).normal(size=(1 << level, 3))
    assert np.array_equal(tree_sum(list(parts)), total_of_rows(parts.copy()))


@given(st.integers(0, 6), st.integers(1, 13), st.integers(0, 2**31))
def test_any_placement_of_blocks_gives_the_same_bits(level, n_workers, seed):
    draw = np.random.default_rng(seed)
    n_blocks = 1 << level
    sums = draw.normal(size=n_blocks) * 10.0 ** draw.integers(-8, 8, n_blocks)
    owner = draw.integers(0, n_workers, n_blocks)
    sent = [
        part
        for member in range(n_workers)
        for part in subtrees(
            n_blocks, {int(i): (float(sums[i]),) for i in np.flatnonzero(owner == member)}
        )
    ]
    draw.shuffle(sent)
    assert sum_of_subtrees(sent) == (tree_sum(sums.tolist()),)


def test_neighbors_send_few_subtrees():
    halves = [subtrees(16, dict.fromkeys(part, (1.0,))) for part in (range(7), range(7, 16))]
    assert [len(part) for part in halves] == [3, 2]


def test_a_missing_block_is_no_sum():
    parts = subtrees(4, {0: (1.0,), 1: (1.0,), 2: (1.0,)})
    with pytest.raises(ValueError, match="no neighbor"):
        sum_of_subtrees(parts)


class Crew:
    """Members in threads of this process, connected by pipes."""

    def __init__(self, *services, patience=5.0):
        pairs = [Pipe() for _ in services]
        self.threads = [
            threading.Thread(target=serve, args=(theirs, service), daemon=True)
            for (_, theirs), service in zip(pairs, services, strict=True)
        ]
        for thread in self.threads:
            thread.start()
        self.ours = [ours for ours, _ in pairs]
        self.leader = Leader(self.ours, patience=patience)


def _add(link, verb, number):
    return link.ask("added", number) if verb == "add" else number


def test_workers_wait_for_each_other():
    crew = Crew(_add, _add, _add)
    assert crew.leader.call("add", each=[1, 2, 3]) == [6, 6, 6]
    assert crew.leader.call("echo", each=[1, 2, 3]) == [1, 2, 3]
    assert (crew.leader.n_calls, crew.leader.n_rounds) == (2, 1)
    crew.leader.close()
    for thread in crew.threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()


def test_an_error_of_one_frees_the_others_and_the_team_goes_on():
    def failing(link, verb, number):
        if verb == "add" and number < 0:
            raise ValueError(f"{number} is negative")
        return _add(link, verb, number)

    crew = Crew(failing, failing)
    for _ in range(3):
        with pytest.raises(ValueError, match="-2 is negative"):
            crew.leader.call("add", each=[1, -2])
        assert crew.leader.call("add", each=[1, 2]) == [3, 3]
    crew.leader.close()


def test_an_error_that_cannot_be_sent_is_told_in_words():
    def failing(link, verb):
        error = ValueError("with a lock")
        error.lock = threading.Lock()
        raise error

    crew = Crew(failing)
    with pytest.raises(RuntimeError, match="with a lock"):
        crew.leader.call("anything")
    crew.leader.close()


def test_workers_that_disagree_are_found_out():
    crew = Crew(_add, lambda link, verb, number: number)
    with pytest.raises(RuntimeError, match="disagree"):
        crew.leader.call("add", each=[1, 2])
    assert crew.leader.call("echo", each=[1, 2]) == [1, 2]
    crew.leader.close()


def test_a_worker_that_is_gone_is_named_and_the_others_are_free():
    def leaving(link, verb, number):
        link.close()
        return number

    crew = Crew(_add, leaving)
    with pytest.raises(LostWorker) as caught:
        crew.leader.call("add", each=[1, 2])
    assert caught.value.number == 1
    for thread in crew.threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()


def test_a_slow_worker_is_waited_for_but_not_a_silent_one():
    silent = threading.Event()

    def slow(link, verb, seconds):
        if seconds < 0:
            link.send = lambda *message: None  # as if stopped: no sign of life either
        silent.wait(abs(seconds))
        return seconds

    crew = Crew(slow, patience=2.0)
    assert crew.leader.call("wait", 3.5) == [3.5]
    with pytest.raises(LostWorker, match="nothing heard"):
        crew.leader.call("wait", -10)
    silent.set()


def test_a_message_that_an_exception_keeps_is_collected_in_silence(monkeypatch):
    # Python 3.13 tells of a stream that cannot be closed because somebody looks into it.
    told = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    cycle = [packed("sum", np.ones(1000))]
    cycle.append(cycle)
    del cycle
    gc.collect()
    assert told == []
