"""How many blocks the sums of a pullback may have, and so into how many shards rows can be cut."""

from __future__ import annotations

from cutplane.compute.blocks import vector_blocks
from cutplane.compute.threads import count_blocks

# This many blocks may have sums of their own, even if these take more memory than X.
_FEW = 8


def most_dense_sums(n_rows: int) -> int:
    """Return the most blocks of dense rows, for each of which there are ``d`` sums."""
    return n_rows // 16  # the sums cost as much as a row


def most_sparse_sums(n_entries: int, n_features: int) -> int:
    """Return the most blocks of sparse rows: four entries pay for a sum, cleared and added up."""
    return n_entries // (4 * max(1, n_features))


def class_sums(n_entries: int, n_features: int, n_classes: int) -> int:
    """Return how many blocks a pullback for several classes has."""
    affordable = most_sparse_sums(n_entries, n_features)
    most = max(affordable // n_classes, min(affordable, _FEW))
    return count_blocks(n_entries * n_classes, most=most)


def most_shards(n_rows: int, n_features: int, n_entries: int | None, n_classes: int = 1) -> int:
    """Return into how many shards rows can be cut, so that none of their sums needs fewer blocks.

    Parameters
    ----------
    n_rows, n_features : int
        Of the whole sample.
    n_entries : int or None
        How many numbers of sparse rows are stored; None for dense rows.
    n_classes : int
        How many scores an example has.
    """
    if n_entries is None:
        n_entries, most = n_rows * n_features, most_dense_sums(n_rows)
    else:
        most = most_sparse_sums(n_entries, n_features)
    blocks = [vector_blocks(n_rows), count_blocks(n_entries, most=most)]
    if n_classes > 1:
        blocks.append(class_sums(n_entries, n_features, n_classes))
    return min(blocks)
