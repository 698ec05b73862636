"""Tell people who wait what is compiled, on standard error."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator


class _Lines(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        print(record.getMessage(), file=sys.stderr, flush=True)


@contextlib.contextmanager
def compile_notes(*, quiet: bool) -> Iterator[None]:
    """Show what is logged of compilation meanwhile, or nothing of it."""
    log = logging.getLogger("cutplane.compiling")
    notes: logging.Handler = logging.NullHandler() if quiet else _Lines()
    before, passed_on = log.level, log.propagate
    log.addHandler(notes)
    log.setLevel(logging.INFO)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(notes)
        log.setLevel(before)
        log.propagate = passed_on
