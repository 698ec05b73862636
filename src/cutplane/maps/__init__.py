"""Where X lives, and its two products: scores ``X w`` and pullback ``X' slopes``."""

from cutplane.maps.all_pairs import AllPairs
from cutplane.maps.class_products import class_block_pullbacks, class_pullback, class_scores
from cutplane.maps.observed_pairs import ObservedPairs
from cutplane.maps.ordered_products import ordered_scores
from cutplane.maps.rows import Rows, as_rows, in_words

__all__ = [
    "AllPairs",
    "ObservedPairs",
    "Rows",
    "as_rows",
    "class_block_pullbacks",
    "class_pullback",
    "class_scores",
    "in_words",
    "ordered_scores",
]
