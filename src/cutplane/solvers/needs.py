"""What several methods need of a problem: each said once, in the words of its message.

The type of a need is what the step of a method computes with: ``CONJUGATE.of(problem)`` is a `Loss`
that has a conjugate, ``ROWS_IN_MEMORY.of(problem)`` a `ScoredRisk` on such rows.
"""

from __future__ import annotations

from collections.abc import Callable

from cutplane.core.protocols import Risk
from cutplane.core.solver import Need, need_of
from cutplane.losses.loss import Loss
from cutplane.regularizers.l2 import L2, SumOverCoordinates
from cutplane.risks.composite import InferenceRisk, SampleRisk, SumOfExamples
from cutplane.risks.scored import ScoredRisk

Scored = Need[ScoredRisk]
Sampled = Need[SampleRisk]


def scored(what: str, when: Callable[[ScoredRisk], bool]) -> Scored:
    """Return the need of a risk of scores whose examples are here."""
    return need_of("risk", ScoredRisk, what, when)


def sampled(what: str, when: Callable[[SampleRisk], bool]) -> Sampled:
    """Return the need of a risk of scores, wherever its examples are."""
    return need_of("risk", SampleRisk, what, when)


def loss_with(what: str, when: Callable[[Loss], bool]) -> Need[Loss]:
    """Return the need of a loss of one score for each example."""

    def view(risk: object) -> Loss | None:
        loss = risk.loss if isinstance(risk, SampleRisk) else None
        return loss if isinstance(loss, Loss) and when(loss) else None

    return Need("risk", view, what)


PLAIN_L2 = need_of(
    "regularizer",
    L2,
    "the regularizer cp.L2(lam), with neither center nor weights",
    lambda regularizer: regularizer.plain,
)
ANY_L2 = need_of("regularizer", L2, "the regularizer cp.L2")
BY_COORDINATE = need_of(
    "regularizer", SumOverCoordinates, "a regularizer that is a sum over coordinates"
)
OF_EXAMPLES = need_of("risk", SumOfExamples, "a risk that is a sum over examples")
ROWS_IN_MEMORY = scored("dense or sparse rows in memory", lambda risk: risk.rows.one_by_one)
ONE_SCORE = scored("a linear risk with one score an example", lambda risk: risk.map.plain)
SECOND_DERIVATIVES = sampled(
    "a linear risk on dense or CSR rows", lambda risk: risk.features.second_derivatives
)
CURVATURES = loss_with("a loss with second derivatives", lambda loss: loss.has_curvatures)
CONJUGATE = loss_with("a loss with a conjugate", lambda loss: loss.has_conjugate)


def _smooth(risk: object) -> Risk | None:
    if isinstance(risk, SampleRisk):
        return risk if risk.loss.smooth else None
    return risk if isinstance(risk, InferenceRisk) and risk.probabilities else None


SMOOTH = Need("risk", _smooth, "a smooth loss")
ALL_CLASSES = (
    scored("a loss of all classes (CrammerSinger or Softmax)", lambda risk: risk.loss.of_shares),
    scored("a weight for every class and feature", lambda risk: risk.map.all_pairs),
    ROWS_IN_MEMORY,
)
