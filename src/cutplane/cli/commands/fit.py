"""``cutplane fit``: train a model, prove how good it is, write it down."""

from __future__ import annotations

import contextlib
import inspect
import json
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, Any

import typer

from cutplane.checkpoints.checkpoint import Checkpoint
from cutplane.checkpoints.tensors import CheckpointError
from cutplane.cli.clusters import as_collections, on_cluster, require_cluster
from cutplane.cli.compile_notes import compile_notes
from cutplane.cli.data import Examples, read_examples
from cutplane.cli.errors import ExitCode, complain
from cutplane.cli.fit_options import (
    check_parameters,
    check_search,
    choose,
    fit_options,
    keyword,
    with_kernel,
)
from cutplane.cli.fit_report import Fit, fit_in_words, fit_to_json
from cutplane.cli.options import require_at_least_one, require_outputs
from cutplane.cli.tables import RARE, SCALES, TableOptions
from cutplane.core.certificate import Status, percent
from cutplane.core.interrupts import held
from cutplane.core.state import State
from cutplane.estimators import estimators_by_task
from cutplane.estimators.description import Reads
from cutplane.io import InputError, TraceWriter, write_atomically
from cutplane.io.labels import split_categories
from cutplane.io.models.files import save_with_layout
from cutplane.io.sources import name_of
from cutplane.report.curves import mean_run
from cutplane.report.figures import FORMATS, draw_run, picture_of, require_plotting
from cutplane.report.progress import progress_on

