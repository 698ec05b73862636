"""A convex function of your own, with subgradients: the largest of several errors.

`cp.minimize` needs the value and a subgradient at a point. Here the risk is the largest absolute
error of a line, plus a small squared norm; the certificate says how far from the best line we are.
"""

import numpy as np

import cutplane as cp

x = np.linspace(-1.0, 1.0, 41)
A = np.column_stack([np.ones_like(x), x])
b = np.exp(x)


def largest_error(w):
    """Return the largest error, and a subgradient of it."""
    errors = A @ w - b
    worst = np.argmax(np.abs(errors))
    return abs(errors[worst]), np.sign(errors[worst]) * A[worst]


risk = cp.FunctionRisk(largest_error, 2)
result = cp.minimize(risk, cp.L2(1e-5), tol=1e-4)
print(f"{result.w[0]:.4f} + {result.w[1]:.4f} x, largest error {largest_error(result.w)[0]:.4f}")
print(result.certificate)

assert result.status.success
