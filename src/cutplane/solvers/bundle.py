"""Methods: named combinations of the four choices stabilizer, memory, query and cuts.

The last two are for risks that are not convex. Their gap is a stopping rule, and small near points
that are stationary, but also elsewhere where a plane had to be replaced. It proves nothing: such a
run ends as ``stationary``, never as ``optimal``, and its certificate is not valid.
"""

from __future__ import annotations

from typing import Any, Literal

from cutplane.core.policies.bmrm import (
    AggregateOnly,
    AtCandidate,
    ByTrials,
    ConvexCuts,
    CutAt,
    ForgetIdle,
    KeepAll,
    LimitedMemory,
    NoStabilizer,
    OnSegment,
)
from cutplane.core.policies.cuts import NonConvexCuts, ObjectiveCuts, ProximalToBest
from cutplane.core.policies.flat import OverSet
from cutplane.core.policies.stabilizers import BalancedProximal, Level, Proximal, TrustRegion
from cutplane.core.solver import BundleSolver, Memory, Query, Stabilizer

Groups = int | Literal["auto"]
Search = Literal["none", "greedy", "full", "all"]

_SEARCHES: dict[Search, Query[Any]] = {
    "none": AtCandidate(),
    # On a segment the candidate is evaluated first; whether to take a plane there is the question.
    "greedy": OnSegment(beyond=0.0, enough=0.0, otherwise=ByTrials(cut_at=CutAt.LOWEST)),
    "full": OnSegment(
        beyond=0.0, enough=1.0, otherwise=ByTrials(cut_at=CutAt.LOWEST_AND_CANDIDATE)
    ),
    # Not on a segment: the exact minimum of a ray that leads over hills is often in a worse valley.
    "all": ByTrials(cut_at=CutAt.ALL),
}

# How far below the risk planes are kept with "all", as a multiple of the paper's locality. Chosen
# among 1 to 32 on the tables of paper 004 and on 50 settings of Chained Crescent 2, two of them in
# a table (docs/non-convex.md). On the 50, a run with 1 ends 0.26 % above the best objective known
# on average, with 5 by 0.10 %, for 9 % more evaluations.
_LOCALITY = 5.0

# Candidates of "all" are those of the level method, so that a start in a good valley is not left by
# a step of length |slope| / lam. Every third is the paper's: on the same 50 settings runs then end
# 0.04 % lower on average than with the paper's alone, and with none of them 0.18 % higher.
_NEAR_BEST = Level(plain_every=3)


def bmrm(
    *, line_search: bool = True, planes: int | None = None, groups: Groups = 1
) -> BundleSolver:
    """Bundle method for regularized risk minimization.

    Algorithm 1 of paper 000; with ``planes``, Algorithm 3 of paper 004.

    Parameters
    ----------
    line_search : bool
        Search the ray from the best point to the candidate (paper 004, section 3.3.2), which
        usually saves most of the iterations. For linear risks the search needs no pass over the
        data. Without it, the risk is evaluated at the candidate, as in paper 000.
    planes : int, optional
        Keep at most so many planes a group, and an aggregated one (paper 004, Algorithm 3). All by
        default, or with groups all but those that had no weight for long. With fewer than
        have weight at the optimum, often as many as there are features, expect a gap of the order
        ``1 / (lam t)`` after ``t`` iterations, above all without a line search.
    groups : int or "auto"
        Split the examples into so many groups, each with planes of its own. The model is tighter,
        so that fewer evaluations are needed, and takes longer to minimize. The risk must be a sum
        over examples: a linear risk without an intercept is. With "auto" the risk decides.
    """
    return _combined("bmrm", NoStabilizer(), line_search, planes, groups)


def bmrm_without_qp() -> BundleSolver:
    """BMRM whose reduced problem has two planes only (paper 000, section 5).

    They are the newest one and the mean of all others, weighted as before, so that the solution is
    the closed form (15) of the paper. Memory is that of two planes. The guarantee is that of
    `bmrm`, gap ``eps`` after about ``8 G^2 / (lam eps)`` iterations (paper 000, Theorem 5, whose
    proof uses no more than these two planes), and the method needs nearly as many: choose it to
    compare with the paper.
    """
    return BundleSolver(
        NoStabilizer(), AggregateOnly(), AtCandidate(), ConvexCuts(), name="bmrm-without-qp"
    )


def proximal(
    *,
    weight: float | None = 10.0,
    line_search: bool = True,
    planes: int | None = None,
    groups: Groups = 1,
) -> BundleSolver:
    """Proximal bundle method, with serious and null steps (paper 001).

    The reduced problem gets the term ``mu/2 |w - c|^2``, which keeps candidates near a center that
    follows the best point. The bounds are those of the problem without it, so the certificate is
    that of any method; if no bound moves for 10 iterations, ordinary steps are taken. Choose it
    for small ``lam``, where the candidates of `bmrm` go back and forth between far points.

    Parameters
    ----------
    weight : float or None
        ``mu / lam``. With None it adapts itself to what the steps achieve, which helps without a
        line search.
    line_search, planes, groups
        See `bmrm`.
    """
    return _combined("proximal", Proximal(weight), line_search, planes, groups)


def trust_region(
    *,
    share: float = 0.1,
    line_search: bool = True,
    planes: int | None = None,
    groups: Groups = 1,
) -> BundleSolver:
    """Bundle method with a trust region (paper 001).

    The model is minimized over a ball around the best point. Its radius is a share of the distance
    within which the optimum must be, ``sqrt(2 gap / lam)``, and so shrinks with the gap. Bounds,
    and when to choose it, as for `proximal`.

    Parameters
    ----------
    share : float
        At most 1, where the optimum is never outside.
    line_search, planes, groups
        See `bmrm`.
    """
    return _combined("trust-region", TrustRegion(share), line_search, planes, groups)


