"""Pickles know the version that made them."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone

import cutplane as cp

X, Y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 0, 1, 1])


@pytest.fixture
def model():
    return cp.LinearClassifier(lam=0.1).fit(X, Y)


def test_same_version(model):
    again = pickle.loads(pickle.dumps(model))
    assert (again.decision_function(X) == model.decision_function(X)).all()
    assert vars(again).keys() == vars(model).keys()
    assert vars(copy.copy(model)).keys() == vars(model).keys()
    assert clone(model).get_params() == model.get_params()


def test_another_version_warns(model, monkeypatch):
    monkeypatch.setattr(cp, "__version__", "0.0.1")
    pickled = pickle.dumps(model)
    monkeypatch.undo()
    said = r"this LinearClassifier was pickled by cutplane 0\.0\.1, and may not work with "
    with pytest.warns(cp.InconsistentVersionWarning, match=said):
        again = pickle.loads(pickled)
    assert (again.predict(X) == Y).all()


def test_a_pickle_without_a_version_warns(model):
    state = vars(model).copy()
    with pytest.warns(cp.InconsistentVersionWarning, match="pickled by cutplane .an early version"):
        cp.LinearClassifier().__setstate__(state)
