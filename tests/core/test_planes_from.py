"""A run may begin with the planes of an earlier one on the same risk, whatever the regularizer."""

import numpy as np
import pytest

import cutplane as cp
from cutplane.core.bundle import Bundle
from cutplane.core.protocols import Plane

from .oracles import FunctionRisk, waves
from .problems import PROBLEMS, MaxOfPlanes

METHODS = {
    "bmrm": cp.bmrm(line_search=False),
    "bmrm-line-search": cp.bmrm(),
    "limited-memory": cp.bmrm(planes=50),
}


def regularizer_at(lam, like):
    return cp.L2(lam, center=like.center, weights=like.weights)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_bounds_hold_and_the_work_starts_anew(problem, method):
    risk, method = problem.make_risk(), METHODS[method]
    stronger = regularizer_at(10.0 * problem.regularizer.lam, problem.regularizer)
    earlier = cp.minimize(risk, stronger, method=method, tol=1e-3)
    run = cp.minimize(risk, problem.regularizer, method=method, tol=1e-5, planes_from=earlier.state)
    assert run.status == "optimal"
    assert run.certificate.lower_bound <= problem.optimum
    assert run.objective == pytest.approx(problem.objective(run.w), rel=1e-9)
    assert run.objective <= problem.optimum + 1e-5 * abs(problem.optimum) + 1e-12
    assert [record.iteration for record in run.history] == list(range(1, run.iterations + 1))
    cold = cp.minimize(problem.make_risk(), problem.regularizer, method=method, tol=1e-5)
    # One evaluation more than a run may need that knows everything: the one at its start.
    assert run.evaluations <= cold.evaluations + 1


def test_the_same_problem_again_is_solved_at_once():
    problem = PROBLEMS["hinge"]
    done = cp.minimize(problem.make_risk(), problem.regularizer, tol=1e-6)
    again = cp.minimize(problem.make_risk(), problem.regularizer, tol=1e-6, planes_from=done.state)
    assert again.iterations <= 2
    assert again.certificate.lower_bound >= done.certificate.lower_bound - 1e-6


def test_the_earlier_run_stays_as_it_is():
    problem = PROBLEMS["absolute"]
    risk = problem.make_risk()
    earlier = cp.minimize(risk, cp.L2(1.0), tol=1e-2)
    bundle = earlier.state.bundle
    before = (bundle.slopes.copy(), bundle.offsets.copy(), bundle.alpha.copy(), bundle.gram.copy())
    cp.minimize(risk, cp.L2(1e-3), tol=1e-6, planes_from=earlier.state)
    for old, now in zip(
        before, (bundle.slopes, bundle.offsets, bundle.alpha, bundle.gram), strict=True
    ):
        np.testing.assert_array_equal(old, now)
    rest = cp.minimize(risk, cp.L2(1.0), tol=1e-6, resume=earlier.state)
    assert rest.status == "optimal"


def full_bundle(regularizer):
    rng = np.random.default_rng(0)
    bundle = Bundle(3, regularizer)
    bundle.add(Plane(np.zeros(3), 0.0))
    for _ in range(5):
        bundle.add(Plane(rng.normal(size=3), float(rng.normal())))
    bundle.weigh(regularizer.lam, accuracy=0.0)
    return bundle


@pytest.mark.parametrize(
    "other",
    [
        cp.L2(0.01),
        cp.L2(1.0, center=[1.0, 2.0, 3.0]),
        cp.L2(1.0, weights=[1.0, 2.0, 3.0]),
        cp.L2(2.0, center=[0.0, 2.0, 3.0], weights=[1.0, 1.0, 3.0]),
    ],
    ids=str,
)
@pytest.mark.parametrize("first", [cp.L2(1.0), cp.L2(1.0, weights=[1.0, 2.0, 3.0])], ids=str)
def test_inner_products_are_those_of_the_new_regularizer(first, other):
    bundle = full_bundle(first)
    carried = bundle.carried_over(other)
    A = bundle.slopes
    metric = np.array([other.dual_metric(a) for a in A])
    np.testing.assert_allclose(carried.gram, A @ metric.T, atol=1e-12)
    np.testing.assert_allclose(
        carried.centered_offsets, bundle.offsets + [other.at_center(a) for a in A]
    )
    np.testing.assert_array_equal(carried.slopes, A)
    np.testing.assert_array_equal(carried.alpha, bundle.alpha)
    assert carried.metric is other
    assert not np.shares_memory(carried.slopes, bundle.slopes)


def test_planes_long_idle_stay_behind_but_for_flat_ones():
    bundle = full_bundle(cp.L2(1.0))
    bundle.idle = np.array([999, 0, Bundle.LONGEST_IDLE, Bundle.LONGEST_IDLE + 1, 3, 999])
    carried = bundle.carried_over(cp.L2(0.1))
    np.testing.assert_array_equal(carried.offsets, bundle.offsets[[0, 1, 2, 4]])
    assert bundle.n_planes == 6


def test_planes_of_another_dimension():
    earlier = cp.minimize(MaxOfPlanes(np.eye(3), np.zeros(3)), cp.L2(1.0))
    with pytest.raises(ValueError, match=r"planes of 3 parameters, the risk has 2.*another risk"):
        cp.minimize(MaxOfPlanes(np.eye(2), np.zeros(2)), cp.L2(1.0), planes_from=earlier.state)


def test_planes_of_a_risk_that_has_changed_are_refused():
    risk = MaxOfPlanes(np.eye(3), np.ones(3))
    earlier = cp.minimize(risk, cp.L2(1.0))
    lower = MaxOfPlanes(np.eye(3), np.zeros(3))
    with pytest.raises(ValueError, match=r"^planes_from is of a run on another risk"):
        cp.minimize(lower, cp.L2(1.0), planes_from=earlier.state)
    risk.offsets[:] = 0.0  # the same object, with other numbers
    with pytest.raises(ValueError, match=r"the risk was 0\.6.* and is now .* data have changed"):
        cp.minimize(risk, cp.L2(1.0), planes_from=earlier.state)


@pytest.mark.parametrize("method", [cp.nrbm(), cp.nrbm(line_search="none"), cp.nbm()])
def test_planes_of_a_risk_that_is_not_convex_stay_behind(method):
    risk, regularizer = FunctionRisk(waves, 2), cp.L2(1.0)
    earlier = cp.minimize(risk, regularizer, method=method, start=np.array([1.0, -2.0]))
    before = risk.evaluations
    with pytest.raises(ValueError, match=r"near one point .* give start=result\.w"):
        cp.minimize(risk, cp.L2(0.5), method=method, planes_from=earlier.state)
    assert risk.evaluations == before
    # What is said works, and begins where the earlier run ended.
    first = cp.L2(0.5).value(earlier.w) + waves(earlier.w)[0]
    again = cp.minimize(risk, cp.L2(0.5), method=method, start=earlier.w)
    assert again.objective <= first
    # Nor may they bound a convex risk.
    with pytest.raises(ValueError, match="near one point"):
        cp.minimize(MaxOfPlanes(np.eye(2), np.zeros(2)), regularizer, planes_from=earlier.state)


@pytest.mark.parametrize("also", ["start", "resume"])
def test_one_beginning_only(also):
    risk = MaxOfPlanes(np.eye(2), np.zeros(2))
    state = cp.minimize(risk, cp.L2(1.0)).state
    options = {"start": np.zeros(2), "resume": state}
    with pytest.raises(ValueError, match="give one of start, resume and planes_from"):
        cp.minimize(risk, cp.L2(1.0), planes_from=state, **{also: options[also]})
