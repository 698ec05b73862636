"""Laws of risks of many classes at once: planes, segments, intercepts, bounds, exact optima."""

from dataclasses import replace

import cvxpy
import numpy as np
import pytest
import scipy.sparse
from hypothesis import example, given
from hypothesis import strategies as st

import cutplane as cp
from cutplane.data import AllPairs, OneScore
from cutplane.losses import MulticlassLoss
from cutplane.models.multiclass.offsets import (
    Repair,
    class_sums,
    make_slopes,
    repaired,
    sums_of_pairs,
)

from .exact import clarabel

EPS = np.finfo(np.float64).eps

LOSSES = [cp.CrammerSinger(), cp.Softmax()]
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)
# Samples replace these costs by random ones of their own classes.
COSTLY = [type(loss)(costs=[[0.0, 1.0], [2.0, 0.0]]) for loss in LOSSES]
every_kind = pytest.mark.parametrize("loss", [*LOSSES, *COSTLY], ids=repr)

LAYOUTS = {
    "C": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "CSR": scipy.sparse.csr_array,
}
layouts = st.sampled_from([*LAYOUTS])
dtypes = st.sampled_from([np.float32, np.float64])
seeds = st.integers(0, 10**6)


def costs_of(loss, y, k):
    """What is added to the scores of each example."""
    if loss.costs is not None:
        return loss.costs[y]
    return np.zeros((len(y), k)) if isinstance(loss, cp.Softmax) else 1.0 - np.eye(k)[y]


def losses_of(loss, y, scores):
    """The loss of each example, by the formula."""
    own = scores[np.arange(len(y)), y]
    scores = scores + costs_of(loss, y, scores.shape[1])
    if isinstance(loss, cp.Softmax):
        top = scores.max(axis=1)
        return np.log(np.exp(scores - top[:, None]).sum(axis=1)) + (top - own)
    return scores.max(axis=1) - own


class Sample:
    """Random data of a few classes: ties, zeros, some examples of weight zero."""

    def __init__(self, loss, seed, *, layout="C", dtype=np.float64, weighted=True, size=None):
        rng = self.rng = np.random.default_rng(seed)
        m, d, k = size or (int(rng.integers(8, 40)), int(rng.integers(1, 6)), seed % 4 + 2)
        X = rng.normal(size=(m, d)).round(1) * (rng.random((m, d)) < 0.8)
        X[0] = 0.0  # an empty row
        y = (X @ rng.normal(size=(d, k)) + rng.gumbel(size=(m, k))).argmax(axis=1)
        y[1 : k + 1] = np.arange(k)
        self.weights = None
        if weighted:
            self.weights = rng.uniform(0.1, 3.0, m)
            self.weights[k + 1 :][rng.random(m - k - 1) < 0.3] = 0.0
        self.dense = X.astype(dtype).astype(np.float64)
        self.X = LAYOUTS[layout](X.astype(dtype))
        if loss.costs is not None:
            costs = rng.uniform(0.0, 3.0, (k, k)).round(1) * (1.0 - np.eye(k))
            costs[0, 1] += 1.0
            loss = type(loss)(costs=costs)
        self.y, self.loss, self.k, self.d = y, loss, k, d
        p = np.ones(m) if self.weights is None else self.weights
        self.p = p / p.sum()

    def risk(self, *, intercept):
        return cp.ScoredRisk(
            cp.as_rows(self.X), self.y, self.loss, weights=self.weights, intercept=intercept
        )

    def mean_loss(self, w, c):
        """The risk for given intercepts, by the formula."""
        return float(
            self.p @ losses_of(self.loss, self.y, self.dense @ w.reshape(self.k, -1).T + c)
        )

    def somewhere(self, scale=1.0):
        return scale * self.rng.normal(size=self.k * self.d)

    def optimum(self, lam, *, intercept):
        """J at the parameters of an exact solver: not below the minimum, above it by little."""
        W = cvxpy.Variable((self.k, self.d))
        c = cvxpy.Variable(self.k) if intercept else np.zeros(self.k)
        scores = self.dense @ W.T + np.ones((len(self.y), 1)) @ cvxpy.reshape(
            c, (1, self.k), order="C"
        )
        raised = scores + costs_of(self.loss, self.y, self.k)
        if isinstance(self.loss, cp.Softmax):
            tops = cvxpy.log_sum_exp(raised, axis=1)
        else:
            tops = cvxpy.max(raised, axis=1)
        own = cvxpy.sum(cvxpy.multiply(np.eye(self.k)[self.y], scores), axis=1)
        goal = 0.5 * lam * cvxpy.sum_squares(W) + self.p @ (tops - own)
        clarabel(cvxpy.Minimize(goal), 1e-9)
        w = W.value.ravel()
        return 0.5 * lam * w @ w + self.mean_loss(w, c.value if intercept else c)


