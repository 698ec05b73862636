"""The strength of the regularizer by cross-validation, and sparse coefficients.

Two hundred features, of which five matter. The L1 penalty sets most of the others to zero, exactly.
"""

import numpy as np

import cutplane as cp

rng = np.random.default_rng(0)
X = rng.normal(size=(600, 200))
coef = np.zeros(200)
coef[:5] = [3.0, -2.0, 2.0, -1.5, 1.0]
y = X @ coef + rng.normal(size=600)

model = cp.LinearRegressor("squared", lam="cv", penalty="l1").fit(X[:400], y[:400])

found = np.flatnonzero(model.coef_)
print(f"lam = {model.lam_:.2g}, {len(found)} of 200 coefficients are not zero")
print(f"R^2 on other data: {model.score(X[400:], y[400:]):.3f}")
print(model.certificate_)

assert set(range(5)) <= set(found)
