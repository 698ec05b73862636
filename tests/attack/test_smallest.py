"""The smallest data: one feature, one row, one row a class, for every estimator.

Each gets a model with finite numbers that predicts, or is refused in one line.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from cutplane.estimators import ESTIMATORS
from cutplane.estimators.description import Reads, Targets

from ..estimators.registered import data_for, made

PARTS = ["one feature", "one row", "one row a class", "one feature and row"]


def first_of_each(y):
    """Return the first place of each class; of numbers the first."""
    if y is None or np.ndim(y) > 1 or np.asarray(y).dtype.kind == "f":
        return np.arange(1)
    return np.sort(np.unique(y, return_index=True)[1])


def smallest(of, part):
    """Return a part of the small data of an estimator, as it comes from few examples."""
    X, y, more = data_for(of)
    listed = isinstance(X, list)
    if "feature" in part:
        X = [each[:, :1] for each in X] if listed else np.ascontiguousarray(X[:, :1])
    if "row" not in part:
        return X, y, more
    chosen = first_of_each(y) if part == "one row a class" and not listed else np.arange(1)
    if of.description.targets is Targets.TAGS:
        return X[:1], y[:1], more
    if listed:
        chosen = first_of_each(y) if part == "one row a class" else chosen
        return [X[i] for i in chosen], np.asarray(y)[chosen], more
    more = {name: each[chosen] for name, each in more.items()}
    return X[chosen], None if y is None else np.asarray(y)[chosen], more


def numbers_of(model):
    """Yield all numbers of a fitted model, and those of its certificates."""
    for name, value in vars(model).items():
        if name.endswith("_") and isinstance(value, np.ndarray) and value.dtype.kind == "f":
            yield name, value
    certificates = model.certificate_
    for each in certificates if isinstance(certificates, list) else [certificates]:
        yield "objective", np.array(each.objective)
        if each.valid:
            yield "lower bound", np.array(each.lower_bound)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("of", ESTIMATORS.values(), ids=ESTIMATORS)
def test_the_smallest_data_are_fitted_or_refused_in_one_line(of, part):
    X, y, more = smallest(of, part)
    model, refusal = made(of), ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of constant models, limits, few examples
        try:
            model.fit(X, y, **more)
        except ValueError as error:
            refusal = str(error)
        if refusal:
            assert "\n" not in refusal.strip()
            assert part != "one feature" or of.description.reads is Reads.STRUCTURES
            return
        predicted = model.predict(X)
    assert len(predicted) == len(X)
    for name, numbers in numbers_of(model):
        assert np.isfinite(numbers).all(), (name, numbers)
