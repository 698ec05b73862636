"""Laws of linear risks: planes, segments, intercepts, weights, and the bounds they lead to."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from hypothesis import assume, given
from hypothesis import strategies as st

import cutplane as cp
from cutplane.losses import CLASSIFICATION, REGRESSION, Loss

from .exact import TWINS, Objective

EPS = np.finfo(np.float64).eps

LOSSES: list[Loss] = [make() for make in (*CLASSIFICATION.values(), *REGRESSION.values())]
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)

LAYOUTS = {
    "C": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "CSR": scipy.sparse.csr_array,
}
layouts = st.sampled_from([*LAYOUTS])
dtypes = st.sampled_from([np.float32, np.float64])
seeds = st.integers(0, 10**6)


class Sample:
    """Random data for a loss: a few dozen examples, ties, zeros, some of weight zero."""

    def __init__(self, loss, seed, *, layout="C", dtype=np.float64, weighted=True, size=None):
        rng = self.rng = np.random.default_rng(seed)
        m, d = size or (int(rng.integers(4, 40)), int(rng.integers(1, 8)))
        X = rng.normal(size=(m, d)).round(1) * (rng.random((m, d)) < 0.8)
        X[0] = 0.0  # an empty row
        signal = X @ rng.normal(size=d)
        if loss.task == "classification":
            y = np.where(signal + rng.normal(size=m) > 0.0, 1.0, -1.0)
            y[1], y[2] = 1.0, -1.0
        elif isinstance(loss, cp.Poisson):
            y = rng.poisson(np.exp(np.clip(0.5 * signal, -3.0, 3.0))).astype(np.float64)
            y[1] = 1.0
        else:
            y = (signal + rng.standard_t(3, size=m)).round(1)
        weights = None
        if weighted:
            weights = rng.uniform(0.1, 3.0, m)
            weights[3:][rng.random(m - 3) < 0.3] = 0.0
        self.X = LAYOUTS[layout](X.astype(dtype))
        self.y, self.loss, self.weights, self.d = y, loss, weights, d

    def risk(self, *, intercept):
        return cp.ScoredRisk(
            cp.as_rows(self.X), self.y, self.loss, weights=self.weights, intercept=intercept
        )

    def formula(self, lam=1.0, *, intercept):
        return Objective(self.X, self.y, self.loss, lam, self.weights, intercept)

    def somewhere(self, scale=1.0):
        return scale * self.rng.normal(size=self.d)


@every_loss
@given(
    seed=seeds,
    layout=layouts,
    dtype=dtypes,
    intercept=st.booleans(),
    scale=st.sampled_from([0.01, 1.0, 5.0]),
)
def test_planes_never_exceed_the_risk(loss, seed, layout, dtype, intercept, scale):
    sample = Sample(loss, seed, layout=layout, dtype=dtype, weighted=seed % 2 == 0)
    risk, formula = sample.risk(intercept=intercept), sample.formula(intercept=intercept)
    start, end = risk.at(sample.somewhere(scale)), risk.at(sample.somewhere(scale))
    segment = start.toward(end)
    touching = [start, end, segment.at(0.5), segment.at(1.7), risk.at(np.zeros(sample.d))]
    for point in touching:
        plane = point.plane()
        scores = np.abs(point.scores) + abs(point.intercept) + np.abs(sample.y)
        size = abs(point.value) + abs(plane.offset) + float(np.abs(point.slopes) @ scores)
        here = float(plane.slope @ point.w) + plane.offset
        assert here == pytest.approx(point.value, rel=0.0, abs=1e-13 * size)
        for far in (0.1, 1.0, 10.0):
            v = sample.somewhere(far)
            there = risk.at(v)
            steep = float(np.abs(plane.slope) @ np.abs(v)) + abs(plane.offset)
            shifted = np.abs(there.scores) + abs(there.intercept) + np.abs(sample.y)
            rounding = 1e-13 * (size + steep + float(np.abs(there.slopes) @ shifted))
            height = float(plane.slope @ v) + plane.offset
            assert height <= formula.risk(v) + rounding
            assert height <= there.value + rounding


@every_loss
@given(seed=seeds, layout=layouts, dtype=dtypes, intercept=st.booleans())
def test_value_is_the_formula(loss, seed, layout, dtype, intercept):
    sample = Sample(loss, seed, layout=layout, dtype=dtype)
    risk, formula = sample.risk(intercept=intercept), sample.formula(intercept=intercept)
    for scale in (0.0, 0.3, 3.0):
        w = sample.somewhere(scale)
        point = risk.at(w)
        # 1e-13 of the largest terms, which for the exponential losses is the value itself.
        assert point.value == pytest.approx(formula.risk(w), rel=1e-13, abs=1e-13)
        assert point.value >= risk.lower_bound
    assert risk.evaluations == 3


@every_loss
@given(seed=seeds, intercept=st.booleans())
def test_segment_values_are_fresh_evaluations(loss, seed, intercept):
    sample = Sample(loss, seed)
    risk = sample.risk(intercept=intercept)
    start, end = risk.at(sample.somewhere()), risk.at(sample.somewhere())
    segment = start.toward(end)
    before = risk.evaluations
    for step in (0.0, 0.3, 1.0, 2.5):
        on_the_way = segment.at(step)
        fresh = risk.at(on_the_way.w)
        np.testing.assert_allclose(
            on_the_way.w, start.w + step * (end.w - start.w), rtol=1e-14, atol=1e-14
        )
        # Scores differ by a few units in the last place of their terms, of size 10 or so.
        assert on_the_way.value == pytest.approx(fresh.value, rel=1e-12, abs=1e-14)
        np.testing.assert_allclose(on_the_way.scores, fresh.scores, rtol=1e-12, atol=1e-13)
    assert risk.evaluations == before + 4  # points of a segment cost no pass


@every_loss
@given(seed=seeds, intercept=st.booleans(), lam=st.sampled_from([1e-6, 1e-2, 1.0, 100.0]))
def test_search_minimises_on_the_ray(loss, seed, intercept, lam):
    sample = Sample(loss, seed)
    risk, regularizer = sample.risk(intercept=intercept), cp.L2(lam)
    start, end = risk.at(sample.somewhere()), risk.at(sample.somewhere())
    segment = start.toward(end)
    step = segment.minimize(regularizer.along(start.w, end.w))
    assert step >= 0.0

    def total(k):
        # With an intercept the ray goes through the best intercepts of both ends.
        w = start.w + k * (end.w - start.w)
        c = start.intercept + k * (end.intercept - start.intercept)
        scores = start.scores + k * (end.scores - start.scores)
        with np.errstate(over="ignore"):
            return regularizer.value(w) + loss(sample.y, scores + c, risk.weights)[0]

    scan = np.concatenate(
        [
            np.linspace(0.0, 2.0, 81),
            step * np.linspace(0.0, 2.0, 41),
            step + step * np.linspace(-1e-3, 1e-3, 21),
        ]
    )
    assert total(step) <= min(map(total, scan)) + 1e-12 * max(1.0, total(0.0))
    # And what the solver gets is at least that good, since its intercept is the best one.
    lowest = segment.at(step)
    objective = regularizer.value(lowest.w) + lowest.value
    assert objective <= total(step) + 1e-12 * max(1.0, total(step))


@every_loss
@given(seed=seeds)
def test_intercept_minimises_the_mean_loss(loss, seed):
    sample = Sample(loss, seed)
    risk, formula = sample.risk(intercept=True), sample.formula(intercept=True)
    point = risk.at(sample.somewhere())
    used = sample.weights > 0.0
    scores = point.scores[used]
    assert formula.mean(scores + point.intercept) == pytest.approx(point.value, rel=1e-12)
    for shift in (*np.linspace(-3.0, 3.0, 31), -1e-3, 1e-3, -1e-6, 1e-6):
        assert formula.mean(scores + point.intercept + shift) >= point.value * (1.0 - 1e-13)
    # The slopes sum to zero, so the plane says nothing about the intercept.
    assert abs(point.slopes.sum()) <= 1e-13 * np.abs(point.slopes).sum()


@every_loss
def test_without_an_intercept_there_is_none(loss):
    sample = Sample(loss, 0)
    assert sample.risk(intercept=False).at(sample.somewhere()).intercept == 0.0


# Bounds


@every_loss
@given(
    seed=seeds,
    layout=layouts,
    dtype=dtypes,
    intercept=st.booleans(),
    exponent=st.integers(-8, 4),
)
def test_bounds_hold_at_every_iteration(loss, seed, layout, dtype, intercept, exponent):
    sample = Sample(loss, seed, layout=layout, dtype=dtype, weighted=seed % 2 == 0)
    lam = 10.0**exponent
    formula, regularizer = sample.formula(lam, intercept=intercept), cp.L2(lam)
    runs = [
        cp.minimize(
            sample.risk(intercept=intercept), regularizer, method=method, tol=1e-11, max_iter=limit
        )
        for method, limit in ((cp.bmrm(), 150), (cp.bmrm(line_search=False), 25))
    ]
    for run in runs:
        assert run.certificate.valid
        assert run.status in (
            cp.Status.OPTIMAL,
            cp.Status.ITERATION_LIMIT,
            cp.Status.STALLED,
        )
        assert formula(run.w) == pytest.approx(run.objective, rel=1e-12, abs=1e-14)
    # Whatever w was found, by either run, its objective is above all lower bounds of both.
    ws = [run.w for run in runs]
    reachable = min(formula(w) for w in ws)
    # A slope is off by a unit in the last place of its terms, which the bound sees times w.
    sizes = max(float(np.mean(np.abs(risk_scores(sample, w)))) for w in ws)
    rounding = 64 * EPS * (abs(reachable) + sizes)
    for run in runs:
        for record in run.history:
            assert record.lower_bound <= reachable + rounding
            assert record.objective >= max(r.certificate.lower_bound for r in runs) - rounding
    for scale in (0.1, 1.0, 10.0):
        assert formula(sample.somewhere(scale)) >= runs[0].certificate.lower_bound - rounding


def risk_scores(sample, w):
    return abs(sample.X) @ np.abs(w)


@every_loss
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("lam", [1e-2, 1.0])
def test_agrees_with_an_exact_solver(loss, intercept, seed, lam):
    sample = Sample(loss, seed, weighted=seed > 0, size=(25, 4))
    formula = sample.formula(lam, intercept=intercept)
    result = cp.minimize(sample.risk(intercept=intercept), cp.L2(lam), tol=1e-9, max_iter=2000)
    assert result.status is cp.Status.OPTIMAL
    assert result.objective == pytest.approx(formula.optimum, rel=1e-8, abs=1e-10)
    for record in result.history:
        assert record.lower_bound <= formula.optimum * (1.0 + 64 * EPS)
    # Strong convexity: both are this close to the minimizer.
    apart = np.linalg.norm(result.w - formula.solution)
    gap = result.certificate.gap + 1e-9 * formula.optimum
    assert apart <= 2.0 * np.sqrt(2.0 * gap / lam)


def test_every_loss_has_a_formula():
    assert {type(loss) for loss in LOSSES} == set(TWINS)


@every_loss
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_objective_is_that_of_w_to_the_last_bit(loss, layout, dtype):
    sample = Sample(loss, 5, layout=layout, dtype=dtype, size=(40, 5))
    for intercept in (False, True):
        risk, regularizer = sample.risk(intercept=intercept), cp.L2(0.1)
        result = cp.minimize(risk, regularizer)
        again = sample.risk(intercept=intercept).at(result.w)
        assert regularizer.value(result.w) + again.value == result.objective
        assert again.intercept == result.point.intercept


@every_loss
def test_the_same_run_gives_the_same_bits(loss):
    # Whatever lies next to what in memory: a compiled sum may take another path for neighbors.
    sample = Sample(loss, 7, size=(30, 4))
    first, rubbish = None, []
    for i in range(12):
        rubbish.append([np.empty(20 + i) for _ in range(i)])
        result = cp.minimize(sample.risk(intercept=True), cp.L2(0.05), tol=1e-8)
        history = [replace(record, seconds=0.0) for record in result.history]
        first = first or (history, result)
        assert history == first[0]
        assert np.array_equal(result.w, first[1].w)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_threads_leave_no_trace(layout):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 60))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    X = LAYOUTS[layout](X)
    histories = []
    for n_threads in (1, 2, 3):
        risk = cp.ScoredRisk(cp.as_rows(X, n_threads=n_threads), y, cp.Hinge())
        history = cp.minimize(risk, cp.L2(1e-2), max_iter=8).history
        histories.append([replace(record, seconds=0.0) for record in history])
    assert histories[0] == histories[1] == histories[2]


# Weights


@every_loss
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("lam", [1e-3, 0.1, 10.0])
@pytest.mark.parametrize("seed", range(2))
def test_weight_k_is_k_copies_and_weight_zero_is_removal(loss, intercept, lam, seed):
    sample = Sample(loss, seed, weighted=False, size=(20, 3))
    copies = sample.rng.integers(0, 4, 20)
    copies[1:3] = 2  # both classes, and a count above zero, stay
    X, y = sample.X, sample.y
    weighted = cp.ScoredRisk(
        cp.as_rows(X), y, loss, weights=copies.astype(np.float64), intercept=intercept
    )
    copied = cp.ScoredRisk(
        cp.as_rows(np.repeat(X, copies, axis=0)), np.repeat(y, copies), loss, intercept=intercept
    )
    one = cp.minimize(weighted, cp.L2(lam), tol=1e-12, max_iter=1500)
    other = cp.minimize(copied, cp.L2(lam), tol=1e-12, max_iter=1500)
    assert one.objective == pytest.approx(other.objective, rel=1e-7, abs=1e-12)
    if lam >= 0.1:
        # Strong convexity: a gap g leaves w within sqrt(2 g / lam).
        radius = np.sqrt(2e-12 * one.objective / lam)
        assert np.linalg.norm(one.w - other.w) <= 2.0 * radius + 1e-7
    # At the same w even the intercept is the same, also where an interval of them is best.
    w = sample.somewhere()
    assert weighted.at(w).intercept == pytest.approx(copied.at(w).intercept, rel=1e-9, abs=1e-9)


@every_loss
@given(seed=seeds, factor=st.sampled_from([1e-3, 7.0, 1e6]))
def test_weights_matter_only_relative_to_each_other(loss, seed, factor):
    sample = Sample(loss, seed)
    one = sample.risk(intercept=True)
    sample.weights = factor * sample.weights
    other = sample.risk(intercept=True)
    w = sample.somewhere()
    assert one.at(w).value == pytest.approx(other.at(w).value, rel=1e-13)
    np.testing.assert_allclose(one.weights.sum(), 1.0, rtol=1e-14)


@every_loss
@given(seed=seeds, intercept=st.booleans())
def test_order_of_the_examples_does_not_matter(loss, seed, intercept):
    sample = Sample(loss, seed)
    order = sample.rng.permutation(len(sample.y))
    w = sample.somewhere()
    here = sample.risk(intercept=intercept).at(w)
    sample.X, sample.y = sample.X[order], sample.y[order]
    sample.weights = sample.weights[order]
    there = sample.risk(intercept=intercept).at(w)
    assert here.value == pytest.approx(there.value, rel=1e-12)
    assert here.intercept == pytest.approx(there.intercept, rel=1e-9, abs=1e-9)


@every_loss
@given(seed=seeds)
def test_layouts_agree(loss, seed):
    reference = None
    for layout in LAYOUTS:
        sample = Sample(loss, seed, layout=layout)
        w = sample.somewhere()
        point = sample.risk(intercept=True).at(w)
        if reference is None:
            reference = point
        assume(np.isfinite(reference.value))
        assert point.value == pytest.approx(reference.value, rel=1e-12)
        size = np.abs(point.slopes) @ risk_scores(sample, np.ones(sample.d))
        np.testing.assert_allclose(
            point.plane().slope, reference.plane().slope, rtol=0.0, atol=1e-11 * size
        )


# Bad input


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": np.ones(3)}, r"y has shape \(3,\), X has 4 rows"),
        ({"y": np.ones((4, 1))}, r"y has shape \(4, 1\), X has 4 rows"),
        ({"weights": np.ones(5)}, r"weights have shape \(5,\), X has 4 rows"),
        ({"weights": np.array([1.0, -1.0, 1.0, 1.0])}, "finite and not negative"),
        ({"weights": np.array([1.0, np.nan, 1.0, 1.0])}, "finite and not negative"),
        ({"weights": np.array([1.0, np.inf, 1.0, 1.0])}, "finite and not negative"),
        ({"weights": np.zeros(4)}, "at least one weight must be positive"),
        ({"loss": cp.Poisson(), "y": -np.ones(4)}, "zero or positive"),
        ({"X": np.ones((0, 2)), "y": np.ones(0)}, "at least one example"),
    ],
)
def test_bad_input(changes, message):
    arguments = {"X": np.ones((4, 2)), "y": np.ones(4), "loss": cp.Hinge(), "weights": None}
    arguments |= changes
    with pytest.raises(ValueError, match=message):
        cp.ScoredRisk(
            cp.as_rows(arguments["X"]),
            arguments["y"],
            arguments["loss"],
            weights=arguments["weights"],
        )


def test_targets_of_weight_zero_are_not_checked():
    y = np.array([1.0, 2.0, -5.0])
    weights = np.array([1.0, 1.0, 0.0])
    X = np.ones((3, 1))
    risk = cp.ScoredRisk(cp.as_rows(X), y, cp.Poisson(), weights=weights)
    assert np.isfinite(risk.at(np.zeros(1)).value)
