"""Choose a method from what is known before the first iteration."""

from __future__ import annotations

import logging

import numpy as np

from cutplane.core.methods import Method, bmrm
from cutplane.core.protocols import QuadraticRegularizer
from cutplane.data.csr import CompressedRows
from cutplane.online.dual_ascent import dual_ascent, obstacle_to_dual_ascent
from cutplane.risks import ModelRisk

_log = logging.getLogger("cutplane")

# Measured with the hinge loss, seconds to a relative gap of 1e-3 (docs/choose-a-method.md). With
# thousands of features dual ascent wins whatever lam is: examples share few of them, and a plane of
# that many numbers says little. With few features it wins while one example's dual moves its own
# score by little, that is while the mean of |x|^2 / (m lam) is small: at 0.3 to 4 it is 1.4 to 3
# times faster than the bundle method, at 30 and more 3 times slower or worse. An intercept doubles
# or triples its time, so with few features the bundle method is ahead.
_MANY_FEATURES = 1000
_SOFT_ENOUGH = 6.0


def automatic(risk: ModelRisk, regularizer: QuadraticRegularizer) -> Method:
    """Return the method that should be the fastest, and log why in one line."""
    obstacle = obstacle_to_dual_ascent(risk, regularizer)
    if obstacle is not None:
        _log.info("method: bmrm with line search (no dual ascent: %s)", obstacle)
        return bmrm()
    assert isinstance(risk.rows, CompressedRows)
    stiffness = float(np.mean(risk.weights * risk.rows.squared_norms())) / regularizer.lam
    d = risk.n_parameters
    if d < _MANY_FEATURES and (risk.intercept or stiffness > _SOFT_ENOUGH):
        _log.info(
            "method: bmrm with line search (%d features, mean |x|^2 / (m lam) %.2g, intercept: %s)",
            d,
            stiffness,
            risk.intercept,
        )
        return bmrm()
    _log.info("method: dual ascent (sparse, %d features, mean |x|^2 / (m lam) %.2g)", d, stiffness)
    return dual_ascent()
