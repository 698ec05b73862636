"""Choose a method from what is known before the first iteration."""

from __future__ import annotations

import logging

import numpy as np

from cutplane.core.method import Method
from cutplane.core.protocols import QuadraticRegularizer
from cutplane.losses import SmoothLoss
from cutplane.maps.csr import CompressedRows
from cutplane.methods.block_ascent import block_ascent, obstacle_to_block_ascent
from cutplane.methods.bundle import bmrm, level
from cutplane.methods.dual_ascent import dual_ascent, obstacle_to_dual_ascent
from cutplane.methods.newton import newton, obstacle_to_newton
from cutplane.methods.quasi_newton import quasi_newton
from cutplane.risks import ChainRisk, ColumnsRisk, LinearRisk, ModelRisk, StructuredRisk

_log = logging.getLogger("cutplane")

# Measured with the hinge loss, seconds to a relative gap of 1e-3 (docs/choose-a-method.md). With
# thousands of features dual ascent wins whatever lam is: examples share few of them, and a plane of
# that many numbers says little. With few it wins while one example's dual moves its own score by
# little, that is while the mean of |x|^2 / (m lam) is small, and there is no intercept.
_MANY_FEATURES = 1000
_SOFT_ENOUGH = 1.5
# Rows of length one and lam = 1 / (1.5 m) are just soft enough, however their lengths are rounded:
# the choice must be the same on every processor. All else is compared by counts.
_ROUNDING = 1e-9

# A Newton step takes the place of some ten iterations of the bundle method, so it may cost as much
# as six. Seconds: of a multiplication in the matrix of second derivatives (dense rows, sparse rows)
# and in its factors, of an entry read twice, and of an iteration that reads nothing.
_WORTH = 6.0
_DENSE, _SPARSE, _FACTOR, _ENTRY, _ITERATION = 1e-10, 1e-9, 3e-10, 1e-9, 3e-4
# Processor seconds of block ascent, and of bmrm with groups, on the first words of the OCR letters.
# To 1e-2: 10 words 0.11 and 0.52 at lam = 1e-2, 0.27 and 0.59 at 1e-4; 30 words 0.14 and 0.41 at
# 1e-3, 0.79 and 0.41 at 1e-4; 100 words 0.29 and 1.24 at 1e-3, 1.11 and 1.52 at 1e-4; 300 words
# 0.30 and 1.90 at 1e-2. To 1e-3, at 1e-4: 30 words 1.94 and 0.43, 100 words 3.17 and 1.68. In seven
# more settings with 300 to 3,000 words bmrm missed the gap in twice the time of block ascent. So
# what counts is lam times the number of sequences, on these data. With less work than that of 10
# words (60,840 steps of dynamic programs) nothing was measured; block ascent is slow at gaps below
# 1e-6, which small problems are often asked for.
_LITTLE_WORK = 50_000
_HARD = 0.01
# For other models than chains: with fewer examples, groups of planes tell them apart almost one by
# one. (benchmarks/structured_models.py: from 200 examples, and from 0.3 for lam times their number,
# block ascent took 0.27 to 0.96 times the seconds of bmrm with groups. With 200 and 0.2 it was 1.05
# and 3.0 times, with 100 examples 0.75 to 2.3 times.)
_FEW_EXAMPLES = 200
_HARD_FOR_MODELS = 0.3
# With more parameters vectors fill the memory: few are kept. (CoNLL-2000 with 456,807 parameters
# to a gap of 1 %: 8 steps and 6 planes take 99 evaluations, 20 and 8 take 86 and 50 MB more, and
# about the same time. With 2,000 of its sentences 6 planes are as good as all, 45 evaluations.)
_FEW_PARAMETERS = 100_000
_FEW_STEPS, _FEW_PLANES = 8, 6
# The share of examples inside the rounded parts of a kink, on average over a run.
_NEAR_A_KINK = 0.25


