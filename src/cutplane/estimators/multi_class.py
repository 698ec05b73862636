"""How a classifier tells more than two classes apart: one against the rest, or all at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix
from cutplane.estimators.linear import look_up
from cutplane.losses import CrammerSinger, Hinge, Logistic, Loss, MulticlassLoss, Softmax


@dataclass(frozen=True)
class Joint:
    """A loss of all classes together, and the loss of two classes that it extends."""

    loss: MulticlassLoss
    extends: type[Loss]
    extended_name: str


MULTI_CLASS: dict[str, Joint | None] = {
    "ovr": None,
    "crammer_singer": Joint(CrammerSinger(), Hinge, "hinge"),
    "softmax": Joint(Softmax(), Logistic, "logistic"),
}
"""Ways to tell classes apart, by name; None is one against the rest."""


def joint_loss(multi_class: object, loss: Loss) -> MulticlassLoss | None:
    """Return the loss of all classes together, or None for one against the rest.

    Raises
    ------
    ValueError
        If the name is unknown, or does not go with the loss.
    """
    joint = look_up("multi_class", multi_class, MULTI_CLASS)
    if joint is None:
        return None
    if not isinstance(loss, joint.extends):
        raise ValueError(
            f"multi_class={multi_class!r} needs loss={joint.extended_name!r}, got loss {loss!r}"
        )
    return joint.loss


def split_by_class(
    coef: Matrix, intercept: NDArray[np.float64]
) -> tuple[Matrix, NDArray[np.float64]]:
    """Return one row of coefficients a class, from one long row for all of them.

    Of two classes the difference is returned, which is what scikit-learn's users expect: above zero
    means the second class.
    """
    n_classes = intercept.shape[1]
    rows, offsets = coef.reshape(n_classes, -1), intercept[0]
    if n_classes == 2:
        return rows[1:] - rows[:1], offsets[1:] - offsets[:1]
    return rows, offsets


def joined(coef: Matrix) -> Matrix:
    """Return one long row for all classes: what `split_by_class` would take apart."""
    if len(coef) == 1:
        # Of all pairs with this difference the one that the regularizer likes best.
        coef = np.vstack([-0.5 * coef, 0.5 * coef])
    return coef.reshape(1, -1)
