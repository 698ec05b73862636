"""What all estimators share: parameters, and how a class with more of them is made.

An estimator is a dataclass: scikit-learn reads the signature of the constructor that the fields
make. All parameters are keyword-only, but for a first one that says ``kw_only=False``. A class that
declares a field of its base as a ``ClassVar`` takes that parameter away.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar, dataclass_transform

from sklearn.base import BaseEstimator

from cutplane.estimators.callbacks import CallbackSupportMixin
from cutplane.estimators.description import Description
from cutplane.estimators.docstrings import complete_docstring

T = TypeVar("T")


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
        the fit with the best model so far.
    checkpoint : path or Checkpoint, optional
        A folder where the state of the fit is kept. The same fit again goes on from it, with the
        same bits; one to other data, or with other parameters, is refused.

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


@estimator
class Regularized(Estimator):
    """An estimator whose regularizer has a strength that the user chooses.

    Parameters
    ----------
    lam : float, optional
        Strength of the regularizer; 1e-4 unless ``C`` is given.
    C : float, optional
        The same in scikit-learn's terms: ``lam = 1 / (C * n_samples)``, or the sum of weights in
        place of ``n_samples``.
    """

    lam: float | None = None
    C: float | None = None
