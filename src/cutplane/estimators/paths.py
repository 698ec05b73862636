"""Regularization paths: certified fits for a decreasing sequence of lam, and which lams to try.

A plane below the risk says nothing of the regularizer. So the planes found for one lam bound the
objective of the next one, at once and tightly: only what is new near the new optimum is missing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector, require_in_memory
from cutplane.compute.compiled import clock
from cutplane.core.certificate import Certificate, Result, Status
from cutplane.core.interrupts import held, interrupted_so_far
from cutplane.core.state import Problem
from cutplane.estimators.cautions import (
    ConstantModelWarning,
    LabelOrderWarning,
    warn,
    warn_unless_successful,
)
from cutplane.estimators.classifier import LinearClassifier
from cutplane.estimators.description import check_parameters, look_up
from cutplane.estimators.fit import convex_start, is_one_of_many, share_of_time, solve
from cutplane.estimators.lams import decreasing, lam_grid
from cutplane.estimators.linear import LinearModel
from cutplane.estimators.regressor import LinearRegressor
from cutplane.losses import Loss
from cutplane.report.charts import Chart, Curve
from cutplane.report.figures import draw_path, picture_of
from cutplane.report.words import element
from cutplane.report.words import table as html_table
from cutplane.risks import ScoredRisk
from cutplane.solvers.automatic import automatic
from cutplane.solvers.minimize import change_of_data


class Along(NamedTuple):
    """What the fits of all problems along some lams have found.

    Attributes
    ----------
    parameters : ndarray of shape (n_lams, n_problems, n_parameters)
    intercepts : ndarray
        The same for intercepts.
    certificates : list of lists
        For each lam, of its problems.
    evaluations : int
    """

    parameters: NDArray[np.float64]
    intercepts: NDArray[np.float64]
    certificates: list[list[Certificate]]
    evaluations: int


def all_along(
    model: LinearModel,
    risks: Sequence[ScoredRisk],
    lams: Vector,
    *,
    time_limit: float | None,
    part: str,
) -> Along:
    """Fit each of several problems along the lams; Ctrl-C is passed on, for there is no model."""
    shape = len(lams), len(risks)
    parameters = np.zeros((*shape, risks[0].n_parameters))
    intercepts = np.zeros((*shape, *risks[0].intercept_shape))
    certificates: list[list[Certificate]] = [[] for _ in lams]
    evaluations = 0
    for k, risk in enumerate(risks):
        share = None if time_limit is None else time_limit / len(risks)
        runs = fits_along(model, risk, lams, time_limit=share, part=f"{part}/problem-{k}")
        for i, run in enumerate(runs):
            if run.state.stopped:
                raise KeyboardInterrupt
            parameters[i, k] = run.w
            intercepts[i, k] = run.point.intercept  # type: ignore[attr-defined]
            evaluations += run.evaluations
            certificates[i].append(run.certificate)
    return Along(parameters, intercepts, certificates, evaluations)


def fits_along(
    model: LinearModel, risk: ScoredRisk, lams: Vector, *, time_limit: float | None, part: str = ""
) -> Iterator[Result]:
    """Minimize risk plus regularizer for each lam in turn; Ctrl-C ends with the current one.

    Options are those of the model, but for the ``time_limit``, which is for all lams together. In
    its checkpoint these runs are the ``part`` of that name.
    """
    begin = clock()
    known, method = None, None
    if model.method in (None, "auto"):
        first = model._regularizer(float(lams[0]), risk.n_parameters)
        method = automatic(Problem(risk, first), on_a_path=True)
    for done, lam in enumerate(lams):
        regularizer = model._regularizer(float(lam), risk.n_parameters)
        problem = Problem(risk, regularizer)
        folder, start = os.path.join(part, f"lam-{done}"), None
        if not risk.convex:  # planes hold near one point only, and each lam begins again
            limit = share_of_time(time_limit, begin, 2 * (len(lams) - done))
            start = convex_start(model, risk, regularizer, time_limit=limit, part=folder)
            folder = os.path.join(folder, "robust")
        result = solve(
            model,
            problem,
            method,
            max_iter=model.max_iter,
            time_limit=share_of_time(time_limit, begin, len(lams) - done),
            start=start,
            planes_from=known if risk.convex else None,
            part=folder,
        )
        yield result
        if result.state.stopped:
            return
        known = result.state


def path(
    X: Any,
    y: Any,
    loss: str | Loss = "hinge",
    lams: Any = None,
    *,
    penalty: str = "l2",
    l1_ratio: float = 0.5,
    multi_class: str = "ovr",
    pos_label: Any = None,
    n_lams: int = 20,
    intercept: bool = True,
    sample_weight: Any = None,
    tol: float = 1e-3,
    max_iter: int | None = 1000,
    time_limit: float | None = None,
    method: Any = "auto",
    n_jobs: int | None = None,
) -> Path:
    """Fit a linear model for each of many lams, the largest first.

    Each fit starts with the planes and the best point of the one before, and has a certificate of
    its own.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, n_features)
        The features.
    y : array-like of shape (n_samples,)
        Labels of two classes (more with ``multi_class``), or numbers, as the loss asks for.
    loss : str or Loss
        A loss by the name that the estimators know, with default parameters, or a loss such as
        ``cp.Quantile(0.9)``.
    lams : array-like, optional
        Strengths of the regularizer, in any order. By default ``n_lams`` of them over four
        decades, from a lam for which the coefficients are nearly zero; with an "l1" or
        "elasticnet" penalty, from the smallest for which all are.
    penalty, l1_ratio : optional
        As in the estimators.
    multi_class, pos_label : optional
        As in `LinearClassifier`. More than two classes are fitted all at once.
    n_lams : int
        How many lams to choose if none are given.
    intercept : bool
        Whether to fit an intercept. It is not regularized.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the examples.
    tol, max_iter, method, n_jobs : optional
        As in the estimators, for each lam.
    time_limit : float, optional
        Limit on seconds for the whole path.

    Returns
    -------
    Path
        After Ctrl-C, or if a file of the data changes, with the lams that were reached.

    Warns
    -----
    ConvergenceWarning
        If a fit did not reach its tolerance.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> import cutplane as cp
    >>> X, y = load_diabetes(return_X_y=True)
    >>> path = cp.path(X, y, "absolute", [1e-2, 1e-4, 1e-6])
    >>> path.coefs.shape
    (3, 10)
    >>> all(certificate.relative_gap <= 1e-3 for certificate in path.certificates)
    True
    """
    require_in_memory("path", X, "fit an estimator to it for each lam, or give path X.compute()")
    estimator = _estimator_of(loss)(
        loss,
        penalty=penalty,
        l1_ratio=l1_ratio,
        fit_intercept=intercept,
        tol=tol,
        max_iter=max_iter,
        time_limit=time_limit,
        method=method,
        n_jobs=n_jobs,
    )
    if multi_class != "ovr":
        estimator.set_params(multi_class=multi_class)
    if pos_label is not None:
        estimator.set_params(pos_label=pos_label)
    with held():
        found = _fitted_path(estimator, X, y, sample_weight, lams, n_lams)
        if interrupted_so_far() and is_one_of_many():
            raise KeyboardInterrupt
        return found


def _fitted_path(
    estimator: LinearModel, X: Any, y: Any, sample_weight: Any, lams: Any, n_lams: int
) -> Path:
    check_parameters(estimator)
    plan = estimator._plan(estimator._examples(X, y, sample_weight))
    if plan.doubt:
        warn(plan.doubt, LabelOrderWarning)
    risks = plan.risks
    if len(risks) > 1:
        raise ValueError(
            f"a path is for two classes, y has {len(risks)}: give multi_class, or see "
            "LinearClassifierCV"
        )
    if isinstance(lams, int | np.integer):
        raise ValueError(f"lams must be a list of numbers, got {lams!r}; n_lams says how many")
    like = plan.regularizer
    lams = lam_grid(risks, n_lams, like=like) if lams is None else decreasing(lams)
    kept: list[tuple[Any, ...]] = []
    try:
        for run in fits_along(estimator, risks[0], lams, time_limit=estimator.time_limit):
            # Only what the path keeps: the state of a run holds all its planes.
            intercept_there = run.point.intercept  # type: ignore[attr-defined]
            numbers = run.evaluations, run.seconds, run.state.bundle.n_planes
            kept.append((run.w, intercept_there, run.certificate, *numbers))
            if run.status is Status.INCONSISTENT and change_of_data(run.state.problem):
                break  # there is nothing left to fit the next lam to
    except KeyboardInterrupt:  # between two runs
        if not kept:
            raise
    coefs, intercepts, certificates, evaluations, seconds, planes = zip(*kept, strict=True)
    warn_unless_successful("path", estimator.tol, certificates, plan.examples.X)
    succeeded = all(certificate.status.success for certificate in certificates)
    if succeeded and not np.any(coefs) and plan.could_vary():
        warn(
            f"path: the best coefficients are zero for every lam; {plan.advice}",
            ConstantModelWarning,
        )
    return Path(
        lams=lams[: len(kept)],
        coefs=np.array(coefs).reshape(len(kept), *risks[0].intercept_shape, -1),
        intercepts=np.array(intercepts),
        certificates=certificates,
        evaluations=np.array(evaluations),
        seconds=np.array(seconds),
        planes=np.array(planes),
        estimator=estimator,
    )


@dataclass(frozen=True, eq=False, repr=False)
class Path:
    """Fits for a decreasing sequence of lam.

    Attributes
    ----------
    lams : ndarray of shape (n_lams,)
        Decreasing, without repetitions.
    coefs : ndarray of shape (n_lams, n_features) or (n_lams, n_classes, n_features)
    intercepts : ndarray of shape (n_lams,) or (n_lams, n_classes)
    certificates : tuple of Certificate
        What is proven about each fit.
    evaluations, seconds : ndarray of shape (n_lams,)
        The work of each fit.
    planes : ndarray of shape (n_lams,)
        The number of planes at the end of each fit.
    estimator : LinearClassifier or LinearRegressor
        Its parameters are those of the path; it has no coefficients.
    """

    lams: Vector
    coefs: NDArray[np.float64]
    intercepts: NDArray[np.float64]
    certificates: tuple[Certificate, ...]
    evaluations: NDArray[np.int64]
    seconds: Vector
    planes: NDArray[np.int64]
    estimator: LinearClassifier | LinearRegressor

    def model(self, index: int) -> LinearClassifier | LinearRegressor:
        """Return the fitted estimator for ``lams[index]``."""
        model = self.estimator._fitted_with(
            self.coefs[index].reshape(1, -1), self.intercepts[[index]]
        )
        model.lam = model.lam_ = float(self.lams[index])
        model.certificate_ = self.certificates[index]
        return model

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> Vector:
        """Return the score of each fit on other data: that of its estimator, such as accuracy."""
        models = map(self.model, range(len(self.lams)))
        return np.array([model.score(X, y, sample_weight) for model in models])

    def table(self) -> str:
        """Return a line for each lam: bounds, gap, status and work."""
        title = (
            f"{'lam':>9}  {'objective':>12}  {'lower bound':>12}  {'gap':>8}  {'status':<15}  "
            f"{'evaluations':>11}  {'planes':>6}  {'time':>8}"
        )
        lines = (
            f"{lam:9.3g}  {known.objective:12.6g}  {known.lower_bound:12.6g}  "
            f"{known.relative_gap:8.2e}  {known.status:<15}  {evaluations:11}  {planes:6}  "
            f"{seconds:6.2f} s"
            for lam, known, evaluations, planes, seconds in zip(
                *(self.lams, self.certificates, self.evaluations, self.planes, self.seconds),
                strict=True,
            )
        )
        return "\n".join([title, *lines])

    def plot(self, scores: Vector | None = None) -> Any:
        """Return a matplotlib figure of bounds and gaps, and of scores such as `score` gives.

        Raises
        ------
        PlottingUnavailable
            If matplotlib is not installed.
        """
        return draw_path(
            self.lams,
            self.certificates,
            title=f"Regularization path: {self.estimator.loss} loss",
            subtitle=f"{len(self.lams)} fits, {self.evaluations.sum()} evaluations",
            tol=self.estimator.tol,
            scores=None if scores is None else np.asarray(scores, dtype=np.float64),
        )

    def png(self, scores: Vector | None = None) -> bytes:
        """Return the picture of `plot` as the content of a PNG file."""
        return picture_of(self.plot(scores))

    def _repr_html_(self) -> str:
        """Return a table and a chart of the bounds for notebooks."""
        rows = [
            [f"{lam:.3g}", f"{own.objective:.6g}", f"{own.lower_bound:.6g}",
             f"{own.relative_gap:.2e}", str(own.status), f"{evaluations:,}"]
            for lam, own, evaluations in zip(
                self.lams, self.certificates, self.evaluations, strict=True
            )
        ]  # fmt: skip
        titles = ["lam", "objective", "lower bound", "gap", "status", "evaluations"]
        columns = {
            "lam": self.lams.tolist(),
            "objective": [own.objective for own in self.certificates],
            "lower_bound": [own.lower_bound for own in self.certificates],
        }
        below = Curve(0, "lower_bound", "lower bound", 1, dashed=True)
        curves = [Curve(0, "objective", "objective"), below]
        chart = Chart("", "objective", [("lam", "lam")], curves)
        picture = chart.picture([columns], log_x=True, height=240)
        return element("div", html_table(titles, rows, words=(4,)), picture)

    def __repr__(self) -> str:
        worst = max(certificate.relative_gap for certificate in self.certificates)
        return (
            f"Path({len(self.lams)} lams from {self.lams[0]:.3g} to {self.lams[-1]:.3g}, "
            f"{self.evaluations.sum()} evaluations, largest relative gap {worst:.2e})"
        )


def _estimator_of(loss: str | Loss) -> type[LinearClassifier] | type[LinearRegressor]:
    """Return the kind of estimator that has this loss."""
    if isinstance(loss, Loss):
        return LinearClassifier if loss.task == "classification" else LinearRegressor
    classify, regress = (of.description.losses for of in (LinearClassifier, LinearRegressor))
    look_up("loss", loss, {**classify, **regress})
    return LinearRegressor if loss in regress else LinearClassifier
