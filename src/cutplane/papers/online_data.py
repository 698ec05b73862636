"""The data of paper 002's online experiments, or what stands in for them.

Each task is one class against the rest. The paper does not say which, nor how features were scaled:
that is inferred from its objectives, which the optima here are a little below. Where there is no
test set, a fifth of the rows, drawn at random, is left out for one.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector
from cutplane.papers.data import folder_of, missing_files_told

_IJCNN1_ROWS = 35_000
_VOWELS = [ord(letter) - ord("a") for letter in "aeiou"]


class Task(NamedTuple):
    """Features in CSR and labels -1 and 1, to train on and to test with."""

    X: Any
    y: Vector
    test_X: Any
    test_y: Vector


def _of_files(name: str) -> Task:
    folder = folder_of(name)
    parts = []
    for part in ("train", "test"):
        parts.append(scipy.sparse.load_npz(folder / f"{part}_X.npz"))
        parts.append(np.load(folder / f"{part}_y.npy").astype(np.float64))
    return Task(*parts)


def _ijcnn1() -> Task:
    task = _of_files("ijcnn1")
    return task._replace(X=task.X[:_IJCNN1_ROWS], y=task.y[:_IJCNN1_ROWS])


def _connect_4() -> Task:
    """Positions whose class is 2, with a column for each cell and content."""
    with gzip.open(folder_of("connect4") / "connect_4.tsv.gz", "rt") as file:
        table = np.loadtxt(file, dtype=np.int8, skiprows=1)
    cells = table[:, :-1, None] == np.arange(3, dtype=np.int8)
    return _fifth_left_out(cells.reshape(len(table), -1), table[:, -1] == 2)


def _covtype() -> Task:
    """Cover type 2; columns of numbers are scaled to [0, 1]."""
    with np.load(folder_of("covtype") / "covtype.npz") as file:
        numbers = file["num"].astype(np.float64)
        marks = np.unpackbits(file["bin"], axis=1)[:, :44]
        y = file["y"]
    numbers -= numbers.min(axis=0)
    numbers /= numbers.max(axis=0)
    return _fifth_left_out(np.hstack([numbers, marks]), y == 2)


def _mnist() -> Task:
    """Digit 9; pixels are scaled to [0, 1]."""
    folder, parts = folder_of("mnist"), []
    for name in ("train", "t10k"):
        images = gzip.decompress((folder / f"{name}-images-idx3-ubyte.gz").read_bytes())
        labels = gzip.decompress((folder / f"{name}-labels-idx1-ubyte.gz").read_bytes())
        digits = np.frombuffer(labels, np.uint8, offset=8)
        pixels = np.frombuffer(images, np.uint8, offset=16).reshape(len(digits), -1)
        parts += [scipy.sparse.csr_array(pixels / 255.0), _signs(digits == 9)]
    return Task(*parts)


def _vowels() -> Task:
    """Vowels among handwritten letters."""
    with np.load(folder_of("ocr_letters") / "ocr_letters.npz") as file:
        pixels = np.unpackbits(file["X"], axis=1)
        fold = np.repeat(file["fold"], np.diff(file["offsets"]))
        return _split(pixels, np.isin(file["y"], _VOWELS), fold < 8)


def _newsgroups() -> Task:
    """Of 20 newsgroups, the first ten."""
    folder, parts = folder_of("news20_ng"), []
    with np.load(folder / "uni_labels.npz") as labels:
        for name in ("train", "test"):
            parts.append(scipy.sparse.load_npz(folder / f"uni_{name}_X.npz"))
            parts.append(_signs(labels[name] < 10))
    return Task(*parts)


def _splice_sites() -> Task:
    """Splice sites in DNA, the third class."""
    with np.load(folder_of("dna") / "dna.npz") as file:
        return _fifth_left_out(file["X"], file["y"] == np.unique(file["y"])[-1])


def _fifth_left_out(X: NDArray[Any], positive: NDArray[np.bool_]) -> Task:
    order = np.random.default_rng(0).permutation(len(X))
    return _split(X, positive, order < round(0.8 * len(X)))


def _split(X: NDArray[Any], positive: NDArray[np.bool_], chosen: NDArray[np.bool_]) -> Task:
    y, features = _signs(positive), scipy.sparse.csr_array(X.astype(np.float64))
    return Task(features[chosen], y[chosen], features[~chosen], y[~chosen])


def _signs(positive: NDArray[np.bool_]) -> Vector:
    return np.where(positive, 1.0, -1.0)


# By the names of the paper's data sets; what stands in for one is named with it.
TASKS: dict[str, Callable[[], Task]] = {
    "a9a": lambda: _of_files("a9a"),
    "combined (vowels)": _vowels,
    "connect-4": _connect_4,
    "covtype": _covtype,
    "ijcnn1": _ijcnn1,
    "mnist": _mnist,
    "rcv1 (Reuters)": lambda: _of_files("reuters_lasvm"),
    "real-sim (20 Newsgroups)": _newsgroups,
    "w8a (splice sites)": _splice_sites,
}


def load_task(name: str) -> Task:
    """Return the data of a task, by its name in `TASKS`."""
    with missing_files_told(name):
        return TASKS[name]()