_HINT = "\ncutplane: ending with the best model so far; Ctrl-C again ends at once\n"

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

    def fit(train: Train, **options: Any) -> None:
        """Train a model, and prove how close to optimal it is.

        Exit codes: 0 tolerance met, 1 not met, 2 bad input, 70 a defect of cutplane,
        130 stopped by Ctrl-C (the best model so far is kept).
        """
        with compile_notes(quiet=options["quiet"]):
            run_fit(train, **options)

    own = inspect.signature(run_fit, eval_str=True).parameters
    parameters = [
        own["train"],
        keyword("task", Annotated[str | None, tasks]),
        keyword("loss", Annotated[str | None, losses]),
        *(option.as_signature() for option in fit_options().values()),
        *(own[name] for name in own if name not in ("train", "task", "loss", "given")),
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


def run_fit(
    train: Train,
    *,
    task: str | None,
    loss: str | None,
    features: Annotated[
        int | None,
        _model_option(help="Number of features.", show_default="largest index in TRAIN"),
    ] = None,
    target: Annotated[
        list[str] | None,
        _table_option(metavar="COLUMN", help="Predict this column, a name or a number from 1 on."),
    ] = None,
    query: Annotated[
        str | None,
        _table_option(metavar="COLUMN", help="For ranking: the column that names the query."),
    ] = None,
    drop: Annotated[
        list[str] | None,
        _table_option(metavar="COLUMN", help="Leave this column out; may be given several times."),
    ] = None,
    text: Annotated[
        list[str] | None,
        _table_option(
            metavar="COLUMN", help="Take this column as words, such as numbers that are codes."
        ),
    ] = None,
    scale: Annotated[
        str | None,
        _table_option(
            metavar="NAME",
            help=f"How columns of numbers are scaled: {', '.join(SCALES)}.",
            show_default="standard; for novelty none",
        ),
    ] = None,
    rare: Annotated[
        int | None,
        _table_option(
            metavar="ROWS",
            help="Words that are in fewer rows than this are taken as one.",
            show_default=str(RARE),
        ),
    ] = None,
    header: Annotated[
        bool,
        _table_option(
            "--header/--no-header", help="Whether the first line has the names of the columns."
        ),
    ] = True,
    cv: Annotated[
        int | None,
        _solver_option(
            "--cv", metavar="FOLDS", help="Choose lam by cross-validation with so many folds."
        ),
    ] = None,
    rule: Annotated[
        str | None,
        _solver_option(
            metavar="NAME",
            help="With --cv: take the best lam, or the largest within one-standard-error of it.",
            show_default="best",
        ),
    ] = None,
    certified: Annotated[
        float | None,
        _solver_option(
            metavar="AMOUNT",
            help="With --cv: prove that no lam has an error that is lower by more than this.",
        ),
    ] = None,
    checkpoint: Annotated[
        str | None,
        _solver_option(
            metavar="DIR",
            help="Keep the state of the fit in this folder; the same command goes on from there.",
        ),
    ] = None,
    every: Annotated[
        float | None,
        _solver_option(
            metavar="SECONDS",
            help="With --checkpoint: time between two writes.",
            show_default="60, or more where writing takes long",
        ),
    ] = None,
    scheduler: Annotated[
        str | None,
        _solver_option(
            metavar="ADDRESS",
            help="Fit on the workers of this Dask scheduler; TRAIN is a folder that they can read.",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        _solver_option(metavar="N", help="Fit on so many Dask workers that are started here."),
    ] = None,
    out: Annotated[
        str | None, _output_option(metavar="MODEL", help="Write the model to this file.")
    ] = None,
    trace: Annotated[
        str | None, _output_option(metavar="JSONL", help="Write every iteration to this file.")
    ] = None,
    plot: Annotated[
        str | None,
        _output_option(
            metavar="PICTURE",
            help="Draw the bounds closing in, or with --cv bounds and scores against lam; PNG, or "
            "SVG or PDF if its name ends so.",
        ),
    ] = None,
    as_json: Annotated[bool, _output_option("--json", help="Print one JSON object.")] = False,
    quiet: Annotated[
        bool, _output_option("--quiet", "-q", help="Show no progress and no summary.")
    ] = False,
    **given: Any,
) -> None:
    """Fit what the options say; ``given`` are those that are parameters of estimators."""
    choice = choose(task, loss)
    if task is None and given.get("kernel") is not None:
        choice = with_kernel(choice)
    parameters = check_parameters(choice, given)
    search = check_search(choice, cv, rule, certified, parameters)
    require_at_least_one("--features", features)
    if features is not None and choice.description.reads in (Reads.SEQUENCES, Reads.FRAMES):
        raise InputError(f"--features is not for --task {choice.task}")
    if "categories" in parameters:
        split_categories(parameters["categories"])
    if plot is not None:
        require_plotting()
    table = TableOptions(target or (), query, drop or (), text or (), scale, rare, header)
    is_table = table.check(train, choice.description, choice.task)
    if is_table and features is not None:
        raise InputError("--features is for the svmlight format: a table says how many it has")
    kept = _checkpoint(checkpoint, every)
    is_shared = scheduler is not None or workers is not None
    if is_shared:
        require_cluster(scheduler, workers, choice, train, search=search is not None)
        if features is not None:
            raise InputError("--features needs one machine")
    inputs = [train] if checkpoint is None else [train, checkpoint]
    require_outputs({"--out": out, "--trace": trace, "--plot": plot}, inputs=inputs)

    certain = task is not None
    examples = read_examples(
        train,
        choice,
        features=features,
        certain=certain,
        chosen=certain or loss is not None,
        named=parameters,
        table=table if is_table else None,
    )
    if not quiet:
        for note in examples.notes:
            complain(f"{name_of(train)}: {note}")
    estimator = choice.make(parameters | {"checkpoint": kept}, search, certified)

    name = name_of(train)
    hint = "" if quiet or not sys.stderr.isatty() else _HINT
    with held(hint), contextlib.nullcontext() if trace is None else TraceWriter(trace) as writer:
        with on_cluster(scheduler, workers) if is_shared else contextlib.nullcontext():
            given_to_fit = as_collections(examples, train) if is_shared else examples
            _fit(estimator, given_to_fit, name=name, trace=writer, quiet=quiet)
        fitted = Fit(estimator, choice.loss, n_samples=len(examples.y), counts=examples.counts)
        examples.name_classes(estimator)
        if writer is not None:
            writer.complete(fitted.histories)
        if out is not None:
            save_with_layout(examples.model(estimator), out, examples.layout)
        if plot is not None:
            write_atomically(plot, picture_of(_picture(fitted, name), _kind_of_picture(plot)))

    if as_json:
        print(json.dumps(fit_to_json(fitted), allow_nan=False))
    elif not quiet:
        print(fit_in_words(fitted))
    raise typer.Exit(_exit_code(fitted.certificate.status))


def _checkpoint(path: str | None, every: float | None) -> Checkpoint | None:
    if path is None:
        if every is not None:
            raise InputError("--every is for --checkpoint: name a folder with it")
        return None
    if os.path.exists(path) and not os.path.isdir(path):
        raise InputError(f"--checkpoint {path}: not a folder")
    if every is not None and not every >= 0.0:
        raise InputError(f"--every must be a number of seconds, not negative, not {every:g}")
    return Checkpoint(path, every)


class _CheckpointNotes(logging.Handler):
    """Passes on what is logged of checkpoints: warnings, and where a fit goes on."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING:
            complain(record.getMessage())
        else:
            print(record.getMessage(), file=sys.stderr)


@contextlib.contextmanager
def _checkpoint_notes(*, quiet: bool) -> Iterator[None]:
    log, notes = logging.getLogger("cutplane.checkpoints"), _CheckpointNotes()
    before = log.level
    log.addHandler(notes)
    log.setLevel(logging.WARNING if quiet else logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(notes)
        log.setLevel(before)


def _fit(
    estimator: Any, examples: Examples, *, name: str, trace: TraceWriter | None, quiet: bool
) -> None:
    """Run the fit under watch; its warnings become lines on standard error."""
    with warnings.catch_warnings(record=True) as caught, contextlib.ExitStack() as stack:
        warnings.simplefilter("always")
        stack.enter_context(_checkpoint_notes(quiet=quiet))
        watchers: list[Callable[[State], object]] = [] if trace is None else [trace]
        if not quiet:
            watchers.append(display := progress_on(sys.stderr))
            stack.enter_context(display)
        estimator.set_params(callbacks=tuple(watchers))
        try:
            estimator.fit(examples.X, examples.y, **examples.options)
        except CheckpointError as error:
            raise InputError(f"--checkpoint {error}") from error
        except (ValueError, ArithmeticError) as error:
            raise InputError(f"{name}: {error}") from error
    # Each only once: rounding can warn in every iteration.
    for message in dict.fromkeys(" ".join(str(warning.message).split()) for warning in caught):
        complain(message)


def _kind_of_picture(path: str) -> str:
    """Return what a picture's name ends with, if it is one of the known kinds; else PNG."""
    ending = os.path.splitext(path)[1][1:].lower()
    return ending if ending in FORMATS else FORMATS[0]


def _picture(fitted: Fit, name: str) -> Any:
    if fitted.proof is not None:
        return fitted.proof.plot()
    if fitted.search is not None:
        return fitted.estimator.plot_path()
    estimator, certificate = fitted.estimator, fitted.certificate
    problems = len(fitted.certificates)
    each = f", mean over {problems} classes" if problems > 1 else ""
    near = f": within {percent(certificate.relative_gap)} of the optimum"
    if not certificate.valid:  # of a risk that is not convex
        near = ""
    return draw_run(
        mean_run(fitted.histories),
        title=f"{fitted.loss} loss on {os.path.basename(name)}, lam = {estimator.lam_:g}{each}",
        subtitle=f"{certificate.status}{near} after {estimator.fit_seconds_:.3g} s",
        tol=estimator.tol,
        proven=certificate.valid,
    )


def _exit_code(status: Status) -> ExitCode:
    if status is Status.INTERRUPTED:
        return ExitCode.INTERRUPTED
    return ExitCode.SUCCESS if status.success else ExitCode.TOLERANCE_MISSED
