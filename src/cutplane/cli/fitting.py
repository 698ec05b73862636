"""What ``cutplane fit`` does: read the data, fit under watch, write down and say what was found.

On a cluster, every worker reads its own rows of a data folder.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import typer

from cutplane.checkpoints.checkpoint import Checkpoint
from cutplane.checkpoints.store import CheckpointError
from cutplane.cli.fit import Choice, Options, check_parameters, check_search, choose, is_table
from cutplane.cli.fit_report import Fit, fit_in_words, fit_to_json
from cutplane.cli.options import require_at_least_one, require_outputs
from cutplane.cli.process import ExitCode, complain, notes_of
from cutplane.core.certificate import Status, percent
from cutplane.core.interrupts import held
from cutplane.core.state import State
from cutplane.estimators import estimators_by_task
from cutplane.estimators.description import Reads, parameters_of
from cutplane.estimators.linear import takes_collections
from cutplane.io import InputError, TraceWriter, open_folder, write_atomically
from cutplane.io.examples import Examples
from cutplane.io.files import name_of
from cutplane.io.folders import dask_arrays
from cutplane.io.labels import split_categories
from cutplane.io.models.files import save_with_layout
from cutplane.io.tables import TableOptions
from cutplane.report.charts import mean_run
from cutplane.report.figures import FORMATS, draw_run, picture_of, require_plotting
from cutplane.report.progress import progress_on


def require_cluster(own: Options, choice: Choice, train: str) -> None:
    """Raise InputError unless a fit of these data can be on a cluster."""
    if own.scheduler is not None and own.workers is not None:
        raise InputError("--scheduler or --workers, not both: workers belong to one scheduler")
    require_at_least_one("--workers", own.workers)
    option = "--workers" if own.scheduler is None else "--scheduler"
    if importlib.util.find_spec("distributed") is None:
        raise InputError(f'{option} needs Dask: pip install "cutplane[dask]"')
    if not takes_collections(choice.estimator):
        raise InputError(f"{option}: --task {choice.task} needs one machine")
    if own.cv is not None:
        raise InputError(f"{option}: --cv needs one machine")
    if not os.path.isdir(train):
        raise InputError(
            f"{option} needs a data folder, of which every worker reads its own rows: "
            f"cutplane convert {train} FOLDER"
        )


@contextlib.contextmanager
def on_cluster(scheduler: str | None, workers: int | None) -> Iterator[None]:
    """Connect to a scheduler, or start workers here; what goes wrong there is an InputError."""
    from cutplane.cluster.workers import ClusterError, client_at, local_client

    try:
        with client_at(scheduler) if scheduler is not None else local_client(workers or 1):
            yield
    except ClusterError as error:
        raise InputError(f"--{'workers' if scheduler is None else 'scheduler'}: {error}") from error


def as_collections(examples: Examples, path: str) -> Examples:
    """Return the examples of a data folder as collections, which workers read from there."""
    import dask.array as da

    folder = open_folder(path)
    # Where shards begin, of which there is a power of two and at most this many, a part begins.
    parts = dask_arrays(folder, 64)
    y = parts.get("y")
    if examples.y is not folder.y:  # labels of another type
        y = da.from_array(examples.y, chunks=parts["X"].chunks[0])
    names = {"qid": "queries", "sample_weight": "weights"}
    options: dict[str, Any] = {name: parts[names[name]] for name in examples.options}
    return examples._replace(X=parts["X"], y=y, options=options)


_HINT = "\ncutplane: ending with the best model so far; Ctrl-C again ends at once\n"


def run_fit(
    train: str, task: str | None, loss: str | None, own: Options, given: dict[str, Any]
) -> None:
    """Fit what the options say; ``given`` are those that are parameters of estimators."""
    choice = choose(task, loss)
    if task is None and given.get("kernel") is not None:
        # The kernel machine with the same loss, if there is one.
        for name, of in estimators_by_task().items():
            if "kernel" in parameters_of(of) and choice.loss in of.description.loss_names:
                choice = choice._replace(task=name, estimator=of)
                break
    parameters = check_parameters(choice, given)
    search = check_search(choice, own, parameters)
    require_at_least_one("--features", own.features)
    if own.features is not None and choice.description.reads in (Reads.SEQUENCES, Reads.FRAMES):
        raise InputError(f"--features is not for --task {choice.task}")
    if "categories" in parameters:
        split_categories(parameters["categories"])
    if own.plot is not None:
        require_plotting()
    table = TableOptions(
        own.target or (), own.query, own.drop or (), own.text or (), own.scale, own.rare, own.header
    )
    reads_table = is_table(table, train, choice.description, choice.task)
    if reads_table and own.features is not None:
        raise InputError("--features is for the svmlight format: a table says how many it has")
    kept = _checkpoint(own.checkpoint, own.every)
    is_shared = own.scheduler is not None or own.workers is not None
    if is_shared:
        require_cluster(own, choice, train)
        if own.features is not None:
            raise InputError("--features needs one machine")
    inputs = [train] if own.checkpoint is None else [train, own.checkpoint]
    require_outputs({"--out": own.out, "--trace": own.trace, "--plot": own.plot}, inputs=inputs)

    of_table = table if reads_table else None
    examples = choice.read(train, parameters, features=own.features, table=of_table)
    if not own.quiet:
        for note in examples.notes:
            complain(f"{name_of(train)}: {note}")
    estimator = choice.make(parameters | {"checkpoint": kept}, search, own.certified)

    name = name_of(train)
    hint = "" if own.quiet or not sys.stderr.isatty() else _HINT
    with (
        held(hint),
        contextlib.nullcontext() if own.trace is None else TraceWriter(own.trace) as writer,
    ):
        with on_cluster(own.scheduler, own.workers) if is_shared else contextlib.nullcontext():
            given_to_fit = as_collections(examples, train) if is_shared else examples
            _fit(estimator, given_to_fit, name=name, trace=writer, quiet=own.quiet)
        fitted = Fit(estimator, choice.loss, n_samples=len(examples.y), counts=examples.counts)
        examples.name_classes(estimator)
        if writer is not None:
            writer.complete(fitted.histories)
        if own.out is not None:
            save_with_layout(examples.model(estimator), own.out, examples.layout)
        if own.plot is not None:
            ending = os.path.splitext(own.plot)[1][1:].lower()
            kind = ending if ending in FORMATS else FORMATS[0]
            write_atomically(own.plot, picture_of(_picture(fitted, name), kind))

    if own.as_json:
        print(json.dumps(fit_to_json(fitted), allow_nan=False))
    elif not own.quiet:
        print(fit_in_words(fitted))
    status = fitted.certificate.status
    if status is Status.INTERRUPTED:
        raise typer.Exit(ExitCode.INTERRUPTED)
    raise typer.Exit(ExitCode.SUCCESS if status.success else ExitCode.TOLERANCE_MISSED)


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


def _fit(
    estimator: Any, examples: Examples, *, name: str, trace: TraceWriter | None, quiet: bool
) -> None:
    """Run the fit under watch; its warnings become lines on standard error."""
    with warnings.catch_warnings(record=True) as caught, contextlib.ExitStack() as stack:
        warnings.simplefilter("always")
        level = logging.WARNING if quiet else logging.INFO
        stack.enter_context(notes_of("checkpoints", level, warn=complain))
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
