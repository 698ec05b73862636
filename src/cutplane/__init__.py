"""Fit models by cutting planes, with a proof of how close to optimal each fit is."""

__version__ = "0.1.0"

from cutplane.core.methods import Method, bmrm
from cutplane.core.minimize import minimize
from cutplane.core.protocols import NonFiniteRisk, Plane
from cutplane.core.state import Certificate, Record, Result, State, Status
from cutplane.core.stopping import Gap, Iterations, Seconds
from cutplane.data import as_rows
from cutplane.estimators import (
    LinearClassifier,
    LinearClassifierCV,
    LinearRegressor,
    LinearRegressorCV,
    Path,
    path,
)
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
from cutplane.online import dual_ascent
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
    "LinearClassifierCV",
    "LinearRegressor",
    "LinearRegressorCV",
    "LinearRisk",
    "Logistic",
    "Loss",
    "Method",
    "NonFiniteRisk",
    "Path",
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
    "dual_ascent",
    "load_model",
    "minimize",
    "path",
    "save_model",
]
