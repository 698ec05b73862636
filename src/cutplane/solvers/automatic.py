"""Choose a method from what is known before the first iteration.

Solvers are imported where they are chosen from: a linear model waits for none but its own.
"""

from __future__ import annotations

import logging

import numpy as np

from cutplane.core.policies.cuts import NonConvexCuts
from cutplane.core.solver import AnySolver
from cutplane.core.state import Problem
from cutplane.losses.loss import LOGISTIC
from cutplane.risks.composite import InferenceRisk, SampleRisk
from cutplane.risks.scored import ScoredRisk
from cutplane.solvers.bundle import bmrm, level, nrbm
from cutplane.solvers.dual_ascent import dual_ascent
from cutplane.solvers.newton import cost_of_step, newton

_log = logging.getLogger("cutplane")

# Measured with the hinge loss (docs/decisions/2026-11-16-methods-measured.md). With
# thousands of features dual ascent wins whatever lam is: examples share few of them, and a plane of
# that many numbers says little. With fewer it wins while one example's dual moves its own score by
# little, that is while the mean of |x|^2 / (m lam) is small; it may be larger where there are few
# examples for each feature. (Generated tables, lam = 1/m, that mean from 5 to 20; milliseconds of
# Newton's method, groups of planes, dual ascent. With 13 examples a feature 63, -, 10; with 25 240,
# 80, 116; with 60 84, 36, 109; with 170 to 1,700 Newton's method and dual ascent 30 and 34, 118 and
# 570, 81 and 207.) For the logistic loss Newton's steps are few, and only the last rule holds: with
# 13 examples a feature 25 and 7, but a9a, lam = 1e-3, 16 and 20, ijcnn1, 1e-4, 15 and 59.
# Dense rows are for Newton's method where its steps are cheap. Otherwise: hinge loss, the features
# of 1,000 landmarks of 20,000 digits, processor seconds of dual ascent and of groups of planes with
# that mean at 0.06, 0.6, 3, 18 and 120: 0.08 and 0.11, 0.08 and 0.22, 0.13 and 0.40, 0.34 and 1.0,
# 1.1 and 3.1; the logistic loss 1.2 and 0.17, 0.29 and 0.13, 0.23 and 0.18, 0.24 and 0.29, 0.51 and
# 0.46. Hinge loss, 784 pixels of the same, at 0.9, 9 and 90: 0.08 and 0.14, 0.24 and 0.36, 1.9 and
# 1.1. Absolute loss, 6,000 generated rows of 1,200 numbers, at 0.1, 1.2 and 12: 0.04 and 0.11, 0.13
# and 3.3, 1.4 and more than 7.6.
_MANY_FEATURES = 1000
_FEW_PER_FEATURE = 20
# Of fewer entries all methods take milliseconds. Those that see all examples at once are preferred:
# they reach gaps far below 1e-6, which small problems are often asked for.
_LITTLE_DATA = 10_000
_SOFT_ENOUGH, _SOFT_ENOUGH_FOR_FEW = 1.5, 20.0
# Rows of length one and lam = 1 / (1.5 m) are just soft enough, however their lengths are rounded:
# the choice must be the same on every processor. All else is compared by counts.
_ROUNDING = 1e-9

# A Newton step takes the place of some ten iterations of the bundle method, so it may cost as much
# as six. Costs are those of `cost_of_step`, in which an iteration that reads nothing costs 300,000,
# the nanoseconds that it takes.
_WORTH = 6.0
_EMPTY_ITERATION = 300_000
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
# Losses of all classes: with few features Newton's steps are faster than epochs, but for Crammer
# and Singer's loss while one example's shares move its own scores by little. (Processor seconds of
# Newton's method and of epochs to a proven gap of 1e-4, Crammer and Singer's loss and softmax. At
# lam = 1/m: satimage 0.11 and 0.24, 0.07 and 0.08; dna 0.27 and 0.42, 0.05 and 0.07; 26 generated
# classes 0.41 and 0.52, 0.18 and 0.17; mnist, 784 features, softmax 23 and 7. At 100/m, where the
# mean of |x|^2 / (m lam) is 0.04 to 0.5: satimage 0.036 and 0.027, 0.027 and 0.034; dna 0.10 and
# 0.03, 0.024 and 0.025; generated 0.14 and 0.11, 0.05 and 0.13. Set on these.)
_FEW_FEATURES = 500
_SOFT_FOR_CLASSES = 1.0


