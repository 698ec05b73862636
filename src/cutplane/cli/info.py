"""``cutplane info``: what is in a model file, and what it makes of a table's columns."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from cutplane.cli.fit_report import Fit, certificate_to_json
from cutplane.cli.options import JsonOption, ModelArgument
from cutplane.estimators.description import Reads
from cutplane.io.labels import plain_label, show_label
from cutplane.io.models.files import load_with_layout
from cutplane.io.tables import Kind
from cutplane.report.text import table
from cutplane.report.words import certificate_in_words

_MOST_LEVELS = 6
_SCALERS = {"StandardScaler": "mean_", "RobustScaler": "center_"}


def info(model: ModelArgument, as_json: JsonOption = False) -> None:
    """Say what a model file holds: the model, its certificate, and how it reads a table.

    Of a table: for each column, what fills its gaps, how numbers are scaled, which words are known
    and which are taken as one; then the largest coefficients by name.
    """
    loaded, layout = load_with_layout(model)
    preparation, estimator = None, loaded
    if isinstance(loaded, Pipeline):
        preparation, estimator = loaded[:-1], loaded[-1]
    report = _report(estimator, preparation, is_table=layout is not None)
    if layout is not None:
        report |= {"target": layout.target, "query": layout.query, "header": layout.header}
    print(json.dumps(report, allow_nan=False) if as_json else _in_words(report, estimator))


def _report(estimator: Any, preparation: Any, *, is_table: bool) -> dict[str, Any]:
    """Return what a file tells of a model."""
    description = estimator.description
    loss = estimator.loss if description.losses else description.only_loss
    report: dict[str, Any] = {
        "estimator": type(estimator).__name__,
        "loss": loss or None,
        "lam": getattr(estimator, "lam_", None),
        "n_features": getattr(estimator, "n_features_in_", None),
        **_restrictions(estimator),
        **certificate_to_json(Fit(estimator, loss, n_samples=0).certificate),
    }
    if (classes := getattr(estimator, "classes_", None)) is not None:
        report["classes"] = [plain_label(label) for label in classes]
    if preparation is not None:
        report["steps"] = [type(step).__name__ for _, step in preparation.steps]
    if is_table:
        report["columns"] = list(columns_of(preparation))
    linear = description.reads in (Reads.ROWS, Reads.QUERIES) and not description.spans_examples
    if linear and estimator.coef_.size == estimator.n_features_in_:
        names = feature_names(estimator, preparation, report.get("columns", []))
        report["coefficients"] = _largest(estimator, names)
    return report


def _restrictions(estimator: Any) -> dict[str, Any]:
    """Return the penalty of a linear model, and what its coefficients must satisfy, if anything."""
    found: dict[str, Any] = {}
    if getattr(estimator, "penalty", "l2") != "l2":
        found["penalty"] = estimator.penalty
    if getattr(estimator, "positive", False):
        found["positive"] = True
    arrays: dict[str, Any] = getattr(estimator, "parameter_arrays", dict)()
    for side in ("lower", "upper"):
        if (bounds := arrays.get(f"bounds.{side}")) is not None:
            found[f"{side}_bounds"] = [b if np.isfinite(b) else None for b in bounds.tolist()]
    if (A := arrays.get("constraints.A")) is not None:
        found["constraints"] = len(A)
    return found


def columns_of(preparation: Any) -> Iterator[dict[str, Any]]:
    """Yield what is done with each column of a table that ``cutplane fit`` has read."""
    for name, part, columns in preparation[0].transformers_:
        if name == Kind.NUMBERS:
            scaler: Any = part[-1] if isinstance(part, Pipeline) else None
            fill = part[0] if isinstance(part, Pipeline) else part
            center = _SCALERS.get(type(scaler).__name__, "")
            for place, column in enumerate(columns):
                entry = {"column": column, "kind": name, "gaps": float(fill.statistics_[place])}
                if center:
                    entry |= {
                        "subtract": float(getattr(scaler, center)[place]),
                        "divide_by": float(scaler.scale_[place]),
                    }
                yield entry
        elif name == Kind.WORDS:
            rare = part.infrequent_categories_ or [None] * len(columns)
            for column, levels, few in zip(columns, part.categories_, rare, strict=True):
                grouped = [] if few is None else [*map(_level, few)]
                known = [level for level in map(_level, levels) if level not in grouped]
                yield {"column": column, "kind": name, "levels": known, "rare": grouped}


def _level(level: Any) -> str | None:
    """Return a level as text, None for cells that are empty."""
    return None if level is None or level != level else str(level)


def feature_names(estimator: Any, preparation: Any, columns: Sequence[dict[str, Any]]) -> list[str]:
    """Return the names of a linear model's features: columns, and columns with their levels.

    ``columns`` is what `columns_of` says, empty for a pipeline that was made elsewhere.
    """
    names: list[str] = []
    for entry in columns:
        if entry["kind"] == Kind.NUMBERS:
            names.append(entry["column"])
            continue
        shown = ["(empty)" if level is None else level for level in entry["levels"]]
        shown += ["(rare)"] if entry["rare"] else []
        names += [f"{entry['column']}={level}" for level in shown]
    if columns:
        return names
    if preparation is not None:
        return [str(name) for name in preparation.get_feature_names_out()]
    numbered = [str(number) for number in range(1, estimator.n_features_in_ + 1)]
    return [str(name) for name in getattr(estimator, "feature_names_in_", numbered)]


def _largest(estimator: Any, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the largest coefficients, by their size."""
    coef = estimator.coef_.ravel()
    order = np.argsort(-np.abs(coef), kind="stable")[:10]
    return [{"feature": names[k], "coefficient": float(coef[k])} for k in order]


