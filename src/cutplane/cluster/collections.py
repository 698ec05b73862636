"""Dask arrays, data frames and series as the rows of a sample."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import cloudpickle
import numpy as np
import scipy.sparse
from dask import delayed
from dask.delayed import Delayed
from distributed import futures_of
from numpy.typing import NDArray

from cutplane.cluster.actor import PartitionRecipe
from cutplane.cluster.workers import computed
from cutplane.compute.arrays import is_dask


@dataclass(frozen=True)
class Partitions:
    """A collection, partition by partition.

    Attributes
    ----------
    parts : list of Delayed
    bounds : ndarray
        The row where each begins, and where the last ends.
    """

    parts: list[Any]
    bounds: NDArray[np.int64]

    @classmethod
    def of(cls, collection: Any, name: str) -> Partitions:
        """Return the partitions of an array, a data frame, a series or a bag."""
        if not is_dask(collection):
            raise TypeError(f"{name} must be a Dask collection as X is, got {type(collection)}")
        if hasattr(collection, "to_dask_array") and hasattr(collection, "npartitions"):
            parts = collection.to_delayed()
            lengths = computed([delayed(len)(part) for part in parts])
        elif hasattr(collection, "foldby"):  # a bag: partitions may be iterators
            parts = collection.to_delayed()
            lengths = computed([delayed(_count)(part) for part in parts])
        elif hasattr(collection, "chunks"):
            if collection.ndim == 2:
                collection = collection.rechunk({1: -1})
            # Optimized, a graph would lose what the workers hold already.
            parts = collection.to_delayed(optimize_graph=False).ravel().tolist()
            lengths = collection.chunks[0]
            if np.isnan(collection.shape[0]):
                lengths = computed([delayed(_n_rows)(part) for part in parts])
        else:
            raise TypeError(f"{name} must be a Dask array, data frame, series or bag")
        return cls([_alone(part) for part in parts], np.cumsum([0, *lengths]))

    def cut(self, begin: int, end: int) -> list[tuple[Any, int, int]]:
        """Return the partitions of some rows, and which of their rows these are."""
        return [
            (part, max(begin - first, 0), min(end, last) - first)
            for part, (first, last) in zip(self.parts, pairwise(self.bounds.tolist()), strict=True)
            if max(begin, first) < min(end, last)
        ]


def _count(partition: Any) -> int:
    return sum(1 for _ in partition)


def _n_rows(partition: Any) -> int:
    return int(partition.shape[0])


def _alone(part: Any) -> Any:
    """Return a partition without what only others need."""
    graph = part.__dask_graph__()
    culled = graph.cull({part.key}) if hasattr(graph, "cull") else graph
    return Delayed(part.key, dict(culled))


def unique_values(y: Any) -> NDArray[Any]:
    """Return the different values of a collection, sorted."""
    parts = Partitions.of(y, "y").parts
    found = computed([delayed(_unique)(part) for part in parts])
    return np.unique(np.concatenate(found))


def _unique(partition: Any) -> NDArray[Any]:
    return np.unique(np.asarray(partition))


def n_features_of(X: Any) -> int:
    """Return how many columns features have."""
    return len(X.columns) if hasattr(X, "columns") else int(X.shape[1])


def count_entries(X: Any, partitions: Partitions) -> int | None:
    """Return how many numbers sparse features have, which reads them once; None if dense."""
    if not scipy.sparse.issparse(getattr(X, "_meta", None)):
        return None
    return int(sum(computed([delayed(_n_entries)(part) for part in partitions.parts])))


def _n_entries(partition: Any) -> int:
    return int(partition.nnz)


@dataclass(frozen=True)
class CollectionSource:
    """Rows of Dask collections, by name: ``X``, ``y`` and what else there is."""

    columns: dict[str, Partitions]

    def __post_init__(self) -> None:
        for name, column in self.columns.items():
            if column.bounds[-1] != self.n_rows:
                raise ValueError(f"{name} has {column.bounds[-1]} rows, X has {self.n_rows}")

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return int(self.columns["X"].bounds[-1])

    def recipe(self, begin: int, end: int) -> PartitionRecipe:
        """Return how to read some of the rows."""
        cuts = {name: column.cut(begin, end) for name, column in self.columns.items()}
        held = any(futures_of(part) for pieces in cuts.values() for part, _, _ in pieces)
        return PartitionRecipe(cloudpickle.dumps(cuts), held)
