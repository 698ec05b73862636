"""Show how far a long computation is: a bar on a terminal, lines elsewhere.

Both displays are called with the share that is done, from 0 to 1, and with what comes next. They
are context managers: leaving takes the bar away.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self, TextIO


def bar_on(stream: TextIO) -> Lines | Bar:
    """Return the display that suits ``stream``."""
    return Bar(stream) if stream.isatty() else Lines(stream)


class Lines:
    """A line for each piece of work, with the share that is done before it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __call__(self, share: float, message: str) -> None:
        """Write a line."""
        print(f"{100 * share:3.0f} %  {message}", file=self._stream, flush=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        pass


class Bar:
    """A bar that fills, with the current piece of work beside it."""

    def __init__(self, stream: TextIO) -> None:
        # Rich takes longer to import than a small computation takes to run.
        from rich.console import Console
        from rich.progress import Progress

        # Redrawn when called: a thread of its own would compete with the work for the cores.
        self._progress = Progress(console=Console(file=stream), transient=True, auto_refresh=False)
        self._task = self._progress.add_task("", total=1.0)

    def __call__(self, share: float, message: str) -> None:
        """Redraw the bar."""
        self._progress.update(self._task, completed=share, description=message, refresh=True)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._progress.stop()
