"""Laws of the risk of linear chains: planes, segments, groups, bounds, exact optima."""

from dataclasses import replace

import cvxpy
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cutplane as cp
from cutplane.core.protocols import Quadratic
from cutplane.data import OneScore

from ..structured.sequences import LAYOUTS, Sample
from .exact import clarabel

EPS = np.finfo(np.float64).eps

LOSSES = [cp.ChainMargin(), cp.ChainCRF()]
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)
seeds = st.integers(0, 10**6)
layouts = st.sampled_from([*LAYOUTS])
dtypes = st.sampled_from([np.float32, np.float64])


def risk_of(sample, loss):
    arguments, options = sample.arguments()
    return cp.ChainRisk(*arguments, loss, **options)


def by_enumeration(sample, loss, w):
    return sample.crf(w) if isinstance(loss, cp.ChainCRF) else sample.margin(w)


def optimum(sample, loss, lam):
    """J at the parameters of an exact solver, which sees all labels of all sequences."""
    w = cvxpy.Variable(sample.n_parameters)
    terms = []
    for x, y in sample.sequences():
        mistakes, differences = sample.lines(x, y)
        if isinstance(loss, cp.ChainCRF):
            terms.append(cvxpy.log_sum_exp(differences @ w))
        else:
            terms.append(cvxpy.max(mistakes + differences @ w))
    clarabel(
        cvxpy.Minimize(0.5 * lam * cvxpy.sum_squares(w) + sample.p @ cvxpy.hstack(terms)), 1e-9
    )
    return 0.5 * lam * w.value @ w.value + by_enumeration(sample, loss, w.value)


@every_loss
@given(
    seed=seeds,
    layout=layouts,
    dtype=dtypes,
    ends=st.booleans(),
    scale=st.sampled_from([0.01, 1.0, 30.0, 1e3]),
)
def test_planes_never_exceed_the_risk(loss, seed, layout, dtype, ends, scale):
    sample = Sample(seed, layout=layout, dtype=dtype, ends=ends, weighted=seed % 2 == 0)
    risk = risk_of(sample, loss)
    start, end = risk.at(sample.somewhere(scale)), risk.at(sample.somewhere(scale))
    segment = start.toward(end)
    for point in [start, end, segment.at(0.5), segment.at(1.7), risk.at(0.0 * start.w)]:
        plane = point.plane()
        size = 1.0 + max(float(np.abs(part).max()) for part in point.scores)
        assert point.value == pytest.approx(
            by_enumeration(sample, loss, point.w), rel=1e-12, abs=1e-13 * size
        )
        here = float(plane.slope @ point.w) + plane.offset
        assert here == pytest.approx(point.value, rel=1e-12, abs=1e-13 * size)
        for far in (0.1, 1.0, 10.0):
            v = sample.somewhere(far)
            height = float(plane.slope @ v) + plane.offset
            reach = 1.0 + max(float(np.abs(part).max()) for part in risk.at(v).scores)
            assert height <= by_enumeration(sample, loss, v) + 1e-14 * (size + reach)


@every_loss
@given(seed=seeds, layout=layouts, ends=st.booleans(), n_groups=st.integers(2, 9))
def test_groups_have_planes_of_their_own(loss, seed, layout, ends, n_groups):
    sample = Sample(seed, layout=layout, ends=ends)
    point = risk_of(sample, loss).at(sample.somewhere())
    plane, planes = point.plane(), point.planes(n_groups)
    assert len(planes) == n_groups
    np.testing.assert_allclose(sum(part.slope for part in planes), plane.slope, atol=1e-14)
    assert sum(part.offset for part in planes) == pytest.approx(plane.offset, abs=1e-14)


