"""What a certificate says, in words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cutplane.core.certificate import NO_BOUND, Certificate, Status, percent

# From best to worst. An interruption comes last because the user must hear of it above all.
_SEVERITY = [
    Status.OPTIMAL,
    Status.STATIONARY,
    Status.ITERATION_LIMIT,
    Status.TIME_LIMIT,
    Status.STOPPED,
    Status.STALLED,
    Status.INCONSISTENT,
    Status.INTERRUPTED,
]

_ENDINGS = {
    Status.ITERATION_LIMIT: "stopped at the iteration limit",
    Status.TIME_LIMIT: "stopped at the time limit",
    Status.INTERRUPTED: "interrupted",
    Status.STOPPED: "stopped by a callback",
    Status.STALLED: "stalled: rounding allows no further progress",
    Status.INCONSISTENT: "inconsistent: the bounds contradict each other",
}


def certificate_in_words(certificate: Certificate) -> str:
    """Return what is proven about a fit, as sentences."""
    if certificate.status is Status.STATIONARY:
        return (
            "Stationary: no small step that was tried lowers the objective by a tenth of the "
            "tolerance.\nThe risk is not convex, so that there may be better models: nothing is "
            "proven."
        )
    if certificate.status is Status.INCONSISTENT and certificate.reason:
        return f"Not proven: inconsistent: {certificate.reason}."
    if certificate.reason.startswith(NO_BOUND):
        return f"Nothing is proven yet: {_ENDINGS[certificate.status]} before there was a bound."
    if not certificate.valid:
        return f"Not proven: {_ENDINGS.get(certificate.status, certificate.status)}."
    share = percent(certificate.relative_gap)
    if certificate.status.success:
        return (
            f"Certificate: no weights can bring the objective below "
            f"{certificate.lower_bound:.6g}.\nThis model has {certificate.objective:.6g}: "
            f"it is within {share} of the best possible."
        )
    return (
        f"Tolerance not reached: {_ENDINGS[certificate.status]}.\nWhat is proven: no weights can "
        f"bring the objective below {certificate.lower_bound:.6g};\nthis model has "
        f"{certificate.objective:.6g} and could be better by {share} at most."
    )


def mean_certificate(certificates: Sequence[Certificate]) -> Certificate:
    """Return the mean of the bounds of one or more problems, with the worst status.

    The mean of lower bounds bounds the mean of the objectives from below.
    """
    if len(certificates) == 1:
        return certificates[0]
    worst = max(certificates, key=lambda each: _SEVERITY.index(each.status))
    return Certificate(
        objective=float(np.mean([each.objective for each in certificates])),
        lower_bound=float(np.mean([each.lower_bound for each in certificates])),
        status=worst.status,
        valid=all(each.valid for each in certificates),
        reason=worst.reason,
    )
