"""What an experiment is: a table or a figure of a paper, computed anew."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import product
from typing import Any

import cutplane as cp
from cutplane.core.certificate import Result
from cutplane.report.figures import in_words

Row = dict[str, Any]
"""One line of results, by the names of the columns; curves for a picture may be among them."""

Progress = Callable[[float, str], None]
"""Is told the share of the work that is done, from 0 to 1, and what comes next."""

Published = dict[str, dict[float, tuple[float, ...]]]
"""The figures of a printed table, by the name of a column and the number a row begins with."""


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A table or a figure of a paper.

    Attributes
    ----------
    name : str
        What the command line calls it.
    title : str
        What it shows, in one line.
    run : callable
        Computes the rows, and tells its progress. If it yields them one by one, those that are
        finished survive an interruption.
    columns : mapping or sequence of str
        The keys of a row that the table shows; a mapping also gives the columns titles.
    paper : str
        What the paper found, to compare with.
    picture : callable, optional
        Draws the rows as a matplotlib figure, where the paper has one.
    """

    name: str
    title: str
    run: Callable[[Progress], Iterable[Row]]
    columns: Mapping[str, str] | Sequence[str]
    paper: str = ""
    picture: Callable[[Sequence[Row]], Any] | None = None

    @property
    def titles(self) -> dict[str, str]:
        """The titles of the columns, by the keys of a row."""
        if isinstance(self.columns, Mapping):
            return dict(self.columns)
        return {key: key for key in self.columns}


def minimize(*args: Any, **options: Any) -> Result:
    """Minimize as `cutplane.minimize` does, but pass Ctrl-C on, which that turns into a result."""
    result = cp.minimize(*args, **options)
    if result.state.interrupted:  # in the last moment too, when the result is optimal all the same
        raise KeyboardInterrupt
    return result


def settings(progress: Progress, **choices: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
    """Yield every combination of some choices, the last varying fastest; first tell of each."""
    combinations = list(product(*choices.values()))
    for done, combination in enumerate(combinations):
        named = zip(choices, combination, strict=True)
        progress(done / len(combinations), ", ".join(in_words(*each) for each in named))
        yield combination


def first(conditions: Iterable[bool]) -> int | None:
    """Return the number, from 1 on, of the first condition that holds."""
    return next((number for number, holds in enumerate(conditions, 1) if holds), None)


def printed_table(name: str) -> Published:
    """Return the figures of a table in ``paper_004.txt``: bars stand between cells."""
    sections = files(__package__).joinpath("paper_004.txt").read_text("utf-8").strip().split("\n\n")
    (lines,) = (lines for title, *lines in map(str.splitlines, sections) if title == name)
    (_, *names), *rows = ([*map(str.strip, line.split("|"))] for line in lines)
    columns = zip(*rows, strict=True)
    begins = [*map(_number, next(columns))]
    return {
        name: {
            begin: tuple(map(_number, cell.split()))
            for begin, cell in zip(begins, cells, strict=True)
        }
        for name, cells in zip(names, columns, strict=True)
    }


def _number(text: str) -> float:
    return int(text) if text.isdigit() else float(text)
