"""Measures with counts: those of repeated examples, and scikit-learn's; bootstrap intervals."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics

from cutplane.metrics import (
    ClassQuality,
    LabelSetQuality,
    NumberQuality,
    QuantileQuality,
    RankingQuality,
    Rankings,
    SegmentQuality,
    TokenQuality,
    count_chunks,
    count_segments,
    measured,
)
from cutplane.models.ranking.loss import Queries

SEEDS = st.integers(0, 10**6)
TAGS = np.array(["O", "B-NP", "I-NP", "B-VP"])


def two_classes(rng, n):
    y = rng.integers(0, 2, n)
    scores = np.round(rng.normal(size=n) + y, 1)  # ties
    p = 1 / (1 + np.exp(-scores))
    how = {"positive": 1, "scores": scores, "probabilities": np.column_stack([1 - p, p])}
    return (y, (scores > 0.5).astype(int)), how


def three_classes(rng, n):
    y, p = rng.integers(0, 4, n), rng.dirichlet(np.ones(3), n)  # the model does not know class 3
    return (y, p.argmax(axis=1)), {"probabilities": p}


def sequences(rng, n):
    lengths = rng.integers(1, 5, n)
    both = [[TAGS[rng.integers(0, 4, length)].tolist() for length in lengths] for _ in range(2)]
    return tuple(both)


def make(kind, rng, n):
    """Return a function that makes the quality of some of n units, by their numbers."""
    if kind in ("two", "three"):
        (y, p), how = two_classes(rng, n) if kind == "two" else three_classes(rng, n)
        known = np.arange(2 if kind == "two" else 3)
        # All labels stay known, also where a resample lacks one.
        known = np.union1d(known, y)

        def chosen(units):
            own = {k: v[units] if isinstance(v, np.ndarray) else v for k, v in how.items()}
            return ClassQuality(y[units], p[units], known, **own)

        return chosen
    if kind == "numbers":
        y, p = rng.normal(size=n), rng.normal(size=n)
        return lambda units: NumberQuality(
            y[units],
            p[units],
            quantile=0.5,
            mean_loss=lambda shares: float(shares @ np.abs(y[units] - p[units])) / 2,
        )
    if kind == "quantiles":
        y, p = rng.normal(size=n), np.sort(rng.normal(size=(n, 3)), axis=1)
        return lambda units: QuantileQuality(y[units], p[units], [0.1, 0.5, 0.9])
    if kind == "sets":
        y, p = (rng.integers(0, 2, (n, 3)) for _ in range(2))
        return lambda units: LabelSetQuality(y[units], p[units])
    if kind in ("tokens", "segments"):
        y, p = sequences(rng, n)
        of = TokenQuality if kind == "tokens" else SegmentQuality
        return lambda units: of([y[i] for i in units], [p[i] for i in units])
    y, scores = rng.integers(0, 3, (n, 4)).astype(float), rng.normal(size=(n, 4)).round()

    def rankings(units):
        queries = Queries(np.repeat(np.arange(len(units)), 4))
        return RankingQuality(Rankings(y[units].ravel(), scores[units].ravel(), queries), queries)

    return rankings


KINDS = ["two", "three", "numbers", "quantiles", "sets", "tokens", "segments", "rankings"]


def numbers_of(measures):
    """Yield the numbers by name, those of tables by name and first column."""
    for name, value in measures.items():
        if isinstance(value, dict):
            yield from ((f"{name}.{key}", column) for key, column in value.items())
        else:
            yield name, value


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15, deadline=None)
@given(seed=SEEDS)
def test_a_count_of_two_is_two_copies(kind, seed):
    rng = np.random.default_rng(seed)
    n = 12
    quality = make(kind, rng, n)
    counts = rng.integers(0, 3, n)
    counts[0] = 1
    if kind in ("tokens", "segments"):
        counts += 1  # labels that are not there have no row
    with_counts = dict(numbers_of(quality(np.arange(n)).at(counts.astype(float))))
    repeated = quality(np.repeat(np.arange(n), counts))
    expected = dict(numbers_of(repeated.at(np.ones(repeated.n_units))))
    assert with_counts.keys() == expected.keys()
    for name, value in with_counts.items():
        assert value == pytest.approx(expected[name], rel=1e-9, abs=1e-12, nan_ok=True), name


@settings(max_examples=20, deadline=None)
@given(seed=SEEDS)
def test_classes_are_measured_as_scikit_learn_does(seed):
    (y, predicted), how = two_classes(np.random.default_rng(seed), 30)
    found = measured(ClassQuality(y, predicted, np.arange(2), **how))
    p = how["probabilities"][:, 1]
    assert found["accuracy"] == pytest.approx(metrics.accuracy_score(y, predicted))
    assert found["brier"] == pytest.approx(metrics.brier_score_loss(y, p))
    assert found["log_loss"] == pytest.approx(metrics.log_loss(y, p, labels=[0, 1]))
    assert found["confusion"] == metrics.confusion_matrix(y, predicted, labels=[0, 1]).tolist()
    if 0 < y.sum() < len(y):
        assert found["roc_area"] == pytest.approx(metrics.roc_auc_score(y, how["scores"]))
    columns = metrics.precision_recall_fscore_support(
        y, predicted, labels=[0, 1], zero_division=np.nan
    )
    for name, column in zip(("precision", "recall", "f1", "samples"), columns, strict=True):
        own = [math.nan if row[name] is None else row[name] for row in found["per_class"]]
        assert own == pytest.approx(column, nan_ok=True)
    assert found["f1"] == found["per_class"][1]["f1"]


def test_a_class_that_is_not_known_has_no_probability():
    y, p = np.array([0, 1, 3]), np.array([[0.7, 0.3], [0.4, 0.6], [0.5, 0.5]])
    found = measured(ClassQuality(y, np.array([0, 1, 0]), np.arange(2), probabilities=p))
    # One more column, in which all probabilities are zero and the last example belongs.
    squares = (np.column_stack([p, np.zeros(3)]) - np.eye(3)) ** 2
    assert found["brier"] == pytest.approx(squares.sum(axis=1).mean())
    assert found["classes"] == [0, 1, 3]
    assert found["log_loss"] == pytest.approx(
        -np.log([0.7, 0.6, np.finfo(float).eps]).mean(), rel=1e-12
    )


@settings(max_examples=20, deadline=None)
@given(seed=SEEDS)
def test_calibration(seed):
    from sklearn.calibration import calibration_curve

    rng = np.random.default_rng(seed)
    p = rng.random(60)
    y = (rng.random(60) < p).astype(int)
    how = {"positive": 1, "probabilities": np.column_stack([1 - p, p])}
    found = measured(ClassQuality(y, (p > 0.5).astype(int), np.arange(2), **how))
    filled = [row for row in found["calibration"] if row["samples"]]
    observed, predicted = calibration_curve(y, p, n_bins=10)
    assert [row["observed"] for row in filled] == pytest.approx(observed)
    assert [row["predicted"] for row in filled] == pytest.approx(predicted)
    assert all(row["from"] <= row["predicted"] <= row["to"] for row in filled)
    distances = [row["samples"] * abs(row["observed"] - row["predicted"]) for row in filled]
    assert found["calibration_error"] == pytest.approx(sum(distances) / 60)


@settings(max_examples=20, deadline=None)
@given(seed=SEEDS)
def test_numbers_quantiles_and_sets(seed):
    rng = np.random.default_rng(seed)
    y, p = rng.normal(size=20), rng.normal(size=(20, 2))
    found = measured(NumberQuality(y, p[:, 0]))
    assert found["mae"] == pytest.approx(metrics.mean_absolute_error(y, p[:, 0]))
    assert found["rmse"] == pytest.approx(metrics.root_mean_squared_error(y, p[:, 0]))
    assert found["r2"] == pytest.approx(metrics.r2_score(y, p[:, 0]))
    p.sort(axis=1)
    found = measured(QuantileQuality(y, p, [0.2, 0.9]))
    for quantile, column, row in zip([0.2, 0.9], p.T, found["per_quantile"], strict=True):
        pinball = metrics.mean_pinball_loss(y, column, alpha=quantile)
        assert row["pinball_loss"] == pytest.approx(pinball)
        assert row["coverage"] == pytest.approx((y <= column).mean())
    inside = (p[:, 0] <= y) & (y <= p[:, 1])
    assert found["interval_coverage"] == pytest.approx(inside.mean())
    assert found["nominal_coverage"] == pytest.approx(0.7)
    true, sets = (rng.integers(0, 2, (20, 3)) for _ in range(2))
    found = measured(LabelSetQuality(true, sets))
    assert found["exact_accuracy"] == pytest.approx(metrics.accuracy_score(true, sets))
    assert found["label_accuracy"] == pytest.approx(1 - metrics.hamming_loss(true, sets))
    for average in ("micro", "macro"):
        expected = metrics.f1_score(true, sets, average=average)
        assert found[f"{average}_f1"] == pytest.approx(expected)


def test_equal_numbers_leave_r2_undefined():
    found = measured(NumberQuality(np.full(5, 1e8), np.arange(5.0)), resamples=3)
    assert found["r2"] is None
    assert found["intervals"]["r2"] is None
    assert found["intervals"]["mae"] is not None


@settings(max_examples=20, deadline=None)
@given(seed=SEEDS)
def test_sequences(seed):
    y, predicted = sequences(np.random.default_rng(seed), 8)
    found = measured(TokenQuality(y, predicted))
    for row in found["chunks"]:
        counts = count_chunks(y, predicted)["" if row["type"] == "all" else row["type"]]
        assert (row["there"], row["predicted"], row["right"]) == tuple(counts)
        assert row["precision"] == counts.precision
        assert row["recall"] == counts.recall
        assert row["f1"] == counts.f1
    flat = [label for labels in y for label in labels], [t for p in predicted for t in p]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expected = metrics.classification_report(*flat, output_dict=True, zero_division=np.nan)
    for row in found["per_label"]:
        own = expected[row["label"]]
        assert row["tokens"] == own["support"]
        precision = math.nan if row["precision"] is None else row["precision"]
        assert precision == pytest.approx(own["precision"], nan_ok=True)
    segments = measured(SegmentQuality(y, predicted))
    assert segments["segment_error_rate"] == pytest.approx(count_segments(y, predicted).error_rate)


def test_measures_at_k():
    y = np.array([0.0, 1.0, 0.0, 1.0, 0.0, 0.0])
    scores = np.array([4.0, 3.0, 2.0, 1.0, 2.0, 1.0])
    queries = Queries([1, 1, 1, 1, 2, 2])  # the second one has no relevant document
    found = measured(RankingQuality(Rankings(y, scores, queries), queries, (1, 2, 4)))
    assert found["n_queries_without_relevant"] == 1
    assert [row["mrr"] for row in found["at"]] == [0.0, 0.5, 0.5]
    # Of two relevant documents at the places 2 and 4, one could be among the first 1, two then.
    assert [row["map"] for row in found["at"]] == pytest.approx([0.0, 0.5 / 2, (0.5 + 0.5) / 2])
    assert found["map"] == found["at"][-1]["map"]
    assert [row["ndcg"] for row in found["at"]] == [found[f"ndcg_{k}"] for k in (1, 2, 4)]


@pytest.mark.parametrize("kind", KINDS)
def test_intervals(kind):
    quality = make(kind, np.random.default_rng(1), 40)(np.arange(40))
    told = []
    found = measured(quality, resamples=50, level=0.8, seed=3, progress=told.append)
    intervals = found["intervals"]
    assert told == pytest.approx(np.arange(1, 51) / 50)
    assert intervals["unit"] == quality.unit
    assert measured(quality, resamples=50, level=0.8, seed=3) == found
    assert measured(quality, resamples=50, level=0.8, seed=4)["intervals"] != intervals
    wide = measured(quality, resamples=50, level=0.98, seed=3)["intervals"]
    for name, value in quality.at(np.ones(40)).items():
        if isinstance(value, dict):
            rows = list(zip(found[name], intervals[name], wide[name], strict=True))
            cells = [(row[key], a[key], b[key]) for row, a, b in rows for key in value]
        else:
            cells = [(found[name], intervals[name], wide[name])]
        for own, narrow, wider in cells:
            if own is None:
                assert narrow is None
                continue
            assert wider[0] <= narrow[0] <= narrow[1] <= wider[1]


def test_intervals_of_a_mean_are_those_of_the_normal_distribution():
    y = np.random.default_rng(0).normal(size=400)
    found = measured(NumberQuality(y, np.zeros(400)), resamples=1000)
    low, high = found["intervals"]["mae"]
    spread = np.abs(y).std() / math.sqrt(400)
    assert low == pytest.approx(found["mae"] - 1.96 * spread, abs=0.2 * spread)
    assert high == pytest.approx(found["mae"] + 1.96 * spread, abs=0.2 * spread)
