"""The checks for users: everything of ours passes, and planted mistakes are found and named."""

import numpy as np
import pytest
import scipy.sparse
from scipy.special import xlogy

import cutplane as cp
from cutplane.core.protocols import Plane, Quadratic
from cutplane.losses import CLASSIFICATION, MEASURES, REGRESSION
from cutplane.testing import check_loss, check_regularizer, check_risk

from ..regularizers.registry import CASES, D

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 5))
Y = np.where(X[:, 0] + RNG.normal(size=60) > 0, 1.0, -1.0)
NUMBERS = X @ np.ones(5) + RNG.normal(size=60)
COUNTS = RNG.poisson(2.0, 60).astype(float)
CLASSES = np.arange(60) % 3
LOSSES = [make() for make in (CLASSIFICATION | MEASURES | REGRESSION).values()]


def hinge(w):
    margins = Y * (X @ w)
    active = margins < 1.0
    return float((1.0 - margins)[active].sum()) / 60, -(Y * active) @ X / 60


def logistic(w):
    margins = Y * (X @ w)
    return float(np.logaddexp(0.0, -margins).mean()), -(Y / (1.0 + np.exp(margins))) @ X / 60


FUNCTIONS = {"hinge": hinge, "logistic": logistic}


def risk_of(loss, intercept):
    y = Y if loss.task == "classification" else NUMBERS
    return cp.ScoredRisk(
        X, COUNTS if isinstance(loss, cp.Poisson) else y, loss, intercept=intercept
    )


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_linear_risks_pass(loss, intercept):
    report = check_risk(risk_of(loss, intercept), scale=0.5)
    assert "segments agree with the risk" in report.passed
    assert ("planes of groups add up" in report.passed) == loss.additive


@pytest.mark.parametrize(
    "risk",
    [
        cp.ScoredRisk(scipy.sparse.csr_array(X), Y, cp.Hinge()),
        cp.ScoredRisk(np.asfortranarray(X.astype(np.float32)), Y, cp.Hinge()),
        cp.ScoredRisk(X, CLASSES, cp.Softmax()),
        cp.ScoredRisk(X, CLASSES, cp.CrammerSinger()),
        cp.ScoredRisk(X, CLASSES, cp.CrammerSinger(), intercept=False),
        cp.ScoredRisk(X, Y, cp.Hinge()) + 2.0 * cp.ScoredRisk(X, NUMBERS, cp.Absolute()),
        cp.ScoredRisk(X, Y, cp.Hinge()) + cp.FunctionRisk(logistic, 5),
    ],
    ids=repr,
)
def test_other_risks_pass(risk):
    report = check_risk(risk)
    assert report.subject == repr(risk)
    assert str(report).count("\n  ok: ") == len(report.passed) >= 5


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_pass(name):
    assert check_risk(FUNCTIONS[name], 5).subject == f"{name}()"
    check_risk(FUNCTIONS[name], around=np.ones(5), scale=10.0)
    check_risk(cp.FunctionRisk(FUNCTIONS[name], 5, lower_bound=0.0))


def test_single_precision_passes_if_it_is_said():
    def single(w):
        value, slope = logistic(w.astype(np.float32).astype(float))
        return np.float32(value), slope.astype(np.float32)

    with pytest.raises(
        AssertionError, match=r"single\(\): the subgradient is wrong: along a random"
    ):
        check_risk(single, 5)
    check_risk(single, 5, rounding=1e-5)


def test_number_of_parameters_is_needed():
    with pytest.raises(ValueError, match=r"hinge\(\) does not tell how many parameters it has"):
        check_risk(hinge)


def test_places_outside_of_the_domain_are_refused():
    def logarithm(w):
        return (-np.log(w[0]), -1.0 / w) if w[0] > 0 else (np.inf, np.zeros(1))

    with pytest.raises(AssertionError, match=r"the risk is inf .* around and scale"):
        check_risk(logarithm, 1)
    check_risk(logarithm, around=np.full(1, 10.0))