def automatic(problem: Problem, *, on_a_path: bool = False) -> AnySolver:
    """Return the method that should be the fastest, and log why in one line.

    The choice follows shapes, counts, types and the lengths of rows, never measured times: the same
    problem gets the same method each time, on every machine. On a path each run takes over what the
    last one knew. Dual ascent cannot.
    """
    method, why = _chosen(problem, on_a_path)
    _log.info("method: %s (%s)", method.name, why)
    return method


def _chosen(problem: Problem, on_a_path: bool) -> tuple[AnySolver, str]:
    """Return the method, and why it is the one."""
    risk = problem.risk
    structure = risk if isinstance(risk, InferenceRisk) else None
    if risk.convex is False and not (structure and structure.probabilities):
        return nrbm(), "the risk is not convex"
    if not problem.quadratic:
        return _for_other_regularizers(problem)
    if structure:
        return _for_structures(problem, structure)
    if not isinstance(risk, SampleRisk):
        return bmrm(groups="auto"), f"nothing is known of {type(risk).__name__}"
    if risk.loss.ties_intercepts:
        # To a relative gap of 1e-3 with lam = 1e-4: 60 iterations in place of 77 for 12 labels of
        # 5,000 generated examples, 211 in place of 327 for nine quantiles of 8,000 of house_16H.
        return level(), "many outputs that depend on each other"
    if risk.spans_examples:
        from cutplane.models.gram.newton import kernel_newton
        from cutplane.models.gram.pair_ascent import pair_ascent

        for method in (pair_ascent(), kernel_newton()):
            if method.obstacle(problem) is None:
                return method, f"a kernel, {risk.loss!r}"
        return bmrm(), f"a kernel, and {risk.loss!r} is neither smooth nor made of straight pieces"
    if not isinstance(risk, ScoredRisk):
        return _for_shards(problem, risk)
    on_disk = risk.rows.on_disk  # then nothing that visits rows in random order will do
    at_once = risk.loss.of_shares and not on_disk
    if at_once and (chosen := _for_classes(problem, risk)):
        return chosen
    no_newton = newton().obstacle(problem) or _too_dear(risk)
    # Of dense rows nothing more is asked then: to know how long they are takes a pass over them.
    if no_newton is None and not risk.rows.sparse:
        no_dual_ascent: str | None = "newton is faster on dense rows"
    elif on_disk:
        no_dual_ascent = "it would read rows on the disk at random"
    elif on_a_path:
        no_dual_ascent = "it takes no planes over"
    else:
        no_dual_ascent = dual_ascent().obstacle(problem) or _too_stiff(problem, risk)
    if no_dual_ascent is None:
        kind = "sparse" if risk.rows.sparse else "dense"
        return dual_ascent(), f"{kind}, {risk.n_parameters} features"
    if no_newton is None:
        m, d = risk.rows.shape
        return newton(), f"{m} examples, few features: {d}"
    return bmrm(groups="auto"), f"no newton: {no_newton}; no dual ascent: {no_dual_ascent}"


def _for_shards(problem: Problem, risk: SampleRisk) -> tuple[AnySolver, str]:
    """Return the method for rows that lie on several machines."""
    no_newton = newton().obstacle(problem) or _too_dear(risk)
    if no_newton is None:
        return newton(), f"rows on several machines, few features: {risk.n_parameters}"
    wide = risk.n_parameters >= _MANY_FEATURES
    if wide and dual_ascent().obstacle(problem) is None:
        why = f"sparse rows on several machines, {risk.n_parameters} features"
        return dual_ascent(planes=None), why
    return bmrm(), f"rows on several machines; no newton: {no_newton}"


def _for_other_regularizers(problem: Problem) -> tuple[AnySolver, str]:
    """Return the method for a regularizer that is not quadratic, and why."""
    from cutplane.solvers.coordinates import coordinate_descent, prefers_gram
    from cutplane.solvers.quasi_newton import sparse_quasi_newton

    risk = problem.risk
    few = risk.n_parameters <= _FEW_PARAMETERS
    smooth = sparse_quasi_newton() if few else sparse_quasi_newton(steps=_FEW_STEPS)
    if isinstance(risk, InferenceRisk) and smooth.obstacle(problem) is None:
        return smooth, f"a smooth loss, with {problem.regularizer!r}"
    if problem.facts.sharded:
        return bmrm(), "rows on several machines"
    obstacle = coordinate_descent().obstacle(problem)
    scored = risk if isinstance(risk, ScoredRisk) else None
    if obstacle is None and scored and scored.rows.on_disk and not prefers_gram(scored.rows):
        obstacle = "it would copy the columns of rows that lie on the disk"
    if obstacle is None:
        return coordinate_descent(), f"coordinate by coordinate, with {problem.regularizer!r}"
    if smooth.obstacle(problem) is None:
        return smooth, f"a smooth loss; no coordinate descent: {obstacle}"
    return bmrm(), f"no coordinate descent: {obstacle}"


