"""The instance of paper 001: ours behaves on it as the paper proves."""

import numpy as np
import pytest

import cutplane as cp
from cutplane.papers.bundles import VARIANTS, HardRisk, run_variant, starting_point
from cutplane.testing import check_risk

PLAIN = cp.bmrm(line_search=False)


def same_risk_from_data(m):
    signs = np.where(np.arange(m) % 2 == 0, 1.0, -1.0)
    X = signs[:, None] * np.hstack([np.full((m, 1), np.sqrt(m)), m * np.eye(m)])
    return cp.ScoredRisk(X, signs, cp.Hinge(), intercept=False)


@pytest.mark.parametrize("m", [4, 25, 100])
def test_risk(m):
    rng = np.random.default_rng(m)
    check_risk(HardRisk(m, floor=True), around=starting_point(m), scale=1.0 / m)
    for _ in range(10):
        w = starting_point(m) + rng.normal(size=m + 1) / m
        values = [risk.at(w).value for risk in (HardRisk(m, floor=False), same_risk_from_data(m))]
        assert values[0] == pytest.approx(values[1], rel=1e-12)


@pytest.mark.parametrize("m", [4, 25, 100])
def test_optimum(m):
    result = cp.minimize(same_risk_from_data(m), cp.L2(1.0), tol=1e-8)
    assert result.objective == pytest.approx(1 / (4 * m), rel=1e-7)


def test_run_is_the_one_of_the_proof():
    m = 40
    run = cp.minimize(
        HardRisk(m, floor=False),
        cp.L2(1.0),
        method=PLAIN,
        start=starting_point(m),
        max_iter=m - 1,
        stop=cp.Gap(absolute=1e-12),
    )
    for record in run.history:
        t = record.iteration
        # The reduced problem is solved to a share of 1e-3 of the gap.
        assert record.lower_bound == pytest.approx(1 / (2 * m) - 1 / (2 * t), abs=2e-3 / t)


@pytest.mark.parametrize("eps", [0.1, 0.05, 0.02])
def test_theorem(eps):
    plain = run_variant(VARIANTS[0], eps)
    assert plain["steps"] >= 2 / (3 * eps)
    assert plain["steps"] <= 2 / (3 * eps) + 2
    assert plain["iterations"] == pytest.approx(1 / (2 * eps), abs=1.5)


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_every_variant_reaches_the_gap(variant):
    assert run_variant(variant, 0.05)["iterations"] is not None
