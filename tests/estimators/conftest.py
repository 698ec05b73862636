"""Data that scikit-learn ships, scaled."""

import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.preprocessing import scale


def scaled(load):
    X, y = load(return_X_y=True)
    return scale(X), y


@pytest.fixture(scope="package")
def cancer():
    return scaled(load_breast_cancer)


@pytest.fixture(scope="package")
def diabetes():
    return scaled(load_diabetes)


@pytest.fixture(scope="package")
def iris():
    return scaled(load_iris)
