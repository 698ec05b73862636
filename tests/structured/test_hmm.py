"""Gaussian hidden Markov models: paths, densities and likelihoods, by enumeration of all paths."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from cutplane.models.speech.estimation import (
    ClassFit,
    Likelihood,
    count_expected,
    maximize,
    no_counts,
)
from cutplane.models.speech.model import (
    Covariance,
    GaussianHMMs,
    Topology,
    label_frames,
    score_classes,
)
from cutplane.models.speech.paths import fill_best

from .hmm_by_enumeration import SHAPES, best_by_labels, density, drawn, gaussian_of, paths

shapes = pytest.mark.parametrize("name", SHAPES)
WHOLE = [name for name, hmms in SHAPES.items() if not hmms.segments]
SEGMENTS = [name for name, hmms in SHAPES.items() if hmms.segments]


def frames_of(hmms, *lengths, seed=1):
    X = np.random.default_rng(seed).normal(size=(sum(lengths), hmms.n_features))
    return X, np.cumsum([0, *lengths])


@shapes
def test_densities(name):
    hmms = SHAPES[name]
    w, (X, _) = drawn(hmms), frames_of(hmms, 7)
    G = hmms.n_components * hmms.n_classes * hmms.n_states
    found = np.empty((7, G))
    fill_best(X, 0, 7, hmms.tables(w).gaussians, G, found)
    found = found.reshape(7, hmms.n_components, hmms.n_classes, hmms.n_states)
    for t, m, c, k in np.ndindex(found.shape):
        weight, mean, covariance = gaussian_of(hmms, w, c, k, m)
        expected = weight + multivariate_normal(mean, covariance).logpdf(X[t])
        assert found[t, m, c, k] == pytest.approx(expected, rel=1e-9)
        assert density(hmms, w, X[t], c, k, m) == pytest.approx(expected, rel=1e-9)


@shapes
def test_parts_are_the_whole(name):
    hmms = SHAPES[name]
    w = drawn(hmms)
    np.testing.assert_array_equal(hmms.join(hmms.split(w)), w)
    assert sum(part.size for part in hmms.split(w).values()) == hmms.n_parameters


@pytest.mark.parametrize("name", WHOLE)
def test_scores_of_classes(name):
    hmms = SHAPES[name]
    for seed in range(3):
        w, (X, offsets) = drawn(hmms, seed), frames_of(hmms, 1, 2, 3, 4)
        found = score_classes(hmms, w, X, offsets)
        for i, (begin, end) in enumerate(pairwise(offsets)):
            best = best_by_labels(hmms, w, X[begin:end])
            expected = [best[(c,) * (end - begin)] for c in range(hmms.n_classes)]
            np.testing.assert_allclose(found[i], expected, rtol=1e-10)


@pytest.mark.parametrize("name", SEGMENTS)
def test_best_segments(name):
    hmms = SHAPES[name]
    for seed in range(4):
        w, (X, offsets) = drawn(hmms, seed), frames_of(hmms, 1, 2, 4, seed=seed)
        labels, begins = label_frames(hmms, w, X, offsets)
        for begin, end in pairwise(offsets):
            best = max(paths(hmms, w, X[begin:end]), key=lambda each: each[2])
            assert tuple(labels[begin:end]) == best[0]
            assert tuple(begins[begin:end]) == best[1]


@pytest.mark.parametrize("topology", Topology)
def test_the_likelihood_is_a_sum_over_all_paths(topology):
    hmms = GaussianHMMs(1, 3, 2, 2, topology)
    w, (X, _) = drawn(hmms), frames_of(hmms, 5)
    found, counts = expected_counts(hmms, w, X)
    totals = [score for *_, score in paths(hmms, w, X, mixed=True)]
    assert found == pytest.approx(np.logaddexp.reduce(totals), rel=1e-12)
    # A state for each frame, a move for each frame but the first.
    assert counts.gaussians.sum() == pytest.approx(5.0, rel=1e-12)
    assert counts.bands.sum() == pytest.approx(4.0, rel=1e-12)
    assert counts.start.sum() == pytest.approx(1.0, rel=1e-12)
    assert counts.end.sum() == pytest.approx(1.0, rel=1e-12)


def expected_counts(hmms, w, X):
    """Return the likelihood of one sequence under the model of one class, and what is expected."""
    tables, counts = hmms.tables(w), no_counts(hmms)
    scores = np.empty((len(X), hmms.n_states * hmms.n_components))
    fill_best(X, 0, len(X), tables.gaussians, scores.shape[1], scores)
    given = X, np.array([0, len(X)]), np.ones(1), scores, tables.moves, tables.gaussians.means
    return count_expected(*given, counts), counts


def generated(n=40, seed=0):
    """Return two classes of sequences whose mean rises and falls."""
    rng = np.random.default_rng(seed)
    parts, y = [], np.arange(n, dtype=np.int32) % 2
    for label in y:
        level = np.linspace(-1, 1, rng.integers(6, 14))[:, None] * (1 - 2 * label)
        parts.append(level * [1.0, 0.5] + rng.normal(0, 0.6, (len(level), 2)))
    return np.concatenate(parts), np.cumsum([0, *map(len, parts)]), y


@pytest.mark.parametrize("covariance", [Covariance.DIAGONAL, Covariance.FULL])
@pytest.mark.parametrize("topology", Topology)
def test_em_raises_the_likelihood(topology, covariance):
    X, offsets, y = generated(200)
    # Few states, so that each has frames enough to stay away from the floors.
    hmms = GaussianHMMs(2, 2, 2, 2, topology, covariance)
    how = Likelihood(n_iterations=15, floor=1e-6)
    _, histories = how.fit(hmms, X, offsets, y, np.ones(len(y)))
    for history in histories:
        assert len(history) > 3
        assert min(np.diff(history)) > -1e-9 * abs(history[-1])
        assert history[-1] > history[0]


def total_likelihood(hmms, w, X, offsets, y):
    """Return the sum of the log-likelihoods of all sequences under the models of their classes."""
    one, parts, total = replace(hmms, n_classes=1), hmms.split(w), 0.0
    for label, (begin, end) in zip(y, pairwise(offsets), strict=True):
        alone = one.join(
            parts
            | {name: parts[name][:, [label]] for name in ("means", "lower", "weights")}
            | {name: parts[name][[label]] for name in ("start", "arcs", "end")}
            | {"prior": np.zeros(1)}
            | ({} if parts["log_sds"].ndim == 1 else {"log_sds": parts["log_sds"][:, [label]]})
        )
        total += expected_counts(one, alone, X[begin:end])[0]
    return total


@pytest.mark.parametrize("topology", Topology)
def test_em_with_one_spread_for_all_raises_the_likelihood_of_all(topology):
    X, offsets, y = generated(200)
    hmms = GaussianHMMs(2, 2, 2, 2, topology, Covariance.SHARED)
    how = Likelihood(n_iterations=40, floor=1e-6)
    w, histories = how.fit(hmms, X, offsets, y, np.ones(len(y)))
    # The classes go together, so that their likelihoods can be added up step by step.
    together = np.sum(histories, axis=0)
    assert len(together) > 3
    assert min(np.diff(together)) > -1e-9 * abs(together[-1])
    assert together[-1] > together[0]
    found = total_likelihood(hmms, w, X, offsets, y)
    assert found >= together[-1] - 1e-9 * abs(found)
    # No other spread is better with these means, but for what EM may still gain.
    for factor in (0.98, 1.02):
        for d in range(2):
            parts = {name: part.copy() for name, part in hmms.split(w).items()}
            parts["log_sds"][d] += np.log(factor)
            other = total_likelihood(hmms, hmms.join(parts), X, offsets, y)
            assert other < found
    # Spreads that each class finds for itself, pooled afterwards, are no better.
    apart, _ = how.fit(
        replace(hmms, covariance=Covariance.DIAGONAL), X, offsets, y, np.ones(len(y))
    )
    pooled = replace(hmms, covariance=Covariance.DIAGONAL).split(apart)
    variance = np.exp(2.0 * pooled["log_sds"]).mean(axis=(0, 1, 2))
    pooled = hmms.join(pooled | {"log_sds": 0.5 * np.log(variance)})
    assert found > total_likelihood(hmms, pooled, X, offsets, y)


@pytest.mark.parametrize("covariance", ["diag", "tied", "full"])
def test_a_step_of_em_is_that_of_hmmlearn(covariance):
    hmmlearn = pytest.importorskip("hmmlearn.hmm")
    X, offsets, _ = generated(30)
    K, rng = 3, np.random.default_rng(0)
    means, start = rng.normal(size=(K, 2)), rng.dirichlet(np.ones(K))
    arcs, variance = rng.dirichlet(np.ones(K), size=K), np.array([0.5, 0.7])
    theirs = hmmlearn.GaussianHMM(
        K, covariance_type=covariance, n_iter=1, init_params="", params="mc", min_covar=0.0,
        covars_prior=0.0, covars_weight=1.0 if covariance == "full" else 0.0,
    )  # fmt: skip
    theirs.startprob_, theirs.transmat_, theirs.means_ = start, arcs, means
    theirs.covars_ = {
        "diag": np.tile(variance, (K, 1)),
        "tied": np.diag(variance),
        "full": np.tile(np.diag(variance), (K, 1, 1)),
    }[covariance]
    full = covariance == "full"
    one = GaussianHMMs(
        1, K, 1, 2, Topology.ERGODIC, Covariance.FULL if full else Covariance.DIAGONAL
    )
    ours = ClassFit(one, X, offsets, np.ones(30), np.full(2, 1e-9))
    parts = one.split(np.zeros(one.n_parameters))  # no path costs anything where it ends
    parts["means"][0, 0], parts["log_sds"][...] = means, 0.5 * np.log(variance)
    parts["start"][0], parts["arcs"][0] = np.log(start), np.log(arcs).ravel()
    ours.parts = parts
    ours.count_expected()
    lengths = np.diff(offsets)
    assert ours.history[0] == pytest.approx(theirs.score(X, lengths), rel=1e-12)
    theirs.fit(X, lengths)
    maximize([ours], np.full(2, 1e-9), shared=covariance == "tied")
    np.testing.assert_allclose(ours.parts["means"][0, 0], theirs.means_, rtol=1e-9)
    for k in range(K):
        _, _, found = gaussian_of(one, one.join(ours.parts), 0, k, 0)
        expected = theirs.covars_[k]
        # One matrix for all states is full there; its diagonal is the best one there is.
        expected = np.diag(np.diag(expected)) if covariance == "tied" else expected
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


def test_maximum_likelihood_of_one_gaussian_is_mean_and_variance():
    X, offsets, y = generated()
    hmms = GaussianHMMs(2, 1, 1, 2, covariance=Covariance.FULL)
    w, _ = Likelihood().fit(hmms, X, offsets, y, np.ones(len(y)))
    of_frames = np.repeat(y, np.diff(offsets))
    for c in range(2):
        _, mean, covariance = gaussian_of(hmms, w, c, 0, 0)
        np.testing.assert_allclose(mean, X[of_frames == c].mean(axis=0), atol=1e-12)
        expected = np.cov(X[of_frames == c].T, bias=True)
        np.testing.assert_allclose(covariance, expected, atol=1e-6)
    part = hmms.split(w)
    np.testing.assert_allclose(np.exp(part["prior"]), [0.5, 0.5])
    # A frame goes on or is the last one.
    n_frames = np.bincount(of_frames)
    np.testing.assert_allclose(np.exp(part["end"][:, 0]), 20 / n_frames, rtol=1e-9)
    np.testing.assert_allclose(np.exp(part["arcs"][:, 0]), 1 - 20 / n_frames, rtol=1e-9)


def test_a_shared_spread_is_the_mean_of_all():
    X, offsets, y = generated()
    hmms = GaussianHMMs(2, 1, 1, 2, covariance=Covariance.SHARED)
    w, _ = Likelihood().fit(hmms, X, offsets, y, np.ones(len(y)))
    of_frames = np.repeat(y, np.diff(offsets))
    centered = X - np.array([X[of_frames == c].mean(axis=0) for c in range(2)])[of_frames]
    np.testing.assert_allclose(np.exp(hmms.split(w)["log_sds"]), centered.std(axis=0), rtol=1e-6)


def test_weights_count_as_copies():
    X, offsets, y = generated(6)
    hmms = GaussianHMMs(2, 2, 1, 2)
    weights = np.array([2.0, 1.0, 0.0, 1.0, 1.0, 3.0])
    w, _ = Likelihood().fit(hmms, X, offsets, y, weights)
    copies = np.repeat(np.arange(6), weights.astype(int))
    parts = [X[offsets[i] : offsets[i + 1]] for i in copies]
    ends = np.cumsum([0, *map(len, parts)])
    again, _ = Likelihood().fit(hmms, np.concatenate(parts), ends, y[copies], np.ones(len(copies)))
    np.testing.assert_allclose(w, again, rtol=1e-8, atol=1e-8)


def test_runs_of_labels_are_segments():
    X, offsets, _ = generated(8)
    y = (np.arange(len(X), dtype=np.int32) // 4) % 3
    hmms = GaussianHMMs(3, 2, 1, 2, segments=True)
    w, _ = Likelihood().fit(hmms, X, offsets, y, np.ones(8))
    follow = np.exp(hmms.split(w)["follow"])
    np.testing.assert_allclose(follow.sum(axis=1), 1.0)
    assert (follow[[0, 1, 2], [1, 2, 0]] > follow[[0, 1, 2], [2, 0, 1]]).all()


def test_spreads_have_a_floor():
    X = np.repeat([[0.0, 1.0], [5.0, 1.0]], 10, axis=0)
    hmms = GaussianHMMs(2, 3, 2, 2)
    w, _ = Likelihood(floor=0.01).fit(
        hmms, X, np.array([0, 10, 20]), np.array([0, 1], dtype=np.int32), np.ones(2)
    )
    assert np.isfinite(w).all()
    sds = np.exp(hmms.split(w)["log_sds"])
    np.testing.assert_allclose(sds[..., 0], 0.25)  # a tenth of the standard deviation of all
    np.testing.assert_allclose(sds[..., 1], 1.0)  # a feature that never changes


def test_ten_thousand_frames():
    X, offsets, y = generated(60)
    hmms = GaussianHMMs(2, 4, 2, 2, segments=True)
    labels = np.repeat(y, np.diff(offsets))
    w, _ = Likelihood().fit(hmms, X, offsets, labels, np.ones(60))
    n = 10_000 // len(X) + 1
    long, ends = np.tile(X, (n, 1))[:10_000], np.array([0, 10_000])
    found, _ = label_frames(hmms, w, long, ends)
    truth = np.tile(labels, n)[:10_000]
    assert np.mean(found == truth) > 0.6
    one = GaussianHMMs(2, 4, 2, 2)
    w, histories = Likelihood(n_iterations=2).fit(
        one, np.tile(long, (2, 1)), np.array([0, 10_000, 20_000]), np.array([0, 1], np.int32),
        np.ones(2),
    )  # fmt: skip
    assert np.isfinite(w).all()
    assert np.isfinite(histories).all()
    assert np.isfinite(score_classes(one, w, long, ends)).all()


def test_shapes_are_checked():
    with pytest.raises(ValueError, match="n_states must be at least 1, got 0"):
        GaussianHMMs(2, 0, 1, 1)
