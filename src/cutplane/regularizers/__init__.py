"""Regularizers: convex functions known through value and conjugate."""

from cutplane.regularizers.ball import Ball
from cutplane.regularizers.bounded_elastic_net import BoundedElasticNet
from cutplane.regularizers.bounded_l2 import BoundedL2
from cutplane.regularizers.box import Box
from cutplane.regularizers.constrained_l2 import ConstrainedL2
from cutplane.regularizers.entropy import Entropy
from cutplane.regularizers.kernel_norm import KernelNorm
from cutplane.regularizers.l1 import L1, ElasticNet
from cutplane.regularizers.l2 import L2
from cutplane.regularizers.quadratic_form import QuadraticForm
from cutplane.regularizers.squared_lp import SquaredLp

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
