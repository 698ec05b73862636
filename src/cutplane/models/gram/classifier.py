"""Kernel classification with a certificate: support vector machines, Gaussian processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import expit
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from cutplane.compute.arrays import Matrix, Vector
from cutplane.estimators.description import Layout, Positive, Targets
from cutplane.estimators.estimator import estimator
from cutplane.estimators.fit import Examples, Plan, fit_plan
from cutplane.estimators.linear.classes import (
    ClassScores,
    LogProbabilities,
    class_weights,
    n_rows,
    require_two_classes,
    with_probabilities,
)
from cutplane.estimators.linear.model import FLOATS
from cutplane.losses import CLASSIFICATION, NU_CLASSIFICATION, Logistic, NuHinge
from cutplane.models.gram.model import SAVED, KernelModel, kernel_description
from cutplane.models.gram.newton import Posterior, mean_probability
from cutplane.models.gram.reduced import is_reduced

# Examples whose probabilities are computed together.
_ROWS = 512


@estimator
class KernelClassifier(ClassifierMixin, ClassScores, LogProbabilities, KernelModel):
    """Kernel classifier that minimizes ``lam/2 |f|^2 + mean loss`` over all functions.

    The functions are those of the kernel's space, of whatever dimension, and what is proven holds
    for all of them. With the hinge loss it is the support vector machine of scikit-learn's `SVC`
    with the same ``C``; with the logistic loss, and without an intercept, the most likely function
    of a Gaussian process with the covariance ``k / (lam * n_samples)``.

    Parameters
    ----------
    loss : str or Loss, default="hinge"
        "hinge", "squared_hinge", "smooth_hinge", "logistic" or "exponential"; or "nu_hinge", whose
        margin follows from a share ``nu`` of the examples.
    class_weight : dict or "balanced", optional
        Weights of the classes, as in scikit-learn.
    posterior : bool, default=False
        With the logistic loss: whether `predict_proba` is the mean over the posterior of the
        Gaussian process, by Laplace's method, not the probability of the most likely function. It
        takes a float64 matrix of all examples for each class.
    smoothing : float, default=0.5
        Width of the rounded kink of "smooth_hinge".
    nu : float, default=0.5
        With "nu_hinge", the largest share of examples that are inside the margin. It is at most
        twice the share of the smaller class.

    Attributes
    ----------
    prior_scale_ : float
        Only with ``posterior``: ``1 / (lam * sum of weights)``, which times the kernel is the
        covariance of the Gaussian process.
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted. More than two are fitted each against the rest.
    intercept_ : ndarray of shape (1,) or (n_classes,)
    log_marginal_likelihood_ : float, or ndarray of shape (n_classes,)
        Only with ``posterior``, and not in model files: how likely the labels are under the
        Gaussian process, given the intercept. The higher the better, for choosing ``gamma`` and
        ``lam``.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> import cutplane as cp
    >>> X, y = make_moons(200, noise=0.1, random_state=0)
    >>> model = cp.KernelClassifier(gamma=2.0, C=1.0).fit(X, y)
    >>> model.certificate_.relative_gap <= 1e-3, model.score(X, y) > 0.98
    (True, True)
    """

    description = kernel_description(
        task="kernel-classification",
        targets=Targets.CLASSES,
        losses=CLASSIFICATION | NU_CLASSIFICATION,
        saved=SAVED | {"prior_scale_": (Positive | None, None)},
    )

    loss: Any = field(default="hinge", kw_only=False)
    class_weight: Any = None
    posterior: bool = False
    smoothing: float = 0.5
    nu: float = 0.5

    @with_probabilities
    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each class, for the losses that imply one.

        Those of more than two classes, each against the rest, are scaled to sum to one.
        """
        if not self.posterior:
            return one_against_rest(self.loss_function().probability(self._scores(X)))
        return one_against_rest(self._mean_probabilities(X))

    def _fit(self, examples: Examples) -> Self:
        plan = self._plan(examples)
        if self.posterior:
            self._require_gaussian_process()
        fit_plan(self, plan)
        for name in ("log_marginal_likelihood_", "_curvatures", "_posteriors"):
            self.__dict__.pop(name, None)  # of an earlier fit
        if self.posterior:
            self._set_posterior(plan.examples.weights[self.support_])
        return self

    def _require_gaussian_process(self) -> None:
        if not isinstance(self.loss_function(), Logistic):
            raise ValueError(f"posterior=True needs loss='logistic', got {self.loss!r}")
        if is_reduced(self):
            raise ValueError(
                "posterior=True is one of all examples: it takes no landmarks or random_features"
            )
        if self._precomputed:
            raise ValueError(
                "posterior=True needs the kernel of new examples with themselves, which "
                "kernel='precomputed' does not tell"
            )

    def _set_posterior(self, weights: Vector) -> None:
        """Keep the curvatures at the minimizer, and the likelihood of the labels."""
        matrix = self._kernel().between(self.support_vectors_, self.support_vectors_)
        scores = self.dual_coef_ @ matrix + self.intercept_[:, None]
        share = expit(scores)
        self._curvatures = weights * share * (1.0 - share)
        total = float(weights.sum())
        self._posteriors = self._made_posteriors(matrix, 1.0 / (self.lam_ * total))
        listed = self.certificate_ if isinstance(self.certificate_, list) else [self.certificate_]
        likelihoods = [
            -total * certificate.objective - posterior.half_log_determinant
            for certificate, posterior in zip(listed, self._posteriors, strict=True)
        ]
        several = len(likelihoods) > 1
        self.log_marginal_likelihood_ = np.array(likelihoods) if several else likelihoods[0]

    def _made_posteriors(self, matrix: Matrix, scale: float) -> list[Posterior]:
        self.prior_scale_ = scale
        return [Posterior.of(matrix, curvatures, scale) for curvatures in self._curvatures]

    def _mean_probabilities(self, X: Any) -> Matrix:
        """Return the mean probability of each problem's positive class over its posterior."""
        scores, kernel, support = self._scores(X), self._kernel(), self.support_vectors_
        X = validate_data(self, X, accept_sparse="csr", dtype=FLOATS, reset=False)
        if not isinstance(X, type(support)):
            X, support = csr_array(X), csr_array(support)
        out: Matrix = np.empty(scores.shape)
        for begin in range(0, len(out), _ROWS):
            rows = slice(begin, begin + _ROWS)
            kernels, own = kernel.between(X[rows], support), kernel.of_pairs(X[rows])
            for k, posterior in enumerate(self._posteriors):
                variances = posterior.variances(kernels, own)
                out[rows, k] = mean_probability(scores[rows, k], variances)
        return out

    def _plan(self, examples: Examples) -> Plan:
        y, weights = examples.y, examples.weights
        check_classification_targets(y)
        self.classes_ = np.unique(y[weights > 0.0])
        require_two_classes(self.classes_)
        if self.class_weight is not None:
            weights = weights * class_weights(self.class_weight, self.classes_, y, weights)
        plan = self._kernel_plan(examples, self._targets(y), weights)
        advice = "try a smaller lam, another gamma, or class_weight='balanced'"
        if isinstance(self.loss_function(), NuHinge):
            advice = "try a larger nu"  # lam only scales the model
        return replace(plan, advice=advice)

    def layout(self) -> Layout:  # noqa: D102
        rows = n_rows(self.classes_)
        return super().layout()._replace(rows=rows, intercepts=rows, problems=rows)

    def _targets(self, y: NDArray[Any]) -> Sequence[Vector]:
        """Return the targets of each problem: one for two classes, else each against the rest."""
        classes = self.classes_[1:] if len(self.classes_) == 2 else self.classes_
        return [np.where(y == positive, 1.0, -1.0) for positive in classes]


def one_against_rest(probability: Any) -> Any:
    """Return probabilities of all classes: those of two, or of each against the rest, scaled."""
    if probability.shape[1] == 1:
        return np.hstack([1.0 - probability, probability])
    total = probability.sum(axis=1, keepdims=True)
    equal = np.full_like(probability, 1.0 / probability.shape[1])
    return np.divide(probability, total, out=equal, where=total > 0.0)