@every_kind
@given(
    seed=seeds,
    layout=layouts,
    dtype=dtypes,
    intercept=st.booleans(),
    scale=st.sampled_from([0.01, 1.0, 5.0, 1e3]),
)
# Classes that share no example with others: rounding once made their Newton steps long, so that the
# damping stopped the search for intercepts far from the accuracy that the loss promises.
@example(seed=319, layout="C", dtype=np.float32, intercept=True, scale=1e3)
@example(seed=97, layout="C", dtype=np.float64, intercept=True, scale=0.01)
def test_planes_never_exceed_the_risk(loss, seed, layout, dtype, intercept, scale):
    sample = Sample(loss, seed, layout=layout, dtype=dtype, weighted=seed % 2 == 0)
    risk = sample.risk(intercept=intercept)
    start, end = risk.at(sample.somewhere(scale)), risk.at(sample.somewhere(scale))
    segment = start.toward(end)
    for point in [start, end, segment.at(0.5), segment.at(1.7), risk.at(np.zeros(start.w.size))]:
        plane = point.plane()
        size = 1.0 + float(np.abs(point.scores).max()) + float(np.abs(point.intercept).max())
        here = float(plane.slope @ point.w) + plane.offset
        assert point.value == pytest.approx(
            sample.mean_loss(point.w, point.intercept), rel=1e-12, abs=1e-13 * size
        )
        # It touches the risk, as closely as the intercepts are the best: the loss promises 1e-11 of
        # the risk for these, and as much for the shares that the plane is made of.
        assert here == pytest.approx(point.value, rel=2.0 * loss.accuracy, abs=1e-13 * size)
        for far in (0.1, 1.0, 10.0):
            v = sample.somewhere(far)
            there = risk.at(v)
            reach = np.abs(there.scores).max() + np.abs(there.intercept).max()
            height = float(plane.slope @ v) + plane.offset
            assert height <= there.value + 1e-13 * (size + reach)
            if intercept:
                c = sample.rng.normal(size=sample.k)
                assert height <= sample.mean_loss(v, c) + 1e-13 * (size + reach)


@every_loss
@given(seed=seeds, scale=st.sampled_from([0.01, 1.0, 30.0, 1e4]))
def test_intercepts_are_the_best(loss, seed, scale):
    sample = Sample(loss, seed)
    point = sample.risk(intercept=True).at(sample.somewhere(scale))
    for size in (1e-6, 1e-3, 0.1, 3.0):
        for _ in range(5):
            other = point.intercept + size * sample.rng.normal(size=sample.k)
            assert sample.mean_loss(point.w, other) >= point.value * (1.0 - 2e-11) - 1e-13 * scale


@every_loss
def test_without_intercepts_there_are_none(loss):
    sample = Sample(loss, 0)
    np.testing.assert_array_equal(
        sample.risk(intercept=False).at(sample.somewhere()).intercept, np.zeros(sample.k)
    )


