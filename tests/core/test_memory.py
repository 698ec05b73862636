"""Laws of limited memory: how many planes stay, which go first, and that no bound is lost."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cutplane as cp
from cutplane.core.bundle import Bundle
from cutplane.core.policies.bmrm import KeepAll, LimitedMemory
from cutplane.core.protocols import Plane
from cutplane.core.state import candidate_below

from .problems import PROBLEMS


def filled(seed, n, *, d=3, lam=0.1, regularizer=None):
    rng = np.random.default_rng(seed)
    regularizer = regularizer or cp.L2(lam, center=rng.normal(size=d))
    bundle = Bundle(d, regularizer)
    for _ in range(n):
        bundle.add(Plane(rng.normal(size=d), float(rng.normal())))
        bundle.weigh(regularizer.lam, accuracy=0.0)
    return bundle, regularizer, rng


def planes_of(bundle):
    return {(*slope, offset) for slope, offset in zip(bundle.slopes, bundle.offsets, strict=True)}


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 25),
    planes=st.integers(1, 8),
    incoming=st.integers(1, 3),
)
def test_room_is_made_and_nothing_is_lost(seed, n, planes, incoming):
    bundle, regularizer, rng = filled(seed, n)
    before = candidate_below(bundle.aggregate(), regularizer)
    old = planes_of(bundle)
    LimitedMemory(planes).make_room(bundle, incoming, None)
    # What is left has room for the new planes, besides the aggregate; it never vanishes.
    assert 1 <= bundle.n_planes <= max(planes + 1 - incoming, 1)
    assert bundle.n_planes == min(n, max(planes + 1 - incoming, 1))
    # At most one plane is new: the aggregate.
    assert len(planes_of(bundle) - old) <= 1
    # The weights still give the bound of before, and solving again cannot make it worse.
    assert bundle.alpha.sum() == pytest.approx(1.0, abs=1e-12)
    noise = 1e-12 * (1.0 + abs(before.lower) + float(np.abs(bundle.offsets).max()))
    same = candidate_below(bundle.aggregate(), regularizer)
    assert same.lower == pytest.approx(before.lower, abs=noise)
    np.testing.assert_allclose(same.w, before.w, atol=1e-11 * (1.0 + np.abs(before.w).max()))
    for _ in range(incoming):
        bundle.add(Plane(rng.normal(size=3), float(rng.normal())))
    assert bundle.n_planes <= max(planes, incoming) + 1
    bundle.weigh(regularizer.lam, accuracy=0.0)
    assert candidate_below(bundle.aggregate(), regularizer).lower >= before.lower - noise


@given(seed=st.integers(0, 10**6), n=st.integers(5, 25), planes=st.integers(2, 10))
def test_idle_planes_go_first_and_the_longest_idle_before_the_others(seed, n, planes):
    bundle, _, _ = filled(seed, n)
    alpha, idle = bundle.alpha.copy(), bundle.idle.copy()
    rows = [(*s, b) for s, b in zip(bundle.slopes, bundle.offsets, strict=True)]
    LimitedMemory(planes).make_room(bundle, 1, None)
    kept = planes_of(bundle)
    stays = np.array([row in kept for row in rows])
    n_idle = int((alpha == 0.0).sum())
    excess = n + 1 - (planes + 1)
    if n_idle >= excess:
        assert stays[alpha > 0.0].all()  # no plane with weight was touched: no aggregate needed
        gone, left = idle[~stays], idle[stays & (alpha == 0.0)]
        assert len(gone) == max(excess, 0)
        if len(gone) and len(left):
            assert gone.min() >= left.max()
    else:
        # The heaviest stay, next to the aggregate, which now carries all the weight.
        assert stays.sum() == planes - 1
        if stays.any() and not stays.all():
            assert alpha[stays].min() >= alpha[~stays].max()
        assert bundle.alpha[-1] == 1.0
        assert (bundle.alpha[:-1] == 0.0).all()


def test_order_of_rows_is_kept():
    bundle, _, _ = filled(3, 20)
    old = [(*s, b) for s, b in zip(bundle.slopes, bundle.offsets, strict=True)]
    LimitedMemory(12).make_room(bundle, 1, None)
    new = [(*s, b) for s, b in zip(bundle.slopes, bundle.offsets, strict=True)]
    assert len(new) == 12
    positions = [old.index(row) for row in new]
    assert positions == sorted(positions)


def test_enough_room_changes_nothing():
    bundle, _, _ = filled(1, 5)
    alpha, planes = bundle.alpha.copy(), planes_of(bundle)
    LimitedMemory(5).make_room(bundle, 1, None)
    KeepAll().make_room(bundle, 100, None)
    assert planes_of(bundle) == planes
    np.testing.assert_array_equal(bundle.alpha, alpha)


@pytest.mark.parametrize("planes", [0, -1])
def test_needs_a_plane(planes):
    with pytest.raises(ValueError, match="at least 1 plane"):
        LimitedMemory(planes)


@pytest.mark.parametrize("planes", [1, 2, 5, 20])
@pytest.mark.parametrize("line_search", [False, True])
@pytest.mark.parametrize("name", ["hinge CSR intercept", "absolute", "planes", "squared"])
def test_runs_stay_small(planes, line_search, name):
    problem = PROBLEMS[name]
    sizes = []
    result = cp.minimize(
        problem.make_risk(),
        problem.regularizer,
        method=cp.bmrm(line_search=line_search, planes=planes),
        tol=1e-6,
        max_iter=150,
        callbacks=[lambda state: sizes.append(state.bundle.n_planes)],
    )
    incoming = 2 if line_search else 1  # a search may bring two planes
    assert max(sizes) <= max(planes, incoming) + 1
    assert [record.planes for record in result.history] == sizes
