"""The methods that estimators and the command line know, by name."""

from __future__ import annotations

from collections.abc import Callable

from cutplane.core.method import Method
from cutplane.core.needs import offers
from cutplane.core.policies.cuts import NonConvexCuts
from cutplane.core.state import Problem
from cutplane.models.gram.newton import kernel_newton
from cutplane.models.gram.pair_ascent import pair_ascent
from cutplane.models.multiclass.ascent import class_ascent
from cutplane.models.multiclass.newton import class_newton
from cutplane.solvers.automatic import automatic
from cutplane.solvers.block_ascent import block_ascent
from cutplane.solvers.bundle import bmrm, level, nbm, nrbm, proximal, trust_region
from cutplane.solvers.cccp import cccp
from cutplane.solvers.coordinates.descent import coordinate_descent
from cutplane.solvers.coordinates.quasi_newton import sparse_quasi_newton
from cutplane.solvers.dual_ascent import dual_ascent
from cutplane.solvers.newton import newton
from cutplane.solvers.quasi_newton import quasi_newton
from cutplane.solvers.stochastic import adaptive, online_proximal, optimistic, pegasos
from cutplane.solvers.subgradient import subgradient

Methods = dict[str, Callable[[Problem], Method]]
"""From a name to the method for a problem."""


def _quasi_newton(problem: Problem) -> Method:
    if not offers(problem.risk, "loss.probabilities", default=True):
        raise ValueError(
            "the method 'quasi-newton' is for smooth losses: use it with loss='crf', "
            "or for the margin 'block-ascent' or 'grouped'"
        )
    return quasi_newton(cuts=NonConvexCuts() if problem.risk.convex is False else None)


def _dual_ascent(problem: Problem) -> Method:
    if offers(problem.risk, "loss.of_shares"):
        return class_ascent()
    sharded = offers(problem.risk, "sharded")
    return dual_ascent(planes=None) if sharded else dual_ascent()


def _newton(problem: Problem) -> Method:
    return class_newton() if offers(problem.risk, "loss.of_shares") else newton()


_FOR_ALL: Methods = {
    "auto": automatic,
    "bmrm": lambda problem: bmrm(line_search=False),
    "bmrm-line-search": lambda problem: bmrm(),
    "limited-memory": lambda problem: bmrm(planes=50),
    "grouped": lambda problem: bmrm(groups="auto"),
    "proximal": lambda problem: proximal(),
    "trust-region": lambda problem: trust_region(),
    "level": lambda problem: level(),
    "nrbm": lambda problem: nrbm(),
}

STOCHASTIC_METHODS: Methods = {
    "pegasos": lambda problem: pegasos(),
    "adaptive": lambda problem: adaptive(),
    "online-proximal": lambda problem: online_proximal(),
    "optimistic": lambda problem: optimistic(),
}
"""Those that take steps on single examples, and so can follow a stream."""

METHODS: Methods = (
    _FOR_ALL
    | {
        "newton": _newton,
        "dual-ascent": _dual_ascent,
        "coordinate-descent": lambda problem: coordinate_descent(),
        "sparse-quasi-newton": lambda problem: sparse_quasi_newton(),
    }
    | STOCHASTIC_METHODS
)
"""Those for linear models."""

FOR_OTHERS: Methods = {
    "nbm": lambda problem: nbm(),
    "cccp": lambda problem: cccp(),
    "subgradient": lambda problem: subgradient(),
}
"""Those that prove nothing, for risks that are not convex."""

ROBUST_METHODS: Methods = METHODS | FOR_OTHERS
"""Those for linear models some of whose losses are not convex."""

STRUCTURED_METHODS: Methods = _FOR_ALL | {
    "block-ascent": lambda problem: block_ascent(),
    "quasi-newton": _quasi_newton,
    "sparse-quasi-newton": lambda problem: sparse_quasi_newton(),
}
"""Those for structured models, chains among them."""

KERNEL_METHODS: Methods = {
    **{name: method for name, method in _FOR_ALL.items() if name not in ("grouped", "nrbm")},
    "pair-ascent": lambda problem: pair_ascent(),
    "kernel-newton": lambda problem: kernel_newton(),
}
"""Those for functions in the span of the examples."""
