"""Several methods on one problem, side by side: a table in four formats, and a page."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from cutplane.core.certificate import Certificate, Record, relative
from cutplane.report.charts import Chart, Curve, Line, Table, finite, line_chart, table_of_run
from cutplane.report.html import Html, element
from cutplane.report.html import table as html_table
from cutplane.report.page import Report, Section, versions_section
from cutplane.report.text import table as text_table

FORMATS = ("text", "csv", "latex", "json")


@dataclass(frozen=True)
class Entry:
    """What one method did.

    Attributes
    ----------
    method : str
    records : sequence of Record
        The bounds after each iteration; of a peer, each record is a fit of its own to another
        tolerance, and there are no lower bounds.
    certificate : Certificate or None
        None for peers, which prove nothing, and for methods that could not be used.
    note : str
        Why a method could not be used.
    """

    method: str
    records: Sequence[Record] = ()
    certificate: Certificate | None = None
    note: str = ""

    @property
    def best(self) -> Record | None:
        """The record with the lowest objective, the last of those that are equal."""
        return min(reversed(self.records), key=lambda record: record.objective, default=None)


@dataclass(frozen=True, repr=False)
class Comparison:
    """Methods side by side on one problem.

    Attributes
    ----------
    title : str
    entries : list of Entry
    """

    title: str
    entries: list[Entry] = field(default_factory=list)

    @property
    def lower_bound(self) -> float:
        """The best lower bound that any method has proven; minus infinity without a proof."""
        known = [each.certificate for each in self.entries if each.certificate is not None]
        return max((own.lower_bound for own in known if own.valid), default=-math.inf)

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each method, in plain values, None where there is none.

        ``gap`` is what the method itself has proven, ``above`` how far its objective is above
        the best lower bound of all methods, both as shares of the objective.
        """
        return [self._row(entry) for entry in self.entries]

    def _row(self, entry: Entry) -> dict[str, Any]:
        row: dict[str, Any] = {"method": entry.method}
        known, best = entry.certificate, entry.best
        if best is None and known is None:
            return row | {"status": "not used", **dict.fromkeys(_NUMBERS), "note": entry.note}
        objective = known.objective if known else best.objective  # type: ignore[union-attr]
        last = entry.records[-1] if entry.records else None
        if known is None:  # the fit that came lowest
            last = best
        return row | {
            "status": str(known.status) if known else "no proof",
            "objective": objective,
            "lower_bound": finite(known.lower_bound) if known and known.valid else None,
            "gap": finite(known.relative_gap) if known and known.valid else None,
            "above": finite(self._above(objective)),
            "iterations": last.iteration if last and known else None,
            "evaluations": last.evaluations if last and known else None,
            "seconds": last.seconds if last else 0.0,
            "note": entry.note,
        }

    def _above(self, objective: float) -> float:
        return relative(objective - self.lower_bound, objective)

    def table(self, format: str = "text") -> str:
        """Return the table as text, "csv", "latex" (for ``booktabs``) or "json"."""
        rows = self.rows()
        if format == "json":
            return json.dumps({"title": self.title, "rows": rows}, allow_nan=False)
        if format == "csv":
            written = io.StringIO()
            writer = csv.DictWriter(written, rows[0] if rows else [], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
            return written.getvalue().rstrip("\n")
        cells = [[_cell(name, row[name]) for name in _TITLES] for row in rows]
        notes = [f"{row['method']}: {row['note']}" for row in rows if row["note"]]
        if format == "text":
            lines = text_table([_TITLES.values(), *cells], words=(0, 1))
            return "\n".join([*lines, *notes])
        if format == "latex":
            return _latex([[*_TITLES.values()], *cells], notes)
        raise ValueError(f"format must be one of {', '.join(FORMATS)}, not {format!r}")

    def report(self) -> Report:
        """Return a page with the table, and curves of gaps against time."""
        used = [entry for entry in self.entries if entry.records]
        tables = [self._columns(entry) for entry in used]
        above = [Curve(k, "above", entry.method, k) for k, entry in enumerate(used)]
        gaps = [
            Curve(k, "relative_gap", entry.method, k)
            for k, entry in enumerate(used)
            if entry.certificate is not None and entry.certificate.valid
        ]
        charts = list[Chart]()
        seconds, iterations = ("seconds", "seconds"), ("iteration", "iterations")
        if math.isfinite(self.lower_bound):
            title = "above the best lower bound"
            charts.append(_chart("chart-above", title, [seconds], above))
        if gaps:
            title = "gap that the method has proven"
            charts.append(_chart("chart-gap", title, [seconds, iterations], gaps))
        return Report(
            title=self.title,
            subtitle=f"{len(self.entries)} methods",
            sections=[
                Section("The table", [self._html()]),
                Section("Gaps against time", [], charts),
                versions_section(),
            ],
            tables=tables,
        )

    def _columns(self, entry: Entry) -> Table:
        own = table_of_run(entry.method, entry.records)
        above = [finite(self._above(record.objective)) for record in entry.records]
        return Table(own.label, {**own.columns, "above": above})

    def _html(self) -> Html:
        rows = self.rows()
        cells = [[_cell(name, row[name]) for name in _TITLES] for row in rows]
        notes = [
            element("p", f"{row['method']}: {row['note']}", class_="note")
            for row in rows
            if row["note"]
        ]
        return element("div", html_table([*_TITLES.values()], cells, words=(0, 1)), *notes)

    def _repr_html_(self) -> str:
        """Return the table and a chart for notebooks."""
        lines = [
            Line(
                entry.method,
                [record.seconds for record in entry.records],
                [self._above(record.objective) for record in entry.records],
                color=place,
                steps=True,
            )
            for place, entry in enumerate(self.entries)
            if entry.records
        ]
        chart = line_chart(
            lines, x_title="seconds", y_title="above the best lower bound", log_y=True
        )
        return element("div", self._html(), chart)

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        return f"Comparison({self.title!r}, {len(self.entries)} methods)"


_NUMBERS = ("objective", "lower_bound", "gap", "above", "iterations", "evaluations", "seconds")
_TITLES = {
    "method": "method",
    "status": "status",
    "objective": "objective",
    "gap": "proven gap",
    "above": "above bound",
    "iterations": "iterations",
    "evaluations": "evaluations",
    "seconds": "seconds",
}
_SPECIAL = {letter: f"\\{letter}" for letter in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


def _chart(id: str, title: str, xs: list[tuple[str, str]], curves: list[Curve]) -> Chart:
    return Chart(id, title, xs, curves, log=True, loggable=True, steps=True)


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if name in ("gap", "above"):
        return f"{value:.2e}"
    if name == "objective":
        return f"{value:.8g}"
    if name == "seconds":
        return f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _latex(lines: list[list[str]], notes: list[str]) -> str:
    first, *rest = ([_in_latex(cell) for cell in line] for line in lines)
    return "\n".join(
        [
            *(f"% {note}" for note in notes),
            rf"\begin{{tabular}}{{ll{'r' * (len(first) - 2)}}}",
            r"\toprule",
            " & ".join(first) + r" \\",
            r"\midrule",
            *(" & ".join(line) + r" \\" for line in rest),
            r"\bottomrule",
            r"\end{tabular}",
        ]
    )


def _in_latex(text: str) -> str:
    return "".join(_SPECIAL.get(letter, letter) for letter in text)
