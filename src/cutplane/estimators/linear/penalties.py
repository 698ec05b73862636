"""Penalties that make coefficients sparse, and bounds on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector, dense
from cutplane.core.protocols import Regularizer
from cutplane.estimators.estimator import estimator
from cutplane.estimators.linear.model import LinearModel
from cutplane.estimators.parameters import look_up
from cutplane.estimators.sparsity import (
    PENALTIES,
    SparseCoefficients,
    penalty_regularizer,
    share_of_l1,
    why_unused,
)
from cutplane.regularizers import BoundedElasticNet, BoundedL2, ConstrainedL2

# Model files keep bounds and constraints as arrays of these names.
_BOUNDS = ("bounds.lower", "bounds.upper")
_CONSTRAINTS = ("constraints.A", "constraints.lower", "constraints.upper")


@estimator
class Penalized(LinearModel, SparseCoefficients):
    """A linear model whose coefficients may be sparse.

    Parameters
    ----------
    penalty : {"l2", "l1", "elasticnet"}, default="l2"
        What ``lam`` is the strength of: ``|w|^2 / 2``; ``|w|_1``, the sum of absolute values,
        which makes many coefficients exactly zero; or "elasticnet",
        ``l1_ratio * |w|_1 + (1 - l1_ratio) * |w|^2 / 2``.
    l1_ratio : float, default=0.5
        Share of the absolute values in "elasticnet", from 0 to 1.
    """

    penalty: str = "l2"
    l1_ratio: float = 0.5

    def _check_parameters(self) -> None:
        look_up("penalty", self.penalty, PENALTIES)
        super()._check_parameters()
        if not self._is_plain() and not self.loss_function().convex:
            raise ValueError(
                f"{self.loss_function()!r} is not convex: it goes with penalty='l2' alone"
            )

    def _unused(self) -> dict[str, str]:
        return super()._unused() | why_unused(self.penalty)

    def _share_of_l1(self) -> float:
        return share_of_l1(self.penalty, self.l1_ratio)

    def _is_plain(self) -> bool:
        """Say whether the regularizer is ``lam/2 |w|^2`` and nothing else."""
        return self.penalty == "l2"

    def _regularizer(self, lam: float, n_parameters: int) -> Regularizer:
        return penalty_regularizer(self.penalty, self.l1_ratio, lam)


@estimator
class Constrained(Penalized):
    """A linear model whose coefficients may have bounds.

    Parameters
    ----------
    positive : bool, default=False
        Whether no coefficient may be negative.
    bounds : pair or scipy.optimize.Bounds, optional
        The lower and the upper bounds of the coefficients, each a number, an array with one for
        each feature, or None. With several classes they hold for the coefficients of each.
    constraints : tuple, scipy.optimize.LinearConstraint or a list of them, optional
        Linear constraints ``lower <= A @ coef <= upper``, as ``(A, lower, upper)``: ``A`` has a
        column for each feature, the bounds are numbers or one for each row, equal for equations,
        infinite for none. With several classes they hold for each. They go with ``penalty="l2"``.
    """

    positive: bool = False
    bounds: Any = None
    constraints: Any = None
    array_names: ClassVar[tuple[tuple[str, ...], ...]] = (_BOUNDS, _CONSTRAINTS)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_constraints()

    def _check_constraints(self) -> None:
        if self.bounds is not None:
            _pair(self.bounds)
        if self.constraints is not None and self.penalty != "l2":
            raise ValueError(f"constraints go with penalty='l2', not with {self.penalty!r}")

    def _is_plain(self) -> bool:
        bounded = self.positive or self.bounds is not None
        return super()._is_plain() and not bounded and self.constraints is None

    def _turns(self) -> bool:
        """Say whether the coefficients are those of a problem with the opposite sign."""
        return False

    def _bounds(self, n_parameters: int) -> tuple[Vector, Vector]:
        """Return the bounds of the parameters of a problem."""
        n = self.n_features_in_
        lower, upper = (-np.inf, np.inf) if self.bounds is None else _pair(self.bounds)
        found = [_per_feature(name, of, n) for name, of in (("lower", lower), ("upper", upper))]
        low, high = found
        if self.positive:
            low = np.maximum(low, 0.0)
        if not (low <= high).all():
            j = int((low > high).argmax())
            raise ValueError(
                f"no coefficient fits the bounds of feature {j}: from {low[j]:g} to {high[j]:g}"
            )
        if self._turns():
            low, high = -high, -low
        copies = self._copies(n_parameters)
        return np.tile(low, copies), np.tile(high, copies)

    def _copies(self, n_parameters: int) -> int:
        """Return how many classes are fitted together, each with coefficients of its own."""
        copies = n_parameters // int(self.n_features_in_)
        if copies == 2:
            raise ValueError(
                "bounds and constraints of two classes need multi_class='ovr': else coef_ is the "
                "difference of the coefficients of both"
            )
        return copies

    def _polyhedron(self, n_parameters: int) -> tuple[Matrix, Vector, Vector]:
        """Return all constraints on the parameters of a problem, bounds among them."""
        n = self.n_features_in_
        parts = [stacked_constraints(self.constraints, n)]
        if self.positive or self.bounds is not None:
            low, high = self._bounds(n)
            if self._turns():  # which turns all of them below
                low, high = -high, -low
            parts.append((np.eye(n), low, high))
        A, lower, upper = (np.concatenate(each) for each in zip(*parts, strict=True))
        copies = self._copies(n_parameters)
        A = np.kron(np.eye(copies), -A if self._turns() else A)
        return A, np.tile(lower, copies), np.tile(upper, copies)

    def parameter_arrays(self) -> dict[str, NDArray[np.float64]]:  # noqa: D102
        n, found = self.n_features_in_, dict[str, NDArray[np.float64]]()
        if self.bounds is not None:
            for name, given in zip(_BOUNDS, _pair(self.bounds), strict=True):
                values = _per_feature(name.removeprefix("bounds."), given, n)
                found[name] = values if np.size(given) > 1 else values[:1]
        if self.constraints is not None:
            arrays = stacked_constraints(self.constraints, n)
            found |= dict(zip(_CONSTRAINTS, arrays, strict=True))
        return found

    def set_parameter_arrays(self, arrays: Mapping[str, NDArray[np.float64]]) -> None:  # noqa: D102
        if _BOUNDS[0] in arrays:
            both = [arrays[name] for name in _BOUNDS]
            self.bounds = tuple(of if of.size > 1 else float(of.item()) for of in both)
        if _CONSTRAINTS[0] in arrays:
            self.constraints = tuple(arrays[name] for name in _CONSTRAINTS)
        if self._is_plain():
            return
        self._check_constraints()
        coef = np.asarray(dense(self.coef_), dtype=np.float64).ravel()
        value = self._regularizer(1.0, coef.size).value(-coef if self._turns() else coef)
        if not np.isfinite(value):
            raise ValueError("the coefficients violate the bounds or constraints")

    def _regularizer(self, lam: float, n_parameters: int) -> Regularizer:
        if self.constraints is not None:
            return ConstrainedL2(lam, *self._polyhedron(n_parameters))
        if not self.positive and self.bounds is None:
            return super()._regularizer(lam, n_parameters)
        lower, upper = self._bounds(n_parameters)
        if self.penalty == "l2":
            return BoundedL2(lam, lower=lower, upper=upper)
        return BoundedElasticNet(lam, self._share_of_l1(), lower=lower, upper=upper)


def _pair(bounds: Any) -> tuple[Any, Any]:
    """Return lower and upper bounds as they were given, infinite where none were."""
    if hasattr(bounds, "lb") and hasattr(bounds, "ub"):
        return bounds.lb, bounds.ub
    try:
        lower, upper = bounds
    except (TypeError, ValueError):
        raise ValueError(
            f"bounds must be a pair of lower and upper bounds, such as (0, 1), got {bounds!r}"
        ) from None
    return -np.inf if lower is None else lower, np.inf if upper is None else upper


def _per_feature(name: str, given: Any, n_features: int) -> Vector:
    """Return a bound for each feature."""
    try:
        values = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"the {name} bounds must be numbers, got {given!r}") from None
    if values.ndim == 1 and values.shape != (n_features,) and values.size != 1:
        raise ValueError(f"there are {values.size} {name} bounds for {n_features} features")
    if values.ndim > 1 or np.isnan(values).any():
        raise ValueError(f"the {name} bounds must be a number, or one for each feature")
    worst = np.inf if name == "lower" else -np.inf
    if (values == worst).any():
        raise ValueError("the bounds must leave room for finite coefficients")
    return np.array(np.broadcast_to(values, n_features))


def stacked_constraints(given: Any, n_features: int) -> tuple[Matrix, Vector, Vector]:
    """Return the matrix and the bounds of all constraints, each a row."""
    parts = given if isinstance(given, list) else [given]
    found = [_one_constraint(part, n_features) for part in parts]
    if not found:
        raise ValueError("constraints is an empty list: leave it out")
    A, lower, upper = (np.concatenate(each) for each in zip(*found, strict=True))
    return A, lower, upper


def _one_constraint(given: Any, n_features: int) -> tuple[Matrix, Vector, Vector]:
    if hasattr(given, "A") and hasattr(given, "lb") and hasattr(given, "ub"):
        given = (given.A, given.lb, given.ub)
    try:
        matrix, lower, upper = given
        A = np.atleast_2d(np.asarray(dense(matrix), dtype=np.float64))
        bounds = [
            np.array(np.broadcast_to(np.asarray(bound, dtype=np.float64), len(A)))
            for bound in (lower, upper)
        ]
    except (TypeError, ValueError):
        raise ValueError(
            "a constraint must be (A, lower, upper), numbers with one bound for all rows of A or "
            "one for each"
        ) from None
    if A.ndim != 2 or A.shape[1] != n_features:
        raise ValueError(f"constraints have {A.shape[-1]} columns, X has {n_features} features")
    return A, bounds[0], bounds[1]
