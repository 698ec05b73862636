"""Regularizers: convex functions known through value and conjugate."""

from cutplane.models.gram.risk import KernelNorm as KernelNorm
from cutplane.regularizers.l2 import L2 as L2
from cutplane.regularizers.l2 import QuadraticForm as QuadraticForm
from cutplane.regularizers.norms import L1 as L1
from cutplane.regularizers.norms import Ball as Ball
from cutplane.regularizers.norms import BoundedElasticNet as BoundedElasticNet
from cutplane.regularizers.norms import BoundedL2 as BoundedL2
from cutplane.regularizers.norms import Box as Box
from cutplane.regularizers.norms import ConstrainedL2 as ConstrainedL2
from cutplane.regularizers.norms import ElasticNet as ElasticNet
from cutplane.regularizers.norms import Entropy as Entropy
from cutplane.regularizers.norms import SquaredLp as SquaredLp
