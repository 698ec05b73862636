"""``cutplane compare``: several methods on the same data, and scikit-learn's beside them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from cutplane.cli.fit import check_parameters, choose, fit_options
from cutplane.cli.options import require_known, require_outputs
from cutplane.estimators.comparison import FORMATS
from cutplane.estimators.comparison import compare as comparison_of
from cutplane.io import InputError, write_atomically
from cutplane.io.files import name_of
from cutplane.io.tables import TableOptions

_METHODS = "auto,bmrm-line-search,level"


def make_compare() -> Callable[..., None]:
    """Return the command, with the options of the estimators that are registered now."""

    def compare(train: str, **options: Any) -> None:
        """Fit the same model by several methods, and put what they did side by side.

        Each method runs once, after one iteration that is not counted. "proven gap" is what a
        method has proven itself, "above bound" how far its objective is above the best lower bound
        of all of them.
        """
        _compare(train, **options)

    own = inspect.signature(_compare, eval_str=True).parameters
    parameters = [
        *(own[name] for name in own if name != "given"),
        *(option.as_signature() for name, option in fit_options().items() if name != "method"),
    ]
    compare.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return compare


def _compare(
    train: Annotated[
        str, typer.Argument(metavar="TRAIN", help="Data in the format of fit; - is stdin.")
    ],
    *,
    methods: Annotated[
        str, typer.Option(metavar="NAME,...", help="Methods to compare.")
    ] = _METHODS,
    peers: Annotated[
        bool, typer.Option("--peers", help="Also scikit-learn's models with the same objective.")
    ] = False,
    task: Annotated[str | None, typer.Option(metavar="TASK", help="As for fit.")] = None,
    loss: Annotated[str | None, typer.Option(metavar="NAME", help="As for fit.")] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="The column to predict: TRAIN is a table."),
    ] = None,
    format: Annotated[
        str, typer.Option(metavar="NAME", help=f"Of the table: {', '.join(FORMATS)}.")
    ] = "text",
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", metavar="HTML", help="Write a page with curves to this file."),
    ] = None,
    **given: Any,
) -> None:
    """Compare what the options say; ``given`` are those that are parameters of estimators."""
    choice = choose(task, loss)
    parameters = check_parameters(choice, given | {"method": None})
    require_known("--format", format, FORMATS)
    names = [name.strip() for name in methods.split(",")]
    for name in names:
        require_known("--methods", name, choice.description.methods)
    require_outputs({"--out": out}, inputs=[train])
    examples = choice.read(train, parameters, table=TableOptions(target) if target else None)
    estimator = choice.make(parameters)
    try:
        found = comparison_of(
            estimator, names, examples.X, examples.y, peers=peers, fit_params=examples.options
        )
    except (ValueError, ArithmeticError) as error:
        raise InputError(f"{name_of(train)}: {error}") from error
    if out is not None:
        write_atomically(out, found.report().html.encode())
    print(found.table(format))
