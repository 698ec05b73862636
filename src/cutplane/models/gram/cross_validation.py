"""Kernel machines that choose gamma and lam by cross-validation, from one matrix.

The kernels of all gammas are functions of one matrix of squared distances, or of products, which is
computed once. Folds are rows and columns of it, and for each fold and gamma one path of fits leads
from the largest lam to the smallest, each starting with the planes of the one before.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.estimators.callbacks import Attributes
from cutplane.estimators.cross_validation import (
    Fold,
    FoldFits,
    Search,
    cross_validate,
    fits_of,
    score_on,
    scorer_and_splits,
)
from cutplane.estimators.description import look_up, threads_of
from cutplane.estimators.estimator import estimator
from cutplane.estimators.fit import Examples, Plan, fit_plan
from cutplane.estimators.lams import RULES, decreasing, lams_to_try
from cutplane.models.gram.functions import Kernel, kernel_matrix, transformed
from cutplane.models.gram.model import (
    KernelClassifier,
    KernelExamples,
    KernelModel,
    KernelRegressor,
)
from cutplane.models.gram.rows import KernelRows, KernelSource
from cutplane.regularizers import KernelNorm

_N_LAMS = 10
_N_GAMMAS = 5
# From one gamma to the next: lengths that differ by a factor of two.
_STEP = 4.0


@estimator
class ChoosesKernel(KernelModel):
    """A kernel machine that finds gamma and lam by cross-validation before it is fitted.

    Parameters
    ----------
    gammas : int or array-like, default=5
        The gammas to try; or how many, each four times the one before, with "scale" in the middle.
        Kernels without a gamma have nothing to try.
    lams : int or array-like, default=10
        The lams to try, in any order; or how many, over four decades, from one for which the
        function is nearly zero. They are the same for all gammas.
    cv : int, splitter or iterable of splits, optional
        As in scikit-learn; by default 5 folds, stratified for classes.
    scoring : str or callable, optional
        As in scikit-learn; by default the estimator's own score. If there are sample weights it is
        given those of the test part.
    rule : {"best", "one_standard_error"}, default="best"
        Take the lam of the best mean score, or the largest that is within one standard error of it,
        for the gamma of the best mean score.
    max_iter : int or None, default=1000
        Limit on iterations, for each gamma and lam.
    verbose : int, default=0
        Print the progress of the last fit, to all data, if positive.
    callbacks : sequence of callables, default=()
        As in the estimator without cross-validation; they concern the last fit, to all data.

    Attributes
    ----------
    gamma_, lam_ : float
        Those that were chosen; of equally good ones the smallest gamma and the largest lam.
    gammas_ : ndarray of shape (n_gammas,)
        The gammas that were tried, increasing.
    lams_ : ndarray of shape (n_lams,)
        The lams that were tried, decreasing.
    all_scores_ : ndarray of shape (n_gammas, n_folds, n_lams)
    scores_ : ndarray of shape (n_folds, n_lams)
        Those of the gamma that was chosen.
    path_certificates_ : list of Certificate
        What is proven of the folds' fits with that gamma for each lam, in the mean.
    """

    gammas: Any = None
    lams: Any = None
    cv: Any = None
    scoring: Any = None
    rule: str = "best"
    # What is found by cross-validation is no parameter, and landmarks would have no matrix.
    gamma: ClassVar[str] = "scale"  # type: ignore[misc]
    lam: ClassVar[None] = None  # type: ignore[misc]
    C: ClassVar[None] = None  # type: ignore[misc]
    warm_start: ClassVar[bool] = False  # type: ignore[misc]
    landmarks: ClassVar[None] = None  # type: ignore[misc]
    random_state: ClassVar[int] = 0  # type: ignore[misc]

    def _unused(self) -> dict[str, str]:
        unused = super()._unused()
        if "gamma" in unused:
            unused["gammas"] = unused.pop("gamma")
        return unused

    def _fit(self, examples: Examples) -> Self:
        look_up("rule", self.rule, dict.fromkeys(RULES))
        used = np.flatnonzero(examples.weights > 0.0)
        X = examples.X
        X = X[np.ix_(used, used)] if self._precomputed else X[used]
        n_threads = threads_of(self.n_jobs)
        kernels = self._kernels(X, examples.weights[used])
        base = kernel_matrix(kernels[0].base(), X, n_threads=n_threads)
        search = self._search(examples, used, kernels, base, X)
        self.gammas_ = np.array([kernel.gamma for kernel in kernels])
        self.all_scores_ = search.all_scores
        search.leave(self)
        kernel = kernels[search.setting]
        rows = self._rows_of(kernel, base, np.arange(len(used)), X)
        del base
        known = KernelExamples(**vars(_only(examples, used, X)), kernel=kernel, rows=rows)
        plan = self._plan(known)

        def model(coef: Matrix, intercept: NDArray[np.float64]) -> Attributes:
            """Return attributes that number all examples, not only those that have a weight."""
            found = plan.model(coef, intercept)
            own = {"support_": used[found["support_"]], "n_examples_": len(examples.weights)}
            return {**found, **own}

        betas = search.mean_start((len(plan.risks), len(used)))
        final = replace(
            plan,
            examples=examples,
            model=model,
            regularizer=KernelNorm(search.lam),
            starts=betas and [np.concatenate([beta, np.zeros(len(beta))]) for beta in betas],
            evaluations=search.evaluations,
            certificates=search.certificates,
            part="final",
        )
        fit_plan(self, final)
        return self

    def _search(
        self,
        examples: Examples,
        used: NDArray[np.intp],
        kernels: Sequence[Kernel],
        base: NDArray[Any],
        X: Any,
    ) -> Search:
        """Fit a path of lams for each kernel and fold."""
        scorer, splits = scorer_and_splits(self, examples)
        places = np.full(len(examples.weights), -1)
        places[used] = np.arange(len(used))
        folds = [
            (train[train >= 0], test[test >= 0])
            for train, test in ((places[one], places[other]) for one, other in splits)
        ]
        weighted = not (examples.weights == 1.0).all()

        def fold_plan(kernel: Kernel, train: NDArray[np.intp]) -> tuple[KernelModel, Plan]:
            """Return a copy to fit to a training part, with its kernels given, and how."""
            model = copy(self)
            model.kernel = "precomputed"
            model.__dict__.pop("feature_names_in_", None)  # validated data has none
            model.n_features_in_ = len(train)
            own = vars(_only(examples, used[train], None))
            rows = self._rows_of(kernel, base, train, X)
            known = KernelExamples(**own, kernel=Kernel("precomputed"), rows=rows)
            return model, model._plan(known)

        plans = (fold_plan(kernel, folds[0][0])[1] for kernel in kernels)
        risks = (risk for plan in plans for risk in plan.risks)
        lams = lams_to_try(self.lams, risks, _N_LAMS, like=KernelNorm(1.0))

        def fit_fold(g: int, f: int, limit: float | None) -> FoldFits:
            train, test = folds[f]
            model, plan = fold_plan(kernels[g], train)
            between = transformed(kernels[g], base, test, train, n_threads=threads_of(self.n_jobs))
            held_out = between, examples.y[used][test], examples.weights[used][test]
            fold = Fold(model, plan, *held_out, score_on(*held_out, scorer, weighted=weighted))
            found = fits_of(fold, lams, time_limit=limit, part=f"gamma-{g}/fold-{f}")
            coefs = np.zeros((len(lams), len(plan.risks), len(base)))
            coefs[:, :, train] = np.array(found.coefs)[:, :, : len(train)]
            return found._replace(coefs=coefs)

        return cross_validate(
            *(fit_fold, lams, self.rule, len(folds)),
            time_limit=self.time_limit,
            begin=examples.begin,
            n_settings=len(kernels),
        )

    def _kernels(self, X: Any, weights: Vector) -> list[Kernel]:
        """Return the kernels to try, by increasing gamma."""
        middle = self._kernel(X, weights)
        if middle.name not in ("rbf", "polynomial"):
            return [middle]
        if self.gammas is None or isinstance(self.gammas, int | np.integer):
            number = _N_GAMMAS if self.gammas is None else int(self.gammas)
            if number < 1 or isinstance(self.gammas, bool):
                raise ValueError(f"gammas must be numbers, or how many, got {self.gammas!r}")
            gammas = middle.gamma * _STEP ** (np.arange(number) - (number - 1) // 2)
        else:
            try:
                gammas = decreasing(self.gammas)[::-1]
            except ValueError:
                raise ValueError(
                    f"gammas must be positive numbers, or how many, got {self.gammas!r}"
                ) from None
        return [replace(middle, gamma=float(gamma)) for gamma in gammas]

    def _rows_of(
        self, kernel: Kernel, base: NDArray[Any], places: NDArray[np.intp], X: Any
    ) -> KernelRows:
        threads = threads_of(self.n_jobs)
        return KernelRows.of_matrix(
            transformed(kernel, base, places, places, n_threads=threads),
            roundings=kernel.roundings_of_base,
            source=KernelSource(kernel, X, places, threads),
            n_threads=threads,
        )


def _only(examples: Examples, places: NDArray[np.intp], X: Any) -> Examples:
    """Return some of the examples, with these features."""
    return replace(examples, X=X, y=examples.y[places], weights=examples.weights[places])


@estimator
class KernelClassifierCV(ChoosesKernel, KernelClassifier):
    """Kernel classifier that chooses gamma and lam by cross-validation, from one matrix.

    Squared distances (or products) of all examples are computed once; the kernels of all gammas and
    folds are made of them. For each fold and gamma there is one path of fits, largest lam first,
    each starting with the planes of the one before; then a fit to all data with the gamma and the
    lam of the best mean score. With more than two classes all have the same.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> import cutplane as cp
    >>> X, y = make_moons(200, noise=0.2, random_state=0)
    >>> model = cp.KernelClassifierCV(gammas=[0.01, 1.0], lams=[1e-1, 1e-3], cv=3).fit(X, y)
    >>> model.gamma_, model.lam_, model.all_scores_.shape
    (1.0, 0.001, (2, 3, 2))
    """

    description = replace(KernelClassifier.description, task=None, becomes="KernelClassifier")
    posterior: ClassVar[bool] = False  # type: ignore[misc]


@estimator
class KernelRegressorCV(ChoosesKernel, KernelRegressor):
    """Kernel regression that chooses gamma and lam by cross-validation, from one matrix.

    As `KernelClassifierCV` does for classes.

    Examples
    --------
    >>> import numpy as np
    >>> import cutplane as cp
    >>> x = np.linspace(0.0, 6.0, 100)[:, None]
    >>> model = cp.KernelRegressorCV("absolute", lams=[1e-2, 1e-4], cv=3).fit(x, np.sin(x[:, 0]))
    >>> model.lam_, len(model.gammas_)
    (0.0001, 5)
    """

    description = replace(KernelRegressor.description, task=None, becomes="KernelRegressor")
