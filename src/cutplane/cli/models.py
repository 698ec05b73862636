"""Model files for commands that predict from data files."""

from __future__ import annotations

from cutplane import StructuredPredictor
from cutplane.io import InputError, load_model
from cutplane.io.models import WithDataFiles
from cutplane.io.sources import name_of


def load_for_files(path: str) -> WithDataFiles:
    """Read a model whose inputs can be read from files.

    Raises
    ------
    InputError
        If it cannot be read, or its inputs are Python objects.
    """
    estimator = load_model(path)
    if isinstance(estimator, StructuredPredictor):
        raise InputError(
            f"{name_of(path)}: a StructuredPredictor predicts in Python only, its inputs are no "
            "lines of a file"
        )
    return estimator
