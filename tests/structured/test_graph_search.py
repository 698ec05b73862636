"""The search by messages, triplets and elimination, beside all labels and beside HiGHS."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutplane.structured import RelaxedLabels
from cutplane.structured.graphs import search
from cutplane.structured.graphs.elimination import best_among
from cutplane.structured.graphs.local_polytope import best_relaxed
from cutplane.structured.graphs.search import best_exact, best_relaxed_first_by_messages
from cutplane.structured.graphs.triplets import Triplets


def score(unary, pairwise, edges, y):
    y = np.asarray(y)
    pairs = pairwise[np.arange(len(edges)), y[edges[:, 0]], y[edges[:, 1]]]
    return unary[np.arange(len(y)), y].sum() + pairs.sum()


def all_scores(unary, pairwise, edges):
    n_nodes, n_labels = unary.shape
    labels = product(range(n_labels), repeat=n_nodes)
    return {y: score(unary, pairwise, edges, y) for y in labels}


def grid(rows, columns):
    i = np.arange(rows * columns).reshape(rows, columns)
    right, down = np.dstack([i[:, :-1], i[:, 1:]]), np.dstack([i[:-1], i[1:]])
    return np.concatenate([right.reshape(-1, 2), down.reshape(-1, 2)])


@st.composite
def graphs(draw):
    """Random graphs, also with several edges between two nodes, and grids."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    n_labels = draw(st.integers(2, 3))
    if draw(st.booleans()):
        edges = grid(2, 3)
        n_nodes = 6
    else:
        n_nodes = draw(st.integers(2, 6))
        n_edges = draw(st.integers(1, 10))
        edges = np.array([rng.permutation(n_nodes)[:2] for _ in range(n_edges)])
    unary = rng.normal(size=(n_nodes, n_labels)) * draw(st.sampled_from([0.0, 0.1, 1.0, 1e-6, 1e6]))
    kind = draw(st.sampled_from(["random", "attract", "repel", "none", "ties"]))
    same = np.eye(n_labels)
    pairwise = {
        "random": rng.normal(size=(len(edges), n_labels, n_labels)),
        "attract": rng.random((len(edges), 1, 1)) * same,
        "repel": -rng.random((len(edges), 1, 1)) * same,
        "none": np.zeros((len(edges), n_labels, n_labels)),
        "ties": rng.integers(-1, 2, (len(edges), n_labels, n_labels)).astype(float),
    }[kind]
    if kind == "ties":
        unary = unary.round()
    return unary, pairwise, edges


def small(unary, pairwise):
    return 1e-9 * len(unary) * max(np.abs(unary).max(), np.abs(pairwise).max()) + 1e-300


@given(graph=graphs())
def test_the_best_labels_are_found(graph):
    best = max(all_scores(*graph).values())
    assert score(*graph, best_exact(*graph)) == pytest.approx(best, abs=small(*graph[:2]))


@given(graph=graphs(), rounds=st.integers(0, 4))
def test_bounds_hold_for_each_label_of_each_node(graph, rounds):
    scores = all_scores(*graph)
    messages = search._Messages(*graph)
    looks = [messages.improve(rounds)]
    if messages.add_triplets():
        looks.append(messages.tighten())
    for known in looks:
        for y, value in scores.items():
            at = known.bounds[np.arange(len(y)), y]
            assert (at >= value - small(*graph[:2])).all()
        assert score(*graph, known.labels) == pytest.approx(known.score, rel=1e-12)


@given(graph=graphs())
def test_what_is_left_goes_to_an_integer_program(graph):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "_ROUNDS", (1,))
        patch.setattr(search, "_MOST_LOOKS", 0)
        patch.setattr(search, "_LARGEST_TABLE", 1)
        found = best_exact(*graph)
    best = max(all_scores(*graph).values())
    assert score(*graph, found) == pytest.approx(best, abs=small(*graph[:2]))


