"""The methods by the names that estimators and the command line know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cutplane.core.method import Method
from cutplane.methods import (
    automatic,
    automatic_for_chains,
    automatic_for_models,
    block_ascent,
    dual_ascent,
    newton,
    quasi_newton,
)
from cutplane.methods.bundle import bmrm, level, proximal, trust_region
from cutplane.methods.nonconvex import nrbm
from cutplane.regularizers import L2
from cutplane.risks import ChainRisk, StructuredRisk
from cutplane.structured import ChainMargin

Methods = dict[str, Callable[[Any, L2], Method]]

_PLANES = {
    "bmrm": bmrm(line_search=False),
    "bmrm-line-search": bmrm(),
    "limited-memory": bmrm(planes=50),
    "grouped": bmrm(groups="auto"),
    "proximal": proximal(),
    "trust-region": trust_region(),
    "level": level(),
}
_NAMED = _PLANES | {
    "newton": newton(),
    "dual-ascent": dual_ascent(),
    "block-ascent": block_ascent(),
    "quasi-newton": quasi_newton(),
    "nrbm": nrbm(),
}


def _automatic_for_models(risk: StructuredRisk, regularizer: L2) -> Method:
    return automatic_for_models(risk, regularizer) if risk.convex else nrbm()


def _quasi_newton(risk: ChainRisk, regularizer: L2) -> Method:
    if isinstance(risk.loss, ChainMargin):
        raise ValueError(
            "the method 'quasi-newton' is for smooth losses: use it with loss='crf', "
            "or for the margin 'block-ascent' or 'grouped'"
        )
    return quasi_newton()


def _named(*names: str) -> Methods:
    def always(method: Method) -> Callable[[Any, L2], Method]:
        return lambda risk, regularizer: method

    return {name: always(_NAMED[name]) for name in names}


METHODS: Methods = {"auto": automatic} | _named(*_PLANES, "newton", "dual-ascent")
"""From a name to the method for a problem."""

STRUCTURED_METHODS: Methods = {"auto": _automatic_for_models} | _named(*_PLANES, "block-ascent")
"""From a name to the method for the risk of a structured model: those that need only planes."""

TAGGER_METHODS: Methods = STRUCTURED_METHODS | {
    "auto": automatic_for_chains,
    "quasi-newton": _quasi_newton,
}
"""From a name to the method for the risk of a chain."""


def name_of(method: Method) -> str:
    """Return the name of a method; of one with parameters of its own, that of its kind."""
    for like in (lambda known: known == method, lambda known: _kind(known) == _kind(method)):
        for name, known in _NAMED.items():
            if like(known):
                return name
    return type(method.stabilizer).__name__


def _kind(method: Method) -> tuple[Any, ...]:
    return type(method.stabilizer), type(method.query), type(method.cuts), method.groups
