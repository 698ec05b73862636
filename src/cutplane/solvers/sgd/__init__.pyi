"""Stochastic gradient descent, to compare with: it makes no planes, and proves nothing."""

from cutplane.solvers.sgd.descent import Pass as Pass
from cutplane.solvers.sgd.descent import StochasticRun as StochasticRun
from cutplane.solvers.sgd.descent import sgd as sgd
from cutplane.solvers.sgd.step_rules import BottouSteps as BottouSteps
from cutplane.solvers.sgd.step_rules import ConstantSteps as ConstantSteps
from cutplane.solvers.sgd.step_rules import PegasosSteps as PegasosSteps
