"""Where X lives, and its two products: scores ``X w`` and pullback ``X' slopes``."""

from cutplane.data.rows import Rows, as_rows

__all__ = ["Rows", "as_rows"]
