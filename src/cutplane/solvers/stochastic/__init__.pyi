"""Stochastic steps on examples and batches: certified passes, streams, and plain descent."""

from cutplane.solvers.stochastic.descent import BottouSteps as BottouSteps
from cutplane.solvers.stochastic.descent import ConstantSteps as ConstantSteps
from cutplane.solvers.stochastic.descent import Pass as Pass
from cutplane.solvers.stochastic.descent import PegasosSteps as PegasosSteps
from cutplane.solvers.stochastic.descent import StochasticRun as StochasticRun
from cutplane.solvers.stochastic.descent import sgd as sgd
from cutplane.solvers.stochastic.passes import Iterate as Iterate
from cutplane.solvers.stochastic.passes import Rule as Rule
from cutplane.solvers.stochastic.passes import Sampling as Sampling
from cutplane.solvers.stochastic.passes import Settings as Settings
from cutplane.solvers.stochastic.passes import StochasticPasses as StochasticPasses
from cutplane.solvers.stochastic.passes import adaptive as adaptive
from cutplane.solvers.stochastic.passes import online_proximal as online_proximal
from cutplane.solvers.stochastic.passes import optimistic as optimistic
from cutplane.solvers.stochastic.passes import pegasos as pegasos
