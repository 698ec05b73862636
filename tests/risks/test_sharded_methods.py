"""Methods on risks whose rows lie on workers: bounds hold, bits do not depend on who has what."""

from itertools import pairwise

import numpy as np
import pytest
from tests.risks.crew import placed
from tests.risks.test_sharded import Losing, agree, data, same

import cutplane as cp
from cutplane.cluster.risk import ShardedRisk
from cutplane.compute import blocks
from cutplane.core.state import Problem
from cutplane.solvers.dual_ascent import LocalAscent

PLACEMENTS = [[0] * 8, [0, 1, 1, 0, 1, 0, 0, 1], [4, 0, 1, 2, 2, 3, 1, 0]]


@pytest.fixture(autouse=True)
def _short_blocks(monkeypatch):
    monkeypatch.setattr(blocks, "LEAST_NUMBERS", 16)
    monkeypatch.setattr(blocks, "LEAST_ENTRIES", 64)


def everywhere(given, loss, method, *, intercept=True, tol=1e-4, **options):
    """Return the result of a run for each placement, after a look at all of its bounds."""
    plain = cp.ScoredRisk(
        given["X"], given["y"], loss, weights=given.get("weights"), intercept=intercept
    )
    best = cp.minimize(plain, cp.L2(1e-2), method=cp.bmrm(), tol=1e-7).objective
    results = []
    for owners in PLACEMENTS:
        bounds = []
        sample = placed(given, owners)
        results.append(
            cp.minimize(
                ShardedRisk(sample, loss, intercept=intercept),
                cp.L2(1e-2),
                method=method,
                tol=tol,
                callbacks=[lambda state, seen=bounds: seen.append((state.lower, state.objective))],
                **options,
            )
        )
        sample.close()
        for lower, objective in bounds:
            assert lower <= best * (1.0 + 1e-7)
            assert objective >= best * (1.0 - 1e-7)
    assert all(same(results[0], other) for other in results[1:])
    assert results[0].certificate.relative_gap <= tol
    return plain, results[0]


@pytest.mark.parametrize("intercept", [False, True], ids=["plain", "intercept"])
@pytest.mark.parametrize(
    "loss", [cp.Hinge(), cp.Logistic(), cp.Quantile(0.3)], ids=["hinge", "logistic", "quantile"]
)
def test_newton_has_the_bits_of_one_machine(loss, intercept):
    X, y, weights = data(loss.task, m=9000, d=4)
    # Targets of a sample that are shifted together with the intercept are rounded otherwise.
    method = cp.newton(sample=not (intercept and loss.of_residual))
    plain, result = everywhere(
        {"X": X, "y": y, "weights": weights}, loss, method, intercept=intercept
    )
    one = cp.minimize(plain, cp.L2(1e-2), method=method, tol=1e-4)
    assert same(one, result)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_newton_with_few_rows_a_shard(sparse):
    X, y, _ = data("classification", sparse=sparse)
    everywhere({"X": X, "y": y}, cp.SquaredHinge(), cp.newton(), tol=1e-6)


@pytest.mark.parametrize("intercept", [False, True], ids=["plain", "intercept"])
@pytest.mark.parametrize("groups", [4, "auto"])
def test_groups_of_planes(groups, intercept):
    X, y, weights = data("classification")
    method = cp.bmrm(groups=groups)
    given = {"X": X, "y": y, "weights": weights}
    _, result = everywhere(given, cp.Hinge(), method, intercept=intercept)
    one = everywhere(given, cp.Hinge(), cp.bmrm(), intercept=intercept)[1]
    assert result.iterations < one.iterations


@pytest.mark.parametrize("method", [cp.quasi_newton(), cp.level(), cp.bmrm_without_qp()])
def test_methods_that_know_points_only(method):
    X, y, _ = data("classification")
    everywhere({"X": X, "y": y}, cp.Logistic(), method, tol=1e-3)


@pytest.mark.parametrize(
    "method",
    [cp.dual_ascent(), cp.class_ascent(), cp.class_newton(), cp.block_ascent()],
    ids=lambda method: method.name,
)
def test_other_methods_say_what_they_need(method):
    X, y, _ = data("classification")
    sample = placed({"X": X, "y": y}, [0, 1])
    with pytest.raises((TypeError, ValueError), match=r" needs .*; got "):
        cp.minimize(ShardedRisk(sample, cp.Hinge()), cp.L2(1e-2), method=method)
    sample.close()


