"""A page about a fitted model: certificate, run, predictions, coefficients, data, versions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import dense, is_dask
from cutplane.core.certificate import Certificate
from cutplane.estimators.description import Measures, Reads, Targets, defaults_of
from cutplane.estimators.estimator import of_problems
from cutplane.estimators.evaluation import (
    MOST_ROWS,
    evaluate,
    fetched,
    measures_to_html,
    ranking_quality,
    split_pipeline,
)
from cutplane.models.ranking.loss import Queries
from cutplane.report.charts import Chart, Curve, Table, mean_run
from cutplane.report.page import (
    Report,
    Run,
    Section,
    pairs,
    paragraphs,
    run_section,
    versions_section,
)
from cutplane.report.words import (
    Html,
    certificate_in_words,
    element,
    mean_certificate,
    shortened,
    table,
)

_MOST_COEFFICIENTS = 25


def report_of(
    model: Any,
    X: Any = None,
    y: Any = None,
    *,
    qid: Any = None,
    bootstrap: int = 0,
    progress: Callable[[float], None] = lambda share: None,
    runs: Sequence[Run] = (),
    data_name: str = "these data",
    first_feature: int = 0,
    preparation: Any = None,
) -> Report:
    """Return a page about a fitted estimator, or a pipeline that ends with one.

    Parameters
    ----------
    model : estimator
    X, y, qid : optional
        Data to measure its predictions on; see `evaluate`.
    bootstrap : int
        How many resamples to draw for intervals.
    progress : callable
        Called with the share of the resamples that is done.
    runs : sequence of pairs of a name and records
        Histories of fits, by default the model's own, if it has one.
    data_name : str
        What to call the data.
    first_feature : int
        The number of the first feature, where features have no names.
    preparation : pipeline, optional
        What made the features of the data, if the model alone is given: it may name them.
    """
    from sklearn.utils.validation import check_is_fitted

    if (X is None) != (y is None):
        raise ValueError("give X and y, or neither")
    whole = model
    if X is None and hasattr(whole, "steps"):
        model = whole[-1:]
    model, rows = split_pipeline(model, X)
    check_is_fitted(model)
    y, qid = fetched(y), fetched(qid)
    certificates = of_problems(model, "certificate_")
    known = mean_certificate(certificates)
    sections, tables = [_certificate_section(model, certificates, known)], list[Table]()
    histories = of_problems(model, "history_") if hasattr(model, "history_") else []
    if not runs and any(histories):
        name = f"mean over {len(histories)} problems" if len(histories) > 1 else "fit"
        runs = [(name, mean_run(histories))]
    if runs:
        section, tables = run_section(runs, proven=known.valid)
        sections.append(section)
    if X is not None:
        if model.description.measures is not None:
            found = evaluate(model, rows, y, qid=qid, bootstrap=bootstrap, progress=progress)
            section = _prediction_section(model, rows, y, qid, found.measures, tables)
            sections.append(replace(section, title=f"Predictions of {data_name}"))
        sections.append(Section("The data", [pairs(_data_in_words(model, rows, y, qid))]))
    if preparation is None and hasattr(whole, "steps") and len(whole.steps) > 1:
        preparation = whole[:-1]
    if (coefficients := _largest(preparation, model, first_feature)) is not None:
        sections.append(Section("Largest coefficients", [coefficients]))
    sections += [Section("Parameters", [pairs(_parameters(model))]), versions_section()]
    loss = f"{model.loss} loss, " if isinstance(getattr(model, "loss", None), str) else ""
    strength = f"lam = {model.lam_:.6g}, " if getattr(model, "lam_", None) else ""
    return Report(
        title=f"{type(model).__name__}: {known.status}",
        subtitle=f"{loss}{strength}tolerance {model.tol:g}",
        sections=sections,
        tables=tables,
    )


def _certificate_section(
    model: Any, certificates: list[Certificate], known: Certificate
) -> Section:
    words = certificate_in_words(known)
    if len(certificates) > 1:
        words += "\nThe bounds are means over the problems, the status is the worst of theirs."
    verdict = element(
        "div", paragraphs(words), class_="verdict" if known.status.success else "verdict open"
    )
    facts: dict[str, Any] = {"objective": f"{known.objective:.8g}"}
    if known.valid:
        facts |= {
            "lower bound": f"{known.lower_bound:.8g}",
            "relative gap": f"{known.relative_gap:.2e}",
        }
    facts["tolerance"] = f"{model.tol:g}"
    if known.reason:
        facts["note"] = known.reason
    if hasattr(model, "method_"):
        facts["method"] = ", ".join(dict.fromkeys(of_problems(model, "method_")))
    if hasattr(model, "fit_seconds_"):
        facts["seconds"] = f"{model.fit_seconds_:.3g}"
    parts = [verdict, pairs(facts)]
    if len(certificates) > 1:
        labels = getattr(model, "classes_", np.arange(len(certificates))).tolist()
        lines = [
            [label, f"{own.objective:.8g}", f"{own.lower_bound:.8g}", f"{own.relative_gap:.2e}",
             str(own.status)]
            for label, own in zip(labels, certificates, strict=True)
        ]  # fmt: skip
        titles = ["class", "objective", "lower bound", "gap", "status"]
        parts.append(table(titles, lines[:MOST_ROWS], words=(0, 4)))
        if len(lines) > MOST_ROWS:
            parts.append(element("p", f"and {len(lines) - MOST_ROWS} others", class_="note"))
    return Section("The certificate", parts)


def _prediction_section(
    model: Any, X: Any, y: Any, qid: Any, measures: dict[str, Any], tables: list[Table]
) -> Section:
    """Return what the predictions are worth; charts add their numbers to the tables."""
    charts = list[Chart]()
    if rows := measures.get("calibration"):
        said = [(row["predicted"], row["observed"]) for row in rows if row["samples"]]
        titles = ("predicted probability", "observed share")
        charts.append(_against_ideal("chart-calibration", titles, said, tables))
    if rows := measures.get("per_quantile"):
        said = [(row["quantile"], row["coverage"]) for row in rows]
        charts.append(_against_ideal("chart-coverage", ("quantile", "share below"), said, tables))
    parts = [measures_to_html(measures)]
    if model.description.measures is Measures.RANKING:
        chart, worst = _by_query(model, X, y, qid, tables)
        charts += [chart] if chart is not None else []
        parts.append(worst)
    return Section("Predictions", parts, charts)


def _against_ideal(
    id: str, titles: tuple[str, str], pairs: list[tuple[float, float]], tables: list[Table]
) -> Chart:
    """Return a chart of what was observed against what was said; both are shares."""
    said, observed = ([pair[axis] for pair in pairs] for axis in (0, 1))
    place = len(tables)
    tables += [{"x": said, "y": observed}, {"x": [0.0, 1.0], "y": [0.0, 1.0]}]
    curves = [Curve(place, "y", "observed", 1), Curve(place + 1, "y", "ideal", 7, dashed=True)]
    x_title, y_title = titles
    return Chart(id, y_title, [("x", x_title)], curves, shown=(-0.02, 1.02))


def _by_query(
    model: Any, X: Any, y: Any, qid: Any, tables: list[Table]
) -> tuple[Chart | None, Html]:
    """Return NDCG of all queries, from the worst to the best, and the names of the worst."""
    queries, k = Queries(qid), 10
    values = ranking_quality(model, X, y, qid).by_query(k)
    judged = np.flatnonzero(~np.isnan(values))
    if not judged.size:
        return None, element("p", "No query has a relevant document.", class_="note")
    order = judged[np.argsort(values[judged], kind="stable")]
    ranks = np.arange(1, len(order) + 1).tolist()
    tables.append({"x": ranks, "y": values[order].tolist()})
    curve = Curve(len(tables) - 1, "y", f"NDCG@{k}", 1)
    xs = [("x", "queries, from the worst")]
    chart = Chart("chart-queries", f"NDCG@{k}", xs, [curve], shown=(-0.02, 1.02))
    worst = [
        [str(queries.names[place]), f"{values[place]:.4f}", f"{queries.sizes[place]:,}"]
        for place in order[:10]
    ]
    titles = ["query", f"NDCG@{k}", "documents"]
    return chart, Html(element("h3", "The worst queries") + table(titles, worst))


def _data_in_words(model: Any, X: Any, y: Any, qid: Any) -> dict[str, Any]:
    """Return what the data are like."""
    facts: dict[str, Any] = {}
    if model.description.reads in (Reads.ROWS, Reads.QUERIES):
        facts |= {"samples": f"{len(y):,}", "features": f"{model.n_features_in_:,}"}
        if not is_dask(X):  # of which only the workers could count the rest
            X = X if hasattr(X, "nnz") else np.asarray(X)
            filled = X.nnz if hasattr(X, "nnz") else int(np.count_nonzero(X))
            share = filled / max(X.shape[0] * X.shape[1], 1)
            facts["values that are not zero"] = f"{100 * share:.3g} %"
    else:
        structures = model.description.reads is Reads.STRUCTURES
        facts["examples" if structures else "sequences"] = f"{len(y):,}"
    if qid is not None:
        sizes = Queries(qid).sizes
        facts["queries"] = f"{len(sizes):,}, of {sizes.min():,} to {sizes.max():,} documents"
    targets = model.description.targets
    if targets in (Targets.TAGS, Targets.OUTPUTS, Targets.NOTHING, Targets.LABEL_SETS):
        return facts
    y = np.asarray(y)
    if targets is Targets.VECTORS:
        return facts | {"outputs": f"{model.n_outputs_:,}"}
    if targets in (Targets.CLASSES, Targets.GRADES):
        labels, counts = np.unique(y, return_counts=True)
        largest = np.argsort(-counts, kind="stable")[:10]
        facts["classes"] = f"{len(labels):,}"
        for place in largest:
            facts[f"share of {labels[place]}"] = f"{100 * counts[place] / len(y):.3g} %"
        return facts
    ends = np.quantile(y.astype(np.float64), [0.0, 0.25, 0.5, 0.75, 1.0])
    names = ("smallest target", "first quartile", "median", "third quartile", "largest target")
    return facts | {name: f"{end:.6g}" for name, end in zip(names, ends, strict=True)}


def _largest(preparation: Any, model: Any, first_feature: int) -> Html | None:
    """Return the coefficients that are largest in size, with bars; None if there are no names."""
    reads, n_zero = model.description.reads, 0
    if reads is Reads.SEQUENCES and getattr(model, "features", None) is None:
        weights = model.state_features_
        named = [((str(feature), str(label)), w) for (feature, label), w in weights.items()]
        named.sort(key=lambda item: -abs(item[1]))
        n_all = len(named)
        chosen = [(*names, value) for names, value in named[:_MOST_COEFFICIENTS]]
        titles = ["feature", "label"]
    elif reads in (Reads.ROWS, Reads.QUERIES) and not model.description.spans_examples:
        coef: NDArray[np.float64] = np.atleast_2d(dense(model.coef_).astype(np.float64))
        names = _feature_names(preparation, model, first_feature)
        n_all, n_zero = coef.size, int((coef == 0.0).sum())
        order = np.argsort(-np.abs(coef), axis=None, kind="stable")[:_MOST_COEFFICIENTS]
        places = [np.unravel_index(place, coef.shape) for place in order]
        rows = _row_names(model, len(coef))
        chosen = [(names[column], rows[row], float(coef[row, column])) for row, column in places]
        titles = ["feature", "of"]
        if len(coef) == 1:
            chosen = [(feature, value) for feature, _, value in chosen]  # type: ignore[misc]
            titles = ["feature"]
    else:
        return None
    most = max((abs(row[-1]) for row in chosen), default=0.0) or 1.0
    lines = [[*row[:-1], f"{row[-1]:.4g}", _bar(row[-1] / most)] for row in chosen]
    found = table([*titles, "coefficient", ""], lines, words=(*range(len(titles)), len(titles) + 1))
    note = f"{len(chosen)} of {n_all:,}, by size" if n_all > len(chosen) else "All of them, by size"
    note += f"; {n_zero:,} are exactly zero" if n_zero else ""
    scaled = "; they can be compared if features have the same scale."
    if model.description.targets is Targets.CLASSES and titles == ["feature"]:
        scaled += f" Positive ones speak for {shortened(model.classes_[1])}."
    return element("div", found, element("p", note + scaled, class_="note"), class_="bars")


def _bar(share: float) -> Html:
    side = "bar" if share >= 0 else "bar down"
    return element("span", class_=side, style=f"width:{100 * abs(share):.1f}%")


def _feature_names(preparation: Any, model: Any, first: int) -> list[str]:
    """Return names of features: those of the preparation or the training data, or numbers."""
    if preparation is not None:
        try:
            return [str(name) for name in preparation.get_feature_names_out()]
        except (AttributeError, ValueError):  # a step that knows no names
            pass
    names = getattr(model, "feature_names_in_", None)
    if names is not None:
        return [str(name) for name in names]
    return [f"feature {first + place}" for place in range(np.shape(model.coef_)[-1])]


def _row_names(model: Any, n_rows: int) -> list[str]:
    """Return what the rows of coefficients are of: classes, quantiles, or numbers."""
    for name in ("classes_", "quantiles"):
        values = getattr(model, name, ())
        if len(values) == n_rows:
            return [str(value) for value in np.asarray(values).tolist()]
    return [str(place) for place in range(n_rows)]


def _parameters(model: Any) -> dict[str, Any]:
    """Return the parameters that are not at their defaults."""
    defaults = defaults_of(type(model))
    given = {
        name: repr(value)
        for name, value in model.get_params(deep=False).items()
        if name not in ("callbacks", "checkpoint") and repr(value) != repr(defaults.get(name))
    }
    return given or {"all": "at their defaults"}
