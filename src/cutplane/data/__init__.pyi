"""Where X lives, its products, and the maps from parameters to scores that are made of them."""

from cutplane.data.layouts import as_rows as as_rows
from cutplane.data.observed_pairs import ObservedPairs as ObservedPairs
from cutplane.data.ordered_products import ordered_scores as ordered_scores
from cutplane.data.rows import AllPairs as AllPairs
from cutplane.data.rows import CenteredColumns as CenteredColumns
from cutplane.data.rows import CenteredScore as CenteredScore
from cutplane.data.rows import OneScore as OneScore
from cutplane.data.rows import PairMap as PairMap
from cutplane.data.rows import Rows as Rows
from cutplane.data.rows import ScoreMap as ScoreMap
from cutplane.models.networks.scores import TorchScores as TorchScores
