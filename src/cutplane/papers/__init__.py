"""The tables and figures of the papers, recomputed: one module for what belongs together."""

from cutplane.papers import bundles, hmm, neural, nonconvex, ocr, online
from cutplane.papers.experiment import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for module in (bundles, online, nonconvex, ocr, hmm, neural)
    for experiment in module.EXPERIMENTS
}
"""From the names that the command line knows to the experiments."""

__all__ = ["EXPERIMENTS", "Experiment"]
