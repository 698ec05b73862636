"""Classes of whole sequences of vectors: a hidden Markov model for each."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from cutplane.compute.arrays import Matrix
from cutplane.compute.collections import require_in_memory
from cutplane.estimators.description import Targets
from cutplane.estimators.estimator import estimator
from cutplane.estimators.fit import Examples
from cutplane.estimators.fitting import fitting
from cutplane.estimators.linear.classes import require_two_classes
from cutplane.estimators.parameters import check_parameters, threads_of, weights_of
from cutplane.models.sequences.tokens import Tokens
from cutplane.models.speech.decoding import score_classes
from cutplane.models.speech.estimator import HMMModel, hmm_description


@estimator
class HMMClassifier(ClassifierMixin, HMMModel):
    """Hidden Markov models that classify sequences of vectors, trained for a margin.

    The models are fitted by maximum likelihood, then all together: what is minimized is
    ``lam/2 |theta (w - w_0)|^2`` plus the mean over sequences of
    ``max_y [F(x, y) + margin (y is wrong)] - F(x, true y)``. ``F`` is the score of the best path
    through hidden states and Gaussians, ``w_0`` maximum likelihood; ``theta`` makes means count in
    standard deviations. That is not convex: the fit ends as ``stationary``, and proves nothing.

    Examples
    --------
    >>> import numpy as np
    >>> import cutplane as cp
    >>> rng = np.random.default_rng(0)
    >>> up = [np.linspace(-1, 1, n)[:, None] + rng.normal(0, 0.5, (n, 1)) for n in (8, 9, 12, 15)]
    >>> down = [-sequence for sequence in up]
    >>> model = cp.HMMClassifier(2).fit(up + down, ["up"] * 4 + ["down"] * 4)
    >>> model.predict([np.linspace(-1, 1, 5)[:, None]]).tolist()
    ['up']
    """

    description = hmm_description(
        task="hmm-classification",
        targets=Targets.CLASSES,
    )

    @fitting
    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, lengths: Any = None) -> Self:
        """Fit the models.

        Parameters
        ----------
        X : list of matrices, or a matrix
            A sequence is a matrix with one row per frame. A matrix in place of the list holds the
            frames of all sequences, concatenated, with ``lengths``; without these every row is a
            sequence of one frame.
        y : array-like of shape (n_sequences,)
            The class of each sequence.
        sample_weight : array-like of shape (n_sequences,), optional
            A weight of k counts as k copies of a sequence, a weight of 0 as none.
        lengths : list of int, optional
            The number of frames of each sequence, if ``X`` is one matrix.

        Returns
        -------
        HMMClassifier
            Itself, fitted.
        """
        check_parameters(self)
        self.shape_of(1, 1)  # which knows the words
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        frames = self._sequences(X, lengths, reset=True)
        labels = column_or_1d(y, warn=True)
        if labels.dtype.kind == "f":
            assert_all_finite(labels, input_name="y")
        check_classification_targets(labels)
        if len(labels) != len(frames.lengths):
            raise ValueError(f"y has {len(labels)} labels, X has {len(frames.lengths)} sequences")
        weights = np.array(weights_of(sample_weight, len(labels)))
        classes = np.unique(labels[weights > 0.0])
        require_two_classes(classes)
        # Labels of sequences without weight may be any.
        numbers = (np.searchsorted(classes, labels) % len(classes)).astype(np.int32)
        metadata = {"sample_weight": sample_weight, "lengths": lengths}
        examples = Examples(X, y, weights, metadata)
        return self._fit(frames, numbers, classes, weights, examples)

    def decision_function(self, X: Any, *, lengths: Any = None) -> NDArray[np.float64]:
        """Return the scores of classes: of the best path of each, one column a class.

        With two classes it is one number for each sequence: what the second scores more.
        """
        scores = self._scores(X, lengths)
        return np.asarray(scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores)

    def predict(self, X: Any, *, lengths: Any = None) -> NDArray[Any]:
        """Return the class of each sequence."""
        scores = self._scores(X, lengths)
        return np.asarray(self.classes_[scores.argmax(axis=1)])

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, lengths: Any = None) -> float:
        """Return the share of sequences whose class is right."""
        right = self.predict(X, lengths=lengths) == column_or_1d(y)
        return float(np.average(right, weights=sample_weight))

    def _scores(self, X: Any, lengths: Any) -> Matrix:
        check_is_fitted(self)
        frames = self._sequences(X, lengths, reset=False)
        if not len(frames.lengths):
            return np.empty((0, len(self.classes_)))
        return score_classes(
            self.hmms_,
            self.coef_,
            self._scaled(frames.X),
            frames.offsets,
            n_threads=threads_of(self.n_jobs),
        )

    def _sequences(self, X: Any, lengths: Any, *, reset: bool) -> Tokens:
        listed = isinstance(X, list | tuple) and not (len(X) and np.ndim(X[0]) == 1)
        if listed or lengths is not None or getattr(X, "ndim", 2) == 3:
            return self._frames(X, lengths, reset=reset)
        require_in_memory(type(self).__name__, X)
        rows = validate_data(self, X, dtype=np.float64, reset=reset)
        return Tokens(rows, np.ones(len(rows), dtype=np.int64), True)
