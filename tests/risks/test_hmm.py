"""The margin risk of hidden Markov models: enumeration, finite differences, threads."""

import numpy as np
import pytest

import cutplane as cp
from cutplane.models.speech.estimation import Likelihood

from ..structured.hmm_by_enumeration import SHAPES, drawn, loss
from ..structured.test_hmm import frames_of, generated

shapes = pytest.mark.parametrize("name", SHAPES)


def problem(name, *lengths, seed=0, **options):
    hmms = SHAPES[name]
    X, offsets = frames_of(hmms, *lengths, seed=seed)
    n = len(X) if hmms.segments else len(lengths)
    y = np.random.default_rng(seed).integers(hmms.n_classes, size=n)
    return cp.HMMRisk(hmms, X, offsets, y, **options)


def sequences(risk):
    for i, (begin, end) in enumerate(zip(risk.offsets[:-1], risk.offsets[1:], strict=True)):
        X = risk.frames[begin:end]
        yield X, risk.y[begin:end] if risk.hmms.segments else risk.y[i]


@shapes
def test_the_risk_by_enumeration(name):
    weights = np.array([1.0, 2.0, 1.0])
    for seed, margin in enumerate([0.1, 1.0, 5.0]):
        risk = problem(name, 1, 3, 4, seed=seed, margin=margin, weights=weights)
        w = drawn(risk.hmms, seed)
        losses = [loss(risk.hmms, w, X, y, margin) for X, y in sequences(risk)]
        assert risk.at(w).value == pytest.approx(weights @ losses / 4, rel=1e-9, abs=1e-12)


@shapes
def test_slopes_are_those_of_differences(name):
    # Where no other path is as good, the risk is smooth.
    risk = problem(name, 2, 5, 9, 30)
    w, step = drawn(risk.hmms), 1e-6
    slope = risk.at(w).plane().slope
    assert slope.any()
    for j in range(len(w)):
        there, back = w.copy(), w.copy()
        there[j] += step
        back[j] -= step
        expected = (risk.at(there).value - risk.at(back).value) / (2 * step)
        assert slope[j] == pytest.approx(expected, rel=1e-5, abs=1e-6), j


@shapes
def test_the_plane_touches_the_risk(name):
    risk = problem(name, 3, 4)
    w = drawn(risk.hmms)
    point = risk.at(w)
    plane = point.plane()
    assert plane.slope @ w + plane.offset == pytest.approx(point.value, rel=1e-9, abs=1e-9)


@shapes
def test_parts_add_up(name):
    weights = np.array([1.0, 0.0, 2.0, 3.0])
    risk = problem(name, 2, 5, 3, 4, weights=weights)
    w = drawn(risk.hmms)
    ones = [risk.part(np.array([i])).at(w) for i in range(4) if weights[i]]
    shares = weights[weights > 0] / 6
    total = sum(share * one.value for share, one in zip(shares, ones, strict=True))
    assert risk.at(w).value == pytest.approx(total, rel=1e-12)
    slope = sum(share * one.plane().slope for share, one in zip(shares, ones, strict=True))
    np.testing.assert_allclose(risk.at(w).plane().slope, slope, atol=1e-12)
    assert risk.part(slice(1, 3)).n_examples == 2


@pytest.mark.parametrize("segments", [False, True])
def test_threads_leave_no_trace(segments):
    X, offsets, y = generated(400)
    hmms = cp.GaussianHMMs(2, 5, 4, 2, segments=segments)
    labels = np.repeat(y, np.diff(offsets)) if segments else y
    fits, points = [], []
    for n_threads in (1, 2, 5):
        how = Likelihood(n_iterations=2)
        w, _ = how.fit(hmms, X, offsets, labels, np.ones(400), n_threads=n_threads)
        risk = cp.HMMRisk(hmms, X, offsets, labels, margin=5.0, n_threads=n_threads)
        fits.append(w.tobytes())
        points.append((risk.at(w).value.hex(), risk.at(w).plane().slope.tobytes()))
    assert len(set(fits)) == len(set(points)) == 1


def test_where_densities_overflow_the_risk_is_infinite():
    for name in ("left to right", "segments", "full"):
        risk = problem(name, 3, 4)
        w = drawn(risk.hmms)
        risk.hmms.split(w)["log_sds"][...] = -1000.0
        assert risk.at(w).value == np.inf


def test_ten_thousand_frames():
    X, offsets, y = generated(2400)
    n = 10_000
    assert len(X) > 2 * n
    for segments in (False, True):
        hmms = cp.GaussianHMMs(2, 3, 1, 2, segments=segments)
        labels = np.repeat(y, np.diff(offsets))
        w, _ = Likelihood(n_iterations=2).fit(
            hmms, X, offsets, labels if segments else y, np.ones(2400)
        )
        truth = labels[: 2 * n] if segments else [0, 1]
        long = cp.HMMRisk(hmms, X[: 2 * n], [0, n, 2 * n], truth)
        point = long.at(w)
        assert np.isfinite(point.value)
        assert np.isfinite(point.plane().slope).all()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"frames": np.zeros((4, 3))}, r"frames have shape \(4, 3\), the models 2 features"),
        ({"frames": np.full((4, 2), np.nan)}, "frames must be finite"),
        ({"offsets": [0, 4, 4]}, "no sequence is empty"),
        ({"offsets": [0, 2, 3]}, "offsets end at 3, there are 4 frames"),
        ({"y": [0]}, "a class for all sequences"),
        ({"y": [0, 2]}, "y must be from 0 to 1"),
        ({"margin": 0.0}, "margin must be positive and finite, got 0.0"),
    ],
)
def test_wrong_arguments(change, said):
    good = {"frames": np.zeros((4, 2)), "offsets": [0, 2, 4], "y": [0, 1], "margin": 1.0}
    with pytest.raises(ValueError, match=said):
        cp.HMMRisk(cp.GaussianHMMs(2, 1, 1, 2), **good | change)


def test_what_it_says_of_itself():
    risk = problem("left to right", 3, 4)
    assert risk.convex is False
    assert repr(risk) == "HMMRisk(2 sequences, 7 frames, 2 classes, 82 parameters)"
    assert risk.hmms.n_parameters == 82
    with pytest.raises(ValueError, match="at least one sequence"):
        risk.part(slice(0, 0))
