"""Stochastic gradient descent, to compare with: it makes no planes, and proves nothing."""

from cutplane.solvers.sgd.descent import Pass, StochasticRun, sgd
from cutplane.solvers.sgd.step_rules import BottouSteps, ConstantSteps, PegasosSteps

__all__ = ["BottouSteps", "ConstantSteps", "Pass", "PegasosSteps", "StochasticRun", "sgd"]
