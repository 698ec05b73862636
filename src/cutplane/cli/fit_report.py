"""What ``cutplane fit`` says about a fit: as a JSON object, and in words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cutplane.cli.labels import plain_label, show_label
from cutplane.core.certificate import Certificate, Record, Status, percent
from cutplane.estimators.description import Targets
from cutplane.io.traces import bounds_to_json
from cutplane.losses import MEASURES

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


# What sequences consist of.
_PARTS = {"n_tokens": "token", "n_frames": "frame"}


@dataclass(frozen=True)
class Fit:
    """A finished fit, its problems side by side: one, or one a class against the rest."""

    estimator: Any
    loss: str
    n_samples: int
    counts: dict[str, int] = field(default_factory=dict)  # of other things than samples

    @property
    def certificates(self) -> list[Certificate]:
        """One certificate a problem."""
        found = self.estimator.certificate_
        return found if isinstance(found, list) else [found]

    @property
    def all_counts(self) -> dict[str, int]:
        """What was counted by the reader of the file, and by the estimator."""
        queries = getattr(self.estimator, "n_queries_", None)
        return self.counts | ({} if queries is None else {"n_queries": queries})

    @property
    def histories(self) -> list[list[Record]]:
        """One history a problem."""
        found: Any = self.estimator.history_
        return found if isinstance(self.estimator.certificate_, list) else [found]

    @property
    def certificate(self) -> Certificate:
        """The mean of the bounds, with the worst status.

        The mean of lower bounds bounds the mean of the objectives from below.
        """
        certificates = self.certificates
        if len(certificates) == 1:
            return certificates[0]
        return Certificate(
            objective=float(np.mean([each.objective for each in certificates])),
            lower_bound=float(np.mean([each.lower_bound for each in certificates])),
            status=max((each.status for each in certificates), key=_SEVERITY.index),
            valid=all(each.valid for each in certificates),
        )


def fit_to_json(fit: Fit) -> dict[str, Any]:
    """Return the fit as one JSON object.

    For more than two classes the bounds are means over the classes' problems, ``status`` is the
    worst of theirs, counts are sums, and ``classes`` has an object for each.
    """
    estimator = fit.estimator
    document = {
        "estimator": type(estimator).__name__,
        "loss": fit.loss,
        "lam": estimator.lam_,
        "tol": estimator.tol,
        "n_samples": fit.n_samples,
        "n_features": estimator.n_features_in_,
        **_proven(fit.certificate),
        "iterations": sum(map(len, fit.histories)),
        "evaluations": estimator.evaluations_,
        "planes": sum(_planes(history) for history in fit.histories),
        "seconds": estimator.fit_seconds_,
    }
    document |= fit.all_counts
    if (joint := _joint(estimator)) is not None:
        document["multi_class"] = joint
    if (positive := _positive_class(estimator)) is not None:
        document["positive_class"] = plain_label(positive)
    if len(fit.certificates) > 1:
        document["bounds"] = "means over the classes, each against the rest"
        document["classes"] = [
            {
                "label": plain_label(label),
                **_proven(certificate),
                "iterations": len(history),
                "planes": _planes(history),
            }
            for label, certificate, history in zip(
                estimator.classes_, fit.certificates, fit.histories, strict=True
            )
        ]
    return document


def fit_in_words(fit: Fit) -> str:
    """Return a short summary that ends with the certificate."""
    estimator, certificate = fit.estimator, fit.certificate
    problems = len(fit.certificates)
    counts = (
        f"{_count(sum(map(len, fit.histories)), 'iteration')}, "
        f"{_count(estimator.evaluations_, 'evaluation')}, {estimator.fit_seconds_:.3g} s"
    )
    joint = f", {name}" if (name := _joint(estimator)) else ""
    each = f", means over {problems} classes, each against the rest" if problems > 1 else ""
    return "\n".join(
        [
            f"data       {', '.join(_data(fit))}",
            f"model      {fit.loss} loss{joint}{_looked_for(fit)}, lam = {estimator.lam_:.6g}",
            f"work       {counts}",
            f"{_bounds(certificate)}{each}",
            f"gap        {certificate.relative_gap:.2e} relative, tolerance {estimator.tol:g}",
            "",
            certificate_in_words(certificate),
        ]
    )


def certificate_in_words(certificate: Certificate) -> str:
    """Return what is proven about a fit, as sentences."""
    if certificate.status is Status.STATIONARY:
        return (
            "Stationary: no small step that was tried lowers the objective by a tenth of the "
            "tolerance.\nThe risk is not convex, so that there may be better models: nothing is "
            "proven."
        )
    if not certificate.valid:
        return f"Not proven: {_ENDINGS.get(certificate.status, certificate.status)}."
    if not math.isfinite(certificate.lower_bound):
        return f"Nothing is proven yet: {_ENDINGS[certificate.status]} before there was a bound."
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


def _bounds(certificate: Certificate) -> str:
    # The lower bound of a risk that is not convex bounds nothing.
    if not certificate.valid:
        return f"objective  {certificate.objective:.8g}"
    return f"bounds     {certificate.lower_bound:.8g} <= optimum <= {certificate.objective:.8g}"


def _proven(certificate: Certificate) -> dict[str, Any]:
    status = {"status": str(certificate.status), "valid": certificate.valid}
    return bounds_to_json(certificate) | status


def _data(fit: Fit) -> Iterator[str]:
    counts, classes = fit.all_counts, getattr(fit.estimator, "classes_", ())
    parts = [name for name in _PARTS if name in counts]
    yield _count(fit.n_samples, "sequence" if parts else "sample")
    for name in parts:
        yield _count(counts[name], _PARTS[name])
    yield _count(fit.estimator.n_features_in_, "feature")
    if len(classes):
        shown = [show_label(label) for label in classes[:5]] + ["..."] * (len(classes) > 5)
        if fit.estimator.description.targets is Targets.GRADES:
            yield f"{len(classes)} grades ({' < '.join(shown)})"
        else:
            yield f"{len(classes)} classes ({', '.join(shown)})"
    if "n_queries" in counts:
        yield _count(counts["n_queries"], "query", "queries")


def _planes(history: Sequence[Record]) -> int:
    return history[-1].planes if history else 0


def _positive_class(estimator: Any) -> Any:
    """Return the one of two classes that is looked for, or None."""
    two = len(getattr(estimator, "classes_", ())) == 2
    return getattr(estimator, "positive_class_", None) if two else None


def _looked_for(fit: Fit) -> str:
    """Return which of two classes is meant, where the loss or the user makes a difference."""
    positive, asked = _positive_class(fit.estimator), fit.estimator.get_params().get("pos_label")
    if positive is None or (fit.loss not in MEASURES and asked is None):
        return ""
    return f", positive class {show_label(positive)}"


def _joint(estimator: Any) -> str | None:
    """Return how all classes are fitted at once, or None if they are not."""
    name = getattr(estimator, "multi_class", "ovr")
    return None if name == "ovr" else str(name)


def _count(number: int, thing: str, things: str = "") -> str:
    return f"{number:,} {thing if number == 1 else things or thing + 's'}"
