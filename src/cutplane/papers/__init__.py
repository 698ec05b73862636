"""The tables and figures of the papers, computed anew: one module for what belongs together."""

from cutplane.papers import (
    bmrm_figures,
    chained,
    hmm,
    lower_bound,
    neural,
    ocr,
    online,
    proximal_figures,
    transductive,
)
from cutplane.papers.experiment import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for module in (
        bmrm_figures,
        lower_bound,
        chained,
        ocr,
        transductive,
        hmm,
        neural,
        online,
        proximal_figures,
    )
    for experiment in module.EXPERIMENTS
}
"""From the names that the command line knows to the experiments."""

__all__ = ["EXPERIMENTS", "Experiment"]
