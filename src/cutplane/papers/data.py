"""Real data sets for the experiments, from the folder that ``CUTPLANE_DATA`` names.

If it is not set, or the data are not there, an InputError is raised.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector
from cutplane.io import InputError, SvmlightData, read_svmlight


def load(name: str) -> tuple[Any, Vector]:
    """Return the features of a training set, in CSR, and its labels -1 and 1.

    Of 20 Newsgroups, the first ten groups are told from the other ten.
    """
    folder = folder_of(name)
    with missing_files_told(name):
        if name == "news20_ng":
            with np.load(folder / "uni_labels.npz") as file:
                y = np.where(file["train"] < 10, 1.0, -1.0)
            return scipy.sparse.load_npz(folder / "uni_train_X.npz"), y
        y = np.load(folder / "train_y.npy").astype(np.float64)
        return scipy.sparse.load_npz(folder / "train_X.npz"), y


class Words(NamedTuple):
    """Words as sequences of letters: pixels of all letters, their labels, and where words begin."""

    X: Any
    y: NDArray[np.int64]
    offsets: NDArray[np.int64]


def load_words() -> tuple[Words, Words]:
    """Return the words that paper 004 trains on (folds 0 to 7), and those it tests on."""
    folder = folder_of("ocr_letters")
    with missing_files_told("ocr_letters"), np.load(folder / "ocr_letters.npz") as file:
        pixels = np.unpackbits(file["X"], axis=1).astype(np.float64)
        y, offsets, fold = file["y"].astype(np.int64), file["offsets"], file["fold"]
    lengths = np.diff(offsets)
    parts = []
    for chosen in (fold < 8, fold >= 8):
        letters = np.repeat(chosen, lengths)
        ends = np.concatenate(([0], np.cumsum(lengths[chosen])))
        parts.append(Words(scipy.sparse.csr_array(pixels[letters]), y[letters], ends))
    return parts[0], parts[1]


@contextmanager
def missing_files_told(name: str) -> Iterator[None]:
    """Say of a file that is missing which data set it belongs to."""
    try:
        yield
    except FileNotFoundError as error:
        raise InputError(f"CUTPLANE_DATA has no data set {name}: no {error.filename}") from error


def load_letor(name: str, parts: Sequence[str]) -> SvmlightData:
    """Return documents, relevance and queries of some files of a LETOR data set."""
    folder = folder_of(name)
    Xs, ys, qids = zip(
        *(read_svmlight(folder / f"{part}.txt.xz", queries=True) for part in parts), strict=True
    )
    return SvmlightData(scipy.sparse.vstack(Xs).toarray(), np.concatenate(ys), np.concatenate(qids))


def folder_of(name: str) -> Path:
    """Return the folder of a data set."""
    folder = os.environ.get("CUTPLANE_DATA")
    if not folder:
        raise InputError(
            f"CUTPLANE_DATA is not set: it must name the folder that holds the data set {name}"
        )
    return Path(folder) / name
