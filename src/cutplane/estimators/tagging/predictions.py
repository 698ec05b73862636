"""What a fitted tagger says of sequences, and of itself."""

from __future__ import annotations

from itertools import pairwise
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.utils import check_scalar
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from cutplane.compute.collections import require_in_memory
from cutplane.estimators.estimator import Regularized, estimator
from cutplane.estimators.parameters import is_crf, threads_of
from cutplane.estimators.tagging.networks import scores_of
from cutplane.estimators.tagging.sharded import by_sequences
from cutplane.estimators.tagging.tokens import Tokens, read_labels, read_tokens
from cutplane.estimators.tagging.weights import TaggerWeights
from cutplane.maps import ordered_scores
from cutplane.structured import ChainCRF
from cutplane.structured.chains.chain import Chains, ChainScores
from cutplane.structured.chains.n_best import n_best


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
