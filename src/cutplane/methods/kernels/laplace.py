"""The posterior of a Gaussian process around its most likely function, by Laplace's method.

With the prior covariance ``s k``, ``s = 1 / (lam * M)`` for weights ``w`` that sum to ``M``, the
logistic loss and its curvatures ``W = w p (1 - p)`` at the minimizer ``f`` of ``J`` (Rasmussen and
Williams 2006, section 3.4):

    B = 1 + sqrt(W) s K sqrt(W)
    log marginal likelihood = -M J(f) - log|B| / 2
    variance at x = s k(x, x) - k_x' sqrt(W) B^-1 sqrt(W) k_x,         k_x = s k(x_i, x)

Probabilities are means of the logistic function over a normal distribution.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import expit, ndtr

from cutplane.compute.arrays import Matrix, Vector
from cutplane.maps.kernels.matrix import one_blas_thread
from cutplane.methods.kernels.factor import lower_factor

# Up to this standard deviation the logistic function is smooth beside the normal density, and few
# nodes of Gauss and Hermite are exact to 1e-9; beyond it is the other way around, and the mean is
# an integral over the logistic density, by the trapezoidal rule.
_NARROW = 1.0
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(40)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_STEP = 0.25
_PLACES = np.arange(-160, 161) * _STEP
_DENSITY = _STEP * expit(_PLACES) * expit(-_PLACES)


@dataclass(frozen=True)
class Posterior:
    """Laplace's posterior for one problem.

    Attributes
    ----------
    roots : ndarray
        ``sqrt(W)`` for each example.
    factor : ndarray
        Cholesky's lower factor of ``B``.
    scale : float
        ``s``.
    """

    roots: Vector
    factor: Matrix
    scale: float

    @classmethod
    def of(cls, matrix: Matrix, curvatures: Vector, scale: float) -> Posterior:
        """Return the posterior for a kernel matrix and curvatures."""
        roots = np.sqrt(curvatures)
        inner = scale * roots[:, None] * matrix * roots
        inner[np.diag_indices_from(inner)] += 1.0
        return cls(roots, lower_factor(inner), scale)

    @property
    def half_log_determinant(self) -> float:
        """``log|B| / 2``."""
        return float(np.log(np.diagonal(self.factor)).sum())

    def variances(self, kernels: Matrix, with_themselves: Vector) -> Vector:
        """Return the variance at some examples.

        Parameters
        ----------
        kernels : ndarray of shape (n_new, n_examples)
        with_themselves : ndarray of shape (n_new,)
            The kernel of each new example with itself.
        """
        right = (self.scale * kernels * self.roots).T
        with one_blas_thread():
            solved = solve_triangular(self.factor, right, lower=True, check_finite=False)
        reduced = self.scale * with_themselves - np.einsum("ij,ij->j", solved, solved)
        return np.asarray(np.maximum(reduced, 0.0))


def mean_probability(means: Vector, variances: Vector) -> Vector:
    """Return the mean of ``1 / (1 + exp(-f))`` for normal ``f``, to nine digits."""
    deviations = np.sqrt(variances)
    out = np.empty(len(means))
    narrow = deviations <= _NARROW
    near = means[narrow, None] + deviations[narrow, None] * _NODES
    out[narrow] = expit(near) @ _WEIGHTS
    wide = ~narrow
    out[wide] = ndtr((means[wide, None] - _PLACES) / deviations[wide, None]) @ _DENSITY
    return out
