"""Penalties by name, and coefficients many of which are zero."""

from __future__ import annotations

from typing import Any, Self

from scipy.sparse import csr_array, issparse
from sklearn.utils.validation import check_is_fitted

from cutplane.compute.arrays import Vector, dense
from cutplane.estimators.parameters import look_up
from cutplane.regularizers import L1, L2, ElasticNet

PENALTIES = {"l2": 0.0, "l1": 1.0, "elasticnet": None}
"""Which share of each are absolute values; None where the user says."""


def share_of_l1(penalty: str, l1_ratio: float) -> float:
    """Return which share of a penalty are absolute values."""
    share = look_up("penalty", penalty, PENALTIES)
    return float(l1_ratio) if share is None else share


def penalty_regularizer(
    penalty: str, l1_ratio: float, lam: float, *, center: Vector | None = None
) -> L1 | L2 | ElasticNet:
    """Return the regularizer of a penalty by its name; a center goes with "l2" alone."""
    share = share_of_l1(penalty, l1_ratio)
    if penalty == "l2":
        return L2(lam, center=center)
    return L1(lam) if share == 1.0 else ElasticNet(lam, share)


def why_unused(penalty: str) -> dict[str, str]:
    """Return why the share of absolute values has no effect, if it has none."""
    return {} if penalty == "elasticnet" else {"l1_ratio": f"with penalty={penalty!r}"}


def without_zeros(coef: Any) -> Any:
    """Return coefficients; if they are a sparse array, without the zeros that it stores."""
    if issparse(coef):
        coef.eliminate_zeros()
    return coef


class SparseCoefficients:
    """A model whose coefficients may be kept as a sparse array."""

    coef_: Any

    def sparsify(self) -> Self:
        """Make ``coef_`` a sparse array, which takes less memory where most entries are zero.

        Predictions stay the same.
        """
        check_is_fitted(self)
        self.coef_ = csr_array(self.coef_)
        return self

    def densify(self) -> Self:
        """Make ``coef_`` an ordinary array again."""
        check_is_fitted(self)
        self.coef_ = dense(self.coef_)
        return self
