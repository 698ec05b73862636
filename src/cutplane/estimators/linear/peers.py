"""Linear models of scikit-learn with the same objective, to compare with.

Their parameters in our terms: ``C = 1 / (lam * n)`` for LIBLINEAR and LogisticRegression, which
add losses up, ``alpha = lam * n`` for Ridge, ``alpha = lam`` for stochastic gradients. What they
return is judged by our objective at their coefficients, with the best intercept for these: some
regularize theirs.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from cutplane.core.certificate import Record
from cutplane.core.state import Problem

TOLERANCES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-6)
"""Each peer is fitted to all of them: a tolerance means something else to each."""

_MOST_ITERATIONS = 10_000
_MOST_FOR_CHOLESKY = 2_000  # features: it keeps a matrix of their number squared

Make = Callable[[float], Any]


def peers_of(estimator: Any, lam: float, n: float, n_features: int) -> dict[str, Make]:
    """Return the peers for an estimator's loss by name; each makes a model for a tolerance."""
    from sklearn.linear_model import LogisticRegression, Ridge, SGDClassifier
    from sklearn.svm import LinearSVC, LinearSVR

    C, intercept = 1.0 / (lam * n), estimator.fit_intercept
    common = {"fit_intercept": intercept, "max_iter": _MOST_ITERATIONS}
    seeded = common | {"random_state": 0}

    def svc(loss: str) -> Make:
        return lambda tol: LinearSVC(loss=loss, C=C, tol=tol, **seeded)

    def svr(loss: str, epsilon: float) -> Make:
        return lambda tol: LinearSVR(loss=loss, epsilon=epsilon, C=C, tol=tol, **seeded)

    def sgd(loss: str) -> Make:
        return lambda tol: SGDClassifier(loss=loss, alpha=lam, tol=tol, **seeded)

    def logistic(solver: str) -> Make:
        return lambda tol: LogisticRegression(C=C, solver=solver, tol=tol, **seeded)

    epsilon = getattr(estimator, "epsilon", 0.0)
    known: dict[str, dict[str, Make]] = {
        "hinge": {"LinearSVC": svc("hinge"), "SGDClassifier": sgd("hinge")},
        "squared_hinge": {"LinearSVC": svc("squared_hinge"), "SGDClassifier": sgd("squared_hinge")},
        "logistic": {
            "LogisticRegression, lbfgs": logistic("lbfgs"),
            "LogisticRegression, newton-cholesky": logistic("newton-cholesky"),
            "SGDClassifier": sgd("log_loss"),
        },
        "squared": {"Ridge": lambda tol: Ridge(alpha=lam * n, tol=tol, **common)},
        "absolute": {"LinearSVR": svr("epsilon_insensitive", 0.0)},
        "epsilon_insensitive": {"LinearSVR": svr("epsilon_insensitive", epsilon)},
        "squared_epsilon_insensitive": {"LinearSVR": svr("squared_epsilon_insensitive", epsilon)},
    }
    if n_features > _MOST_FOR_CHOLESKY:
        del known["logistic"]["LogisticRegression, newton-cholesky"]
    return known.get(str(estimator.loss), {})


def fits_of_peer(
    make: Make, problem: Problem, X: Any, y: Any, *, turned: bool, time_limit: float | None
) -> Iterator[Record]:
    """Yield a record for each tolerance, the coarsest first, until the time for all is over."""
    begin = time.perf_counter()
    for fits, tol in enumerate(TOLERANCES, start=1):
        model = make(tol)
        with warnings.catch_warnings():
            # That it did not converge shows in its objective.
            warnings.simplefilter("ignore")
            started = time.perf_counter()
            model.fit(X, y)
            seconds = time.perf_counter() - started
        coef = np.ravel(np.asarray(model.coef_, dtype=np.float64))
        point = problem.risk.at(-coef if turned else coef)
        yield Record(fits, problem.objective(point), -np.inf, fits, 0, seconds)
        if time_limit is not None and time.perf_counter() - begin > time_limit:
            return
