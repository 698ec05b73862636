"""Fit models by cutting planes, with a proof of how close to optimal each fit is."""

__version__ = "0.1.0"

from cutplane.core.methods import Method, bmrm
from cutplane.core.minimize import minimize
from cutplane.core.protocols import NonFiniteRisk, Plane
from cutplane.core.state import Certificate, Record, Result, State, Status
from cutplane.core.stopping import Gap, Iterations, Seconds
from cutplane.data import as_rows
from cutplane.estimators import LinearClassifier, LinearRegressor
from cutplane.io import load_model, save_model
from cutplane.losses import (
    Absolute,
    EpsilonInsensitive,
    Exponential,
    Hinge,
    Huber,
    Logistic,
    Loss,
    Poisson,
    Quantile,
    SmoothHinge,
    Squared,
    SquaredEpsilonInsensitive,
    SquaredHinge,
)
from cutplane.regularizers import L2
from cutplane.risks import LinearRisk

__all__ = [
    "L2",
    "Absolute",
    "Certificate",
    "EpsilonInsensitive",
    "Exponential",
    "Gap",
    "Hinge",
    "Huber",
    "Iterations",
    "LinearClassifier",
    "LinearRegressor",
    "LinearRisk",
    "Logistic",
    "Loss",
    "Method",
    "NonFiniteRisk",
    "Plane",
    "Poisson",
    "Quantile",
    "Record",
    "Result",
    "Seconds",
    "SmoothHinge",
    "Squared",
    "SquaredEpsilonInsensitive",
    "SquaredHinge",
    "State",
    "Status",
    "as_rows",
    "bmrm",
    "load_model",
    "minimize",
    "save_model",
]
