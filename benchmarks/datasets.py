"""Real data for the benchmarks, from the folder that ``CUTPLANE_DATA`` names.

Features are dense C-ordered or CSR matrices. `load` gives binary tasks, with labels -1 and 1;
`load_classes` gives tasks of many classes, numbered from 0 on.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.datasets import load_digits

Features = Any  # ndarray or scipy.sparse matrix
Task = tuple[Features, np.ndarray]


class DataError(Exception):
    """The data cannot be had; the message is one line for the user."""


def data_folder() -> Path:
    folder = os.environ.get("CUTPLANE_DATA")
    if not folder:
        raise DataError("CUTPLANE_DATA is not set: it must name the folder that holds the data.")
    return Path(folder)


def check_names(names: Iterable[str]) -> None:
    """Raise DataError unless there is a folder and a loader for each name."""
    data_folder()
    for name in names:
        if name not in LOADERS:
            raise DataError(f"unknown data set {name!r}: known are {', '.join(LOADERS)}.")


def load(name: str) -> Task:
    """Return features and labels of a training set."""
    try:
        return LOADERS[name](data_folder() / name)
    except FileNotFoundError as error:
        raise DataError(f"{name} is not in CUTPLANE_DATA: no file {error.filename}.") from error


def load_classes(name: str) -> Task:
    """Return features and class numbers of a training set of many classes."""
    if name not in CLASS_LOADERS:
        raise DataError(f"unknown data set {name!r}: known are {', '.join(CLASS_LOADERS)}.")
    try:
        return CLASS_LOADERS[name]()
    except FileNotFoundError as error:
        raise DataError(f"{name} is not in CUTPLANE_DATA: no file {error.filename}.") from error


def covtype_features(folder: Path) -> np.ndarray:
    """Return the unscaled 581,012 x 54 features of covtype, float64 in C order."""
    with np.load(folder / "covtype.npz") as file:
        binary = np.unpackbits(file["bin"], axis=1)[:, :44]
        return np.hstack([file["num"], binary]).astype(np.float64, order="C")


def _svmlight_like(folder: Path) -> Task:
    return scipy.sparse.load_npz(folder / "train_X.npz"), np.load(folder / "train_y.npy")


def _covtype(folder: Path) -> Task:
    """Tell class 2, the largest, from the rest; features scaled to [0, 1]."""
    X = covtype_features(folder)
    X -= X.min(axis=0)
    X /= X.max(axis=0)
    with np.load(folder / "covtype.npz") as file:
        return X, np.where(file["y"] == 2, 1, -1)


def _news20_ng(folder: Path) -> Task:
    """Tell the first ten groups from the other ten."""
    with np.load(folder / "uni_labels.npz") as file:
        y = np.where(file["train"] < 10, 1, -1)
    return scipy.sparse.load_npz(folder / "uni_train_X.npz"), y


def _mnist(folder: Path) -> Task:
    """Tell even digits from odd ones."""
    X, digits = _mnist_digits(folder)
    return X, np.where(digits % 2 == 0, 1, -1)


def _mnist_digits(folder: Path) -> Task:
    """Return pixels and digits; four of five pixels are blank, hence CSR."""
    pixels = _idx_bytes(folder / "train-images-idx3-ubyte.gz", header=16)
    digits = _idx_bytes(folder / "train-labels-idx1-ubyte.gz", header=8)
    X = scipy.sparse.csr_array(pixels.reshape(len(digits), -1)).astype(np.float64) / 255.0
    return X, digits.astype(np.int64)


def _sklearn_digits() -> Task:
    X, y = load_digits(return_X_y=True)
    return X / 16.0, y


def _satimage() -> Task:
    """Six kinds of soil from pixels of a satellite; features scaled to [0, 1]."""
    with np.load(data_folder() / "satimage" / "satimage.npz") as file:
        X, y = file["X"].astype(np.float64, order="C"), file["y"]
    X -= X.min(axis=0)
    X /= X.max(axis=0)
    return X, np.unique(y, return_inverse=True)[1]


def _dna() -> Task:
    """Three kinds of places in genes, from 180 bits."""
    with np.load(data_folder() / "dna" / "dna.npz") as file:
        X, y = file["X"].astype(np.float64, order="C"), file["y"]
    return X, np.unique(y, return_inverse=True)[1]


def _connect4() -> Task:
    """Win, loss or draw, from 42 cells that are empty or one of two colors."""
    with gzip.open(data_folder() / "connect4" / "connect_4.tsv.gz", "rt") as file:
        names = file.readline().split()
        table = np.loadtxt(file, dtype=np.int64)
    target = names.index("target")
    cells = np.delete(table, target, axis=1)
    X = scipy.sparse.csr_array(np.hstack([cells == state for state in (0, 1, 2)]))
    return X.astype(np.float64), np.unique(table[:, target], return_inverse=True)[1]


def _newsgroups() -> Task:
    """Twenty groups of messages, words weighted by their rarity."""
    folder = data_folder() / "news20_ng"
    with np.load(folder / "uni_labels.npz") as file:
        y = file["train"].astype(np.int64)
    return scipy.sparse.load_npz(folder / "uni_train_X.npz"), y


def _generated_letters() -> Task:
    """Draw 26 classes of 16 features, as many as letters have, that overlap; no file is read."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 26, 16_000)
    X = 1.2 * rng.normal(size=(26, 16))[y] + rng.normal(size=(16_000, 16))
    X -= X.min(axis=0)
    X /= X.max(axis=0)
    return np.ascontiguousarray(X), y


def generated_texts(
    rng: np.random.Generator, n_texts: int, n_words: int, length: int, n_topics: int
) -> Task:
    """Return texts of random words, each row of length one, and their topics."""
    frequencies = 1.0 / np.arange(1, n_words + 1)
    topics = rng.integers(0, n_topics, n_texts)
    chances = frequencies * np.exp(1.2 * rng.normal(size=(n_topics, n_words)))
    chances = np.cumsum(chances / chances.sum(axis=1, keepdims=True), axis=1)
    columns = [np.searchsorted(chances[topic], rng.random(length)) for topic in topics]
    indices = np.minimum(np.concatenate(columns), n_words - 1).astype(np.int32)
    counts = scipy.sparse.csr_array(
        (np.ones(indices.size), indices, np.arange(0, indices.size + 1, length, dtype=np.int32)),
        shape=(n_texts, n_words),
    )
    counts.sum_duplicates()
    lengths = np.sqrt(counts.multiply(counts).sum(axis=1))
    return scipy.sparse.csr_array(scipy.sparse.diags_array(1.0 / lengths) @ counts), topics


def _idx_bytes(path: Path, *, header: int) -> np.ndarray:
    with gzip.open(path) as file:
        return np.frombuffer(file.read(), np.uint8, offset=header)


LOADERS: dict[str, Callable[[Path], Task]] = {
    "a9a": _svmlight_like,
    "ijcnn1": _svmlight_like,
    "covtype": _covtype,
    "reuters_lasvm": _svmlight_like,
    "news20_ng": _news20_ng,
    "mnist": _mnist,
}

CLASS_LOADERS: dict[str, Callable[[], Task]] = {
    "digits": _sklearn_digits,
    "satimage": _satimage,
    "dna": _dna,
    "connect4": _connect4,
    "news20_ng": _newsgroups,
    "generated": _generated_letters,
    "topics": lambda: generated_texts(np.random.default_rng(6), 6532, 12_163, 60, 52),
    "mnist": lambda: _mnist_digits(data_folder() / "mnist"),
}
