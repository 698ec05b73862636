"""The tensors of kernel machines in a model file.

They are ``dual_coef``, a row for each problem, ``intercept``, the numbers of the examples that the
model is made of, ``support``, the ``curvatures`` of a posterior, and these examples, unless kernels
with them come precomputed: as a matrix ``vectors``, or in CSR, ``values``, ``indices`` and
``starts``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from cutplane.io.models.schema import Malformed

_SPARSE = {"values", "indices", "starts"}


def tensors_of(estimator: Any) -> dict[str, NDArray[Any]]:
    """Return all that a fitted estimator predicts from, but its parameters and classes."""
    if callable(estimator.kernel):
        raise Malformed("its kernel is a function; give the kernel by name")
    tensors: dict[str, NDArray[Any]] = {
        "dual_coef": np.ascontiguousarray(estimator.dual_coef_),
        "intercept": np.atleast_1d(np.asarray(estimator.intercept_, dtype=np.float64)),
        "support": np.asarray(estimator.support_, dtype=np.int64),
    }
    if getattr(estimator, "posterior", False):
        tensors["curvatures"] = np.ascontiguousarray(estimator._curvatures)
    vectors = estimator.support_vectors_
    if scipy.sparse.issparse(vectors):
        tensors["values"] = np.ascontiguousarray(vectors.data)
        tensors["indices"] = vectors.indices.astype(np.int64)
        tensors["starts"] = vectors.indptr.astype(np.int64)
    elif vectors is not None:
        tensors["vectors"] = np.ascontiguousarray(vectors)
    return tensors


def restore(estimator: Any, tensors: dict[str, NDArray[Any]], document: object) -> int:
    """Make an estimator with parameters and classes a fitted one; return its number of problems."""
    try:
        layout = estimator.layout()
        estimator._kernel()
    except (TypeError, ValueError, OverflowError, AttributeError) as error:
        raise Malformed(f"a parameter is wrong: {error}") from None
    precomputed: bool = estimator._precomputed
    has_posterior = bool(getattr(estimator, "posterior", False))
    if has_posterior != ("curvatures" in tensors):
        raise Malformed("a posterior without curvatures, or curvatures without a posterior")
    tensors = dict(tensors)
    curvatures = tensors.pop("curvatures", None)
    names = set(tensors) - {"dual_coef", "intercept", "support"}
    allowed: list[set[str]] = [set()] if precomputed else [{"vectors"}, _SPARSE]
    if len(tensors) != len(names) + 3 or names not in allowed:
        raise Malformed(f"arrays {', '.join(sorted(tensors))}")
    for name in ("dual_coef", "intercept", "vectors", "values"):
        tensor = tensors.get(name, np.zeros(1))
        if tensor.dtype not in (np.float32, np.float64) or not np.isfinite(tensor).all():
            raise Malformed(f"{name} has numbers that are not finite, or no real ones")
    coef, intercept, support = tensors["dual_coef"], tensors["intercept"], tensors["support"]
    if coef.ndim != 2 or len(coef) != (layout.rows or 1) or intercept.shape != (len(coef),):
        raise Malformed(f"coefficients of shape {coef.shape} for {layout.rows or 1} problems")
    size = getattr(estimator, "n_examples_", None)
    features = getattr(estimator, "n_features_in_", None)
    if size is None or features is None:
        raise Malformed("no numbers of examples and features")
    fits = support.dtype == np.int64 and support.shape == coef.shape[1:]
    fits = fits and bool((np.diff(support) > 0).all())
    if not fits or (len(support) and not 0 <= support[0] <= support[-1] < size):
        raise Malformed("the support is no list of examples")
    if precomputed and features != size:
        raise Malformed(f"kernels with {features} examples, of {size}")
    estimator.dual_coef_, estimator.support_ = coef, support
    estimator.support_vectors_ = _vectors(tensors, (len(support), features))
    estimator.intercept_ = float(intercept[0]) if layout.intercepts is None else intercept
    if curvatures is not None:
        _restore_posterior(estimator, curvatures)
    return int(layout.problems)


def _restore_posterior(estimator: Any, curvatures: NDArray[Any]) -> None:
    scale = getattr(estimator, "prior_scale_", None)
    fits = curvatures.dtype == np.float64 and curvatures.shape == estimator.dual_coef_.shape
    if scale is None or not fits or not np.isfinite(curvatures).all() or (curvatures < 0.0).any():
        raise Malformed("curvatures that do not fit the support")
    try:
        estimator._require_gaussian_process()
    except ValueError as error:
        raise Malformed(str(error)) from None
    estimator._curvatures = curvatures
    vectors = estimator.support_vectors_
    matrix = estimator._kernel().between(vectors, vectors)
    estimator._posteriors = estimator._made_posteriors(matrix, scale)


def _vectors(tensors: dict[str, NDArray[Any]], shape: tuple[int, int]) -> Any:
    """Return the examples of the support; None if kernels come precomputed."""
    if "vectors" in tensors:
        if tensors["vectors"].shape != shape:
            raise Malformed(f"examples of shape {tensors['vectors'].shape}, expected {shape}")
        return tensors["vectors"]
    if "values" not in tensors:
        return None
    values, indices, starts = (tensors[name] for name in ("values", "indices", "starts"))
    if any(part.dtype != np.int64 or part.ndim != 1 for part in (indices, starts)):
        raise Malformed("examples that are no sparse matrix")
    fits = starts.shape == (shape[0] + 1,) and values.shape == indices.shape
    if not fits or starts[0] != 0 or starts[-1] != len(values) or (np.diff(starts) < 0).any():
        raise Malformed("examples that are no sparse matrix")
    if len(indices) and (indices.min() < 0 or indices.max() >= shape[1]):
        raise Malformed("examples with features that are not there")
    return scipy.sparse.csr_array((values, indices, starts), shape=shape)
