"""Options of ``cutplane fit`` that name labels, and what they mean for the labels of a file."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.cli.labels import grade_labels, plain_label, show_label
from cutplane.io import InputError


def positive_label(text: str, labels: NDArray[Any], name: str) -> Any:
    """Return the one of two classes that ``--positive`` names.

    Raises
    ------
    InputError
        If the file has more classes, or none of this name.
    """
    classes = np.unique(labels)
    if len(classes) > 2:
        raise InputError(f"--positive is for two classes, {name} has {len(classes)}")
    (found,) = _labels_of("--positive", [text], classes, name)
    if found not in classes.tolist():
        raise InputError(f"--positive {text}: {name} has no such label, only {_in_words(classes)}")
    return found


def split_categories(text: str | None) -> list[str] | None:
    """Return the names that ``--categories`` lists.

    Raises
    ------
    InputError
        If there are fewer than two, or one is empty or there twice.
    """
    if text is None:
        return None
    names = [part.strip() for part in text.split(",")]
    if len(names) < 2 or not all(names):
        raise InputError(f"--categories must be grades from low to high: low,high; not {text!r}")
    if len(set(names)) < len(names):
        raise InputError(f"--categories {text}: a grade is there twice")
    return names


def ordered_labels(
    labels: NDArray[Any], categories: list[str] | None, name: str
) -> tuple[NDArray[Any], list[Any] | None]:
    """Return a file's grades, and the order that was given for them.

    Raises
    ------
    InputError
        If they are words without an order, or the order lacks one of them.
    """
    if labels.dtype.kind == "U" and categories is None:
        raise InputError(
            f"{name}: ordinal needs numbers as labels, not {show_label(labels[0])!r}, or the order "
            "of the words: --categories low,mid,high"
        )
    grades = labels if labels.dtype.kind == "U" else grade_labels(labels, name)
    if categories is None:
        return grades, None
    order = _labels_of("--categories", categories, grades, name)
    for label in np.unique(grades).tolist():
        if label not in order:
            raise InputError(
                f"{name}: label {show_label(label)!r} is not in --categories {','.join(categories)}"
            )
    return grades, order


def _labels_of(option: str, names: list[str], labels: NDArray[Any], name: str) -> list[Any]:
    """Return names as labels of the type that a file has."""
    if labels.dtype.kind == "U":
        return names
    found = []
    for text in names:
        try:
            found.append(plain_label(labels.dtype.type(float(text))))
        except (ValueError, OverflowError):
            raise InputError(f"{option}: labels of {name} are numbers, not {text!r}") from None
    return found


def _in_words(classes: NDArray[Any]) -> str:
    return " and ".join(map(show_label, classes))
