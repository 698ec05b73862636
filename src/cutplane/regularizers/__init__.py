"""Regularizers: convex functions known through value and conjugate."""

from cutplane.models.gram.norm import KernelNorm
from cutplane.regularizers.bounded import Ball, BoundedElasticNet, BoundedL2, Box, ConstrainedL2
from cutplane.regularizers.l2 import L2, QuadraticForm
from cutplane.regularizers.norms import L1, ElasticNet, Entropy, SquaredLp

__all__ = [
    "L1",
    "L2",
    "Ball",
    "BoundedElasticNet",
    "BoundedL2",
    "Box",
    "ConstrainedL2",
    "ElasticNet",
    "Entropy",
    "KernelNorm",
    "QuadraticForm",
    "SquaredLp",
]
