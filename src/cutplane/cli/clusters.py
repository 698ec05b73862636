"""Fits on clusters: which tasks and data can be there, and the data as their workers read them."""

from __future__ import annotations

import contextlib
import importlib.util
import os
from collections.abc import Iterator
from typing import Any

from cutplane.cli.data import Examples
from cutplane.cli.fit_options import Choice
from cutplane.cli.options import require_at_least_one
from cutplane.estimators.linear.model import takes_collections
from cutplane.io import InputError, open_folder
from cutplane.io.folders.collections import dask_arrays

# Where shards begin, of which there is a power of two and at most this many, a part begins.
_N_PARTS = 64


def require_cluster(
    scheduler: str | None, workers: int | None, choice: Choice, train: str, *, search: bool
) -> None:
    """Raise InputError unless a fit of these data can be on a cluster."""
    if scheduler is not None and workers is not None:
        raise InputError("--scheduler or --workers, not both: workers belong to one scheduler")
    require_at_least_one("--workers", workers)
    option = "--workers" if scheduler is None else "--scheduler"
    if importlib.util.find_spec("distributed") is None:
        raise InputError(f'{option} needs Dask: pip install "cutplane[dask]"')
    if not takes_collections(choice.estimator):
        raise InputError(f"{option}: --task {choice.task} needs one machine")
    if search:
        raise InputError(f"{option}: --cv needs one machine")
    if not os.path.isdir(train):
        raise InputError(
            f"{option} needs a data folder, of which every worker reads its own rows: "
            f"cutplane convert {train} FOLDER"
        )


@contextlib.contextmanager
def on_cluster(scheduler: str | None, workers: int | None) -> Iterator[None]:
    """Connect to a scheduler, or start workers here; what goes wrong there is an InputError."""
    from cutplane.cluster.clients import client_at, local_client
    from cutplane.cluster.workers import ClusterError

    try:
        with client_at(scheduler) if scheduler is not None else local_client(workers or 1):
            yield
    except ClusterError as error:
        raise InputError(f"--{'workers' if scheduler is None else 'scheduler'}: {error}") from error


def as_collections(examples: Examples, path: str) -> Examples:
    """Return the examples of a data folder as collections, which workers read from there."""
    import dask.array as da

    folder = open_folder(path)
    parts = dask_arrays(folder, _N_PARTS)
    y = parts.get("y")
    if examples.y is not folder.y:  # labels of another type
        y = da.from_array(examples.y, chunks=parts["X"].chunks[0])
    names = {"qid": "queries", "sample_weight": "weights"}
    options: dict[str, Any] = {name: parts[names[name]] for name in examples.options}
    return examples._replace(X=parts["X"], y=y, options=options)
