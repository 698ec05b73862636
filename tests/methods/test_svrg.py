"""Variance-reduced steps: the same as with whole vectors, certified, refused where they must be."""

import numpy as np
import pytest
import scipy.sparse as sp

import cutplane as cp
from cutplane.losses import CLASSIFICATION, REGRESSION
from cutplane.solvers.dual_ascent import shuffle
from cutplane.solvers.stochastic.settings import seeded
from cutplane.solvers.stochastic.svrg import svrg

SMOOTH = [
    loss
    for loss in (factory() for factory in (*CLASSIFICATION.values(), *REGRESSION.values()))
    if loss.smooth and not isinstance(loss, cp.Exponential | cp.Poisson)
]


def sample(loss, make=sp.csr_array, intercept=False):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((60, 8)) < 0.5, rng.normal(size=(60, 8)), 0.0)
    signal = X @ rng.normal(size=8) + 0.3
    y = signal if loss.task == "regression" else np.where(signal > 0.0, 1.0, -1.0)
    weights = rng.uniform(0.5, 2.0, 60)
    weights[7] = 0.0
    return cp.ScoredRisk(make(X), y, loss, weights=weights, intercept=intercept)


@pytest.mark.parametrize("loss", SMOOTH, ids=repr)
@pytest.mark.parametrize("make", [sp.csr_array, np.ascontiguousarray], ids=["sparse", "dense"])
@pytest.mark.parametrize("intercept", [False, True])
def test_certified(loss, make, intercept):
    risk = sample(loss, make, intercept)
    found = cp.minimize(risk, cp.L2(0.1), method=svrg(), tol=1e-3, max_iter=400)
    exact = cp.minimize(risk, cp.L2(0.1), tol=1e-8)
    assert found.status == "optimal"
    for record in found.history:
        assert record.lower_bound <= exact.objective * (1 + 1e-12)


def test_steps_are_those_of_the_method():
    risk, lam, eta = sample(cp.Logistic()), 0.1, 0.05
    found = cp.minimize(risk, cp.L2(lam), method=svrg(step=eta, seed=3), max_iter=2, tol=1e-12)
    X = sp.csr_array(risk.rows.matrix, shape=risk.rows.shape).toarray()
    used, seed, w = np.flatnonzero(risk.weights), seeded(3), np.zeros(8)
    importance = len(used) * risk.weights
    for _ in range(2):
        order = np.flatnonzero(risk.weights)
        shuffle(order, seed)
        there, a = w.copy(), risk.at(w).plane().slope
        for i in order:
            q, q_there = (-risk.y[i] / (1 + np.exp(risk.y[i] * X[i] @ u)) for u in (w, there))
            w = w - eta * (lam * w + importance[i] * (q - q_there) * X[i] + a)
    np.testing.assert_allclose(found.state.own.w, w, rtol=1e-10, atol=1e-12)


def test_refusals():
    with pytest.raises(ValueError, match="smooth loss"):
        cp.minimize(sample(cp.Hinge()), cp.L2(0.1), method=svrg())
    with pytest.raises(ValueError, match="give svrg a step"):
        cp.minimize(sample(cp.Exponential()), cp.L2(0.1), method=svrg())
    with pytest.raises(ValueError, match="step must be positive"):
        svrg(step=0.0)