def shares_out_of_balance(seed):
    """Shares of classes, of which some have too much; classes and weights of the examples."""
    rng = np.random.default_rng(seed)
    m, k = int(rng.integers(2, 50)), int(rng.integers(2, 6))
    weights = rng.random(m)
    weights /= weights.sum()
    shares = rng.random((m, k)) ** 5 * (rng.random((m, k)) < 0.7)
    shares[:, 0] += 1e-3
    shares /= shares.sum(axis=1, keepdims=True)
    return shares, np.arange(m) % k, weights, rng


@given(seed=seeds)
def test_repaired_shares_have_the_masses_of_the_classes(seed):
    shares, y, weights, _ = shares_out_of_balance(seed)
    masses = np.bincount(y, weights=weights, minlength=shares.shape[1])
    result = repaired(shares.copy(), y, weights)
    np.testing.assert_allclose(weights @ result, masses, rtol=0.0, atol=4 * EPS)
    np.testing.assert_allclose(result.sum(axis=1), 1.0, rtol=0.0, atol=8 * EPS)
    assert (result >= 0.0).all()
    # Shares that are balanced already stay as they are, up to rounding.
    np.testing.assert_allclose(repaired(result.copy(), y, weights), result, atol=16 * EPS)


@given(seed=seeds)
def test_sums_of_repaired_shares_need_no_look_at_examples(seed):
    shares, y, weights, rng = shares_out_of_balance(seed)
    result, X = repaired(shares.copy(), y, weights), rng.normal(size=(len(y), 3))
    repair = Repair.of(*class_sums(shares, y, weights))
    of_class = np.eye(shares.shape[1])[y] * weights[:, None]
    pairs = sums_of_pairs(shares, y, weights)
    np.testing.assert_allclose(pairs, of_class.T @ shares, rtol=1e-12, atol=EPS)
    changed = pairs + repair.change(pairs.T).T
    np.testing.assert_allclose(changed, of_class.T @ result, rtol=1e-12, atol=8 * EPS)
    sums = (weights[:, None] * shares).T @ X
    exact = (weights[:, None] * result).T @ X
    np.testing.assert_allclose(sums + repair.change(sums), exact, atol=32 * EPS)


@given(seed=seeds)
def test_slopes_of_shares(seed):
    shares, y, _, _ = shares_out_of_balance(seed)
    slopes = shares.copy()
    make_slopes(slopes, y)
    exact = shares - np.eye(shares.shape[1])[y]
    np.testing.assert_allclose(slopes, exact, atol=4 * EPS)


@every_loss
@given(seed=seeds)
def test_a_point_is_evaluated_again_with_its_own_intercepts(loss, seed):
    sample = Sample(loss, seed)
    risk = sample.risk(intercept=True)
    w = sample.rng.normal(size=risk.n_parameters)
    offsets = sample.rng.normal(size=sample.k)
    scores = risk.map.scores(w)
    at = risk.loss.at_offset(risk.y, scores, risk.weights, offsets)
    again = risk.evaluate_again(risk.with_scores(w, scores, at=at))
    assert again.value == risk.loss.value(risk.y, scores, risk.weights, offsets)
    np.testing.assert_array_equal(again.intercept, offsets)
    best = risk.at(w).value
    assert again.value >= best * (1.0 - 1e-9)
    # Its plane is below the risk with the best intercepts, too.
    plane = again.plane()
    assert plane.slope @ w + plane.offset <= best + 1e-9 * (1.0 + abs(best))


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
        assert on_the_way.value == pytest.approx(fresh.value, rel=2e-11, abs=1e-14)
        np.testing.assert_allclose(on_the_way.scores, fresh.scores, rtol=1e-12, atol=1e-13)
    assert risk.evaluations == before + 4  # points of a segment cost no pass


