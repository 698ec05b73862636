"""The models that come with the library: features, losses and inference against brute force."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cutplane as cp
from cutplane.models.structured.forests import best_labels, parents_first
from cutplane.models.structured.risk import as_features
from cutplane.testing import check_model

from .problems import PROBLEMS, multilabel, random_tree, trees

every = pytest.mark.parametrize("name", PROBLEMS)
seeds = st.integers(0, 10**6)


@every
@settings(max_examples=10)
@given(seed=seeds)
def test_inference_is_exact(name, seed):
    rng = np.random.default_rng(seed)
    report = check_model(*PROBLEMS[name](rng), n_trials=3, seed=seed)
    assert "inference finds the best of all outputs" in report.passed
    assert "loss_augmented_inference finds the best of all outputs" in report.passed


@every
def test_models_can_be_copied_and_shown(name):
    model, X, Y = PROBLEMS[name](np.random.default_rng(0))
    prepared = cp.StructuredRisk(model, X, Y).model
    copy = pickle.loads(pickle.dumps(prepared))
    w = np.random.default_rng(1).normal(size=prepared.n_parameters)
    assert np.array_equal(copy.inference(X[0], w), prepared.inference(X[0], w))
    assert "object at" not in repr(model)
    assert not hasattr(model, "n_parameters"), "the data were looked at in a copy"


def plain_best_labels(unary, pairwise, parents):
    """The twin of the kernel: the score of every labeling."""
    best = max(
        np.ndindex(*[unary.shape[1]] * len(unary)),
        key=lambda y: score_of(y, unary, pairwise, parents),
    )
    return np.array(best, dtype=np.int64).reshape(-1)


def score_of(y, unary, pairwise, parents):
    nodes = sum(unary[v, y[v]] for v in range(len(y)))
    edges = [v for v in range(len(y)) if parents[v] >= 0]
    return nodes + sum(pairwise[v % len(pairwise), y[parents[v]], y[v]] for v in edges)


@given(seed=seeds, n_nodes=st.integers(0, 5), shared=st.booleans())
def test_kernel_agrees_with_its_twin(seed, n_nodes, shared):
    rng = np.random.default_rng(seed)
    parents = np.asarray(random_tree(rng, max(n_nodes, 1)).parents[:n_nodes], dtype=np.int64)
    unary = rng.normal(size=(n_nodes, 3))
    pairwise = rng.normal(size=(1 if shared else max(n_nodes, 1), 3, 3))
    found = best_labels(unary, pairwise, parents, parents_first(parents))
    twin = plain_best_labels(unary, pairwise, parents)
    assert score_of(found, unary, pairwise, parents) == pytest.approx(
        score_of(twin, unary, pairwise, parents), abs=1e-12
    )


@given(seed=seeds, n_nodes=st.integers(1, 30))
def test_parents_come_first(seed, n_nodes):
    parents = np.asarray(random_tree(np.random.default_rng(seed), n_nodes).parents)
    place = np.argsort(parents_first(parents))
    assert all(place[p] < place[v] for v, p in enumerate(parents) if p >= 0)


@pytest.mark.parametrize(
    ("parents", "message"),
    [([1, 0], "round in a circle at node 0"), ([-2], "must be -1"), ([-1, 2], "from 0 to 1")],
)
def test_parents_that_are_no_forest(parents, message):
    with pytest.raises(ValueError, match=message):
        parents_first(np.array(parents))


def test_bad_examples_are_named():
    rng = np.random.default_rng(0)
    model, X, Y = trees(rng)
    with pytest.raises(ValueError, match="example 1 has 3 nodes, 3 parents and 2 labels"):
        cp.StructuredRisk(model, X, [Y[0], Y[1][:2], Y[2]])
    with pytest.raises(ValueError, match="label 2 occurs, there are 2 labels"):
        cp.StructuredRisk(cp.TreeModel(2), X, [Y[0], np.array([0, 2, 1]), Y[2]])
    model, X, Y = multilabel(rng)
    with pytest.raises(ValueError, match="output 1 is no vector of 3 zeros and ones"):
        cp.StructuredRisk(model, X, [Y[0], [0, 2, 1], *Y[2:]])
    with pytest.raises(ValueError, match="2 parents for 3 labels"):
        cp.StructuredRisk(cp.MultilabelModel([-1, 0]), X, Y)
    model = cp.StructuredRisk(cp.MulticlassModel(), X, list("abcab")).model
    with pytest.raises(ValueError, match="'d' is none of the 3 classes"):
        model.joint_feature(X[0], "d")


def test_features_in_both_forms():
    dense = as_features([0.0, 2.0, 0.0, -1.0], 4)
    sparse = as_features((np.array([3, 1, 1]), [-1.0, 1.5, 0.5]), 4)
    for one, other in zip(dense, sparse, strict=True):
        assert np.array_equal(one, other)
    difference = sparse.minus(as_features([1, 2, 0, 0], 4))
    assert np.array_equal(difference.indices, [0, 3])
    assert np.array_equal(difference.values, [-1, -1])
    assert as_features(([], []), 4).dot(np.ones(4)) == 0.0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([1.0, 2.0], r"shape \(2,\), the model has 3 parameters"),
        (([0, 3], [1.0, 1.0]), "index 3 of 3 parameters"),
        (([0, -1], [1.0, 1.0]), "index -1 of 3 parameters"),
        (([0], [1.0, 1.0]), "indices of shape"),
        (([0.5], [1.0]), "indices of type float64"),
        (([0], [1.0], [2.0]), "a tuple of 3"),
        ([0.0, np.nan, 0.0], "not finite at index 1"),
    ],
)
def test_features_in_no_form(given, message):
    with pytest.raises(ValueError, match=message):
        as_features(given, 3)


def test_a_long_chain_is_ordered_in_a_moment():
    # Level by level it would take a hundred thousand passes over the nodes.
    n_nodes = 100_000
    parents = np.arange(1, n_nodes + 1)
    parents[-1] = -1
    np.testing.assert_array_equal(parents_first(parents), np.arange(n_nodes)[::-1])
