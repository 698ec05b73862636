"""Kernels: inner products of examples in a space that nobody has to write down.

    linear      x.y
    polynomial  (gamma * x.y + coef0) ** degree
    rbf         exp(-gamma * |x - y|^2)

They are computed block by block in float64, from products of matrices, whatever the examples are
stored in. The kernels of all ``gamma`` are functions of one matrix, entry by entry: of squared
distances, or of products.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector

KERNELS = ("rbf", "polynomial", "linear", "precomputed")
"""Kernels by name."""

SQUARED_DISTANCE = "squared distance"
"""What "rbf" is a function of; no kernel itself."""

# Sparse rows are multiplied as dense blocks, unless they have fewer entries in common than this
# share of the columns: one multiplication of a dense product takes a sixteenth of the time of a
# sparse one.
_DENSE_SHARE = 16.0
# The most columns that dense blocks of sparse rows may have: a block of them takes 64 MB.
_MOST_COLUMNS = 1 << 14
# The most entries that the tensors of polynomials may have.
_MOST_OF_TENSOR = 1 << 14


@dataclass(frozen=True)
class Kernel:
    """A kernel with its parameters.

    Attributes
    ----------
    name : str
        One of `KERNELS`, or "callable".
    gamma, degree, coef0
        As in the formulas above.
    function : callable, optional
        From two matrices to the kernel of each row of the first with each row of the second.
    """

    name: str = "rbf"
    gamma: float = 1.0
    degree: int = 3
    coef0: float = 1.0
    function: Callable[[Any, Any], Any] | None = None

    def __post_init__(self) -> None:
        """Refuse parameters with which it would be no inner product."""
        if self.gamma <= 0.0 or not np.isfinite(self.gamma):
            raise ValueError(f"gamma must be positive and finite, got {self.gamma}")
        if self.name == "polynomial" and self.coef0 < 0.0:
            raise ValueError(
                f"coef0 must not be negative, got {self.coef0}: the polynomial would be no inner "
                "product"
            )

    @property
    def proven(self) -> bool:
        """Whether its matrices are positive semidefinite by a theorem, whatever the examples."""
        return self.name in ("rbf", "polynomial", "linear", SQUARED_DISTANCE)

    def between(self, A: Any, B: Any, dtype: Any = np.float64) -> NDArray[Any]:
        """Return the kernel of each row of ``A`` (rows) with each row of ``B`` (columns).

        For a result in float32 only the last operation is done in it: an exponential takes half
        the time.
        """
        if self.function is not None:
            made = np.asarray(self.function(A, B), dtype=np.float64)
            if made.shape != (A.shape[0], B.shape[0]):
                raise ValueError(
                    f"the kernel gave a matrix of shape {made.shape} for {A.shape[0]} and "
                    f"{B.shape[0]} examples"
                )
            if not np.isfinite(made).all():
                raise ValueError("the kernel gave numbers that are not finite")
            return made.astype(dtype, copy=False)
        if self.name in ("rbf", SQUARED_DISTANCE):
            return self._gaussian(A, B, dtype)
        products = _products(A, B)
        if self.name == "polynomial":
            products *= self.gamma
            products += self.coef0
            np.power(products, self.degree, out=products)
        return products.astype(dtype, copy=False)

    def of_pairs(self, A: Any) -> Vector:
        """Return the kernel of each row with itself."""
        if self.function is not None:
            return np.array([self.between(A[i : i + 1], A[i : i + 1])[0, 0] for i in range(len(A))])
        if self.name == "rbf":
            return np.ones(A.shape[0])
        norms = _squared_norms(A)
        if self.name == "polynomial":
            return np.asarray((self.gamma * norms + self.coef0) ** self.degree)
        return norms

    def _gaussian(self, A: Any, B: Any, dtype: Any) -> NDArray[Any]:
        exponents = _products(A, B)
        exponents *= 2.0 * self.gamma
        exponents -= self.gamma * _squared_norms(A)[:, None]
        exponents -= self.gamma * _squared_norms(B)
        rounded: NDArray[Any] = exponents.astype(dtype, copy=False)
        np.minimum(rounded, 0.0, out=rounded)
        if self.name == SQUARED_DISTANCE:
            np.negative(rounded, out=rounded)
            return rounded
        np.exp(rounded, out=rounded)
        return rounded

    def base(self) -> Kernel:
        """Return what this kernel is a function of, entry by entry, for every ``gamma``."""
        if self.name == "rbf":
            return Kernel(SQUARED_DISTANCE)
        return Kernel("linear") if self.name == "polynomial" else self

    def of_base(self, entries: NDArray[Any]) -> NDArray[Any]:
        """Return the kernel of entries of its base, which are overwritten."""
        if self.name == "rbf":
            entries *= -self.gamma
            np.exp(entries, out=entries)
        elif self.name == "polynomial":
            entries *= self.gamma
            entries += self.coef0
            np.power(entries, self.degree, out=entries)
        return entries

    def has_tensors(self, n_features: int) -> bool:
        """Say whether it is an inner product of tensors that are not too large."""
        if self.name == "polynomial":
            return bool((n_features + 1) ** self.degree <= _MOST_OF_TENSOR)
        return self.name == "linear"

    def tensor_length(self, X: Any, duals: Vector) -> tuple[float, float]:
        """Return the length of ``sum_i duals_i k(x_i, .)``, and by how much it may be off at most.

        With ``v = (sqrt(gamma) x, sqrt(coef0))``, a polynomial is the inner product of tensors ``v
        (x) ... (x) v``, as many times as its degree says. The length of a sum of these is rounded
        by a share of the terms' lengths; its square, as a sum of products of kernels, would be by a
        share of their squares, which may be 1e10 times as large.
        """
        degree = 1
        if self.name == "linear":
            tensor, norms = X.T @ duals, np.sqrt(_squared_norms(X))
        else:
            degree = self.degree
            dense = _double(X if isinstance(X, np.ndarray) else X.toarray())
            own = np.full((len(dense), dense.shape[1] + 1), np.sqrt(self.coef0))
            own[:, :-1] = np.sqrt(self.gamma) * dense
            powers = [np.ones((len(own), 1))]
            for _ in range((degree + 1) // 2):
                products = powers[-1][:, :, None] * own[:, None, :]
                powers.append(products.reshape(len(own), -1))
            tensor = (powers[degree // 2] * duals[:, None]).T @ powers[-1]
            norms = np.sqrt(_squared_norms(own)) ** degree
        # Sums of n terms, each a product of rounded factors (Higham 2002, section 3.1).
        roundings = len(duals) + 4.0 * degree + 4.0
        off = float(np.finfo(np.float64).eps) * roundings * float(np.abs(duals) @ norms)
        return float(np.linalg.norm(tensor)), off

    @property
    def roundings_of_base(self) -> float:
        """How many roundings of its largest entry are in one that `of_base` returns, at most.

        Of ``exp(-t)`` these are its own, and ``t exp(-t) < 0.4`` of the exponent's.
        """
        return self.degree + 1.0 if self.name == "polynomial" else 1.0


def around_zero(A: Any, B: Any) -> tuple[Any, Any]:
    """Return dense examples less the mean of ``B``; sparse ones as they are.

    Distances are differences of squares: small ones if the data lie around zero.
    """
    if not (isinstance(A, np.ndarray) and isinstance(B, np.ndarray)):
        return A, B
    middle = B.mean(axis=0, dtype=np.float64)
    return A - middle, B - middle


def _products(A: Any, B: Any) -> Matrix:
    """Return the inner product of each row of ``A`` with each row of ``B``, in float64."""
    if isinstance(A, np.ndarray) and isinstance(B, np.ndarray):
        return np.asarray(_double(A) @ _double(B).T)
    if isinstance(A, np.ndarray) or isinstance(B, np.ndarray):
        return np.asarray(A @ _double(B).T if isinstance(B, np.ndarray) else (B @ _double(A).T).T)
    columns = A.shape[1]
    in_common = A.nnz / max(A.shape[0], 1) * B.nnz / max(B.shape[0], 1) / max(columns, 1)
    if columns <= _MOST_COLUMNS and columns <= _DENSE_SHARE * max(in_common, 1.0) + 256:
        return np.asarray(_double(A.toarray()) @ _double(B.toarray()).T)
    return np.asarray((A.astype(np.float64) @ B.astype(np.float64).T).toarray())


def _squared_norms(A: Any) -> Vector:
    if isinstance(A, np.ndarray):
        A = _double(A)
        return np.asarray(np.einsum("ij,ij->i", A, A))
    squared = A.astype(np.float64).power(2)
    return np.asarray(squared.sum(axis=1), dtype=np.float64).ravel()


def _double(A: NDArray[Any]) -> Matrix:
    return np.asarray(A, dtype=np.float64)