@every_kind
@given(seed=seeds, intercept=st.booleans(), lam=st.sampled_from([1e-6, 1e-2, 1.0, 100.0]))
def test_search_minimises_on_the_ray(loss, seed, intercept, lam):
    sample = Sample(loss, seed)
    risk, regularizer = sample.risk(intercept=intercept), cp.L2(lam)
    start, end = risk.at(sample.somewhere()), risk.at(sample.somewhere())
    step = start.toward(end).minimize(regularizer.along(start.w, end.w))
    assert step >= 0.0

    def total(k):
        w = start.w + k * (end.w - start.w)
        c = start.intercept + k * (end.intercept - start.intercept)
        return regularizer.value(w) + sample.mean_loss(w, c)

    scan = np.concatenate([np.linspace(0.0, 2.0, 81), step * np.linspace(0.9, 1.1, 41)])
    assert total(step) <= min(map(total, scan)) + 1e-12 * max(1.0, total(0.0))


@every_kind
@given(
    seed=seeds,
    layout=layouts,
    dtype=dtypes,
    intercept=st.booleans(),
    exponent=st.integers(-6, 2),
)
def test_bounds_hold_at_every_iteration(loss, seed, layout, dtype, intercept, exponent):
    sample = Sample(loss, seed, layout=layout, dtype=dtype, weighted=seed % 2 == 0)
    regularizer = cp.L2(10.0**exponent)
    runs = [
        cp.minimize(
            sample.risk(intercept=intercept), regularizer, method=method, tol=1e-9, max_iter=limit
        )
        for method, limit in ((cp.bmrm(), 100), (cp.bmrm(line_search=False), 25))
    ]
    reached = []
    for run in runs:
        assert run.certificate.valid
        assert run.status in (cp.Status.OPTIMAL, cp.Status.ITERATION_LIMIT, cp.Status.STALLED)
        by_formula = regularizer.value(run.w) + sample.mean_loss(run.w, run.point.intercept)
        assert by_formula == pytest.approx(run.objective, rel=1e-12, abs=1e-13)
        reached.append(by_formula)
    for run in runs:
        for record in run.history:
            assert record.lower_bound <= min(reached) * (1.0 + 64 * EPS) + 1e-14
            assert record.objective >= max(r.certificate.lower_bound for r in runs) - 1e-14


@every_kind
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("lam", [1e-2, 1.0])
def test_agrees_with_an_exact_solver(loss, intercept, seed, lam):
    sample = Sample(loss, seed, weighted=seed > 0, size=(25, 4, 3))
    optimum = sample.optimum(lam, intercept=intercept)
    result = cp.minimize(sample.risk(intercept=intercept), cp.L2(lam), tol=1e-9, max_iter=2000)
    assert result.status is cp.Status.OPTIMAL
    assert result.objective == pytest.approx(optimum, rel=1e-6)
    for record in result.history:
        assert record.lower_bound <= optimum * (1.0 + 64 * EPS)
    # A vector added to the coefficients of all classes changes no loss, so the best add up to zero.
    np.testing.assert_allclose(result.w.reshape(3, 4).sum(axis=0), 0.0, atol=1e-13)


@every_loss
@pytest.mark.parametrize("intercept", [False, True])
def test_layouts_and_precisions_agree(loss, intercept):
    results = [
        cp.minimize(
            Sample(loss, 3, layout=layout, dtype=dtype, size=(60, 4, 4)).risk(intercept=intercept),
            cp.L2(0.1),
            tol=1e-9,
        )
        for layout in LAYOUTS
        for dtype in (np.float32, np.float64)
    ]
    for result in results[2:]:
        # Of the same numbers; float32 rounds the features, by 6e-8 of their size.
        assert result.objective == pytest.approx(results[0].objective, rel=1e-6)
    for dtype in (0, 1):
        objectives = [result.objective for result in results[dtype::2]]
        np.testing.assert_allclose(objectives, objectives[0], rtol=1e-9)


@every_loss
@pytest.mark.parametrize("layout", LAYOUTS)
def test_threads_leave_no_trace(loss, layout):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(9000, 20))
    y = X[:, :4].argmax(axis=1)
    histories = []
    for n_threads in (1, 2, 3):
        rows = cp.as_rows(LAYOUTS[layout](X), n_threads=n_threads)
        history = cp.minimize(cp.ScoredRisk(rows, y, loss), cp.L2(1e-2), max_iter=4).history
        histories.append([replace(record, seconds=0.0) for record in history])
    assert histories[0] == histories[1] == histories[2]


