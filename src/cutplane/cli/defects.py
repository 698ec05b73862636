"""Errors that nobody expected: one line, and an exit code of their own."""

from __future__ import annotations

import os
import sys
import traceback

from cutplane.cli.exit_codes import ExitCode

_SHOW = "CUTPLANE_TRACEBACK"


def complain_of_defect(error: Exception) -> ExitCode:
    """Say in one line that the program is at fault; return the exit code."""
    if os.environ.get(_SHOW):
        traceback.print_exception(error)
    what = " ".join(f"{type(error).__name__}: {error}".split())
    print(
        f"cutplane: unexpected {what} (a defect of cutplane: please report it, with what "
        f"{_SHOW}=1 shows)",
        file=sys.stderr,
    )
    return ExitCode.DEFECT
