"""What several methods need of a problem: each said once, in the words of its message.

The type of a need is what the step of a method computes with: ``ROWS_IN_MEMORY.of(problem)`` is a
`ScoredRisk` on such rows.
"""

from __future__ import annotations

from collections.abc import Callable

from cutplane.core.solver import Need
from cutplane.losses.loss import Loss
from cutplane.regularizers.l2 import L2, SumOverCoordinates
from cutplane.risks.composite import InferenceRisk, SampleRisk, SumOfExamples
from cutplane.risks.scored import ScoredRisk


def scored(what: str, when: Callable[[ScoredRisk], bool]) -> Need[ScoredRisk]:
    """Return the need of a risk of scores whose examples are here."""
    return Need("risk", ScoredRisk, what, when)


def sampled(what: str, when: Callable[[SampleRisk], bool]) -> Need[SampleRisk]:
    """Return the need of a risk of scores, wherever its examples are."""
    return Need("risk", SampleRisk, what, when)


def loss_with(what: str, when: Callable[[Loss], bool]) -> Need[SampleRisk]:
    """Return the need of a risk whose loss, of one score for each example, has something."""
    return sampled(what, lambda risk: isinstance(risk.loss, Loss) and when(risk.loss))


PLAIN_L2 = Need(
    "regularizer",
    L2,
    "the regularizer cp.L2(lam), with neither center nor weights",
    lambda regularizer: regularizer.plain,
)
ANY_L2 = Need("regularizer", L2, "the regularizer cp.L2")
BY_COORDINATE = Need(
    "regularizer", SumOverCoordinates, "a regularizer that is a sum over coordinates"
)
OF_EXAMPLES = Need("risk", SumOfExamples, "a risk that is a sum over examples")
ROWS_IN_MEMORY = scored("dense or sparse rows in memory", lambda risk: risk.rows.one_by_one)
ONE_SCORE = scored("a linear risk with one score an example", lambda risk: risk.map.plain)
SECOND_DERIVATIVES = sampled(
    "a linear risk on dense or CSR rows", lambda risk: risk.rows.second_derivatives
)
CURVATURES = loss_with("a loss with second derivatives", lambda loss: loss.has_curvatures)
CONJUGATE = loss_with("a loss with a conjugate", lambda loss: loss.has_conjugate)
SMOOTH: Need[SampleRisk | InferenceRisk] = Need(
    "risk",
    SampleRisk | InferenceRisk,
    "a smooth loss",
    lambda risk: risk.loss.smooth if isinstance(risk, SampleRisk) else risk.probabilities,
)
ALL_CLASSES = (
    scored("a loss of all classes (CrammerSinger or Softmax)", lambda risk: risk.loss.of_shares),
    scored("a weight for every class and feature", lambda risk: risk.map.all_pairs),
    ROWS_IN_MEMORY,
)
