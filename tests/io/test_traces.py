"""Traces: every record on its line at once, and read back as it was."""

import json
import math
import os
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutplane.core.certificate import Record
from cutplane.io import InputError, OutputError, TraceWriter, read_trace, split_runs
from cutplane.io.traces import record_from_json, record_to_json

FIRST = Record(
    iteration=1, objective=1.0, lower_bound=-math.inf, evaluations=2, planes=1, seconds=0.5
)
SECOND = Record(iteration=2, objective=0.5, lower_bound=0.25, evaluations=3, planes=2, seconds=0.75)


def test_every_record_is_written_at_once(tmp_path):
    path = tmp_path / "run.jsonl"
    with TraceWriter(path) as trace:
        assert not path.exists()
        # A callback that returned true would end the run.
        assert trace(SimpleNamespace(history=[FIRST])) is None
        assert read_trace(path) == [FIRST]
        trace.write(SECOND)
        assert read_trace(path) == [FIRST, SECOND]


def test_lines_are_strict_json_with_the_gaps(tmp_path):
    path = tmp_path / "run.jsonl"
    with TraceWriter(path) as trace:
        trace.write(FIRST)
        trace.write(SECOND)
    first, second = (
        json.loads(line, parse_constant=pytest.fail) for line in path.read_text().splitlines()
    )
    assert first["lower_bound"] is None
    assert first["gap"] is None
    assert second["gap"] == 0.25
    assert second["relative_gap"] == 0.5


finite = st.floats(allow_nan=False, allow_infinity=False)
counts = st.integers(0, 10**9)


@given(
    st.builds(
        Record,
        iteration=counts,
        objective=finite,
        lower_bound=finite | st.just(-math.inf),
        evaluations=counts,
        planes=counts,
        seconds=finite,
    )
)
def test_records_survive(record):
    assert record_from_json(json.loads(json.dumps(record_to_json(record)))) == record


def test_an_incomplete_last_line_is_left_out(tmp_path):
    path = tmp_path / "run.jsonl"
    with TraceWriter(path) as trace:
        trace.write(FIRST)
        trace.write(SECOND)
    path.write_bytes(path.read_bytes()[:-10])
    assert read_trace(path) == [FIRST]


@pytest.mark.parametrize(
    "line",
    [
        b"{}",
        b"[]",
        b"nonsense",
        b"\xff",
        b"",
        b"[" * 100_000,
        json.dumps(record_to_json(FIRST) | {"iteration": True}).encode(),
        json.dumps(record_to_json(FIRST) | {"objective": "1"}).encode(),
        json.dumps(record_to_json(FIRST) | {"objective": float("nan")}).encode(),
        json.dumps(record_to_json(FIRST) | {"planes": -1}).encode(),
        json.dumps(record_to_json(FIRST) | {"objective": 10**400}).encode(),
        json.dumps(record_to_json(FIRST) | {"objective": math.nan}).encode(),
        json.dumps(record_to_json(FIRST) | {"gap": math.inf}).encode(),
        json.dumps(record_to_json(FIRST)).replace("null", "1e999", 1).encode(),
        json.dumps(record_to_json(FIRST)).replace("{", '{"planes": 7, ').encode(),
        json.dumps(record_to_json(FIRST)).encode("utf-16"),
    ],
)
def test_bad_lines_are_named(tmp_path, line):
    path = tmp_path / "run.jsonl"
    path.write_bytes(json.dumps(record_to_json(FIRST)).encode() + b"\n" + line + b"\n")
    with pytest.raises(InputError, match=r"run\.jsonl:2: not a line of a trace$"):
        read_trace(path)


def test_runs_are_told_apart():
    assert split_runs([]) == []
    assert split_runs([FIRST, SECOND, FIRST]) == [[FIRST, SECOND], [FIRST]]


def test_a_trace_that_cannot_be_written_does_not_stop_the_run(tmp_path):
    trace = TraceWriter(tmp_path / "no" / "run.jsonl")
    trace.write(FIRST)
    trace.write(SECOND)
    with pytest.raises(OutputError, match=r"run\.jsonl: cannot write: no such file or directory"):
        trace.close()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_a_full_disk_does_not_stop_the_run():
    trace = TraceWriter("/dev/full")
    trace.write(FIRST)
    with pytest.raises(OutputError, match="no space left on device"):
        trace.close()