def _in_words(report: dict[str, Any], estimator: Any) -> str:
    loss = f", {report['loss']} loss" if report["loss"] else ""
    strength = "" if report["lam"] is None else f", lam = {report['lam']:.6g}"
    lines = [f"model      {report['estimator']}{loss}{strength}"]
    if report.get("target"):
        lines.append(f"predicts   {', '.join(report['target'])}")
    if "classes" in report:
        labels = [*map(show_label, report["classes"][:_MOST_LEVELS])]
        more = ", ..." if len(report["classes"]) > _MOST_LEVELS else ""
        lines.append(f"classes    {len(report['classes'])} ({', '.join(labels)}{more})")
    if said := _restrictions_in_words(report):
        lines.append(f"coefs      {said}")
    columns = report.get("columns", [])
    made_of = f", from {len(columns)} column{'s' * (len(columns) != 1)}" if columns else ""
    if report["n_features"] is not None:
        lines.append(f"features   {report['n_features']:,}{made_of}")
    if report.get("steps") and not columns:
        lines.append(f"steps      {', '.join(report['steps'])}")
    lines += ["", certificate_in_words(Fit(estimator, "", n_samples=0).certificate)]
    if columns:
        cells = [[entry["column"], entry["kind"], _treatment(entry)] for entry in columns]
        lines += ["", *table([["column", "kind", "what is made of it"], *cells], words=(0, 1, 2))]
    if report.get("coefficients"):
        cells = [[each["feature"], f"{each['coefficient']:.6g}"] for each in report["coefficients"]]
        lines += ["", *table([["largest coefficients", ""], *cells])]
    return "\n".join(lines)


def _restrictions_in_words(report: dict[str, Any]) -> str:
    said = [f"penalty {report['penalty']}"] if "penalty" in report else []
    if "positive" in report:
        said.append("none negative")
    for side, word in (("lower", "at least"), ("upper", "at most")):
        bounds = report.get(f"{side}_bounds", [])
        known = [bound for bound in bounds if bound is not None]
        if len(bounds) == 1 and known:
            said.append(f"{word} {known[0]:.6g}")
        elif known:
            said.append(f"{len(known)} {side} bound{'s' * (len(known) != 1)}")
    if number := report.get("constraints"):
        said.append(f"{number} linear constraint{'s' * (number != 1)}")
    return ", ".join(said)


def _treatment(entry: dict[str, Any]) -> str:
    """Return in words what is done with a column."""
    if entry["kind"] == Kind.NUMBERS:
        gaps = f"gaps: {entry['gaps']:.6g}"
        if "subtract" not in entry:
            return gaps
        return f"(x - {entry['subtract']:.6g}) / {entry['divide_by']:.6g}; {gaps}"
    levels = ["(empty)" if level is None else level for level in entry["levels"]]
    shown = ", ".join(levels[:_MOST_LEVELS]) + (", ..." if len(levels) > _MOST_LEVELS else "")
    text = f"{len(levels)} level{'s' * (len(levels) != 1)}: {shown}" if levels else ""
    if entry["rare"]:
        text += f"{'; ' if text else ''}{len(entry['rare'])} rare, taken as one"
    return text
