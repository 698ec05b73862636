"""The methods that estimators and the command line know, by name."""

from __future__ import annotations

from collections.abc import Callable

from cutplane.core.policies.cuts import NonConvexCuts
from cutplane.core.solver import AnySolver
from cutplane.core.state import Problem
from cutplane.named import load
from cutplane.risks.composite import InferenceRisk, SampleRisk
from cutplane.solvers.bundle import bmrm, level, nbm, nrbm, proximal, trust_region

Methods = dict[str, Callable[[Problem], AnySolver]]
"""From a name to the method for a problem."""


def _at(place: str) -> Callable[[Problem], AnySolver]:
    """Return what makes the method at ``module:name``, which is imported when it is wanted."""

    def make(problem: Problem) -> AnySolver:
        made: AnySolver = load(place)()
        return made

    return make


def _quasi_newton(problem: Problem) -> AnySolver:
    if isinstance(problem.risk, InferenceRisk) and not problem.risk.probabilities:
        raise ValueError(
            "the method 'quasi-newton' is for smooth losses: use it with loss='crf', "
            "or for the margin 'block-ascent' or 'grouped'"
        )
    from cutplane.solvers.quasi_newton import quasi_newton

    return quasi_newton(cuts=NonConvexCuts() if problem.risk.convex is False else None)


def _dual_ascent(problem: Problem) -> AnySolver:
    if _of_classes(problem):
        return _at("cutplane.models.multiclass.ascent:class_ascent")(problem)
    from cutplane.solvers.dual_ascent import dual_ascent

    return dual_ascent(planes=None) if problem.facts.sharded else dual_ascent()


def _of_classes(problem: Problem) -> bool:
    return isinstance(problem.risk, SampleRisk) and problem.risk.loss.of_shares


def _newton(problem: Problem) -> AnySolver:
    place = (
        "models.multiclass.newton:class_newton" if _of_classes(problem) else "solvers.newton:newton"
    )
    return _at(f"cutplane.{place}")(problem)


def _automatic(problem: Problem) -> AnySolver:
    from cutplane.solvers.automatic import automatic

    return automatic(problem)


_FOR_ALL: Methods = {
    "auto": _automatic,
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
    "pegasos": _at("cutplane.solvers.stochastic:pegasos"),
    "adaptive": _at("cutplane.solvers.stochastic:adaptive"),
    "online-proximal": _at("cutplane.solvers.stochastic:online_proximal"),
    "optimistic": _at("cutplane.solvers.stochastic:optimistic"),
}
"""Those that take steps on single examples, and so can follow a stream."""

METHODS: Methods = (
    _FOR_ALL
    | {
        "newton": _newton,
        "dual-ascent": _dual_ascent,
        "coordinate-descent": _at("cutplane.solvers.coordinates:coordinate_descent"),
        "sparse-quasi-newton": _at("cutplane.solvers.quasi_newton:sparse_quasi_newton"),
    }
    | STOCHASTIC_METHODS
)
"""Those for linear models."""

FOR_OTHERS: Methods = {
    "nbm": lambda problem: nbm(),
    "cccp": _at("cutplane.solvers.cccp:cccp"),
    "subgradient": _at("cutplane.solvers.subgradient:subgradient"),
}
"""Those that prove nothing, for risks that are not convex."""

ROBUST_METHODS: Methods = METHODS | FOR_OTHERS
"""Those for linear models some of whose losses are not convex."""

STRUCTURED_METHODS: Methods = _FOR_ALL | {
    "block-ascent": _at("cutplane.solvers.block_ascent:block_ascent"),
    "quasi-newton": _quasi_newton,
    "sparse-quasi-newton": _at("cutplane.solvers.quasi_newton:sparse_quasi_newton"),
}
"""Those for structured models, chains among them."""

KERNEL_METHODS: Methods = {
    **{name: method for name, method in _FOR_ALL.items() if name not in ("grouped", "nrbm")},
    "pair-ascent": _at("cutplane.models.gram.pair_ascent:pair_ascent"),
    "kernel-newton": _at("cutplane.models.gram.newton:kernel_newton"),
}
"""Those for functions in the span of the examples."""
