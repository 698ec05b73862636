"""A run that ends early and goes on later, from a file, as if it had never ended."""

import tempfile
from pathlib import Path

import numpy as np

import cutplane as cp

rng = np.random.default_rng(0)
X = rng.normal(size=(3000, 20))
y = np.where(X[:, 0] + rng.normal(size=3000) > 0.0, 1.0, -1.0)
risk, regularizer, method = cp.ScoredRisk(X, y, cp.Hinge()), cp.L2(1e-4), cp.bmrm()

with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "run"
    first = cp.minimize(
        risk, regularizer, method=method, max_iter=10, checkpoint=cp.Checkpoint(file)
    )
    print(f"{first.status} after {first.iterations} iterations")
    second = cp.resume(file, risk, regularizer)
    print(f"{second.status} after {second.iterations}")

whole = cp.minimize(risk, regularizer, method=method)
assert second.objective == whole.objective
