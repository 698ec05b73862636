"""Graphs with loops: exact and relaxed search, and certificates of both."""

import cvxpy
import numpy as np
import pytest
import scipy.optimize
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import cutplane as cp
from cutplane.models.graphs.local_polytope import LinearProgram, best_integral, best_relaxed
from cutplane.models.structured import RelaxedLabels
from cutplane.models.structured.forests import Forest
from cutplane.testing import check_risk

from .problems import graphs, random_graph, random_tree

seeds = st.integers(0, 10**6)
both = pytest.mark.parametrize("search", ["exact", "relaxed"])

TRIANGLE = np.array([[0, 1], [1, 2], [2, 0]])
DIFFERENT = np.tile(1.0 - np.eye(2), (3, 1, 1))  # of three neighbors with two labels, two agree


def random_scores(rng, n_nodes, n_edges, n_labels):
    edges = np.array([rng.choice(n_nodes, 2, replace=False) for _ in range(n_edges)])
    # Strong pairs and weak nodes: what loops make hard.
    unary = 0.3 * rng.normal(size=(n_nodes, n_labels))
    return unary, rng.normal(size=(n_edges, n_labels, n_labels)), edges


def score(y, unary, pairwise, edges):
    shares = RelaxedLabels.of(y, edges, unary.shape[1])
    return float(np.sum(unary * shares.nodes) + np.sum(pairwise * shares.edges))


def constraints(n_nodes, n_labels, edges):
    """Return the local polytope by its definition, one equation at a time, and its right side."""
    rows, right = [], []
    for v in range(n_nodes):
        shares = RelaxedLabels(
            np.zeros((n_nodes, n_labels)), np.zeros((len(edges), n_labels, n_labels))
        )
        shares.nodes[v] = 1.0
        rows.append(shares)
        right.append(1.0)
    for e, (u, v) in enumerate(edges):
        for a in range(n_labels):
            for node, place in ((u, (e, a)), (v, (e, slice(None), a))):
                shares = RelaxedLabels(
                    np.zeros((n_nodes, n_labels)), np.zeros((len(edges), n_labels, n_labels))
                )
                shares.nodes[node, a] = -1.0
                shares.edges[place] = 1.0
                rows.append(shares)
                right.append(0.0)
    return np.array([np.concatenate([r.nodes.ravel(), r.edges.ravel()]) for r in rows]), right


def plain_relaxed_score(unary, pairwise, edges):
    """The twin of the program with base labels: all shares, and equations."""
    A, right = constraints(*unary.shape, edges)
    costs = -np.concatenate([unary.ravel(), pairwise.ravel()])
    return -linprog(costs, A_eq=A, b_eq=right, method="highs").fun


def distance_from_polytope(shares, edges):
    missed = [
        np.abs(shares.nodes.sum(axis=1) - 1.0),
        np.abs(shares.edges.sum(axis=2) - shares.nodes[edges[:, 0]]),
        np.abs(shares.edges.sum(axis=1) - shares.nodes[edges[:, 1]]),
        np.maximum(-shares.nodes, 0.0),
        np.maximum(-shares.edges, 0.0),
    ]
    return max(float(part.max()) for part in missed)


@settings(max_examples=40)
@given(seed=seeds, n_labels=st.integers(2, 4))
def test_searches_against_all_labels_and_a_plain_program(seed, n_labels):
    rng = np.random.default_rng(seed)
    scores = random_scores(rng, 5, int(rng.integers(1, 10)), n_labels)
    best = max(score(np.array(y), *scores) for y in np.ndindex(*[n_labels] * 5))
    exact, relaxed = best_integral(*scores), best_relaxed(*scores)
    assert exact.dtype == np.int64
    assert score(exact, *scores) == pytest.approx(best, rel=1e-12)
    assert score(relaxed, *scores) == pytest.approx(plain_relaxed_score(*scores), rel=1e-12)
    assert score(relaxed, *scores) >= best - 1e-12
    shares = RelaxedLabels.of(relaxed, scores[2], n_labels)
    assert distance_from_polytope(shares, scores[2]) <= 1e-15


