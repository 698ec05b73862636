"""``cutplane report``: a page about a model, or about traces of fits."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from cutplane.cli.evaluate import read_test, require_resamples, resample_progress
from cutplane.cli.options import QuietOption, require_outputs
from cutplane.estimators.report import report_of
from cutplane.io import InputError, load_model, read_trace, split_runs, write_atomically
from cutplane.io.examples import load_for_files
from cutplane.io.files import name_of, require_regular
from cutplane.report.charts import mean_run
from cutplane.report.page import Report, Run, report_of_runs


def report(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="FILES...", help="A model file, traces written by fit --trace, or both."
        ),
    ],
    out: Annotated[
        str, typer.Option("--out", "-o", metavar="HTML", help="Write the page to this file.")
    ],
    data: Annotated[
        str | None,
        typer.Option(metavar="TEST", help="Data with labels, to measure predictions on."),
    ] = None,
    bootstrap: Annotated[
        int, typer.Option(metavar="N", help="Intervals of the measures from N resamples.")
    ] = 0,
    quiet: QuietOption = False,
) -> None:
    """Write a page about a model or runs: one HTML file, to be read anywhere, also offline.

    Bounds and gap against iterations and seconds, what the certificate says, largest coefficients;
    with --data measures of predictions, calibration, and what the data are like.
    """
    require_resamples(bootstrap)
    inputs = sources if data is None else [*sources, data]
    require_outputs({"--out": out}, inputs=inputs)
    models = [path for path in sources if not _is_trace(path)]
    if len(models) > 1:
        raise InputError(f"{models[0]} and {models[1]}: a page is about one model")
    runs = [run_of(path) for path in sources if _is_trace(path)]
    if models:
        page = _model_page(models[0], data, bootstrap, runs, quiet=quiet)
    elif data is not None:
        raise InputError("--data needs a model file: a trace cannot predict")
    else:
        page = report_of_runs(", ".join(name for name, _ in runs), runs)
    write_atomically(out, page.html.encode())
    if not quiet:
        print(f"{out}: {os.path.getsize(out) / 1000:.0f} kB")


def _model_page(
    path: str, data: str | None, bootstrap: int, runs: list[Run], *, quiet: bool
) -> Report:
    if data is None:
        return report_of(load_model(path), runs=runs, first_feature=1)
    model = load_for_files(path)
    X, y, needed = read_test(model, data)
    with resample_progress(bootstrap, quiet=quiet) as progress:
        options: dict[str, Any] = {"bootstrap": bootstrap, "progress": progress, **needed}
        return report_of(
            model.estimator,
            X,
            y,
            runs=runs,
            data_name=os.path.basename(name_of(data)),
            first_feature=1,
            preparation=model.preparation,
            **options,
        )


def _is_trace(path: str) -> bool:
    """Say whether a file is a trace: it begins with an object of JSON, a model with its length."""
    require_regular(path)  # it is opened again
    try:
        with open(path, "rb") as file:
            return file.read(64).lstrip().startswith(b"{")
    except OSError:
        return False  # reading it as a model will raise the error


def run_of(path: str) -> Run:
    """Read a trace: its name, and its records; of several problems, their mean."""
    histories = split_runs(read_trace(path))
    if not histories:
        raise InputError(f"{name_of(path)}: a trace without iterations")
    name = os.path.basename(path)
    if len(histories) > 1:
        name += f" (mean over {len(histories)} problems)"
    return name, mean_run(histories)
