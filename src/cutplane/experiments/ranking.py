"""Figure 3 of paper 002, right column: bundle methods on web ranking.

The paper's 1000 queries are not public. The training part of the first fold of LETOR's MQ2008 takes
their place: 471 queries, 9630 documents, 46 features. As in the paper, the loss is the structured
bound on NDCG of Chapelle, Le and Smola (2007); the length of its list, 10, is our choice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import cutplane as cp
from cutplane.experiments.data import load_letor
from cutplane.experiments.experiment import Experiment, Progress, Row, first, uninterrupted
from cutplane.report.figures import new_figure, tidy

_TRAINING_PARTS = ("S1", "S2", "S3")  # of the first fold
_LAMS = (1e-2, 1e-3, 1e-4, 1e-5)
_ITERATIONS = 200
_STAGES = (20, 50, 100, 200)

# A method that should be compared is one line here.
_METHODS = {
    "standard": cp.bmrm(line_search=False),
    "proximal": cp.balanced_proximal(),
    "standard, line search": cp.bmrm(),
}


def _run(progress: Progress) -> Iterator[Row]:
    X, y, qid = load_letor("letor_mq2008", _TRAINING_PARTS)
    risk = cp.LinearRisk(X, y, cp.NDCGListHinge(10).for_queries(qid), intercept=False)
    runs = [(lam, name) for lam in _LAMS for name in _METHODS]
    for done, (lam, name) in enumerate(runs):
        progress(done / len(runs), f"lam = {lam:g}, {name}")
        result = uninterrupted(
            cp.minimize(risk, cp.L2(lam), method=_METHODS[name], tol=1e-6, max_iter=_ITERATIONS)
        )
        objectives = [record.objective for record in result.history]
        # A run that is over earlier stays where it is.
        at = [objectives[min(stage, len(objectives)) - 1] for stage in _STAGES]
        yield {
            "lam": lam,
            "method": name,
            "improved": first(objective < objectives[0] for objective in objectives),
            **{f"after_{stage}": value for stage, value in zip(_STAGES, at, strict=True)},
            "lower_bound": result.certificate.lower_bound,
            "objectives": objectives,
        }


def _picture(rows: Sequence[Row]) -> Any:
    lams = list(dict.fromkeys(row["lam"] for row in rows))
    figure = new_figure((4.5 * len(lams), 3.5))
    for axes, lam in zip(figure.subplots(1, len(lams), squeeze=False)[0], lams, strict=True):
        for row in rows:
            if row["lam"] == lam:
                axes.plot(
                    range(1, len(row["objectives"]) + 1), row["objectives"], label=row["method"]
                )
        axes.set(title=f"lam = {lam:g}", xlabel="iterations", ylabel="best objective")
        axes.legend(frameon=False, fontsize=8)
        tidy(axes)
    return figure


_ALL = (
    Experiment(
        name="fig3-ranking",
        title="Paper 002, Figure 3: standard and proximal bundle method on web ranking",
        paper=(
            "In the paper the proximal method with automatic tau is ahead of the standard one, "
            "the more so the smaller lam; many iterations pass before either improves on the "
            "initial parameters."
        ),
        run=_run,
        columns={
            "lam": "lam",
            "method": "method",
            "improved": "improves after",
            **{f"after_{stage}": f"J after {stage}" for stage in _STAGES},
            "lower_bound": "J* >=",
        },
        picture=_picture,
    ),
)

EXPERIMENTS = {experiment.name: experiment for experiment in _ALL}