@every_loss
@pytest.mark.parametrize("ends", [False, True])
def test_a_group_is_the_risk_of_its_sequences(loss, ends):
    rng = np.random.default_rng(0)
    lengths = np.full(160, 3)
    X, y = rng.normal(size=(480, 2)), rng.integers(0, 3, 480)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    risk = cp.ChainRisk(X, y, offsets, loss, ends=ends)
    w = rng.normal(size=risk.n_parameters)
    # 64 blocks of 2 or 3 sequences, and 8 parts of 8 blocks: the even ones are the first group.
    parts = np.arange(160) // 20
    for group, plane in enumerate(risk.at(w).planes(2)):
        weights = np.where(parts % 2 == group, 1.0, 0.0)
        alone = cp.ChainRisk(X, y, offsets, loss, ends=ends, weights=weights).at(w).plane()
        np.testing.assert_allclose(plane.slope, 0.5 * alone.slope, atol=1e-14)
        assert plane.offset == pytest.approx(0.5 * alone.offset, rel=1e-12)


@every_loss
@pytest.mark.parametrize("ends", [False, True])
def test_passes_the_check_for_users(loss, ends):
    sample = Sample(8, ends=ends)
    report = cp.testing.check_risk(risk_of(sample, loss), n_points=8)
    assert "segments agree with the risk" in report.passed
    assert "planes of groups add up" in report.passed


@every_loss
@given(seed=seeds, slope=st.floats(-3.0, 1.0), curvature=st.floats(0.0, 3.0))
def test_search_leads_down_in_few_trials(loss, seed, slope, curvature):
    sample = Sample(seed)
    risk = risk_of(sample, loss)
    start, end = risk.at(sample.somewhere()), risk.at(sample.somewhere(5.0))
    start.outcome, end.outcome  # noqa: B018
    before = risk.inferences
    segment = start.toward(end)
    step = segment.minimize(Quadratic(slope, curvature))

    def total(k):
        return segment.at(k).value + slope * k + 0.5 * curvature * k * k

    reached = total(step)
    assert risk.inferences - before <= 3 * risk.n_examples
    assert step >= 0.0
    assert reached <= min(total(0.0), total(1.0)) + 1e-12


@every_loss
@given(seed=seeds, layout=layouts, ends=st.booleans(), exponent=st.integers(-5, 1))
def test_bounds_hold_at_every_iteration(loss, seed, layout, ends, exponent):
    sample = Sample(seed, layout=layout, ends=ends, weighted=seed % 2 == 0)
    regularizer = cp.L2(10.0**exponent)
    methods = (cp.bmrm(), cp.bmrm(line_search=False), cp.bmrm(groups=3))
    runs = [
        cp.minimize(risk_of(sample, loss), regularizer, method=method, tol=1e-8, max_iter=limit)
        for method, limit in zip(methods, (60, 25, 40), strict=True)
    ]
    reached = []
    for run in runs:
        assert run.certificate.valid
        assert run.status in (cp.Status.OPTIMAL, cp.Status.ITERATION_LIMIT, cp.Status.STALLED)
        by_formula = regularizer.value(run.w) + by_enumeration(sample, loss, run.w)
        assert by_formula == pytest.approx(run.objective, rel=1e-12, abs=1e-13)
        reached.append(by_formula)
    for run in runs:
        for record in run.history:
            assert record.lower_bound <= min(reached) * (1.0 + 64 * EPS) + 1e-14


@every_loss
@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("seed", [1, 2, 4])
@pytest.mark.parametrize("groups", [1, 2])
def test_agrees_with_an_exact_solver(loss, ends, seed, groups):
    sample = Sample(seed, ends=ends, weighted=seed > 1)
    exact = optimum(sample, loss, 0.05)
    result = cp.minimize(
        risk_of(sample, loss), cp.L2(0.05), method=cp.bmrm(groups=groups), tol=1e-7, max_iter=2000
    )
    assert result.status is cp.Status.OPTIMAL
    assert result.objective == pytest.approx(exact, rel=1e-6)
    for record in result.history:
        assert record.lower_bound <= exact * (1.0 + 64 * EPS)


@every_loss
@pytest.mark.parametrize("layout", LAYOUTS)
def test_threads_leave_no_trace(loss, layout):
    rng = np.random.default_rng(0)
    lengths = rng.integers(0, 12, 2000)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    X = rng.normal(size=(offsets[-1], 20))
    y = X[:, :5].argmax(axis=1)
    histories = []
    for n_threads in (1, 2, 3):
        risk = cp.ChainRisk(LAYOUTS[layout](X), y, offsets, loss, n_threads=n_threads)
        history = cp.minimize(risk, cp.L2(1e-2), max_iter=3).history
        histories.append([replace(record, seconds=0.0) for record in history])
    assert histories[0] == histories[1] == histories[2]