@every_loss
@pytest.mark.parametrize("intercept", [False, True])
def test_weight_k_is_k_copies_and_weight_zero_is_removal(loss, intercept):
    sample = Sample(loss, 1, weighted=False, size=(30, 3, 3))
    copies = sample.rng.integers(0, 4, 30)
    copies[1:4] = 2  # all classes stay
    X, y = sample.X, sample.y
    weighted = cp.ScoredRisk(X, y, loss, weights=copies, intercept=intercept)
    copied = cp.ScoredRisk(
        np.repeat(X, copies, axis=0), np.repeat(y, copies), loss, intercept=intercept
    )
    one = cp.minimize(weighted, cp.L2(0.1), tol=1e-10)
    other = cp.minimize(copied, cp.L2(0.1), tol=1e-10)
    assert one.objective == pytest.approx(other.objective, rel=1e-9)
    np.testing.assert_allclose(one.w, other.w, atol=1e-4)


@every_loss
def test_two_classes_are_the_loss_of_two_classes(loss):
    # With rows -w/2 and w/2 the regularizer is lam/4 |w|^2: half of that of one row.
    sample = Sample(loss, 4, size=(40, 3, 2))
    one = cp.Logistic() if isinstance(loss, cp.Softmax) else cp.Hinge()
    signs = np.where(sample.y == 1, 1.0, -1.0)
    binary = cp.minimize(
        cp.ScoredRisk(sample.X, signs, one, weights=sample.weights), cp.L2(0.05), tol=1e-10
    )
    both = cp.minimize(sample.risk(intercept=True), cp.L2(0.1), tol=1e-10)
    assert both.objective == pytest.approx(binary.objective, rel=1e-9)


@every_loss
@pytest.mark.parametrize("scale", [1e-150, 1e9])
def test_awkward_scales(loss, scale):
    sample = Sample(loss, 2, size=(20, 3, 3))
    risk = cp.ScoredRisk(scale * sample.dense, sample.y, loss)
    result = cp.minimize(risk, cp.L2(scale**2), tol=1e-6)
    plain = cp.minimize(cp.ScoredRisk(sample.dense, sample.y, loss), cp.L2(1.0), tol=1e-6)
    assert result.status is cp.Status.OPTIMAL
    assert result.objective == pytest.approx(plain.objective, rel=1e-5)


def test_what_is_refused():
    X, y = np.ones((3, 2)), np.array([0, 1, 2])
    rows = cp.as_rows(X)
    for features, labels, options, said in [
        (X, [0, 1], {}, "y has shape"),
        (X, [0, 1, -1], {}, "numbered 0, 1, 2"),
        (X, [0, 1, 1.5], {}, "numbered 0, 1, 2"),
        (AllPairs(rows, 2), y, {}, "there are 2 classes"),
        (OneScore(rows), y, {}, "there are 0 classes"),
        (AllPairs(rows, 4), y, {}, "without any weight"),
        (X, y, {"weights": np.array([1.0, 1.0, 0.0])}, "without any weight"),
    ]:
        with pytest.raises(ValueError, match=said):
            cp.ScoredRisk(features, labels, cp.Softmax(), **options)
    with pytest.raises(ValueError, match=r"Hinge\(\) takes scores of shape \(\) .* gives \(3,\)"):
        cp.ScoredRisk(AllPairs(rows, 3), np.ones(3), cp.Hinge())
    with pytest.raises(cp.NonFiniteRisk, match="scores overflow"):
        cp.ScoredRisk(1e300 * X, y, cp.Softmax()).at(np.full(6, 1e10))


