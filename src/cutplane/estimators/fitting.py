"""What surrounds every fit: scikit-learn's callbacks, Ctrl-C, the choice of lam.

After Ctrl-C a fit on its own returns the best model so far, with a warning. Where scikit-learn or
joblib calls it, as a part of a search, a cross-validation or an ensemble, that would be half a fit
that counts as a whole one, and the search would go on. There KeyboardInterrupt is raised, and the
first Ctrl-C ends it all.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from cutplane.core.interrupts import held, interrupted_so_far
from cutplane.estimators.callbacks import with_callbacks
from cutplane.estimators.lams.choosing import choosing_lam

P = ParamSpec("P")
T = TypeVar("T")

# These fit one model, once, and hand it on: the best model so far is what their user wants too.
_PASS_IT_ON = ("sklearn.base", "sklearn.callback", "sklearn.pipeline", "sklearn.compose._target")


def fitting(fit: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function that fits an estimator its method ``fit``."""
    whole_fit: Callable[..., Any] = with_callbacks(interruptible(choosing_lam(fit)))
    return whole_fit


def interruptible(fit: Callable[P, T]) -> Callable[P, T]:
    """Let Ctrl-C wait from the first run of a fit until the model is complete."""

    @wraps(fit)
    def whole_fit(*args: P.args, **kwargs: P.kwargs) -> T:
        with held():
            fitted = fit(*args, **kwargs)
            if interrupted_so_far() and _is_one_of_many():
                raise KeyboardInterrupt
            return fitted

    return whole_fit


def _is_one_of_many() -> bool:
    """Whether scikit-learn or joblib calls the fit, and not only to hand it on."""
    # Nothing else tells: neither of them leaves a mark when it works in this process.
    frame = sys._getframe()
    while (caller := frame.f_back) is not None:
        frame = caller
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith("joblib.parallel"):
            return True
        if module.startswith("sklearn.") and not module.startswith(_PASS_IT_ON):
            return True
    return False
