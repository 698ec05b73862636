"""Structured outputs: what a model must offer, and models with exact inference."""

from cutplane.models.graphs.graphs import Graph as Graph
from cutplane.models.graphs.graphs import GraphModel as GraphModel
from cutplane.models.graphs.graphs import MultilabelModel as MultilabelModel
from cutplane.models.graphs.graphs import Tree as Tree
from cutplane.models.graphs.graphs import TreeModel as TreeModel
from cutplane.models.graphs.local_polytope import RelaxedLabels as RelaxedLabels
from cutplane.models.rna.model import PairCounts as PairCounts
from cutplane.models.rna.model import RNAFolding as RNAFolding
from cutplane.models.sequences.losses import ChainCRF as ChainCRF
from cutplane.models.sequences.losses import ChainLoss as ChainLoss
from cutplane.models.sequences.losses import ChainMargin as ChainMargin
from cutplane.models.speech.model import GaussianHMMs as GaussianHMMs
from cutplane.models.structured.model import MODELS as MODELS
from cutplane.models.structured.model import MulticlassModel as MulticlassModel
from cutplane.models.structured.model import StructuredModel as StructuredModel
