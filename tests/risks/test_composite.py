"""Sums of risks: values, planes and bounds add, and a sum is solved like its parts together."""

import cvxpy
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import cutplane as cp
from cutplane.core.protocols import Quadratic

from .exact import clarabel

D = 6
RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, D))
Y = np.where(X[:, 0] + RNG.normal(size=40) > 0, 1.0, -1.0)
NUMBERS = X @ np.ones(D) + RNG.normal(size=40)
CLASSES = np.arange(40) % 3


def largest(w):
    top = int(np.argmax(w))
    return w[top], np.eye(len(w))[top]


class Plain:
    """A risk as a user would write it, without arithmetic of its own."""

    n_parameters, convex, lower_bound = D, True, 0.0

    def __init__(self):
        self.evaluations = 0

    def at(self, w):
        self.evaluations += 1
        return cp.FunctionRisk(lambda w: (float(w @ w), 2 * w), D).at(w)


RISKS = {
    "hinge": lambda: cp.ScoredRisk(X, Y, cp.Hinge(), intercept=False),
    "hinge intercept": lambda: cp.ScoredRisk(X, Y, cp.Hinge()),
    "absolute": lambda: cp.ScoredRisk(X, NUMBERS, cp.Absolute()),
    "logistic CSR": lambda: cp.ScoredRisk(scipy.sparse.csr_array(X), Y, cp.Logistic()),
    "softmax": lambda: cp.ScoredRisk(X[:, :2], CLASSES, cp.Softmax()),
    "crammer singer": lambda: cp.ScoredRisk(X[:, :2], CLASSES, cp.CrammerSinger()),
    "function": lambda: cp.FunctionRisk(largest, D),
}
SEARCHED = [name for name in RISKS if name != "function"]

names = st.sampled_from(list(RISKS))
factors = st.floats(0.0, 10.0, allow_nan=False)


@given(first=names, second=names, a=factors, b=factors, seed=st.integers(0, 1000))
def test_values_planes_and_bounds_add(first, second, a, b, seed):
    one, two = RISKS[first](), RISKS[second]()
    both = a * one + two * b
    w = np.random.default_rng(seed).normal(size=D)
    point, parts = both.at(w), (one.at(w), two.at(w))
    assert point.value == pytest.approx(a * parts[0].value + b * parts[1].value, rel=1e-12)
    plane, planes = point.plane(), [part.plane() for part in parts]
    slope = a * planes[0].slope + b * planes[1].slope
    np.testing.assert_allclose(plane.slope, slope, rtol=1e-12, atol=1e-12)
    assert plane.offset == pytest.approx(a * planes[0].offset + b * planes[1].offset, rel=1e-12)
    # The function has not said that it is convex.
    unknown = "function" in [name for name, factor in ((first, a), (second, b)) if factor > 0.0]
    assert both.convex is (None if unknown else True)
    assert both.evaluations == 1
    assert both.lower_bound <= point.value
    if "function" not in (first, second):
        assert both.lower_bound == 0.0


@pytest.mark.parametrize("first", SEARCHED)
@pytest.mark.parametrize("second", SEARCHED)
def test_search_on_the_sum(first, second):
    both = RISKS[first]() + 0.5 * RISKS[second]()
    rng = np.random.default_rng(1)
    start, end = both.at(rng.normal(size=D)), both.at(rng.normal(size=D))
    segment = start.toward(end)
    for k in (0.0, 0.4, 1.0, 2.5):
        w = start.w + k * (end.w - start.w)
        assert segment.at(k).value == pytest.approx(both.at(w).value, rel=1e-10)
    extra = Quadratic(0.1, 0.3)
    best = segment.minimize(extra)

    def height(k):
        return segment.along(k)[0] + extra.slope * k + extra.curvature * k**2 / 2

    assert best >= 0.0
    assert height(best) <= min(map(height, np.linspace(0.0, 3.0, 301))) + 1e-12


def test_segments_without_slopes_are_searched_by_their_planes():
    class Bare:
        """Hides what a linear segment knows beyond the protocol."""

        def __init__(self, segment):
            self.at, self.minimize = segment.at, segment.minimize

    class Point:
        def __init__(self, point):
            self.w, self.value, self.plane, self.point = point.w, point.value, point.plane, point

        def toward(self, other):
            return Bare(self.point.toward(other.point))

    class Hidden(Plain):
        risk = RISKS["absolute"]()

        def at(self, w):
            return Point(self.risk.at(w))

    hidden, open_ = RISKS["hinge"]() + Hidden(), RISKS["hinge"]() + RISKS["absolute"]()
    v, w = np.random.default_rng(2).normal(size=(2, D))
    steps = [
        risk.at(v).toward(risk.at(w)).minimize(Quadratic(0.0, 0.1)) for risk in (hidden, open_)
    ]
    assert steps[0] == pytest.approx(steps[1], rel=0.02)


