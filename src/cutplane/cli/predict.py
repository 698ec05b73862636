"""``cutplane predict``: one prediction a line."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Annotated, Any

import typer

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

    Labels are printed as they stood in the training file. With two classes, --scores prints one
    column: positive for the second class. For a ranker, the predictions are the scores by which
    the documents of a query are ranked, highest first.
    """
    if scores and probabilities:
        raise InputError("give --scores or --probabilities, not both")
    require_outputs({"--out": out}, inputs=[model, data])
    estimator = load_model(model)
    X = read_svmlight(data, n_features=estimator.n_features_in_).X
    if scores or probabilities:
        lines = _columns(estimator, X, "--scores" if scores else "--probabilities", quiet=quiet)
    elif hasattr(estimator, "classes_"):
        lines = [show_label(label) for label in estimator.predict(X).tolist()]
    else:
        lines = [repr(number) for number in estimator.predict(X).tolist()]
    text = "".join(f"{line}\n" for line in lines)
    if out is None:
        sys.stdout.buffer.write(text.encode())  # as in the training file, whatever the terminal
    else:
        write_atomically(out, text.encode())


_METHODS = {"--scores": "decision_function", "--probabilities": "predict_proba"}


def _columns(estimator: Estimator, X: Any, option: str, *, quiet: bool) -> Iterable[str]:
    if not hasattr(estimator, _METHODS[option]):
        loss = f" with the {estimator.loss} loss" if hasattr(estimator, "loss") else ""
        raise InputError(f"{option}: a {type(estimator).__name__}{loss} has none")
    values = getattr(estimator, _METHODS[option])(X)
    if values.ndim == 1:
        return map(repr, values.tolist())
    if not quiet:
        labels = " ".join(show_label(label) for label in estimator.classes_)
        print(f"columns: {labels}", file=sys.stderr)
    return (" ".join(map(repr, row)) for row in values.tolist())