def test_a_triangle_of_nodes_that_want_to_differ():
    weak = np.array([[0.1, 0.0], [0.0, 0.0], [0.0, 0.0]])
    found = best_relaxed(weak, DIFFERENT, TRIANGLE)
    assert isinstance(found, RelaxedLabels)
    assert not found.integral
    assert np.array_equal(found.nodes, np.full((3, 2), 0.5))
    assert score(found, weak, DIFFERENT, TRIANGLE) == pytest.approx(3.05, rel=1e-15)
    labels = best_integral(weak, DIFFERENT, TRIANGLE)
    assert score(labels, weak, DIFFERENT, TRIANGLE) == pytest.approx(2.1, rel=1e-15)
    # Nodes that want to agree are no problem.
    agreed = best_relaxed(weak, 1.0 - DIFFERENT, TRIANGLE)
    assert np.array_equal(agreed, [0, 0, 0])


@given(seed=seeds, size=st.sampled_from([0.0, 1e-9, 1e-7, 1e-3, 1.0]))
def test_what_misses_the_polytope_is_repaired(seed, size):
    rng = np.random.default_rng(seed)
    _, _, edges = random_scores(rng, 4, 6, 3)
    corners = [RelaxedLabels.of(rng.integers(0, 3, 4), edges, 3) for _ in range(2)]
    nodes, pairs = (sum(parts) / 2 for parts in zip(*corners, strict=True))
    near = RelaxedLabels(
        nodes + size * rng.uniform(-1, 1, nodes.shape),
        pairs + size * rng.uniform(-1, 1, pairs.shape),
    )
    assume((near.nodes.max(axis=1) > 0.01).all())
    repaired = near.repaired(edges)
    assert distance_from_polytope(repaired, edges) <= 1e-15
    if size <= 1e-7:
        assert np.abs(repaired.nodes - nodes).max() <= 10 * size
        assert np.abs(repaired.edges - pairs).max() <= 40 * size


@both
@given(seed=seeds)
def test_graphs_without_loops_are_trees(search, seed):
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, 5, edge_features=2)
    inner = np.flatnonzero(tree.parents >= 0)
    graph = cp.Graph(
        tree.nodes, np.column_stack([tree.parents[inner], inner]), np.asarray(tree.edges)[inner]
    )
    y = rng.integers(0, 3, 5)
    model = cp.StructuredRisk(cp.GraphModel(3, search=search), [graph], [y]).model
    twin = cp.StructuredRisk(cp.TreeModel(3), [tree], [y]).model
    np.testing.assert_allclose(
        model.joint_feature(graph, y), twin.joint_feature(tree, y), rtol=1e-12, atol=1e-12
    )
    w = rng.normal(size=model.n_parameters)
    assert np.array_equal(model.inference(graph, w), twin.inference(tree, w))
    assert np.array_equal(
        model.loss_augmented_inference(graph, y, w), twin.loss_augmented_inference(tree, y, w)
    )
    # An edge that is turned round is another one, unless its weights are symmetric.
    turned = rng.random(len(inner)) < 0.5
    other = graph._replace(edges=np.where(turned[:, None], graph.edges[:, ::-1], graph.edges))
    same = cp.StructuredRisk(cp.GraphModel(3, symmetric=True), [graph], [y]).model
    v = rng.normal(size=same.n_parameters)
    assert np.array_equal(same.inference(graph, v), same.inference(other, v))
    np.testing.assert_allclose(same.joint_feature(graph, y), same.joint_feature(other, y))


