"""The methods by the names that estimators and the command line know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cutplane.core.method import Method
from cutplane.methods import (
    automatic,
    automatic_for_chains,
    block_ascent,
    dual_ascent,
    newton,
    quasi_newton,
)
from cutplane.methods.bundle import (
    bmrm,
    level,
    proximal,
    trust_region,
)
from cutplane.regularizers import L2
from cutplane.risks import ChainRisk, ModelRisk
from cutplane.structured import ChainMargin

METHODS: dict[str, Callable[[ModelRisk, L2], Method]] = {
    "auto": automatic,
    "bmrm": lambda risk, regularizer: bmrm(line_search=False),
    "bmrm-line-search": lambda risk, regularizer: bmrm(),
    "limited-memory": lambda risk, regularizer: bmrm(planes=50),
    "grouped": lambda risk, regularizer: bmrm(groups="auto"),
    "proximal": lambda risk, regularizer: proximal(),
    "trust-region": lambda risk, regularizer: trust_region(),
    "level": lambda risk, regularizer: level(),
    "newton": lambda risk, regularizer: newton(),
    "dual-ascent": lambda risk, regularizer: dual_ascent(),
}
"""From a name to the method for a problem."""


def _quasi_newton(risk: ChainRisk, regularizer: L2) -> Method:
    if isinstance(risk.loss, ChainMargin):
        raise ValueError(
            "the method 'quasi-newton' is for smooth losses: use it with loss='crf', "
            "or for the margin 'block-ascent' or 'grouped'"
        )
    return quasi_newton()


# Those that need nothing but planes, and two that are made for structured models.
TAGGER_METHODS: dict[str, Callable[[Any, L2], Method]] = {
    name: method for name, method in METHODS.items() if name not in ("newton", "dual-ascent")
} | {
    "auto": automatic_for_chains,
    "block-ascent": lambda risk, regularizer: block_ascent(),
    "quasi-newton": _quasi_newton,
}
"""From a name to the method for the risk of a chain."""
