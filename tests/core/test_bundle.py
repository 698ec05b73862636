"""Laws of the bundle: after any sequence of adds, drops and solves it is what it says it is."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from cutplane.core.bundle import Bundle
from cutplane.core.policies.bmrm import LimitedMemory
from cutplane.core.protocols import Plane
from cutplane.core.state import candidate_below
from cutplane.regularizers import L2

EPS = np.finfo(np.float64).eps


def regularizers(d, rng):
    return {
        "plain": L2(0.3),
        "centered": L2(2.0, center=rng.normal(size=d)),
        "weighted": L2(0.01, weights=rng.uniform(0.2, 3.0, d)),
        "both": L2(0.3, center=rng.normal(size=d), weights=rng.uniform(0.2, 3.0, d)),
    }


def dual_value(bundle, regularizer):
    """Return D(alpha), by its formula, from the planes themselves."""
    alpha = bundle.alpha / bundle.alpha.sum()
    return float(alpha @ bundle.offsets) - regularizer.conjugate(-(alpha @ bundle.slopes))[0]


class BundleLaws(RuleBasedStateMachine):
    """Adds, drops, weighs and makes room in any order, next to a plain list of planes."""

    @initialize(
        seed=st.integers(0, 10**6),
        d=st.sampled_from([1, 2, 7]),
        kind=st.sampled_from(["plain", "centered", "weighted", "both"]),
    )
    def begin(self, seed, d, kind):
        self.rng = np.random.default_rng(seed)
        self.d = d
        self.regularizer = regularizers(d, self.rng)[kind]
        self.bundle = Bundle(d, self.regularizer)
        self.planes = []

    @rule(how_many=st.sampled_from([1, 2, 40]), scale=st.sampled_from([0.0, 1e-3, 1.0, 1e3]))
    def add(self, how_many, scale):
        for _ in range(how_many):  # 40 at once, so that the arrays must grow
            slope = scale * self.rng.normal(size=self.d)
            plane = Plane(slope, float(self.rng.normal()))
            self.bundle.add(plane)
            assert self.bundle.alpha[-1] == 0.0
            assert self.bundle.idle[-1] == 0
            self.planes.append((slope, plane.offset))

    @precondition(lambda self: self.planes)
    @rule()
    def add_again(self):
        slope, offset = self.planes[self.rng.integers(len(self.planes))]
        self.bundle.add(Plane(slope, offset))
        self.planes.append((slope, offset))

    @precondition(lambda self: self.planes)
    @rule(data=st.data())
    def keep(self, data):
        n = len(self.planes)
        rows = np.flatnonzero(self.rng.random(n) < data.draw(st.sampled_from([0.3, 0.9, 1.0])))
        if not len(rows):
            rows = np.array([n - 1])
        alpha, idle = self.bundle.alpha[rows], self.bundle.idle[rows]
        self.bundle.keep(rows)
        self.planes = [self.planes[row] for row in rows]
        np.testing.assert_array_equal(self.bundle.alpha, alpha)
        np.testing.assert_array_equal(self.bundle.idle, idle)

    @precondition(lambda self: self.planes)
    @rule()
    def weigh(self):
        before = self.bundle.idle
        self.bundle.weigh(self.regularizer.lam, accuracy=0.0)
        alpha = self.bundle.alpha
        assert (alpha >= 0.0).all()
        assert alpha.sum() == pytest.approx(1.0, abs=1e-12)
        np.testing.assert_array_equal(self.bundle.idle, np.where(alpha > 0.0, 0, before + 1))
        # No single plane does better (the reduced problem at its corners), up to rounding.
        best = dual_value(self.bundle, self.regularizer)
        sizes = np.abs(self.bundle.offsets) + np.abs(self.bundle.centered_offsets) + 1.0
        noise = 1e-10 * max(
            float(sizes.max()), float(self.bundle.gram.max()) / self.regularizer.lam
        )
        for slope, offset in self.planes[:10]:
            assert best >= offset - self.regularizer.conjugate(-slope)[0] - noise

    @precondition(lambda self: self.planes and self.bundle.alpha.sum() > 0.5)
    @rule(planes=st.sampled_from([1, 2, 5]), incoming=st.sampled_from([1, 2]))
    def make_room(self, planes, incoming):
        self.bundle.weigh(self.regularizer.lam, accuracy=0.0)
        LimitedMemory(planes).make_room(self.bundle, incoming, None)
        # An aggregate is a plane like any other from here on.
        self.planes = list(
            zip(self.bundle.slopes.copy(), self.bundle.offsets.tolist(), strict=True)
        )

    @invariant()
    def planes_are_those_that_were_added(self):
        if not hasattr(self, "bundle"):
            return
        assert self.bundle.n_planes == len(self.planes) == len(self.bundle.slopes)
        if self.planes:
            assert np.array_equal(self.bundle.slopes, [slope for slope, _ in self.planes])
            assert np.array_equal(self.bundle.offsets, [offset for _, offset in self.planes])

    @invariant()
    def gram_is_the_product(self):
        if not hasattr(self, "bundle") or not self.planes:
            return
        A = np.array([slope for slope, _ in self.planes])
        theta = 1.0 if self.regularizer.weights is None else self.regularizer.weights
        center = 0.0 if self.regularizer.center is None else self.regularizer.center
        expected = (A / theta**2) @ A.T
        norms = np.sqrt(np.diag(expected))
        # A dot product of d terms is off by d units in the last place of its terms' sizes.
        allowed = 4 * (self.d + 2) * EPS * np.outer(norms, norms)
        assert (np.abs(self.bundle.gram - expected) <= allowed).all()
        assert np.array_equal(self.bundle.gram, self.bundle.gram.T)
        shifted = np.array([offset for _, offset in self.planes]) + np.sum(A * center, axis=1)
        sizes = np.abs(A) @ np.abs(center * np.ones(self.d)) + np.abs(self.bundle.offsets)
        assert (np.abs(self.bundle.centered_offsets - shifted) <= 8 * self.d * EPS * sizes).all()

    @invariant()
    def aggregate_is_a_convex_combination(self):
        if not hasattr(self, "bundle") or not self.planes or self.bundle.alpha.sum() == 0.0:
            return
        alpha = self.bundle.alpha / self.bundle.alpha.sum()
        A = np.array([slope for slope, _ in self.planes])
        b = np.array([offset for _, offset in self.planes])
        aggregate = self.bundle.aggregate()
        allowed = 4 * (len(b) + 2) * EPS
        assert (np.abs(aggregate.slope - alpha @ A) <= allowed * (alpha @ np.abs(A))).all()
        assert abs(aggregate.offset - alpha @ b) <= allowed * (alpha @ np.abs(b))
        # So it lies between the lowest and the highest plane everywhere.
        for _ in range(3):
            w = self.rng.normal(size=self.d)
            heights = A @ w + b
            sizes = np.abs(A) @ np.abs(w) + np.abs(b)
            height = aggregate.slope @ w + aggregate.offset
            used = alpha > 0.0
            noise = 8 * (len(b) + self.d) * EPS * sizes[used].max()
            assert heights[used].min() - noise <= height <= heights[used].max() + noise


TestBundleLaws = BundleLaws.TestCase
TestBundleLaws.settings = settings(stateful_step_count=20)


@given(seed=st.integers(0, 10**6), n=st.integers(1, 12))
def test_candidate_minimises_the_reduced_problem(seed, n):
    rng = np.random.default_rng(seed)
    for regularizer in regularizers(4, rng).values():
        bundle = Bundle(4, regularizer)
        for _ in range(n):
            bundle.add(Plane(rng.normal(size=4), float(rng.normal())))
        bundle.weigh(regularizer.lam, accuracy=0.0)
        candidate = candidate_below(bundle.aggregate(), regularizer)

        def model(w, bundle=bundle, regularizer=regularizer):
            return regularizer.value(w) + np.max(bundle.slopes @ w + bundle.offsets)

        here = model(candidate.w)
        # Strong duality: the bound is the model's minimum, and the candidate attains it.
        noise = 1e-11 * (1.0 + abs(here) + float(bundle.gram.max()) / regularizer.lam)
        assert candidate.lower <= here
        assert here - candidate.lower <= noise
        for scale in (1e-3, 1.0, 10.0):
            assert model(candidate.w + scale * rng.normal(size=4)) >= here - noise


@given(seed=st.integers(0, 10**6))
def test_bound_holds_for_any_weights(seed):
    # Weak duality: any point of the simplex, however badly chosen, gives a valid bound.
    rng = np.random.default_rng(seed)
    for regularizer in regularizers(3, rng).values():
        bundle = Bundle(3, regularizer)
        for _ in range(6):
            bundle.add(Plane(rng.normal(size=3), float(rng.normal())))
        bundle.weigh(regularizer.lam, accuracy=0.0)
        best = candidate_below(bundle.aggregate(), regularizer)
        minimum = regularizer.value(best.w) + np.max(bundle.slopes @ best.w + bundle.offsets)
        alpha = rng.exponential(size=6) * (rng.random(6) < 0.6)
        alpha[0] += 1e-3
        bundle.alpha = alpha  # not even normalized
        assert candidate_below(bundle.aggregate(), regularizer).lower <= minimum


def test_warm_start_survives_changes_of_lam():
    rng = np.random.default_rng(0)
    bundle = Bundle(5, L2(1.0))
    for _ in range(10):
        bundle.add(Plane(rng.normal(size=5), float(rng.normal())))
    bundle.weigh(1.0, accuracy=0.0)
    first = bundle.alpha.copy()
    bundle.weigh(1e-3, accuracy=0.0)
    assert not np.allclose(bundle.alpha, first, atol=1e-3)
    bundle.weigh(1.0, accuracy=0.0)
    np.testing.assert_allclose(bundle.alpha, first, atol=1e-9)


@pytest.mark.parametrize("n_parameters", [3, 200_000])  # the second is shared among threads
def test_mean_and_heights_without_a_pass_equal_those_with_one(n_parameters):
    rng = np.random.default_rng(0)
    regularizer = L2(0.5, center=rng.normal(size=n_parameters))
    bundle, w = Bundle(n_parameters, regularizer), rng.normal(size=n_parameters)
    bundle.heights_at(w)  # remembered, and kept up to date with the planes
    for _ in range(30):
        bundle.add(Plane(rng.normal(size=n_parameters), float(rng.normal())))
    bundle.weigh(0.5, accuracy=0.0)
    value = candidate_below(bundle.aggregate(), regularizer).lower
    assert bundle.lowest(0.5) == pytest.approx(value, rel=1e-12)
    bundle.add_mean()
    bundle.keep(np.arange(2, bundle.n_planes))
    slopes = bundle.slopes
    assert bundle.gram == pytest.approx(slopes @ slopes.T, rel=1e-10, abs=1e-9)
    assert bundle.heights_at(w) == pytest.approx(slopes @ w + bundle.offsets, rel=1e-9, abs=1e-9)
    assert bundle.heights_at(2 * w) == pytest.approx(2 * slopes @ w + bundle.offsets, abs=1e-8)
