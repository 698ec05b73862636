"""What kernel classifiers and regressors share: the kernel, its matrix, and the support.

The model is ``f(x) = sum_i dual_coef_i k(x_i, x) + intercept``, a linear one in a space of features
that the kernel stands for. So everything but the products with the examples is that of
`cutplane.estimators.linear.model.LinearModel`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any

import numpy as np
import scipy.sparse
from msgspec import Meta
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from cutplane.compute.arrays import Matrix, Vector
from cutplane.core.protocols import Regularizer
from cutplane.data import ordered_scores
from cutplane.estimators.callbacks import Attributes
from cutplane.estimators.description import STRENGTH, Description, Positive
from cutplane.estimators.estimator import estimator
from cutplane.estimators.fit import Examples, Plan
from cutplane.estimators.linear.model import FLOATS, LinearModel
from cutplane.estimators.parameters import lam_of, look_up, threads_of
from cutplane.models.gram.features import wave_scores
from cutplane.models.gram.functions import KERNELS, Kernel
from cutplane.models.gram.matrix import products_with
from cutplane.models.gram.reduced import is_reduced, reduced_plan
from cutplane.models.gram.risk import KernelRisk
from cutplane.models.gram.rows import KernelRows
from cutplane.regularizers import KernelNorm
from cutplane.risks import ScoredRisk
from cutplane.solvers.registry import KERNEL_METHODS

# By how much rounding may change an example's own score, where the slope of its loss is one. With
# features that are not scaled, a run on a coarser matrix minimizes something else altogether: at
# 1e4, with the kernel "linear", 5e-5 where the least is 0.82.
_COARSE = 0.03

_Count = Annotated[int, Meta(ge=1, le=2**63 - 1)]
SAVED: dict[str, tuple[Any, Any]] = {
    **STRENGTH,
    "gamma_": (Positive | None, None),
    "n_examples_": (_Count | None, None),
    "n_features_in_": (_Count | None, None),
}
"""What model files keep of kernel machines besides arrays."""

OF_REDUCED = ("landmark_loss_", "frequencies_", "wave_coef_", "kernel_error_")
"""What only functions of fewer features have."""

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
    random_features : int, optional
        Look for the best function of so many random waves in place of the kernel "rbf", each a
        cosine and a sine: for the same purpose. What is proven then holds for these functions.
    random_state : int or None, default=0
        Seed of the landmarks and their pilot, or of the waves.

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
    frequencies_ : ndarray of shape (n_waves, n_features)
        Only with ``random_features``: the waves. The model then has no support.
    wave_coef_ : ndarray of shape (n_problems, 2 * n_waves)
        Only with ``random_features``: the coefficients of the cosine and the sine of each wave,
        over the root of the number of waves.
    kernel_error_ : float
        Only with ``random_features``: the root of the mean squared error with which the waves
        reproduce the kernel, measured on pairs of 500 training examples.
    """

    kernel: Any = "rbf"
    gamma: float | str = "scale"
    degree: int = 3
    coef0: float = 1.0
    fit_intercept: bool = True
    landmarks: int | None = None
    random_features: int | None = None
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
        sparse = False if self._precomputed or callable(self.kernel) else "csr"
        return super()._examples(X, y, sample_weight, **{"accept_sparse": sparse, **how})

    @property
    def _precomputed(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    def _kernel(self, X: Any = None, weights: Vector | None = None) -> Kernel:
        """Return the kernel for these examples, or the one that was fitted."""
        if callable(self.kernel):
            return Kernel("callable", function=self.kernel)
        look_up("kernel", self.kernel, dict.fromkeys(KERNELS))
        gamma = self.gamma_ if X is None else self._gamma(X, weights)
        return Kernel(self.kernel, gamma, self.degree, float(self.coef0))

    def _gamma(self, X: Any, weights: Vector | None) -> float:
        if not isinstance(self.gamma, str):
            return float(self.gamma)
        if self.gamma != "scale":
            raise ValueError(f"gamma must be positive or 'scale', got {self.gamma!r}")
        if self._precomputed:
            return 1.0
        variance = _variance(X, weights)
        return 1.0 / (float(X.shape[1]) * variance) if variance > 0.0 else 1.0

    def _risks_of(
        self, examples: Examples, targets: Sequence[Vector], weights: Vector
    ) -> tuple[list[KernelRisk], Callable[..., Attributes]]:
        """Return a risk for each target, and what makes fitted attributes of their minimizers."""
        used = np.flatnonzero(weights > 0.0)
        X, everyone = examples.X, len(used) == len(weights)
        if not everyone:
            X = X[np.ix_(used, used)] if self._precomputed else X[used]
        if isinstance(examples, KernelExamples):
            kernel, rows = examples.kernel, examples.rows
        else:
            kernel = self._kernel(X, examples.weights[used])
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

        def attributes(coef: Matrix, intercept: NDArray[np.float64]) -> Attributes:
            beta = coef[:, : len(used)]
            # A posterior is one of all examples.
            all_count = bool(getattr(self, "posterior", False))
            support = np.flatnonzero((beta != 0.0).any(axis=0) | all_count)
            return {
                "support_": used[support],
                "support_vectors_": None if self._precomputed else X[support],
                "dual_coef_": np.ascontiguousarray(beta[:, support]),
                "intercept_": intercept,
                "gamma_": kernel.gamma,
                "n_examples_": len(weights),
            }

        return risks, attributes

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
        for name in OF_REDUCED:  # of an earlier fit
            self.__dict__.pop(name, None)
        if is_reduced(self):
            return reduced_plan(self, examples, targets, weights, varied=varied)
        risks, attributes = self._risks_of(examples, targets, weights)
        starts = self._kernel_starts(np.flatnonzero(weights > 0.0), len(weights), len(risks))
        plan = self._plan_with(replace(examples, weights=weights), risks, attributes, varied=varied)
        return replace(plan, starts=starts)

    def _plan_with(
        self,
        examples: Examples,
        risks: Sequence[ScoredRisk],
        attributes: Callable[[Matrix, NDArray[np.float64]], Attributes],
        *,
        varied: bool,
    ) -> Plan:
        """Return the plan to minimize these risks, from whose solutions attributes are made."""
        return replace(
            self._plan_of(examples, risks, varied=varied),
            model=lambda coef, intercept: self._turned(attributes(coef, intercept)),
            advice="try a smaller lam, or another gamma",
        )

    def _regularizer(self, lam: float, n_parameters: int) -> Regularizer:
        return KernelNorm(lam)

    def _turned(self, attributes: Attributes) -> Attributes:
        """Return the attributes as the estimator shows them."""
        return attributes

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

    def _scores(self, X: Any) -> Any:
        scores = self._products(X)
        scores += np.atleast_1d(self.intercept_)
        return scores

    def _products(self, X: Any) -> Any:
        """Return the values of the functions without intercepts, one column per problem."""
        check_is_fitted(self)
        sparse = False if self._precomputed or callable(self.kernel) else "csr"
        X = validate_data(self, X, accept_sparse=sparse, dtype=FLOATS, reset=False)
        if self._precomputed:
            return ordered_scores(
                np.ascontiguousarray(X[:, self.support_]),
                self.dual_coef_,
                n_threads=threads_of(self.n_jobs),
            )
        if hasattr(self, "frequencies_"):
            return wave_scores(X, self.frequencies_, self.wave_coef_)
        support = self.support_vectors_
        if scipy.sparse.issparse(X) and not scipy.sparse.issparse(support):
            support = scipy.sparse.csr_array(support)
        elif scipy.sparse.issparse(support) and not scipy.sparse.issparse(X):
            X = scipy.sparse.csr_array(X)
        return products_with(
            self._kernel(), X, support, self.dual_coef_, n_threads=threads_of(self.n_jobs)
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._precomputed
        tags.input_tags.sparse = not (self._precomputed or callable(self.kernel))
        return tags


def _variance(X: Any, weights: Vector | None) -> float:
    """Return the variance of all entries, each counted as often as its row's weight says."""
    shares = np.full(X.shape[0], 1.0 / X.shape[0]) if weights is None else weights / weights.sum()
    columns = X.shape[1]
    if scipy.sparse.issparse(X):
        mean = float((shares @ X).sum()) / columns
        squares = float((shares @ X.astype(np.float64).power(2)).sum()) / float(columns)
        return float(squares - mean * mean)
    mean = float(shares @ X.mean(axis=1, dtype=np.float64))
    deviations = np.asarray(X, dtype=np.float64) - mean
    variance = shares @ np.einsum("ij,ij->i", deviations, deviations)
    return float(variance) / float(columns)
