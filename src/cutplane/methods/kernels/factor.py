"""Cholesky's factor of a matrix that is positive definite, but for rounding."""

from __future__ import annotations

import numpy as np

from cutplane.compute.arrays import Matrix
from cutplane.maps.kernels.matrix import one_blas_thread

_EPS = float(np.finfo(np.float64).eps)
# What is added to the diagonal grows by this factor, if it was not enough.
_MORE = 10.0


def lower_factor(matrix: Matrix) -> Matrix:
    """Return the lower factor, of a matrix that is changed.

    Where rounding has left eigenvalues that are not positive, so much is added to the diagonal that
    there are none.
    """
    from scipy.linalg import LinAlgError, cholesky  # slow to import

    largest = float(matrix.diagonal().max(initial=0.0))
    added, diagonal = 0.0, np.diag_indices_from(matrix)
    # Several threads of LAPACK would go on spinning after each call.
    with one_blas_thread():
        while True:
            try:
                return np.asarray(cholesky(matrix, lower=True, check_finite=False))
            except LinAlgError:
                if not added < largest:  # so much is no rounding
                    raise
            more = max(_MORE * added, len(matrix) * _EPS * largest)
            matrix[diagonal] += more - added
            added = more
