"""Traces: the history of a run as JSON lines, one record per line, written while the run goes on.

A line holds the fields of a `Record` and its gaps. JSON has no infinity, so a bound that is not
there yet is ``null``. A trace of several runs (one per class) is their traces one after another.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Sequence
from typing import IO, Any, Self

import msgspec

from cutplane.core.certificate import Certificate, Record
from cutplane.core.state import State
from cutplane.io.files import InputError, OutputError, name_of, read_bytes, reason
from cutplane.io.models.schema import Finite, Size


class _Line(msgspec.Struct):
    """What a line must hold."""

    iteration: Size
    objective: Finite | None
    lower_bound: Finite | None
    evaluations: Size
    planes: Size
    seconds: Finite | None


class TraceWriter:
    """A callback that writes every record to a file, at once, so that a run can be watched.

    The file is created by the first record. If it cannot be written, the run goes on without it:
    a full disk must not cost the fit. `close` then raises.

    Examples
    --------
    >>> with TraceWriter("run.jsonl") as trace:                            # doctest: +SKIP
    ...     LinearClassifier(callbacks=(trace,)).fit(X, y)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)
        self._file: IO[str] | None = None
        self._error: OSError | None = None
        self._written = 0

    def __call__(self, state: State) -> None:
        """Write the latest record of a running solver."""
        self.write(state.history[-1])

    def write(self, record: Record) -> None:
        """Append one line."""
        if self._error is not None:
            return
        try:
            if self._file is None:
                self._file = open(self._path, "w", encoding="utf-8")  # noqa: SIM115
            self._file.write(json.dumps(record_to_json(record), allow_nan=False) + "\n")
            self._file.flush()
            self._written += 1
        except OSError as error:
            self._error = error

    def complete(self, histories: Iterable[Sequence[Record]]) -> None:
        """Rewrite the file with all records of some runs, if a checkpoint held earlier ones."""
        records = [record for history in histories for record in history]
        if self._written < len(records) and self._error is None:
            self.close()
            self._file = None
            for record in records:
                self.write(record)

    def close(self) -> None:
        """Close the file.

        Raises
        ------
        OutputError
            If a record could not be written.
        """
        try:
            if self._file is not None:
                self._file.close()
        except OSError as error:
            self._error = self._error or error
        if self._error is not None:
            raise OutputError(f"{self._path}: cannot write: {reason(self._error)}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def read_trace(path: str | os.PathLike[str]) -> list[Record]:
    """Read the records of a trace.

    The last line may be incomplete, as it is while a run goes on or after it was killed; it is
    then left out.

    Raises
    ------
    InputError
        If the file cannot be read, or with ``FILE:LINE: what is wrong``.
    """
    name = name_of(path)
    lines = read_bytes(path).split(b"\n")
    records = []
    for line_number, line in enumerate(lines[:-1], start=1):  # nothing follows the last newline
        try:
            fields = json.loads(
                line.decode(), object_pairs_hook=_unique, parse_constant=_no_constant
            )
            records.append(record_from_json(fields))
        except (ValueError, OverflowError, RecursionError):
            raise InputError(f"{name}:{line_number}: not a line of a trace") from None
    return records


def split_runs(records: list[Record]) -> list[list[Record]]:
    """Split the records of a trace where the iteration count starts again."""
    runs: list[list[Record]] = []
    for record in records:
        if not runs or record.iteration <= runs[-1][-1].iteration:
            runs.append([])
        runs[-1].append(record)
    return runs


def record_to_json(record: Record) -> dict[str, int | float | None]:
    """Return a record as what `json` can write."""
    return {
        "iteration": record.iteration,
        **bounds_to_json(record),
        "evaluations": record.evaluations,
        "planes": record.planes,
        "seconds": record.seconds,
    }


def bounds_to_json(bounds: Record | Certificate) -> dict[str, float | None]:
    """Return objective, lower bound and gaps as what `json` can write: null if not finite."""
    names = ("objective", "lower_bound", "gap", "relative_gap")
    numbers = {name: float(getattr(bounds, name)) for name in names}
    return {name: number if math.isfinite(number) else None for name, number in numbers.items()}


def record_from_json(fields: object) -> Record:
    """Return the record of one line."""
    known = msgspec.structs.asdict(msgspec.convert(fields, _Line))
    unknown = {"objective": math.inf, "lower_bound": -math.inf, "seconds": math.nan}
    return Record(**known | {name: unknown[name] for name in known if known[name] is None})


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a field is there twice")
    return fields
