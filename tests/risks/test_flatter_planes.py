"""Flatter planes of conditional random fields: below the risk, above a mean with the flat one."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given
from hypothesis import strategies as st
from tests.random_arrays import random_array

import cutplane as cp
from cutplane.models.sequences.losses import entropy_of_mixing
from cutplane.models.sequences.risk import SETTINGS


def entropy(p):
    p = p[p > 0.0]
    return -float(p @ np.log(p))


@given(st.integers(0, 10**6), st.floats(0.01, 1.0), st.floats(0.1, 50.0))
@example(47, 1.0, 19.0)
def test_the_entropy_of_a_mean_with_the_right_label(seed, share, spread):
    scores = spread * np.random.default_rng(seed).normal(size=7)
    p = np.exp(scores - scores.max())
    p /= p.sum()
    mixed = share * p + (1.0 - share) * np.eye(7)[2]
    gain = entropy_of_mixing(np.array([-np.log(max(p[2], 1e-300))]), share)[0]
    assert share * entropy(p) + gain == pytest.approx(entropy(mixed), abs=1e-9)


@given(st.integers(0, 10**6))
def test_flatter_planes_stay_below_the_risk(seed):
    rng = np.random.default_rng(seed)
    X = sp.csr_array(random_array((12, 5), density=0.5, rng=rng))
    risk = cp.ChainRisk(
        X, rng.integers(0, 3, 12), [0, 1, 5, 5, 12], cp.ChainCRF(), n_labels=3,
        observed_only=True, weights=rng.uniform(0.1, 2.0, 4),
    )  # fmt: skip
    point = risk.evaluate_once(rng.normal(size=risk.n_parameters))
    plane, flatter = point.plane(), point.flatter
    assert flatter.offset >= SETTINGS.flatter * plane.offset
    np.testing.assert_allclose(flatter.slope, SETTINGS.flatter * plane.slope)
    for size in (0.1, 1.0, 10.0):
        w = size * rng.normal(size=risk.n_parameters)
        assert flatter.slope @ w + flatter.offset <= risk.evaluate_once(w).value + 1e-9


def test_a_margin_has_none():
    X = sp.csr_array(np.eye(4))
    risk = cp.ChainRisk(X, [0, 1, 0, 1], [0, 2, 4], cp.ChainMargin(), observed_only=True)
    assert risk.evaluate_once(np.zeros(risk.n_parameters)).flatter is None
