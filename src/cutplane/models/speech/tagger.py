"""Labels for the frames of sequences: hidden Markov models that follow each other."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from cutplane.estimators.description import Measures, Targets
from cutplane.estimators.estimator import Strength, estimator
from cutplane.estimators.fit import Examples
from cutplane.estimators.fitting import fitting
from cutplane.estimators.parameters import check_parameters, threads_of, weights_of
from cutplane.models.sequences.tokens import Tokens, read_labels
from cutplane.models.speech.decoding import label_frames
from cutplane.models.speech.estimator import HMMModel, hmm_description


class Segment(NamedTuple):
    """A part of a sequence that is of one class: frames from ``begin`` up to ``end``."""

    label: Any
    begin: int
    end: int


@estimator
class HMMTagger(HMMModel):
    """Hidden Markov models that find segments (phones, words, strokes) in sequences of vectors.

    A class has a model, and a path goes from the end of one model to the start of another: where
    segments begin is searched too. The models are fitted to segments by maximum likelihood, each
    run of equal labels being one, then all together: what is minimized is
    ``lam/2 |theta (w - w_0)|^2`` plus the mean over sequences of
    ``max_y [F(x, y) + margin (wrong frames)] - F(x, true y)``. See `HMMClassifier`.

    Parameters
    ----------
    margin : float, default=1.0
        What labels must score less than the right ones for each wrong frame.
    lam : float, default=10.0
        Strength of the regularizer, which holds the models near those of maximum likelihood. The
        risk of a sequence grows with its length, and so should ``lam``.

    Examples
    --------
    >>> import numpy as np
    >>> import cutplane as cp
    >>> rng = np.random.default_rng(0)
    >>> y = [np.repeat(["low", "high", "low"], rng.integers(4, 9, 3)) for _ in range(10)]
    >>> X = [np.where(labels == "low", 0, 3)[:, None] + rng.normal(size=(len(labels), 1))
    ...      for labels in y]
    >>> tagger = cp.HMMTagger(1).fit(X, y)
    >>> tagger.predict_segments([[[0.1], [-0.5], [0.3], [3.1], [2.8], [3.5]]])
    [[Segment(label='low', begin=0, end=3), Segment(label='high', begin=3, end=6)]]
    """

    description = hmm_description(
        task="hmm-tagging",
        targets=Targets.TAGS,
        measures=Measures.SEGMENTS,
    )

    lam: Strength = 10.0
    margin: float = 1.0

    @fitting
    def fit(self, X: Any, y: Any, *, lengths: Any = None, sample_weight: Any = None) -> Self:
        """Fit the models.

        Parameters
        ----------
        X : list of matrices, or a matrix
            A sequence is a matrix with one row per frame. A matrix in place of the list holds the
            frames of all sequences, concatenated.
        y : list of lists of labels, or one label for each row of a matrix
        lengths : list of int, optional
            The number of frames of each sequence, if ``X`` is one matrix.
        sample_weight : array-like of shape (n_sequences,), optional
            A weight of k counts as k copies of a sequence, a weight of 0 as none.

        Returns
        -------
        HMMTagger
            Itself, fitted.
        """
        check_parameters(self)
        self.shape_of(1, 1)  # which knows the words
        frames = self._frames(X, lengths, reset=True)
        labels = read_labels(y, frames)
        if labels.dtype.kind == "f":
            assert_all_finite(labels, input_name="y")
            check_classification_targets(labels)
        weights = np.array(weights_of(sample_weight, len(frames.lengths)))
        classes = np.unique(labels[np.repeat(weights > 0.0, frames.lengths)])
        if not len(classes):
            raise ValueError("there is no frame that counts: all sequences weigh 0")
        # Labels of sequences without weight may be any.
        numbers = (np.searchsorted(classes, labels) % len(classes)).astype(np.int32)
        metadata = {"lengths": lengths, "sample_weight": sample_weight}
        examples = Examples(X, y, weights, metadata)
        return self._fit(frames, numbers, classes, weights, examples)

    def predict(self, X: Any, *, lengths: Any = None) -> Any:
        """Return the label of each frame, on the best path through all classes.

        Returns
        -------
        list of ndarray, or one ndarray if ``X`` came as one matrix with ``lengths``
        """
        frames, numbers, _ = self._labeled(X, lengths)
        return frames.like_input(self.classes_[numbers])

    def predict_segments(self, X: Any, *, lengths: Any = None) -> list[list[Segment]]:
        """Return the segments of each sequence, in their order.

        Neighbors may be of the same class, which labels of frames do not tell.
        """
        frames, numbers, begins = self._labeled(X, lengths)
        found = []
        for first, last in zip(frames.offsets[:-1], frames.offsets[1:], strict=True):
            starts = np.flatnonzero(begins[first:last])
            ends = [*starts[1:].tolist(), int(last - first)]
            labels = self.classes_[numbers[first + starts]].tolist()
            found.append([*map(Segment, labels, starts.tolist(), ends)])
        return found

    def score(self, X: Any, y: Any, *, lengths: Any = None, sample_weight: Any = None) -> float:
        """Return the share of frames whose label is right, with the weights of their sequences."""
        frames, numbers, _ = self._labeled(X, lengths)
        if not len(numbers):
            raise ValueError("there is no frame to score")
        return frames.share_of(self.classes_[numbers] == read_labels(y, frames), sample_weight)

    def _labeled(self, X: Any, lengths: Any) -> tuple[Tokens, NDArray[np.int32], NDArray[np.bool_]]:
        check_is_fitted(self)
        frames = self._frames(X, lengths, reset=False)
        if not len(frames.lengths):
            return frames, np.empty(0, dtype=np.int32), np.empty(0, dtype=np.bool_)
        scaled = self._scaled(frames.X)
        labels, begins = label_frames(
            self.hmms_, self.coef_, scaled, frames.offsets, n_threads=threads_of(self.n_jobs)
        )
        return frames, labels, begins
