"""Kernel classifiers and regressors, with a certificate: support vectors, Gaussian processes.

The model is ``f(x) = sum_i dual_coef_i k(x_i, x) + intercept``, a linear one in a space of features
that the kernel stands for. So everything but the products with the examples is that of
`cutplane.estimators.linear.LinearModel`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse
from scipy.special import expit
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from cutplane.compute.arrays import Matrix, Vector
from cutplane.data import ordered_scores
from cutplane.estimators.callbacks import Attributes
from cutplane.estimators.classifier import (
    ClassScores,
    class_weights,
    n_rows,
    one_against_rest,
    predict_log_proba,
    require_two_classes,
    targets_of,
    with_probabilities,
)
from cutplane.estimators.description import (
    STRENGTH,
    Count,
    Description,
    Layout,
    Positive,
    Targets,
    lam_of,
    look_up,
    threads_of,
)
from cutplane.estimators.estimator import by_parts, estimator, of_problems
from cutplane.estimators.fit import Examples, Plan, fit_plan
from cutplane.estimators.linear import FLOATS, LinearModel
from cutplane.estimators.regressor import NumberScores
from cutplane.losses import (
    CLASSIFICATION,
    NU_CLASSIFICATION,
    NU_REGRESSION,
    REGRESSION,
    Logistic,
    Loss,
    NuHinge,
)
from cutplane.models.gram.functions import KERNELS, Kernel, products_with
from cutplane.models.gram.newton import Posterior, mean_probability
from cutplane.models.gram.risk import KernelRisk
from cutplane.models.gram.rows import KernelRows
from cutplane.regularizers import KernelNorm
from cutplane.risks import ScoredRisk
from cutplane.solvers.registry import KERNEL_METHODS

# By how much rounding may change an example's own score, where the slope of its loss is one. With
# features that are not scaled, a run on a coarser matrix minimizes something else altogether: at
# 1e4, with the kernel "linear", 5e-5 where the least is 0.82.
_COARSE = 0.03

SAVED: dict[str, tuple[Any, Any]] = {
    **STRENGTH,
    "gamma_": (Positive | None, None),
    "n_examples_": (Count | None, None),
    "n_features_in_": (Count | None, None),
}
"""What model files keep of kernel machines besides arrays."""

kernel_description = partial(Description, methods=KERNEL_METHODS, spans_examples=True, saved=SAVED)


@dataclass(frozen=True, kw_only=True)
class KernelExamples(Examples):
    """Examples, all with a weight, whose kernels are known: ``X`` is for their support alone.

    Attributes
    ----------
    kernel : Kernel
    rows : KernelRows
    """

    kernel: Kernel
    rows: KernelRows


class Sample(NamedTuple):
    """The examples of a fit, with other weights; the ``used`` ones, which have any; a kernel."""

    examples: Examples
    weights: Vector
    used: NDArray[np.intp]
    X: Any
    kernel: Kernel


Expansion = tuple[NDArray[np.intp], Any, Matrix]
"""What functions are made of: numbers of examples, these, and their coefficients by rows."""


@estimator
class KernelModel(LinearModel):
    """A function in the span of the examples.

    Parameters
    ----------
    kernel : str or callable, default="rbf"
        "rbf", "polynomial", "linear" or "precomputed"; or a function from two matrices to the
        kernels of their rows. With "precomputed", ``fit`` takes the matrix of kernels between all
        training examples, and predictions take those of new examples with the training examples.
    gamma : float or "scale", default="scale"
        Of "rbf", ``exp(-gamma |x - y|^2)``, and "polynomial", ``(gamma x.y + coef0)^degree``.
        "scale" is ``1 / (n_features * variance of X)``.
    degree : int, default=3
        Of "polynomial".
    coef0 : float, default=1.0
        Of "polynomial".
    fit_intercept : bool, default=True
        Whether to fit an intercept. It is not regularized.
    landmarks : int, optional
        Look for the best function in the span of so many examples only: for data whose kernel
        matrix does not fit into memory. With the hinge loss these are the ones that a machine of
        three times as many leans on most, otherwise they are drawn at random. What is proven then
        holds for these functions.
    random_state : int or None, default=0
        Seed of the landmarks and their pilot.

    Attributes
    ----------
    support_ : ndarray of shape (n_support,)
        The numbers of the training examples that the model is made of.
    support_vectors_ : ndarray or sparse matrix of shape (n_support, n_features)
        These examples; nothing with a precomputed kernel.
    dual_coef_ : ndarray of shape (n_problems, n_support)
        Their coefficients, a row for two classes and for a regression, else one for each class.
    gamma_ : float
        The ``gamma`` that was used.
    n_examples_ : int
        How many training examples there were.
    landmark_loss_ : float
        Only with ``landmarks``: the share of the kernel's trace that their span does not reproduce,
        measured on the training examples; 0 would be no loss at all.
    """

    kernel: Any = "rbf"
    gamma: float | str = "scale"
    degree: int = 3
    coef0: float = 1.0
    fit_intercept: bool = True
    landmarks: int | None = None
    random_state: int | None = 0  # type: ignore[assignment]

    def _unused(self) -> dict[str, str]:
        unused = super()._unused()
        reason = f"with kernel={self.kernel!r}"
        if self.kernel not in ("rbf", "polynomial"):
            unused["gamma"] = reason
        if self.kernel != "polynomial":
            unused |= {"degree": reason, "coef0": reason}
        return unused

    def _examples(self, X: Any, y: Any, sample_weight: Any, **how: Any) -> Examples:
        return super()._examples(X, y, sample_weight, **{"accept_sparse": self._sparse, **how})

    @property
    def _sparse(self) -> Any:
        """Which sparse matrices it takes, as `validate_data` has it."""
        return False if self._precomputed or callable(self.kernel) else "csr"

    @property
    def _precomputed(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    def _kernel(self, X: Any = None, weights: Vector | None = None) -> Kernel:
        """Return the kernel for these examples, or the one that was fitted."""
        if callable(self.kernel):
            return Kernel("callable", function=self.kernel)
        look_up("kernel", self.kernel, dict.fromkeys(KERNELS))
        gamma = self.gamma_ if weights is None else self._gamma(X, weights)
        return Kernel(self.kernel, gamma, self.degree, float(self.coef0))

    def _gamma(self, X: Any, weights: Vector) -> float:
        if not isinstance(self.gamma, str):
            return float(self.gamma)
        if self.gamma != "scale":
            raise ValueError(f"gamma must be positive or 'scale', got {self.gamma!r}")
        if self._precomputed:
            return 1.0
        # The variance of all entries, each counted as often as its row's weight says.
        shares, columns = weights / weights.sum(), float(X.shape[1])
        if issparse(X):
            mean = float((shares @ X).sum()) / columns
            squares = float((shares @ X.astype(np.float64).power(2)).sum()) / columns
            variance = float(squares - mean * mean)
        else:
            mean = float(shares @ X.mean(axis=1, dtype=np.float64))
            deviations = np.asarray(X, dtype=np.float64) - mean
            variance = float(shares @ np.einsum("ij,ij->i", deviations, deviations)) / columns
        return 1.0 / (columns * variance) if variance > 0.0 else 1.0

    def _kernel_plan(
        self,
        examples: Examples,
        targets: Sequence[Vector],
        weights: Vector,
        *,
        varied: bool = True,
    ) -> Plan:
        """Return the plan to fit a function to each of the targets."""
        if not self.loss_function().convex:
            raise ValueError(f"kernels need a convex loss, {self.loss!r} is not")
        self.__dict__.pop("landmark_loss_", None)  # of an earlier fit
        used, X = np.flatnonzero(weights > 0.0), examples.X
        if len(used) < len(weights):
            X = X[np.ix_(used, used)] if self._precomputed else X[used]
        known = examples if isinstance(examples, KernelExamples) else None
        kernel = known.kernel if known else self._kernel(X, examples.weights[used])
        sample = Sample(examples, weights, used, X, kernel)
        if known:
            rows = known.rows
        else:
            from cutplane.models.gram.reduced import reduced_plan, tensor_plan

            make = tensor_plan if self.landmarks is None else reduced_plan
            plan = make(self, sample, targets, varied=varied)
            if plan is not None:
                return plan
            # Several problems together ask for too many rows: with rows on demand 12,000 digits
            # took 1.2 to 1.3 times as long, and satimage 1.5 times.
            total = float(weights.sum())
            rows = KernelRows(
                kernel,
                X,
                on_demand=len(targets) == 1,
                later=self.time_limit is not None,
                most_added=_COARSE * lam_of(self.lam, self.C, total) * total / float(weights.max()),
                n_threads=threads_of(self.n_jobs),
            )
        loss = self.loss_function()
        risks = [
            KernelRisk(
                rows, target[used], loss, weights=weights[used], intercept=self.fit_intercept
            )
            for target in targets
        ]

        def expansion(coef: Matrix) -> Expansion:
            beta = coef[:, : len(used)]
            # A posterior is one of all examples.
            all_count = bool(getattr(self, "posterior", False))
            support = np.flatnonzero((beta != 0.0).any(axis=0) | all_count)
            vectors = None if self._precomputed else X[support]
            return used[support], vectors, np.ascontiguousarray(beta[:, support])

        plan = self._plan_with(sample, risks, expansion, varied=varied)
        return replace(plan, starts=self._kernel_starts(used, len(weights), len(risks)))

    def _plan_with(
        self,
        sample: Sample,
        risks: Sequence[ScoredRisk],
        expansion: Callable[[Matrix], Expansion],
        *,
        varied: bool,
    ) -> Plan:
        """Return the plan to minimize these risks, whose solutions are functions."""

        def model(coef: Matrix, intercept: NDArray[np.float64]) -> Attributes:
            support, vectors, dual_coef = expansion(coef)
            return {
                "support_": support,
                "support_vectors_": vectors,
                "dual_coef_": dual_coef,
                "intercept_": float(intercept[0])
                if self.layout().intercepts is None
                else intercept,
                "gamma_": sample.kernel.gamma,
                "n_examples_": len(sample.weights),
            }

        examples = replace(sample.examples, weights=sample.weights)
        return replace(
            self._plan_of(examples, risks, varied=varied),
            model=model,
            advice="try a smaller lam, or another gamma",
        )

    def _regularizer(self, lam: float, n_parameters: int) -> KernelNorm:
        return KernelNorm(lam)

    def _kernel_starts(
        self, used: NDArray[np.intp], n_examples: int, n_problems: int
    ) -> list[Vector | None]:
        """Return where to start: at the last fit's function, if wanted, and if it has a place."""
        if not self.warm_start or getattr(self, "n_examples_", None) != n_examples:
            return [None] * n_problems
        if len(self.dual_coef_) != n_problems:
            return [None] * n_problems
        beta = np.zeros((n_problems, n_examples))
        beta[:, self.support_] = self.dual_coef_
        return [np.concatenate([row[used], np.zeros(len(used))]) for row in beta]

    def _products(self, X: Any) -> Any:
        """Return the values of the functions without intercepts, one column per problem."""
        X, support, n_threads = *self._with_support(X), threads_of(self.n_jobs)
        if self._precomputed:
            own = np.ascontiguousarray(X[:, self.support_])
            return ordered_scores(own, self.dual_coef_, n_threads=n_threads)
        return products_with(self._kernel(), X, support, self.dual_coef_, n_threads=n_threads)

    def _with_support(self, X: Any) -> tuple[Any, Any]:
        """Return validated examples, and those of the model: both dense, or both sparse."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse=self._sparse, dtype=FLOATS, reset=False)
        support = self.support_vectors_
        if issparse(X) != issparse(support):
            X, support = csr_array(X), csr_array(support)
        return X, support

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._precomputed
        tags.input_tags.sparse = bool(self._sparse)
        return tags


# Examples whose probabilities are computed together.
_ROWS = 512


@estimator
class KernelClassifier(ClassifierMixin, ClassScores, KernelModel):
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

    loss: str | Loss = field(default="hinge", kw_only=False)
    class_weight: Any = None
    posterior: bool = False
    smoothing: float = 0.5
    nu: float = 0.5
    predict_log_proba = predict_log_proba

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
        if not self.posterior:
            return self
        # The curvatures at the minimizer, and the likelihood of the labels.
        weights = plan.examples.weights[self.support_]
        matrix = self._kernel().between(self.support_vectors_, self.support_vectors_)
        share = expit(self.dual_coef_ @ matrix + self.intercept_[:, None])
        self._curvatures = weights * share * (1.0 - share)
        total = float(weights.sum())
        self._posteriors = self._made_posteriors(matrix, 1.0 / (self.lam_ * total))
        likelihoods = [
            -total * certificate.objective - float(np.log(posterior.factor.diagonal()).sum())
            for certificate, posterior in zip(
                of_problems(self, "certificate_"), self._posteriors, strict=True
            )
        ]
        several = len(likelihoods) > 1
        self.log_marginal_likelihood_ = np.array(likelihoods) if several else likelihoods[0]
        return self

    def _require_gaussian_process(self) -> None:
        if not isinstance(self.loss_function(), Logistic):
            raise ValueError(f"posterior=True needs loss='logistic', got {self.loss!r}")
        if self.landmarks is not None:
            raise ValueError("posterior=True is one of all examples: it takes no landmarks")
        if self._precomputed:
            raise ValueError(
                "posterior=True needs the kernel of new examples with themselves, which "
                "kernel='precomputed' does not tell"
            )

    def _made_posteriors(self, matrix: Matrix, scale: float) -> list[Posterior]:
        self.prior_scale_ = scale
        return [Posterior.of(matrix, curvatures, scale) for curvatures in self._curvatures]

    def _mean_probabilities(self, X: Any) -> Matrix:
        """Return the mean probability of each problem's positive class over its posterior."""
        scores, kernel, (X, support) = self._scores(X), self._kernel(), self._with_support(X)
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
        plan = self._kernel_plan(examples, targets_of(y, self.classes_), weights)
        advice = "try a smaller lam, another gamma, or class_weight='balanced'"
        if isinstance(self.loss_function(), NuHinge):
            advice = "try a larger nu"  # lam only scales the model
        return replace(plan, advice=advice)

    def layout(self) -> Layout:  # noqa: D102
        rows = n_rows(self.classes_)
        return super().layout()._replace(rows=rows, intercepts=rows, problems=rows)


