"""Tables 4 and 5 of paper 004: chains of handwritten letters, two losses.

J(w) = lam/2 |w|^2 + mean loss of a word,   5,512 words to train on, 4,004 parameters

The loss is that of a conditional random field in Table 4, that of a max-margin Markov network in
Table 5. What a method costs is counted in inferences on a word, divided by the number of words, so
that an evaluation counts as one.

Methods in capitals are the paper's, as far as its text tells:

NRBMLS      200 planes and an aggregated one, Wolfe's conditions (constants 1e-4 and 0.9), the first
            trial as far as the last step went, a plane at the lowest trial. Where no trial descends
            the greedy strategy gets stuck; then there is a second plane, at the candidate, and the
            length of the last step stays that of a descent. Chosen on these data.
NBM         planes of the objective, a proximal term, 200 planes, no locality, which convex risks
            do not need; a second plane where no trial descends, as above.
SVM-struct  one slack (T. Joachims, T. Finley, C.-N. Yu 2009), which is BMRM with C = 1/lam: planes
            at the candidate, dropped after 50 reduced problems without weight. Its caches of
            outputs are not there, and its rule to stop is the gap of the others.
SGD         Bottou's rule, its first step calibrated on 1,000 words; the last iterate.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import cutplane as cp
from cutplane.compute.arrays import Vector
from cutplane.core.policies.bmrm import (
    AtCandidate,
    ByTrials,
    ConvexCuts,
    CutAt,
    ForgetIdle,
    LimitedMemory,
    NoStabilizer,
)
from cutplane.core.policies.cuts import ObjectiveCuts, ProximalToBest
from cutplane.models.sequences.chain import Chains
from cutplane.models.structured import ChainLoss
from cutplane.papers.experiment import (
    Progress,
    Published,
    Row,
    Words,
    experiment,
    load_words,
    minimize,
    printed_table,
    scipy_l_bfgs,
    settings,
)
from cutplane.solvers.stochastic import BottouSteps, sgd

_MOST_SECONDS = 180.0
_PLANES = 200  # the most that the paper's methods keep


class Setting(NamedTuple):
    """A problem, and the objective that a method without a certificate has to reach."""

    risk: cp.ChainRisk
    lam: float
    tol: float
    goal: float = -np.inf


class Fit(NamedTuple):
    """What a method found: parameters, the figures of its row, and a lower bound if it has one."""

    w: Vector
    row: Row
    lower_bound: float = -np.inf


def certified(method: Callable[[], cp.Solver[Any]], setting: Setting) -> Fit:
    """Run a method of ours to the tolerance.

    The first one, which gives the others their goal, goes on to what `cutplane.minimize` aims at,
    a quarter of the tolerance.
    """
    risk, tol = setting.risk, setting.tol
    reached: list[tuple[int, float]] = []

    def watch(state: cp.State) -> None:
        if not reached and state.relative_gap <= tol:
            reached.append((risk.inferences, state.objective))

    result = minimize(
        risk,
        cp.L2(setting.lam),
        method=method(),
        tol=tol,
        stop=None if setting.goal == -np.inf else cp.Gap(relative=tol),
        max_iter=None,
        time_limit=_MOST_SECONDS,
        callbacks=[watch],
    )
    end = (risk.inferences, result.objective)
    row = _row(setting, (reached or [end])[0], end)
    row |= {"seconds": result.seconds, "status": str(result.status)}
    return Fit(result.w, row, result.certificate.lower_bound)


def _uncertified(setting: Setting, objective: float, w: Vector, seconds: float) -> Fit:
    end = (setting.risk.inferences, objective)
    status = "reached" if objective <= setting.goal else "missed"
    return Fit(w, _row(setting, end, end) | {"seconds": seconds, "status": status})


def _row(setting: Setting, at_goal: tuple[int, float], at_end: tuple[int, float]) -> Row:
    """Return the figures of a run, from its inferences and objectives."""
    return {
        "inferences": at_goal[0] / setting.risk.n_examples,
        "objective": at_goal[1],
        "in all": at_end[0] / setting.risk.n_examples,
        "in the end": at_end[1],
    }


def l_bfgs(setting: Setting) -> Fit:
    """Run SciPy's L-BFGS until the objective is at the goal, which it could not know itself."""
    risk, began = setting.risk, time.perf_counter()

    def enough(objective: float) -> bool:
        return objective <= setting.goal or time.perf_counter() - began > _MOST_SECONDS

    found = scipy_l_bfgs(risk, cp.L2(setting.lam), np.zeros(risk.n_parameters), enough)
    return _uncertified(setting, *found, time.perf_counter() - began)


def nbm(setting: Setting) -> Fit:
    """Run NBM until the objective is at the goal: its own gap proves nothing."""
    query, cuts = ByTrials(CutAt.LOWEST_OR_BOTH), ObjectiveCuts(gamma=0.0)
    method = cp.Method(ProximalToBest(), LimitedMemory(_PLANES), query, cuts, name="nbm")
    result = minimize(
        setting.risk,
        cp.L2(setting.lam),
        method=method,
        tol=1e-6,
        max_iter=None,
        time_limit=_MOST_SECONDS,
        callbacks=[lambda state: state.objective <= setting.goal],
    )
    return _uncertified(setting, result.objective, result.w, result.seconds)