def planted(name, change):
    function = FUNCTIONS[name]

    def wrong(w):
        value, slope = function(w)
        return change(value, slope, w)

    return wrong


def one_wrong_entry(value, slope, w):
    slope[3] *= 1.01
    return value, slope


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda value, slope, w: (value, -slope), "Is its sign wrong"),
        (lambda value, slope, w: (value, 60 * slope), "Everywhere it is 60 times"),
        (lambda value, slope, w: (value, 1.001 * slope), "Everywhere it is 1.001 times"),
        (lambda value, slope, w: (value, slope + 0.1), "5 of 5 entries are wrong"),
        (one_wrong_entry, "1 of 5 entries are wrong; entry 3 is"),
        (lambda value, slope, w: (value + 1e-3 * RNG.normal(), slope), "twice at the same point"),
    ],
)
def test_wrong_subgradients_are_found(name, change, message):
    with pytest.raises(AssertionError, match=message):
        check_risk(planted(name, change), 5)


def test_functions_that_are_not_convex_are_found():
    def sines(w):
        return float(np.sin(w).sum()), np.cos(w)

    with pytest.raises(AssertionError, match="not convex: between two points with values"):
        check_risk(sines, 5)
    report = check_risk(cp.FunctionRisk(sines, 5, convex=False, lower_bound=-5.0))
    assert not any("convex" in check for check in report.passed)


def test_wrong_subgradients_of_functions_that_are_not_convex_are_found():
    def sines(w):
        return float(np.sin(w).sum()), 2 * np.cos(w)

    with pytest.raises(AssertionError, match="Everywhere it is 2 times"):
        check_risk(cp.FunctionRisk(sines, 5, convex=False))


def test_wrong_choice_at_a_kink_is_found():
    def absolute(w):
        return float(np.abs(w).sum()), np.where(w == 0.0, 3.0, np.sign(w))

    with pytest.raises(AssertionError, match="3 of 3 entries are wrong; entry 0 is 3, not 0"):
        check_risk(absolute, 3, scale=0.0)
    check_risk(absolute, 3)


@pytest.mark.parametrize("bound", [0.1, 0.45])
def test_false_lower_bounds_are_found(bound):
    # No random place is that good, but a short run finds one.
    def far_away(w):
        value, slope = logistic(w - 2.0)
        return value + float(np.abs(w).max()), slope + np.eye(5)[np.abs(w).argmax()] * np.sign(w)

    check_risk(cp.FunctionRisk(logistic, 5, lower_bound=0.0))
    with pytest.raises(AssertionError, match=rf"lower_bound is {bound}, but a value of 0"):
        check_risk(cp.FunctionRisk(lambda w: (0.01 * (w @ w), 0.02 * w), 5, lower_bound=bound))
    with pytest.raises(AssertionError, match=r"lower_bound is 5, but a value of"):
        check_risk(cp.FunctionRisk(far_away, 5, lower_bound=5.0))


class Square:
    """A risk with segments, right or wrong."""

    n_parameters, convex, lower_bound = 4, True, 0.0

    def __init__(self, *, offset=0.0, segment_shift=0.0, stretch=1.0, best=None, counts=True):
        self.offset, self.segment_shift, self.stretch = offset, segment_shift, stretch
        self.best, self.counts = best, counts
        self.evaluations = 0

    def __repr__(self):
        return "Square()"

    def at(self, w, shift=0.0):
        self.evaluations += self.counts
        return SquarePoint(self, w, shift)


class SquarePoint:
    def __init__(self, risk, w, shift):
        self.risk, self.w, self.value = risk, w, float(w @ w) + shift

    def plane(self):
        return Plane(2 * self.w, -float(self.w @ self.w) + self.risk.offset)

    def toward(self, other):
        return SquareSegment(self, other)


