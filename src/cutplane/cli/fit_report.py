"""What ``cutplane fit`` says about a fit: as a JSON object, and in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cutplane.core.certificate import Certificate, Record
from cutplane.estimators.description import Targets
from cutplane.estimators.estimator import of_problems
from cutplane.estimators.lams import standard_errors
from cutplane.io.labels import plain_label, show_label
from cutplane.io.traces import bounds_to_json
from cutplane.losses import MEASURES
from cutplane.report.words import certificate_in_words, mean_certificate

if TYPE_CHECKING:
    from cutplane.lam_proof.certified import LamProof

# What sequences consist of.
_PARTS = {"n_tokens": "token", "n_frames": "frame"}


@dataclass(frozen=True)
class Fit:
    """A finished fit, its problems side by side: one, or one per class against the rest."""

    estimator: Any
    loss: str
    n_samples: int
    counts: dict[str, int] = field(default_factory=dict)  # of other things than samples

    @property
    def certificates(self) -> list[Certificate]:
        """One certificate per problem."""
        return of_problems(self.estimator, "certificate_")

    @property
    def all_counts(self) -> dict[str, int]:
        """What was counted by the reader of the file, and by the estimator."""
        queries = getattr(self.estimator, "n_queries_", None)
        return self.counts | ({} if queries is None else {"n_queries": queries})

    @property
    def search(self) -> dict[str, Any] | None:
        """How lam was chosen, if it was: the lams, and the means of their scores."""
        if not hasattr(self.estimator, "path_certificates_"):
            return None
        scores = self.estimator.scores_
        found = {
            "folds": len(scores),
            "lams": self.estimator.lams_.tolist(),
            "scores": scores.mean(axis=0).tolist(),
            "standard_errors": standard_errors(scores).tolist(),
        }
        if (proof := self.proof) is not None:
            found["proof"] = {
                "error": proof.error,
                "wanted": proof.wanted,
                "proven": proof.proven,
                "lams": [float(proof.lows[-1]), float(proof.highs[0])],
            }
        return found

    @property
    def proof(self) -> LamProof | None:
        """What is proven of all lams, if it was asked for."""
        proof: LamProof | None = getattr(self.estimator, "lam_proof_", None)
        return proof

    @property
    def histories(self) -> list[list[Record]]:
        """One history per problem."""
        return of_problems(self.estimator, "history_")

    @property
    def certificate(self) -> Certificate:
        """The mean of the bounds, with the worst status.

        The mean of lower bounds bounds the mean of the objectives from below.
        """
        return mean_certificate(self.certificates)


def fit_to_json(fit: Fit) -> dict[str, Any]:
    """Return the fit as one JSON object.

    For more than two classes the bounds are means over the classes' problems, ``status`` is the
    worst of theirs, counts are sums, and ``classes`` has an object for each.
    """
    estimator = fit.estimator
    document = {
        "estimator": estimator.description.becomes or type(estimator).__name__,
        "loss": fit.loss,
        "lam": estimator.lam_,
        "tol": estimator.tol,
        "method": estimator.method_,
        "n_samples": fit.n_samples,
        "n_features": estimator.n_features_in_,
        **certificate_to_json(fit.certificate),
        "iterations": sum(map(len, fit.histories)),
        "evaluations": estimator.evaluations_,
        "planes": sum(_planes(history) for history in fit.histories),
        "seconds": estimator.fit_seconds_,
    }
    document |= fit.all_counts
    if fit.search is not None:
        document["cross_validation"] = fit.search
    if (joint := _joint(estimator)) is not None:
        document["multi_class"] = joint
    if (positive := _positive_class(estimator)) is not None:
        document["positive_class"] = plain_label(positive)
    if len(fit.certificates) > 1:
        document["bounds"] = "means over the classes, each against the rest"
        document["classes"] = [
            {
                "label": plain_label(label),
                **certificate_to_json(certificate),
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
    estimator, certificate, search = fit.estimator, fit.certificate, fit.search
    problems = len(fit.certificates)
    joint = f", {name}" if (name := _joint(estimator)) else ""
    looked_for, positive = "", _positive_class(estimator)
    # Which of two classes is meant, where the loss or the user makes a difference.
    if fit.loss in MEASURES or estimator.get_params().get("pos_label") is not None:
        looked_for = "" if positive is None else f", positive class {show_label(positive)}"
    lines = [
        f"data       {', '.join(_data(fit))}",
        f"model      {fit.loss} loss{joint}{looked_for}, lam = {estimator.lam_:.6g}",
    ]
    if search is not None:
        place = search["lams"].index(estimator.lam_)
        lines.append(
            f"lam        of {len(search['lams'])}, by {search['folds']} folds: score "
            f"{search['scores'][place]:.4g} +- {search['standard_errors'][place]:.2g}"
        )
    if fit.proof is not None:
        lines.append(f"proof      {fit.proof}")
    lines.append(
        f"work       {_count(sum(map(len, fit.histories)), 'iteration')}, "
        f"{_count(estimator.evaluations_, 'evaluation')}, {estimator.fit_seconds_:.3g} s"
    )
    bounds = f"bounds     {certificate.lower_bound:.8g} <= optimum <= {certificate.objective:.8g}"
    if not certificate.valid:  # the lower bound of a risk that is not convex bounds nothing
        bounds = f"objective  {certificate.objective:.8g}"
    each = f", means over {problems} classes, each against the rest" if problems > 1 else ""
    lines += [
        f"{bounds}{each}",
        f"gap        {certificate.relative_gap:.2e} relative, tolerance {estimator.tol:g}",
        "",
        certificate_in_words(certificate),
    ]
    return "\n".join(lines)


def certificate_to_json(certificate: Certificate) -> dict[str, Any]:
    """Return a certificate as entries of a JSON object."""
    status = {"status": str(certificate.status), "valid": certificate.valid}
    return bounds_to_json(certificate) | status


def _data(fit: Fit) -> Iterator[str]:
    counts, classes = fit.all_counts, getattr(fit.estimator, "classes_", ())
    parts = [name for name in _PARTS if name in counts]
    yield _count(fit.n_samples, "sequence" if parts else "sample")
    for name in parts:
        yield _count(counts[name], _PARTS[name])
    if "n_columns" in counts:
        yield _count(counts["n_columns"], "column")
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


def _joint(estimator: Any) -> str | None:
    """Return how all classes are fitted at once, or None if they are not."""
    name = getattr(estimator, "multi_class", "ovr")
    return None if name == "ovr" else str(name)


def _count(number: int, thing: str, things: str = "") -> str:
    return f"{number:,} {thing if number == 1 else things or thing + 's'}"
