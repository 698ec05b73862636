"""What an experiment is: a table or figure of a paper that can be computed again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]
Progress = Callable[[float, str], None]


@dataclass(frozen=True, slots=True)
class Experiment:
    """One table or figure.

    Attributes
    ----------
    name : str
        What it is called on the command line.
    title : str
        One line: what is shown, and where it is published.
    run : callable
        Computes the rows; tells the share done and what comes next to its argument.
    columns : sequence of str
        The keys of a row that the table shows, in this order.
    picture : callable, optional
        Makes a matplotlib figure of the rows.
    """

    name: str
    title: str
    run: Callable[[Progress], list[Row]]
    columns: Sequence[str]
    picture: Callable[[list[Row]], Any] | None = None
