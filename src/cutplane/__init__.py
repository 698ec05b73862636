"""Fit models by cutting planes, with a proof of how close to optimal each fit is."""

__version__ = "0.1.0"

from typing import TYPE_CHECKING, Any

from cutplane.core.methods import (
    Method,
    balanced_proximal,
    bmrm,
    bmrm_without_qp,
    kelley,
    level,
    proximal,
    trust_region,
)
from cutplane.core.minimize import minimize
from cutplane.core.nonconvex_methods import nbm, nrbm
from cutplane.core.protocols import NonFiniteRisk, Plane
from cutplane.core.state import Certificate, Record, Result, State, Status
from cutplane.core.stopping import Gap, Iterations, Seconds
from cutplane.data import as_rows
from cutplane.losses import (
    Absolute,
    BreakEven,
    CrammerSinger,
    EpsilonInsensitive,
    ErrorRate,
    Exponential,
    FBeta,
    Hinge,
    Huber,
    LabelRanking,
    Logistic,
    Loss,
    NDCGHinge,
    NDCGListHinge,
    NonCrossing,
    PairwiseHinge,
    Poisson,
    PrecisionAtK,
    Quantile,
    RecallAtK,
    ROCArea,
    SmoothHinge,
    Softmax,
    Squared,
    SquaredEpsilonInsensitive,
    SquaredHinge,
)
from cutplane.online import block_ascent, dual_ascent, newton, quasi_newton
from cutplane.regularizers import (
    L1,
    L2,
    Ball,
    BoundedL2,
    ElasticNet,
    Entropy,
    QuadraticForm,
    SquaredLp,
)
from cutplane.risks import (
    ChainRisk,
    ColumnsRisk,
    FunctionRisk,
    LinearRisk,
    MulticlassRisk,
    SharedScoresRisk,
    StructuredRisk,
    WeightedSum,
)
from cutplane.structured import (
    ChainCRF,
    ChainMargin,
    Graph,
    GraphModel,
    MulticlassModel,
    MultilabelModel,
    PairCounts,
    RNAFolding,
    StructuredModel,
    Tree,
    TreeModel,
)

if TYPE_CHECKING:
    from cutplane.estimators import (
        LinearClassifier,
        LinearClassifierCV,
        LinearQuantiles,
        LinearRanker,
        LinearRegressor,
        LinearRegressorCV,
        MultilabelClassifier,
        NoveltyDetector,
        OrdinalClassifier,
        Path,
        SequenceTagger,
        StructuredPredictor,
        path,
    )
    from cutplane.io import load_model, save_model

# Imported when first used: scikit-learn takes longer to import than all the rest together.
_ON_FIRST_USE = {
    "LinearClassifier": "cutplane.estimators",
    "LinearClassifierCV": "cutplane.estimators",
    "LinearQuantiles": "cutplane.estimators",
    "LinearRanker": "cutplane.estimators",
    "LinearRegressor": "cutplane.estimators",
    "LinearRegressorCV": "cutplane.estimators",
    "MultilabelClassifier": "cutplane.estimators",
    "NoveltyDetector": "cutplane.estimators",
    "OrdinalClassifier": "cutplane.estimators",
    "Path": "cutplane.estimators",
    "StructuredPredictor": "cutplane.estimators",
    "SequenceTagger": "cutplane.estimators",
    "path": "cutplane.estimators",
    "load_model": "cutplane.io",
    "save_model": "cutplane.io",
}
_MODULES = {"testing"}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _MODULES:
        return import_module(f"cutplane.{name}")
    if name not in _ON_FIRST_USE:
        raise AttributeError(f"module 'cutplane' has no attribute {name!r}")
    value = getattr(import_module(_ON_FIRST_USE[name]), name)
    globals()[name] = value
    return value


__all__ = [
    "L1",
    "L2",
    "Absolute",
    "Ball",
    "BoundedL2",
    "BreakEven",
    "Certificate",
    "ChainCRF",
    "ChainMargin",
    "ChainRisk",
    "ColumnsRisk",
    "CrammerSinger",
    "ElasticNet",
    "Entropy",
    "EpsilonInsensitive",
    "ErrorRate",
    "Exponential",
    "FBeta",
    "FunctionRisk",
    "Gap",
    "Graph",
    "GraphModel",
    "Hinge",
    "Huber",
    "Iterations",
    "LabelRanking",
    "LinearClassifier",
    "LinearClassifierCV",
    "LinearQuantiles",
    "LinearRanker",
    "LinearRegressor",
    "LinearRegressorCV",
    "LinearRisk",
    "Logistic",
    "Loss",
    "Method",
    "MulticlassModel",
    "MulticlassRisk",
    "MultilabelClassifier",
    "MultilabelModel",
    "NDCGHinge",
    "NDCGListHinge",
    "NonCrossing",
    "NonFiniteRisk",
    "NoveltyDetector",
    "OrdinalClassifier",
    "PairCounts",
    "PairwiseHinge",
    "Path",
    "Plane",
    "Poisson",
    "PrecisionAtK",
    "QuadraticForm",
    "Quantile",
    "RNAFolding",
    "ROCArea",
    "RecallAtK",
    "Record",
    "Result",
    "Seconds",
    "SequenceTagger",
    "SharedScoresRisk",
    "SmoothHinge",
    "Softmax",
    "Squared",
    "SquaredEpsilonInsensitive",
    "SquaredHinge",
    "SquaredLp",
    "State",
    "Status",
    "StructuredModel",
    "StructuredPredictor",
    "StructuredRisk",
    "Tree",
    "TreeModel",
    "WeightedSum",
    "as_rows",
    "balanced_proximal",
    "block_ascent",
    "bmrm",
    "bmrm_without_qp",
    "dual_ascent",
    "kelley",
    "level",
    "load_model",
    "minimize",
    "nbm",
    "newton",
    "nrbm",
    "path",
    "proximal",
    "quasi_newton",
    "save_model",
    "trust_region",
]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
