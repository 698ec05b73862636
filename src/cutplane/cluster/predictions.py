"""Predictions for Dask collections: collections too, computed part by part."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
from dask import delayed


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
