"""The tables and figures of the papers, computed anew: one module for what belongs together."""

from cutplane.experiments import bmrm_figures, chained, lower_bound, ocr, ranking, rna
from cutplane.experiments.experiment import Experiment

EXPERIMENTS: dict[str, Experiment] = (
    bmrm_figures.EXPERIMENTS
    | lower_bound.EXPERIMENTS
    | chained.EXPERIMENTS
    | ocr.EXPERIMENTS
    | ranking.EXPERIMENTS
    | rna.EXPERIMENTS
)
"""From the names that the command line knows to the experiments."""

__all__ = ["EXPERIMENTS", "Experiment"]