class SquareSegment:
    def __init__(self, start, end):
        self.start, self.direction = start, end.w - start.w

    def minimize(self, extra):
        if self.start.risk.best is not None:
            return self.start.risk.best
        slope = 2 * float(self.start.w @ self.direction) + extra.slope
        return max(0.0, -slope / (2 * float(self.direction @ self.direction) + extra.curvature))

    def at(self, step):
        risk = self.start.risk
        w = self.start.w + risk.stretch * step * self.direction
        return risk.at(w, risk.segment_shift)


def test_risk_with_segments():
    check_risk(Square())
    for risk, message in (
        (Square(offset=-0.1), r"Square\(\): a plane does not touch the risk"),
        (Square(segment_shift=0.1), "a segment is .* at step 0.0, the risk there"),
        (Square(stretch=1.1), "a segment at step 0.3 is not at"),
        (Square(best=-1.0), "best step of a segment is -1.0"),
        (Square(best=np.nan), "best step of a segment is nan"),
        (Square(best=100.0), "best step leads up"),
        (Square(counts=False), "evaluations does not count"),
    ):
        with pytest.raises(AssertionError, match=message):
            check_risk(risk)


def test_groups_that_do_not_add_up():
    class Point(SquarePoint):
        def planes(self, n_groups):
            return [self.plane()] * n_groups

    class Grouped(Square):
        def at(self, w, shift=0.0):
            self.evaluations += 1
            return Point(self, w, shift)

    with pytest.raises(AssertionError, match=r"do not add up to plane\(\)"):
        check_risk(Grouped())


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_losses_pass(loss):
    report = check_loss(loss)
    assert report.subject == repr(loss)
    assert ("the conjugate is that of the loss" in report.passed) == loss.additive
    assert ("a weighted sum over examples" in report.passed) == loss.additive


def test_losses_of_many_classes_are_sent_elsewhere():
    with pytest.raises(TypeError, match=r"check_risk\(cp.ScoredRisk"):
        check_loss(cp.Softmax())


class Right(cp.Loss):
    """Half the squared error, without anything optional."""

    task = "regression"

    def __call__(self, y, scores, weights):
        return float(weights @ (scores - y) ** 2) / 2, weights * (scores - y)


class WrongSign(Right):
    def __call__(self, y, scores, weights):
        value, slopes = super().__call__(y, scores, weights)
        return value, -slopes


class Unweighted(Right):
    def __call__(self, y, scores, weights):
        value, slopes = super().__call__(y, scores, weights)
        return value, slopes / weights


class NotConvex(Right):
    lower_bound = -1.0

    def __call__(self, y, scores, weights):
        return float(weights @ np.sin(scores)), weights * np.cos(scores)


class FalseBound(Right):
    lower_bound = 0.5


class WrongConjugate(Right):
    def conjugate(self, y, slopes, weights):
        return float(slopes @ y + slopes @ slopes / 2)


class NotASum(Right):
    def __call__(self, y, scores, weights):
        value, slopes = super().__call__(y, scores, weights)
        return value**2, 2 * value * slopes


class OtherValue(Right):
    def value(self, y, scores, weights):
        return 1.0


class WrongSearch(Right):
    def minimize_along(self, y, scores, direction, weights, extra):
        return 0.5 * super().minimize_along(y, scores, direction, weights, extra)


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (WrongSign(), "the vector of slopes is wrong: .*Is its sign wrong"),
        (Unweighted(), "the vector of slopes is wrong: .* 12 of 12 entries are wrong"),
        (NotConvex(), "not convex: between two points with values"),
        (FalseBound(), "lower_bound is 0.5, but the loss of the score"),
        (WrongConjugate(), "the conjugate is wrong"),
        (NotASum(), "the sum over its examples"),
        (OtherValue(), r"value\(\) and slopes\(\) differ"),
        (WrongSearch(), r"minimize_along\(\) finds"),
    ],
    ids=repr,
)
def test_wrong_losses_are_found(loss, message):
    assert "searches find the minimum" in check_loss(Right()).passed
    with pytest.raises(AssertionError, match=message):
        check_loss(loss)


