"""Dask: collections as samples whose rows lie on workers, and the workers that hold them.

Dask is imported by the modules of this package, and these only when a collection is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from distributed import Client

    from cutplane.cluster.sample import ShardedSample


def sharded_sample(
    X: Any,
    y: Any,
    weights: Any = None,
    *,
    qid: Any = None,
    n_classes: int = 1,
    client: Client | None = None,
    workers: Sequence[str] | None = None,
    patience: float = 30.0,
) -> ShardedSample:
    """Return examples whose rows will lie on the workers of a Dask cluster, in shards.

    `cutplane.ShardedRisk` makes a risk of them. Rows are read when the first one is made. The
    sample is a context manager, and lets the workers go at the end.

    Parameters
    ----------
    X : dask array or data frame
        Features; chunks of arrays may be CSR matrices.
    y : dask array or series
        Targets, as the loss takes them.
    weights : dask array or series, optional
        Weights of the examples.
    qid : dask array or series, optional
        The query of each example, for losses of rankings.
    n_classes : int
        How many scores an example has.
    client : distributed.Client, optional
        The one made last by default.
    workers : sequence of str, optional
        Addresses of those to use; all by default.
    patience : float
        Seconds without a sign of life after which a worker is lost.
    """
    try:
        from cutplane.cluster.collections import sample_of
    except ImportError as error:
        raise ImportError(f'{error}: pip install "cutplane[dask]"') from error
    columns = {"X": X, "y": y, "weights": weights, "qid": qid}
    return sample_of(columns, n_classes, client=client, workers=workers, patience=patience)
