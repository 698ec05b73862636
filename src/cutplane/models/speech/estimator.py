"""Hidden Markov models that classify sequences of vectors, or label their frames."""

from __future__ import annotations

from copy import copy
from dataclasses import field
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from cutplane.compute.arrays import Matrix, Vector, require_in_memory
from cutplane.estimators.callbacks import Attributes
from cutplane.estimators.classifier import require_two_classes
from cutplane.estimators.description import (
    Description,
    Measures,
    Reads,
    Targets,
    check_parameters,
    look_up,
    strength_of,
    threads_of,
    weights_of,
)
from cutplane.estimators.estimator import Estimator, Strength, estimator
from cutplane.estimators.fit import Examples, Plan, fit_plan, fitting
from cutplane.models.speech.model import (
    Covariance,
    GaussianHMMs,
    Topology,
    label_frames,
    score_classes,
)
from cutplane.models.tagging.tokens import Tokens, numbered, read_labels, read_tokens
from cutplane.regularizers import L2
from cutplane.solvers.bundle import nbm, nrbm
from cutplane.solvers.registry import METHODS, Methods

TOPOLOGIES = {topology.value: topology for topology in Topology}
COVARIANCES = {covariance.value: covariance for covariance in Covariance}

HMM_METHODS: Methods = {
    "auto": METHODS["auto"],
    "nrbm": lambda problem: nrbm(),
    "nbm": lambda problem: nbm(),
}
"""The risk is not convex, so these are all."""

hmm_description = partial(Description, reads=Reads.FRAMES, only_loss="margin", methods=HMM_METHODS)


