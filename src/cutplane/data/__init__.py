"""Where X lives, and its two products: scores ``X w`` and pullback ``X' slopes``."""

from cutplane.data.all_pairs import AllPairs
from cutplane.data.class_products import class_block_pullbacks, class_pullback, class_scores
from cutplane.data.observed_pairs import ObservedPairs
from cutplane.data.ordered_products import ordered_scores
from cutplane.data.rows import Rows, as_rows, in_words

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