@every_loss
def test_costs_of_one_are_margins_of_one(loss):
    sample = Sample(loss, 5)
    ones = type(loss)(costs=1.0 - np.eye(sample.k))
    scores = sample.rng.normal(size=(len(sample.y), sample.k))
    value, plain = (each.value(sample.y, scores, sample.p) for each in (ones, loss))
    if isinstance(loss, cp.Softmax):
        assert plain < value < plain + 1.0
    else:
        assert value == plain


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        ([0.0, 1.0], "a row and a column for each class"),
        ([[0.0, 1.0]], "a row and a column for each class"),
        ([[0.0]], "a row and a column for each class"),
        ([[0.0, np.inf], [1.0, 0.0]], "finite and not negative"),
        ([[0.0, -1.0], [1.0, 0.0]], "finite and not negative"),
        ([[0.0, 1.0], [1.0, 0.5]], "the true class must be zero"),
        ([[0.0, 0.0], [0.0, 0.0]], "all zero"),
    ],
)
def test_what_are_no_costs(costs, message):
    for loss in LOSSES:
        with pytest.raises(ValueError, match=message):
            type(loss)(costs=costs)


def test_costs_of_other_classes():
    for loss in COSTLY:
        with pytest.raises(ValueError, match="costs are for 2 classes, there are 3"):
            cp.ScoredRisk(np.eye(3), [0, 1, 2], loss)


def test_losses_say_who_they_are():
    assert repr(COSTLY[0]) == "CrammerSinger(costs of 2 classes)"
    assert [repr(loss) for loss in LOSSES] == ["CrammerSinger()", "Softmax()"]
    assert all(isinstance(loss, MulticlassLoss) for loss in LOSSES)
    assert cp.CrammerSinger().probability(np.zeros((1, 3))) is None
    np.testing.assert_allclose(cp.Softmax().probability(np.zeros((1, 4))), 0.25)


def offsets_problem(kind, seed):
    """Scores on which a search for offsets is hard, with classes and weights."""
    rng = np.random.default_rng(seed)
    n, k = int(rng.choice([5, 20, 50, 150])), int(rng.integers(2, 6))
    y = rng.integers(0, k, n)
    y[:k] = np.arange(k)
    scale = 10.0 ** rng.integers(-3, 4)
    scores = rng.normal(size=(n, k)) * scale
    if kind == "nearly equal columns":
        scores = scores[:, :1] + 10.0 ** -rng.integers(3, 14) * scores
    if kind == "equal to nothing":
        scores *= 1e-12 / scale
    if kind == "ties":
        scores = rng.integers(-2, 3, size=(n, k)) * scale
    starts = {
        "none": None,
        "zero": np.zeros(k),
        "wrong": rng.normal(size=k) * scale,
        "far": 100.0 * rng.normal(size=k) * scale,
    }
    return scores, y, np.full(n, 1.0 / n), starts


@pytest.mark.parametrize("kind", ["plain", "nearly equal columns", "equal to nothing", "ties"])
@every_loss
def test_best_offsets_do_not_hang_on_where_their_search_starts(loss, kind):
    for seed in range(12):
        scores, y, weights, starts = offsets_problem(kind, seed)
        for start in starts.values():
            best = loss.at_best_offset(y, scores, weights, start)
            value = loss.value(y, scores, weights, best.offset)
            assert best.value == value
            # Shares with the masses of the classes bound the minimum over all offsets: a proof.
            slopes, offset = loss.tangent(y, scores, weights, best)
            height = (slopes * scores).sum() + offset
            rounding = 1e-13 * np.abs(scores).max()
            assert value - height <= 2.0 * loss.accuracy * value + rounding


def test_recomputed_objective_where_all_rows_are_nearly_equal():
    # The best model is the one with equal rows; near it the offsets are all that is left.
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(150, 2)), rng.integers(0, 3, 150)
        risk = cp.ScoredRisk(X, y, cp.CrammerSinger())
        result = cp.minimize(risk, cp.L2(10.0), method=cp.level(), tol=1e-6, max_iter=100)
        assert result.status == "optimal"
        assert result.objective == pytest.approx(result.state.objective, rel=1e-9)
