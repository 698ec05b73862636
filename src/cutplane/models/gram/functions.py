"""Kernels: inner products of examples in a space that nobody has to write down; and their matrix.

    linear      x.y
    polynomial  (gamma * x.y + coef0) ** degree
    rbf         exp(-gamma * |x - y|^2)

They are computed block by block in float64, from products of matrices, whatever the examples are
stored in. The kernels of all ``gamma`` are functions of one matrix, entry by entry: of squared
distances, or of products.

The matrix of a sample is symmetric, so each block is computed once and written twice. Threads share
the blocks, each with a BLAS of one thread, so that exponentials are shared too.

**Rounding.** Large matrices are kept in float32, in which methods take their steps; what is proven
is computed from the examples once more. What is kept has to be positive semidefinite, which
rounding takes away: independent errors of at most ``u = eps/2`` times an entry make a matrix with
eigenvalues above ``-2 u sqrt(m) max(K)`` (Wigner's semicircle has ``2/sqrt(3)`` in place of 2). So
much is added to the diagonal: 1e-5 for 10,000 examples, as if each example had that much noise of
its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import comb, factorial, prod
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import EPS, Matrix, Vector, dense
from cutplane.compute.pace import deadline
from cutplane.compute.threads import default_threads, one_blas_thread, run_blocks

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
# A squared distance is a difference of squares, and is left to their rounding if it is a smaller
# share of them. That counts where ``gamma`` times the squares is large.
_NEAR, _LARGE_SQUARES = 1e-3, 4096.0
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
        return self.of_base(_products(A, B)).astype(dtype, copy=False)

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
        own, others = self.gamma * _squared_norms(A), self.gamma * _squared_norms(B)
        exponents -= own[:, None]
        exponents -= others
        for i in np.flatnonzero(own + others.max(initial=0.0) > _LARGE_SQUARES):
            squares = own[i] + others
            near = np.flatnonzero((exponents[i] > -_NEAR * squares) & (squares > _LARGE_SQUARES))
            if len(near):
                differences = B[near].astype(np.float64) - A[np.full(len(near), i)]
                exponents[i, near] = -self.gamma * _squared_norms(differences)
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

    def n_tensor_entries(self, n_features: int) -> int:
        """Return how many entries the tensors have, equal ones counted once."""
        return comb(n_features + self.degree, self.degree) if self.name != "linear" else n_features

    def tensors(self, X: Any) -> Matrix:
        """Return the tensors of which the kernel is the inner product: a row for each example.

        Of a symmetric tensor's equal entries one is kept, times the root of how many they are.
        """
        rows = _double(dense(X))
        if self.name == "linear":
            return rows
        factors = self._factors(rows)
        out = np.empty((len(rows), self.n_tensor_entries(rows.shape[1])))
        entries = combinations_with_replacement(range(factors.shape[1]), self.degree)
        for k, entry in enumerate(entries):
            equal = factorial(self.degree) // prod(factorial(entry.count(i)) for i in {*entry})
            np.multiply(np.sqrt(equal), factors[:, entry].prod(axis=1), out=out[:, k])
        return out

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
            own = self._factors(_double(dense(X)))
            powers = [np.ones((len(own), 1))]
            for _ in range((degree + 1) // 2):
                products = powers[-1][:, :, None] * own[:, None, :]
                powers.append(products.reshape(len(own), -1))
            tensor = (powers[degree // 2] * duals[:, None]).T @ powers[-1]
            norms = np.sqrt(_squared_norms(own)) ** degree
        # Sums of n terms, each a product of rounded factors (Higham 2002, section 3.1).
        roundings = len(duals) + 4.0 * degree + 4.0
        off = EPS * roundings * float(np.abs(duals) @ norms)
        return float(np.linalg.norm(tensor)), off

    def _factors(self, rows: Matrix) -> Matrix:
        """Return the vectors ``(sqrt(gamma) x, sqrt(coef0))``."""
        factors = np.full((len(rows), rows.shape[1] + 1), np.sqrt(self.coef0))
        factors[:, :-1] = np.sqrt(self.gamma) * rows
        return factors

    @property
    def roundings_of_base(self) -> float:
        """How many roundings of its largest entry are in one that `of_base` returns, at most.

        Of ``exp(-t)`` these are its own, and ``t exp(-t) < 0.4`` of the exponent's.
        """
        return self.degree + 1.0 if self.name == "polynomial" else 1.0


def between(kernel: Kernel, A: Any, B: Any) -> Matrix:
    """Return the kernel of each row of ``A`` with each row of ``B``, wherever these lie."""
    pair = _around_zero(A, B) if kernel.name == "rbf" else (A, B)
    return np.asarray(kernel.between(*pair))


def _around_zero(A: Any, B: Any) -> tuple[Any, Any]:
    """Return dense examples less the mean of ``B``; sparse ones as they are.

    Distances are differences of squares: small ones if the data lie around zero.
    """
    if not isinstance(B, np.ndarray):
        return A, B
    middle = B.mean(axis=0, dtype=np.float64)
    return A - middle, B - middle


def _products(A: Any, B: Any) -> Matrix:
    """Return the inner product of each row of ``A`` with each row of ``B``, in float64.

    Both are dense, or both are sparse.
    """
    if isinstance(A, np.ndarray):
        return np.asarray(_double(A) @ _double(B).T)
    columns = A.shape[1]
    in_common = A.nnz / max(A.shape[0], 1) * B.nnz / max(B.shape[0], 1) / max(columns, 1)
    if columns <= _MOST_COLUMNS and columns <= _DENSE_SHARE * max(in_common, 1.0) + 256:
        return np.asarray(_double(A.toarray()) @ _double(B.toarray()).T)
    return np.asarray((A.astype(np.float64) @ B.astype(np.float64).T).toarray())


def _squared_norms(A: Any) -> Vector:
    if isinstance(A, np.ndarray):
        A = _double(A)
        return np.asarray(np.einsum("ij,ij->i", A, A))
    return np.asarray(A.astype(np.float64).power(2).sum(axis=1)).ravel()


def _double(A: NDArray[Any]) -> Matrix:
    return np.asarray(A, dtype=np.float64)


# Up to so many examples the matrix is kept in float64: it takes 32 MB at most.
FULL_PRECISION = 2048
# And up to so many where float32 would be too coarse: 512 MB.
MOST_IN_DOUBLE = 8192

# Rows of a block. Blocks of 512 x 512 float64 numbers, 2 MB, stay in a core's cache.
_ROWS = 512
# Columns that a thread computes of some rows at a time.
_COLUMNS = 2048

T = TypeVar("T")

# Entries of a symmetric matrix may differ by this share of the largest.
_SYMMETRIC = 1e-6
# Eigenvalues below this share of the largest one, with a minus sign, are no rounding.
_INDEFINITE = 1e-6


# A dense copy of the examples, around zero, may take this share of the matrix.
_SHARE_OF_MATRIX = 0.15


class IndefiniteKernel(ValueError):
    """A matrix that should hold inner products has a negative eigenvalue."""


def ridge_of(dtype: Any, n_examples: int, largest: float) -> float:
    """Return what rounding to a type asks to be added to a diagonal with this largest entry."""
    return float(np.finfo(dtype).eps) * float(np.sqrt(n_examples)) * largest


def precision_of(kernel: Kernel, X: Any, most_added: float = np.inf) -> Any:
    """Return the type to keep a matrix in, if no more than so much should be added to its diagonal.

    Beyond 8,192 examples it is float32 all the same.
    """
    m = X.shape[0]
    if m <= FULL_PRECISION:
        return np.float64
    if m > MOST_IN_DOUBLE or kernel.function is not None or most_added == np.inf:
        return np.float32
    own = X.diagonal() if kernel.name == "precomputed" else kernel.of_pairs(X)
    return np.float64 if ridge_of(np.float32, m, float(own.max())) > most_added else np.float32


def kernel_matrix(
    kernel: Kernel, X: Any, dtype: Any = None, *, n_threads: int | None = None
) -> NDArray[Any]:
    """Return the kernel of all pairs of examples; one that is no inner product is refused."""
    dtype = precision_of(kernel, X) if dtype is None else dtype
    if kernel.name == "precomputed":
        matrix = copied(X, dtype)
    else:
        matrix = computed(kernel, X, dtype, n_threads=n_threads)
    if not kernel.proven:
        _require_semidefinite(matrix)
    return matrix


def computed(kernel: Kernel, X: Any, dtype: Any, *, n_threads: int | None) -> NDArray[Any]:
    """Return the kernel of all pairs of examples in a type, however many they are."""
    m = X.shape[0]
    matrix = np.empty((m, m), dtype)
    compute(kernel, prepared(kernel, X, matrix.nbytes), matrix, n_threads)
    return matrix


def _shared(
    task: Callable[[T], None], parts: Sequence[T], kernel: Kernel, n_threads: int | None
) -> None:
    """Do a task for each part, in several threads, each with a BLAS of one thread.

    One thread does them all if the kernel is a function of the user's, who may not expect threads.
    """

    def run(first: int, last: int) -> None:
        for part in parts[first:last]:
            task(part)

    if kernel.function is not None:
        run(0, len(parts))
        return
    with one_blas_thread():
        run_blocks(run, len(parts), n_threads=n_threads or default_threads())


def _slices(n: int, size: int = _ROWS) -> list[slice]:
    return [slice(begin, begin + size) for begin in range(0, n, size)]


def transformed(
    kernel: Kernel,
    base: NDArray[Any],
    rows: NDArray[np.intp],
    columns: NDArray[np.intp],
    *,
    n_threads: int | None = None,
) -> NDArray[Any]:
    """Return the kernel of some rows and columns of the matrix of its `Kernel.base`."""
    out = np.empty((len(rows), len(columns)), dtype=base.dtype)

    def fill(part: slice) -> None:
        out[part] = kernel.of_base(base[np.ix_(rows[part], columns)])

    _shared(fill, _slices(len(rows)), kernel, n_threads)
    return out


def prepared(kernel: Kernel, X: Any, n_bytes: int) -> Any:
    """Return the examples as the blocks of a matrix of this size are best computed of them."""
    m, n_features = X.shape
    small = 8 * m * n_features <= _SHARE_OF_MATRIX * n_bytes
    if not kernel.proven or not (small or m <= FULL_PRECISION):
        return X
    rows = _double(dense(X))
    measures_distance = kernel.name in ("rbf", SQUARED_DISTANCE)
    return _around_zero(rows, rows)[0] if measures_distance else rows


def compute(
    kernel: Kernel,
    X: Any,
    out: NDArray[Any],
    n_threads: int | None,
    places: NDArray[np.intp] | None = None,
) -> None:
    """Write the kernel of all pairs of examples; with ``places``, of those alone.

    It is left, by `OutOfTime`, when the step of the run should end.
    """
    slices = _slices(len(out) if places is None else len(places))
    blocks = slices if places is None else [places[block] for block in slices]
    require_time = deadline()

    def at(first: Any, second: Any) -> tuple[Any, ...]:
        return (first, second) if places is None else np.ix_(first, second)

    def fill(pair: tuple[int, int]) -> None:
        require_time()
        rows, columns = (blocks[number] for number in pair)
        block = _finite(kernel.between(X[rows], X[columns], out.dtype))
        if rows is columns:
            if not kernel.proven:
                _require_symmetric(block, block.T)
            block = np.triu(block) + np.triu(block, 1).T
        else:
            out[at(columns, rows)] = block.T
        out[at(rows, columns)] = block

    pairs = [*combinations_with_replacement(range(len(blocks)), 2)]
    _shared(fill, pairs, kernel, n_threads)


def compute_rows(
    kernel: Kernel, X: Any, rows: NDArray[np.intp], out: NDArray[Any], n_threads: int
) -> None:
    """Write the kernel of some examples with all of them, into the rows of these."""
    given, require_time = X[rows], deadline()

    def fill(columns: slice) -> None:
        require_time()
        out[rows, columns] = _finite(kernel.between(given, X[columns], out.dtype))

    _shared(fill, _slices(len(out), _COLUMNS), kernel, n_threads)


def _finite(block: NDArray[Any]) -> NDArray[Any]:
    if not np.isfinite(block).all():
        raise ValueError("the kernel overflows: scale the features, or lower its degree")
    return block


def products_with(
    kernel: Kernel, A: Any, B: Any, coef: Matrix, *, n_threads: int | None = None
) -> Matrix:
    """Return ``k(A, B) coef'`` without keeping the kernel: a row an example of ``A``."""
    out = np.zeros((A.shape[0], len(coef)))

    def add(rows: slice) -> None:
        for part in _slices(B.shape[0], _COLUMNS):
            out[rows] += between(kernel, A[rows], B[part]) @ coef[:, part].T

    _shared(add, _slices(len(out)), kernel, n_threads)
    return out


