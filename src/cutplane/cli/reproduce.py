"""``cutplane reproduce``: tables and figures of the papers, recomputed."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import Annotated, Any

import typer

from cutplane.cli.options import JsonOption, make_folder, require_known
from cutplane.cli.process import ExitCode, complain
from cutplane.core.interrupts import at_once
from cutplane.io import check_writable, write_atomically
from cutplane.papers import EXPERIMENTS, Experiment
from cutplane.papers.experiment import Row
from cutplane.report.figures import picture_of, require_plotting
from cutplane.report.progress import bar_on
from cutplane.report.text import table


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME...", help="Experiments; without any, they are listed."),
    ] = None,
    as_json: JsonOption = False,
    out: Annotated[
        str | None, typer.Option(metavar="DIR", help="Draw the pictures, and write them here.")
    ] = None,
) -> None:
    """Compute tables and figures of the papers again, beside what the papers found."""
    if not names:
        titles = {name: experiment.title for name, experiment in EXPERIMENTS.items()}
        print(json.dumps(titles) if as_json else "\n".join(table(titles.items(), words=(0, 1))))
        return
    for name in names:
        require_known("NAME", name, EXPERIMENTS)
    chosen = [EXPERIMENTS[name] for name in dict.fromkeys(names)]
    if out is not None:
        # Before anything is computed: can the pictures be drawn and written?
        drawn = [experiment for experiment in chosen if experiment.picture]
        if drawn:
            require_plotting()
        make_folder(out)
        for experiment in drawn:
            check_writable(_picture_path(experiment, out))
    reports = {}
    for experiment in chosen:
        rows, complete = _run(experiment)
        reports[experiment.name] = {"title": experiment.title, "rows": rows, "complete": complete}
        if not as_json:
            print(("\n" if len(reports) > 1 else "") + _in_words(experiment, rows))
        if out is not None and experiment.picture and rows:
            path = _picture_path(experiment, out)
            write_atomically(path, picture_of(experiment.picture(rows)))
            print(f"picture: {path}", file=sys.stderr)
        if not complete:
            break
    if as_json:
        print(json.dumps(_plain(reports), allow_nan=False))
    if not all(report["complete"] for report in reports.values()):
        complain("interrupted: the rows above are finished")
        raise typer.Exit(ExitCode.INTERRUPTED)


def _picture_path(experiment: Experiment, out: str) -> Path:
    return Path(out) / f"{experiment.name}.png"


def _run(experiment: Experiment) -> tuple[list[Row], bool]:
    """Return the rows, and whether all are there: Ctrl-C keeps those that are finished."""
    rows: list[Row] = []
    try:
        with at_once(), bar_on(sys.stderr) as progress:
            for row in experiment.run(progress):
                rows.append(row)  # noqa: PERF402 - extend() would lose rows at Ctrl-C
    except KeyboardInterrupt:
        return rows, False
    return rows, True


def _in_words(experiment: Experiment, rows: Sequence[Row]) -> str:
    lines = [experiment.title, "-" * len(experiment.title)]
    if experiment.paper:
        lines += [fill(experiment.paper, 80), ""]
    titles = experiment.columns
    cells = [titles.values(), *([_shown(row.get(key)) for key in titles] for row in rows)]
    words = [
        n for n, key in enumerate(titles) if any(isinstance(row.get(key), str) for row in rows)
    ]
    return "\n".join([*lines, *table(cells, words=words)])


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _plain(value: Any) -> Any:
    """Return what JSON can say: numbers that are not finite become null."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