class RelaxedObjective:
    """``lam/2 |w|^2`` and the relaxed risk, by the definition of the polytope."""

    def __init__(self, model, X, Y, lam):
        self._model = cp.StructuredRisk(model, X, Y).model
        self._lam = lam
        self._examples = [self._linear(x, y) for x, y in zip(X, Y, strict=True)]

    def _linear(self, x, y):
        """Return features and loss of each share alone (all is linear in them), and the polytope.

        The loss of no shares at all is the number of nodes.
        """
        n_labels, n_nodes, edges = self._model.labels, len(x.nodes), np.asarray(x.edges)
        edges = edges.reshape(-1, 2)
        shapes = (n_nodes, n_labels), (len(edges), n_labels, n_labels)
        sizes = [int(np.prod(shape)) for shape in shapes]
        features, losses = [], []
        for unit in np.eye(sum(sizes)):
            parts = np.split(unit, [sizes[0]])
            shares = RelaxedLabels(*(p.reshape(s) for p, s in zip(parts, shapes, strict=True)))
            features.append(self._model.joint_feature(x, shares))
            losses.append(self._model.loss(y, shares) - n_nodes)
        A, right = constraints(n_nodes, n_labels, edges)
        truth = self._model.joint_feature(x, y)
        return np.array(features), np.array(losses), A, np.array(right), truth, n_nodes

    def risk(self, w):
        """Return the mean of dual bounds: a solution itself may miss the maximum by 1e-10."""
        values = []
        for features, losses, A, right, truth, n_nodes in self._examples:
            costs = -(features @ w + losses)
            prices = linprog(costs, A_eq=A, b_eq=right, method="highs").eqlin.marginals
            # The polytope lies between 0 and 1, so this holds for any prices.
            bound = right @ prices + np.minimum(costs - A.T @ prices, 0.0).sum()
            values.append(n_nodes - bound - truth @ w)
        return float(np.mean(values))

    def __call__(self, w):
        return 0.5 * self._lam * float(w @ w) + self.risk(w)

    def optimum(self):
        """Return J at the exact solver's w, with the maximum over shares as a dual minimum."""
        w = cvxpy.Variable(self._model.n_parameters)
        risks, limits = [], []
        for features, losses, A, right, truth, n_nodes in self._examples:
            prices = cvxpy.Variable(len(right))
            limits.append(A.T @ prices >= features @ w + losses)
            risks.append(n_nodes + right @ prices - truth @ w)
        goal = 0.5 * self._lam * cvxpy.sum_squares(w) + sum(risks) / len(risks)
        tolerances = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-10)
        cvxpy.Problem(cvxpy.Minimize(goal), limits).solve(solver=cvxpy.CLARABEL, **tolerances)
        return self(w.value)


def relaxed_problem(rng):
    X = [random_graph(rng, *size) for size in ((1, 0), (3, 3), (4, 6), (5, 8))]
    model = cp.GraphModel(3, search="relaxed")
    return model, X, [rng.integers(0, 3, len(x.nodes)) for x in X]


@settings(max_examples=8)
@given(seed=seeds)
def test_value_and_planes_of_the_relaxed_risk(seed):
    rng = np.random.default_rng(seed)
    model, X, Y = relaxed_problem(rng)
    risk, objective = cp.StructuredRisk(model, X, Y), RelaxedObjective(model, X, Y, 1.0)
    exact = cp.StructuredRisk(cp.GraphModel(3), X, Y)
    others = 2.0 * rng.normal(size=(4, risk.n_parameters))
    values = [objective.risk(w) for w in others]
    for w, value in zip(others, values, strict=True):
        point = risk.at(w)
        plane = point.plane()
        assert point.value == pytest.approx(value, rel=1e-12)
        assert point.value >= exact.at(w).value - 1e-12
        for other, above in zip(others, values, strict=True):
            assert plane.slope @ other + plane.offset <= above + 1e-12


@pytest.mark.parametrize("lam", [1e-3, 0.1, 10.0])
@settings(max_examples=5)
@given(seed=seeds)
def test_certificate_of_the_relaxed_risk(lam, seed):
    model, X, Y = relaxed_problem(np.random.default_rng(seed))
    objective = RelaxedObjective(model, X, Y, lam)
    result = cp.minimize(cp.StructuredRisk(model, X, Y), cp.L2(lam), tol=1e-4)
    certificate, optimum = result.certificate, objective.optimum()
    assert certificate.valid
    assert certificate.status is cp.Status.OPTIMAL
    assert certificate.lower_bound <= optimum
    assert certificate.objective >= optimum - 1e-8 * (1.0 + optimum)
    assert certificate.objective == pytest.approx(objective(result.w), rel=1e-12)


def test_a_relaxed_model_has_a_convex_risk_and_predicts_labels():
    model, X, Y = relaxed_problem(np.random.default_rng(1))
    passed = check_risk(cp.StructuredRisk(model, X, Y), n_points=5).passed
    assert "convex: chords above, planes below" in passed
    predictor = cp.StructuredPredictor(model, lam=0.1).fit(X, Y)
    for y in predictor.predict(X):
        assert y.dtype == np.int64


