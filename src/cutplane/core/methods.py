"""Methods: named combinations of the four choices stabilizer, memory, query and cuts."""

from __future__ import annotations

from dataclasses import dataclass

from cutplane.core.cuts import ConvexCuts, Cuts
from cutplane.core.memory import KeepAll, LimitedMemory, Memory
from cutplane.core.query import AtCandidate, OnSegment, Query
from cutplane.core.stabilizers import NoStabilizer, Stabilizer


@dataclass(frozen=True, slots=True)
class Method:
    """A bundle method, made of the four choices that the loop leaves open."""

    stabilizer: Stabilizer
    memory: Memory
    query: Query
    cuts: Cuts


def bmrm(*, line_search: bool = True, planes: int | None = None) -> Method:
    """Bundle method for regularized risk minimisation.

    Algorithm 1 of paper 000; with ``planes``, Algorithm 3 of paper 004.

    Parameters
    ----------
    line_search : bool
        Search the ray from the best point to the candidate (paper 004, section 3.3.2), which
        usually saves most of the iterations. For linear risks the search needs no pass over the
        data. Without it, the risk is evaluated at the candidate, as in paper 000.
    planes : int, optional
        Keep at most so many planes, and an aggregated one (paper 004, Algorithm 3). All by default.

    Returns
    -------
    Method
    """
    return Method(
        stabilizer=NoStabilizer(),
        memory=KeepAll() if planes is None else LimitedMemory(planes),
        query=OnSegment() if line_search else AtCandidate(),
        cuts=ConvexCuts(),
    )
