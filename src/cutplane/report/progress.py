"""Show what goes on: plain lines for files and pipes, something that moves on a terminal.

A run: `Progress` and `LiveProgress` are callbacks for a solver. The first writes a line at
iterations 1, 2, 5, 10, 20, 50, ... and the last; the second shows the same lines, with the current
iteration below them redrawn in place.

A long computation of several parts: `Lines` and `Bar` are called with the share that is done, from
0 to 1, and with what comes next.

All are context managers: leaving shows the last iteration, or takes the bar away.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple, Self, TextIO

from cutplane.core.certificate import Record
from cutplane.core.state import State

_REDRAW_SECONDS = 0.1


class _Column(NamedTuple):
    title: str
    width: int
    show: Callable[[Record], str]


_COLUMNS = (
    _Column("iteration", 9, lambda record: f"{record.iteration}"),
    _Column("objective", 14, lambda record: f"{record.objective:.7g}"),
    _Column("lower bound", 14, lambda record: f"{record.lower_bound:.7g}"),
    _Column("gap", 9, lambda record: f"{record.relative_gap:.2e}"),
    _Column("evaluations", 11, lambda record: f"{record.evaluations}"),
    _Column("planes", 6, lambda record: f"{record.planes}"),
    _Column("seconds", 8, lambda record: f"{record.seconds:.2f}"),
)


def progress_on(stream: TextIO) -> Progress | LiveProgress:
    """Return the display that suits ``stream``."""
    return LiveProgress(stream) if stream.isatty() else Progress(stream)


def bar_on(stream: TextIO) -> Lines | Bar:
    """Return the bar that suits ``stream``."""
    return Bar(stream) if stream.isatty() else Lines(stream)


def is_milestone(iteration: int) -> bool:
    """Whether the iteration is one of 1, 2, 5, 10, 20, 50, 100, ..."""
    while iteration >= 10 and iteration % 10 == 0:
        iteration //= 10
    return iteration in (1, 2, 5)


class _Display:
    """A context manager, at the end of which something is left to do."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.finish()

    def finish(self) -> None:
        """Show what is still to be shown."""


class _OfRun(_Display):
    """A callback for a solver, which shows the latest record."""

    def __call__(self, state: State) -> None:
        """Show the latest record of a running solver."""
        self.show(state.history[-1])

    def show(self, record: Record) -> None:
        """Show a record."""
        raise NotImplementedError


class Progress(_OfRun):
    """Plain lines: a title, the milestones, the last iteration of every run."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._latest: Record | None = None
        self._pending = False  # whether the latest record is still to be written

    def show(self, record: Record) -> None:
        """Write the record if it is a milestone; remember it otherwise."""
        if self._latest is None or record.iteration <= self._latest.iteration:
            self.finish()
            self._write("  ".join(column.title.rjust(column.width) for column in _COLUMNS))
        self._latest, self._pending = record, True
        if is_milestone(record.iteration):
            self.finish()

    def finish(self) -> None:
        """Write the last iteration, if it is still to be written."""
        if self._pending and self._latest is not None:
            cells = (column.show(self._latest).rjust(column.width) for column in _COLUMNS)
            self._write("  ".join(cells))
            self._pending = False

    def _write(self, line: str) -> None:
        print(line, file=self._stream, flush=True)


class LiveProgress(_OfRun):
    """A table on a terminal: the milestones so far, and the current iteration."""

    def __init__(self, stream: TextIO) -> None:
        # Rich takes longer to import than a small fit takes to run.
        from rich.console import Console
        from rich.live import Live

        # Redrawn from the callback: a thread of its own would compete with the fit for the cores.
        self._live = Live(console=Console(file=stream), auto_refresh=False)
        self._milestones: list[Record] = []
        self._latest: Record | None = None
        self._drawn_at = -_REDRAW_SECONDS

    def show(self, record: Record) -> None:
        """Take the record in, and redraw unless the last drawing is very recent."""
        if self._latest is not None and record.iteration <= self._latest.iteration:
            self._milestones.clear()  # the next run
        if is_milestone(record.iteration):
            self._milestones.append(record)
        self._latest = record
        if time.monotonic() - self._drawn_at >= _REDRAW_SECONDS:
            self._draw()

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def finish(self) -> None:
        """Draw the last iteration, and leave it there."""
        if self._latest is not None:
            self._draw()
        self._live.stop()

    def _draw(self) -> None:
        self._live.update(self._table(), refresh=True)
        self._drawn_at = time.monotonic()

    def _table(self) -> Any:
        from rich.table import Table

        table = Table(box=None, header_style="bold", pad_edge=False)
        for column in _COLUMNS:
            table.add_column(column.title, justify="right", min_width=column.width, no_wrap=True)
        for record in self._milestones:
            table.add_row(*(column.show(record) for column in _COLUMNS), style="dim")
        if self._latest is not None and self._latest not in self._milestones[-1:]:
            table.add_row(*(column.show(self._latest) for column in _COLUMNS))
        return table


class Lines(_Display):
    """A line for each piece of work, with the share that is done before it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __call__(self, share: float, message: str) -> None:
        """Write a line."""
        print(f"{100 * share:3.0f} %  {message}", file=self._stream, flush=True)


class Bar(_Display):
    """A bar that fills, with the current piece of work beside it."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.progress import Progress as RichProgress

        console = Console(file=stream)
        self._progress = RichProgress(console=console, transient=True, auto_refresh=False)
        self._task = self._progress.add_task("", total=1.0)

    def __call__(self, share: float, message: str) -> None:
        """Redraw the bar."""
        self._progress.update(self._task, completed=share, description=message, refresh=True)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def finish(self) -> None:
        """Take the bar away."""
        self._progress.stop()
