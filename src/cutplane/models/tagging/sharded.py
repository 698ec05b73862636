"""Taggers of Dask bags: fitted where the sequences are, predictions as bags.

Workers first say which labels and which names of features their sequences have. Both are joined and
sorted, so that their order does not depend on who has which sequence. Then each worker makes a
matrix of its own tokens, and the fit is that of any risk (`cutplane.cluster.chains`).
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets

from cutplane.cluster.chains import ChainShape, ShardedChainRisk, ShardTokens
from cutplane.cluster.sample import Arrays, Holding
from cutplane.compute.arrays import Vector
from cutplane.estimators.description import weights_of
from cutplane.estimators.fit import Examples, Plan, fit_plan
from cutplane.models.tagging.tagger import LOSSES, MEANS, PAIRS, SequenceTagger
from cutplane.models.tagging.templates import TemplateVectorizer
from cutplane.models.tagging.tokens import Tokens, give_names, read_labels, read_tokens

# A DictVectorizer, a TemplateVectorizer, or None for matrices.
Vectorizer: TypeAlias = Any


class Found(NamedTuple):
    """What the sequences of all shards have.

    Attributes
    ----------
    classes : ndarray
        The labels of sequences that count, sorted.
    names : ndarray or None
        The names of features, sorted; None for matrices.
    n_features : int
    weight, n_tokens : float
        Of all sequences; tokens weighted.
    """

    classes: NDArray[Any]
    names: NDArray[Any] | None
    n_features: int
    weight: float
    n_tokens: float


def look(holding: Holding, vectorizer: Vectorizer, min_count: int) -> Found:
    """Collect what the sequences of all workers have."""
    parts, sums = [], []
    for arrays in holding.shards():
        tokens, own, weights = _read(arrays)
        labels = np.unique(own[np.repeat(weights > 0.0, tokens.lengths)])
        width = np.array([-1 if tokens.named else tokens.X.shape[1]][: len(own)])
        parts.append((labels, *_names(tokens, vectorizer), width))
        sums.append((float(weights.sum()), float(weights @ tokens.lengths)))
    if len({labels.dtype.kind for labels, *_ in parts if len(labels)}) > 1:
        raise ValueError("labels must be of one type")
    joined = holding.worker.joined([_alike(*part) for part in parts])
    weight, n_tokens = holding.worker.total(sums)
    if len(joined[0]) == 0:
        raise ValueError("there is no token that counts: all sequences are empty or weigh 0")
    several = np.unique(joined[3])
    if len(several) > 1:
        raise ValueError(f"sequences have {' and '.join(map(str, several))} features (-1: names)")
    if several[0] >= 0:
        return Found(np.unique(joined[0]), None, int(several[0]), weight, n_tokens)
    known, places = np.unique(joined[1], return_inverse=True)
    often = np.bincount(places, weights=joined[2]) >= min_count
    if not often.any():
        raise ValueError(f"no feature occurs min_count = {min_count} times")
    return Found(np.unique(joined[0]), known[often], int(often.sum()), weight, n_tokens)


def _alike(
    labels: NDArray[Any], names: list[str], counts: NDArray[np.int64], width: NDArray[np.int64]
) -> tuple[NDArray[Any], ...]:
    """Return arrays that can be joined with those of other shards, also if there is nothing."""
    if len(labels) == 0:
        labels = np.empty(0, dtype="U1" if labels.dtype.kind in "fU" else labels.dtype)
    return labels, np.array(names, dtype=object), counts, width


def _read(arrays: Arrays) -> tuple[Tokens, NDArray[Any], Vector]:
    """Return the tokens of a shard, their labels, and the weights of its sequences."""
    tokens = read_tokens(list(arrays["X"]), None)
    labels = read_labels(list(arrays["y"]), tokens)
    if labels.dtype.kind == "f" and len(labels):
        assert_all_finite(labels, input_name="y")
        check_classification_targets(labels)
    return tokens, labels, np.array(weights_of(arrays.get("weights"), len(tokens.lengths)))


def _names(tokens: Tokens, vectorizer: Vectorizer) -> tuple[list[str], NDArray[np.int64]]:
    """Return the names of features, and how many tokens have each."""
    if vectorizer is None or not tokens.named:
        return [], np.empty(0, dtype=np.int64)
    own = copy(vectorizer)
    if isinstance(own, TemplateVectorizer):
        own.min_count = 1  # what is rare here may be frequent elsewhere
    X = tokens.vectorized(own, fit=True).X
    n_tokens = np.bincount(X.indices, minlength=X.shape[1])
    return list(own.feature_names_), n_tokens


@dataclass(frozen=True)
class SequenceReader:
    """How the sequences of a shard become a matrix of tokens and numbers of labels.

    Attributes
    ----------
    classes : ndarray
        The labels, sorted.
    vectorizer : DictVectorizer, TemplateVectorizer or None
        Fitted to the names of all shards.
    n_features : int
    """

    classes: NDArray[Any]
    vectorizer: Vectorizer
    n_features: int

    def tokens(self, arrays: Arrays) -> ShardTokens:
        """Return the tokens of a shard."""
        tokens, labels, weights = _read(arrays)
        if len(labels) == 0:
            tokens = tokens._replace(X=np.empty((0, self.n_features)))
        elif tokens.named:
            tokens = tokens.vectorized(self.vectorizer, fit=False)
        # Labels of sequences without weight may be any.
        places = np.searchsorted(self.classes, labels) if len(labels) else np.empty(0, np.int64)
        return ShardTokens(tokens.X, places % len(self.classes), tokens.offsets, weights)


def observed(holding: Holding, reader: SequenceReader) -> NDArray[np.int64]:
    """Return the pairs that occur together, each as ``feature * n_labels + label``."""
    found, n = [], len(reader.classes)
    for arrays in holding.shards():
        tokens = reader.tokens(arrays)
        counted = np.repeat(tokens.weights > 0.0, np.diff(tokens.offsets))
        X = tokens.X.tocoo() if len(tokens.y) else None
        if X is None:
            found.append((np.empty(0, dtype=np.int64),))
            continue
        used = counted[X.row] & (X.data != 0.0)
        found.append((np.unique(X.col[used].astype(np.int64) * n + tokens.y[X.row[used]]),))
    return np.unique(holding.worker.joined(found)[0])


def fit_bag(model: SequenceTagger, X: Any, y: Any, sample_weight: Any) -> None:
    """Fit a tagger to Dask bags of sequences and of their labels."""
    from cutplane.cluster.collections import sample_of

    sample = sample_of({"X": X, "y": y, "weights": sample_weight}, sequences=True)
    try:
        vectorizer: Vectorizer = model.new_vectorizer()
        found: Found = sample.ask(look, vectorizer, model.min_count)
        if found.names is not None:
            give_names(vectorizer, [str(name) for name in found.names])
        elif model.templates is not None:
            raise ValueError("templates need tokens that are lists of columns, these are matrices")
        else:
            vectorizer = None
        observed_only = PAIRS[model.pairs]
        if observed_only is None:
            observed_only = vectorizer is not None
        reader = SequenceReader(found.classes, vectorizer, found.n_features)
        shape = ChainShape(
            reader=reader,
            loss=LOSSES[model.loss](),
            n_features=found.n_features,
            n_labels=len(found.classes),
            ends=model.fit_ends,
            pairs=sample.ask(observed, reader) if observed_only else None,
            scale=1.0 / (found.n_tokens if MEANS[model.mean] else found.weight),
        )
        risk = ShardedChainRisk(sample, shape)
        like = _one_token(shape)
        model.n_features_in_ = found.n_features
        start = None
        if model.warm_start and hasattr(model, "coef_"):
            start = model.start_for(like, found.classes, model._names_of_features(vectorizer))
        plan = Plan(
            examples=Examples(X, y, np.broadcast_to(1.0, 1), {"sample_weight": sample_weight}),
            risks=[risk],
            regularizer=model.regularizer(found.weight),
            model=lambda w, _: model.fitted(like, w[0], found.classes, vectorizer, None),
            starts=[start],
        )
        fit_plan(model, plan)
        model.inferences_ = risk.inferences
    finally:
        sample.close()


def _one_token(shape: ChainShape) -> Any:
    """Return a risk with the same parameters, which knows how they are arranged."""
    empty: Any = np.zeros((1, shape.n_features))
    if shape.pairs is not None:
        empty = scipy.sparse.csr_matrix((1, shape.n_features))
    token = ShardTokens(empty, np.zeros(1, np.int64), np.array([0, 1]), np.ones(1))
    return shape.risk(token, 1)
