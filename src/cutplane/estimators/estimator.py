"""What all estimators share: parameters, and how a class with more of them is made.

An estimator is a dataclass: scikit-learn reads the signature of the constructor that the fields
make. All parameters are keyword-only, but for a first one that says ``kw_only=False``. A class that
declares a field of its base as a ``ClassVar`` takes that parameter away.

Predictions for Dask collections are made part by part, where the rows are. Dask is imported only in
`cutplane.cluster`, when a collection is given.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Literal, ParamSpec, TypeVar, dataclass_transform

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from cutplane.compute.arrays import is_dask
from cutplane.estimators.callbacks import CallbackSupportMixin
from cutplane.estimators.cautions import InconsistentVersionWarning
from cutplane.estimators.description import Description, complete_docstring
from cutplane.estimators.lams import CrossValidation, standard_errors

if TYPE_CHECKING:
    from cutplane.report.page import Report

T = TypeVar("T")

Strength = float | CrossValidation | Literal["cv"]
"""Of a regularizer: a number, or how to choose one."""

_VERSION = "_cutplane_version"


def _this_version() -> str:
    version: str = import_module("cutplane").__version__
    return version


@dataclass_transform(eq_default=False, kw_only_default=True, field_specifiers=(field,))
def estimator(of: type[T]) -> type[T]:
    """Make a class an estimator: its fields are parameters, its docstring has all of them."""
    made = dataclass(eq=False, repr=False, kw_only=True)(of)
    complete_docstring(made, inspect.signature(made).parameters)
    return made


@estimator
class Estimator(CallbackSupportMixin, BaseEstimator):
    """An estimator in scikit-learn's manner, whose fit ends with a certificate.

    Parameters
    ----------
    tol : float, default=1e-3
        The relative gap between objective and lower bound that is promised.
    max_iter : int or None, default=1000
        Limit on iterations.
    time_limit : float, optional
        Limit on seconds for the whole fit.
    method : str or Method, default="auto"
        How to minimize. "auto" takes what should be the fastest for these data, and logs its
        choice; "bmrm", "level" and others choose by name: see docs/choose-a-method.md.
    warm_start : bool, default=False
        Start from the coefficients of the previous fit.
    verbose : int, default=0
        Print the progress if positive.
    n_jobs : int, optional
        Number of threads; all cores by default (results do not depend on it).
    callbacks : sequence of callables, default=()
        Each is called with the solver's `State` after every iteration; one that returns true ends
        the fit with the best model so far. `Validation` scores it on other data.
    checkpoint : path or Checkpoint, optional
        A folder where the state of the fit is kept. The same fit again goes on from it, with the
        same bits; one to other data, or with other parameters, is refused.
    lam : float, "cv" or CrossValidation, optional
        Strength of the regularizer; 1e-4 unless ``C`` is given. "cv" chooses it by
        cross-validation, as `CrossValidation` says.
    C : float, optional
        The same in scikit-learn's terms: ``lam = 1 / (C * n_samples)``, or the sum of weights in
        place of ``n_samples``.

    Attributes
    ----------
    certificate_ : Certificate
        Objective, lower bound, gap and status. Where classes or labels are fitted one by one this
        is a list, and so are ``history_`` and ``method_``; ``n_iter_`` is an array.
    history_ : list of Record
        The bounds after every iteration.
    method_ : str
        The name of the method that was used.
    n_iter_ : int
    evaluations_ : int
        Evaluations of the risk, in all that was fitted.
    fit_seconds_ : float
    lam_ : float
        The strength of the regularizer that was used.
    lams_, scores_, path_certificates_
        Only if ``lam`` was chosen: the lams that were tried, decreasing; their scores, a row for
        each fold; and what is proven of their fits, in the mean over folds.
    """

    description: ClassVar[Description]

    tol: float = 1e-3
    max_iter: int | None = 1000
    time_limit: float | None = None
    method: Any = "auto"
    warm_start: bool = False
    verbose: int = 0
    n_jobs: int | None = None
    callbacks: Any = ()
    checkpoint: Any = None
    lam: Strength | None = None
    C: float | None = None

    def plot_path(self) -> Any:
        """Return a matplotlib figure of what was proven and scored for each lam that was tried.

        Only of a fit that has chosen its lam: with ``lam="cv"``, or of an estimator such as
        `LinearClassifierCV`. The scores have the standard error of their mean over the folds.

        Raises
        ------
        AttributeError
            If lam was not chosen by the fit.
        PlottingUnavailable
            If matplotlib is not installed.
        """
        if not hasattr(self, "path_certificates_"):
            raise AttributeError("lam was not chosen: fit with lam='cv' first")
        from cutplane.report.figures import draw_path

        return draw_path(
            self.lams_,
            self.path_certificates_,
            title=f"lam of {type(self).__name__}: {len(self.scores_)} folds",
            subtitle=f"lam = {self.lam_:.3g} of {len(self.lams_)}; bounds are means over the folds",
            tol=self.tol,
            scores=self.scores_.mean(axis=0),
            errors=standard_errors(self.scores_),
            chosen=self.lam_,
        )

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return state | {_VERSION: _this_version()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        made_by = state.pop(_VERSION, "(an early version)")
        if made_by != _this_version():
            warnings.warn(
                f"this {type(self).__name__} was pickled by cutplane {made_by}, and may not work "
                f"with {_this_version()}; model files (cutplane.save_model) stay readable",
                InconsistentVersionWarning,
                stacklevel=2,
            )
        super().__setstate__(state)

    def report(
        self, X: Any = None, y: Any = None, *, qid: Any = None, bootstrap: int = 0
    ) -> Report:
        """Return a page about the fitted model, and its predictions if data are given.

        Parameters
        ----------
        X, y : optional
            Data to measure predictions on, as ``fit`` takes them; not those of the fit, or the
            measures are too good.
        qid : array-like, optional
            For a ranker: the query of each document.
        bootstrap : int
            How many resamples to draw for intervals of the measures.

        Returns
        -------
        Report
            ``save(path)`` writes it as one HTML file; a notebook shows it.
        """
        from cutplane.estimators.report import report_of

        return report_of(self, X, y, qid=qid, bootstrap=bootstrap)


P = ParamSpec("P")


def for_collections(
    predicted: Callable[..., Any],
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator: for a collection, a method of predictions calls ``predicted`` instead.

    That gets the model, the name of the method, and what the method was called with.
    """

    def decorate(method: Callable[P, T]) -> Callable[P, T]:
        @wraps(method)
        def predict(*args: P.args, **kwargs: P.kwargs) -> Any:
            options: dict[str, Any] = dict(kwargs)
            model, X, *others = args if len(args) > 1 else (*args, options.pop("X", None))
            if not is_dask(X):
                return method(*args, **kwargs)
            check_is_fitted(model)
            return predicted(light(model), method.__name__, X, *others, **options)

        return predict

    return decorate


@for_collections
def by_parts(model: Any, method: str, X: Any) -> Any:
    """Let a method of predictions return a collection for a collection, part by part."""
    from cutplane.cluster.collections import predicted

    return predicted(model, method, X)


def of_problems(model: Any, name: str) -> list[Any]:
    """Return a fitted attribute of each problem that was fitted, as a list also if it was one."""
    found = getattr(model, name)
    return found if isinstance(model.certificate_, list) else [found]


def light(model: Any) -> Any:
    """Return the model without what predictions do not need, and workers need not get."""
    light = copy(model)
    for name in ("history_", "certificate_", "start_certificate_"):
        light.__dict__.pop(name, None)
    light.callbacks, light.checkpoint = (), None
    return light
