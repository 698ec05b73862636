"""Fit models by cutting planes, with a proof of how close to optimal each fit is."""

__version__ = "0.1.0"

# Names are imported when they are first used. NumPy, Numba and scikit-learn take a second or two,
# in which the command line, which begins here too, could not tell what Ctrl-C means.
TYPE_CHECKING = False  # as in typing, which takes time as well
if TYPE_CHECKING:
    from typing import Any

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

_HOMES = {
    "cutplane.core.methods": (
        "Method balanced_proximal bmrm bmrm_without_qp kelley level proximal trust_region"
    ),
    "cutplane.core.minimize": "minimize",
    "cutplane.core.nonconvex_methods": "nbm nrbm",
    "cutplane.core.protocols": "NonFiniteRisk Plane",
    "cutplane.core.state": "Certificate Record Result State Status",
    "cutplane.core.stopping": "Gap Iterations Seconds",
    "cutplane.data": "as_rows",
    "cutplane.losses": (
        "Absolute BreakEven CrammerSinger EpsilonInsensitive ErrorRate Exponential FBeta "
        "Hinge Huber LabelRanking Logistic Loss NDCGHinge NonCrossing PairwiseHinge Poisson "
        "PrecisionAtK Quantile RecallAtK ROCArea SmoothHinge Softmax Squared "
        "SquaredEpsilonInsensitive SquaredHinge"
    ),
    "cutplane.online": "block_ascent dual_ascent newton quasi_newton",
    "cutplane.regularizers": "L1 L2 Ball BoundedL2 ElasticNet Entropy QuadraticForm SquaredLp",
    "cutplane.risks": (
        "ChainRisk ColumnsRisk FunctionRisk LinearRisk MulticlassRisk SharedScoresRisk "
        "StructuredRisk WeightedSum"
    ),
    "cutplane.structured": (
        "ChainCRF ChainMargin Graph GraphModel MulticlassModel MultilabelModel PairCounts "
        "RNAFolding StructuredModel Tree TreeModel"
    ),
    "cutplane.estimators": (
        "LinearClassifier LinearClassifierCV LinearQuantiles LinearRanker LinearRegressor "
        "LinearRegressorCV MultilabelClassifier NoveltyDetector OrdinalClassifier Path "
        "SequenceTagger StructuredPredictor path"
    ),
    "cutplane.io": "load_model save_model",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}
_MODULES = {
    "core",
    "data",
    "estimators",
    "io",
    "losses",
    "online",
    "regularizers",
    "risks",
    "structured",
    "testing",
}


def __getattr__(name: str) -> "Any":
    if name not in _HOME_OF and name not in _MODULES:
        raise AttributeError(f"module 'cutplane' has no attribute {name!r}")
    from importlib import import_module

    if name in _MODULES:
        return import_module(f"cutplane.{name}")
    value = getattr(import_module(_HOME_OF[name]), name)
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
