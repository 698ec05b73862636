"""Pages about runs: their bounds, gaps and work, one run or several side by side."""

from __future__ import annotations

from collections.abc import Sequence

from cutplane.core.certificate import Record, percent
from cutplane.markup.html import Html, element, table
from cutplane.report.charts import Table, charts_of_runs, table_of_run
from cutplane.report.page import Report, Section, versions

Run = tuple[str, Sequence[Record]]
"""A name, and at least one record."""


def run_section(runs: Sequence[Run], *, proven: bool) -> tuple[Section, list[Table]]:
    """Return the charts of runs and a table of their ends, and the numbers for the charts.

    The numbers must be the first tables of the page.
    """
    ends = table(
        [
            "run",
            "iterations",
            "evaluations",
            "planes",
            "seconds",
            "objective",
            "lower bound",
            "gap",
        ],
        [_end(name, records[-1]) for name, records in runs],
    )
    hint = element(
        "p",
        "Move the pointer over a chart to read values, drag to look closer. A page of long runs "
        "shows some of their iterations, the last one always.",
        class_="note",
    )
    section = Section("The run" if len(runs) == 1 else "The runs", [hint, ends])
    charts = charts_of_runs(runs, proven=proven)
    tables = [table_of_run(name, records) for name, records in runs]
    return Section(section.title, section.parts, charts), tables


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
    return Section("Versions", [pairs(versions())])


def pairs(values: dict[str, object]) -> Html:
    """Return a table of names and values."""
    return table([], [[name, value] for name, value in values.items()], words=(0, 1))


def _end(name: str, last: Record) -> list[str]:
    return [
        name,
        f"{last.iteration:,}",
        f"{last.evaluations:,}",
        f"{last.planes:,}",
        f"{last.seconds:.3g}",
        f"{last.objective:.8g}",
        f"{last.lower_bound:.8g}",
        f"{last.relative_gap:.2e}",
    ]
