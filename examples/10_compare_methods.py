"""Several methods on one problem: all prove the same tolerance, at different costs."""

import numpy as np

import cutplane as cp

rng = np.random.default_rng(0)
X = rng.normal(size=(4000, 30))
y = np.where(X @ rng.normal(size=30) + 3.0 * rng.normal(size=4000) > 0.0, 1.0, -1.0)
risk = cp.ScoredRisk(X, y, cp.Hinge())

found = {}
for name, method in {
    "bmrm": cp.bmrm(),
    "level": cp.level(),
    "newton": cp.newton(),
    "dual ascent": cp.dual_ascent(),
}.items():
    found[name] = cp.minimize(risk, cp.L2(1e-4), method=method, tol=1e-3)
    result = found[name]
    print(f"{name}: {result.iterations} iterations, {result.evaluations} evaluations")

# Every bound is below every objective, whatever the method.
certificates = [result.certificate for result in found.values()]
assert max(c.lower_bound for c in certificates) <= min(c.objective for c in certificates)
