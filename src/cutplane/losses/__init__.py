"""Losses: functions of scores, with slopes and conjugates."""

from collections.abc import Callable

from cutplane.losses.bounded import BrokenLine, ClippedAbsolute, Hat, Ramp
from cutplane.losses.bounded_smooth import SmoothRamp, Tukey
from cutplane.losses.logistic import Logistic
from cutplane.losses.loss import Loss
from cutplane.losses.nu import NuHinge, NuInsensitive
from cutplane.losses.pieces import (
    Absolute,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Quantile,
    SmoothHinge,
    Squared,
    SquaredEpsilonInsensitive,
    SquaredHinge,
)
from cutplane.losses.piecewise import Piece, PiecewiseLoss
from cutplane.losses.score_loss import ScoreLoss
from cutplane.losses.shared_score import SharedScore
from cutplane.losses.smooth import Exponential, Poisson, SmoothLoss
from cutplane.models.columns.losses import ColumnLoss, LabelRanking, NonCrossing
from cutplane.models.columns.residuals import Euclidean, SquaredEuclidean
from cutplane.models.few_labels.losses import DoubleRamp, SmoothHat
from cutplane.models.measures.at_k import BreakEven, PrecisionAtK, RecallAtK
from cutplane.models.measures.error_rate import ErrorRate
from cutplane.models.measures.f_beta import FBeta, f1
from cutplane.models.measures.roc_area import ROCArea
from cutplane.models.multiclass.losses import CrammerSinger, MulticlassLoss, Softmax
from cutplane.models.ranking.loss import RankingLoss
from cutplane.models.ranking.losses import NDCGHinge, NDCGListHinge, PairwiseHinge

CLASSIFICATION: dict[str, Callable[..., Loss]] = {
    "hinge": Hinge,
    "squared_hinge": SquaredHinge,
    "smooth_hinge": SmoothHinge,
    "logistic": Logistic,
    "exponential": Exponential,
}
"""Losses for labels -1 and 1, by the names that estimators and the command line know."""

MEASURES: dict[str, Callable[..., Loss]] = {
    "error_rate": ErrorRate,
    "f1": f1,
    "f_beta": FBeta,
    "precision_at_k": PrecisionAtK,
    "recall_at_k": RecallAtK,
    "break_even": BreakEven,
    "roc_area": ROCArea,
}
"""Losses for labels -1 and 1 that judge the sample as a whole, by name."""

REGRESSION: dict[str, Callable[..., Loss]] = {
    "squared": Squared,
    "absolute": Absolute,
    "quantile": Quantile,
    "epsilon_insensitive": EpsilonInsensitive,
    "squared_epsilon_insensitive": SquaredEpsilonInsensitive,
    "huber": Huber,
    "poisson": Poisson,
}
"""Losses for numbers, by name."""

ROBUST_CLASSIFICATION: dict[str, Callable[..., Loss]] = {"ramp": Ramp, "smooth_ramp": SmoothRamp}
"""Losses for labels -1 and 1 of which some are wrong, by name: they are not convex."""

ROBUST_REGRESSION: dict[str, Callable[..., Loss]] = {
    "clipped_absolute": ClippedAbsolute,
    "tukey": Tukey,
}
"""Losses for numbers of which some are far off, by name: they are not convex."""

NU_CLASSIFICATION: dict[str, Callable[..., Loss]] = {"nu_hinge": NuHinge}
"""Losses for labels -1 and 1 with a margin that a share of the examples says, by name."""

NU_REGRESSION: dict[str, Callable[..., Loss]] = {"nu_insensitive": NuInsensitive}
"""Losses for numbers with a width that a share of the examples says, by name."""

UNLABELED: dict[str, Callable[..., Loss]] = {
    "hat": Hat,
    "double_ramp": DoubleRamp,
    "smooth_hat": SmoothHat,
}
"""Losses for examples without a label, by name: they are not convex."""

RANKING: dict[str, Callable[..., Loss]] = {
    "pairwise": PairwiseHinge,
    "ndcg": NDCGHinge,
    "ndcg_list": NDCGListHinge,
}
"""Losses for documents of queries, by name."""

VECTORS: dict[str, Callable[..., ScoreLoss]] = {"euclidean": Euclidean, "squared": SquaredEuclidean}
"""Losses for rows of numbers, by name."""

__all__ = [
    "CLASSIFICATION",
    "MEASURES",
    "NU_CLASSIFICATION",
    "NU_REGRESSION",
    "RANKING",
    "REGRESSION",
    "ROBUST_CLASSIFICATION",
    "ROBUST_REGRESSION",
    "UNLABELED",
    "VECTORS",
    "Absolute",
    "BreakEven",
    "BrokenLine",
    "ClippedAbsolute",
    "ColumnLoss",
    "CrammerSinger",
    "DoubleRamp",
    "EpsilonInsensitive",
    "ErrorRate",
    "Euclidean",
    "Exponential",
    "FBeta",
    "Hat",
    "Hinge",
    "Huber",
    "LabelRanking",
    "Logistic",
    "Loss",
    "MulticlassLoss",
    "NDCGHinge",
    "NDCGListHinge",
    "NonCrossing",
    "NuHinge",
    "NuInsensitive",
    "PairwiseHinge",
    "Piece",
    "PiecewiseLoss",
    "Poisson",
    "PrecisionAtK",
    "Quantile",
    "ROCArea",
    "Ramp",
    "RankingLoss",
    "RecallAtK",
    "ScoreLoss",
    "SharedScore",
    "SmoothHat",
    "SmoothHinge",
    "SmoothLoss",
    "SmoothRamp",
    "Softmax",
    "Squared",
    "SquaredEpsilonInsensitive",
    "SquaredEuclidean",
    "SquaredHinge",
    "Tukey",
]
