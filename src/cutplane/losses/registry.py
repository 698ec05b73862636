"""The losses that estimators and the command line know, by name."""

from __future__ import annotations

from collections.abc import Callable

from cutplane.losses.loss import Loss, ScoreLoss
from cutplane.named import ByName

CLASSIFICATION = ByName[Callable[..., Loss]](
    {
        "hinge": "cutplane.losses.piecewise:Hinge",
        "squared_hinge": "cutplane.losses.piecewise:SquaredHinge",
        "smooth_hinge": "cutplane.losses.piecewise:SmoothHinge",
        "logistic": "cutplane.losses.smooth:Logistic",
        "exponential": "cutplane.losses.smooth:Exponential",
    }
)
"""Losses for labels -1 and 1, by the names that estimators and the command line know."""

MEASURES = ByName[Callable[..., Loss]](
    {
        "error_rate": "cutplane.models.measures.labelings:ErrorRate",
        "f1": "cutplane.models.measures.f_beta:f1",
        "f_beta": "cutplane.models.measures.f_beta:FBeta",
        "precision_at_k": "cutplane.models.measures.labelings:PrecisionAtK",
        "recall_at_k": "cutplane.models.measures.labelings:RecallAtK",
        "break_even": "cutplane.models.measures.labelings:BreakEven",
        "roc_area": "cutplane.models.measures.roc_area:ROCArea",
    }
)
"""Losses for labels -1 and 1 that judge the sample as a whole, by name."""

REGRESSION = ByName[Callable[..., Loss]](
    {
        "squared": "cutplane.losses.piecewise:Squared",
        "absolute": "cutplane.losses.piecewise:Absolute",
        "quantile": "cutplane.losses.piecewise:Quantile",
        "epsilon_insensitive": "cutplane.losses.piecewise:EpsilonInsensitive",
        "squared_epsilon_insensitive": "cutplane.losses.piecewise:SquaredEpsilonInsensitive",
        "huber": "cutplane.losses.piecewise:Huber",
        "poisson": "cutplane.losses.smooth:Poisson",
    }
)
"""Losses for numbers, by name."""

ROBUST_CLASSIFICATION = ByName[Callable[..., Loss]](
    {
        "ramp": "cutplane.losses.bounded:Ramp",
        "smooth_ramp": "cutplane.losses.bounded_smooth:SmoothRamp",
    }
)
"""Losses for labels -1 and 1 of which some are wrong, by name: they are not convex."""

ROBUST_REGRESSION = ByName[Callable[..., Loss]](
    {
        "clipped_absolute": "cutplane.losses.bounded:ClippedAbsolute",
        "tukey": "cutplane.losses.bounded_smooth:Tukey",
    }
)
"""Losses for numbers of which some are far off, by name: they are not convex."""

NU_CLASSIFICATION = ByName[Callable[..., Loss]]({"nu_hinge": "cutplane.losses.nu:NuHinge"})
"""Losses for labels -1 and 1 with a margin that a share of the examples says, by name."""

NU_REGRESSION = ByName[Callable[..., Loss]]({"nu_insensitive": "cutplane.losses.nu:NuInsensitive"})
"""Losses for numbers with a width that a share of the examples says, by name."""

UNLABELED = ByName[Callable[..., Loss]](
    {
        "hat": "cutplane.losses.bounded:Hat",
        "double_ramp": "cutplane.models.few_labels.losses:DoubleRamp",
        "smooth_hat": "cutplane.models.few_labels.losses:SmoothHat",
    }
)
"""Losses for examples without a label, by name: they are not convex."""

RANKING = ByName[Callable[..., Loss]](
    {
        "pairwise": "cutplane.models.ranking.losses:PairwiseHinge",
        "ndcg": "cutplane.models.ranking.losses:NDCGHinge",
        "ndcg_list": "cutplane.models.ranking.losses:NDCGListHinge",
    }
)
"""Losses for documents of queries, by name."""

VECTORS = ByName[Callable[..., ScoreLoss]](
    {
        "euclidean": "cutplane.models.columns.losses:Euclidean",
        "squared": "cutplane.models.columns.losses:SquaredEuclidean",
    }
)
"""Losses for rows of numbers, by name."""
