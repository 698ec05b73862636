"""Laws of risks of many outputs: planes, segments, kernels against formulas, exact optima."""

from itertools import pairwise

import cvxpy
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import cutplane as cp
from cutplane.compute.threads import thread_limit
from cutplane.data.rows import EASE
from cutplane.testing import check_risk

from .exact import clarabel

LAYOUTS = {"C": np.ascontiguousarray, "Fortran": np.asfortranarray, "CSR": scipy.sparse.csr_array}
seeds = st.integers(0, 10**6)
KINDS = ["quantiles", "all", "worst"]
kinds = st.sampled_from(KINDS)
every_kind = pytest.mark.parametrize("kind", KINDS)


def row_loss(loss, y, z):
    """The loss of one example by the formula."""
    if isinstance(loss, cp.NonCrossing):
        pinball = np.maximum(loss.quantiles * (y - z), (1.0 - loss.quantiles) * (z - y)).sum()
        return pinball + loss.penalty * np.maximum(z[:-1] - z[1:], 0.0).sum()
    above, below = [*z[y], 0.0], [*z[~y], 0.0]
    pairs = [b - a for a in above for b in below]
    pairs.pop()  # the label of score zero with itself
    losses = np.maximum(0.0, 1.0 + np.array(pairs))
    return losses.mean() if loss.pairs == "all" else losses.max()


class Sample:
    """Random data with ties, an empty row and examples of weight zero."""

    def __init__(self, kind, seed, *, layout="C", m=None, d=None, k=None):
        rng = self.rng = np.random.default_rng(seed)
        m, d = m or int(rng.integers(5, 40)), d or int(rng.integers(1, 5))
        k = k or seed % 4 + 1
        X = rng.normal(size=(m, d)).round(1) + seed % 3
        X[0] = 0.0
        self.dense, self.X, self.k, self.d = X, LAYOUTS[layout](X), k, d
        if kind == "quantiles":
            self.loss = cp.NonCrossing(np.arange(1, k + 1) / (k + 1), [0.0, 1.0, 10.0][seed % 3])
            self.y = (X @ rng.normal(size=d) + rng.normal(size=m)).round(1)
        else:
            self.loss = cp.LabelRanking(kind)
            self.y = X @ rng.normal(size=(d, k)) + rng.normal(size=(m, k)) > 0.5
        self.weights = rng.integers(0, 3, m).astype(float)
        self.weights[0] = 1.0
        self.p = self.weights / self.weights.sum()

    def risk(self):
        return cp.ScoredRisk(self.X, self.y, self.loss, weights=self.weights)

    def mean_loss(self, risk, w):
        """The risk by the formula."""
        W, shift = w[: self.k * self.d].reshape(self.k, self.d), w[self.k * self.d :]
        scores = (self.dense - self.p @ self.dense) @ W.T + risk.map.constants + EASE * shift
        return sum(
            p * row_loss(self.loss, y, z)
            for p, y, z in zip(self.p, self.y, scores.round(12), strict=True)
        )

    def somewhere(self, scale=1.0):
        return scale * self.rng.normal(size=self.k * (self.d + 1))


@given(
    kind=kinds,
    seed=seeds,
    layout=st.sampled_from([*LAYOUTS]),
    scale=st.sampled_from([0.01, 1.0, 5.0]),
)
def test_planes_touch_the_risk_and_stay_below_it(kind, seed, layout, scale):
    sample = Sample(kind, seed, layout=layout)
    risk = sample.risk()
    start, end = risk.at(sample.somewhere(scale)), risk.at(sample.somewhere(scale))
    segment = start.toward(end)
    for point in [start, end, segment.at(0.5), segment.at(1.7)]:
        assert point.value == pytest.approx(sample.mean_loss(risk, point.w), rel=1e-9, abs=1e-10)
        plane = point.plane()
        size = 1.0 + float(np.abs(plane.slope * point.w).sum())
        here = float(plane.slope @ point.w) + plane.offset
        assert here == pytest.approx(point.value, rel=1e-12, abs=1e-12 * size)
        for far in (0.1, 1.0, 10.0):
            v = sample.somewhere(far)
            height = float(plane.slope @ v) + plane.offset
            assert height <= risk.at(v).value + 1e-12 * (size + np.abs(plane.slope * v).sum())


@given(kind=kinds, seed=seeds)
def test_the_derivative_on_a_ray(kind, seed):
    sample = Sample(kind, seed)
    risk = sample.risk()
    start, end = risk.at(sample.somewhere()), risk.at(sample.somewhere())
    segment = start.toward(end)
    for step in (0.0, 0.37, 1.0, 2.5):
        value, slope = segment.along(step)
        assert value == pytest.approx(segment.at(step).value, rel=1e-12)
        # Convex: the slope is one of a tangent.
        for other in (0.0, 0.5, 1.3, 4.0):
            assert segment.at(other).value >= value + slope * (other - step) - 1e-11 * (1 + value)


