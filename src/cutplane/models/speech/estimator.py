"""What classifier and tagger have in common: frames, maximum likelihood, the margin risk."""

from __future__ import annotations

from copy import copy
from dataclasses import field
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.collections import require_in_memory
from cutplane.estimators.callbacks import Attributes
from cutplane.estimators.description import Description, Reads, Targets
from cutplane.estimators.estimator import Estimator, Strength, estimator
from cutplane.estimators.fit import Examples, Plan, fit_plan
from cutplane.estimators.parameters import look_up, strength_of, threads_of
from cutplane.models.sequences.tokens import Tokens, read_tokens
from cutplane.models.speech.estimation import Likelihood
from cutplane.models.speech.model import Covariance, GaussianHMMs, Topology
from cutplane.regularizers import L2
from cutplane.risks import HMMRisk
from cutplane.solvers.automatic import automatic
from cutplane.solvers.bundle import nbm, nrbm
from cutplane.solvers.registry import Methods

TOPOLOGIES = {topology.value: topology for topology in Topology}
COVARIANCES = {covariance.value: covariance for covariance in Covariance}

HMM_METHODS: Methods = {
    "auto": automatic,
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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
