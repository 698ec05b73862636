"""L-BFGS with a rough curvature for each pair: runs go on as if never stopped, and bounds hold."""

import numpy as np
import pytest
import scipy.sparse

import cutplane as cp
from cutplane.solvers.quasi_newton import PairCurvature, with_rough_bends


@pytest.fixture(scope="module")
def risk():
    rng = np.random.default_rng(0)
    n, n_labels = 600, 4
    y = rng.integers(0, n_labels, n)
    # Some features are common, most are rare, and about half of them tell the label.
    columns = np.minimum(rng.geometric(0.03, size=(n, 6)), 200) * n_labels
    columns += np.where(rng.random((n, 6)) < 0.5, y[:, None], rng.integers(0, n_labels, (n, 6)))
    rows = np.repeat(np.arange(n), 6)
    X = scipy.sparse.csr_array((np.ones(6 * n), (rows, columns.ravel())))
    offsets = np.arange(0, n + 1, 10)
    return cp.ChainRisk(X, y, offsets, cp.ChainCRF(), observed_only=True)


def test_it_is_used_where_it_is_known(risk):
    assert with_rough_bends(risk)
    assert not with_rough_bends(cp.ChainRisk(np.eye(4), [0, 1, 0, 1], [0, 2, 4], cp.ChainCRF()))
    result = cp.minimize(risk, cp.L2(1e-3), method=cp.quasi_newton(), stop=cp.Iterations(12))
    inverses = result.state.own.curvature.inverses
    assert inverses.shape == (risk.n_parameters,)
    assert 0.0 < inverses.min() < inverses.max() <= np.float32(1e-3**-0.5)


def test_the_same_optimum_as_by_planes_alone(risk):
    result = cp.minimize(risk, cp.L2(1e-2), method=cp.quasi_newton(steps=8, planes=6), tol=1e-6)
    other = cp.minimize(risk, cp.L2(1e-2), tol=1e-4)
    assert result.certificate.status == "optimal"
    assert result.certificate.lower_bound <= other.objective
    assert other.certificate.lower_bound <= result.objective


@pytest.mark.parametrize(
    "stopped_after", [PairCurvature.computed_in, PairCurvature.computed_in + 3]
)
def test_a_resumed_run_is_the_run_that_was_not_stopped(risk, stopped_after, tmp_path):
    problem = risk, cp.L2(1e-4)
    options = {"method": cp.quasi_newton(steps=4, planes=3), "tol": 1e-12}
    whole = cp.minimize(*problem, max_iter=20, **options)
    assert whole.iterations == 20  # or there is nothing to be tested
    cp.minimize(*problem, max_iter=stopped_after, checkpoint=tmp_path, **options)
    resumed = cp.minimize(*problem, max_iter=20, checkpoint=tmp_path, **options)
    np.testing.assert_array_equal(resumed.w, whole.w)
    assert resumed.certificate.lower_bound == whole.certificate.lower_bound
