"""``cutplane fit``: its options; what they ask for is done in `cutplane.cli.fitting`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import typer

from cutplane.cli.fit_options import fit_options, keyword
from cutplane.cli.process import compile_notes
from cutplane.estimators import estimators_by_task
from cutplane.io.preparation import RARE, SCALES

_model_option = partial(typer.Option, rich_help_panel="Model")
_table_option = partial(typer.Option, rich_help_panel="Tables")
_solver_option = partial(typer.Option, rich_help_panel="Solver")
_output_option = partial(typer.Option, rich_help_panel="Output")


def make_fit() -> Callable[..., None]:
    """Return the command, with the options of the estimators that are registered now."""
    known = estimators_by_task()
    tasks = _model_option(
        metavar="TASK", help=f"{', '.join(known)}; by default as the loss and --kernel."
    )
    losses = _model_option(
        metavar="NAME",
        help=" ".join(
            f"For {task}: {', '.join(of.description.loss_names)}." for task, of in known.items()
        ),
    )

    of_command = inspect.signature(Options, eval_str=True).parameters

    def fit(train: Train, task: str | None, loss: str | None, **given: Any) -> None:
        """Train a model, and prove how close to optimal it is.

        Exit codes: 0 tolerance met, 1 not met, 2 bad input, 70 a defect of cutplane,
        130 stopped by Ctrl-C (the best model so far is kept).
        """
        from cutplane.cli.fitting import run_fit

        options = Options(**{name: given.pop(name) for name in of_command})
        with compile_notes(quiet=options.quiet):
            run_fit(train, task, loss, options, given)

    parameters = [
        inspect.signature(fit, eval_str=True).parameters["train"],
        keyword("task", Annotated[str | None, tasks]),
        keyword("loss", Annotated[str | None, losses]),
        *(option.as_signature() for option in fit_options().values()),
        *of_command.values(),
    ]
    fit.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return fit


Train = Annotated[
    str,
    typer.Argument(
        metavar="TRAIN",
        help="Data in svmlight format, a table (CSV, TSV, Parquet; give --target), for sequences "
        "in columns; also compressed; - is stdin; or a folder made by convert.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class Options:
    """What ``cutplane fit`` is told, besides task, loss, and the parameters of estimators."""

    features: Annotated[
        int | None,
        _model_option(help="Number of features.", show_default="largest index in TRAIN"),
    ] = None
    target: Annotated[
        list[str] | None,
        _table_option(metavar="COLUMN", help="Predict this column, a name or a number from 1 on."),
    ] = None
    query: Annotated[
        str | None,
        _table_option(metavar="COLUMN", help="For ranking: the column that names the query."),
    ] = None
    drop: Annotated[
        list[str] | None,
        _table_option(metavar="COLUMN", help="Leave this column out; may be given several times."),
    ] = None
    text: Annotated[
        list[str] | None,
        _table_option(
            metavar="COLUMN", help="Take this column as words, such as numbers that are codes."
        ),
    ] = None
    scale: Annotated[
        str | None,
        _table_option(
            metavar="NAME",
            help=f"How columns of numbers are scaled: {', '.join(SCALES)}.",
            show_default="standard; for novelty none",
        ),
    ] = None
    rare: Annotated[
        int | None,
        _table_option(
            metavar="ROWS",
            help="Words that are in fewer rows than this are taken as one.",
            show_default=str(RARE),
        ),
    ] = None
    header: Annotated[
        bool,
        _table_option(
            "--header/--no-header", help="Whether the first line has the names of the columns."
        ),
    ] = True
    cv: Annotated[
        int | None,
        _solver_option(
            "--cv", metavar="FOLDS", help="Choose lam by cross-validation with so many folds."
        ),
    ] = None
    rule: Annotated[
        str | None,
        _solver_option(
            metavar="NAME",
            help="With --cv: take the best lam, or the largest within one-standard-error of it.",
            show_default="best",
        ),
    ] = None
    certified: Annotated[
        float | None,
        _solver_option(
            metavar="AMOUNT",
            help="With --cv: prove that no lam has an error that is lower by more than this.",
        ),
    ] = None
    checkpoint: Annotated[
        str | None,
        _solver_option(
            metavar="DIR",
            help="Keep the state of the fit in this folder; the same command goes on from there.",
        ),
    ] = None
    every: Annotated[
        float | None,
        _solver_option(
            metavar="SECONDS",
            help="With --checkpoint: time between two writes.",
            show_default="60, or more where writing takes long",
        ),
    ] = None
    scheduler: Annotated[
        str | None,
        _solver_option(
            metavar="ADDRESS",
            help="Fit on the workers of this Dask scheduler; TRAIN is a folder that they can read.",
        ),
    ] = None
    workers: Annotated[
        int | None,
        _solver_option(metavar="N", help="Fit on so many Dask workers that are started here."),
    ] = None
    out: Annotated[
        str | None, _output_option(metavar="MODEL", help="Write the model to this file.")
    ] = None
    trace: Annotated[
        str | None, _output_option(metavar="JSONL", help="Write every iteration to this file.")
    ] = None
    plot: Annotated[
        str | None,
        _output_option(
            metavar="PICTURE",
            help="Draw the bounds closing in, or with --cv bounds and scores against lam; PNG, or "
            "SVG or PDF if its name ends so.",
        ),
    ] = None
    as_json: Annotated[bool, _output_option("--json", help="Print one JSON object.")] = False
    quiet: Annotated[
        bool, _output_option("--quiet", "-q", help="Show no progress and no summary.")
    ] = False
