"""Laws of risks of one score with many offsets: planes, segments, order of thresholds, optima."""

import cvxpy
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import cutplane as cp
from cutplane.testing import check_risk

from .exact import TWINS, Objective, clarabel

BINARY = [cp.Hinge(), cp.SquaredHinge(), cp.SmoothHinge(0.5), cp.Logistic(), cp.Exponential()]
QUANTILES = [cp.Quantile(0.1), cp.Quantile(0.5), cp.Quantile(0.8)]
LAYOUTS = {"C": np.ascontiguousarray, "Fortran": np.asfortranarray, "CSR": scipy.sparse.csr_array}
every_binary_loss = pytest.mark.parametrize("loss", BINARY, ids=repr)
seeds = st.integers(0, 10**6)


def shared(X, terms, **options):
    """The risk of losses with a column of targets each."""
    targets = np.column_stack([y for y, _ in terms]) if terms else np.ones((3, 0))
    return cp.ScoredRisk(X, targets, cp.SharedScore([loss for _, loss in terms]), **options)


class Grades:
    """Random grades, with ties, an empty row and examples of weight zero; or quantiles of them."""

    def __init__(self, seed, loss=None, *, layout="C"):
        rng = self.rng = np.random.default_rng(seed)
        m, d, k = int(rng.integers(8, 40)), int(rng.integers(1, 5)), seed % 4 + 2
        X = rng.normal(size=(m, d)).round(1)
        X[0] = 0.0
        scores = X @ rng.normal(size=d) + rng.normal(size=m)
        self.grades = np.searchsorted(np.quantile(scores, np.arange(1, k) / k), scores)
        self.grades[1 : k + 1] = np.arange(k)
        self.weights = rng.uniform(0.1, 3.0, m)
        self.weights[k + 1 :][rng.random(m - k - 1) < 0.3] = 0.0
        self.dense, self.X, self.d = X, LAYOUTS[layout](X), d
        self.terms = [(scores.round(1), quantile) for quantile in QUANTILES]
        if loss is not None:
            self.terms = [(np.where(self.grades > j, 1.0, -1.0), loss) for j in range(k - 1)]
        self.p = self.weights / self.weights.sum()

    def risk(self):
        return shared(self.X, self.terms, weights=self.weights)

    def sum_of_linear_risks(self):
        """The same risk, with a pass over the data for each loss."""
        return sum(cp.ScoredRisk(self.X, y, loss, weights=self.weights) for y, loss in self.terms)

    def mean_losses(self, w, offsets):
        """The risk for given offsets, by the formulas."""
        scores = self.dense @ w
        return sum(
            float(self.p @ TWINS[type(loss)].values(loss, y, scores + c))
            for (y, loss), c in zip(self.terms, offsets, strict=True)
        )

    def somewhere(self, scale=1.0):
        return scale * self.rng.normal(size=self.d)


@given(
    seed=seeds,
    loss=st.sampled_from([*BINARY, None]),
    layout=st.sampled_from([*LAYOUTS]),
    scale=st.sampled_from([0.01, 1.0, 5.0]),
)
def test_planes_touch_the_risk_and_stay_below_it(seed, loss, layout, scale):
    sample = Grades(seed, loss, layout=layout)
    risk = sample.risk()
    start, end = risk.at(sample.somewhere(scale)), risk.at(sample.somewhere(scale))
    segment = start.toward(end)
    for point in [start, end, segment.at(0.5), segment.at(1.7)]:
        plane = point.plane()
        here = float(plane.slope @ point.w) + plane.offset
        assert point.value == pytest.approx(sample.mean_losses(point.w, point.intercept), rel=1e-12)
        assert here == pytest.approx(point.value, rel=1e-9, abs=1e-12)
        for far in (0.1, 1.0, 3.0):
            v, offsets = sample.somewhere(far), 2.0 * sample.rng.normal(size=len(sample.terms))
            height = float(plane.slope @ v) + plane.offset
            slack = 1e-12 * (1.0 + abs(point.value))
            assert height <= risk.at(v).value + slack
            # For all offsets, not the best alone: that is what the lower bound rests on.
            assert height <= sample.mean_losses(v, offsets) + slack


@given(seed=seeds, loss=st.sampled_from([*BINARY, None]))
def test_it_is_the_sum_of_linear_risks(seed, loss):
    sample = Grades(seed, loss)
    w = sample.somewhere()
    shared, added = sample.risk().at(w), sample.sum_of_linear_risks().at(w)
    assert shared.value == pytest.approx(added.value, rel=1e-12)
    assert shared.plane().offset == pytest.approx(added.plane().offset, rel=1e-9, abs=1e-12)
    np.testing.assert_allclose(shared.plane().slope, added.plane().slope, rtol=1e-8, atol=1e-10)


