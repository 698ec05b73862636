"""Chains whose sequences lie on workers: bounds hold, and bits do not depend on who has what."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse
from tests.risks.crew import placed

import cutplane as cp
from cutplane.cluster.chains import ChainShape, ShardedChainRisk
from cutplane.models.tagging.sharded import SequenceReader, look, observed
from cutplane.models.tagging.templates import TemplateVectorizer, parse_templates

PLACEMENTS = {"1": [0] * 8, "2": [0, 1, 1, 0, 1, 0, 0, 1], "5": [4, 0, 1, 2, 2, 3, 1, 0]}
LAM = 0.02


def as_objects(items):
    array = np.empty(len(items), dtype=object)
    for k, item in enumerate(items):
        array[k] = item
    return array


def sequences(n=45, d=4, seed=3):
    """Return sequences, some without tokens, whose labels depend on features and each other."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        tokens = rng.normal(size=(rng.integers(0, 7), d))
        labels = (tokens[:, 0] + 0.7 * np.roll(tokens[:, 1], 1) > 0).astype(int)
        X.append(tokens)
        y.append(np.array(["lo", "hi", "mid"])[labels + (tokens[:, 2] > 1)])
    return X, y, rng.integers(0, 3, n).astype(float)


def words(tokens):
    return [[f"w{int(3 * a)}", f"v{int(b)}"] for a, b in tokens[:, :2]]


def shape_for(sample, loss, *, vectorizer=None, pairs=False, per_token=False):
    found = sample.ask(look, vectorizer, 1)
    if vectorizer is not None:
        vectorizer.feature_names_ = list(found.names)
    reader = SequenceReader(found.classes, vectorizer, found.n_features)
    return ChainShape(
        reader=reader,
        loss=loss,
        n_features=found.n_features,
        n_labels=len(found.classes),
        ends=True,
        pairs=sample.ask(observed, reader) if pairs else None,
        scale=1.0 / (found.n_tokens if per_token else found.weight),
    )


def sample_on(owners, X, y, weights):
    given = {"X": as_objects(X), "y": as_objects(y), "weights": weights}
    return placed(given, owners)


METHODS = {
    "margin": (cp.ChainMargin(), [cp.bmrm(), cp.bmrm(groups=3), cp.level()]),
    "crf": (cp.ChainCRF(), [cp.quasi_newton(), cp.bmrm()]),
}


@pytest.mark.parametrize("kind", METHODS)
def test_bits_do_not_depend_on_placement_and_bounds_are_those_of_one_machine(kind):
    X, y, weights = sequences()
    loss, methods = METHODS[kind]
    classes = np.unique(np.concatenate([own for own, w in zip(y, weights, strict=True) if w]))
    plain = cp.ChainRisk(
        np.concatenate(X),
        np.searchsorted(classes, np.concatenate(y)),
        np.cumsum([0, *map(len, X)]),
        loss,
        n_labels=len(classes),
        ends=True,
        weights=weights,
    )
    best = cp.minimize(plain, cp.L2(LAM), tol=1e-6, method=methods[0])
    for method in methods:
        found = []
        for owners in PLACEMENTS.values():
            sample = sample_on(owners, X, y, weights)
            risk = ShardedChainRisk(sample, shape_for(sample, loss))
            assert risk.n_parameters == plain.n_parameters
            bounds = []
            found.append(
                cp.minimize(
                    risk,
                    cp.L2(LAM),
                    method=method,
                    tol=1e-3,
                    callbacks=[lambda state, seen=bounds: seen.append(state.lower)],
                )
            )
            assert max(bounds) <= best.objective * (1 + 1e-9)
            assert risk.inferences >= risk.evaluations * risk.n_examples
            sample.close()
        for other in found[1:]:
            assert np.array_equal(found[0].w, other.w)
            assert found[0].certificate == other.certificate
        assert found[0].certificate.relative_gap <= 1e-3
        at = plain.at(found[0].w)
        assert at.value + LAM / 2 * found[0].w @ found[0].w == pytest.approx(found[0].objective)


def test_planes_values_and_rays_are_those_of_the_whole():
    X, y, weights = sequences()
    sample = sample_on(PLACEMENTS["1"], X, y, weights)
    shape = shape_for(sample, cp.ChainMargin(), per_token=True)
    (holding,) = sample._places.holdings.values()
    # All shards are here: what one worker would do with them.
    worker = SimpleNamespace(total=lambda sums: np.sum(sums, axis=0))
    here = SimpleNamespace(shards=holding.shards, n_threads=1, worker=worker)
    risk = shape.make(here)
    plain = cp.ChainRisk(
        np.concatenate(X),
        np.searchsorted(shape.reader.classes, np.concatenate(y)),
        np.cumsum([0, *map(len, X)]),
        cp.ChainMargin(),
        n_labels=3,
        ends=True,
        weights=weights,
        per_token=True,
    )
    rng = np.random.default_rng(0)
    v, w = rng.normal(size=(2, risk.n_parameters))
    ours, theirs = (each.at(v).toward(each.at(w)) for each in (risk, plain))
    assert ours.along(0.3) == pytest.approx(theirs.along(0.3))
    middle, same = ours.at(0.3), theirs.at(0.3)
    np.testing.assert_allclose(middle.plane().slope, same.plane().slope, atol=1e-12)
    assert middle.plane().offset == pytest.approx(same.plane().offset)
    parts = middle.planes(3)
    np.testing.assert_allclose(sum(p.slope for p in parts), middle.plane().slope, atol=1e-12)
    assert sum(p.offset for p in parts) == pytest.approx(middle.plane().offset)
    sample.close()


@pytest.mark.parametrize("loss", [cp.ChainMargin(), cp.ChainCRF()], ids=["margin", "crf"])
def test_names_are_joined_in_one_order_and_only_observed_pairs_have_weights(loss):
    X, y, weights = sequences()
    named = [words(tokens) for tokens in X]
    found = []
    for owners in PLACEMENTS.values():
        sample = sample_on(owners, named, y, weights)
        vectorizer = TemplateVectorizer(parse_templates("U0:%x[0,0]\nU1:%x[-1,1]"))
        shape = shape_for(sample, loss, vectorizer=vectorizer, pairs=True)
        assert vectorizer.feature_names_ == sorted(vectorizer.feature_names_)
        risk = ShardedChainRisk(sample, shape)
        method = cp.quasi_newton() if risk.rough_bends else cp.bmrm()
        found.append(cp.minimize(risk, cp.L2(LAM), method=method, tol=1e-3))
        sample.close()
    for other in found[1:]:
        assert np.array_equal(found[0].w, other.w)
    flat = [token for sequence in named for token in sequence]
    matrix = scipy.sparse.csr_matrix(vectorizer.transform(flat, np.array([*map(len, X)])))
    plain = cp.ChainRisk(
        matrix,
        np.searchsorted(shape.reader.classes, np.concatenate(y)),
        np.cumsum([0, *map(len, X)]),
        loss,
        n_labels=3,
        ends=True,
        observed_only=True,
        weights=weights,
    )
    assert plain.n_parameters == risk.n_parameters
    value = plain.at(found[0].w).value + LAM / 2 * found[0].w @ found[0].w
    assert value == pytest.approx(found[0].objective)


def test_what_needs_one_machine_says_so():
    X, y, weights = sequences()
    sample = sample_on([0, 1], X, y, weights)
    risk = ShardedChainRisk(sample, shape_for(sample, cp.ChainMargin()))
    with pytest.raises((TypeError, ValueError), match="needs"):
        cp.minimize(risk, cp.L2(LAM), method=cp.block_ascent())
    sample.close()
