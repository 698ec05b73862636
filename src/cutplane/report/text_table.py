"""Tables as lines of text."""

from __future__ import annotations

from collections.abc import Iterable


def table(lines: Iterable[Iterable[str]], *, words: Iterable[int] = (0,)) -> list[str]:
    """Return lines of cells below each other, the columns ``words`` to the left."""
    cells = [list(line) for line in lines]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    left = set(words)
    return [
        "  ".join(
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    ]
