"""A page of its own: one HTML file with everything inside, to be read anywhere, also offline.

Charts are static pictures; where scripts run, uPlot (`assets/uPlot.LICENSE`) draws them again, with
values under the pointer and a zoom. Nothing is loaded from elsewhere, which the page's own policy
forbids; only the two scripts that it was made with run, by their digests.

A page about runs has their bounds, gaps and work, one run or several side by side.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path

from cutplane.compute import durable
from cutplane.core.certificate import Record, percent
from cutplane.report.charts import Chart, Table, charts_of_runs, table_of_run, thinned
from cutplane.report.words import Html, element, join, table

MOST_BYTES = 300_000
"""A page that would be larger shows fewer points of its curves."""


@dataclass(frozen=True)
class Section:
    """A heading, and what stands below it; charts come first."""

    title: str
    parts: Sequence[Html] = ()
    charts: Sequence[Chart] = ()


@dataclass(frozen=True, repr=False)
class Report:
    """A page about a fit, or several.

    Attributes
    ----------
    title, subtitle : str
    sections : list of Section
    tables : list of Table
        The numbers that charts draw.
    """

    title: str
    subtitle: str
    sections: list[Section]
    tables: list[Table] = field(default_factory=list)

    @property
    def html(self) -> str:
        """The page as text."""
        most = 1200  # points of all curves together
        while True:
            page = self._page(most // max(len(self.tables), 1))
            if len(page.encode()) <= MOST_BYTES or most <= 50:
                return page
            most //= 2

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file, whole or not at all."""
        durable.replace(Path(path).resolve(), self.html.encode())

    def __repr__(self) -> str:
        return f"Report({self.title!r}, {len(self.sections)} sections)"

    def _repr_html_(self) -> str:
        """Return a frame for a notebook: the page keeps its own colors and scripts."""
        return (
            f'<iframe srcdoc="{escape(self.html)}" title="{escape(self.title)}" '
            'style="width:100%;height:640px;border:1px solid #8884"></iframe>'
        )

    def _page(self, points: int) -> str:
        tables = [thinned(table, max(points, 12)) for table in self.tables]
        charts = [chart for section in self.sections for chart in section.charts]
        # In a script element only a "<" could end it early, or begin something else.
        data = json.dumps(
            {"tables": tables, "charts": [chart.spec() for chart in charts]},
            allow_nan=False,
            separators=(",", ":"),
        ).replace("<", "\\u003c")
        scripts = [_asset("uPlot.iife.min.js"), _asset("page.js")] if charts else []
        sums = [hashlib.sha256(script.encode()).digest() for script in scripts]
        digests = [base64.b64encode(each).decode() for each in sums]
        policy = "default-src 'none'; style-src 'unsafe-inline'; script-src " + (
            " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"
        )
        theme = element("button", "light / dark", id="theme", type="button", hidden="")
        body = element(
            "main",
            theme if charts else "",
            element("h1", self.title),
            element("p", self.subtitle, class_="subtitle"),
            *(
                element(
                    "section",
                    element("h2", section.title),
                    *(
                        element("figure", chart.picture(tables), id=chart.id)
                        for chart in section.charts
                    ),
                    *section.parts,
                )
                for section in self.sections
            ),
        )
        head = [
            Html('<meta charset="utf-8">'),
            Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
            Html(f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">'),
            Html('<meta name="referrer" content="no-referrer">'),
            element("title", self.title),
            element("style", Html(_asset("uPlot.min.css") + _asset("page.css"))),
        ]
        scripted = [
            Html(f'<script type="application/json" id="data">{data}</script>'),
            *(Html(f"<script>{script}</script>") for script in scripts),
        ]
        whole = element("html", element("head", *head), element("body", body, *scripted), lang="en")
        return f"<!doctype html>\n{whole}\n"


def paragraphs(text: str) -> Html:
    """Return a text as paragraphs, one per line."""
    return join(element("p", line) for line in text.splitlines() if line)


@cache
def _asset(name: str) -> str:
    text = files("cutplane.report").joinpath("assets", name).read_text(encoding="utf-8")
    assert "</script" not in text.lower()
    return text


Run = tuple[str, Sequence[Record]]
"""A name, and at least one record."""


def run_section(runs: Sequence[Run], *, proven: bool) -> tuple[Section, list[Table]]:
    """Return the charts of runs and a table of their ends, and the numbers for the charts.

    The numbers must be the first tables of the page.
    """
    shown = {
        "iterations": "{0.iteration:,}",
        "evaluations": "{0.evaluations:,}",
        "planes": "{0.planes:,}",
        "seconds": "{0.seconds:.3g}",
        "objective": "{0.objective:.8g}",
        "lower bound": "{0.lower_bound:.8g}",
        "gap": "{0.relative_gap:.2e}",
    }
    ends = [
        [name, *(text.format(records[-1]) for text in shown.values())] for name, records in runs
    ]
    hint = element(
        "p",
        "Move the pointer over a chart to read values, drag to look closer. A page of long runs "
        "shows some of their iterations, the last one always.",
        class_="note",
    )
    charts = charts_of_runs(runs, proven=proven)
    section = Section(
        "The run" if len(runs) == 1 else "The runs", [hint, table(["run", *shown], ends)], charts
    )
    return section, [table_of_run(records) for _, records in runs]


def report_of_runs(title: str, runs: Sequence[Run]) -> Report:
    """Return a page about traces, which know nothing of models."""
    section, tables = run_section(runs, proven=True)
    words = []
    for name, records in runs:
        last = records[-1]
        words.append(
            f"{name}: the last objective is {last.objective:.6g}. If the risk is convex, no model "
            f"has one below {last.lower_bound:.6g}: better by {percent(last.relative_gap)} at most."
        )
    return Report(
        title=title,
        subtitle=" and ".join(f"{len(records):,} iterations" for _, records in runs[:3]),
        sections=[
            Section("What the bounds say", [element("p", line) for line in words]),
            section,
            versions_section(),
        ],
        tables=tables,
    )


def versions_section() -> Section:
    """Return what the page was made with."""
    import platform
    from importlib.metadata import version

    names = ("cutplane", "numpy", "scipy", "numba", "scikit-learn")
    found = {name: version(name) for name in names}
    found["Python"] = platform.python_version()
    found["system"] = f"{platform.system()} {platform.machine()}"
    return Section("Versions", [pairs(found)])


def pairs(values: Mapping[str, object]) -> Html:
    """Return a table of names and values."""
    return table([], [[name, value] for name, value in values.items()], words=(0, 1))
