"""The order of grades: as the user says it, as a pandas Categorical has it, or by sorting."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Grades(NamedTuple):
    """Grades of examples.

    Attributes
    ----------
    labels : ndarray of shape (n_samples,)
    order : list or None
        The grades that there can be, from low to high; None if nobody said it.
    """

    labels: NDArray[Any]
    order: list[Any] | None

    def numbered(self, used: NDArray[np.bool_]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return the grades that are used, from low to high, and their number for each example.

        Raises
        ------
        ValueError
            If an example that is used has a grade that the order does not have.
        """
        found, numbers = np.unique(self.labels, return_inverse=True)
        present = set(np.unique(numbers[used]).tolist())
        labels = found.tolist()
        order = labels if self.order is None else self.order
        for place in sorted(present):
            if labels[place] not in order:
                raise ValueError(f"y has {labels[place]!r}, which is not in {in_order(order)}")
        place_of = {label: place for place, label in enumerate(labels)}
        kept = [place_of[label] for label in order if place_of.get(label) in present]
        rank = np.zeros(len(found), dtype=np.int64)  # those without weight may have any
        rank[kept] = np.arange(len(kept))
        return found[kept], rank[numbers]


def order_of(categories: Any, y: Any) -> list[Any] | None:
    """Return the order of grades that the user gave, or that ``y`` has, or None.

    Raises
    ------
    ValueError
        If there are fewer than two categories, or one is there twice.
    """
    if categories is not None:
        if isinstance(categories, str) or not np.iterable(categories):
            raise ValueError(f"categories must be a sequence of grades, got {categories!r}")
        order = np.asarray(categories).tolist() if hasattr(categories, "dtype") else [*categories]
        if len(order) < 2 or len(set(order)) < len(order):
            raise ValueError(f"categories must be different grades, at least two, got {order!r}")
        return order
    if getattr(y, "ndim", 1) == 2 and hasattr(y, "iloc"):  # a table with one column
        y = y.iloc[:, 0]
    dtype: Any = getattr(y, "dtype", None)
    return list(dtype.categories) if getattr(dtype, "ordered", False) else None


def in_order(grades: Any) -> str:
    """Return grades in words."""
    return " < ".join(map(str, grades))
