"""Regularizers: strongly convex functions known through value and conjugate."""

from cutplane.regularizers.ball import Ball
from cutplane.regularizers.l2 import L2

__all__ = ["L2", "Ball"]
