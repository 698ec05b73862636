"""A sample on the workers of a cluster, made of Dask collections."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from distributed import Client

from cutplane.cluster.collections import (
    CollectionSource,
    Partitions,
    count_entries,
    n_features_of,
)
from cutplane.cluster.sample import MOST_SHARDS, ShardedSample
from cutplane.cluster.workers import DaskWorkers, client_in_use
from cutplane.compute.blocks import power_below
from cutplane.data.rows import most_shards

# Sequences of a shard: few beside all of them, and enough to be worth a plane of their own.
_LEAST_SEQUENCES = 128


def sample_of(
    collections: dict[str, Any],
    n_classes: int,
    *,
    client: Client | None,
    workers: Sequence[str] | None,
    patience: float,
) -> ShardedSample:
    """Return examples whose rows will lie on the workers: see `cutplane.sharded_sample`."""
    client = client or client_in_use()
    given = {name: column for name, column in collections.items() if column is not None}
    with client.as_current():
        columns = {name: Partitions.of(column, name) for name, column in given.items()}
        source = CollectionSource(columns)
        if source.n_rows == 0:
            raise ValueError("X has no rows")
        n_entries = count_entries(given["X"], columns["X"])
    n_shards = most_shards(source.n_rows, n_features_of(given["X"]), n_entries, n_classes)
    places = DaskWorkers(client, workers=workers, patience=patience)
    return ShardedSample(source, places, n_shards=min(n_shards, MOST_SHARDS), patience=patience)


def sharded_sequences(
    X: Any,
    y: Any,
    weights: Any = None,
    *,
    client: Client | None = None,
    workers: Sequence[str] | None = None,
    patience: float = 30.0,
) -> ShardedSample:
    """Return sequences, with their labels, that will lie on the workers: none of them is split.

    Parameters
    ----------
    X, y : dask bag
        Sequences, and the labels of each.
    weights : dask bag or array, optional
        Weights of the sequences.
    client, workers, patience
        As for `cutplane.sharded_sample`.
    """
    client = client or client_in_use()
    given = {"X": X, "y": y} | ({} if weights is None else {"weights": weights})
    with client.as_current():
        source = CollectionSource({name: Partitions.of(each, name) for name, each in given.items()})
    if source.n_rows == 0:
        raise ValueError("there is no sequence")
    n_shards = min(power_below(source.n_rows // _LEAST_SEQUENCES), MOST_SHARDS)
    places = DaskWorkers(client, workers=workers, patience=patience)
    return ShardedSample(source, places, n_shards=n_shards, patience=patience)
