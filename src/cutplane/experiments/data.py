"""Real data sets for the experiments, from the folder that ``CUTPLANE_DATA`` names."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from cutplane.core.protocols import Vector
from cutplane.io import InputError, SvmlightData, read_svmlight


def load(name: str) -> tuple[Any, Vector]:
    """Return the features of a training set, in CSR, and its labels -1 and 1.

    Raises
    ------
    InputError
        If ``CUTPLANE_DATA`` is not set, or the data are not there.
    """
    try:
        X, y = _READERS[name](folder_of(name))
    except FileNotFoundError as error:
        raise InputError(f"CUTPLANE_DATA has no data set {name}: no {error.filename}") from error
    return X, np.asarray(y, dtype=np.float64)


def load_letor(name: str, parts: Sequence[str]) -> SvmlightData:
    """Return documents, relevance and queries of some files of a LETOR data set.

    Raises
    ------
    InputError
        If ``CUTPLANE_DATA`` is not set, or the data are not there.
    """
    folder = folder_of(name)
    read = [read_svmlight(folder / f"{part}.txt.xz", queries=True) for part in parts]
    X = scipy.sparse.vstack([data.X for data in read]).toarray()
    y = np.concatenate([data.y for data in read])
    qid = np.concatenate([np.asarray(data.qid) for data in read])
    return SvmlightData(X, y, qid)


def folder_of(name: str) -> Path:
    """Return the folder of a data set.

    Raises
    ------
    InputError
        If ``CUTPLANE_DATA`` is not set.
    """
    folder = os.environ.get("CUTPLANE_DATA")
    if not folder:
        raise InputError(
            f"CUTPLANE_DATA is not set: it must name the folder that holds the data set {name}"
        )
    return Path(folder) / name


def _two_classes(folder: Path) -> tuple[Any, Any]:
    return scipy.sparse.load_npz(folder / "train_X.npz"), np.load(folder / "train_y.npy")


def _newsgroups(folder: Path) -> tuple[Any, Any]:
    """Tell the first ten groups from the other ten."""
    with np.load(folder / "uni_labels.npz") as file:
        y = np.where(file["train"] < 10, 1.0, -1.0)
    return scipy.sparse.load_npz(folder / "uni_train_X.npz"), y


_READERS: dict[str, Callable[[Path], tuple[Any, Any]]] = {
    "reuters_lasvm": _two_classes,
    "news20_ng": _newsgroups,
    "a9a": _two_classes,
}
