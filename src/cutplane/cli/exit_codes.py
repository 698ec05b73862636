"""How the program tells a script what happened."""

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes; 130 is what shells use for Ctrl-C."""

    SUCCESS = 0
    TOLERANCE_MISSED = 1
    BAD_INPUT = 2
    INTERRUPTED = 130
