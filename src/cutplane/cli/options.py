"""Arguments and options that several commands share, and the checks that options need."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from cutplane.io import InputError, OutputError, check_writable
from cutplane.io.files import STANDARD_INPUT, reason

ModelArgument = Annotated[str, typer.Argument(metavar="MODEL", help="Model file made by fit.")]
DataArgument = Annotated[
    str,
    typer.Argument(
        metavar="DATA", help="Data in the format of fit, also compressed; - is stdin; or a folder."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print no notes.")]


def require_at_least_one(option: str, value: int | None) -> None:
    """Refuse a count below 1; None means that it was not given."""
    if value is not None and value < 1:
        raise InputError(f"{option} must be at least 1, not {value}")


def require_known(option: str, name: str, known: Iterable[str]) -> None:
    """Refuse a name that is not known, and suggest the closest that is."""
    known = list(known)
    if name in known:
        return
    close = difflib.get_close_matches(name.lower().replace("-", "_"), known, n=1)
    close = close or difflib.get_close_matches(name.lower(), known, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"choose from {', '.join(known)}"
    raise InputError(f"{option}: unknown name {name!r}; {hint}")


def require_outputs(outputs: dict[str, str | None], *, inputs: Iterable[str]) -> None:
    """Refuse output files that cannot be written, before any work is done for them.

    ``outputs`` leads from the names of options to their paths, or None; no input may be written
    over.
    """
    taken = {os.path.realpath(path): path for path in inputs if path != STANDARD_INPUT}
    for option, path in outputs.items():
        if path is None:
            continue
        if path == STANDARD_INPUT:
            raise InputError(f"{option}: needs the name of a file, not {path}")
        check_writable(path)
        other = taken.setdefault(os.path.realpath(path), option)
        if other != option:
            raise InputError(f"{option} {path}: the same file as {other}")


def make_folder(out: str) -> None:
    """Make the folder for pictures, before anything is computed."""
    try:
        Path(out).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"--out {out}: cannot make this folder: {reason(error)}") from error
