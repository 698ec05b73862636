"""What the registry says of the estimators is true of them."""

import inspect

import pytest
from sklearn.base import BaseEstimator

import cutplane as cp
from cutplane.estimators import ESTIMATORS, estimators_by_task
from cutplane.estimators.description import Reads, parameters_of

registered = pytest.mark.parametrize("of", ESTIMATORS.values(), ids=ESTIMATORS)


def test_every_estimator_is_registered():
    public = {name: getattr(cp, name) for name in cp.__all__}
    assert {
        name: of
        for name, of in public.items()
        if isinstance(of, type) and issubclass(of, BaseEstimator) and hasattr(of, "fit")
    } == ESTIMATORS


def test_a_task_belongs_to_one_estimator():
    tasks = [of.description.task for of in ESTIMATORS.values() if of.description.task]
    assert len(tasks) == len(set(tasks)) == len(estimators_by_task())
    assert all(estimators_by_task()[task].description.task == task for task in tasks)


@registered
def test_parameters_are_documented(of):
    parameters = parameters_of(of)
    assert [*parameters] == [*inspect.signature(of).parameters]
    for parameter in parameters.values():
        assert parameter.text, parameter.name


@registered
def test_losses_name_their_parameters_as_the_estimator_does(of):
    description = of.description
    assert bool(description.losses) == ("loss" in parameters_of(of))
    for name in parameters_of(of):
        assert set(description.losses_with(name)) <= set(description.losses)
    for make in description.losses.values():
        assert set(inspect.signature(make).parameters) <= set(parameters_of(of))


@registered
def test_what_is_fitted_from_files_is_fitted_from_files(of):
    description = of.description
    if description.task:
        assert description.reads is not Reads.STRUCTURES
        assert all(description.loss_names)
    assert set(description.defaults) <= set(parameters_of(of))
    assert description.becomes in ("", *ESTIMATORS)
    assert "auto" in description.methods
