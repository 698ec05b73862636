"""Bounds on the scores of a graph's labels, by messages along its edges.

    max_y  sum_v unary[v, y_v]  +  sum_e pairwise[e, y_u, y_v],   e = (u, v),  u < v

Messages move parts of the scores between nodes and edges and leave the score of all labels as it
is. The graph is cut into chains along which node numbers grow; a node that several chains share
gives an equal part of its score to each. The sum of what the chains reach at most, each for itself,
is a bound, whatever the messages are. Passes from the first node to the last and back, each of
which makes the chains of a node agree as well as they can, lower it (TRW-S: V. Kolmogorov,
Convergent tree-reweighted message passing for energy minimization, 2006).

With the best that a chain can reach for each label of each node, there is a bound for each label:
of all labels of the graph with this one at this node.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.compiled import njit
from cutplane.models.structured.forests import Labels

Table = NDArray[np.float64]


class Chains(NamedTuple):
    """Edges by their nodes, from the lower number to the higher one.

    Edges that begin at node ``v`` are ``out[out_at[v]:out_at[v + 1]]``, those that end there
    ``into[into_at[v]:into_at[v + 1]]``. A chain comes along the i-th of the latter and goes on
    along the i-th of the former.
    """

    ends: Labels  # (n_edges, 2)
    out: Labels
    out_at: Labels
    into: Labels
    into_at: Labels

    @classmethod
    def of(cls, n_nodes: int, edges: Labels) -> Chains:
        """Cut a graph into chains."""
        ends = np.sort(edges, axis=1)
        lists: list[Labels] = []
        for side in range(2):
            order = np.argsort(ends[:, side], kind="stable").astype(np.int64)
            starts = np.searchsorted(ends[order, side], np.arange(n_nodes + 1)).astype(np.int64)
            lists += [order, starts]
        return cls(ends, *lists)


class Moved(NamedTuple):
    """Scores of nodes and pairs, and the parts that messages move: to second nodes, to first."""

    unary: Matrix
    pairwise: Table
    chains: Chains
    up: Matrix
    down: Matrix


def upward(pairwise: Any, edges: Labels) -> Table:
    """Return scores of pairs with the label of the node with the lower number first."""
    turned: Table = np.array(pairwise, dtype=np.float64)
    back = edges[:, 0] > edges[:, 1]
    turned[back] = turned[back].transpose(0, 2, 1)
    return np.ascontiguousarray(turned)


@njit(cache=True, nogil=True)
def gather(moved: Moved, v: int, out: Any) -> None:
    """Write the score of each label of a node, with all messages to it."""
    unary, _, chains, up, down = moved
    for a in range(unary.shape[1]):
        out[a] = unary[v, a]
    for place in range(chains.into_at[v], chains.into_at[v + 1]):
        e = chains.into[place]
        for a in range(unary.shape[1]):
            out[a] += up[e, a]
    for place in range(chains.out_at[v], chains.out_at[v + 1]):
        e = chains.out[place]
        for a in range(unary.shape[1]):
            out[a] += down[e, a]


@njit(cache=True, nogil=True)
def _send(
    scores: Vector, pairwise: Table, e: int, forward: bool, came: Matrix, sent: Matrix
) -> None:
    """Write the message over an edge from a node with these scores; the largest entry is zero.

    What ``came`` over the edge from the other node is not sent back.
    """
    largest = -np.inf
    for b in range(len(scores)):
        best = -np.inf
        for a in range(len(scores)):
            pair = pairwise[e, a, b] if forward else pairwise[e, b, a]
            best = max(best, scores[a] - came[e, a] + pair)
        sent[e, b] = best
        largest = max(largest, best)
    for b in range(len(scores)):
        sent[e, b] -= largest


@njit(cache=True, nogil=True)
def pass_messages(moved: Moved, n_rounds: int) -> None:
    """Improve messages, in place."""
    unary, pairwise, chains, up, down = moved
    n_nodes, n_labels = unary.shape
    scores = np.empty(n_labels)
    for step in range(2 * n_rounds * n_nodes):
        sweep, k = divmod(step, n_nodes)
        forward = sweep % 2 == 0
        v = k if forward else n_nodes - 1 - k
        n_out = chains.out_at[v + 1] - chains.out_at[v]
        n_into = chains.into_at[v + 1] - chains.into_at[v]
        if (n_out if forward else n_into) == 0:
            continue
        gather(moved, v, scores)
        for a in range(n_labels):
            scores[a] /= max(n_out, n_into)
        if forward:
            for place in range(chains.out_at[v], chains.out_at[v + 1]):
                _send(scores, pairwise, chains.out[place], True, down, up)
        else:
            for place in range(chains.into_at[v], chains.into_at[v + 1]):
                _send(scores, pairwise, chains.into[place], False, up, down)


@njit(cache=True, nogil=True)
def _reach_behind(pairs: Matrix, up: Vector, rest: Vector, out: Vector) -> None:
    """Write what a chain reaches at most from an edge on, by the label of its first node."""
    for a in range(len(out)):
        best = -np.inf
        for b in range(len(rest)):
            best = max(best, pairs[a, b] - up[b] + rest[b])
        out[a] = best


@njit(cache=True, nogil=True)
def label_bounds(moved: Moved) -> Matrix:
    """Return what no labels of the graph exceed that have a label at a node: (n_nodes, n_labels).

    It holds for any messages.
    """
    unary, pairwise, chains, up, down = moved
    n_nodes, n_labels = unary.shape
    n_edges = len(chains.ends)
    shares = np.empty((n_nodes, n_labels))  # what a node gives to each of its chains
    before, behind = np.zeros((n_edges, n_labels)), np.zeros((n_edges, n_labels))
    left, right = np.empty(n_labels), np.empty(n_labels)
    for v in range(n_nodes):
        n_out = chains.out_at[v + 1] - chains.out_at[v]
        n_into = chains.into_at[v + 1] - chains.into_at[v]
        gather(moved, v, left)
        for a in range(n_labels):
            shares[v, a] = left[a] / max(n_out, n_into, 1)
        # What a chain reaches at most up to the second node of an edge, but for that node.
        for i in range(n_out):
            e = chains.out[chains.out_at[v] + i]
            for a in range(n_labels):
                left[a] = shares[v, a] - down[e, a]
                if i < n_into:
                    left[a] += before[chains.into[chains.into_at[v] + i], a]
            for b in range(n_labels):
                best = -np.inf
                for a in range(n_labels):
                    best = max(best, left[a] + pairwise[e, a, b])
                before[e, b] = best - up[e, b]
    bounds = np.zeros((n_nodes, n_labels))
    total = 0.0
    for v in range(n_nodes - 1, -1, -1):
        n_out = chains.out_at[v + 1] - chains.out_at[v]
        n_into = chains.into_at[v + 1] - chains.into_at[v]
        for i in range(max(n_out, n_into, 1)):
            largest = -np.inf
            for a in range(n_labels):
                right[a] = shares[v, a]
                if i < n_out:
                    right[a] += behind[chains.out[chains.out_at[v] + i], a]
                reached = right[a]
                if i < n_into:
                    reached += before[chains.into[chains.into_at[v] + i], a]
                left[a] = reached
                largest = max(largest, reached)
            for a in range(n_labels):
                bounds[v, a] += left[a] - largest
            if i >= n_into:  # the chain begins here
                total += largest
                continue
            e = chains.into[chains.into_at[v] + i]
            _reach_behind(pairwise[e], up[e], right, behind[e])
            for a in range(n_labels):
                behind[e, a] -= down[e, a]
    return bounds + total


@njit(cache=True, nogil=True)
def losses_of_chains(moved: Moved) -> tuple[float, Matrix, Table]:
    """Return a bound, and what labels lose to it at each node and at each edge.

    Chains reach ``rest`` at most from a node on. What one could have reached from the node before,
    but does not with the label of this one, is lost at the edge between them.
    """
    unary, pairwise, chains, up, down = moved
    n_nodes, n_labels = unary.shape
    behind = np.zeros((len(chains.ends), n_labels))
    lost, lost_pairs = np.zeros((n_nodes, n_labels)), np.empty(pairwise.shape)
    shares, rest = np.empty(n_labels), np.empty(n_labels)
    total = 0.0
    for v in range(n_nodes - 1, -1, -1):
        n_out = chains.out_at[v + 1] - chains.out_at[v]
        n_into = chains.into_at[v + 1] - chains.into_at[v]
        gather(moved, v, shares)
        for i in range(max(n_out, n_into, 1)):
            for b in range(n_labels):
                rest[b] = shares[b] / max(n_out, n_into, 1)
                if i < n_out:
                    rest[b] += behind[chains.out[chains.out_at[v] + i], b]
            if i >= n_into:  # the chain begins here
                largest = -np.inf
                for b in range(n_labels):
                    largest = max(largest, rest[b])
                total += largest
                for b in range(n_labels):
                    lost[v, b] += largest - rest[b]
                continue
            e = chains.into[chains.into_at[v] + i]
            _reach_behind(pairwise[e], up[e], rest, behind[e])
            for a in range(n_labels):
                for b in range(n_labels):
                    lost_pairs[e, a, b] = behind[e, a] - (pairwise[e, a, b] - up[e, b] + rest[b])
                behind[e, a] -= down[e, a]
    return total, lost, lost_pairs


@njit(cache=True, nogil=True)
def _after_those_before(
    unary: Matrix, pairwise: Table, chains: Chains, labels: Labels, v: int, out: Any
) -> None:
    """Write the score of each label of a node, given the labels of lower numbers beside it."""
    for a in range(unary.shape[1]):
        out[a] = unary[v, a]
    for place in range(chains.into_at[v], chains.into_at[v + 1]):
        e = chains.into[place]
        for a in range(unary.shape[1]):
            out[a] += pairwise[e, labels[chains.ends[e, 0]], a]


@njit(cache=True, nogil=True)
def suggested_labels(moved: Moved) -> Labels:
    """Return labels that messages suggest: the best of each node after those before it."""
    unary, pairwise, chains, _, down = moved
    n_nodes, n_labels = unary.shape
    labels = np.zeros(n_nodes, dtype=np.int64)
    scores = np.empty(n_labels)
    for v in range(n_nodes):
        _after_those_before(unary, pairwise, chains, labels, v, scores)
        for place in range(chains.out_at[v], chains.out_at[v + 1]):
            e = chains.out[place]
            for a in range(n_labels):
                scores[a] += down[e, a]
        labels[v] = np.argmax(scores)
    return labels


@njit(cache=True, nogil=True)
def improve_labels(unary: Matrix, pairwise: Table, chains: Chains, labels: Labels) -> float:
    """Change labels node by node while that helps; return their score."""
    n_nodes, n_labels = unary.shape
    scores = np.empty(n_labels)
    for _ in range(n_nodes):  # an end, since rounding could go round in a circle
        changed = False
        for v in range(n_nodes):
            _after_those_before(unary, pairwise, chains, labels, v, scores)
            for place in range(chains.out_at[v], chains.out_at[v + 1]):
                e = chains.out[place]
                for a in range(n_labels):
                    scores[a] += pairwise[e, a, labels[chains.ends[e, 1]]]
            best = np.argmax(scores)
            if scores[best] > scores[labels[v]]:
                labels[v] = best
                changed = True
        if not changed:
            break
    total = 0.0
    for v in range(n_nodes):
        total += unary[v, labels[v]]
    for e in range(len(chains.ends)):
        total += pairwise[e, labels[chains.ends[e, 0]], labels[chains.ends[e, 1]]]
    return total
