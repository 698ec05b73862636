"""The best labels of the nodes of a graph with loops, by HiGHS.

    max_y  sum_v unary[v, y_v]  +  sum_e pairwise[e, y_u, y_v],   e = (u, v)

as a linear program over the local polytope, or with integral nodes. The polytope has the labels
that may be fractional,

    nodes[v] >= 0, sum 1;   edges[e] >= 0, row sums nodes[u], column sums nodes[v]

Labels proper are its points in zeros and ones; on a forest it has no other corners. One label of
each node is its base, which takes what the others leave. So only the others are variables, x for
nodes and z for edges, and all constraints are inequalities:

    sum_b z[e, a, b] <= x[u, a],   sum_a z[e, a, b] <= x[v, b],
    sum_a x[u, a] + sum_b x[v, b] - sum_ab z[e, a, b] <= 1,   x, z >= 0

With all shares, and equations, HiGHS takes longer. The base is the label with the highest
unary score, so that HiGHS begins at labels that are not bad.

HiGHS stops at tolerances. Therefore every answer is compared with a bound that holds however
inexact the dual solution is that it is computed from.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from cutplane.compute.arrays import Matrix, Vector
from cutplane.models.structured.forests import Labels

# HiGHS's tolerances are absolute: 1e-7 of reduced costs, 1e-6 of an integer program's gap. Close
# to an optimum of the weights, labels differ by less: docs/decisions/
# 2026-11-18-structured-measured.md.
_LARGEST_COST = 1e6
# What is accepted as the best, for each node, as a part of the largest cost.
_TOLERANCE = 1e-9
_INTEGRAL = 1e-6  # a tenfold of what HiGHS may miss a bound by


class RelaxedLabels(NamedTuple):
    """How much of each label the nodes have, and of each pair of labels the edges."""

    nodes: Matrix  # (n_nodes, n_labels)
    edges: NDArray[np.float64]  # (n_edges, n_labels, n_labels): rows are for the first node

    @classmethod
    def of(cls, y: Any, edges: Labels, n_labels: int) -> RelaxedLabels:
        """Return labels as shares of zero and one; shares are returned as they are."""
        if isinstance(y, RelaxedLabels):
            return y
        y = np.asarray(y, dtype=np.int64)
        nodes = np.zeros((len(y), n_labels))
        nodes[np.arange(len(y)), y] = 1.0
        pairs = np.zeros((len(edges), n_labels, n_labels))
        pairs[np.arange(len(edges)), y[edges[:, 0]], y[edges[:, 1]]] = 1.0
        return cls(nodes, pairs)

    @property
    def integral(self) -> bool:
        """Whether these are labels proper, up to a solver's tolerance."""
        return bool((np.minimum(self.nodes, 1.0 - self.nodes) < _INTEGRAL).all())

    def rounded(self) -> Labels:
        """Return the label that each node has most of."""
        return np.asarray(np.argmax(self.nodes, axis=1), dtype=np.int64)

    def repaired(self, edges: Labels) -> RelaxedLabels:
        """Return a point of the polytope near to this one, which may miss it by a tolerance.

        Nodes are scaled to one. Pairs are scaled until no row and no column has too much, and what
        is missing is added as the product of what rows and columns miss.
        """
        nodes = np.maximum(self.nodes, 0.0)
        nodes /= nodes.sum(axis=1, keepdims=True)
        rows, columns = nodes[edges[:, 0]], nodes[edges[:, 1]]
        pairs = np.maximum(self.edges, 0.0)
        pairs *= _at_most_one(rows, pairs.sum(axis=2))[:, :, None]
        pairs *= _at_most_one(columns, pairs.sum(axis=1))[:, None, :]
        rows = np.maximum(rows - pairs.sum(axis=2), 0.0)
        columns = np.maximum(columns - pairs.sum(axis=1), 0.0)
        missing = np.maximum(rows.sum(axis=1), np.finfo(np.float64).tiny)
        pairs += rows[:, :, None] * (columns / missing[:, None])[:, None, :]
        return RelaxedLabels(nodes, pairs)


