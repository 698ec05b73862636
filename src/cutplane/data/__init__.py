"""Where X lives, its products, and the maps from parameters to scores that are made of them."""

from cutplane.data.conversion import as_rows, rows_and_map
from cutplane.data.observed_pairs import ObservedPairs
from cutplane.data.ordered_products import ordered_scores
from cutplane.data.rows import OneScore, Rows, ScoreMap
from cutplane.data.score_maps import AllPairs, CenteredColumns, CenteredScore, PairMap
from cutplane.models.networks.scores import TorchScores

__all__ = [
    "AllPairs",
    "CenteredColumns",
    "CenteredScore",
    "ObservedPairs",
    "OneScore",
    "PairMap",
    "Rows",
    "ScoreMap",
    "TorchScores",
    "as_rows",
    "ordered_scores",
    "rows_and_map",
]
