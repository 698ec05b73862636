"""Labels between files and estimators: read as numbers or words, printed as they were written."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.io import InputError

# More different labels than this are believed only if they are words or whole numbers that repeat.
_MANY_CLASSES = 20
_LARGEST_EXACT_INTEGER = 2.0**53


def class_labels(labels: NDArray[Any], name: str) -> NDArray[Any]:
    """Return a file's labels as a classifier takes them: whole numbers, or words.

    Fractions become words too, because scikit-learn takes them for measurements.

    Raises
    ------
    InputError
        If there is only one class, or the labels look like measurements.
    """
    classes, counts = np.unique(labels, return_counts=True)
    if len(classes) < 2:
        only = show_label(classes[0])
        raise InputError(f"{name}: all labels are {only}; classification needs two classes")
    whole = labels.dtype.kind != "f" or _all_whole(classes)
    if len(classes) > _MANY_CLASSES and (not whole or counts.mean() < 2):
        raise InputError(
            f"{name}: {len(classes)} different labels in {len(labels)} lines look like numbers to "
            "predict, not classes; try --task regression"
        )
    if labels.dtype.kind != "f":
        return labels
    return labels.astype(np.int64) if whole else as_words(labels)


def grade_labels(labels: NDArray[Any], name: str) -> NDArray[Any]:
    """Return a file's labels as classes with an order.

    Raises
    ------
    InputError
        If they are words, whose order nobody knows, or not whole; or as for `class_labels`.
    """
    numbers = target_numbers(labels, name, "ordinal")
    if not _all_whole(numbers):
        raise InputError(f"{name}: grades are whole numbers, not {_first_fraction(numbers):g}")
    return class_labels(numbers, name)


def known_labels(labels: NDArray[Any], classes: NDArray[Any], name: str) -> NDArray[Any]:
    """Return a file's labels in the type of a model's classes, so that they can be compared.

    Raises
    ------
    InputError
        If the model knows none of them.
    """
    if classes.dtype.kind in "UO":
        labels = as_words(labels)
    elif classes.dtype.kind in "iu" and labels.dtype.kind == "f" and _all_whole(labels):
        labels = labels.astype(np.int64)
    comparable = classes.dtype.kind in "UO" or labels.dtype.kind != "U"
    if not comparable or not np.isin(labels, classes).any():
        known = ", ".join(show_label(label) for label in classes[:5])
        raise InputError(
            f"{name}: the model knows none of the labels: it knows {known}, "
            f"the first one here is {show_label(labels[0])}"
        )
    return labels


def target_numbers(
    labels: NDArray[Any], name: str, task: str = "regression"
) -> NDArray[np.float64]:
    """Return a file's labels as a regressor or a ranker takes them.

    Raises
    ------
    InputError
        If they are words.
    """
    if labels.dtype.kind == "U":
        raise InputError(f"{name}: {task} needs numbers as labels, not {show_label(labels[0])!r}")
    return labels


def as_words(labels: NDArray[Any]) -> NDArray[Any]:
    """Return labels as text."""
    if labels.dtype.kind == "U":
        return labels
    return np.array([show_label(label) for label in labels])


def show_label(label: Any) -> str:
    """Return a label as it stands in a file: whole numbers without a point."""
    plain = plain_label(label)
    if isinstance(plain, float) and _all_whole(np.array([plain])):
        return str(int(plain))
    return str(plain)


def plain_label(label: Any) -> Any:
    """Return a label as Python's own int, float, bool or str."""
    return label.item() if isinstance(label, np.generic) else label


def _first_fraction(numbers: NDArray[np.float64]) -> float:
    return float(numbers[numbers != np.rint(numbers)][0])


def _all_whole(numbers: NDArray[np.float64]) -> bool:
    return bool(
        (numbers == np.rint(numbers)).all() and (abs(numbers) <= _LARGEST_EXACT_INTEGER).all()
    )