@given(seed=seeds, loss=st.sampled_from(BINARY), scale=st.sampled_from([0.0, 0.1, 3.0, 100.0]))
def test_thresholds_are_in_order(seed, loss, scale):
    # The loss of a threshold one grade up differs by the examples of that grade, which pull it up:
    # so the best thresholds are in order at all coefficients, not the best ones alone.
    sample = Grades(seed, loss)
    if isinstance(loss, cp.Exponential):
        scale = min(scale, 3.0)
    thresholds = -sample.risk().at(sample.somewhere(scale)).intercept
    rounding = 1e-9 * (1.0 + np.abs(thresholds).max())
    assert (np.diff(thresholds) >= -rounding).all()


@pytest.mark.parametrize("loss", [cp.Hinge(), cp.SquaredHinge(), None], ids=repr)
@given(seed=seeds, lam=st.sampled_from([1e-3, 0.05, 1.0]))
def test_bounds_enclose_the_exact_optimum(loss, seed, lam):
    sample = Grades(seed, loss)
    w, offsets = cvxpy.Variable(sample.d), cvxpy.Variable(len(sample.terms))
    losses = sum(
        sample.p @ TWINS[type(loss)].expression(loss, y, sample.dense @ w + offsets[k])
        for k, (y, loss) in enumerate(sample.terms)
    )
    clarabel(cvxpy.Minimize(0.5 * lam * cvxpy.sum_squares(w) + losses), 1e-10)
    optimum = 0.5 * lam * w.value @ w.value + sample.mean_losses(w.value, offsets.value)
    result = cp.minimize(sample.risk(), cp.L2(lam), tol=1e-6)
    certificate = result.certificate
    assert certificate.status is cp.Status.OPTIMAL
    assert certificate.lower_bound <= optimum + 1e-12
    # The exact solver is above the optimum by its own tolerance.
    assert certificate.objective <= optimum + certificate.gap + 1e-12


@every_binary_loss
def test_one_threshold_is_a_binary_classifier(loss):
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(40, 3)), np.where(rng.random(40) < 0.4, 1.0, -1.0)
    exact = Objective(X, y, loss, 0.1)
    result = cp.minimize(shared(X, [(y, loss)]), cp.L2(0.1), tol=1e-8)
    assert result.certificate.lower_bound <= exact.optimum <= result.objective * (1 + 1e-8)


@pytest.mark.parametrize("loss", [*BINARY[:4], None], ids=repr)
def test_the_checks_for_users_pass(loss):
    check_risk(Grades(6, loss).risk(), n_points=6)


def test_the_data_are_read_once_for_all_losses():
    class Counting:
        """Rows that count the passes."""

        def __init__(self, X):
            self.X, self.shape, self.passes = X, X.shape, 0

        def scores(self, w):
            self.passes += 1
            return self.X @ w

        def pullback(self, slopes):
            self.passes += 1
            return self.X.T @ slopes

    sample = Grades(7, cp.Hinge())
    rows = Counting(sample.dense)
    risk = shared(rows, sample.terms)
    start, end = risk.at(sample.somewhere()), risk.at(sample.somewhere())
    assert len(sample.terms) > 2
    assert rows.passes == risk.evaluations == 2
    middle = start.toward(end).at(0.5)
    assert rows.passes == 2
    assert middle.plane() is middle.plane()
    assert rows.passes == 3


@pytest.mark.parametrize(
    ("terms", "error", "message"),
    [
        ([], ValueError, "at least one loss"),
        ([(np.ones(2), cp.Hinge())], ValueError, r"targets have shape \(2, 1\), X has 3 rows"),
        ([(np.ones(3), "hinge")], TypeError, "must be a Loss"),
        ([(np.arange(3.0), cp.Hinge())], ValueError, "are -1 and 1"),
    ],
)
def test_bad_input_is_named(terms, error, message):
    with pytest.raises(error, match=message):
        shared(np.ones((3, 2)), terms)


def test_overflow_is_named():
    risk = shared(np.full((2, 1), 1e250), [(np.array([1.0, -1.0]), cp.Hinge())])
    with pytest.raises(cp.NonFiniteRisk, match="the scores overflow"):
        risk.at(np.array([1e100]))


def test_it_says_what_it_is():
    risk = shared(np.ones((3, 2)), [(np.ones(3), cp.Absolute())] * 2)
    assert repr(risk) == "ScoredRisk(3 x 2 dense, SharedScore(2 of Absolute()), intercepts)"
