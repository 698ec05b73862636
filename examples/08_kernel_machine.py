"""A support vector machine with a kernel: two rings that no line can tell apart.

The certificate is that of the fit in the space of the kernel.
"""

import numpy as np

import cutplane as cp

rng = np.random.default_rng(0)
angle = rng.uniform(0.0, 2.0 * np.pi, size=600)
ring = rng.integers(0, 2, size=600)
radius = 1.0 + ring + 0.2 * rng.normal(size=600)
X = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])

line = cp.LinearClassifier("hinge", lam=1e-3).fit(X[:400], ring[:400])
curve = cp.KernelClassifier("hinge", lam=1e-3).fit(X[:400], ring[:400])

print(f"a line: {line.score(X[400:], ring[400:]):.2f} right")
print(f"a kernel: {curve.score(X[400:], ring[400:]):.2f} right, of {len(curve.support_)} vectors")
print(curve.certificate_)

assert curve.score(X[400:], ring[400:]) > line.score(X[400:], ring[400:])
