"""Quantiles of a number that do not cross: a range in which nine of ten targets lie.

The noise grows with x, so the range must do so too. Quantiles that are fitted one by one may cross
each other; these are fitted together, in the right order everywhere.
"""

import numpy as np

import cutplane as cp

rng = np.random.default_rng(0)
x = rng.uniform(0.0, 4.0, size=1500)
y = 1.0 + 2.0 * x + (0.3 + 0.5 * x) * rng.normal(size=len(x))
X = x[:, None]

model = cp.LinearQuantiles((0.05, 0.5, 0.95), lam=1e-4).fit(X[:1000], y[:1000])
low, middle, high = model.predict(X[1000:]).T

inside = np.mean((low <= y[1000:]) & (y[1000:] <= high))
print(f"{100 * inside:.0f} % of the other targets lie between the outer quantiles")
for at in (0.0, 2.0, 4.0):
    print(at, np.round(model.predict([[at]])[0], 2))

assert (low <= middle).all()
assert (middle <= high).all()
