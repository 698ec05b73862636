"""Losses: convex functions of scores, with slopes and conjugates."""

from collections.abc import Callable

from cutplane.losses.logistic import Logistic
from cutplane.losses.loss import Loss
from cutplane.losses.multiclass import CrammerSinger, MulticlassLoss, Softmax
from cutplane.losses.ramps import (
    Absolute,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Quantile,
    Ramp,
    RampLoss,
    SmoothHinge,
    Squared,
    SquaredEpsilonInsensitive,
    SquaredHinge,
)
from cutplane.losses.ranking import RankingLoss
from cutplane.losses.ranking_ndcg import NDCGHinge
from cutplane.losses.ranking_pairs import PairwiseHinge
from cutplane.losses.smooth import Exponential, Poisson, SmoothLoss

CLASSIFICATION: dict[str, Callable[..., Loss]] = {
    "hinge": Hinge,
    "squared_hinge": SquaredHinge,
    "smooth_hinge": SmoothHinge,
    "logistic": Logistic,
    "exponential": Exponential,
}
"""Losses for labels -1 and 1, by the names that estimators and the command line know."""

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

RANKING: dict[str, Callable[..., Loss]] = {"pairwise": PairwiseHinge, "ndcg": NDCGHinge}
"""Losses for documents of queries, by name."""

__all__ = [
    "CLASSIFICATION",
    "RANKING",
    "REGRESSION",
    "Absolute",
    "CrammerSinger",
    "EpsilonInsensitive",
    "Exponential",
    "Hinge",
    "Huber",
    "Logistic",
    "Loss",
    "MulticlassLoss",
    "NDCGHinge",
    "PairwiseHinge",
    "Poisson",
    "Quantile",
    "Ramp",
    "RampLoss",
    "RankingLoss",
    "SmoothHinge",
    "SmoothLoss",
    "Softmax",
    "Squared",
    "SquaredEpsilonInsensitive",
    "SquaredHinge",
]