def _for_classes(problem: Problem, risk: ScoredRisk) -> tuple[AnySolver, str] | None:
    """Return the method for a loss of all classes, and why; None if it is a bundle method."""
    from cutplane.models.multiclass.ascent import class_ascent
    from cutplane.models.multiclass.newton import class_newton

    if class_ascent().obstacle(problem) is not None or _little(risk):
        return None
    counts = f"{risk.map.score_shape[0]} classes, {risk.rows.shape[1]} features"
    few = risk.rows.shape[1] <= _FEW_FEATURES and class_newton().obstacle(problem) is None
    if few and (
        risk.loss.smooth or _stiffness(problem, risk) > _SOFT_FOR_CLASSES * (1.0 + _ROUNDING)
    ):
        return class_newton(), counts
    return class_ascent(), counts


def _for_structures(problem: Problem, risk: InferenceRisk) -> tuple[AnySolver, str]:
    """Return the method for a risk that runs an inference on each example."""
    from cutplane.solvers.block_ascent import block_ascent
    from cutplane.solvers.quasi_newton import quasi_newton

    if risk.probabilities:
        why = f"a smooth loss, {risk.n_parameters} parameters"
        if risk.convex is False:
            # A random field on two layers of 200 units, 1,500 words of OCR, lam = 2e-4: after 80
            # evaluations the objective is 0.326 even without curvature, with nrbm() 0.737.
            return quasi_newton(cuts=NonConvexCuts()), f"{why}, not convex"
        if risk.n_parameters <= _FEW_PARAMETERS:
            return quasi_newton(), why
        return quasi_newton(steps=_FEW_STEPS, planes=_FEW_PLANES), why
    if risk.sharded:
        return bmrm(groups="auto"), "the sequences lie on several machines"
    obstacle = block_ascent().obstacle(problem) or _few_structures(problem, risk)
    if obstacle is None:
        return block_ascent(), f"exact inference, {risk.n_examples} examples"
    return bmrm(groups="auto"), f"groups of planes; no block ascent: {obstacle}"


def _few_structures(problem: Problem, risk: InferenceRisk) -> str | None:
    """Return why block ascent would be slow, or None if it would not."""
    of_all = problem.norm.lam * risk.n_examples
    if risk.inference_steps is None:  # a model of the user's, say
        if risk.n_examples < _FEW_EXAMPLES:
            return "few examples"
        return "lam is small for so few examples" if of_all < _HARD_FOR_MODELS else None
    if risk.inference_steps < _LITTLE_WORK:
        return "inference costs little here"
    return "lam is small for so few sequences" if of_all < _HARD else None


def _little(risk: ScoredRisk) -> bool:
    return risk.rows.n_entries < _LITTLE_DATA and risk.n_parameters < _MANY_FEATURES


def _too_stiff(problem: Problem, risk: ScoredRisk) -> str | None:
    """Return why dual ascent would be slow, or None if it would not."""
    m, d = risk.rows.shape
    logistic = risk.loss.dual_form is not None and risk.loss.dual_form[0] == LOGISTIC
    if logistic and not risk.rows.sparse:
        return f"planes suit {risk.loss!r} on dense rows"
    if d >= _MANY_FEATURES:
        return None
    if _little(risk):
        return "little data"
    few = m <= _FEW_PER_FEATURE * d
    if not few and logistic:
        return f"{m // d} examples a feature are many for {risk.loss!r}"
    limit = _SOFT_ENOUGH_FOR_FEW if few or not risk.rows.sparse else _SOFT_ENOUGH
    stiffness = _stiffness(problem, risk)
    if stiffness <= limit * (1.0 + _ROUNDING):
        return None
    return f"few features, and mean |x|^2 / (m lam) is {stiffness:.2g}"


def _stiffness(problem: Problem, risk: ScoredRisk) -> float:
    """Return by how much one example's dual moves its own score, on average."""
    return float(np.mean(risk.weights * risk.rows.squared_norms())) / problem.norm.lam


def _too_dear(risk: SampleRisk) -> str | None:
    """Return why Newton steps do not pay, or None if they do."""
    step, iteration = cost_of_step(risk), risk.rows.n_entries + _EMPTY_ITERATION
    if step <= _WORTH * iteration:
        return None
    return f"a step would cost as much as {step / iteration:.0f} iterations"
