"""Choose a method from what is known before the first iteration.

Solvers are imported where they are chosen from: a linear model waits for none but its own.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

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


class Thresholds(NamedTuple):
    """What the choice rests on: all was measured (docs/decisions/2026-11-16-methods-measured.md).

    Attributes
    ----------
    many_features : int
        From here on dual ascent wins whatever lam is: examples share few features, and a plane of
        so many numbers says little.
    soft, soft_for_few : float
        With fewer features it wins while one example's dual moves its own score by little, that is
        while the mean of ``|x|^2 / (m lam)`` is at most ``soft``; or ``soft_for_few``, where there
        are few examples for each feature, and on dense rows.
    few_per_feature : int
        So many examples for a feature are few. For the logistic loss, for which Newton's steps are
        few, only this rule holds.
    little_data : int
        Of fewer entries all methods take milliseconds. Those that see all examples at once are
        preferred: they reach gaps far below 1e-6, which small problems are often asked for.
    worth, empty_iteration : float
        A Newton step takes the place of some ten iterations of the bundle method, so it may cost as
        much as ``worth`` of them. Costs are those of `cost_of_step`, in which an iteration that
        reads nothing costs the nanoseconds that it takes.
    hard, little_work : float
        Block ascent is slow on chains where lam times the number of sequences is less than
        ``hard``. With less work than that of 10 words of OCR (60,840 steps of dynamic programs)
        nothing was measured; it is slow at gaps below 1e-6, which small problems are often asked
        for.
    few_examples, hard_for_models : float
        The same for other models. With few examples, groups of planes tell them apart almost one by
        one.
    few_parameters, few_steps, few_planes : int
        With more parameters vectors fill the memory: few are kept.
    few_features, soft_for_classes : float
        Losses of all classes: with few features Newton's steps are faster than epochs, but for
        Crammer and Singer's loss while one example's shares move its own scores by little.
    """

    many_features: int = 1000
    soft: float = 1.5
    soft_for_few: float = 20.0
    few_per_feature: int = 20
    little_data: int = 10_000
    worth: float = 6.0
    empty_iteration: int = 300_000
    hard: float = 0.01
    little_work: int = 50_000
    few_examples: int = 200
    hard_for_models: float = 0.3
    few_parameters: int = 100_000
    few_steps: int = 8
    few_planes: int = 6
    few_features: int = 500
    soft_for_classes: float = 1.0


LIMITS = Thresholds()


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
    wide = risk.n_parameters >= LIMITS.many_features
    if wide and dual_ascent().obstacle(problem) is None:
        why = f"sparse rows on several machines, {risk.n_parameters} features"
        return dual_ascent(planes=None), why
    return bmrm(), f"rows on several machines; no newton: {no_newton}"


def _for_other_regularizers(problem: Problem) -> tuple[AnySolver, str]:
    """Return the method for a regularizer that is not quadratic, and why."""
    from cutplane.solvers.coordinates import coordinate_descent, prefers_gram
    from cutplane.solvers.quasi_newton import sparse_quasi_newton

    risk = problem.risk
    few = risk.n_parameters <= LIMITS.few_parameters
    smooth = sparse_quasi_newton() if few else sparse_quasi_newton(steps=LIMITS.few_steps)
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
    few = risk.rows.shape[1] <= LIMITS.few_features and class_newton().obstacle(problem) is None
    if few and (risk.loss.smooth or _condition(problem, risk) > LIMITS.soft_for_classes):
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
        if risk.n_parameters <= LIMITS.few_parameters:
            return quasi_newton(), why
        return quasi_newton(steps=LIMITS.few_steps, planes=LIMITS.few_planes), why
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
        if risk.n_examples < LIMITS.few_examples:
            return "few examples"
        return "lam is small for so few examples" if of_all < LIMITS.hard_for_models else None
    if risk.inference_steps < LIMITS.little_work:
        return "inference costs little here"
    return "lam is small for so few sequences" if of_all < LIMITS.hard else None


def _little(risk: ScoredRisk) -> bool:
    return risk.rows.n_entries < LIMITS.little_data and risk.n_parameters < LIMITS.many_features


def _too_stiff(problem: Problem, risk: ScoredRisk) -> str | None:
    """Return why dual ascent would be slow, or None if it would not."""
    m, d = risk.rows.shape
    logistic = risk.loss.dual_form is not None and risk.loss.dual_form[0] == LOGISTIC
    if logistic and not risk.rows.sparse:
        return f"planes suit {risk.loss!r} on dense rows"
    if d >= LIMITS.many_features:
        return None
    if _little(risk):
        return "little data"
    few = m <= LIMITS.few_per_feature * d
    if not few and logistic:
        return f"{m // d} examples a feature are many for {risk.loss!r}"
    limit = LIMITS.soft_for_few if few or not risk.rows.sparse else LIMITS.soft
    condition = _condition(problem, risk)
    if condition <= limit:
        return None
    return f"few features, and mean |x|^2 / (m lam) is {condition:.2g}"


def _condition(problem: Problem, risk: ScoredRisk) -> float:
    """Return by how much one example's dual moves its own score, on average."""
    condition = float(np.mean(risk.weights * risk.rows.squared_norms())) / problem.norm.lam
    # Rows of length one and lam = 1 / (1.5 m) are just soft enough, however their lengths are
    # rounded: the choice must be the same on every processor. All else is compared by counts.
    return condition / (1.0 + 1e-9)


def _too_dear(risk: SampleRisk) -> str | None:
    """Return why Newton steps do not pay, or None if they do."""
    step, iteration = cost_of_step(risk), risk.rows.n_entries + LIMITS.empty_iteration
    if step <= LIMITS.worth * iteration:
        return None
    return f"a step would cost as much as {step / iteration:.0f} iterations"
