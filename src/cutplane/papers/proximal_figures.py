"""Figure 3 of paper 002: the standard and the proximal bundle method, on RNA and on web ranking.

    J(w) = lam/2 |w|^2 + R(w),   the best objective against iterations, for several lam

*RNA folding*, its left column. The sequences are those of the paper, 151 of 151 families. The
paper's features are not published in full ("approximately 350, based largely on existing
thermodynamic scoring schemes"); those of `cutplane.RNAFolding` are of that kind. The structures of
the data set that is used here are not those of the paper: see docs/rna.md. So objectives cannot be
compared with the paper's curves, the order of the methods can.

*Web ranking*, its right column. The paper's 1000 queries are not public. The training part of the
first fold of LETOR's MQ2008 takes their place: 471 queries, 9630 documents, 46 features. As in the
paper, the loss is the structured bound on NDCG of Chapelle, Le and Smola (2007); the length of its
list, 10, is our choice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import cutplane as cp
from cutplane.models.rna.model import read_structures
from cutplane.papers.experiment import (
    Experiment,
    Progress,
    Row,
    first,
    folder_of,
    load_letor,
    minimize,
    settings,
)
from cutplane.report.figures import Series, draw_curves

_TRAINING_PARTS = ("S1", "S2", "S3")  # of the first fold


def _ranking_risk() -> Any:
    X, y, qid = load_letor("letor_mq2008", _TRAINING_PARTS)
    return cp.ScoredRisk(X, y, cp.NDCGListHinge(10).for_queries(qid), intercept=False)


def _rna_risk() -> Any:
    items = read_structures(folder_of("rna_rfam151") / "rfam151.dbn")
    X, Y = [item.sequence for item in items], [item.structure for item in items]
    return cp.StructuredRisk(cp.RNAFolding(), X, Y)


@dataclass(frozen=True, kw_only=True)
class _Column:
    """One of the two columns of the figure: the problem, and the methods that it compares."""

    risk: Callable[[], Any]
    lams: tuple[float, ...]
    methods: dict[str, cp.Solver[Any]]  # a method that should be compared is one line here
    stages: tuple[int, ...]  # the iterations whose objectives the table shows
    tol: float

    def rows(self, progress: Progress) -> Iterator[Row]:
        """Yield the best objective so far of each method, for each lam."""
        risk, most = self.risk(), self.stages[-1]
        start = risk.at(np.zeros(risk.n_parameters)).value
        for lam, name in settings(progress, lam=self.lams, method=self.methods):
            method = self.methods[name]
            result = minimize(risk, cp.L2(lam), method=method, tol=self.tol, max_iter=most)
            objectives = [record.objective for record in result.history]
            yield {
                "lam": lam,
                "method": name,
                "improves": first(objective < start for objective in objectives),
                # A run that is over earlier stays where it is.
                **{f"after_{n}": objectives[min(n, len(objectives)) - 1] for n in self.stages},
                "lower_bound": result.certificate.lower_bound,
                "evaluations": result.evaluations,
                "objectives": objectives,
            }

    def experiment(self, name: str, title: str, paper: str) -> Experiment:
        """Return what the command line knows by a name."""
        columns = {
            "lam": "lam",
            "method": "method",
            "improves": "improves after",
            **{f"after_{n}": f"J after {n}" for n in self.stages},
            "lower_bound": "J* >=",
            "evaluations": "evaluations",
        }
        return Experiment(
            name=name, title=title, paper=paper, run=self.rows, columns=columns, picture=_picture
        )


def _picture(rows: Sequence[Row]) -> Any:
    lines = [Series("objectives", "best objective")]
    return draw_curves(rows, lines, panel="lam", label="method")


_RANKING = _Column(
    risk=_ranking_risk,
    lams=(1e-2, 1e-3, 1e-4, 1e-5),
    methods={
        "standard": cp.bmrm(line_search=False),
        "proximal": cp.balanced_proximal(),
        "standard, line search": cp.bmrm(),
    },
    stages=(20, 50, 100, 200),
    tol=1e-6,
)

_RNA = _Column(
    risk=_rna_risk,
    lams=(1.0, 0.1, 0.01),
    methods={
        "standard bundle method": cp.bmrm(line_search=False),
        "proximal (paper 002)": cp.balanced_proximal(),
        "BMRM, groups, line search": cp.bmrm(groups="auto"),
    },
    stages=(10, 25, 50),
    tol=1e-3,
)

EXPERIMENTS = [
    _RANKING.experiment(
        "fig3-ranking",
        "Paper 002, Figure 3: standard and proximal bundle method on web ranking",
        "In the paper the proximal method with automatic tau is ahead of the standard one, the "
        "more so the smaller lam; many iterations pass before either improves on the initial "
        "parameters.",
    ),
    _RNA.experiment(
        "fig3-rna",
        "Paper 002, Figure 3: RNA folding, the best objective against iterations",
        "In the paper many iterations pass before either method improves on its start, most with "
        "a small lam and the standard method; the proximal one is then far ahead.",
    ),
]