@pytest.mark.parametrize("method", [cp.bmrm(), cp.bmrm(line_search=False)], ids=["search", "plain"])
def test_sum_of_losses_against_clarabel(method):
    lam = 0.05
    w, c = cvxpy.Variable(D), cvxpy.Variable()
    hinge = cvxpy.sum(cvxpy.pos(1 - cvxpy.multiply(Y, X @ w))) / len(Y)
    absolute = cvxpy.sum(cvxpy.abs(NUMBERS - X @ w - c)) / len(Y)
    problem = cvxpy.Minimize(lam / 2 * cvxpy.sum_squares(w) + hinge + 2 * absolute)
    clarabel(problem)
    optimum = problem.value
    risk = RISKS["hinge"]() + 2.0 * RISKS["absolute"]()
    result = cp.minimize(risk, cp.L2(lam), method=method, tol=1e-6, max_iter=5000)
    assert result.status is cp.Status.OPTIMAL
    assert result.certificate.lower_bound <= optimum * (1 + 1e-8)
    assert result.objective >= optimum * (1 - 1e-8)
    assert result.objective == pytest.approx(optimum, rel=1e-5)


def test_default_method_follows_the_parts():
    mixed = RISKS["hinge"]() + cp.FunctionRisk(largest, D)
    assert not hasattr(mixed.at(np.zeros(D)), "toward")
    assert cp.minimize(mixed, cp.L2(0.1)).status is cp.Status.OPTIMAL
    searched = RISKS["hinge"]() + RISKS["absolute"]()
    assert cp.minimize(searched, cp.L2(0.1)).status is cp.Status.OPTIMAL
    assert (
        cp.minimize(searched, cp.L2(0.01), tol=1e-6).iterations
        < cp.minimize(searched, cp.L2(0.01), tol=1e-6, method=cp.bmrm(line_search=False)).iterations
    )


def test_users_risks_take_part():
    w = np.ones(D)
    for risk in (RISKS["hinge"]() + Plain(), Plain() + RISKS["hinge"]()):
        assert risk.at(w).value == pytest.approx(RISKS["hinge"]().at(w).value + D)
        assert cp.minimize(risk, cp.L2(0.1), method=cp.bmrm(line_search=False)).status.success
    alone = cp.WeightedSum([(2.0, Plain())])
    assert alone.at(w).value == 2 * D


def test_sums_of_sums_are_sums():
    a, b, c = RISKS["hinge"](), RISKS["absolute"](), RISKS["function"]()
    total = sum([a, 2.0 * (b + 3.0 * c)])
    assert total.terms == [(1.0, a), (2.0, b), (6.0, c)]
    assert (np.float64(2.0) * a).terms == [(2.0, a)]
    assert (a * np.int64(2)).terms == [(2.0, a)]


def test_negative_factors_are_not_convex():
    difference = RISKS["hinge"]() + -1.0 * RISKS["absolute"]()
    assert not difference.convex
    assert difference.lower_bound == -np.inf
    assert difference.unproven == "a risk is subtracted"
    assert (RISKS["hinge"]() + RISKS["absolute"]()).unproven == ""
    assert not (RISKS["hinge"]() + cp.FunctionRisk(largest, D, convex=False)).convex


def test_factor_zero():
    # Zero times a bound that is not known is zero.
    nothing = 0.0 * RISKS["function"]()
    assert nothing.lower_bound == 0.0
    assert nothing.convex
    assert cp.minimize(nothing, cp.L2(1.0)).objective == 0.0


def test_wrong_sums():
    with pytest.raises(ValueError, match="risks with 6 and 2 parameters cannot be added"):
        RISKS["hinge"]() + cp.FunctionRisk(largest, 2)
    with pytest.raises(ValueError, match="must be finite, got nan"):
        np.nan * RISKS["hinge"]()
    with pytest.raises(ValueError, match="at least one risk"):
        cp.WeightedSum([])
    for wrong in (
        lambda: RISKS["hinge"]() + 1.0,
        lambda: "a" * RISKS["hinge"](),
        lambda: 3 + Plain(),
    ):
        with pytest.raises(TypeError, match=r"unsupported operand|can't multiply"):
            wrong()


def test_words():
    a, b = RISKS["logistic CSR"](), RISKS["softmax"]()
    assert repr(a) == "ScoredRisk(40 x 6 CSR, Logistic(), intercept)"
    assert repr(RISKS["hinge"]()) == "ScoredRisk(40 x 6 dense, Hinge(), no intercept)"
    assert repr(b) == "ScoredRisk(40 x 2 dense, 3 classes, Softmax(), intercepts)"
    assert repr(a + 2.0 * b) == f"{a!r} + 2 * {b!r}"


def test_a_sum_says_why_its_gap_is_no_proof():
    class Rough(cp.MulticlassModel):
        exact = False

    rough = cp.StructuredRisk(Rough(), X[:6], CLASSES[:6])
    square = cp.FunctionRisk(lambda w: (float(w @ w), 2 * w), rough.n_parameters, lower_bound=0.0)
    smooth = cp.FunctionRisk(square.function, rough.n_parameters, lower_bound=0.0, convex=True)
    result = cp.minimize(rough + smooth + 2.0 * rough, cp.L2(1.0), max_iter=3)
    assert not result.certificate.valid
    assert result.certificate.reason == rough.unproven != ""
    assert cp.minimize(smooth + smooth, cp.L2(1.0)).certificate.reason == ""
    # Nor does it keep silent about what it takes for granted.
    assumed = cp.minimize(smooth + square, cp.L2(1.0)).certificate
    assert assumed.valid
    assert assumed.reason == "if the risk is convex, as was assumed"
    assert str(assumed).endswith(", if the risk is convex, as was assumed)")