def stochastic_steps(passes: int, setting: Setting) -> Fit:
    """Take stochastic gradient steps, a word each, with Bottou's rule; return the last iterate.

    What the calibration of the first step took is counted, evaluations of the objective are not.
    """
    risk = setting.risk
    run = sgd(risk, cp.L2(setting.lam), passes=passes, evaluate_every=passes, rule=BottouSteps())
    last = run.history[-1]
    risk.inferences = round((last.passes + run.calibration) * risk.n_examples)
    return _uncertified(setting, last.objective, run.w, last.seconds)


def error_of(risk: cp.ChainRisk, w: Vector, words: Words) -> float:
    """Return the share of wrong letters."""
    there = cp.ChainRisk(words.X, words.y, words.offsets, risk.loss, n_labels=risk.n_labels)
    labels = Chains(words.offsets, risk.n_labels).best(there.scores(w))
    return float(np.mean(labels != words.y))


@dataclass(frozen=True, slots=True)
class Table:
    """One of the two tables: the loss, the methods to compare, and what was published.

    ``published`` has for each method and lam inferences, objective and test error; the methods of
    ``ours`` are certified, the first of them gives the others their goal.
    """

    loss: ChainLoss
    ours: dict[str, Callable[[], cp.Solver[Any]]]
    others: dict[str, Callable[[Setting], Fit]]
    published: Published

    @property
    def lams(self) -> tuple[float, ...]:
        """What the paper chose."""
        return (*self.published["NRBMLS"],)

    def paper(self, method: str, lam: float) -> Row:
        """Return what the paper prints of a method, as the figures of a row."""
        names = ("inferences (paper)", "objective (paper)", "test error (paper)")
        figures = self.published[method][lam] if method in self.published else ()
        return dict(zip(names, figures, strict=False))


def nrbmls() -> cp.Solver[Any]:
    """Return NRBMLS for convex risks (paper 004, section 3.3.2)."""
    query = ByTrials(CutAt.LOWEST_OR_BOTH, nearest=0.0, curvature=0.9)
    return cp.Method(
        NoStabilizer(), LimitedMemory(_PLANES), query, ConvexCuts(), name="nrbm-line-search"
    )


def svm_struct() -> cp.Solver[Any]:
    """Return the cutting planes of SVM-struct with one slack."""
    return cp.Method(NoStabilizer(), ForgetIdle(50), AtCandidate(), ConvexCuts(), name="one-slack")


# Nothing but evaluations of the whole risk, one an iteration. Chosen on these data.
_LEVEL = partial(cp.level, share=0.5, groups=8, line_search=False)

_SGD: dict[str, Callable[[Setting], Fit]] = {
    f"SGD, {passes} passes": partial(stochastic_steps, passes) for passes in (100, 2000)
}

TABLE_4 = Table(
    cp.ChainCRF(),
    {
        "quasi_newton()": cp.quasi_newton,
        "bmrm()": cp.bmrm,
        "level()": _LEVEL,
        "NRBMLS": nrbmls,
    },
    {"NBM": nbm, "L-BFGS": l_bfgs, **_SGD},
    printed_table("table 4"),
)

TABLE_5 = Table(
    cp.ChainMargin(),
    {
        "block_ascent()": cp.block_ascent,
        "bmrm()": cp.bmrm,
        "level()": _LEVEL,
        "BMRM": partial(cp.bmrm, line_search=False),
        "NRBMLS": nrbmls,
        "SVM-struct": svm_struct,
    },
    {"NBM": nbm, **_SGD},
    printed_table("table 5"),
)


def compare(
    table: Table,
    progress: Progress,
    *,
    tol: float = 0.01,
    lams: tuple[float, ...] | None = None,
    data: tuple[Words, Words] | None = None,
) -> Iterator[Row]:
    """Yield a row for each lam and method, with what paper 004 prints of it."""
    train, test = data or load_words()
    risk = cp.ChainRisk(train.X, train.y, train.offsets, table.loss)
    ours = {name: partial(certified, method) for name, method in table.ours.items()}
    runs: dict[str, Callable[[Setting], Fit]] = {**ours, **table.others}
    first = next(iter(runs))
    for lam, name in settings(progress, lam=lams or table.lams, method=runs):
        if name == first:
            setting = Setting(risk, lam, tol)
        risk.inferences = 0
        fit = runs[name](setting)
        if setting.goal == -np.inf:
            setting = setting._replace(goal=fit.lower_bound / (1.0 - tol))
        error = error_of(risk, fit.w, test)
        row = {"lam": lam, "method": name, **fit.row, "test error": error}
        yield row | table.paper(name, lam)


EXPERIMENTS = [
    experiment(name + suffix, partial(compare, table, tol=tol))
    for name, table in (("table4", TABLE_4), ("table5", TABLE_5))
    for suffix, tol in (("", 0.01), ("-fine", 0.001))
]