@given(graph=graphs(), seed=st.integers(0, 1000))
def test_elimination_among_some_labels(graph, seed):
    unary, _, _ = graph
    rng = np.random.default_rng(seed)
    allowed = rng.random(unary.shape) < 0.6
    allowed[np.arange(len(unary)), rng.integers(unary.shape[1], size=len(unary))] = True
    found = best_among(*graph, allowed, largest=10**6)
    assert allowed[np.arange(len(unary)), found].all()
    best = max(
        value
        for y, value in all_scores(*graph).items()
        if allowed[np.arange(len(y)), np.array(y)].all()
    )
    assert score(*graph, found) == pytest.approx(best, abs=small(*graph[:2]))


def test_elimination_that_is_too_large_says_so():
    edges = grid(4, 4)
    scores = np.zeros((16, 3)), np.zeros((len(edges), 3, 3)), edges
    assert best_among(*scores, np.ones((16, 3), dtype=bool), largest=80) is None
    assert best_among(*scores, np.ones((16, 3), dtype=bool), largest=3**5) is not None


@given(graph=graphs())
def test_the_relaxed_search_reaches_what_the_linear_program_reaches(graph):
    unary, pairwise, edges = graph

    def value(found):
        shares = RelaxedLabels.of(found, edges, unary.shape[1])
        return float((shares.nodes * unary).sum() + (shares.edges * pairwise).sum())

    found, expected = best_relaxed_first_by_messages(*graph), best_relaxed(*graph)
    assert value(found) == pytest.approx(value(expected), abs=2 * small(unary, pairwise))


def test_a_grid_has_a_chord_for_each_square():
    edges = grid(4, 5)
    triplets = Triplets.of(20, edges)
    assert len(triplets.edges) == len(edges) + 12
    assert len(triplets.sides) == 24
    # Sides of a triplet i < j < k are its edges (i, j), (j, k), (i, k).
    ends = np.sort(triplets.edges, axis=1)
    first, second, third = (ends[triplets.sides[:, side]] for side in range(3))
    np.testing.assert_array_equal(first[:, 1], second[:, 0])
    np.testing.assert_array_equal(first[:, 0], third[:, 0])
    np.testing.assert_array_equal(second[:, 1], third[:, 1])


def test_triplets_close_the_gap_of_a_cycle_that_contradicts_itself():
    # Three edges of a square attract, the fourth repels: the relaxation gives each node halves.
    edges = np.array([[0, 1], [1, 2], [2, 3], [0, 3]])
    same = np.eye(2)
    pairwise = np.array([same, same, same, -same])
    messages = search._Messages(np.zeros((4, 2)), pairwise, edges)
    assert messages.improve(50).least == pytest.approx(3.0, rel=1e-9)
    assert messages.add_triplets()
    for _ in range(10):
        known = messages.tighten()
    assert known.score == 2.0
    assert known.least == pytest.approx(2.0, rel=1e-6)


@pytest.mark.parametrize("n_labels", [3, 5])
def test_large_grids_have_the_same_bits_each_time(n_labels):
    rng = np.random.default_rng(n_labels)
    edges = grid(12, 12)
    unary = rng.normal(size=(144, n_labels))
    pairwise = np.broadcast_to(
        0.6 * np.eye(n_labels) + 0.3 * rng.normal(size=(n_labels, n_labels)),
        (len(edges), n_labels, n_labels),
    )
    found = best_exact(unary, pairwise, edges)
    np.testing.assert_array_equal(found, best_exact(unary, pairwise, edges))
    # No change of a single node is better, nor is the order in which an edge names its nodes.
    for v in range(0, 144, 7):
        for label in range(n_labels):
            other = found.copy()
            other[v] = label
            assert score(unary, pairwise, edges, other) <= score(unary, pairwise, edges, found)
    turned = best_exact(unary, pairwise.transpose(0, 2, 1), edges[:, ::-1])
    assert score(unary, pairwise, edges, turned) == pytest.approx(
        score(unary, pairwise, edges, found), rel=1e-12
    )