@estimator
class HMMModel(Estimator):
    """Hidden Markov models with Gaussian mixtures, one for each class.

    Parameters
    ----------
    n_states : int, default=5
        Hidden states of a class.
    n_components : int, default=1
        Gaussians of a state.
    topology : {"left-to-right", "ergodic"}, default="left-to-right"
        Left to right, a path begins in the first state, stays, goes on by one state or skips one,
        and may end in any state. In an ergodic model any state may follow any.
    covariance : {"diagonal", "shared", "full"}, default="diagonal"
        Of the Gaussians: a diagonal each, one diagonal for all, or a matrix each.
    lam : float, default=1.0
        Strength of the regularizer, which holds the models near those of maximum likelihood.
    margin : float, default=10.0
        What a wrong class must score less than the right one, in logarithms of densities.
    likelihood_iter : int, default=10
        Iterations of expectation maximization at most, after four of segmental k-means.
    variance_floor : float, default=0.01
        Variances of maximum likelihood are at least this share of those of all frames.
    method : {"auto", "nrbm", "nbm"} or Method, default="auto"
        How to minimize a risk that is not convex.
    warm_start : bool, default=False
        Start the margin fit at the parameters of the last one, if the shapes are the same, and not
        at maximum likelihood, which stays the center of the regularizer.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    coef_ : ndarray of shape (n_parameters,)
        All parameters, for frames that are centered and scaled; ``hmms_.split(coef_)`` names them.
    likelihood_coef_ : ndarray of shape (n_parameters,)
        Those of maximum likelihood.
    hmms_ : GaussianHMMs
        The shape of the models.
    center_, scale_ : ndarray of shape (n_features,)
        Mean and standard deviation of the training frames.
    means_ : ndarray of shape (n_classes, n_states, n_components, n_features)
        Of the Gaussians, in the units of the frames.
    sds_ : ndarray of the same shape
        Their standard deviations; with full covariances, of a feature given those before it.
    n_features_in_ : int
    """

    n_states: int = field(default=5, kw_only=False)
    n_components: int = 1
    topology: str = "left-to-right"
    covariance: str = "diagonal"
    lam: Strength = 1.0
    C: ClassVar[None] = None  # type: ignore[misc]
    margin: float = 10.0
    likelihood_iter: int = 10
    variance_floor: float = 0.01

    def maximum_likelihood(self) -> Self:
        """Return the models of maximum likelihood, which the margin fit began with."""
        check_is_fitted(self)
        other = copy(self)
        other.coef_ = self.likelihood_coef_
        return other

    @property
    def means_(self) -> NDArray[np.float64]:
        """Means of the Gaussians."""
        means = np.moveaxis(self.hmms_.split(self.coef_)["means"], 0, 2)
        return np.asarray(self.center_ + self.scale_ * means)

    @property
    def sds_(self) -> NDArray[np.float64]:
        """Standard deviations of the Gaussians."""
        log_sds = self.hmms_.split(self.coef_)["log_sds"]
        spread = np.moveaxis(np.broadcast_to(log_sds, self.hmms_.shapes["means"]), 0, 2)
        return np.asarray(self.scale_ * np.exp(spread))

    def shape_of(self, n_classes: int, n_features: int) -> GaussianHMMs:
        """Return the shape of the models that the parameters ask for."""
        return GaussianHMMs(
            n_classes,
            self.n_states,
            self.n_components,
            n_features,
            look_up("topology", self.topology, TOPOLOGIES),
            look_up("covariance", self.covariance, COVARIANCES),
            segments=self.description.targets is Targets.TAGS,  # which follow each other
        )

    def _frames(self, X: Any, lengths: Any, *, reset: bool) -> Tokens:
        """Return the frames of a user's sequences, found to be fit for use."""
        require_in_memory(type(self).__name__, X)
        tokens = read_tokens(X, lengths)
        if tokens.named:
            raise ValueError("frames are vectors of numbers, these have names")
        if not len(tokens.lengths):
            if reset:
                raise ValueError("there is no sequence to learn from: X is empty")
            return tokens._replace(X=np.empty((0, self.n_features_in_)))
        if not tokens.lengths.all():
            raise ValueError(f"sequence {tokens.lengths.argmin()} has no frames")
        return tokens._replace(X=validate_data(self, tokens.X, dtype=np.float64, reset=reset))

    def _scaled(self, X: Matrix) -> Matrix:
        return np.ascontiguousarray((X - self.center_) / self.scale_)

    def _fit(
        self,
        frames: Tokens,
        y: NDArray[np.int32],
        classes: NDArray[Any],
        weights: Vector,
        examples: Examples,
    ) -> Self:
        """Fit by maximum likelihood, then by the margin; ``y`` has numbers of classes."""
        from cutplane.models.speech.estimation import Likelihood
        from cutplane.models.speech.risk import HMMRisk

        counted = np.repeat(weights, frames.lengths)
        self.center_ = np.average(frames.X, axis=0, weights=counted)
        spread = np.sqrt(np.average((frames.X - self.center_) ** 2, axis=0, weights=counted))
        # Features whose spread is rounding never change.
        self.scale_ = np.where(spread > 1e-12 * np.abs(self.center_), spread, 1.0)
        hmms = self.shape_of(len(classes), frames.X.shape[1])
        scaled, n_threads = self._scaled(frames.X), threads_of(self.n_jobs)
        likelihood = Likelihood(n_iterations=self.likelihood_iter, floor=self.variance_floor)
        center, _ = likelihood.fit(hmms, scaled, frames.offsets, y, weights, n_threads=n_threads)
        risk = HMMRisk(
            hmms,
            scaled,
            frames.offsets,
            y,
            margin=self.margin,
            weights=weights,
            n_threads=n_threads,
        )
        start = center
        if self.warm_start and getattr(self, "hmms_", None) == hmms:
            start = self.coef_

        def model(coef: Matrix, intercept: NDArray[np.float64]) -> Attributes:
            return {
                "coef_": coef[0],
                "likelihood_coef_": center,
                "hmms_": hmms,
                "classes_": classes,
            }

        plan = Plan(
            examples=examples,
            risks=[risk],
            regularizer=L2(
                strength_of(self.lam), center=center, weights=hmms.scale_free_weights(center)
            ),
            model=model,
            starts=[start],
        )
        fit_plan(self, plan)
        return self


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

    description = hmm_description(task="hmm-classification", targets=Targets.CLASSES)

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
        classes, numbers = numbered(labels, weights > 0.0)
        require_two_classes(classes)
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
        task="hmm-tagging", targets=Targets.TAGS, measures=Measures.SEGMENTS
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
        weights = np.array(weights_of(sample_weight, len(frames.lengths)))
        classes, numbers = numbered(labels, np.repeat(weights > 0.0, frames.lengths))
        if not len(classes):
            raise ValueError("there is no frame that counts: all sequences weigh 0")
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
        for first, last in pairwise(frames.offsets):
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
