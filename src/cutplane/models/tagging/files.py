"""The tensors of a `cutplane.SequenceTagger` in a model file.

``coef`` is a matrix, or for observed pairs the values of a sparse one, feature after feature, with
their ``coef_labels`` and with ``coef_starts``, where each feature's values begin. ``transitions``,
``start`` and ``end`` are as in the tagger. ``lam`` is the strength that was used, which the
parameters do not tell if they have ``C``; the first files do without. ``features`` holds the names
of features, if they have any: a list in JSON, as bytes. If a network makes the features that
``coef`` is for, its arrays are there too: see :mod:`cutplane.models.networks.files`.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.feature_extraction import DictVectorizer

from cutplane.estimators import SequenceTagger
from cutplane.io.models.schema import Malformed
from cutplane.models.networks import files as network
from cutplane.models.tagging.tagger import MEANS, PAIRS
from cutplane.models.tagging.templates import TemplateVectorizer
from cutplane.models.tagging.tokens import give_names

_WEIGHTS = ("coef", "transitions", "start", "end")
_PLACES = ("coef_labels", "coef_starts")


def tensors_of(tagger: SequenceTagger) -> dict[str, NDArray[Any]]:
    """Return all that a fitted tagger predicts from, but its parameters and classes."""
    coef: Any = tagger.coef_
    tensors = {
        "transitions": tagger.transitions_,
        "start": tagger.start_,
        "end": tagger.end_,
        "lam": np.array([tagger.lam_]),
    }
    if isinstance(coef, np.ndarray):
        tensors["coef"] = coef
    else:
        by_feature = coef.T.tocsr()
        tensors |= {
            "coef": by_feature.data,
            "coef_labels": by_feature.indices.astype(np.int32),
            "coef_starts": by_feature.indptr.astype(np.int64),
        }
    if tagger.vectorizer_ is not None:
        names = tagger.vectorizer_.feature_names_
        if not all(isinstance(name, str) for name in names):
            raise TypeError("cannot save a tagger whose features have names that are no strings")
        tensors["features"] = np.frombuffer(msgspec.json.encode(names), dtype=np.uint8)
    tensors |= network.tensors_of(tagger)
    return {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}


def restore(tagger: SequenceTagger, tensors: dict[str, NDArray[Any]], document: object) -> int:
    """Make a tagger with parameters and classes a fitted one; return its number of problems."""
    if tagger.pairs not in PAIRS:
        raise Malformed(f"unknown pairs {tagger.pairs!r}")
    if tagger.mean not in MEANS:
        raise Malformed(f"unknown mean {tagger.mean!r}")
    tensors = dict(tensors)
    found = network.take_network(tensors, tagger.features)
    if found is None and tagger.features is not None:
        raise Malformed("it has no network, for which features were given")
    tagger.network_ = None
    sparse = found is None and PAIRS[tagger.pairs]
    if sparse is None:  # by the kind of features
        sparse = "coef_labels" in tensors
    if {*tensors} - {"features", "lam"} != {*_WEIGHTS, *(_PLACES if sparse else ())}:
        raise Malformed(f"arrays {', '.join(sorted(tensors))}")
    for name in _WEIGHTS:
        if tensors[name].dtype != np.float64 or not np.isfinite(tensors[name]).all():
            raise Malformed(f"{name} has weights that are not finite, or no float64")
    names = _checked_features(tensors["features"]) if "features" in tensors else None
    n = len(tagger.classes_)
    shapes = [tensors[name].shape for name in _WEIGHTS[1:]]
    if shapes != [(n, n), (n,), (n,)]:
        raise Malformed(f"weights of shapes {shapes} for {n} classes")
    tagger.coef_ = _sparse_coef(tensors, n) if sparse else tensors["coef"]
    if tagger.coef_.ndim != 2 or tagger.coef_.shape[0] != n:
        raise Malformed(f"coefficients of shape {tagger.coef_.shape} for {n} classes")
    tagger.n_features_in_ = tagger.coef_.shape[1]
    if found is not None:
        tagger.features, tagger.network_, tagger.n_features_in_ = found
    if tagger.n_features_in_ == 0:
        raise Malformed("coefficients for no features")
    if names is not None and len(names) != tagger.n_features_in_:
        raise Malformed(f"{len(names)} names for {tagger.n_features_in_} features")
    tagger.transitions_, tagger.start_, tagger.end_ = (tensors[name] for name in _WEIGHTS[1:])
    lam = tensors["lam"] if "lam" in tensors else np.array([tagger.lam])
    if lam.shape != (1,) or lam.dtype.kind not in "fiu" or not 0.0 < lam[0] < np.inf:
        raise Malformed("lam is no positive number")
    tagger.lam_ = float(lam[0])
    tagger.vectorizer_ = _vectorizer(tagger, names)
    return 1


def _checked_features(content: NDArray[Any]) -> list[str]:
    try:
        content = content.astype(np.uint8, casting="equiv")
        names = msgspec.json.decode(content.tobytes(), type=list[str])
    except (TypeError, ValueError, RecursionError) as error:
        raise Malformed(f"names of features are not readable: {error}") from None
    if len(set(names)) < len(names):
        raise Malformed("names of features are not different")
    return names


def _sparse_coef(tensors: dict[str, NDArray[Any]], n_classes: int) -> Any:
    values, labels, starts = (tensors[name] for name in ("coef", *_PLACES))
    if labels.dtype != np.int32 or starts.dtype != np.int64 or starts.ndim != 1 or not len(starts):
        raise Malformed("places of coefficients are not whole numbers")
    if values.ndim != 1 or values.shape != labels.shape or starts[-1] != len(values):
        raise Malformed("coefficients and their places do not fit together")
    # The range first: differences of any whole numbers may overflow.
    ascend = (starts >= 0).all() and (starts <= len(values)).all() and (np.diff(starts) >= 0).all()
    if not ascend or starts[0] != 0 or (labels < 0).any() or (labels >= n_classes).any():
        raise Malformed("places of coefficients are out of range")
    shape = (len(starts) - 1, n_classes)
    return scipy.sparse.csr_array((values, labels, starts), shape=shape).T.tocsr()


def _vectorizer(
    tagger: SequenceTagger, names: list[str] | None
) -> DictVectorizer | TemplateVectorizer | None:
    if names is None:
        if tagger.templates is not None:
            raise Malformed("templates without names of features")
        return None
    try:
        vectorizer = tagger.new_vectorizer()
    except ValueError as error:
        raise Malformed(str(error)) from None
    give_names(vectorizer, names)
    return vectorizer
