"""Show what goes on: plain lines for files and pipes, something that moves on a terminal.

`Progress` and `LiveProgress` are callbacks for a solver, and context managers: leaving shows the
last iteration. The first writes a line at iterations 1, 2, 5, 10, 20, 50, ... and the last; the
second shows the same lines, with the current iteration below them redrawn in place.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self, TextIO

from cutplane.core.certificate import Record
from cutplane.core.state import State

_REDRAW_SECONDS = 0.1


def _shown(record: Record, proven: bool) -> dict[str, tuple[int, str]]:
    """Return the cells of a record with their widths, by the titles of the columns.

    Of a risk that is not convex nothing is a bound.
    """
    return {
        "iteration": (9, f"{record.iteration}"),
        "objective": (14, f"{record.objective:.7g}"),
        "lower bound" if proven else "model, no bound": (15, f"{record.lower_bound:.7g}"),
        "gap": (9, f"{record.relative_gap:.2e}"),
        "evaluations": (11, f"{record.evaluations}"),
        "planes": (6, f"{record.planes}"),
        "seconds": (8, f"{record.seconds:.2f}"),
    }


def progress_on(stream: TextIO) -> Progress:
    """Return the display that suits ``stream``."""
    return LiveProgress(stream) if stream.isatty() else Progress(stream)


@contextmanager
def bar_on(stream: TextIO) -> Iterator[Callable[[float, str], None]]:
    """Show how far a computation is: a bar on a terminal, which goes at the end, lines elsewhere.

    What is yielded is called with the share that is done, from 0 to 1, and with what comes next.
    """
    if not stream.isatty():
        yield lambda share, message: print(
            f"{100 * share:3.0f} %  {message}", file=stream, flush=True
        )
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(file=stream), transient=True, auto_refresh=False) as bar:
        work = bar.add_task("", total=1.0)
        yield lambda share, message: bar.update(
            work, completed=share, description=message, refresh=True
        )


@contextmanager
def bytes_on(stream: TextIO) -> Iterator[Callable[[int, int | None], None]]:
    """Show how many bytes are done: as `bar_on`, or by lines if the total is not known.

    What is yielded is called with the bytes that are done, and with all of them, or None.
    """
    steps = 100 if stream.isatty() else 10
    shown = -1
    with bar_on(stream) as show:

        def tell(done: int, total: int | None) -> None:
            nonlocal shown
            # Every 100 MB if the total is not known.
            step = steps * done // total if total else done // 100_000_000
            if step == shown:
                return
            shown = step
            if total:
                show(done / total, f"{done / 1e6:,.1f} of {total / 1e6:,.1f} MB")
            else:
                print(f"{done / 1e6:,.1f} MB", file=stream, flush=True)

        yield tell


def is_milestone(iteration: int) -> bool:
    """Whether the iteration is one of 1, 2, 5, 10, 20, 50, 100, ..."""
    while iteration >= 10 and iteration % 10 == 0:
        iteration //= 10
    return iteration in (1, 2, 5)


class Progress:
    """Plain lines: a title, the milestones, the last iteration of every run."""

    _proven = True  # whether planes lie below the risk
    _part = ""  # what the run is about, if there are several

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._latest: Record | None = None
        self._pending = False  # whether the latest record is still to be written

    def __call__(self, state: State) -> None:
        """Show the latest record of a running solver."""
        self._proven = state.convex
        self.show(state.history[-1])

    def begin(self, part: str) -> None:
        """Say what the next run is about, such as a class."""
        self._part, self._latest = part, self._latest if self._pending else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.finish()

    def show(self, record: Record) -> None:
        """Write the record if it is a milestone; remember it otherwise."""
        if self._begins_a_run(record):
            self.finish()
            if self._part:
                self._write(self._part)
            shown = _shown(record, self._proven)
            self._write("  ".join(title.rjust(width) for title, (width, _) in shown.items()))
        self._latest, self._pending = record, True
        if is_milestone(record.iteration):
            self.finish()

    def _begins_a_run(self, record: Record) -> bool:
        """Whether this is the first record of a run, which may go on from a checkpoint."""
        return self._latest is None or record.iteration != self._latest.iteration + 1

    def finish(self) -> None:
        """Write the last iteration, if it is still to be written."""
        if self._pending and self._latest is not None:
            shown = _shown(self._latest, self._proven).values()
            self._write("  ".join(text.rjust(width) for width, text in shown))
            self._pending = False

    def _write(self, line: str) -> None:
        print(line, file=self._stream, flush=True)


class LiveProgress(Progress):
    """A table on a terminal: the milestones so far, and the current iteration."""

    def __init__(self, stream: TextIO) -> None:
        # Rich takes longer to import than a small fit takes to run.
        from rich.console import Console
        from rich.live import Live

        # Redrawn from the callback: a thread of its own would compete with the fit for the cores.
        self._live = Live(console=Console(file=stream), auto_refresh=False)
        super().__init__(stream)
        self._milestones: list[Record] = []
        self._drawn_at = -_REDRAW_SECONDS

    def show(self, record: Record) -> None:
        """Take the record in, and redraw unless the last drawing is very recent."""
        if self._begins_a_run(record):
            self._milestones.clear()
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
        from rich.table import Table

        title = self._part or None
        table = Table(
            box=None, header_style="bold", pad_edge=False, title=title, title_justify="left"
        )
        records = [(record, "dim") for record in self._milestones]
        if self._latest is not None and self._latest not in self._milestones[-1:]:
            records.append((self._latest, ""))
        for record, style in records:
            shown = _shown(record, self._proven)
            if not table.columns:
                for name, (width, _) in shown.items():
                    table.add_column(name, justify="right", min_width=width, no_wrap=True)
            table.add_row(*(text for _, text in shown.values()), style=style)
        self._live.update(table, refresh=True)
        self._drawn_at = time.monotonic()
