"""What several methods need of a risk of scores: each said once, in the words of its message."""

from __future__ import annotations

from cutplane.core.needs import Need

ROWS_IN_MEMORY = Need("risk", "rows.one_by_one", "dense or sparse rows in memory")
SECOND_DERIVATIVES = Need("risk", "rows.second_derivatives", "a linear risk on dense or CSR rows")
CURVATURES = Need("risk", "loss.has_curvatures", "a loss with second derivatives")
CONJUGATE = Need("risk", "loss.has_conjugate", "a loss with a conjugate")
BY_COORDINATE = Need("regularizer", "by_coordinate", "a regularizer that is a sum over coordinates")
ALL_CLASSES = (
    Need("risk", "loss.of_shares", "a loss of all classes (CrammerSinger or Softmax)"),
    Need("risk", "map.all_pairs", "a weight for every class and feature"),
    ROWS_IN_MEMORY,
)