def test_predictions_are_rounded_and_losses_count_shares():
    x = cp.Graph(np.eye(3), TRIANGLE)
    model = cp.StructuredRisk(cp.GraphModel(2, search="relaxed"), [x], [[0, 1, 1]]).model
    w = np.concatenate([[0.1, 0, 0, 0, 0, 0], DIFFERENT[0].ravel()])
    found = model.loss_augmented_inference(x, [0, 0, 0], w)
    assert isinstance(found, RelaxedLabels)
    assert model.loss([0, 0, 0], found) == model.loss([0, 1, 1], found) == 1.5
    assert model.loss([0, 0, 0], [0, 1, 1]) == 2.0
    # Half of each label everywhere: the first is as good as the second, and is taken.
    assert model.inference(x, w).tolist() == [0, 0, 0]
    assert model.joint_feature(x, found) @ w == pytest.approx(3.05, rel=1e-15)


def test_threads_leave_no_trace():
    model, X, Y = relaxed_problem(np.random.default_rng(2))
    fits = [
        cp.minimize(cp.StructuredRisk(model, X, Y, n_jobs=n_jobs), cp.L2(0.01)) for n_jobs in (1, 3)
    ]
    assert np.array_equal(fits[0].w, fits[1].w)
    assert fits[0].certificate == fits[1].certificate


@both
def test_small_and_odd_graphs(search):
    nodes = np.ones((3, 2))
    X = [
        cp.Graph(nodes, TRIANGLE),
        cp.Graph(nodes, []),
        cp.Graph(nodes, [[0, 1], [1, 0]]),  # a loop of two edges
        cp.Graph(np.ones((0, 2)), np.zeros((0, 2), dtype=int)),
    ]
    for n_labels in (1, 2):
        model = cp.GraphModel(n_labels, search=search)
        risk = cp.StructuredRisk(model, X, [[0, 0, 0]] * 3 + [[]])
        w = np.zeros(risk.n_parameters)
        # At zero every node counts as wrong, if there is another label.
        assert risk.at(w).value == pytest.approx(9 * (n_labels - 1) / 4, rel=1e-15)
        for x in X:
            assert len(risk.model.inference(x, w)) == len(x.nodes)


def test_a_chain_of_many_nodes_is_walked_once():
    n = 100_000
    edges = np.column_stack([np.arange(n - 1), np.arange(1, n)])
    forest = Forest.of(n, np.random.default_rng(0).permutation(edges))
    place = np.argsort(forest.order)
    inner = forest.parents >= 0
    assert np.count_nonzero(~inner) == 1
    assert (place[forest.parents[inner]] < place[inner]).all()
    assert Forest.of(n, np.concatenate([edges, [[n - 1, 0]]])) is None


def grid(side):
    i = np.arange(side * side).reshape(side, side)
    right, down = np.dstack([i[:, :-1], i[:, 1:]]), np.dstack([i[:-1], i[1:]])
    return np.concatenate([right.reshape(-1, 2), down.reshape(-1, 2)])


def test_programs_grow_with_the_number_of_nodes():
    sizes = []
    for side in (10, 40):
        edges = grid(side)
        scores = np.zeros((side * side, 3)), np.zeros((len(edges), 3, 3))
        program = LinearProgram.of(*scores, edges)
        assert program.matrix.indices.dtype == np.int32  # what HiGHS takes
        sizes.append((program.matrix.nnz + program.matrix.shape[0] + len(program.costs)) / side**2)
    assert sizes[1] < 1.1 * sizes[0]


def test_grids_with_two_labels_that_attract_are_solved_by_the_relaxation():
    # Then there is a best cut, and the local polytope has it for a corner.
    rng = np.random.default_rng(0)
    edges = grid(8)
    for _ in range(5):
        pairwise = rng.uniform(0, 1, (len(edges), 1, 1)) * np.eye(2)
        assert not isinstance(
            best_relaxed(rng.normal(size=(64, 2)), pairwise, edges), RelaxedLabels
        )


