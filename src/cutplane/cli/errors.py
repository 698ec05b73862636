"""How the program tells of what went wrong: one line on standard error, and an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from enum import IntEnum

_SHOW = "CUTPLANE_TRACEBACK"


class ExitCode(IntEnum):
    """Exit codes; 70 is what sysexits.h calls a defect, 130 what shells use for Ctrl-C."""

    SUCCESS = 0
    TOLERANCE_MISSED = 1
    BAD_INPUT = 2
    DEFECT = 70
    INTERRUPTED = 130


def complain(message: object) -> None:
    """Write one line to standard error."""
    print(f"cutplane: {' '.join(str(message).split())}", file=sys.stderr)


def complain_of_defect(error: Exception) -> ExitCode:
    """Say in one line that the program is at fault; return the exit code."""
    if os.environ.get(_SHOW):
        traceback.print_exception(error)
    complain(
        f"unexpected {type(error).__name__}: {error} (a defect of cutplane: please report it, "
        f"with what {_SHOW}=1 shows)"
    )
    return ExitCode.DEFECT
