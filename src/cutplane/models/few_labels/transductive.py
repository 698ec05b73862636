"""Classifiers from few labels and many examples without one.

What the labeled examples among many say: which they are, and what share a class has.

A transductive fit can move the boundary through the bulk of the unlabeled examples, where one class
is rare above all: their mean score is held, but scores can grow until that says nothing. The labels
know better. A share of the second class among the unlabeled examples that is farther from the share
among the labeled ones than chance explains, and than what the machine of the labeled ones predicts,
contradicts them.

Few labels and many examples without one: the transductive support vector machine.

    lam/2 |w|^2 + mean of max(0, 1 - y z) over the labeled + gamma * mean of max(0, 1 - |z|)
                                                             over the unlabeled examples

An example without a label costs what it would with the label that its score suggests, so that the
boundary keeps away from all examples (paper 004, section 5.4). That is not convex. The fit begins
at the support vector machine of the labeled examples, which is certified, and nothing is proven of
where it ends. A trivial solution has all unlabeled examples on one side. With an intercept it is
ruled out as by R. Collobert et al. (Large scale transductive SVMs, 2006): the mean score of the
unlabeled examples is held at a constant ``c``. So there is no intercept to be found: with ``m`` the
mean of those examples, ``z = (x - m).w + c``. In that paper ``c`` is ``2 p - 1``, where ``p`` is
the share of the positive class; where one class is rare, that is far from what scores are like.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.products import dot
from cutplane.core.certificate import Result
from cutplane.core.interrupts import interrupted_so_far
from cutplane.core.protocols import facts_at
from cutplane.core.solver import AnySolver
from cutplane.core.state import Problem
from cutplane.data import CenteredScore, Rows
from cutplane.estimators.callbacks import Attributes
from cutplane.estimators.classifier import ClassScores, n_rows, require_two_classes, targets_of
from cutplane.estimators.description import Description, Layout, Targets, lam_of
from cutplane.estimators.estimator import estimator, of_problems
from cutplane.estimators.fit import Examples, Plan, share_of_time, solve
from cutplane.estimators.linear import LinearModel, flat_symptom
from cutplane.losses import UNLABELED, Hinge, Loss
from cutplane.regularizers import L2
from cutplane.risks import ScoredRisk
from cutplane.solvers.automatic import automatic
from cutplane.solvers.registry import FOR_OTHERS, METHODS


@dataclass(frozen=True, slots=True)
class LabeledMachine:
    """A support vector machine of the labeled examples, and what they say of the share.

    Attributes
    ----------
    found : Result
        The machine.
    share, n_labeled : float
        The share of the second class among the labeled examples, and how many they are.
    before : float
        The share that the machine predicts for the others.
    free : ndarray of shape (n_samples,)
        Weights of the unlabeled examples, zero for the labeled ones.
    """

    found: Result
    intercept: float
    share: float
    n_labeled: float
    before: float
    free: Vector

    @classmethod
    def of(
        cls, found: Result, rows: Rows, y: Vector, weights: Vector, free: Vector
    ) -> LabeledMachine:
        """Return the machine that a run has found for labels -1 and 1."""
        intercept, n_labeled = float(facts_at(found.point).intercept), float(weights.sum())
        share = float(weights[y > 0.0].sum()) / n_labeled
        before = _share(rows.scores(found.w) + intercept, free)
        return cls(found, intercept, share, n_labeled, before, free)

    def is_contradicted_by(self, scores: Vector) -> bool:
        """Say whether these scores predict a share that the labels speak against."""
        # Two more examples, one of each class: no share is certain.
        n = self.n_labeled + 2.0
        guess = (self.share * self.n_labeled + 1.0) / n
        error = math.sqrt(guess * (1.0 - guess) / n)
        far = abs(_share(scores, self.free) - self.share)
        return far > max(2.0 * error, abs(self.before - self.share))


def _share(scores: Vector, weights: Vector) -> float:
    return float(weights[scores > 0.0].sum() / weights.sum())


def is_unlabeled(labels: NDArray[Any], mark: Any) -> NDArray[np.bool_]:
    """Say of each label whether it is none."""
    if labels.dtype.kind == "O":
        missing = [label is None or label != label or label == mark for label in labels.ravel()]
        return np.array(missing, dtype=np.bool_).reshape(labels.shape)
    # Words are never numbers, which NumPy would not compare.
    comparable = isinstance(mark, str) == (labels.dtype.kind in "US")
    marked = np.asarray(labels == mark if comparable else np.zeros(labels.shape, dtype=np.bool_))
    return np.asarray(marked | np.isnan(labels) if labels.dtype.kind == "f" else marked)


_log = logging.getLogger("cutplane")


def _or_automatic(name: str, problem: Problem) -> AnySolver:
    """Return a method for risks that are not convex; without unlabeled examples it is convex."""
    return automatic(problem) if problem.risk.convex else FOR_OTHERS[name](problem)


@estimator
class TransductiveClassifier(ClassifierMixin, ClassScores, LinearModel):
    """Linear support vector machine that learns from examples without labels too.

    It minimizes ``lam/2 |w|^2`` plus the mean hinge loss of the labeled examples plus ``gamma``
    times the mean of ``max(0, 1 - |z|)`` over the scores ``z`` of the others. That is not convex:
    the fit starts at the certified support vector machine of the labeled examples, and ends where
    no small step descends.

    Parameters
    ----------
    gamma : float, default=1.0
        How much the unlabeled examples count, all together, beside the labeled ones. With 0 the fit
        is the support vector machine of the labeled examples, and certified.
    loss : {"hat", "double_ramp", "smooth_hat"} or Loss, default="hat"
        The loss of the unlabeled examples, that of the labeled ones is the hinge:
        ``max(0, 1 - |z|)``, the same with a flat top, or ``exp(-3 z^2)``.
    plateau : float, default=0.3
        Half the width of the flat top of "double_ramp".
    gamma_steps : int, default=1
        In how many steps `gamma` is reached. Each is three times the last one, and starts where
        that one ended.
    unlabeled : label, default=-1
        What marks an example without a label. None and NaN always do.
    fit_intercept : bool, default=True
        Whether to have an intercept. It is then not found by the fit: it holds the mean score of
        the unlabeled examples at what `balance` says.
    balance : {"start", "labels"} or float, default="start"
        At what the mean score of the unlabeled examples is held: "start" takes what the support
        vector machine of the labeled ones gives them, "labels" ``2 p - 1`` with the share ``p`` of
        the second class among the labeled ones, and a number is that share. Without an intercept it
        has no effect.
    safeguard : {"share", "none"}, default="share"
        What to do if the unlabeled examples contradict the labels. "share" keeps the machine of the
        labeled examples if the fit predicts a share of the second class for the unlabeled ones that
        is farther from the share among the labeled ones than that machine's, and than chance
        explains (two standard errors). Where `balance` is a number, that share is known, and there
        is no such test.
    method : str or Method, default="auto"
        "auto", "nrbm", "nbm", "cccp", "subgradient" or a method for risks that are not convex.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        One row for two classes; scores above zero mean the second one.
    intercept_ : ndarray of shape (1,) or (n_classes,)
    transduction_ : ndarray of shape (n_samples,)
        The labels of the training examples: those given, and those predicted for the others.
    start_certificate_ : Certificate, or a list with one for each class against the rest
        What is proven of the support vector machine of the labeled examples.
    contradicted_ : ndarray of shape (1,) or (n_classes,)
        Whether the `safeguard` has kept that machine. ``certificate_`` is then its certificate.

    Examples
    --------
    >>> import numpy as np
    >>> import cutplane as cp
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(-2.0, 0.7, (50, 2)), rng.normal(2.0, 0.7, (50, 2))])
    >>> y = np.full(100, -1)
    >>> y[[0, 50]] = 0, 1
    >>> model = cp.TransductiveClassifier(lam=1e-2).fit(X, y)
    >>> bool((model.transduction_ == np.repeat([0, 1], 50)).all())
    True
    """

    description = Description(
        task="transductive",
        targets=Targets.CLASSES,
        losses=UNLABELED,
        methods=METHODS | {name: partial(_or_automatic, name) for name in FOR_OTHERS},
    )

    gamma: float = field(default=1.0, kw_only=False)
    loss: str | Loss = "hat"
    plateau: float = 0.3
    gamma_steps: int = 1
    unlabeled: Any = -1
    fit_intercept: bool = True
    balance: Any = "start"
    safeguard: str = "share"

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X, sample_weight
            As for the other linear models.
        y : array-like of shape (n_samples,)
            The labels, with `unlabeled`, None or NaN where there is none.

        Returns
        -------
        TransductiveClassifier
            Itself, fitted.
        """
        super().fit(X, y, sample_weight)
        known, given = self._given
        self._keep_machines(X)
        del self._given, self._machines
        self.transduction_ = np.where(known, given, self.predict(X))
        return self

    def layout(self) -> Layout:  # noqa: D102
        super().layout()
        rows = n_rows(self.classes_)
        return Layout(rows, rows, problems=rows)

    def _examples(self, X: Any, y: Any, sample_weight: Any, **how: Any) -> Examples:
        if not 0.0 <= self.gamma < np.inf:
            raise ValueError(f"gamma must be finite and not negative, got {self.gamma!r}")
        if self.safeguard not in ("share", "none"):
            raise ValueError(f"safeguard must be 'share' or 'none', got {self.safeguard!r}")
        if y is None:
            return super()._examples(X, y, sample_weight, **how)
        labels = np.asarray(y)
        known = ~is_unlabeled(labels, self.unlabeled)
        if labels.ndim == 1 and known.any():
            # The others get a label that has a meaning, so that validation does not stumble.
            labels = np.where(known, labels, labels[known][0])
            labels = np.array(labels.tolist()) if labels.dtype.kind == "O" else labels
        elif not known.any():
            raise ValueError("no example has a label")
        examples = super()._examples(X, labels, sample_weight, **how)
        self._given = known.reshape(-1), examples.y
        return examples

    def _plan(self, examples: Examples) -> Plan:
        known, labels = self._given
        check_classification_targets(labels)
        weights = examples.weights
        self.classes_ = np.unique(labels[known & (weights > 0.0)])
        if len(self.classes_) == 1 and self.classes_[0] == 1 and self.unlabeled == -1:
            raise ValueError(
                "all labels are 1, and -1 marks examples without one: if it is a class, say what "
                "marks them by unlabeled=..."
            )
        require_two_classes(self.classes_)
        free = ~known & (weights > 0.0)
        rows = self._rows(examples.X)
        regularizer = L2(lam_of(self.lam, self.C, float(weights[known].sum())))
        targets = targets_of(labels, self.classes_)
        supervised = [
            ScoredRisk(
                rows.part(np.flatnonzero(known)),
                y[known],
                Hinge(),
                weights=weights[known],
                intercept=self.fit_intercept,
            )
            for y in targets
        ]
        plan = replace(
            self._plan_of(examples, supervised), regularizer=regularizer, symptom=flat_symptom
        )
        self._centers, self._machines = None, list[LabeledMachine]()
        if self.gamma == 0.0 or not free.any():
            return plan
        begins = [self._supervised(plan, k) for k in range(len(targets))]
        mean, constants = np.zeros(rows.shape[1]), list[float]()
        weights_of_free = np.where(free, weights, 0.0)
        if self.fit_intercept:
            mean = rows.pullback(weights_of_free / weights[free].sum())
        loss = self.loss_function()
        parts = []
        for y, found in zip(targets, begins, strict=True):
            machine = LabeledMachine.of(found, rows, y[known], weights[known], weights_of_free)
            constant = self._mean_score(machine, mean, len(targets)) if self.fit_intercept else 0.0
            scores = CenteredScore(rows, mean, constant)
            self._machines.append(machine)
            constants.append(constant)
            parts.append(
                [
                    ScoredRisk(
                        scores.part(np.flatnonzero(which)), y[which], of, weights=weights[which]
                    )
                    for which, of in ((known, Hinge()), (free, loss))
                ]
            )
        self._centers = mean, np.array(constants)
        previous = plan.starts or [None] * len(targets)
        plan = replace(
            plan,
            risks=[labeled + self.gamma * unlabeled for labeled, unlabeled in parts],
            intercept_shape=None,
            starts=[
                found.w if own is None else own for own, found in zip(previous, begins, strict=True)
            ],
            start_certificates=[found.certificate for found in begins],
            evaluations=sum(found.evaluations for found in begins),
            look=lambda risk, result: not result.w.any(),
            part="transductive",
        )
        return plan if any(own is not None for own in previous) else self._annealed(plan, parts)

    def _annealed(self, plan: Plan, parts: Sequence[Sequence[ScoredRisk]]) -> Plan:
        """Return the plan with the starts that smaller values of gamma lead to."""
        assert plan.starts is not None
        starts, evaluations, n_steps = [*plan.starts], plan.evaluations, self.gamma_steps
        for step in range(1, n_steps):
            gamma = self.gamma * 3.0 ** (step - n_steps)
            for k, (labeled, unlabeled) in enumerate(parts):
                problem = Problem(labeled + gamma * unlabeled, plan.regularizer)
                n_left = (n_steps - step + 1) * len(parts) - k
                found = solve(
                    self,
                    problem,
                    max_iter=1 if interrupted_so_far() else self.max_iter,
                    time_limit=share_of_time(self.time_limit, plan.examples.begin, n_left),
                    start=starts[k],
                    part=os.path.join("annealing", f"problem-{k}", f"step-{step}"),
                )
                starts[k], evaluations = found.w, evaluations + found.evaluations
        return replace(plan, starts=starts, evaluations=evaluations)

    def _keep_machines(self, X: Any) -> None:
        """Take the machines of the labeled examples where the others contradict the labels."""
        known_share = not isinstance(self.balance, str)
        machines = [] if self.safeguard == "none" or known_share else self._machines
        self.contradicted_ = np.zeros(len(self.coef_), dtype=np.bool_)
        if not machines:
            return
        scores, certificates = self._scores(X), of_problems(self, "certificate_")
        for k, machine in enumerate(machines):
            if machine.is_contradicted_by(scores[:, k]):
                self.contradicted_[k] = True
                self.coef_[k], self.intercept_[k] = machine.found.w, machine.intercept
                certificates[k] = machine.found.certificate
                _log.info("the unlabeled examples contradict the labels: %s", certificates[k])
        self.certificate_ = certificates if len(machines) > 1 else certificates[0]

    def _supervised(self, plan: Plan, k: int) -> Result:
        """Return the certified support vector machine of the labeled examples, to start at."""
        problem = Problem(plan.risks[k], plan.regularizer)
        n_left = 2 * len(plan.risks) - k
        return solve(
            self,
            problem,
            automatic(problem),
            max_iter=1 if interrupted_so_far() else self.max_iter,
            time_limit=share_of_time(self.time_limit, plan.examples.begin, n_left),
            part=os.path.join("labeled", f"problem-{k}"),
        )

    def _mean_score(self, machine: LabeledMachine, mean: Vector, n_problems: int) -> float:
        """Return at what the mean score of the unlabeled examples is held."""
        if self.balance == "start":
            return dot(mean, machine.found.w) + machine.intercept
        if self.balance == "labels":
            share = machine.share
        else:
            try:
                share = float(self.balance)
            except ValueError:  # a word
                share = math.nan
            if not 0.0 < share < 1.0:
                raise ValueError(
                    "balance must be 'start', 'labels' or lie between 0 and 1, got "
                    f"{self.balance!r}"
                )
            if n_problems > 1:
                raise ValueError("a share as balance is for two classes; give 'start' or 'labels'")
        return 2.0 * share - 1.0

    def _model(self, coef: Matrix, intercept: NDArray[np.float64]) -> Attributes:
        if self._centers is not None:
            mean, constants = self._centers
            intercept = constants - coef @ mean
        return {"coef_": coef, "intercept_": intercept}
