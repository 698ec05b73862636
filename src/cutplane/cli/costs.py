"""Costs of mistakes from a small table: a CSV file with the classes in its first line and column.

    ,cat,dog
    cat,0,1
    dog,5,0

A line says what it costs to predict each class where the first cell's is true.
"""

from __future__ import annotations

import csv

from cutplane.io import InputError
from cutplane.io.sources import name_of, read_text


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
