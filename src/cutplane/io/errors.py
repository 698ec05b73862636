"""The two ways in which a file can fail its user, each with a message of one line."""

from __future__ import annotations


class InputError(ValueError):
    """Something read from a file, or given as an option, cannot be used."""


class OutputError(OSError):
    """A file cannot be written."""


def reason(error: OSError) -> str:
    """Return the operating system's words for what went wrong, without the path and the number."""
    return (error.strerror or str(error)).lower()