def copied(X: Any, dtype: Any = np.float64) -> NDArray[Any]:
    """Return a copy of a matrix that was given, having compared it with its transpose."""
    m = X.shape[0]
    out = np.empty((m, m), dtype)
    if X.shape != (m, m):
        raise ValueError(
            f"kernel='precomputed' needs the square matrix of all examples, got the shape {X.shape}"
        )
    for rows, columns in combinations_with_replacement(_slices(m), 2):
        block = _double(X[rows, columns])
        _require_symmetric(block, _double(X[columns, rows]).T)
        out[columns, rows] = block.T
        out[rows, columns] = np.triu(block) + np.triu(block, 1).T if rows is columns else block
    return out


def _require_symmetric(block: NDArray[Any], other: NDArray[Any]) -> None:
    if (np.abs(block - other) > _SYMMETRIC * np.abs(block).max(initial=0.0)).any():
        raise ValueError("the kernel matrix is not symmetric")


def _require_semidefinite(matrix: NDArray[Any]) -> None:
    m = len(matrix)
    if m > FULL_PRECISION:
        seen = np.random.default_rng(0).choice(m, FULL_PRECISION, replace=False)
        matrix = matrix[np.ix_(seen, seen)]
    with one_blas_thread():
        eigenvalues = np.linalg.eigvalsh(np.asarray(matrix, dtype=np.float64))
    smallest, largest = float(eigenvalues[0]), float(eigenvalues[-1])
    if smallest < -_INDEFINITE * max(largest, 0.0) or largest < 0.0:
        raise IndefiniteKernel(
            f"the kernel matrix has the eigenvalue {smallest:.3g} (the largest is {largest:.3g}): "
            "it holds no inner products, and nothing could be proven of a fit"
        )
