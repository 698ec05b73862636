"""Where X lives, its products, and the maps from parameters to scores that are made of them."""

from cutplane.maps.conversion import as_rows, rows_and_map
from cutplane.maps.networks.scores import TorchScores
from cutplane.maps.observed_pairs import ObservedPairs
from cutplane.maps.ordered_products import ordered_scores
from cutplane.maps.rows import OneScore, Rows, ScoreMap
from cutplane.maps.score_maps import AllPairs, CenteredColumns, CenteredScore, PairMap

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
