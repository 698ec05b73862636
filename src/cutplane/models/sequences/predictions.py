"""What a tagger predicts, and the weights of its features by name.

The weights of a fitted tagger by the names of their labels and features.

What a fitted tagger says of sequences, and of itself.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import pairwise
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.utils import check_scalar
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.collections import require_in_memory
from cutplane.data import ordered_scores
from cutplane.estimators.estimator import Regularized, estimator
from cutplane.estimators.parameters import is_crf, threads_of
from cutplane.models.networks.neural_features import scores_of
from cutplane.models.sequences.chain import Chains, ChainScores
from cutplane.models.sequences.n_best import n_best
from cutplane.models.sequences.sharded import by_sequences
from cutplane.models.sequences.tokens import Tokens, read_labels, read_tokens
from cutplane.models.structured import ChainCRF
from cutplane.risks import ChainRisk


class TaggerWeights(NamedTuple):
    """Weights of labels and features, of transitions, and of labels at both ends.

    Attributes
    ----------
    labels : list
        The labels in the order of the weights.
    features : sequence or None
        The names of the features; None if they have none.
    coef : ndarray or sparse array of shape (n_labels, n_features)
    transitions : ndarray of shape (n_labels, n_labels)
    start, end : ndarray of shape (n_labels,)
    """

    labels: list[Any]
    features: Sequence[Hashable] | None
    coef: Any
    transitions: Matrix
    start: Vector
    end: Vector

    def of_features(self) -> dict[tuple[Any, Any], float]:
        """Return the weights other than zero, from feature (or its number) and label."""
        coef = scipy.sparse.coo_array(self.coef)
        names = range(coef.shape[1]) if self.features is None else self.features
        entries = zip(coef.row.tolist(), coef.col.tolist(), coef.data.tolist(), strict=True)
        return {(names[j], self.labels[k]): weight for k, j, weight in entries if weight}

    def of_transitions(self) -> dict[tuple[Any, Any], float]:
        """Return all weights, from label and next label."""
        return {
            (before, after): weight
            for before, row in zip(self.labels, self.transitions.tolist(), strict=True)
            for after, weight in zip(self.labels, row, strict=True)
        }

    def arranged_for(
        self, risk: ChainRisk, labels: list[Any], features: Sequence[Hashable] | None
    ) -> Vector | None:
        """Return the parameters of a risk with other labels and features, zero where they are new.

        None if it is not known which features are the same.
        """
        n_features = self.coef.shape[1]
        columns = np.arange(n_features)
        if features is not None and self.features is not None:
            columns = _places(features, self.features)
        elif features is not self.features or n_features != risk.n_features:
            return None
        rows = _places(labels, self.labels)
        w = np.zeros(risk.n_parameters)
        # Which pair a weight belongs to, the risk tells of weights that are their own numbers.
        numbers = np.arange(1.0, risk.pairs.n_parameters + 1.0)
        pairs = scipy.sparse.coo_array(risk.pairs.as_matrix(numbers))
        row, column = rows[pairs.row], columns[pairs.col]
        known = (row >= 0) & (column >= 0)
        places = pairs.data[known].astype(np.int64) - 1
        w[places] = np.ravel(self.coef[row[known], column[known]])
        _, transitions, start, end = risk.split(w)  # views of w
        new = np.flatnonzero(rows >= 0)
        transitions[np.ix_(new, new)] = self.transitions[np.ix_(rows[new], rows[new])]
        start[new], end[new] = self.start[rows[new]], self.end[rows[new]]
        return w


def _places(names: Sequence[Hashable], known: Sequence[Hashable]) -> NDArray[np.int64]:
    """Return the place of each name among those that are known, -1 if it is not."""
    place_of = {name: place for place, name in enumerate(known)}
    return np.array([place_of.get(name, -1) for name in names], dtype=np.int64)


class RankedLabels(NamedTuple):
    """Labels of a sequence, and how good they are.

    Attributes
    ----------
    labels : ndarray of shape (n_tokens,)
    score : float
    log_probability : float or None
        The logarithm of the probability of these labels given the sequence, if the loss is "crf".
    """

    labels: NDArray[Any]
    score: float
    log_probability: float | None


@estimator
class TaggerPredictions(Regularized):
    """Predictions of a fitted linear chain, and its weights by name."""

    @by_sequences
    def predict(self, X: Any, *, lengths: Any = None) -> Any:
        """Return the best labels of each sequence; a Dask bag for a bag of sequences.

        Returns
        -------
        list of ndarray, or one ndarray if ``X`` came as one matrix with ``lengths``
        """
        tokens, chains, scores = self._scored(X, lengths)
        return tokens.like_input(self.classes_[chains.best(scores)])

    @by_sequences
    def predict_n_best(self, X: Any, n: int, *, lengths: Any = None) -> list[list[RankedLabels]]:
        """Return the ``n`` best sequences of labels of each sequence, the best first.

        There are fewer if there are no more; an empty sequence has one. Of those that score the
        same, the one comes first whose label is the earlier one of ``classes_`` where they differ
        last.

        Returns
        -------
        list of lists of RankedLabels
            With the attributes ``labels``, ``score`` and, for the loss "crf", ``log_probability``.
        """
        check_scalar(n, "n", Integral, min_val=1)
        _, chains, scores = self._scored(X, lengths)
        found = n_best(chains, scores, int(n))
        if not (np.isfinite(scores.emissions).all() and np.isfinite(found.top_scores).all()):
            raise ValueError("the scores overflow: are the features on the scale of the fit?")
        logs: list[Any] = [None] * chains.n_sequences
        if self.loss == "crf":
            logs = ChainCRF().log_probabilities(chains, scores, found.labels[0]).tolist()
        return [
            [
                RankedLabels(
                    self.classes_[found.labels[k, begin:end]],
                    top - less,
                    None if log is None else log - less,
                )
                for k, less in enumerate(found.behind[i, : found.counts[i]].tolist())
            ]
            for i, ((begin, end), top, log) in enumerate(
                zip(pairwise(chains.offsets), found.top_scores.tolist(), logs, strict=True)
            )
        ]

    @available_if(is_crf)
    @by_sequences
    def predict_marginals(self, X: Any, *, lengths: Any = None) -> Any:
        """Return the probability of each label of each token, given all of the sequence.

        Returns
        -------
        list of ndarray of shape (n_tokens, n_labels), or one ndarray if ``X`` came as one matrix
        """
        tokens, chains, scores = self._scored(X, lengths)
        return tokens.like_input(ChainCRF().marginals(chains, scores))

    def score(self, X: Any, y: Any, *, lengths: Any = None, sample_weight: Any = None) -> float:
        """Return the share of tokens whose label is right, with the weights of their sequences."""
        require_in_memory("SequenceTagger.score", X, "cp.evaluate takes bags")
        tokens, chains, scores = self._scored(X, lengths)
        labels = read_labels(y, tokens)
        if len(labels) == 0:
            raise ValueError("there is no token to score")
        return tokens.share_of(self.classes_[chains.best(scores)] == labels, sample_weight)

    @property
    def state_features_(self) -> dict[tuple[Any, Any], float]:
        """The weights other than zero, from feature (its number if it has no name) and label.

        On a network, features are its outputs, by their numbers.
        """
        return self._named_weights().of_features()

    @property
    def transition_features_(self) -> dict[tuple[Any, Any], float]:
        """The weights of transitions, from label and next label."""
        return self._named_weights().of_transitions()

    def _named_weights(self) -> TaggerWeights:
        return TaggerWeights(
            self.classes_.tolist(),
            self._names_of_features(self.vectorizer_) if self.network_ is None else None,
            self.coef_,
            self.transitions_,
            self.start_,
            self.end_,
        )

    def _names_of_features(self, vectorizer: Any) -> Any:
        if vectorizer is not None:
            return vectorizer.feature_names_
        return getattr(self, "feature_names_in_", None)

    def _scored(self, X: Any, lengths: Any) -> tuple[Tokens, Chains, ChainScores]:
        """Return the tokens of a user's sequences, and their scores."""
        check_is_fitted(self)
        tokens = self._as_matrix(read_tokens(X, lengths), self.vectorizer_, reset=False)
        return tokens, *self._scores(tokens)

    def _as_matrix(self, tokens: Tokens, vectorizer: Any, *, reset: bool) -> Tokens:
        """Return tokens as rows of a matrix that was found to be fit for use."""
        if len(tokens.X if tokens.named else tokens.lengths) == 0 or tokens.lengths.sum() == 0:
            if reset:
                raise ValueError("there is no token to learn from: all sequences are empty")
            return tokens._replace(X=np.empty((0, self.n_features_in_)))
        if tokens.named:
            if vectorizer is None:
                raise ValueError("the model was fitted to matrices, these tokens have names")
            tokens = tokens.vectorized(vectorizer, fit=reset, min_count=self.min_count)
        elif self.templates is not None and reset:
            raise ValueError("templates need tokens that are lists of columns, these are matrices")
        elif vectorizer is not None and not scipy.sparse.issparse(tokens.X):
            # Sparse ones may come from the vectorizer itself.
            raise ValueError("the model was fitted to tokens with names, these are matrices")
        X = validate_data(
            self, tokens.X, accept_sparse="csr", dtype=(np.float64, np.float32), reset=reset
        )
        return tokens._replace(X=X)

    def _scores(self, tokens: Tokens) -> tuple[Chains, ChainScores]:
        n_threads = threads_of(self.n_jobs)
        chains = Chains(tokens.offsets, len(self.classes_), n_threads=n_threads)
        coef: Any = self.coef_
        if self.network_ is not None:
            emissions = scores_of(self.features, self.network_, coef, tokens.X, n_threads)
        elif isinstance(coef, np.ndarray):
            emissions = ordered_scores(tokens.X, coef, n_threads=n_threads)
        else:
            emissions = scipy.sparse.csr_array(tokens.X).dot(coef.T).toarray()
        return chains, ChainScores(emissions, self.transitions_, self.start_, self.end_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags
