"""Whether a graph has loops, and how it hangs together if it has none."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import breadth_first_order, connected_components

from cutplane.structured.graphs.max_sum import Labels


class Forest(NamedTuple):
    """The parent of each node, -1 for roots, and the nodes with parents before children."""

    parents: Labels
    order: Labels

    @classmethod
    def of(cls, n_nodes: int, edges: Labels) -> Forest | None:
        """Return a graph without loops as a forest, None for others."""
        n_trees, tree_of = connected_components(_joined(n_nodes, edges), directed=False)
        if len(edges) != n_nodes - n_trees:
            return None
        # One more node joins the trees, so that one walk goes through all of them.
        roots = np.unique(tree_of, return_index=True)[1]
        joints = np.column_stack([np.full(n_trees, n_nodes), roots])
        order, parents = breadth_first_order(
            _joined(n_nodes + 1, np.concatenate([edges, joints])), n_nodes, directed=False
        )
        found: Labels = parents[:n_nodes].astype(np.int64)
        found[roots] = -1
        return cls(found, order[1:].astype(np.int64))


def _joined(n_nodes: int, edges: Labels) -> Any:
    ones = np.ones(len(edges), dtype=np.int8)
    return coo_array((ones, (edges[:, 0], edges[:, 1])), shape=(n_nodes, n_nodes)).tocsr()