def test_a_solver_that_stops_early_is_no_proof(monkeypatch):
    weak = np.array([[0.1, 0.0], [0.0, 0.0], [0.0, 0.0]])
    milp = scipy.optimize.milp

    def with_changes(**changes):
        def changed(*arguments, **options):
            answer = milp(*arguments, **options)
            answer.update(changes)
            return answer

        monkeypatch.setattr("scipy.optimize.milp", changed)

    with_changes(status=1, message="Time limit reached.")
    with pytest.raises(RuntimeError, match="HiGHS found no labels: Time limit reached"):
        best_integral(weak, DIFFERENT, TRIANGLE)
    with_changes(mip_dual_bound=-1e7)
    with pytest.raises(RuntimeError, match=r"HiGHS left a gap of .* at a graph of 3 nodes"):
        best_integral(weak, DIFFERENT, TRIANGLE)
    with_changes(x=np.zeros(6))  # all nodes have their base, which is not the best
    with pytest.raises(RuntimeError, match=r"HiGHS left a gap of .* at a graph of 3 nodes"):
        best_integral(weak, DIFFERENT, TRIANGLE)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"edges": [[0, 1], [1, 4]]}, r"example 1: edge 1 joins \[1, 4\]: there are nodes 0 to 3"),
        ({"edges": [[-1, 1]]}, r"example 1: edge 0 joins \[-1, 1\]: there are nodes 0 to 3"),
        ({"edges": [[0, 1], [2, 2]]}, r"edge 1 joins \[2, 2\]: a node has no edge to itself"),
        ({"edges": [[0.0, 1.0]]}, r"edges must be pairs of nodes, got shape \(1, 2\), float64"),
        ({"edges": [0, 1]}, r"edges must be pairs of nodes, got shape \(2,\), int64"),
        ({"edges": [[0, 1], [2]]}, "edges must be pairs of nodes"),
        ({"edge_features": np.ones((5, 1))}, "5 rows of edge features for 6 edges"),
        ({"edge_features": np.ones((6, 2))}, "nodes have 2 features and edges 2, the model has"),
        ({"edge_features": np.ones(6)}, r"edge features have shape \(6,\), not one row for each"),
        ({"nodes": np.ones((4, 3))}, "nodes have 3 features and edges 1, .* for 2 and 1"),
        ({"nodes": np.ones((5, 2))}, "example 1 has 5 nodes and 4 labels"),
        ({"nodes": [[1.0, 2.0], [3.0], [4.0], [5.0]]}, "node features are no table of numbers"),
        ({"nodes": np.full((4, 2), np.nan)}, "node features are not finite"),
    ],
    ids=str,
)
def test_graphs_that_are_none(changes, said):
    model, X, Y = graphs(np.random.default_rng(0))
    wrong = X[2]._replace(**changes)
    with pytest.raises(ValueError, match=said) as caught:
        cp.StructuredRisk(model, [X[1], wrong], [Y[1], Y[2]])
    assert "\n" not in str(caught.value)
    if len(wrong.nodes) == 4:  # other numbers of nodes are right where no labels are known
        prepared = cp.StructuredRisk(model, X[1:3], Y[1:3]).model
        with pytest.raises(ValueError, match=said.replace("example 1: ", "")):
            prepared.inference(wrong, np.zeros(prepared.n_parameters))


@pytest.mark.parametrize(
    ("x", "said"),
    [
        (np.ones((3, 1)), r"example 0: a ndarray is no Graph\(nodes, edges, edge_features\)"),
        (cp.Graph(np.ones(3), TRIANGLE), r"example 0: node features have shape \(3,\)"),
        (cp.Graph([[1.0], []], TRIANGLE), "example 0: node features are no table of numbers"),
    ],
)
def test_the_first_example_is_checked_as_the_others_are(x, said):
    with pytest.raises(ValueError, match=said):
        cp.StructuredRisk(cp.GraphModel(2), [x], [[0, 1, 1]])


@pytest.mark.parametrize("y", [[0, 1, -1], [0.0, 1.0, 2.0], [[0, 1, 2]], list("abc")])
def test_labels_that_are_none(y):
    x = cp.Graph(np.ones((3, 1)), TRIANGLE)
    with pytest.raises(ValueError, match="output 1 is no vector of labels 0, 1"):
        cp.StructuredRisk(cp.GraphModel(), [x, x], [[0, 1, 1], y])


def test_options():
    assert repr(cp.GraphModel(3, symmetric=True)) == (
        "GraphModel(n_labels=3, search='exact', symmetric=True)"
    )
    with pytest.raises(ValueError, match="unknown search 'fast': known are exact, relaxed"):
        cp.GraphModel(search="fast")
    x = cp.Graph(np.ones((3, 1)), TRIANGLE)
    with pytest.raises(ValueError, match="label 2 occurs, there are 2 labels"):
        cp.StructuredRisk(cp.GraphModel(2), [x], [[0, 1, 2]])
