"""Methods: named combinations of the four choices stabilizer, memory, query and cuts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from cutplane.core.cuts import ConvexCuts, Cuts
from cutplane.core.memory import ForgetIdle, KeepAll, LimitedMemory, Memory
from cutplane.core.query import AtCandidate, OnSegment, Query
from cutplane.core.stabilizers import NoStabilizer, Stabilizer


@dataclass(frozen=True, slots=True)
class Method:
    """A bundle method, made of the four choices that the loop leaves open.

    With ``groups`` the risk is split into so many, and the model has planes for each of them; None
    leaves their number to the risk.
    """

    stabilizer: Stabilizer
    memory: Memory
    query: Query
    cuts: Cuts
    groups: int | None = 1


def bmrm(
    *, line_search: bool = True, planes: int | None = None, groups: int | Literal["auto"] = 1
) -> Method:
    """Bundle method for regularized risk minimisation.

    Algorithm 1 of paper 000; with ``planes``, Algorithm 3 of paper 004.

    Parameters
    ----------
    line_search : bool
        Search the ray from the best point to the candidate (paper 004, section 3.3.2), which
        usually saves most of the iterations. For linear risks the search needs no pass over the
        data. Without it, the risk is evaluated at the candidate, as in paper 000.
    planes : int, optional
        Keep at most so many planes a group, and an aggregated one (paper 004, Algorithm 3). All by
        default, or with groups all but those that had no weight for long.
    groups : int or "auto"
        Split the examples into so many groups, each with planes of its own. The model is tighter,
        so that fewer evaluations are needed, and takes longer to minimise. The risk must be a sum
        over examples: a linear risk without an intercept is. With "auto" the risk decides.

    Returns
    -------
    Method
    """
    if groups != "auto" and groups < 1:
        raise ValueError(f"the number of groups must be at least 1, got {groups}")
    memory: Memory = KeepAll() if groups == 1 else ForgetIdle()
    return Method(
        stabilizer=NoStabilizer(),
        memory=memory if planes is None else LimitedMemory(planes),
        query=OnSegment() if line_search else AtCandidate(),
        cuts=ConvexCuts(),
        groups=None if groups == "auto" else groups,
    )