@pytest.mark.parametrize(
    ("chain", "flat"), [(cp.ChainMargin(), cp.CrammerSinger()), (cp.ChainCRF(), cp.Softmax())]
)
def test_sequences_of_one_token_are_examples_of_many_classes(chain, flat):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(30, 3)), rng.integers(0, 4, 30)
    risk = cp.ChainRisk(X, y, np.arange(31), chain)
    classes = cp.ScoredRisk(X, y, flat, intercept=False)
    w = rng.normal(size=12)
    padded = np.concatenate([w, rng.normal(size=16)])  # transitions do not matter
    assert risk.at(padded).value == pytest.approx(classes.at(w).value, rel=1e-13)
    slope = risk.at(padded).plane().slope
    np.testing.assert_allclose(slope[:12], classes.at(w).plane().slope, atol=1e-15)
    np.testing.assert_array_equal(slope[12:], 0.0)


@every_loss
def test_empty_sequences_count_but_cost_nothing(loss):
    X, y = np.eye(3), [0, 1, 0]
    w = np.random.default_rng(0).normal(size=10)
    plain = cp.ChainRisk(X, y, [0, 3], loss).at(w)
    with_empty = cp.ChainRisk(X, y, [0, 0, 3, 3], loss).at(w)
    assert with_empty.value == pytest.approx(plain.value / 3)
    np.testing.assert_allclose(with_empty.plane().slope, plain.plane().slope / 3)


@every_loss
def test_one_label_costs_nothing(loss):
    result = cp.minimize(cp.ChainRisk(np.ones((4, 2)), np.zeros(4), [0, 2, 4], loss), cp.L2(1.0))
    assert result.status is cp.Status.OPTIMAL
    assert result.objective == 0.0
    np.testing.assert_array_equal(result.w, 0.0)


@every_loss
@pytest.mark.parametrize("scale", [1e-120, 1e9])
def test_awkward_scales(loss, scale):
    # With weights at the ends and transitions left alone, features of another scale and a
    # regularizer to match are the same problem.
    sample = Sample(3, ends=True)
    n_features = sample.dense.shape[1] * sample.n_labels
    theta = np.ones(sample.n_parameters)
    theta[:n_features] = scale
    arguments, options = sample.arguments()
    scaled = cp.ChainRisk(scale * sample.dense, *arguments[1:], loss, **options)
    result = cp.minimize(scaled, cp.L2(0.1, weights=theta), tol=1e-6)
    plain = cp.minimize(risk_of(sample, loss), cp.L2(0.1), tol=1e-6)
    assert result.status is cp.Status.OPTIMAL
    assert result.objective == pytest.approx(plain.objective, rel=1e-5)


def test_inferences_are_counted():
    sample = Sample(5)
    risk = risk_of(sample, cp.ChainCRF())
    start, end = risk.at(sample.somewhere()), risk.at(sample.somewhere())
    assert (risk.evaluations, risk.inferences) == (2, 0)
    assert start.value > 0.0
    assert end.plane().offset >= 0.0
    assert start.toward(end).at(0.5).value > 0.0
    assert start.value == start.outcome.value  # once more, for nothing
    assert (risk.evaluations, risk.inferences) == (2, 3 * risk.n_examples)


def test_what_is_refused():
    X, y, offsets = np.ones((3, 2)), [0, 1, 2], [0, 1, 3]
    for labels, cuts, options, said in [
        ([0, 1], offsets, {}, "y has shape"),
        ([0, 1, -1], offsets, {}, "numbered 0, 1, 2"),
        ([0, 1, 1.5], offsets, {}, "numbered 0, 1, 2"),
        (y, offsets, {"n_labels": 2}, "there are 2 labels"),
        (y, [0, 2], {}, "offsets end at 2, X has 3 rows"),
        (y, [0, 4, 3], {}, "never fall"),
        (y, [1, 3], {}, "begin with 0"),
        (y, [0, 1.5, 3], {}, "whole numbers"),
        (y, [[0, 3]], {}, "vector"),
        (y, offsets, {"weights": np.ones(3)}, "weights have shape"),
    ]:
        with pytest.raises(ValueError, match=said):
            cp.ChainRisk(X, labels, cuts, cp.ChainCRF(), **options)
    with pytest.raises(ValueError, match="at least one token"):
        cp.ChainRisk(np.ones((0, 2)), [], [0, 0], cp.ChainCRF())
    with pytest.raises(TypeError, match="ChainLoss"):
        cp.ChainRisk(X, y, offsets, cp.Hinge())
    with pytest.raises(cp.NonFiniteRisk, match="scores overflow"):
        cp.ChainRisk(1e300 * X, y, offsets, cp.ChainCRF()).at(np.full(15, 1e10))