def _at_most_one(wanted: Matrix, found: Matrix) -> Matrix:
    """Return what to scale by, so that nothing exceeds what is wanted."""
    return np.divide(wanted, found, out=np.ones_like(wanted), where=found > wanted)


def best_relaxed(unary: Matrix, pairwise: Any, edges: Labels) -> Labels | RelaxedLabels:
    """Return the point of the local polytope with the highest score: labels, if it is integral.

    ``unary`` has the shape (n_nodes, n_labels), with two labels or more; ``pairwise`` (n_edges,
    n_labels, n_labels) and ``edges`` (n_edges, 2), with one edge or more.
    """
    from scipy.optimize import linprog

    program = LinearProgram.of(unary, pairwise, edges)
    answer: Any = linprog(program.costs, A_ub=program.matrix, b_ub=program.limits, method="highs")
    _require_success(answer)
    shares = program.shares(answer.x, edges)
    found = shares.rounded() if shares.integral else shares
    program.check(found, program.bound(answer.ineqlin.marginals), edges)
    return found


def best_integral(unary: Matrix, pairwise: Any, edges: Labels) -> Labels:
    """Return the labels with the highest score; parameters are those of `best_relaxed`.

    The relaxed problem is solved first: if its solution is integral, it is the best there is.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    relaxed = best_relaxed(unary, pairwise, edges)
    if not isinstance(relaxed, RelaxedLabels):
        return relaxed
    program = LinearProgram.of(unary, pairwise, edges)
    integral = np.zeros(len(program.costs), dtype=np.int64)
    integral[: program.n_unary] = 1  # pairs follow
    answer: Any = milp(
        program.costs,
        constraints=LinearConstraint(program.matrix, ub=program.limits),
        integrality=integral,
        bounds=Bounds(0.0, 1.0),
        options={"mip_rel_gap": 0.0},
    )
    _require_success(answer)
    labels = program.shares(answer.x, edges).rounded()
    program.check(labels, answer.mip_dual_bound, edges)
    return labels


class LinearProgram(NamedTuple):
    """Minimize ``costs.x`` subject to ``matrix x <= limits`` and ``0 <= x <= 1``.

    Costs are scaled so that the largest is `_LARGEST_COST`.
    """

    costs: Vector
    matrix: Any
    limits: Vector
    places: Labels  # where each label of each node comes, beginning with its base
    labels: Labels  # the label of each node at each place

    @classmethod
    def of(cls, unary: Matrix, pairwise: Any, edges: Labels) -> LinearProgram:
        """Return the program of some scores."""
        n_labels = unary.shape[1]
        base, every = np.argmax(unary, axis=1)[:, None], np.arange(n_labels)
        labels, places = (base + every) % n_labels, (every - base) % n_labels
        single = np.take_along_axis(unary, labels, axis=1)
        pairs = _reordered(pairwise, labels, edges)
        # What is gained over the base, by one node, and by two beyond what each of them gains.
        first, second = pairs[:, 1:, 0] - pairs[:, :1, 0], pairs[:, 0, 1:] - pairs[:, 0, :1]
        gains = single[:, 1:] - single[:, :1]
        np.add.at(gains, edges[:, 0], first)
        np.add.at(gains, edges[:, 1], second)
        together = pairs[:, 1:, 1:] - pairs[:, :1, :1] - first[:, :, None] - second[:, None, :]
        costs = -np.concatenate([gains.ravel(), together.ravel()])
        costs /= np.max(np.abs(costs), initial=np.finfo(np.float64).tiny)
        costs *= _LARGEST_COST
        return cls(costs, *_constraints(len(unary), edges, n_labels - 1), places, labels)

    @property
    def n_unary(self) -> int:
        """The number of variables that belong to nodes."""
        return self.places.size - len(self.places)

    def shares(self, x: Vector, edges: Labels) -> RelaxedLabels:
        """Return a solution, exactly feasible."""
        rest = self.places.shape[1] - 1
        single = x[: self.n_unary].reshape(-1, rest)
        together = x[self.n_unary :].reshape(-1, rest, rest)
        nodes = np.column_stack([1.0 - single.sum(axis=1), single])
        pairs = np.empty((len(edges), rest + 1, rest + 1))
        pairs[:, 1:, 1:] = together
        pairs[:, 1:, 0] = single[edges[:, 0]] - together.sum(axis=2)
        pairs[:, 0, :] = nodes[edges[:, 1]] - pairs[:, 1:, :].sum(axis=1)
        nodes = np.take_along_axis(nodes, self.places, axis=1)
        return RelaxedLabels(nodes, _reordered(pairs, self.places, edges)).repaired(edges)

    def bound(self, multipliers: Vector) -> float:
        """Return what costs never go below, for any multipliers that are not positive."""
        multipliers = np.minimum(multipliers, 0.0)
        reduced = self.costs - self.matrix.T @ multipliers
        return float(self.limits @ multipliers + np.minimum(reduced, 0.0).sum())

    def check(self, found: Labels | RelaxedLabels, bound: float, edges: Labels) -> None:
        """Raise RuntimeError if a solution's costs are above a bound by more than a tolerance."""
        found = RelaxedLabels.of(found, edges, self.labels.shape[1])
        nodes = np.take_along_axis(found.nodes, self.labels, axis=1)
        pairs = _reordered(found.edges, self.labels, edges)
        x = np.concatenate([nodes[:, 1:].ravel(), pairs[:, 1:, 1:].ravel()])
        gap = (float(self.costs @ x) - bound) / _LARGEST_COST
        if not gap <= _TOLERANCE * len(nodes):
            raise RuntimeError(
                f"HiGHS left a gap of {gap:.1e} times the largest score at a graph of "
                f"{len(nodes)} nodes"
            )


