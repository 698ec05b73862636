"""``cutplane fit``: train a model, prove how good it is, write it down."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import typer

from cutplane import (
    LinearClassifier,
    LinearRanker,
    LinearRegressor,
    NoveltyDetector,
    OrdinalClassifier,
    SequenceTagger,
)
from cutplane.cli.exit_codes import ExitCode
from cutplane.cli.fit_options import (
    ClassWeight,
    Task,
    check_class_options,
    check_loss_options,
    check_method,
    check_row_options,
    check_solver_options,
    task_and_loss,
)
from cutplane.cli.fit_report import Fit, fit_in_words, fit_to_json
from cutplane.cli.label_options import ordered_labels, positive_label, split_categories
from cutplane.cli.labels import class_labels, target_numbers
from cutplane.cli.options import require_at_least_one, require_outputs
from cutplane.cli.sequence_options import (
    DEFAULT_TEMPLATES,
    MinCountOption,
    Pairs,
    PairsOption,
    TemplatesOption,
    check_sequence_options,
    read_templates,
)
from cutplane.cli.sequences import read_labeled
from cutplane.core.interrupts import held
from cutplane.core.state import State, Status, percent
from cutplane.estimators.methods import METHODS
from cutplane.estimators.multi_class import MULTI_CLASS
from cutplane.estimators.tagger import LOSSES
from cutplane.io import InputError, TraceWriter, read_svmlight, save_model, write_atomically
from cutplane.io.models import Estimator
from cutplane.io.sources import name_of
from cutplane.losses import CLASSIFICATION, MEASURES, RANKING, REGRESSION
from cutplane.report.curves import mean_run
from cutplane.report.figures import draw_run, png_of, require_plotting
from cutplane.report.progress import progress_on

_model_option = partial(typer.Option, rich_help_panel="Model")
_solver_option = partial(typer.Option, rich_help_panel="Solver")
_output_option = partial(typer.Option, rich_help_panel="Output")


_HINT = "\ncutplane: ending with the best model so far; Ctrl-C again ends at once\n"

_ESTIMATORS: dict[Task, Callable[[str], Estimator]] = {
    Task.CLASSIFICATION: LinearClassifier,
    Task.REGRESSION: LinearRegressor,
    Task.ORDINAL: OrdinalClassifier,
    Task.NOVELTY: lambda loss: NoveltyDetector(),
    Task.RANKING: LinearRanker,
}


def fit(
    train: Annotated[
        str,
        typer.Argument(
            metavar="TRAIN",
            help="Data in svmlight format, or in columns for sequences, also compressed; "
            "- is stdin.",
        ),
    ],
    task: Annotated[
        Task | None,
        _model_option(metavar="TASK", help=f"{', '.join(Task)}; by default as the loss."),
    ] = None,
    loss: Annotated[
        str | None,
        _model_option(
            metavar="NAME",
            help=f"For classes: {', '.join([*CLASSIFICATION, *MEASURES])}. "
            f"For numbers: {', '.join(REGRESSION)}. "
            f"For documents of queries: {', '.join(RANKING)}. "
            f"For sequences: {', '.join(LOSSES)}.",
            show_default="hinge, squared, pairwise or crf",
        ),
    ] = None,
    multi_class: Annotated[
        str | None,
        _model_option(
            metavar="NAME",
            help=f"How to tell more than two classes apart: {', '.join(MULTI_CLASS)}.",
            show_default="ovr",
        ),
    ] = None,
    lam: Annotated[
        float | None, _model_option(help="Strength of the regularizer.", show_default="0.0001")
    ] = None,
    c: Annotated[
        float | None, _model_option("--C", help="Instead of --lam: lam = 1/(C * samples).")
    ] = None,
    intercept: Annotated[bool, _model_option(help="Whether to fit an intercept.")] = True,
    class_weight: Annotated[
        ClassWeight | None, _model_option(help="Let small classes count as much as large ones.")
    ] = None,
    positive: Annotated[
        str | None,
        _model_option(
            metavar="LABEL",
            help="Which of two classes is looked for, by losses such as f1.",
            show_default="the last one, sorted",
        ),
    ] = None,
    categories: Annotated[
        str | None,
        _model_option(
            metavar="LABELS",
            help="Grades from low to high, with commas, for task ordinal.",
            show_default="as numbers",
        ),
    ] = None,
    quantile: Annotated[
        float | None, _model_option(help="Which, for loss quantile.", show_default="0.5")
    ] = None,
    epsilon: Annotated[
        float | None,
        _model_option(help="Error without loss, for the epsilon losses.", show_default="0.1"),
    ] = None,
    delta: Annotated[
        float | None,
        _model_option(help="Error from which loss huber is linear.", show_default="1.35"),
    ] = None,
    smoothing: Annotated[
        float | None,
        _model_option(help="Width of the rounded kink of loss smooth_hinge.", show_default="0.5"),
    ] = None,
    beta: Annotated[
        float | None,
        _model_option(help="Weight of recall, for loss f_beta.", show_default="1"),
    ] = None,
    k: Annotated[
        float | None,
        _model_option(
            help="For the losses at k: how many examples, or below 1 which share of them. "
            "For ndcg and ndcg_list: how many positions.",
            show_default="0.1 or 10",
        ),
    ] = None,
    nu: Annotated[
        float | None,
        _model_option(help="Largest share of outliers, for task novelty.", show_default="0.5"),
    ] = None,
    features: Annotated[
        int | None,
        _model_option(help="Number of features.", show_default="largest index in TRAIN"),
    ] = None,
    templates: TemplatesOption = None,
    min_count: MinCountOption = None,
    pairs: PairsOption = None,
    tol: Annotated[float, _solver_option(help="Relative gap to reach.")] = 1e-3,
    max_iter: Annotated[int, _solver_option(help="Stop after so many iterations.")] = 1000,
    time_limit: Annotated[float | None, _solver_option(help="Stop after so many seconds.")] = None,
    method: Annotated[
        str | None, _solver_option(metavar="NAME", help=f"One of {', '.join(METHODS)}.")
    ] = None,
    threads: Annotated[
        int | None, _solver_option(help="Number of threads.", show_default="all cores")
    ] = None,
    out: Annotated[
        str | None, _output_option(metavar="MODEL", help="Write the model to this file.")
    ] = None,
    trace: Annotated[
        str | None, _output_option(metavar="JSONL", help="Write every iteration to this file.")
    ] = None,
    plot: Annotated[
        str | None, _output_option(metavar="PNG", help="Draw the bounds closing in.")
    ] = None,
    as_json: Annotated[bool, _output_option("--json", help="Print one JSON object.")] = False,
    quiet: Annotated[
        bool, _output_option("--quiet", "-q", help="Show no progress and no summary.")
    ] = False,
) -> None:
    """Train a model, and prove how close to optimal it is.

    Exit codes: 0 tolerance met, 1 not met, 2 bad input, 70 a defect of cutplane,
    130 stopped by Ctrl-C (the best model so far is kept).
    """
    task_is_given = task is not None
    task, loss = task_and_loss(task, loss)
    check_solver_options(lam=lam, c=c, tol=tol, max_iter=max_iter, time_limit=time_limit)
    check_loss_options(
        loss,
        quantile=quantile,
        epsilon=epsilon,
        delta=delta,
        smoothing=smoothing,
        beta=beta,
        k=k,
        nu=nu,
    )
    require_at_least_one("--threads", threads)
    check_row_options(task, intercept=intercept, features=features, lam=lam, c=c)
    check_class_options(
        task, loss, class_weight=class_weight, multi_class=multi_class, positive=positive
    )
    if categories is not None and task is not Task.ORDINAL:
        raise InputError("--categories is for --task ordinal")
    order: list[Any] | None = split_categories(categories)
    check_sequence_options(
        sequences=task is Task.SEQUENCES, templates=templates, min_count=min_count, pairs=pairs
    )
    check_method(task, method)
    if plot is not None:
        require_plotting()
    require_outputs({"--out": out, "--trace": trace, "--plot": plot}, inputs=[train])

    name = name_of(train)
    qid: Any = None  # the query of each line, for ranking
    estimator: Estimator
    given: dict[str, Any]
    if task is Task.SEQUENCES:
        estimator = SequenceTagger(
            loss,
            templates=read_templates(templates or DEFAULT_TEMPLATES),
            pairs=pairs or Pairs.OBSERVED.value,
        )
        X, y = read_labeled(train)
        given = {"min_count": min_count, "lam": lam, "C": c}
    else:
        X, y, qid = read_svmlight(train, n_features=features, queries=task is Task.RANKING)
        if task is Task.CLASSIFICATION:
            y = class_labels(y, name, certain=task_is_given)
        elif task is Task.ORDINAL:
            y, order = ordered_labels(y, order, name)
        elif task is not Task.NOVELTY:
            y = target_numbers(y, name, task)
        estimator = _ESTIMATORS[task](loss)
        with_intercept = task in (Task.CLASSIFICATION, Task.REGRESSION)
        given = {"lam": lam, "C": c, "fit_intercept": intercept if with_intercept else None}
    given |= {
        "pos_label": None if positive is None else positive_label(positive, y, name),
        "categories": order,
        "multi_class": multi_class,
        "tol": tol,
        "class_weight": class_weight and class_weight.value,
        "quantile": quantile,
        "epsilon": epsilon,
        "delta": delta,
        "smoothing": smoothing,
        "beta": beta,
        "k": k if k is None or k < 1 else int(k),
        "nu": nu,
        "max_iter": max_iter,
        "time_limit": time_limit,
        "method": method,
        "n_jobs": threads,
    }
    estimator.set_params(**{key: value for key, value in given.items() if value is not None})

    hint = "" if quiet or not sys.stderr.isatty() else _HINT
    with held(hint), contextlib.nullcontext() if trace is None else TraceWriter(trace) as writer:
        fitted = _fit(estimator, X, y, qid, name=name, trace=writer, quiet=quiet)
        if out is not None:
            save_model(estimator, out)
        if plot is not None:
            write_atomically(plot, png_of(_picture(fitted, name)))

    if as_json:
        print(json.dumps(fit_to_json(fitted), allow_nan=False))
    elif not quiet:
        print(fit_in_words(fitted))
    raise typer.Exit(_exit_code(fitted.certificate.status))


def _fit(
    estimator: Estimator,
    X: Any,
    y: Any,
    qid: Any,
    *,
    name: str,
    trace: TraceWriter | None,
    quiet: bool,
) -> Fit:
    """Run the fit under watch; its warnings become lines on standard error."""
    with warnings.catch_warnings(record=True) as caught, contextlib.ExitStack() as stack:
        warnings.simplefilter("always")
        watchers: list[Callable[[State], object]] = [] if trace is None else [trace]
        if not quiet:
            watchers.append(display := progress_on(sys.stderr))
            stack.enter_context(display)
        estimator.set_params(callbacks=tuple(watchers))
        try:
            if isinstance(estimator, LinearRanker):
                estimator.fit(X, y, qid=qid)
            else:
                estimator.fit(X, y)
        except (ValueError, ArithmeticError) as error:
            raise InputError(f"{name}: {' '.join(str(error).split())}") from error
    # Each only once: rounding can warn in every iteration.
    for message in dict.fromkeys(" ".join(str(warning.message).split()) for warning in caught):
        print(f"cutplane: {message}", file=sys.stderr)
    n_tokens = sum(map(len, y)) if isinstance(estimator, SequenceTagger) else None
    return Fit(estimator, n_samples=len(y), n_tokens=n_tokens)


def _picture(fitted: Fit, name: str) -> Any:
    estimator, certificate = fitted.estimator, fitted.certificate
    problems = len(fitted.certificates)
    each = f", mean over {problems} classes" if problems > 1 else ""
    return draw_run(
        mean_run(fitted.histories),
        title=f"{fitted.loss} loss on {os.path.basename(name)}, lam = {estimator.lam_:g}{each}",
        subtitle=f"{certificate.status}: within {percent(certificate.relative_gap)} of "
        f"the optimum after {estimator.fit_seconds_:.3g} s",
        tol=estimator.tol,
    )


def _exit_code(status: Status) -> ExitCode:
    if status is Status.INTERRUPTED:
        return ExitCode.INTERRUPTED
    return ExitCode.SUCCESS if status.success else ExitCode.TOLERANCE_MISSED