def ranking(sample, columns, i):
    """The loss of one example, for an exact solver."""
    above = [*(columns[k][i] for k in np.flatnonzero(sample.y[i])), 0.0]
    below = [*(columns[k][i] for k in np.flatnonzero(~sample.y[i])), 0.0]
    losses = [cvxpy.pos(1.0 + b - a) for a in above for b in below][:-1]
    joined = cvxpy.hstack(losses)
    return cvxpy.sum(joined) / len(losses) if sample.loss.pairs == "all" else cvxpy.max(joined)


@every_kind
@settings(max_examples=10)  # the exact solver takes its time
@given(seed=seeds, lam=st.sampled_from([1e-3, 0.05, 1.0]))
def test_bounds_enclose_the_exact_optimum(kind, seed, lam):
    sample = Sample(kind, seed)
    risk = sample.risk()
    W, shift = cvxpy.Variable((sample.k, sample.d)), cvxpy.Variable(sample.k)
    centered = sample.dense - sample.p @ sample.dense
    columns = [centered @ W[k] + risk.map.constants[k] + EASE * shift[k] for k in range(sample.k)]
    if kind == "quantiles":
        loss, residuals = sample.loss, [column - sample.y for column in columns]
        losses = sum(
            cvxpy.maximum(-quantile * r, (1.0 - quantile) * r)
            for quantile, r in zip(loss.quantiles, residuals, strict=True)
        )
        for low, high in pairwise(columns):
            losses = losses + loss.penalty * cvxpy.pos(low - high)
    else:
        losses = cvxpy.hstack([ranking(sample, columns, i) for i in range(len(sample.y))])
    goal = 0.5 * lam * (cvxpy.sum_squares(W) + cvxpy.sum_squares(shift)) + sample.p @ losses
    clarabel(cvxpy.Minimize(goal), 1e-9)
    w = np.concatenate([W.value.ravel(), shift.value])
    optimum = 0.5 * lam * w @ w + risk.at(w).value
    certificate = cp.minimize(risk, cp.L2(lam), method=cp.level(), tol=1e-5).certificate
    assert certificate.status is cp.Status.OPTIMAL
    assert certificate.lower_bound <= optimum + 1e-12
    assert certificate.objective <= optimum + certificate.gap + 1e-12


@every_kind
def test_the_checks_for_users_pass(kind):
    check_risk(Sample(kind, 6).risk(), n_points=6)


@every_kind
def test_threads_make_no_difference(kind):
    sample = Sample(kind, 4, m=30_000, d=3, k=3)
    w = sample.somewhere()
    results = []
    for n_threads in (1, 2):
        with thread_limit(n_threads):
            point = sample.risk().at(w)
            results.append((point.value, point.plane().offset, *point.plane().slope))
    assert results[0] == results[1]


def test_shifts_of_features_and_targets_cost_nothing():
    sample = Sample("quantiles", 5, m=30)
    shifted = cp.ScoredRisk(sample.dense + 7.0, sample.y - 3.0, sample.loss)
    plain = cp.ScoredRisk(sample.dense, sample.y, sample.loss)
    w = sample.somewhere()
    assert shifted.at(w).value == pytest.approx(plain.at(w).value, rel=1e-10)


@pytest.mark.parametrize(
    ("y", "loss", "error", "message"),
    [
        (np.ones(2), cp.NonCrossing([0.5]), ValueError, "y has 2 rows, X has 3"),
        (np.full(3, np.nan), cp.NonCrossing([0.5]), ValueError, "finite numbers"),
        (np.ones(3), cp.LabelRanking(), ValueError, "must be a matrix"),
        (np.full((3, 2), 2), cp.LabelRanking(), ValueError, "must be 0 or 1"),
        (np.ones(3), "quantiles", TypeError, "must be a Loss"),
    ],
)
def test_bad_input_is_named(y, loss, error, message):
    with pytest.raises(error, match=message):
        cp.ScoredRisk(np.ones((3, 2)), y, loss)


@pytest.mark.parametrize(
    "quantiles", [[0.5, 0.1], [0.5, 0.5], [0.0, 0.5], [1.0], [], 0.5, [0.1, np.nan]]
)
def test_quantiles_ascend(quantiles):
    with pytest.raises(ValueError, match="quantiles must"):
        cp.NonCrossing(quantiles)


def test_pairs_are_all_or_the_worst():
    with pytest.raises(ValueError, match="pairs must be 'all' or 'worst', got 'some'"):
        cp.LabelRanking("some")


@pytest.mark.parametrize("penalty", [-1.0, np.inf, np.nan])
def test_a_penalty_is_a_price(penalty):
    with pytest.raises(ValueError, match="the penalty must be finite and not negative"):
        cp.NonCrossing([0.5], penalty)
