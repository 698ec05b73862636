"""Warnings of fits that did not reach their tolerance, and of models that may not be meant."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from cutplane.core.certificate import Certificate, Status
from cutplane.data import Rows
from cutplane.estimators.description import defaults_of

# Frames of these are passed over when a warning looks for the line that it is about.
_LIBRARIES = ("cutplane", "sklearn")


class InconsistentVersionWarning(UserWarning):
    """A pickled estimator was made by another version of cutplane."""


class ConstantModelWarning(UserWarning):
    """The fitted model says the same of all training examples, whatever their features are."""


class LabelOrderWarning(UserWarning):
    """Labels are words, and what their alphabetical order was taken for is perhaps not meant."""


class UnusedParameterWarning(UserWarning):
    """A parameter was given that has no effect with the others."""


def warn(message: str, category: type[Warning]) -> None:
    """Warn of the line that called the library, by way of scikit-learn or not."""
    frame, level = sys._getframe(), 1
    while frame.f_back and frame.f_globals.get("__name__", "").split(".")[0] in _LIBRARIES:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def warn_unless_successful(
    name: str, tol: float, certificates: Sequence[Certificate], X: Any = None
) -> None:
    """Warn with the worst of the gaps if a run did not reach its tolerance.

    What ``X`` holds decides whether scaling it is worth a word.
    """
    failed = [certificate for certificate in certificates if not certificate.status.success]
    if not failed:
        return
    worst = max(failed, key=lambda certificate: certificate.relative_gap)
    advice = {
        Status.ITERATION_LIMIT: "raise max_iter, or tol",
        Status.TIME_LIMIT: "raise time_limit, or tol",
        Status.INTERRUPTED: "the best model so far was kept",
        Status.STOPPED: "a callback ended the fit; the best model so far was kept",
        Status.STALLED: "the bounds no longer move: scale the features, or raise lam or tol",
        Status.INCONSISTENT: worst.reason
        or "the lower bound is above the objective: is the loss convex, and are its slopes right?",
    }[worst.status]
    # The rows are read for nothing else: the file that they lie in may have been cut short.
    if worst.status is Status.STALLED and columns_are_scaled(X):
        advice = advice.replace("scale the features, or ", "")
    of_how_many = f" in {len(failed)} of {len(certificates)} runs" if len(certificates) > 1 else ""
    warn(
        f"{name} ended with status {worst.status}{of_how_many}: relative gap "
        f"{worst.relative_gap:.2e}, tolerance {tol:.2e}; {advice}",
        ConvergenceWarning,
    )


def columns_are_scaled(X: Any) -> bool:
    """Say whether the columns of a matrix have entries of usual sizes; columns of zeros do."""
    known = sp.issparse(X) or isinstance(X, np.ndarray)
    if not known or X.ndim != 2 or X.dtype.kind not in "fiub":
        return False
    if not (X.shape[0] and X.shape[1]):
        return True
    if sp.issparse(X):
        high, low = X.max(axis=0).toarray(), X.min(axis=0).toarray()
    else:
        high, low = X.max(axis=0), X.min(axis=0)
    sizes = np.maximum(high.astype(np.float64), -low.astype(np.float64)).ravel()
    sizes = sizes[sizes > 0.0]
    # A standardized column has one between 1 and the root of the number of examples, and a row of
    # length one has entries of a tenth or more if fewer than a hundred others are as large.
    smallest, largest = 1e-2, max(1e2, np.sqrt(X.shape[0]))
    return bool((sizes >= smallest).all() and (sizes <= largest).all())


def warn_of_unused(estimator: Any, unused: Mapping[str, str]) -> None:
    """Warn of parameters that have no effect, though they are not at their defaults.

    ``unused`` says for each of them why it has no effect.
    """
    defaults = defaults_of(type(estimator))
    for name, reason in unused.items():
        value = getattr(estimator, name)
        if value is not defaults[name] and value != defaults[name]:
            warn(
                f"{type(estimator).__name__}: {name}={value!r} has no effect {reason}",
                UnusedParameterWarning,
            )


def rows_are_equal(rows: Rows) -> bool:
    """Say whether all examples have the same features, so that no model could tell them apart."""
    # Sums that different rows have in common only by chance.
    sums = rows.scores(np.cos(np.arange(rows.shape[1])))
    return bool(np.ptp(sums) <= 1e-9 * np.abs(sums).max())


def are_words(labels: NDArray[Any]) -> bool:
    """Say whether labels are text."""
    return labels.dtype.kind in "US" or (
        labels.dtype.kind == "O" and all(isinstance(label, str) for label in labels.tolist())
    )
