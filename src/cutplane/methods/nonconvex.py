"""Methods for risks that are not convex.

Their gap is a stopping rule, and small near points that are stationary, but also elsewhere where a
plane had to be replaced. It proves nothing: such a run ends as ``stationary``, never as
``optimal``, and its certificate is not valid.
"""

from __future__ import annotations

from typing import Literal

from cutplane.core.method import Memory, Method, Query
from cutplane.core.policies.cuts import NonConvexCuts
from cutplane.core.policies.memory import KeepAll, LimitedMemory
from cutplane.core.policies.objective_cuts import ObjectiveCuts, ProximalToBest
from cutplane.core.policies.queries import AtCandidate, ByTrials, CutAt, OnSegment
from cutplane.core.policies.stabilizers import NoStabilizer

Search = Literal["none", "greedy", "full", "all"]

_SEARCHES: dict[Search, Query] = {
    "none": AtCandidate(),
    # On a segment the candidate is evaluated first; whether to take a plane there is the question.
    "greedy": OnSegment(beyond=0.0, enough=0.0, otherwise=ByTrials(cut_at=CutAt.LOWEST)),
    "full": OnSegment(
        beyond=0.0, enough=1.0, otherwise=ByTrials(cut_at=CutAt.LOWEST_AND_CANDIDATE)
    ),
    "all": OnSegment(beyond=0.0, enough=1.0, otherwise=ByTrials(cut_at=CutAt.ALL)),
}

# How far below the risk planes are kept with "all", as a multiple of the paper's locality. Chosen
# among 1 to 32 on the tables of paper 004 and on 50 settings of Chained Crescent 2, two of them in
# a table (docs/non-convex.md). On the 50, a run with 1 ends 0.26 % above the best objective known
# on average, with 5 by 0.10 %, for 9 % more evaluations.
_LOCALITY = 5.0


def nrbm(*, line_search: Search = "all", planes: int | None = None) -> Method:
    """Non-convex regularized bundle method (paper 004, Algorithms 4 to 6).

    Planes of the risk are kept below it at the best point so far, by a distance that grows with
    the way from where they were taken: those in conflict are lowered, or replaced. A convex risk
    needs none of that: without a line search it is then `bmrm`, and its certificate holds.

    The gap falls below ``eps`` within ``O(1 / (lam * eps))`` iterations (Theorem 3; without a line
    search, or with the full one), and a point with gap zero is stationary (Theorem 4).

    Parameters
    ----------
    line_search : {"all", "greedy", "full", "none"}
        Search the ray from the best point through the candidate, for steps that satisfy Wolfe's
        conditions (section 3.3.2). The paper takes one plane at the lowest point of the search
        ("greedy"), or another one at the candidate ("full"); "all" takes one at each point where
        the risk was evaluated, which needs the fewest evaluations. With "none" the risk is
        evaluated at the candidate, as in Algorithm 4.
    planes : int, optional
        Keep at most so many planes, and an aggregated one. All by default.

    Returns
    -------
    Method
    """
    if line_search not in _SEARCHES:
        raise ValueError(f"line_search must be one of {', '.join(_SEARCHES)}, got {line_search!r}")
    return Method(
        stabilizer=NoStabilizer(),
        memory=_memory(planes),
        query=_SEARCHES[line_search],
        cuts=NonConvexCuts(_LOCALITY if line_search == "all" else 1.0),
        name="nrbm",
    )


def nbm(*, planes: int | None = 100, gamma: float = 0.5, omega: float = 2.0) -> Method:
    """Non-convex proximal bundle method in the manner of Kiwiel (paper 004, section 2.4).

    Planes approximate the whole objective, and a term ``u/2 |w - w*|^2`` keeps candidates near the
    best point. It does not use that the regularizer is known, so that it needs more evaluations
    than `nrbm`: it is here to be compared with. The gap is what the objective could fall at most
    if it were convex near the best point.

    Parameters
    ----------
    planes : int, optional
        Keep at most so many planes, and an aggregated one; all if None.
    gamma, omega : float
        A plane is lowered to at least ``gamma * s^omega`` below the objective at the best point,
        where ``s`` is the length of the way from where it was taken.

    Returns
    -------
    Method
    """
    return Method(
        stabilizer=ProximalToBest(),
        memory=_memory(planes),
        query=ByTrials(cut_at=CutAt.LOWEST),
        cuts=ObjectiveCuts(gamma=gamma, omega=omega),
        name="nbm",
    )


def _memory(planes: int | None) -> Memory:
    return KeepAll() if planes is None else LimitedMemory(planes)
