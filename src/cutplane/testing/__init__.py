"""Checks of what a user brings: subgradients, convexity, lower bounds, conjugates, inference.

A wrong subgradient or lower bound makes a wrong certificate, and shows as ``inconsistent`` only
sometimes. Each check takes one call, raises an AssertionError that says what is wrong, and returns
a report of what was found to be right. Everything is tried at random places, the same each time.
"""

from cutplane.testing.checks import Report, check_loss, check_regularizer, check_risk
from cutplane.testing.model import check_model

__all__ = ["Report", "check_loss", "check_model", "check_regularizer", "check_risk"]