def level(
    *,
    share: float = 0.3,
    line_search: bool = True,
    planes: int | None = None,
    groups: Groups = 1,
) -> BundleSolver:
    """Level bundle method (paper 001).

    The candidate is the point nearest to the best one where the model is as low as a level between
    the bounds. Bounds, and when to choose it, as for `proximal`. Of the stabilized methods it is
    the one that does well without a line search.

    Parameters
    ----------
    share : float
        Where the level is, from the lower bound (0) to the best objective (1).
    line_search, planes, groups
        See `bmrm`.
    """
    return _combined("level", Level(share), line_search, planes, groups)


def balanced_proximal(
    *,
    radius: float | None = None,
    line_search: bool = False,
    planes: int | None = None,
    groups: Groups = 1,
) -> BundleSolver:
    """Proximal bundle method with automatic weights (paper 002, Algorithm 4).

    There is a proximal term at every iterate, with a weight ``tau`` that balances the two parts of
    the paper's bound (Proposition 3). If no slope is steeper than A, and iterates and optimum are
    within the radius R, the best of T iterates is within ``(lam R + A)^2 (1 + log T) / (lam T)`` of
    the optimum (Theorem 5): no better rate is proven, and limits on iterations may come first.
    Choose it to compare with the paper; `level` and `proximal` are faster.

    Parameters
    ----------
    radius : float, optional
        How far the optimum is at most from where the regularizer is zero. By default the paper's
        optimistic strategy: start at ``min(1, 1/sqrt(lam))``, and grow by the root of 2 when an
        iterate gets there.
    line_search, planes, groups
        See `bmrm`.
    """
    return _combined("balanced-proximal", BalancedProximal(radius), line_search, planes, groups)


def kelley() -> BundleSolver:
    """Kelley's cutting planes over a ball or a box (papers 001, 003; paper 004, Algorithm 1).

    For ``cp.minimize(risk, cp.Ball(radius), method=cp.kelley())``: no regularization, but a bound
    on the norm; or over ``cp.Box(lower, upper)``, where each step is a linear program. The lower
    bound is ``b.alpha - radius |A'alpha|``, or that of the box. It converges, often slowly: with
    many features iterates go back and forth over the set. Choose it to see why the other methods
    exist, or for few features where bounds are what you want.
    """
    return BundleSolver(OverSet(), KeepAll(), AtCandidate(), ConvexCuts(), name="kelley")


def nrbm(*, line_search: Search = "all", planes: int | None = None) -> BundleSolver:
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
        the risk was evaluated, and two of three candidates from the level method, nearer to the
        best point, which needs the fewest evaluations. With "none" the risk is evaluated at the
        candidate, as in Algorithm 4.
    planes : int, optional
        Keep at most so many planes, and an aggregated one. All by default.
    """
    if line_search not in _SEARCHES:
        raise ValueError(f"line_search must be one of {', '.join(_SEARCHES)}, got {line_search!r}")
    ours = line_search == "all"
    cuts = NonConvexCuts(_LOCALITY if ours else 1.0)
    stabilizer = _NEAR_BEST if ours else NoStabilizer()
    return BundleSolver(stabilizer, memory_of(planes), _SEARCHES[line_search], cuts, name="nrbm")


def nbm(*, planes: int | None = 100, gamma: float = 0.5, omega: float = 2.0) -> BundleSolver:
    """Non-convex proximal bundle method in the manner of Kiwiel (paper 004, section 2.4).

    Planes approximate the whole objective, and a term ``u/2 |w - w*|^2`` keeps candidates near the
    best point. It does not use that the regularizer is known, so that it needs more evaluations
    than `nrbm`: it is here to be compared with. The gap is what the objective could fall at most
    if it were convex near the best point. It proves nothing, on a convex risk neither: the run
    ends as ``stationary`` there too, and the certificate is not valid.

    Parameters
    ----------
    planes : int, optional
        Keep at most so many planes, and an aggregated one; all if None.
    gamma, omega : float
        A plane is lowered to at least ``gamma * s^omega`` below the objective at the best point,
        where ``s`` is the length of the way from where it was taken.
    """
    query, cuts = ByTrials(cut_at=CutAt.LOWEST), ObjectiveCuts(gamma=gamma, omega=omega)
    return BundleSolver(ProximalToBest(), memory_of(planes), query, cuts, name="nbm")


def _combined(
    name: str, stabilizer: Stabilizer[Any], line_search: bool, planes: int | None, groups: Groups
) -> BundleSolver:
    if groups != "auto" and groups < 1:
        raise ValueError(f"the number of groups must be at least 1, got {groups}")
    return BundleSolver(
        stabilizer,
        ForgetIdle() if planes is None and groups != 1 else memory_of(planes),
        OnSegment() if line_search else AtCandidate(),
        ConvexCuts(),
        groups=None if groups == "auto" else groups,
        name=name,
    )


def checked_planes(planes: int | None) -> int | None:
    """Return how many planes a run keeps, besides their mean; None for all."""
    if planes is not None:
        LimitedMemory(planes)  # which says what is wrong with it
    return planes


def memory_of(planes: int | None) -> Memory[None]:
    """Return the memory that keeps so many planes and an aggregated one, or all."""
    return KeepAll() if planes is None else LimitedMemory(planes)
