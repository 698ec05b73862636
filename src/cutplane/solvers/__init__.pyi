"""Methods by name, the automatic choice among them, and the front door."""

from cutplane.models.multiclass.ascent import ClassEpochs as ClassEpochs
from cutplane.models.multiclass.ascent import class_ascent as class_ascent
from cutplane.models.multiclass.newton import ClassNewtonSteps as ClassNewtonSteps
from cutplane.models.multiclass.newton import class_newton as class_newton
from cutplane.solvers.block_ascent import BlockAscent as BlockAscent
from cutplane.solvers.cccp import ConvexSteps as ConvexSteps
from cutplane.solvers.coordinates import CoordinateSteps as CoordinateSteps
from cutplane.solvers.coordinates import coordinate_descent as coordinate_descent
from cutplane.solvers.dual_ascent import DualEpochs as DualEpochs
from cutplane.solvers.newton import NewtonSteps as NewtonSteps
from cutplane.solvers.quasi_newton import QuasiNewtonSteps as QuasiNewtonSteps
from cutplane.solvers.quasi_newton import SparseQuasiNewton as SparseQuasiNewton
from cutplane.solvers.quasi_newton import sparse_quasi_newton as sparse_quasi_newton
from cutplane.solvers.stochastic import BottouSteps as BottouSteps
from cutplane.solvers.stochastic import ConstantSteps as ConstantSteps
from cutplane.solvers.stochastic import Iterate as Iterate
from cutplane.solvers.stochastic import PegasosSteps as PegasosSteps
from cutplane.solvers.stochastic import Sampling as Sampling
from cutplane.solvers.stochastic import StochasticPasses as StochasticPasses
from cutplane.solvers.stochastic import StochasticRun as StochasticRun
from cutplane.solvers.stochastic import adaptive as adaptive
from cutplane.solvers.stochastic import online_proximal as online_proximal
from cutplane.solvers.stochastic import optimistic as optimistic
from cutplane.solvers.stochastic import pegasos as pegasos
from cutplane.solvers.stochastic import sgd as sgd
from cutplane.solvers.subgradient import SubgradientSteps as SubgradientSteps
