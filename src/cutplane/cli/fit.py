"""``cutplane fit``: train a model, prove how good it is, write it down."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import warnings
from collections.abc import Callable
from typing import Annotated, Any

import typer
from numpy.typing import NDArray

from cutplane import LinearClassifier, LinearRegressor
from cutplane.cli.exit_codes import ExitCode
from cutplane.cli.fit_options import (
    ClassWeight,
    Task,
    check_loss_options,
    check_solver_options,
    task_and_loss,
)
from cutplane.cli.fit_report import Fit, fit_in_words, fit_to_json
from cutplane.cli.labels import class_labels, target_numbers
from cutplane.cli.options import (
    JsonOption,
    QuietOption,
    require_at_least_one,
    require_known,
    require_outputs,
)
from cutplane.core.methods import METHODS
from cutplane.core.state import Record, Status
from cutplane.io import InputError, TraceWriter, read_svmlight, save_model, write_atomically
from cutplane.io.models import Estimator
from cutplane.io.sources import name_of
from cutplane.losses import CLASSIFICATION, REGRESSION
from cutplane.report.convergence import draw_png, require_plotting
from cutplane.report.curves import mean_run
from cutplane.report.progress import progress_on


def fit(
    train: Annotated[
        str,
        typer.Argument(
            metavar="TRAIN", help="Data in svmlight format, plain or .gz, .bz2, .xz; - is stdin."
        ),
    ],
    task: Annotated[Task | None, typer.Option(help="By default what the loss is for.")] = None,
    loss: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"For classification: {', '.join(CLASSIFICATION)}. "
            f"For regression: {', '.join(REGRESSION)}.",
            show_default="hinge, or squared for regression",
        ),
    ] = None,
    lam: Annotated[float | None, typer.Option(help="Strength of the regularizer.")] = None,
    c: Annotated[
        float | None, typer.Option("--C", help="The same as --lam 1/(C * samples).")
    ] = None,
    tol: Annotated[float, typer.Option(help="Relative gap at which to stop.")] = 1e-3,
    intercept: Annotated[bool, typer.Option(help="Whether to fit an intercept.")] = True,
    class_weight: Annotated[
        ClassWeight | None, typer.Option(help="Let small classes count as much as large ones.")
    ] = None,
    quantile: Annotated[
        float | None, typer.Option(help="For --loss quantile: which.", show_default="0.5")
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(help="For the epsilon losses: errors that are free.", show_default="0.1"),
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(help="For --loss huber: where it gets linear.", show_default="1.35"),
    ] = None,
    max_iter: Annotated[int, typer.Option(help="Stop after so many iterations.")] = 1000,
    time_limit: Annotated[float | None, typer.Option(help="Stop after so many seconds.")] = None,
    method: Annotated[
        str | None, typer.Option(metavar="NAME", help=f"One of {', '.join(METHODS)}.")
    ] = None,
    threads: Annotated[int | None, typer.Option(help="Number of threads.")] = None,
    features: Annotated[
        int | None,
        typer.Option(help="Number of features.", show_default="the largest index in TRAIN"),
    ] = None,
    out: Annotated[str | None, typer.Option(metavar="MODEL", help="Write the model here.")] = None,
    trace: Annotated[
        str | None, typer.Option(metavar="RUN.jsonl", help="Write every iteration here.")
    ] = None,
    plot: Annotated[
        str | None, typer.Option(metavar="GAP.png", help="Draw the bounds closing in here.")
    ] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Train a model, and prove how close to optimal it is.

    The exit code is 0 only if the tolerance was met, 1 if not, 2 for bad input, 130 after Ctrl-C
    (which keeps the best model so far).
    """
    task, loss = task_and_loss(task, loss)
    check_solver_options(lam=lam, c=c, tol=tol, max_iter=max_iter, time_limit=time_limit)
    check_loss_options(loss, quantile=quantile, epsilon=epsilon, delta=delta)
    require_at_least_one("--threads", threads)
    require_at_least_one("--features", features)
    if class_weight is not None and task is Task.REGRESSION:
        raise InputError("--class-weight is for classification")
    if method is not None:
        require_known("--method", method, METHODS)
    if plot is not None:
        require_plotting()
    require_outputs({"--out": out, "--trace": trace, "--plot": plot}, inputs=[train])

    name = name_of(train)
    data = read_svmlight(train, n_features=features)
    estimator: Estimator
    if task is Task.CLASSIFICATION:
        y = class_labels(data.y, name)
        estimator = LinearClassifier(loss)
    else:
        y = target_numbers(data.y, name)
        estimator = LinearRegressor(loss)
    given = {
        "lam": lam,
        "C": c,
        "tol": tol,
        "fit_intercept": intercept,
        "class_weight": class_weight and class_weight.value,
        "quantile": quantile,
        "epsilon": epsilon,
        "delta": delta,
        "max_iter": max_iter,
        "time_limit": time_limit,
        "method": method,
        "n_jobs": threads,
    }
    estimator.set_params(**{key: value for key, value in given.items() if value is not None})

    writer = None if trace is None else TraceWriter(trace)
    fitted = _fit(estimator, data.X, y, name=name, trace=writer, quiet=quiet)
    if out is not None:
        save_model(estimator, out)
    if plot is not None:
        write_atomically(plot, _picture(fitted, name))
    if writer is not None:
        writer.close()

    if as_json:
        print(json.dumps(fit_to_json(fitted), allow_nan=False))
    elif not quiet:
        print(fit_in_words(fitted))
    raise typer.Exit(_exit_code(fitted.certificate.status))


def _fit(
    estimator: Estimator,
    X: Any,
    y: NDArray[Any],
    *,
    name: str,
    trace: TraceWriter | None,
    quiet: bool,
) -> Fit:
    """Run the fit under watch; its warnings become lines on standard error."""
    with warnings.catch_warnings(record=True) as caught, contextlib.ExitStack() as stack:
        warnings.simplefilter("always")
        watchers: list[Callable[[Record], None]] = [] if trace is None else [trace]
        if not quiet:
            watchers.append(stack.enter_context(progress_on(sys.stderr)))
        estimator.set_params(callbacks=tuple(watchers))
        try:
            estimator.fit(X, y)
        except (ValueError, ArithmeticError) as error:
            raise InputError(f"{name}: {' '.join(str(error).split())}") from error
    for warning in caught:
        print(f"cutplane: {' '.join(str(warning.message).split())}", file=sys.stderr)
    return Fit(estimator, n_samples=X.shape[0])


def _picture(fitted: Fit, name: str) -> bytes:
    estimator, certificate = fitted.estimator, fitted.certificate
    problems = len(fitted.certificates)
    each = f", mean over {problems} classes" if problems > 1 else ""
    return draw_png(
        mean_run(fitted.histories),
        title=f"{estimator.loss} loss on {os.path.basename(name)}, lam = {fitted.lam:g}{each}",
        subtitle=f"{certificate.status}: within {100 * certificate.relative_gap:.2g} % "
        f"of the optimum after {estimator.fit_seconds_:.3g} s",
        tol=estimator.tol,
    )


def _exit_code(status: Status) -> ExitCode:
    if status is Status.INTERRUPTED:
        return ExitCode.INTERRUPTED
    return ExitCode.SUCCESS if status.success else ExitCode.TOLERANCE_MISSED
