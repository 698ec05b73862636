"""A data folder as a fit takes it: rows and targets, memory-mapped; and parts for workers.

A part of a folder is a path and a range of rows, which is all that travels. Whoever holds it reads
it from the folder itself, and one that is lost is read again. The folder must have the same path
everywhere, and is recognized by the digest of its manifest, in which are those of all its arrays.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.io.files import InputError
from cutplane.io.folders.manifest import (
    SPARSE,
    Manifest,
    digest_of,
    map_array,
    read_manifest,
    require_digest,
)


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


@dataclass(frozen=True)
class FolderRecipe:
    """How to read some rows of a data folder."""

    path: str
    sha256: str
    begin: int
    end: int

    def read(self) -> dict[str, Any]:
        """Return the rows, by the names of their arrays (see `DataFolder.rows`)."""
        folder = open_folder(self.path)
        if digest_of(folder.manifest) != self.sha256:
            raise InputError(f"{self.path}: not the data that the fit began with")
        return folder.rows(self.begin, self.end)


class FolderSource:
    """A data folder that shards are read from.

    Parameters
    ----------
    folder : DataFolder
        Under this path, made absolute, whoever holds a shard must find it.
    """

    def __init__(self, folder: DataFolder) -> None:
        self.n_rows = len(folder)
        self._path, self._sha256 = os.path.abspath(folder.path), digest_of(folder.manifest)

    def recipe(self, begin: int, end: int) -> FolderRecipe:
        """Return how to read some of the rows."""
        return FolderRecipe(self._path, self._sha256, begin, end)


def dask_arrays(folder: DataFolder, n_parts: int) -> dict[str, Any]:
    """Return ``X``, and those of ``y``, ``weights`` and ``queries`` that exist, as Dask arrays.

    Nothing is read before a partition is needed, and then by whoever needs it: the folder must
    have the same path on every worker.

    Parameters
    ----------
    folder : DataFolder
    n_parts : int
        Into how many ranges of rows it is cut.
    """
    import dask.array as da
    from dask import delayed

    source, n_rows = FolderSource(folder), len(folder)
    bounds = [k * n_rows // n_parts for k in range(n_parts + 1)]
    recipes = [source.recipe(*rows) for rows in pairwise(bounds) if rows[0] < rows[1]]
    like = folder.rows(0, 1)

    def array(name: str) -> Any:
        part = like[name]
        parts = [
            da.from_delayed(
                delayed(_read, pure=True)(recipe, name),
                shape=(recipe.end - recipe.begin, *part.shape[1:]),
                meta=part[:0],
            )
            for recipe in recipes
        ]
        return da.concatenate(parts)

    return {name: array(name) for name in like}


def _read(recipe: FolderRecipe, name: str) -> Any:
    return recipe.read()[name]