def test_risk_says_what_it_is():
    risk = cp.ChainRisk(np.ones((3, 2)), [0, 1, 2], [0, 1, 3], cp.ChainCRF(), ends=True)
    assert repr(risk) == "ChainRisk(3 x 2 dense, 2 sequences, 3 labels, ChainCRF(), ends)"


@every_loss
@given(seed=seeds, layout=layouts, ends=st.booleans(), observed=st.booleans())
def test_parts_are_the_risks_of_their_sequences(loss, seed, layout, ends, observed):
    sample = Sample(seed, layout=layout, ends=ends)
    (X, y, offsets), options = sample.arguments()
    observed = observed and layout == "CSR"
    risk = cp.ChainRisk(X, y, offsets, loss, observed_only=observed, **options)
    w = sample.rng.normal(size=risk.n_parameters)
    shares, values = [], []
    for chosen in (np.array([0]), slice(1, None)):
        if risk.data.weights[chosen].sum() == 0.0 or risk.data.chains.lengths[chosen].sum() == 0:
            continue
        part = risk.part(chosen)
        assert part.n_parameters == risk.n_parameters  # also labels that do not occur in it
        assert part.data.weights.sum() == pytest.approx(1.0, rel=1e-14)
        assert part.evaluate_once(w).value == pytest.approx(part.at(w).value, rel=1e-12, abs=1e-12)
        shares.append(risk.data.weights[chosen].sum())
        values.append(part.at(w).value)
    # What is left out has no weight, or no token and so no loss.
    assert np.dot(shares, values) == pytest.approx(risk.at(w).value, rel=1e-12, abs=1e-12)
    backward = np.arange(risk.n_examples)[::-1]
    assert risk.part(backward).at(w).value == pytest.approx(risk.at(w).value, rel=1e-12, abs=1e-12)
    assert risk.evaluations == 2  # those of parts are their own


@every_loss
def test_chains_are_convex(loss):
    risk = risk_of(Sample(0), loss)
    assert risk.convex is True
    assert risk.unproven == ""
    assert risk.part(slice(0, 1)).convex is True
    assert (risk + risk).convex is True
    assert (-1.0 * risk).convex is False


@every_loss
@pytest.mark.parametrize("share", [None, 0.1, 0.5])
def test_a_search_begins_at_the_expected_distance(loss, share):
    sample = Sample(3, ends=True)
    risk = risk_of(sample, loss)
    start = risk.at(sample.somewhere(3.0))
    end = risk.at(start.w - 5.0 * start.plane().slope)
    way = end.w - start.w
    segment, steps = start.toward(end), []
    at = segment.at
    segment.at = lambda step: steps.append(step) or at(step)
    # The best step is a quarter or less: the objective falls at the start, and rises at the end.
    regularizer = Quadratic(0.0, -4.0 * float(start.plane().slope @ way))
    far = float(np.linalg.norm(way))
    step = segment.minimize_near(regularizer, None if share is None else share * far)
    assert 0.0 < step < 1.0
    assert steps[:2] == [0.0, 1.0]
    if share is None:
        assert 0.0 < steps[2] < 1.0
    else:
        assert steps[2] == pytest.approx(share, rel=1e-12)


def test_a_map_without_labels_is_refused():
    with pytest.raises(TypeError, match="a chain needs weights for pairs of label and feature"):
        cp.ChainRisk(OneScore(cp.as_rows(np.ones((2, 3)))), [0, 1], [0, 2], cp.ChainMargin())
