"""Block ascent on cached outputs: every inference of a structured model is used many times.

The loss of an example is a maximum over outputs, so any weights of outputs that sum to one give a
plane below it, and the planes of all examples together one below the risk. An evaluation finds the
worst output of every example. These are kept, and the weights of all that were kept are improved,
example by example, until little is left to gain by it (block-coordinate ascent in the dual, with
caches as in N. Shah, V. Kolmogorov, C. Lampert: A multi-plane block-coordinate Frank-Wolfe
algorithm, 2015). The weights' plane bounds the optimum.

With a small ``lam`` the plane's minimizer moves far when the weights move a little, and the
objective there is high long after the bound is good. So the weights are improved for the problem
with a proximal term around the best point, ``mu/2 |w - w*|^2``, and the minimizer of that is where
the risk is evaluated next. The bound is that of the problem without the term.

What an example has to gain is known after each visit. Those with little wait until the next
evaluation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from cutplane.compute.pace import hurried
from cutplane.core.needs import PLAIN_L2, Need
from cutplane.core.solver import Solver, Step
from cutplane.core.state import Run
from cutplane.models.sequences.steps import ChainOutputs
from cutplane.solvers.bundle import checked_planes
from cutplane.solvers.caches import Cache, ModelOutputs, Outputs, Pull

# Passes end when the caches have so small a share of the gap left to gain.
_ENOUGH = 0.2
# Examples with less than this share of the mean gain wait for the next evaluation.
_WORTHWHILE = 0.05
# mu is this multiple of sqrt(lam * S), where S is the squared norm of features of a wrong output
# beyond those of the true one: mu / lam grows as lam falls. Chosen on the OCR letters (S = 868),
# where mu / lam is 7 at lam = 1e-3 and 70 at 1e-5. Inferences a word to a quarter of 1 % at lam =
# 1e-3, 1e-4 and 1e-5: 25, 35 and 52; with half of it 25, 34 and 57, with twice as much 29, 47 and
# 65 in less time, without the term 32, 105 and 569.
PULL = 0.0075
# Where the risk at the best point is below this share of the first objective, nearly all examples
# are told apart, and what is left is to make weights small. If one example alone can then move the
# weights far, since S / (lam * examples) is this large, the pull only holds them back.
# Inferences a word on the first words of the OCR letters with both rules, with the pull, and by
# `bmrm(groups="auto")`: 10 words, lam = 1e-6, gap 1e-2: 68, over 600, 774; 30 words: 91, over 600,
# 336; 100 words: 197, over 600, 561; 30 words, 1e-4, gap 1e-3: 95, 448, 348. With the first rule
# alone 1,000 words at 1e-4, gap 1e-2 (where S / (lam * examples) is 8,680), take over 150 in place
# of 97.
_TOLD_APART = 0.05
_STIFF = 1e5
# Inner products of kept outputs, for all examples together: 8 MB. A cache that is full of outputs
# with weight can bring a run to a halt, so few examples get more room.
_PRODUCTS = 1_000_000
_FEWEST, _MOST = 20, 100


@dataclass(frozen=True, slots=True)
class BlockAscent(Solver[Cache | None]):
    """Block ascent on cached outputs.

    Parameters
    ----------
    outputs : int or None
        How many outputs are kept for each example; with None as the number of examples allows.
    passes : int
        The most visits to an example between two evaluations.
    pull : float
        How strong the proximal term is.
    planes : int or None
        How many planes are combined, besides the aggregated one; None for all.
    """

    needs = (
        Need(
            "risk",
            "worst_outputs",
            "a structured model, and a loss that is a maximum over outputs which exact inference "
            "finds",
        ),
        PLAIN_L2,
    )
    outputs: int | None = None
    passes: int = 20
    pull: float = PULL
    planes: int | None = 4
    name: str = "block-ascent"

    def step(self, run: Run, own: Cache | None) -> Step[Cache | None]:
        """Improve the weights, then evaluate the risk at their minimizer."""
        risk: Any = run.problem.risk
        lam: float = run.problem.regularizer.lam  # type: ignore[attr-defined]
        outputs = outputs_of(risk)
        kept = own
        if kept is None:
            room = self.outputs or _room(len(outputs.weights))
            kept = outputs.learn(outputs.first(room), run.best)
        strength = self._strength(run, outputs.squared_norm(kept), lam, len(outputs.weights))
        pull = Pull.toward(run.best.w, strength, lam)
        w, _ = outputs.minimizer(kept, pull)
        # The order depends on the iteration alone, so that a resumed run goes on the same way.
        order = np.random.default_rng(run.iteration)
        examples = outputs.examples(kept)
        for _ in range(self.passes):
            gaps = outputs.ascend(kept, w, pull, order.permutation(examples))
            if gaps.sum() <= _ENOUGH * run.gap or hurried():
                break
            examples = np.flatnonzero(gaps > _WORTHWHILE * gaps.mean())
        plane, minimizer = outputs.plane(kept, pull)
        point = risk.at(minimizer)
        return Step([point], outputs.learn(kept, point), [plane])

    def _strength(self, run: Run, squared_norm: float, lam: float, n_examples: int) -> float:
        """Return how strongly the next point is pulled toward the best one."""
        first = run.history[0].objective if run.history else 0.0
        apart = run.best.value < _TOLD_APART * first
        if apart and squared_norm > _STIFF * lam * n_examples:
            return 0.0
        return self.pull * math.sqrt(lam * squared_norm)


def block_ascent(*, outputs: int | None = None, passes: int = 20, planes: int = 4) -> BlockAscent:
    """Block ascent on cached outputs, for structured models: few inferences.

    The method where inference is what takes the time. It needs a `cutplane.StructuredRisk`, or a
    `cutplane.ChainRisk` with the loss `cutplane.ChainMargin`, and the regularizer ``lam/2 |w|^2``.

    Parameters
    ----------
    outputs : int, optional
        How many outputs are kept for each example, the true one included. By default 20 to 100: the
        more, the fewer examples there are.
    passes : int
        The most visits to an example between two evaluations. Fewer save time where inference is
        fast, and cost evaluations.
    planes : int
        Size of the bundle, besides the aggregated plane.
    """
    if outputs is not None and outputs < 2:
        raise ValueError(f"at least 2 outputs must be kept, got {outputs}")
    return BlockAscent(outputs, passes, planes=checked_planes(planes))


def outputs_of(risk: Any) -> Outputs:
    """Return what does not change while outputs of a risk are kept."""
    kinds: dict[str, type[Outputs]] = {"labels": ChainOutputs, "features": ModelOutputs}
    return kinds[risk.output_kind](risk)


def _room(n_examples: int) -> int:
    """Return how many outputs are kept for each example by default."""
    return min(max(math.isqrt(_PRODUCTS // n_examples), _FEWEST), _MOST)
