"""The methods by the names that estimators and the command line know."""

from __future__ import annotations

from collections.abc import Callable

from cutplane.core.methods import (
    Method,
    bmrm,
    level,
    proximal,
    trust_region,
)
from cutplane.online import automatic, dual_ascent, newton
from cutplane.regularizers import L2
from cutplane.risks import ModelRisk

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
