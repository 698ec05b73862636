"""What is guessed about a file that cannot be read, and costs of mistakes from a file.

What a file looks like that cannot be read as the options say, and which option it needs.

Costs of mistakes from a small table: a CSV file with the classes in its first line and column.

    ,cat,dog
    cat,0,1
    dog,5,0

A line says what it costs to predict each class where the first cell's is true.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Sequence

from cutplane.io import InputError
from cutplane.io.sources import STANDARD_INPUT, name_of, read_parts, read_text

_FEATURE = re.compile(r"\s[+-]?[0-9]+:\S")
_QUERY = re.compile(r"^\S+\s+qid:[0-9]+\s")
_LOOKED_AT = 20


def option_for(path: str) -> str | None:
    """Return which option a file seems to need that is not in the svmlight format, if any."""
    lines = _first_lines(path)
    there = [line for line in lines if line.strip()]
    if len(there) < 2 or any(map(_FEATURE.search, there)):
        return None
    for separator in ",;\t|":
        counts = {line.count(separator) for line in there}
        # Tokens have columns, too, but empty lines between the sequences.
        if len(counts) == 1 and counts != {0} and len(there) >= len(lines) - 1:
            columns = [part.strip().strip('"') for part in there[0].split(separator)]
            shown = ", ".join(columns[:5]) + (", ..." if len(columns) > 5 else "")
            return f"it looks like a table ({shown}): say which column to predict by --target"
    widths = {len(line.split()) for line in there}
    if len(widths) == 1 and widths != {1}:
        return "it looks like columns of tokens: give --task sequences"
    return None


def has_queries(path: str) -> bool:
    """Say whether the first lines of a file all name a query."""
    there = [line for line in _first_lines(path) if line.strip()]
    return bool(there) and all(map(_QUERY.match, there))


def writes_plus(path: str) -> bool:
    """Say whether labels above zero have a sign in the first part of a file."""
    return any(line.lstrip().startswith("+") for line in _first_lines(path, most=None))


def _first_lines(path: str, most: int | None = _LOOKED_AT) -> Sequence[str]:
    """Return the first lines of a file, the last of them whole; none of standard input."""
    if path == STANDARD_INPUT or os.path.isdir(path):
        return ()
    try:
        first = next(iter(read_parts(path)), b"")
    except InputError:
        return ()
    lines = first.decode("utf-8-sig", errors="replace").splitlines()
    return lines[:-1][:most] if len(lines) > 1 else lines


def read_costs(path: str) -> dict[str, dict[str, float]]:
    """Return ``costs[true][predicted]``, with the classes as they stand in the file."""
    name = name_of(path)
    lines = [
        (number, [cell.strip() for cell in row])
        for number, row in enumerate(csv.reader(read_text(path).splitlines()), 1)
        if row
    ]
    if not lines:
        raise InputError(f"{name}: no costs")
    (_, (_, *classes)), *rows = lines
    if not classes or len(set(classes)) != len(classes):
        raise InputError(f"{name}, line 1: no classes, or one of them twice")
    costs: dict[str, dict[str, float]] = {}
    for number, (true, *cells) in rows:
        where = f"{name}, line {number}"
        if true in costs:
            raise InputError(f"{where}: class {true} has two lines")
        if len(cells) != len(classes):
            raise InputError(f"{where}: {len(cells)} costs for {len(classes)} classes")
        try:
            costs[true] = dict(zip(classes, map(float, cells), strict=True))
        except ValueError as error:
            raise InputError(f"{where}: a cost is no number ({error})") from None
    return costs
