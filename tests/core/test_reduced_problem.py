"""The reduced problem with regularizers that are no quadratics, and the line search with them."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize_scalar

import cutplane as cp
from cutplane.core.bundle import Model, maximize_dual
from cutplane.core.policies.flat import best_plane, repaired
from cutplane.core.protocols import Plane
from cutplane.core.search import minimize_on_segment

from ..regularizers.registry import CASES, D
from .problems import MaxOfPlanes

CURVED = [name for name in CASES if name != "L1"]
seeds = st.integers(0, 10**6)


def random_model(rng, n, d=D):
    slopes = rng.normal(size=(n, d)) * rng.choice([0.1, 1.0])
    slopes[0] = 0.0
    if n > 2:
        slopes[-1] = slopes[1]  # one twice, so that the solution is not unique
    offsets = rng.uniform(size=n)
    return Model(
        slopes, np.arange(n), offsets, np.zeros(n), groups=np.zeros(n, dtype=np.int64), n_groups=1
    )


def corner(n, i):
    return np.eye(n)[i]


@pytest.mark.parametrize("name", CURVED)
@given(seed=seeds, n=st.integers(1, 25))
def test_weights_are_optimal(name, seed, n):
    regularizer = CASES[name].regularizer
    model = random_model(np.random.default_rng(seed), n)
    alpha = maximize_dual(regularizer, model, corner(n, 0), accuracy=1e-9)
    assert (alpha >= 0.0).all()
    assert alpha.sum() == pytest.approx(1.0, abs=1e-12)
    conjugate, w = regularizer.conjugate(-(alpha @ model.storage))
    dual = float(alpha @ model.offsets) - conjugate
    primal = regularizer.value(w) + float(np.max(model.storage @ w + model.offsets))
    assert dual <= primal + 1e-12 * (1.0 + abs(primal))
    assert primal - dual <= 2e-9 * (1.0 + abs(primal))


@given(seed=seeds, n=st.integers(1, 15), d=st.integers(1, 8), radius=st.floats(0.01, 2.0))
def test_linear_program_gives_the_best_plane(seed, n, d, radius):
    rng = np.random.default_rng(seed)
    model, floor = random_model(rng, n, d), -rng.uniform()
    plane = best_plane(model, floor, radius, corner(n, n - 1))
    assert np.abs(plane.slope).max() <= radius
    # min_w radius * |w|_1 + max(floor, model), as a linear program in w itself.
    slopes, offsets = np.vstack([model.storage, np.zeros(d)]), np.append(model.offsets, floor)
    rows = np.column_stack([slopes, -slopes, -np.ones(n + 1)])
    cost = np.append(np.full(2 * d, radius), 1.0)
    bounds = [(0, None)] * (2 * d) + [(None, None)]
    optimum = linprog(cost, A_ub=rows, b_ub=-offsets, bounds=bounds).fun
    assert plane.offset == pytest.approx(optimum, rel=1e-6, abs=1e-9)


@given(seed=seeds, radius=st.floats(1e-6, 10.0))
def test_repaired_plane_is_below_both(seed, radius):
    rng = np.random.default_rng(seed)
    plane, floor = Plane(rng.normal(size=3), float(rng.normal())), float(rng.normal())
    mixed = repaired(plane, floor, radius)
    assert np.abs(mixed.slope).max() <= radius
    assert cp.L1(radius).conjugate(-mixed.slope)[0] == 0.0
    for w in 10.0 * rng.normal(size=(20, 3)):
        height = plane.slope @ w + plane.offset
        assert mixed.slope @ w + mixed.offset <= max(height, floor) + 1e-12


@pytest.mark.parametrize("name", CASES)
@given(seed=seeds)
@example(seed=3096)  # an entropy falls infinitely steeply at the start, and is lowest at 5e-6
@example(seed=460)
def test_search_on_a_ray(name, seed):
    rng = np.random.default_rng(seed)
    case = CASES[name]
    risk = MaxOfPlanes(rng.normal(size=(6, D)), rng.normal(size=6))
    start, end = (case.into_domain(w) for w in rng.normal(size=(2, D)))
    segment = risk.at(start).toward(risk.at(end))

    def on_ray(step):
        return case.regularizer.value(start + step * (end - start))

    def total(step):
        return on_ray(step) + risk.at(start + step * (end - start)).value

    step = minimize_on_segment(segment, on_ray, farthest=8.0)
    assert 0.0 <= step <= 8.0
    grid = [k for k in np.linspace(0.0, 8.0, 400) if np.isfinite(total(k))]
    best = min(grid, key=total)
    near = minimize_scalar(total, bounds=(max(best - 0.03, 0.0), min(best + 0.03, grid[-1])))
    lowest = min(total(best), near.fun, total(0.0), total(1.0))
    # Nearly all of the gain: the search stops when steps differ by 1e-5.
    assert total(step) <= lowest + 1e-3 * (total(0.0) - lowest) + 1e-9


def test_sparse_solutions_have_exact_zeros():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(200, 30))
    y = np.where(X[:, :3] @ [2.0, -2.0, 1.0] + 0.5 * rng.normal(size=200) > 0, 1.0, -1.0)
    for loss in (cp.Hinge(), cp.Logistic()):
        w = cp.minimize(cp.ScoredRisk(X, y, loss), cp.L1(0.05), tol=1e-4).w
        exact = cp.minimize(cp.ScoredRisk(X, y, loss), cp.L1(0.05), tol=1e-8).w
        assert 3 <= np.count_nonzero(exact) <= 6
        assert np.count_nonzero(w) <= np.count_nonzero(exact) + 2
