"""A folder of data as a fit takes it: rows and targets, memory-mapped."""

from __future__ import annotations

import math
import os
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.io.errors import InputError
from cutplane.io.folders.arrays import map_array, require_digest
from cutplane.io.folders.manifest import SPARSE, Manifest, read_manifest


class DataFolder:
    """Data that `convert` wrote, on disk.

    Attributes
    ----------
    X : memory map or scipy.sparse.csr_array, shape (n_samples, n_features)
        The features, read from the disk as they are needed.
    y : ndarray of shape (n_samples,), or None
        The targets: numbers, or words.
    weights : ndarray of shape (n_samples,), or None
        For ``sample_weight``.
    queries : ndarray of shape (n_samples,), or None
        For ``qid`` of a `LinearRanker`.
    feature_names : list of str, or None
    path : Path
    manifest : Manifest
        All that is known of it: where it comes from, types, bounds of blocks, digests.
    """

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path, self.manifest = path, manifest
        self.feature_names = manifest.feature_names

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.manifest.n_rows

    @property
    def shape(self) -> tuple[int, int]:
        """How many rows and features there are."""
        return self.manifest.n_rows, self.manifest.n_features

    @property
    def n_bytes(self) -> int:
        """How many bytes all arrays have."""
        arrays = self.manifest.arrays.values()
        return sum(np.dtype(a.dtype).itemsize * math.prod(a.shape) for a in arrays)

    @cached_property
    def X(self) -> Any:
        """The features."""
        if not self.manifest.sparse:
            return self._map("X")
        # Imported here because it takes longer than all of cutplane's own modules.
        from scipy.sparse import csr_array

        return csr_array(tuple(map(self._map, SPARSE)), shape=self.shape, copy=False)

    def widened(self, n_features: int) -> Any:
        """Return ``X`` with so many features; those beyond the last of sparse rows are zero.

        Raises
        ------
        InputError
            If there are more, or if dense rows have fewer.
        """
        m, d = self.shape
        if d == n_features:
            return self.X
        if d > n_features or not self.manifest.sparse:
            raise InputError(f"{self.path}: {d} features, {n_features} are expected")
        from scipy.sparse import csr_array

        X = self.X
        return csr_array((X.data, X.indices, X.indptr), shape=(m, n_features), copy=False)

    @cached_property
    def y(self) -> NDArray[Any] | None:
        """The targets."""
        return self._vector("y", slice(None))

    @cached_property
    def weights(self) -> NDArray[np.float64] | None:
        """The weights."""
        return self._vector("weights", slice(None))

    @cached_property
    def queries(self) -> NDArray[np.int64] | None:
        """The queries."""
        return self._vector("queries", slice(None))

    def rows(self, begin: int, end: int) -> dict[str, Any]:
        """Return some rows: ``X``, and those of ``y``, ``weights`` and ``queries`` that exist."""
        chosen = slice(begin, end)
        vectors = {name: self._vector(name, chosen) for name in ("y", "weights", "queries")}
        return {"X": self.X[chosen]} | {k: v for k, v in vectors.items() if v is not None}

    def _vector(self, name: str, rows: slice) -> NDArray[Any] | None:
        """Return the numbers of some rows, or the words that they stand for; None without any."""
        if name not in self.manifest.arrays:
            return None
        numbers: NDArray[Any] = np.array(self._map(name)[rows])
        if name != "y" or self.manifest.labels is None:
            return numbers
        words = np.array(self.manifest.labels)
        if numbers.min(initial=0) < 0 or numbers.max(initial=0) >= len(words):
            raise InputError(f"{self.path / 'y.npy'}: damaged: codes beyond the labels")
        chosen: NDArray[Any] = words[numbers]
        return chosen

    def __repr__(self) -> str:
        m, d = self.shape
        kind = "sparse" if self.manifest.sparse else "dense"
        return f"DataFolder({os.fspath(self.path)!r}: {m:,} rows, {d:,} features, {kind})"

    def _map(self, name: str) -> NDArray[Any]:
        return map_array(self.path, name, self.manifest.arrays[name])


def open_folder(path: str | os.PathLike[str], *, check: bool = False) -> DataFolder:
    """Open a folder of data that `convert` wrote.

    Parameters
    ----------
    path : str or path
        The folder.
    check : bool
        Whether to read all of it, and compare it with the digests in its manifest. By default only
        what is cheap is looked at: types, shapes and sizes of all files.

    Returns
    -------
    DataFolder

    Raises
    ------
    InputError
        In one line, if it is not such a folder, or damaged.

    See Also
    --------
    convert : Its example opens the folder that it has made.
    """
    folder = Path(path)
    manifest = read_manifest(folder)
    for name, stored in manifest.arrays.items():
        map_array(folder, name, stored)
        if check:
            require_digest(folder, name, stored)
    return DataFolder(folder, manifest)