@estimator
class KernelRegressor(NumberScores, KernelModel):
    """Kernel regression that minimizes ``lam/2 |f|^2 + mean loss`` over all functions.

    The functions are those of the kernel's space, of whatever dimension, and what is proven holds
    for all of them. With "epsilon_insensitive" it is scikit-learn's `SVR` with the same ``C``, with
    "squared" and without an intercept its `KernelRidge` with ``alpha = lam * n_samples``.

    Parameters
    ----------
    loss : str or Loss, default="squared"
        "squared", "absolute", "quantile", "epsilon_insensitive", "squared_epsilon_insensitive",
        "huber" or "poisson"; or "nu_insensitive", whose width follows from a share ``nu`` of the
        examples.
    quantile : float, default=0.5
        Which quantile the loss "quantile" fits.
    delta : float, default=1.35
        Residual from which on the loss "huber" is linear.
    epsilon : float, default=0.1
        Width of the zone without loss of "epsilon_insensitive" and "squared_epsilon_insensitive".
    nu : float, default=0.5
        With "nu_insensitive", the largest share of examples that are off by more than the width of
        the zone without loss.

    Attributes
    ----------
    intercept_ : float

    Examples
    --------
    >>> import numpy as np
    >>> import cutplane as cp
    >>> x = np.linspace(0.0, 6.0, 200)[:, None]
    >>> y = np.sin(x[:, 0]) + np.random.default_rng(0).normal(size=200) * 0.2
    >>> model = cp.KernelRegressor("quantile", quantile=0.9, lam=1e-4).fit(x, y)
    >>> 0.85 <= (y <= model.predict(x)).mean() <= 0.95
    np.True_
    """

    description = kernel_description(
        task="kernel-regression",
        targets=Targets.NUMBERS,
        losses=REGRESSION | NU_REGRESSION,
    )

    loss: str | Loss = field(default="squared", kw_only=False)
    quantile: float = 0.5
    delta: float = 1.35
    epsilon: float = 0.1
    nu: float = 0.5

    @by_parts
    def predict(self, X: Any) -> Any:
        """Return the prediction for each example."""
        return self.loss_function().predict(self._scores(X)[:, 0])

    def _plan(self, examples: Examples) -> Plan:
        y = np.asarray(examples.y, dtype=np.float64)
        return self._kernel_plan(examples, [y], examples.weights, varied=bool(np.ptp(y) > 0.0))
