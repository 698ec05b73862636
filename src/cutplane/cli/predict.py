"""``cutplane predict``: one prediction a line."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from numpy.typing import NDArray

from cutplane.cli.labels import show_label
from cutplane.cli.options import DataArgument, ModelArgument, QuietOption, require_outputs
from cutplane.io import InputError, load_model, read_svmlight, write_atomically
from cutplane.io.models import Estimator


def predict(
    model: ModelArgument,
    data: DataArgument,
    out: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write here instead of standard output.")
    ] = None,
    scores: Annotated[
        bool, typer.Option("--scores", help="Print decision values, one column a class.")
    ] = False,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Print probabilities, one column a class.")
    ] = False,
    quiet: QuietOption = False,
) -> None:
    """Predict a label for every line of DATA; the labels in DATA are ignored.

    Labels are printed as they stood in the training file.
    """
    if scores and probabilities:
        raise InputError("give --scores or --probabilities, not both")
    require_outputs({"--out": out}, inputs=[model, data])
    estimator = load_model(model)
    X = read_svmlight(data, n_features=estimator.n_features_in_).X
    if scores:
        values = _method_of(estimator, "decision_function", "--scores")(X)
    elif probabilities:
        values = _method_of(estimator, "predict_proba", "--probabilities")(X)
    else:
        values = estimator.predict(X)
    text = "".join(f"{_line(row)}\n" for row in values)
    if out is None:
        sys.stdout.write(text)
    else:
        write_atomically(out, text.encode())
    if not quiet and values.ndim == 2:
        labels = " ".join(show_label(label) for label in estimator.classes_)
        print(f"columns: {labels}", file=sys.stderr)


def _method_of(estimator: Estimator, method: str, option: str) -> Any:
    if not hasattr(estimator, method):
        what = f"a {type(estimator).__name__} with the {estimator.loss} loss"
        raise InputError(f"{option}: this model has none ({what})")
    return getattr(estimator, method)


def _line(row: NDArray[Any] | Any) -> str:
    if getattr(row, "ndim", 0) == 0:
        return show_label(row)
    return " ".join(show_label(value) for value in row)