def automatic(
    risk: ModelRisk, regularizer: QuadraticRegularizer, *, on_a_path: bool = False
) -> Method:
    """Return the method that should be the fastest, and log why in one line.

    The choice follows shapes, counts, types and the lengths of rows, never measured times: the same
    problem gets the same method each time, on every machine. On a path each run takes over what the
    last one knew. Dual ascent cannot.
    """
    if isinstance(risk, ColumnsRisk):
        # To a relative gap of 1e-3 with lam = 1e-4: 60 iterations in place of 77 for 12 labels of
        # 5,000 generated examples, 211 in place of 327 for nine quantiles of 8,000 of house_16H.
        _log.info("method: level (many outputs that depend on each other)")
        return level()
    no_dual_ascent = (
        "it takes no planes over"
        if on_a_path
        else obstacle_to_dual_ascent(risk, regularizer) or _too_stiff(risk, regularizer)
    )
    if no_dual_ascent is None:
        _log.info("method: dual ascent (sparse, %d features)", risk.n_parameters)
        return dual_ascent()
    no_newton = obstacle_to_newton(risk, regularizer) or _too_dear(risk)
    if no_newton is None:
        m, d = risk.rows.shape
        _log.info("method: newton (%d examples, few features: %d)", m, d)
        return newton()
    _log.info(
        "method: bmrm with line search (no newton: %s; no dual ascent: %s)",
        no_newton,
        no_dual_ascent,
    )
    return bmrm(groups="auto")


def automatic_for_chains(risk: ChainRisk, regularizer: QuadraticRegularizer) -> Method:
    """Return the method that should be the fastest, and log why in one line."""
    if risk.loss.probabilities:
        _log.info("method: quasi-newton (a smooth loss, %d parameters)", risk.n_parameters)
        if risk.n_parameters <= _FEW_PARAMETERS:
            return quasi_newton()
        return quasi_newton(steps=_FEW_STEPS, planes=_FEW_PLANES)
    obstacle = obstacle_to_block_ascent(risk, regularizer) or _few_sequences(risk, regularizer)
    if obstacle is None:
        _log.info("method: block ascent (a maximum over outputs, exact inference)")
        return block_ascent()
    _log.info("method: bmrm with line search and groups (no block ascent: %s)", obstacle)
    return bmrm(groups="auto")


def automatic_for_models(risk: StructuredRisk, regularizer: QuadraticRegularizer) -> Method:
    """Return the method that should be the fastest, and log why in one line."""
    obstacle = obstacle_to_block_ascent(risk, regularizer)
    if risk.n_examples < _FEW_EXAMPLES:
        obstacle = obstacle or "few examples"
    elif regularizer.lam * risk.n_examples < _HARD_FOR_MODELS:
        obstacle = obstacle or "lam is small for so few examples"
    if obstacle is None:
        _log.info("method: block ascent (exact inference, %d examples)", risk.n_examples)
        return block_ascent()
    _log.info("method: bmrm with groups (no block ascent: %s)", obstacle)
    return bmrm(groups="auto")


def _few_sequences(risk: ChainRisk, regularizer: QuadraticRegularizer) -> str | None:
    """Return why block ascent would be slow, or None if it would not."""
    if risk.data.chains.n_tokens * risk.n_labels**2 < _LITTLE_WORK:
        return "inference costs little here"
    if regularizer.lam * risk.n_sequences < _HARD:
        return "lam is small for so few sequences"
    return None


def _too_stiff(risk: ModelRisk, regularizer: QuadraticRegularizer) -> str | None:
    """Return why dual ascent would be slow, or None if it would not."""
    assert isinstance(risk, LinearRisk)
    assert isinstance(risk.rows, CompressedRows)
    if risk.intercept and isinstance(risk.loss, SmoothLoss):
        return f"it is slow for {risk.loss!r} with an intercept"
    if risk.n_parameters >= _MANY_FEATURES:
        return None
    if risk.intercept:
        return "it is slow with few features and an intercept"
    stiffness = float(np.mean(risk.weights * risk.rows.squared_norms())) / regularizer.lam
    if stiffness <= _SOFT_ENOUGH * (1.0 + _ROUNDING):
        return None
    return f"few features, and mean |x|^2 / (m lam) is {stiffness:.2g}"


def _too_dear(risk: ModelRisk) -> str | None:
    """Return why Newton steps do not pay, or None if they do."""
    assert isinstance(risk, LinearRisk)
    m, d = risk.rows.shape
    sparse = isinstance(risk.rows, CompressedRows)
    length = risk.rows.starts[-1] / m if isinstance(risk.rows, CompressedRows) else d
    share = 1.0 if risk.loss.smoothed(1.0) is risk.loss else _NEAR_A_KINK
    products = 0.5 * share * m * length * length
    step = (_SPARSE if sparse else _DENSE) * products + _FACTOR * d**3 / 3.0
    iteration = _ENTRY * m * length + _ITERATION
    if step <= _WORTH * iteration:
        return None
    return f"a step would cost as much as {step / iteration:.0f} iterations"
