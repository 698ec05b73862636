"""Which of two classes is looked for: the positive one, which measures such as F1 count.

Whatever it is, classes stay sorted and scores above zero mean the second one, as scikit-learn has
it. Where the first class is looked for, a loss that tells the classes apart is fitted to targets of
the opposite sign, and the coefficients are turned around afterwards.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.estimators.cautions import are_words
from cutplane.losses import CLASSIFICATION, Loss
from cutplane.losses.measures.error_rate import CountingMeasure

# They do not change when the classes change places.
_SYMMETRIC: tuple[Any, ...] = tuple(CLASSIFICATION.values())


def check_pos_label(pos_label: Any, classes: NDArray[Any]) -> None:
    """Raise ValueError unless it is one of two classes, or None."""
    if pos_label is None:
        return
    labels = classes.tolist()
    if len(labels) != 2:
        raise ValueError(f"pos_label is for two classes, y has {len(labels)}")
    if pos_label not in labels:
        raise ValueError(
            f"pos_label={pos_label!r} is not one of the classes {labels[0]!r} and {labels[1]!r}"
        )


def is_turned(pos_label: Any, classes: NDArray[Any], loss: Loss) -> bool:
    """Say whether the first of two classes is fitted against the second."""
    if pos_label is None or len(classes) != 2 or isinstance(loss, _SYMMETRIC):
        return False
    return bool(pos_label == classes.tolist()[0])


def doubt_about_positive(
    name: str, loss: Loss, classes: NDArray[Any], y: NDArray[Any]
) -> str | None:
    """Return a warning if words do not tell which class is meant, and the larger one was taken."""
    if not isinstance(loss, CountingMeasure) or len(classes) != 2 or not are_words(classes):
        return None
    other, taken = classes.tolist()
    if 2 * np.count_nonzero(y == taken) <= len(y):
        return None
    return (
        f"the loss {name} is trained to find {taken!r}, the larger class; to find {other!r} say "
        f"pos_label={other!r} (on the command line --positive {other}), and if {taken!r} is meant, "
        f"pos_label={taken!r}"
    )
