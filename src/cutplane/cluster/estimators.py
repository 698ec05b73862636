"""Linear models of Dask collections: fitted where the rows are, predictions as collections.

What an estimator settles before a fit (classes, weights, the strength of the regularizer) is asked
of the workers; the rest is the fit of all estimators. Dask is imported only here and in
`cutplane.cluster`, when a collection is given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets

from cutplane.cluster import sharded_sample
from cutplane.cluster.risk import ShardedRisk, Target, class_masses, extremes, total_weight
from cutplane.cluster.runs import FarPoint
from cutplane.core.certificate import Result
from cutplane.estimators.description import lam_of
from cutplane.estimators.fit import Examples, Plan, fit_plan
from cutplane.losses.loss import ScoreLoss

P = ParamSpec("P")
T = TypeVar("T")

_ROUNDING = 1e-12


def fit_collection(
    model: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    risks: Callable[[Any, Any], Sequence[ShardedRisk]],
    *,
    n_classes: int = 1,
    classes: NDArray[Any] | None = None,
    qid: Any = None,
) -> None:
    """Fit a model to Dask collections.

    Parameters
    ----------
    model : estimator
    X, y, sample_weight : dask collections
    risks : callable
        From the sample, and the weight of each class, to the risks to minimize; those of several
        classes have the same weights.
    n_classes : int
        How many scores an example has.
    classes : ndarray, optional
        The labels, sorted.
    qid : dask collection, optional
        The query of each example.
    """
    from cutplane.cluster.collections import n_features_of

    if not model.loss_function().convex:
        raise ValueError(f"{model.loss_function()!r} is not convex: it needs one machine")
    sample = sharded_sample(X, y, sample_weight, n_classes=n_classes, qid=qid)
    try:
        masses = None if classes is None else sample.ask(class_masses, classes)
        made = risks(sample, masses)
        total = sample.ask(total_weight, made[0].target)
        model.n_features_in_ = n_features_of(X)
        model.__dict__.pop("feature_names_in_", None)
        if hasattr(X, "columns"):
            model.feature_names_in_ = np.array(list(X.columns), dtype=object)
        plan = Plan(
            examples=Examples(X, y, np.broadcast_to(1.0, 1), {"sample_weight": sample_weight}),
            risks=made,
            regularizer=model._regularizer(lam_of(model.lam, model.C, total), made[0].n_parameters),
            model=model._model,
            intercept_shape=made[0].facts.intercept_shape,
            starts=model._starts((len(made), made[0].n_parameters)),
            look=_is_flat,
            symptom=_symptom,
        )
        fit_plan(model, plan)
    finally:
        sample.close()


def classes_of(y: Any) -> NDArray[Any]:
    """Return the labels of a collection, sorted."""
    from cutplane.cluster.collections import unique_values

    classes = unique_values(y)
    check_classification_targets(classes)
    return classes


def target_risks(
    sample: Any, loss: ScoreLoss, targets: Sequence[Target], *, intercept: bool
) -> list[ShardedRisk]:
    """Return a risk for each way to make targets of labels."""
    return [ShardedRisk(sample, loss, intercept=intercept, target=target) for target in targets]


def _is_flat(risk: ShardedRisk, result: Result) -> bool:
    point = result.point
    assert isinstance(point, FarPoint)
    lowest, highest = risk.sample.ask(extremes, risk.named, point.w)
    size = max(abs(lowest), abs(highest), float(np.max(np.abs(point.intercept))))
    return bool(highest - lowest <= _ROUNDING * size)


def _symptom(flat: Sequence[bool], result: Result) -> str | None:
    return "the best coefficients are zero, and all scores the same" if all(flat) else None
