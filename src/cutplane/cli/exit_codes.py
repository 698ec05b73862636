"""How the program tells a script what happened."""

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes; 70 is what sysexits.h calls a defect, 130 what shells use for Ctrl-C."""

    SUCCESS = 0
    TOLERANCE_MISSED = 1
    BAD_INPUT = 2
    DEFECT = 70
    INTERRUPTED = 130
