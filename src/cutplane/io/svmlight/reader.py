"""Read data in the svmlight (LIBSVM) format.

A line is ``label qid:number index:value index:value ... # comment``. These decisions make a file
mean the same wherever it is read:

- Indices start at 1, as svmlight defines them: index ``i`` is column ``i - 1`` in every file. A
  guess from the smallest index of each file would shift columns between training and test data.
- Indices increase along a line; a zero may be left out.
- Numbers are decimal: digits, with or without sign, point and exponent (``-1``, ``.5``, ``2e-3``),
  and finite. Python's ``1_0`` is none.
- Labels are numbers, or words (for classification), but not both in one file.

Ranking's query is read where it is asked for, else checked and ignored. Tokens are separated by
the white space of ASCII, lines by newlines.

scikit-learn reads more than this (``qidfoo:9`` as a query, ``1_0`` as 10), and does not say where a
file is wrong.
"""

from __future__ import annotations

import os
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from cutplane.io.errors import InputError
from cutplane.io.sources import name_of, require_room_for_labels
from cutplane.io.svmlight.chunks import Piece
from cutplane.io.svmlight.lines import LARGEST_INDEX, Rules
from cutplane.io.svmlight.pieces import read_pieces

Number = TypeVar("Number", bound=np.generic)


class SvmlightData(NamedTuple):
    """A data set.

    Attributes
    ----------
    X : scipy.sparse.csr_matrix, shape (n_samples, n_features)
        The features, float64.
    y : ndarray, shape (n_samples,)
        The labels: float64, or str when the file's labels are words.
    qid : ndarray, shape (n_samples,), or None
        The query of each line, int64, if it was asked for.
    """

    X: Any
    y: NDArray[Any]
    qid: NDArray[np.int64] | None = None


def read_svmlight(
    path: str | os.PathLike[str],
    *,
    n_features: int | None = None,
    queries: bool = False,
    labels: bool = True,
    label_sets: bool = False,
) -> SvmlightData:
    """Read a data set in the svmlight format, plain or compressed (gzip, bzip2, xz).

    Parameters
    ----------
    path : str or path
        The file; ``-`` is standard input.
    n_features : int, optional
        Number of columns of ``X``. By default the largest index in the file, which must then not
        be beyond 100,000,000.
    queries : bool
        Whether every line must have a query, ``qid:number`` after the label.
    labels : bool
        Whether every line must have a label. If not, a line may begin with its features, and its
        label is 0.
    label_sets : bool
        Whether a line may have several labels, ``1,3``, or none: each is then a word, ``=`` and
        the labels with semicolons between them.

    Raises
    ------
    InputError
        If the file cannot be read, or with ``FILE:LINE: what is wrong``.
    """
    # Imported here because it takes longer than all of cutplane's own modules.
    from scipy.sparse import csr_matrix

    name = name_of(path)
    values, indices, indptr = _Growing(np.float64), _Growing(np.int32), _Growing(np.int64)
    found, qid = _Labels(), _Growing(np.int64)
    n_columns = n_bytes = 0
    indptr.append(np.zeros(1, np.int64))
    for piece in read_pieces(path, Rules(n_features, queries, labels, label_sets)):
        indptr.append(piece.indptr[1:] + values.size)
        values.append(piece.values)
        indices.append(piece.indices)
        n_columns = max(n_columns, int(piece.indices.max(initial=-1)) + 1)
        n_bytes += piece.n_bytes
        found.append(piece)
        if piece.qid is not None:
            qid.append(piece.qid)
    if indptr.size == 1:
        raise InputError(f"{name}: no data in the file")
    if values.size == 0 and n_features is None:
        raise InputError(f"{name}: no line has a feature (index:value)")
    y = found.as_array(name, n_bytes)
    index = np.int32 if values.size <= LARGEST_INDEX else np.int64
    parts = (
        values.as_array(),
        indices.as_array().astype(index, copy=False),
        indptr.as_array().astype(index, copy=False),
    )
    shape = (len(y), n_columns if n_features is None else n_features)
    return SvmlightData(csr_matrix(parts, shape=shape), y, qid.as_array() if queries else None)


class _Growing(Generic[Number]):
    """An array that others are appended to.

    It is enlarged in place, a quarter at a time: large ones are not copied for that where the
    system can move pages, and never is there room for two of them.
    """

    def __init__(self, kind: type[Number]) -> None:
        self.size = 0
        self._array = np.empty(0, kind)

    def append(self, part: NDArray[Number]) -> None:
        """Append an array."""
        size = self.size + len(part)
        if size > len(self._array):
            self._array.resize(max(size, len(self._array) * 5 // 4), refcheck=False)
        self._array[self.size : size] = part
        self.size = size

    def as_array(self) -> NDArray[Number]:
        """Return what was appended, in an array without room for more; the last use of this."""
        self._array.resize(self.size, refcheck=False)
        return self._array


class _Labels:
    """The labels of a file: all numbers, or all words."""

    def __init__(self) -> None:
        self._numbers = _Growing(np.float64)
        self._words: list[str] = []
        self._longest = (0, 0)  # characters, line

    def append(self, piece: Piece) -> None:
        """Append those of a piece."""
        if isinstance(piece.labels, list):
            self._words += piece.labels
            if piece.longest[0] > self._longest[0]:
                self._longest = piece.longest
        else:
            self._numbers.append(piece.labels)

    def as_array(self, name: str, n_bytes: int) -> NDArray[Any]:
        """Return all labels of a file with so many bytes."""
        length, line = self._longest
        require_room_for_labels(f"{name}:{line}", length, len(self._words), n_bytes)
        return np.array(self._words) if self._words else self._numbers.as_array()
