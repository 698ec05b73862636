"""Kernel machines that choose gamma and lam by cross-validation, from one matrix.

The kernels of all gammas are functions of one matrix of squared distances, or of products, which is
computed once. Folds are rows and columns of it, and for each fold and gamma one path of fits leads
from the largest lam to the smallest, each starting with the planes of the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from itertools import chain
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector
from cutplane.core.certificate import Certificate
from cutplane.estimators.estimator import estimator
from cutplane.estimators.fit import Examples, Plan, fit_plan, share_of_time
from cutplane.estimators.lams.along import all_along
from cutplane.estimators.lams.grid import RULES, chosen_lam, decreasing, lams_to_try
from cutplane.estimators.parameters import look_up, threads_of
from cutplane.models.gram.classifier import KernelClassifier
from cutplane.models.gram.functions import Kernel
from cutplane.models.gram.matrix import kernel_matrix, transformed
from cutplane.models.gram.model import KernelExamples, KernelModel
from cutplane.models.gram.regressor import KernelRegressor
from cutplane.models.gram.rows import KernelRows, KernelSource
from cutplane.regularizers import KernelNorm
from cutplane.report.words import mean_certificate

_N_LAMS = 10
_N_GAMMAS = 5
# From one gamma to the next: lengths that differ by a factor of two.
_STEP = 4.0


class _Fold(NamedTuple):
    """A fold: its examples by their places in the matrix, and what it is fitted to."""

    train: NDArray[np.intp]
    test: NDArray[np.intp]
    examples: Examples  # those to fit to, without X
    score: Callable[..., float]  # from a model and the kernels of the test part


class _Path(NamedTuple):
    """What the fits of a fold with one gamma leave, for each lam."""

    scores: Vector
    coefs: NDArray[np.float64]  # lams x problems x all examples
    certificates: list[list[Certificate]]
    evaluations: int


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
    random_features: ClassVar[None] = None  # type: ignore[misc]
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
        kernels = self._kernels(X, examples.weights[used])
        base = kernel_matrix(kernels[0].base(), X, n_threads=threads_of(self.n_jobs))
        paths = self._search(examples, used, kernels, base, X)
        kernel, chosen, by_fold = self._choose(kernels, paths)
        rows = self._rows_of(kernel, base, np.arange(len(used)), X)
        del base
        known = KernelExamples(**vars(_only(examples, used, X)), kernel=kernel, rows=rows)
        plan = self._plan(known)
        final = replace(
            plan,
            examples=examples,
            model=lambda coef, intercept: _placed(plan.model(coef, intercept), used, examples),
            regularizer=KernelNorm(float(self.lams_[chosen])),
            starts=_mean_starts([path.coefs[chosen] for path in by_fold], len(plan.risks)),
            evaluations=sum(path.evaluations for path in chain(*paths)),
            certificates=[each for path in chain(*paths) for each in chain(*path.certificates)],
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
    ) -> list[list[_Path]]:
        """Return the paths of all kernels, one for each fold."""
        folds = self._folds(examples, used)
        plans = (self._fold_plan(folds[0], kernel, base, X)[1] for kernel in kernels)
        risks = (risk for plan in plans for risk in plan.risks)
        self.lams_ = lams_to_try(self.lams, risks, _N_LAMS, like=KernelNorm(1.0))
        paths: list[list[_Path]] = []
        n_left = len(kernels) * len(folds) + 1  # the last fit counts as one more
        for g, kernel in enumerate(kernels):
            paths.append([])
            for f, fold in enumerate(folds):
                limit = share_of_time(self.time_limit, examples.begin, n_left)
                paths[g].append(self._path(fold, kernel, base, X, limit, f"gamma-{g}/fold-{f}"))
                n_left -= 1
        return paths

    def _choose(
        self, kernels: Sequence[Kernel], paths: list[list[_Path]]
    ) -> tuple[Kernel, int, list[_Path]]:
        """Return the best kernel, which lam to take, and the paths of that kernel."""
        scores = np.array([[path.scores for path in of] for of in paths])
        best = int(scores.mean(axis=1).max(axis=1).argmax())
        chosen = chosen_lam(scores[best], self.rule)
        self.gammas_ = np.array([kernel.gamma for kernel in kernels])
        self.all_scores_, self.scores_ = scores, scores[best]
        by_lam = zip(*(path.certificates for path in paths[best]), strict=True)
        self.path_certificates_ = [mean_certificate([*chain(*found)]) for found in by_lam]
        return kernels[best], chosen, paths[best]

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

    def _folds(self, examples: Examples, used: NDArray[np.intp]) -> list[_Fold]:
        # Imported here: few programs cross-validate, and these take a third of a second.
        from sklearn.metrics import check_scoring
        from sklearn.model_selection import check_cv

        scorer = check_scoring(self, scoring=self.scoring)
        cv = check_cv(
            self.cv, examples.y, classifier=self.description.loss_task == "classification"
        )
        places = np.full(len(examples.weights), -1)
        places[used] = np.arange(len(used))
        folds = []
        for parts in cv.split(examples.X, examples.y):
            train, test = (of[of >= 0] for of in (places[part] for part in parts))
            y, weights = examples.y[used][test], examples.weights[used][test]
            weighted = {} if (examples.weights == 1.0).all() else {"sample_weight": weights}

            def score(
                model: Any, kernels: Any, y: Any = y, weighted: dict[str, Vector] = weighted
            ) -> float:
                return float(scorer(model, kernels, y, **weighted))

            folds.append(_Fold(train, test, _only(examples, used[train], None), score))
        return folds

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

    def _fold_plan(
        self, fold: _Fold, kernel: Kernel, base: NDArray[Any], X: Any
    ) -> tuple[Self, Plan]:
        """Return a copy to fit to the training part of a fold, with its kernels given, and how."""
        model = copy(self)
        model.kernel = "precomputed"
        model.__dict__.pop("feature_names_in_", None)  # validated data has none
        model.n_features_in_ = len(fold.train)
        rows = self._rows_of(kernel, base, fold.train, X)
        known = KernelExamples(**vars(fold.examples), kernel=Kernel("precomputed"), rows=rows)
        return model, model._plan(known)

    def _path(
        self,
        fold: _Fold,
        kernel: Kernel,
        base: NDArray[Any],
        X: Any,
        time_limit: float | None,
        part: str,
    ) -> _Path:
        """Fit a path to the training part of a fold, and score it on the test part."""
        lams = self.lams_
        model, plan = self._fold_plan(fold, kernel, base, X)
        found = all_along(model, plan.risks, lams, time_limit=time_limit, part=part)
        kernels = transformed(
            kernel, base, fold.test, fold.train, n_threads=threads_of(self.n_jobs)
        )
        scores = np.zeros(len(lams))
        for i in range(len(lams)):
            fitted = copy(model)
            fitted.__dict__.update(plan.model(found.parameters[i], found.intercepts[i]))
            scores[i] = fold.score(fitted, kernels)
        coefs = np.zeros((len(lams), len(plan.risks), len(base)))
        coefs[:, :, fold.train] = found.parameters[:, :, : len(fold.train)]
        return _Path(scores, coefs, found.certificates, found.evaluations)


def _only(examples: Examples, places: NDArray[np.intp], X: Any) -> Examples:
    """Return some of the examples, with these features."""
    return replace(examples, X=X, y=examples.y[places], weights=examples.weights[places])


def _placed(attributes: Any, used: NDArray[np.intp], examples: Examples) -> Any:
    """Return fitted attributes that number all examples, not only those that have a weight."""
    return attributes | {
        "support_": used[attributes["support_"]],
        "n_examples_": len(examples.weights),
    }


def _mean_starts(coefs: Sequence[Any], n_problems: int) -> list[Vector | None]:
    """Return where to start each problem: at the mean of the folds that have as many."""
    complete = [of for of in coefs if len(of) == n_problems]
    if not complete:
        return [None] * n_problems
    mean = np.mean(complete, axis=0)
    return [np.concatenate([beta, np.zeros(len(beta))]) for beta in mean]


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
