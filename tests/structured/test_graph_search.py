"""The search by messages, triplets and walks, beside all labels and beside HiGHS."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutplane.models.graphs import search
from cutplane.models.graphs.local_polytope import best_integral, best_relaxed
from cutplane.models.graphs.search import (
    Triplets,
    best_exact,
    best_relaxed_first_by_messages,
    narrow_order,
    walk,
)
from cutplane.models.structured import RelaxedLabels


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
    few = search.SETTINGS._replace(rounds=(1,), most_looks=0, first_states=1, last_states=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "SETTINGS", few)
        found = best_exact(*graph)
    best = max(all_scores(*graph).values())
    assert score(*graph, found) == pytest.approx(best, abs=small(*graph[:2]))


def test_nothing_goes_to_an_integer_program_if_bounds_leave_one_label_of_each_node():
    edges = np.array([[2, 0], [2, 1], [2, 0], [1, 2], [0, 2], [0, 2], [0, 2], [2, 1], [1, 2]])
    pairwise = np.random.default_rng(3).normal(size=(len(edges), 2, 2))
    messages = search._Messages(np.zeros((3, 2)), pairwise, edges)
    known, free = messages.improve(1), np.zeros(3, dtype=bool)
    found = search._by_program(np.zeros((3, 2)), pairwise, edges, known, free)
    np.testing.assert_array_equal(found, known.labels)


def bound_and_losses(graph, rounds, *, triplets):
    messages = search._Messages(*graph)
    messages.improve(rounds)
    if triplets and messages.add_triplets():
        messages.tighten()
    return *messages.losses(), messages._plan


@given(graph=graphs(), rounds=st.integers(0, 4), triplets=st.booleans())
def test_scores_are_the_bound_less_what_is_lost(graph, rounds, triplets):
    bound, losses, plan = bound_and_losses(graph, rounds, triplets=triplets)
    assert min(np.min(table, initial=0.0) for table in losses) >= -small(*graph[:2])
    each_edge, each_triplet = np.arange(len(losses.edges)), np.arange(len(losses.triplets))
    first, second = plan.chains.ends[plan.sides[:, 0]].T
    third = plan.chains.ends[plan.sides[:, 1], 1]
    for y, value in all_scores(*graph).items():
        y = np.array(y)
        low, high = plan.chains.ends.T
        lost = losses.nodes[np.arange(len(y)), y].sum()
        lost += losses.edges[each_edge, y[low], y[high]].sum()
        lost += losses.triplets[each_triplet, y[first], y[second], y[third]].sum()
        assert bound - lost == pytest.approx(value, abs=small(*graph[:2]))


@given(graph=graphs(), rounds=st.integers(0, 4), triplets=st.booleans())
def test_a_walk_finds_the_best_labels_that_are_allowed(graph, rounds, triplets):
    bound, losses, plan = bound_and_losses(graph, rounds, triplets=triplets)
    best, slack = max(all_scores(*graph).values()), small(*graph[:2])
    least = bound - best
    known = plan.chains, plan.frontier
    for allowed in (least + slack, 2.0 * least + slack, np.inf):
        loss, labels = walk(losses, *known, allowed, 10**5)
        assert loss == pytest.approx(least, abs=slack)
        assert score(*graph, labels) == pytest.approx(best, abs=slack)
    assert walk(losses, *known, least - 2.0 * slack, 10**5)[0] == np.inf
    # Each node has a state at least, and so the last one cannot be reached.
    assert np.isnan(walk(losses, *known, np.inf, len(graph[0]) - 1)[0])


@pytest.mark.parametrize("kind", ["attract", "shared", "random"])
@pytest.mark.parametrize("n_labels", [2, 5, 9])
def test_grids_as_by_an_integer_program(kind, n_labels):
    rng = np.random.default_rng(n_labels)
    edges = grid(6, 6)
    unary = rng.normal(size=(36, n_labels))
    same, mixed = np.eye(n_labels), rng.normal(size=(len(edges), n_labels, n_labels))
    pairwise = {
        "attract": rng.random((len(edges), 1, 1)) * same,
        "shared": np.broadcast_to(0.6 * same + 0.3 * mixed[0], mixed.shape),
        "random": mixed,
    }[kind]
    found, expected = best_exact(unary, pairwise, edges), best_integral(unary, pairwise, edges)
    best = score(unary, pairwise, edges, expected)
    assert score(unary, pairwise, edges, found) == pytest.approx(best, rel=1e-9)


def test_a_wide_graph_whose_states_take_many_words():
    # All of 80 nodes wait for the last 40: at 3 bits each, four words of a state.
    rng = np.random.default_rng(0)
    edges = np.array([(u, 80 + (u + k) % 40) for u in range(80) for k in range(2)])
    unary = rng.normal(size=(120, 5))
    pairwise = np.broadcast_to(0.3 * np.eye(5), (len(edges), 5, 5))
    messages = search._Messages(unary, pairwise, edges)
    messages.improve(20)
    assert messages._plan.frontier.keep.shape[1] == 4
    found = messages.walk(1 << 20)
    expected = score(unary, pairwise, edges, best_integral(unary, pairwise, edges))
    assert score(unary, pairwise, edges, found) == pytest.approx(expected, rel=1e-9)


def test_orders_that_are_not_narrow_are_replaced():
    rng = np.random.default_rng(0)
    edges = grid(8, 8)
    assert narrow_order(64, edges) is None
    shuffled = rng.permutation(64)[edges]
    order = narrow_order(64, shuffled)
    assert sorted(order) == list(range(64))
    # As few nodes wait for later neighbors as in the rows of the grid.
    ends = np.sort(np.argsort(order)[shuffled], axis=1)
    waiting = [len(set(ends[(ends[:, 0] <= v) & (ends[:, 1] > v), 0])) for v in range(64)]
    assert max(waiting) == 8
    # The labels come back in the order that was given.
    unary, pairwise = rng.normal(size=(64, 3)), rng.normal(size=(len(edges), 3, 3))
    found = best_exact(unary, pairwise, shuffled)
    best = score(unary, pairwise, shuffled, best_integral(unary, pairwise, shuffled))
    assert score(unary, pairwise, shuffled, found) == pytest.approx(best, rel=1e-9)


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