@pytest.mark.parametrize("intercept", [False, True], ids=["plain", "intercept"])
@pytest.mark.parametrize(
    ("loss", "by_label"),
    [
        (cp.Hinge(), False),
        (cp.Hinge(), True),
        (cp.Logistic(), False),
        (cp.SquaredHinge(), True),
        (cp.Quantile(0.3), False),
    ],
    ids=["hinge", "hinge, sorted", "logistic", "squared, sorted", "quantile"],
)
def test_local_epochs_on_shards_are_certified(loss, by_label, intercept):
    X, y, weights = data(loss.task, d=60, sparse=True)
    order = np.argsort(y, kind="stable") if by_label else np.arange(len(y))
    given = {"X": X[order], "y": y[order], "weights": weights[order]}
    method = cp.dual_ascent(planes=None)
    plain, result = everywhere(given, loss, method, intercept=intercept, tol=1e-3)
    bundle = cp.minimize(plain, cp.L2(1e-2), method=cp.bmrm(), tol=1e-3)
    # Where rounds creep, few are taken beside the steps of the bundle method.
    assert result.iterations <= 1.3 * bundle.iterations + 10


@pytest.mark.parametrize(
    ("method", "sparse"),
    [
        (cp.dual_ascent(planes=None), True),
        (cp.newton(), False),
        (cp.bmrm(groups=4), False),
        (cp.quasi_newton(), False),
        (cp.level(), False),
    ],
    ids=["dual ascent", "newton", "groups", "quasi newton", "level"],
)
def test_runs_go_on_from_a_checkpoint_and_after_losses(method, sparse, tmp_path):
    X, y, _ = data("classification", d=20, sparse=sparse)
    given, options = {"X": X, "y": y}, {"tol": 1e-5}
    loss = cp.Logistic() if method.name == "quasi-newton" else cp.Hinge()
    _, whole = everywhere(given, loss, method, **options)
    sample = placed(given, [0, 1, 2, 3] * 2)
    half = cp.minimize(
        ShardedRisk(sample, loss),
        cp.L2(1e-2),
        method=method,
        **options,
        max_iter=whole.iterations // 2,
        checkpoint=tmp_path / "run",
    )
    assert half.status is cp.Status.ITERATION_LIMIT
    sample.close()
    sample = placed(given, [3, 1, 2, 0] * 2)
    losing = Losing(sample, [half.iterations + 1, half.iterations + 2])
    risk = ShardedRisk(sample, loss)
    result = cp.resume(
        tmp_path / "run", risk, cp.L2(1e-2), **options, max_iter=10_000, callbacks=[losing]
    )
    assert len(sample.losses) == 2
    assert agree(whole, result, 1e-5)
    assert losing.seen[0][1] >= half.certificate.lower_bound
    sample.close()


def test_local_epochs_make_no_bound_worse_whatever_the_parts_have():
    X, y, _ = data("classification", d=60, sparse=True)
    order = np.argsort(y, kind="stable")  # parts of one class only
    risk = cp.ScoredRisk(X[order], y[order], cp.Hinge(), intercept=False)
    lam = 1e-2
    ascent = LocalAscent(Problem(risk, cp.L2(lam)), 8)
    duals, bounds = ascent.initial(), [0.0]
    best = cp.minimize(risk, cp.L2(lam), tol=1e-7).objective
    for _ in range(12):
        duals, plane = ascent.improved(duals, passes=2.0)
        bounds.append(-duals.conjugate - duals.slope @ duals.slope / (2.0 * lam))
        slope = risk.rows.pullback(risk.weights * duals.beta)
        np.testing.assert_allclose(duals.slope, slope, atol=1e-12)
        assert plane.offset - plane.slope @ plane.slope / (2.0 * lam) <= best * (1.0 + 1e-9)
    assert all(b >= a - 1e-12 for a, b in pairwise(bounds))
    assert bounds[-1] <= best * (1.0 + 1e-9)