def _reordered(pairs: Any, order: Labels, edges: Labels) -> NDArray[np.float64]:
    """Return ``pairs[e, order[u, a], order[v, b]]``."""
    each = np.arange(len(edges))[:, None, None]
    first, second = order[edges[:, 0]][:, :, None], order[edges[:, 1]][:, None, :]
    return np.asarray(pairs[each, first, second])


def _constraints(n_nodes: int, edges: Labels, rest: int) -> tuple[Any, Vector]:
    """Return matrix and right side of the inequalities; nodes have ``rest`` labels but the base."""
    n_edges, every = len(edges), np.arange(rest)
    single = np.arange(n_nodes * rest).reshape(n_nodes, rest)
    together = (n_nodes * rest + np.arange(n_edges * rest * rest)).reshape(n_edges, rest, rest)
    of_edge = np.arange(n_edges)
    rows_of_first = of_edge[:, None] * rest + every
    rows_of_second = n_edges * rest + rows_of_first
    rows_of_edge = 2 * n_edges * rest + of_edge
    rows_of_node = 2 * n_edges * rest + n_edges + np.arange(n_nodes)  # says more to milp only
    entries = [
        (rows_of_first[:, :, None], together, 1.0),
        (rows_of_first, single[edges[:, 0]], -1.0),
        (rows_of_second[:, None, :], together, 1.0),
        (rows_of_second, single[edges[:, 1]], -1.0),
        (rows_of_edge[:, None], single[edges[:, 0]], 1.0),
        (rows_of_edge[:, None], single[edges[:, 1]], 1.0),
        (rows_of_edge[:, None, None], together, -1.0),
        (rows_of_node[:, None], single, 1.0),
    ]
    rows = np.concatenate([np.broadcast_to(r, c.shape).ravel() for r, c, _ in entries])
    columns = np.concatenate([c.ravel() for _, c, _ in entries])
    values = np.concatenate([np.full(c.size, value) for _, c, value in entries])
    n_rows = 2 * n_edges * rest + n_edges + n_nodes
    limits = np.zeros(n_rows)
    limits[2 * n_edges * rest :] = 1.0
    n_columns = n_nodes * rest + n_edges * rest * rest
    # Older versions of SciPy hand indices to HiGHS as they are, which takes these only.
    places = rows.astype(np.int32), columns.astype(np.int32)
    return csc_array((values, places), shape=(n_rows, n_columns)), limits


def _require_success(answer: Any) -> None:
    if answer.status != 0:
        raise RuntimeError(f"HiGHS found no labels: {answer.message}")
