"""Small structured problems, and their exact solution from all outputs."""

import cvxpy
import numpy as np

import cutplane as cp


def multiclass(rng):
    return cp.MulticlassModel(), rng.normal(size=(7, 2)), [0, 1, 2, 0, 1, 2, 1]


def multilabel(rng):
    return cp.MultilabelModel(), rng.normal(size=(5, 2)), rng.integers(0, 2, (5, 3))


def multilabel_tree(rng):
    model = cp.MultilabelModel(parents=[1, -1, 1, 0])
    return model, rng.normal(size=(4, 2)), rng.integers(0, 2, (4, 4))


def random_tree(rng, n_nodes, *, edge_features=None):
    parents = [-1, *(int(rng.integers(-1, v)) for v in range(1, n_nodes))]
    order = rng.permutation(n_nodes)  # parents need not come first
    shuffled = np.empty(n_nodes, dtype=int)
    shuffled[order] = [order[p] if p >= 0 else -1 for p in parents]
    edges = None if edge_features is None else rng.normal(size=(n_nodes, edge_features))
    return cp.Tree(rng.normal(size=(n_nodes, 2)), shuffled, edges)


def trees(rng):
    X = [random_tree(rng, n) for n in (1, 3, 4)]
    return cp.TreeModel(3), X, [rng.integers(0, 3, len(x.nodes)) for x in X]


def trees_with_edge_features(rng):
    X = [random_tree(rng, n, edge_features=2) for n in (2, 4)]
    return cp.TreeModel(2), X, [rng.integers(0, 2, len(x.nodes)) for x in X]


def random_graph(rng, n_nodes, n_edges, *, edge_features=None):
    pairs = [rng.choice(n_nodes, 2, replace=False) for _ in range(n_edges)]
    features = None if edge_features is None else rng.normal(size=(n_edges, edge_features))
    return cp.Graph(rng.normal(size=(n_nodes, 2)), pairs, features)


def graphs(rng):
    X = [random_graph(rng, *size) for size in ((1, 0), (3, 3), (4, 6), (4, 2))]
    return cp.GraphModel(3), X, [rng.integers(0, 3, len(x.nodes)) for x in X]


def symmetric_graphs_with_edge_features(rng):
    X = [random_graph(rng, *size, edge_features=2) for size in ((2, 2), (5, 7))]
    model = cp.GraphModel(2, symmetric=True)
    return model, X, [rng.integers(0, 2, len(x.nodes)) for x in X]


PROBLEMS = {
    problem.__name__: problem
    for problem in (
        multiclass,
        multilabel,
        multilabel_tree,
        trees,
        trees_with_edge_features,
        graphs,
        symmetric_graphs_with_edge_features,
    )
}


class Objective:
    """``lam/2 |w|^2 + R(w)`` from a list of all outputs of each example."""

    def __init__(self, model, X, Y, lam, weights=None, rescaling="margin"):
        # The risk prepares a copy of the model; nothing else of it is used.
        self._model = cp.StructuredRisk(model, X, Y).model
        self._lam = lam
        weights = np.ones(len(Y)) if weights is None else np.asarray(weights)
        self._weights = weights / weights.sum()
        self._planes = [self._planes_of(x, y, rescaling) for x, y in zip(X, Y, strict=True)]

    def _planes_of(self, x, y, rescaling):
        truth = self._dense(self._model.joint_feature(x, y))
        slopes, offsets = [np.zeros_like(truth)], [0.0]
        for output in self._model.outputs(x):
            loss = self._model.loss(y, output)
            difference = self._dense(self._model.joint_feature(x, output)) - truth
            slopes.append(loss * difference if rescaling == "slack" else difference)
            offsets.append(loss)
        return np.array(slopes), np.array(offsets)

    def _dense(self, given):
        if not isinstance(given, tuple):
            return np.asarray(given, dtype=float)
        vector = np.zeros(self._model.n_parameters)
        np.add.at(vector, *given)
        return vector

    def risk(self, w):
        return float(self._weights @ [np.max(A @ w + b) for A, b in self._planes])

    def __call__(self, w):
        return 0.5 * self._lam * float(w @ w) + self.risk(w)

    def optimum(self):
        """Return J at the exact solver's w, which is not below the minimum."""
        w = cvxpy.Variable(self._model.n_parameters)
        losses = [
            weight * cvxpy.max(A @ w + b)
            for weight, (A, b) in zip(self._weights, self._planes, strict=True)
        ]
        goal = cvxpy.Minimize(0.5 * self._lam * cvxpy.sum_squares(w) + sum(losses))
        tolerances = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-10)
        cvxpy.Problem(goal).solve(solver=cvxpy.CLARABEL, **tolerances)
        return self(w.value)
