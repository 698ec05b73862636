"""Figure 3 of paper 002, its left column: a standard bundle method and the proximal one on RNA.

The sequences are those of the paper, 151 of 151 families. The paper's features are not published in
full ("approximately 350, based largely on existing thermodynamic scoring schemes"); those of
`cutplane.RNAFolding` are of that kind. The structures of the data set that is used here are not
those of the paper: see docs/rna.md. So objectives cannot be compared with the paper's curves, the
order of the methods can.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import cutplane as cp
from cutplane.experiments.data import folder_of
from cutplane.experiments.experiment import Experiment, Progress, Row, first, uninterrupted
from cutplane.io.structures import read_structures
from cutplane.report.figures import new_figure, tidy

_LAMS = (1.0, 0.1, 0.01)
_ITERATIONS = 50
_SHOWN = (10, 25, _ITERATIONS)

_METHODS = {
    "standard bundle method": cp.bmrm(line_search=False),
    "proximal (paper 002)": cp.balanced_proximal(),
    "BMRM, groups, line search": cp.bmrm(groups="auto"),
}


def _rows(progress: Progress) -> Iterator[Row]:
    items = read_structures(folder_of("rna_rfam151") / "rfam151.dbn")
    X, Y = [item.sequence for item in items], [item.structure for item in items]
    runs = [(lam, method) for lam in _LAMS for method in _METHODS]
    for done, (lam, method) in enumerate(runs):
        progress(done / len(runs), f"lam = {lam:g}, {method}")
        risk = cp.StructuredRisk(cp.RNAFolding(), X, Y)
        start = risk.at(np.zeros(risk.n_parameters)).value
        result = uninterrupted(
            cp.minimize(risk, cp.L2(lam), method=_METHODS[method], tol=1e-3, max_iter=_ITERATIONS)
        )
        objectives = [record.objective for record in result.history]
        yield {
            "lam": lam,
            "method": method,
            "improves": first(objective < start for objective in objectives),
            # A run that ended before keeps its last value.
            **{f"at_{k}": objectives[min(k, len(objectives)) - 1] for k in _SHOWN},
            "lower_bound": result.certificate.lower_bound,
            "evaluations": result.evaluations,
            "objectives": objectives,
        }


def _picture(rows: Sequence[Row]) -> Any:
    lams = list(dict.fromkeys(row["lam"] for row in rows))
    figure = new_figure((4.5 * len(lams), 3.5))
    for axes, lam in zip(figure.subplots(1, len(lams), squeeze=False).flat, lams, strict=True):
        for row in rows:
            if row["lam"] == lam:
                steps = range(1, len(row["objectives"]) + 1)
                axes.plot(steps, row["objectives"], label=row["method"])
        axes.set(title=f"lam = {lam:g}", xlabel="iterations", ylabel="objective")
        axes.legend(frameon=False, fontsize=8)
        tidy(axes)
    return figure


EXPERIMENTS = {
    "fig3-rna": Experiment(
        name="fig3-rna",
        title="Paper 002, Figure 3: RNA folding, the best objective against iterations",
        paper=(
            "In the paper many iterations pass before either method improves on its start, most "
            "with a small lam and the standard method; the proximal one is then far ahead."
        ),
        run=_rows,
        columns={
            "lam": "lam",
            "method": "method",
            "improves": "first iteration below J(0)",
            **{f"at_{k}": f"J after {k}" for k in _SHOWN},
            "lower_bound": "lower bound",
            "evaluations": "evaluations",
        },
        picture=_picture,
    )
}
