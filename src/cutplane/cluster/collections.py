"""Dask collections as samples on workers, fits of linear models to them, and predictions for them.

What an estimator settles before a fit (classes, weights, the strength of the regularizer) is asked
of the workers; the rest is the fit of all estimators. Predictions are collections too, computed
part by part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ParamSpec, TypeVar

import cloudpickle
import dask.array as da
import numpy as np
import scipy.sparse
from dask import delayed
from dask.delayed import Delayed
from distributed import Client, futures_of
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets

from cutplane.cluster import sharded_sample
from cutplane.cluster.risk import ShardedRisk, class_masses, extremes, total_weight
from cutplane.cluster.sample import MOST_SHARDS, FarPoint, ShardedSample
from cutplane.cluster.workers import DaskWorkers, PartitionRecipe, client_in_use, computed
from cutplane.compute.arrays import is_dask
from cutplane.compute.blocks import power_below
from cutplane.core.certificate import Result
from cutplane.data.rows import most_shards
from cutplane.estimators.description import lam_of
from cutplane.estimators.fit import Examples, Plan, fit_plan


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
                lengths = computed([part.shape[0] for part in parts])
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


def _alone(part: Any) -> Any:
    """Return a partition without what only others need."""
    graph = part.__dask_graph__()
    culled = graph.cull({part.key}) if hasattr(graph, "cull") else graph
    return Delayed(part.key, dict(culled))


def _unique(partition: Any) -> NDArray[Any]:
    return np.unique(np.asarray(partition))


def n_features_of(X: Any) -> int:
    """Return how many columns features have."""
    return len(X.columns) if hasattr(X, "columns") else int(X.shape[1])


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


# Sequences of a shard: few beside all of them, and enough to be worth a plane of their own.
_LEAST_SEQUENCES = 128


def sample_of(
    collections: dict[str, Any],
    n_classes: int = 1,
    *,
    client: Client | None = None,
    workers: Sequence[str] | None = None,
    patience: float = 30.0,
    sequences: bool = False,
) -> ShardedSample:
    """Return examples whose rows will lie on the workers: see `cutplane.sharded_sample`.

    With ``sequences``, they are bags of these, of their labels and weights; none is split.
    """
    client = client or client_in_use()
    given = {name: column for name, column in collections.items() if column is not None}
    with client.as_current():
        columns = {name: Partitions.of(column, name) for name, column in given.items()}
        source, X = CollectionSource(columns), given["X"]
        if source.n_rows == 0:
            raise ValueError("there is no sequence" if sequences else "X has no rows")
        if sequences:
            n_shards = power_below(source.n_rows // _LEAST_SEQUENCES)
        else:
            n_entries = None  # dense, or else counted, which reads all of them once
            if scipy.sparse.issparse(getattr(X, "_meta", None)):
                n_entries = int(sum(computed([part.nnz for part in columns["X"].parts])))
            n_shards = most_shards(source.n_rows, n_features_of(X), n_entries, n_classes)
    places = DaskWorkers(client, workers=workers, patience=patience)
    return ShardedSample(source, places, n_shards=min(n_shards, MOST_SHARDS), patience=patience)


def predicted(model: Any, method: str, X: Any) -> Any:
    """Return the predictions of a fitted model as a Dask array.

    Parameters
    ----------
    model : estimator
        Fitted.
    method : str
        Which of its methods predicts.
    X : dask array or data frame
    """
    # Two rows of zeros tell the shape and the type.
    like = getattr(model, method)(_zeros(model))
    if hasattr(X, "chunks"):
        return X.rechunk({1: -1}).map_blocks(
            _predict,
            model=model,
            method=method,
            dtype=like.dtype,
            chunks=(X.chunks[0], *((n,) for n in like.shape[1:])),
            drop_axis=[] if like.ndim == 2 else [1],
            meta=np.empty((0,) * like.ndim, dtype=like.dtype),
        )
    parts = [
        da.from_delayed(
            delayed(_predict)(part, model=model, method=method),
            shape=(np.nan, *like.shape[1:]),
            dtype=like.dtype,
        )
        for part in X.to_delayed()
    ]
    return da.concatenate(parts, allow_unknown_chunksizes=True)


def predicted_sequences(model: Any, method: str, X: Any, given: tuple[Any, ...]) -> Any:
    """Return what a method of a fitted tagger finds for each sequence of a bag, as a bag."""
    return X.map_partitions(_predict_sequences, model=model, method=method, given=given)


def _predict_sequences(part: Any, *, model: Any, method: str, given: tuple[Any, ...]) -> Any:
    sequences = list(part)
    return getattr(model, method)(sequences, *given) if sequences else []


def _zeros(model: Any) -> Any:
    zeros = np.zeros((2, model.n_features_in_))
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return zeros
    import pandas as pd

    return pd.DataFrame(zeros, columns=names)


def _predict(part: Any, *, model: Any, method: str) -> Any:
    found = getattr(model, method)
    if part.shape[0] == 0:
        return found(_zeros(model))[:0]
    return found(part)


P = ParamSpec("P")
T = TypeVar("T")

_ROUNDING = 1e-12


def fit_collection(
    model: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    risks: Callable[[Any, Any], Sequence[ShardedRisk]],
    *,
    n_classes: int = 1,
    classes: NDArray[Any] | None = None,
    qid: Any = None,
) -> None:
    """Fit a model to Dask collections.

    Parameters
    ----------
    model : estimator
    X, y, sample_weight : dask collections
    risks : callable
        From the sample, and the weight of each class, to the risks to minimize; those of several
        classes have the same weights.
    n_classes : int
        How many scores an example has.
    classes : ndarray, optional
        The labels, sorted.
    qid : dask collection, optional
        The query of each example.
    """
    if not model.loss_function().convex:
        raise ValueError(f"{model.loss_function()!r} is not convex: it needs one machine")
    sample = sharded_sample(X, y, sample_weight, n_classes=n_classes, qid=qid)
    try:
        masses = None if classes is None else sample.ask(class_masses, classes)
        made = risks(sample, masses)
        total = sample.ask(total_weight, made[0].target)
        model.n_features_in_ = n_features_of(X)
        model.__dict__.pop("feature_names_in_", None)
        if hasattr(X, "columns"):
            model.feature_names_in_ = np.array(list(X.columns), dtype=object)
        plan = Plan(
            examples=Examples(X, y, np.broadcast_to(1.0, 1), {"sample_weight": sample_weight}),
            risks=made,
            regularizer=model._regularizer(lam_of(model.lam, model.C, total), made[0].n_parameters),
            model=model._model,
            intercept_shape=made[0].facts.intercept_shape,
            starts=model._starts((len(made), made[0].n_parameters)),
            look=_is_flat,
            symptom=_symptom,
        )
        fit_plan(model, plan)
    finally:
        sample.close()


def classes_of(y: Any) -> NDArray[Any]:
    """Return the labels of a collection, sorted."""
    found = computed([delayed(_unique)(part) for part in Partitions.of(y, "y").parts])
    classes = np.unique(np.concatenate(found))
    check_classification_targets(classes)
    return classes


def _is_flat(risk: ShardedRisk, result: Result) -> bool:
    point = result.point
    assert isinstance(point, FarPoint)
    lowest, highest = risk.sample.ask(extremes, risk.named, point.w)
    size = max(abs(lowest), abs(highest), float(np.max(np.abs(point.intercept))))
    return bool(highest - lowest <= _ROUNDING * size)


def _symptom(flat: Sequence[bool], result: Result) -> str | None:
    return "the best coefficients are zero, and all scores the same" if all(flat) else None