@pytest.mark.parametrize(
    "regularizer",
    [
        cp.L2(1.0),
        cp.L2(1e-4),
        cp.L2(0.1, center=np.arange(4.0)),
        cp.L2(0.1, center=np.arange(4.0), weights=[0.1, 1.0, 2.0, 3.0]),
    ],
    ids=repr,
)
def test_regularizers_pass(regularizer):
    assert "along() is the value on a ray" in check_regularizer(regularizer, 4).passed


@pytest.mark.parametrize("name", CASES)
def test_every_regularizer_passes(name):
    # The conjugate of L1 is infinite outside a box of a tenth.
    report = check_regularizer(CASES[name].regularizer, D, scale=0.1)
    assert {"Fenchel's inequality", "convex"} <= set(report.passed)


class Entropy:
    """``lam * sum_j w_j log w_j - w_j``, infinite for negative parameters."""

    def __init__(self, lam):
        self.lam = lam

    def __repr__(self):
        return f"Entropy({self.lam})"

    def value(self, w):
        if (w < 0.0).any():
            return np.inf
        return self.lam * float(np.sum(xlogy(w, w) - w))

    def conjugate(self, u):
        w = np.exp(u / self.lam)
        return self.lam * float(w.sum()), w


class Absolute:
    """``lam * |w|_1``, whose conjugate is zero or infinite."""

    def __init__(self, lam):
        self.lam = lam

    def __repr__(self):
        return f"Absolute({self.lam})"

    def value(self, w):
        return self.lam * float(np.abs(w).sum())

    def conjugate(self, u):
        inside = np.abs(u).max() <= self.lam
        return 0.0 if inside else np.inf, np.zeros_like(u)


@pytest.mark.parametrize("lam", [0.5, 2.0])
@pytest.mark.parametrize("kind", [Entropy, Absolute, cp.Ball])
def test_regularizers_that_are_infinite_somewhere_pass(kind, lam):
    report = check_regularizer(kind(lam), 4, scale=lam / 2)
    assert report.subject == repr(kind(lam))
    assert "Fenchel's inequality" in report.passed


def test_conjugates_that_are_never_finite_are_not_passed():
    with pytest.raises(AssertionError, match=r"infinite at all .* choose another scale"):
        check_regularizer(Absolute(0.5), 4, scale=1e6)


ATTAINED = r"the conjugate is \S+, but at the w that comes with it u\.w - r\(w\) is"


class WrongEntropy(Entropy):
    def conjugate(self, u):
        value, w = super().conjugate(u)
        return value, 2 * w


def test_wrong_entropy_is_found():
    with pytest.raises(AssertionError, match=ATTAINED):
        check_regularizer(WrongEntropy(1.0), 4)


class WrongValue(cp.L2):
    def value(self, w):
        return 2 * super().value(w)


class WrongConjugateValue(cp.L2):
    def conjugate(self, u):
        value, w = super().conjugate(u)
        return 1.01 * value, w


class WrongPoint(cp.L2):
    def conjugate(self, u):
        value, w = super().conjugate(u)
        return value, 1.01 * w


class WrongRay(cp.L2):
    def along(self, start, end):
        return Quadratic(0.0, super().along(start, end).curvature)


class TooSmall(cp.L2):
    """The conjugate is attained, but it is not the largest value."""

    def conjugate(self, u):
        w = 0.5 * super().conjugate(u)[1]
        return float(u @ w) - self.value(w), w


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (WrongValue, ATTAINED),
        (WrongConjugateValue, ATTAINED),
        (WrongPoint, ATTAINED),
        (TooSmall, "Fenchel's inequality fails"),
        (WrongRay, r"along\(\) says"),
    ],
)
def test_wrong_regularizers_are_found(wrong, message):
    with pytest.raises(AssertionError, match=message):
        check_regularizer(wrong(0.5), 4)


def test_the_module_is_there_without_an_import():
    assert cp.testing.check_risk is check_risk
