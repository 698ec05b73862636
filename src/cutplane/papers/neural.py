"""Table 8 of paper 004: a conditional random field on a network of sigmoid layers (NeuroCRF).

    J(w) = lam/2 |w - w0|^2 - 1/m sum_i log p(y_i | x_i; w)          (23), with its sign put right

w0 is where the fine-tuning begins: layers trained as a cascade of restricted Boltzmann machines,
and weights of the random field drawn at random. The paper does not print the sizes of the layers,
nor how the machines were trained: see `NeuroCRF`.

The text says that m is the number of tokens. The printed objectives are those of a loss divided by
the number of words, as in Tables 4 and 5 (docs/reproduce.md). So ``table8`` divides by words, and
``table8-tokens`` by tokens, as printed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import cutplane as cp
from cutplane.compute.arrays import Vector
from cutplane.core.policies.cuts import NonConvexCuts
from cutplane.models.networks.network import import_torch
from cutplane.models.networks.neural_features import begin, scores_of
from cutplane.models.sequences.chain import Chains, ChainScores
from cutplane.papers.experiment import (
    Progress,
    Row,
    Watch,
    Words,
    experiment,
    load_words,
    minimize,
    printed_table,
    scipy_l_bfgs,
    settings,
)
from cutplane.solvers.stochastic import sgd

# By lam; evaluations, objective and error are those of NRBMLS.
PUBLISHED = printed_table("table 8")["all"]


class Found(NamedTuple):
    """Where a method ended, after how many evaluations, and how."""

    w: Vector
    objective: float
    evaluations: int
    status: str = ""


@dataclass
class NeuroCRF:
    """The model on words: its risk, where fine-tuning begins, and its errors on other words.

    Parameters
    ----------
    train, test : Words
    hidden : tuple of ints
        Sizes of the layers; chosen on fold 7: 0.053 of its letters are wrong, with 200 units 0.062.
    per_token : bool
        Whether the loss is divided by the number of letters, or else of words.
    scale : float
        Of the random weights of the field.
    epochs, rate
        Of contrastive divergence.
    """

    train: Words
    test: Words
    hidden: tuple[int, ...] = (400, 400)
    per_token: bool = False
    scale: float = 0.01
    epochs: int = 10
    rate: float = 0.05
    start: Vector = field(init=False)

    def __post_init__(self) -> None:
        # Single precision takes half the time, and its rounding is far below the gaps that are
        # asked for. Sums over batches are in double precision all the same.
        self._features = cp.NeuralFeatures(
            self.hidden,
            epochs=self.epochs,
            learning_rate=self.rate,
            scale=self.scale,
            dtype="float32",
        )
        train, n_labels = self.train, int(self.train.y.max()) + 1
        self._begun = begin(self._features, train.X.toarray(), n_labels, n_labels**2, None)
        self.start = self._begun.start
        self.risk = cp.ChainRisk(
            self._begun.scores, train.y, train.offsets, cp.ChainCRF(), per_token=self.per_token
        )

    def error(self, w: Vector) -> float:
        """Return the share of wrong letters in the words of the test."""
        _, *rest = self.risk.parts(w)
        emissions = scores_of(self._features, *self._begun.fitted(w), self.test.X, None)
        chains = Chains(self.test.offsets, self.risk.n_labels)
        return float(np.mean(chains.best(ChainScores(emissions, *rest)) != self.test.y))


def by_bundles(method: cp.Solver[Any], model: NeuroCRF, regularizer: cp.L2, most: int) -> Found:
    """Minimize by a bundle method, to the gap or for a number of evaluations."""
    watch = Watch(budget=most, most=most)
    result = minimize(
        model.risk,
        regularizer,
        method=method,
        stop=cp.Gap(relative=0.01),
        max_iter=None,
        start=model.start,
        callbacks=[watch],
    )
    if result.evaluations <= most:
        return Found(result.w, result.objective, result.evaluations, str(result.status))
    # An iteration takes several evaluations: what it finds beyond the limit does not count.
    assert watch.w is not None
    return Found(watch.w, watch.objective, most, str(result.status))


def by_l_bfgs(model: NeuroCRF, regularizer: cp.L2, most: int) -> Found:
    """Run SciPy's L-BFGS for a number of evaluations."""
    risk, before = model.risk, model.risk.evaluations
    objective, w = scipy_l_bfgs(
        risk, regularizer, model.start, lambda _: risk.evaluations - before >= most
    )
    return Found(w, objective, risk.evaluations - before)


def by_sgd(model: NeuroCRF, regularizer: cp.L2, passes: int) -> Found:
    """Run stochastic gradient descent for a number of passes; calibration is not counted."""
    run = sgd(
        model.risk,
        regularizer,
        passes=passes,
        batch_size=20,  # words
        start=model.start,
        evaluate_every=max(passes // 10, 1),
    )
    return Found(run.best_w, run.objective, passes)


METHODS: dict[str, Callable[[NeuroCRF, cp.L2, int], Found]] = {
    "quasi_newton()": partial(by_bundles, cp.quasi_newton(planes=50, cuts=NonConvexCuts())),
    "nrbm()": partial(by_bundles, cp.nrbm()),
    "nbm()": partial(by_bundles, cp.nbm()),
    "L-BFGS": by_l_bfgs,
    "SGD": by_sgd,
}


def compare(
    progress: Progress,
    *,
    per_token: bool = False,
    lams: tuple[float, ...] = tuple(PUBLISHED),
    model: NeuroCRF | None = None,
) -> Iterator[Row]:
    """Yield a row for each lam and method.

    The first has as many evaluations as the paper's NRBMLS, the others as many as the first took.
    """
    import_torch()
    progress(0.0, "pre-training")
    model = model or NeuroCRF(*load_words(), per_token=per_token)
    first = next(iter(METHODS))
    for lam, name in settings(progress, lam=lams, method=METHODS):
        if name == first:
            evaluations, objective, error, *others = PUBLISHED[lam]
            printed = dict(zip(METHODS, (None, None, *others), strict=True))
            yield {
                "lam": lam,
                "method": "NRBMLS (paper)",
                "evaluations": evaluations,
                "objective": objective,
                "test error": error,
            }
            most = int(evaluations)
        began = time.process_time()
        found = METHODS[name](model, cp.L2(lam, center=model.start), most)
        if name == first:
            most = found.evaluations
        yield {
            "lam": lam,
            "method": name,
            "evaluations": found.evaluations,
            "objective": found.objective,
            "published": printed[name],
            "test error": model.error(found.w),
            "seconds": time.process_time() - began,
            "status": found.status,
        }


EXPERIMENTS = [
    experiment("table8", compare),
    experiment("table8-tokens", partial(compare, per_token=True)),
]
