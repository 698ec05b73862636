"""``cutplane predict``: one prediction a line."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Annotated, Any

import typer

from cutplane import LinearQuantiles, MultilabelClassifier, SequenceTagger
from cutplane.cli.labels import show_label
from cutplane.cli.models import load_for_files
from cutplane.cli.options import (
    DataArgument,
    ModelArgument,
    QuietOption,
    require_at_least_one,
    require_outputs,
)
from cutplane.cli.sequences import n_best_columns, probability_lines, tag_columns
from cutplane.io import InputError, read_svmlight, write_atomically
from cutplane.io.models import WithDataFiles


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
    n_best: Annotated[
        int | None,
        typer.Option("--n-best", metavar="N", help="For sequences: print the N best labelings."),
    ] = None,
    quiet: QuietOption = False,
) -> None:
    """Predict a label for every line of DATA; the labels in DATA are ignored.

    Labels are printed as they stood in the training file. With two classes, --scores prints one
    column: positive for the second class. For a ranker, the predictions are the scores by which
    the documents of a query are ranked, highest first.

    A model of several quantiles prints a column for each of them, a model of many labels the
    numbers of those that an example has, with commas between them.

    For a tagger of sequences, DATA are columns, and all of them are printed with one more. With
    --n-best, each sequence is printed N times, each time after a line "# rank probability" (or
    score).
    """
    given = {"--scores": scores, "--probabilities": probabilities, "--n-best": n_best is not None}
    chosen = [option for option, is_given in given.items() if is_given]
    if len(chosen) > 1:
        raise InputError(f"give {chosen[0]} or {chosen[1]}, not both")
    require_at_least_one("--n-best", n_best)
    require_outputs({"--out": out}, inputs=[model, data])
    estimator = load_for_files(model)
    option = chosen[0] if chosen else None
    if n_best is not None:
        if not isinstance(estimator, SequenceTagger):
            raise InputError(
                f"--n-best: a {type(estimator).__name__} has none; it is for sequences"
            )
        text = n_best_columns(estimator, data, model, n_best)
    elif isinstance(estimator, SequenceTagger) and option is None:
        text = tag_columns(estimator, data, model)
    else:
        text = "".join(f"{line}\n" for line in _lines(estimator, data, model, option, quiet=quiet))
    if out is None:
        sys.stdout.buffer.write(text.encode())  # as in the training file, whatever the terminal
    else:
        write_atomically(out, text.encode())


def _lines(
    estimator: WithDataFiles, data: str, model: str, option: str | None, *, quiet: bool
) -> Iterable[str]:
    if option is not None:
        _require_method(estimator, option)
    if isinstance(estimator, SequenceTagger):
        _say_columns(estimator, quiet=quiet)
        return probability_lines(estimator, data, model)
    X = read_svmlight(data, n_features=estimator.n_features_in_).X
    if option is not None:
        return _columns(estimator, getattr(estimator, _METHODS[option])(X), quiet=quiet)
    if isinstance(estimator, LinearQuantiles):
        return _columns(estimator, estimator.predict(X), quiet=quiet)
    if isinstance(estimator, MultilabelClassifier) and estimator.multilabel_:
        # As in files of the svmlight format with many labels; an empty line has none.
        return [",".join(map(str, row.nonzero()[0])) for row in estimator.predict(X)]
    if hasattr(estimator, "classes_"):
        return [show_label(label) for label in estimator.predict(X).tolist()]
    return [repr(number) for number in estimator.predict(X).tolist()]


_METHODS = {"--scores": "decision_function", "--probabilities": "predict_proba"}


def _require_method(estimator: WithDataFiles, option: str) -> None:
    tagger = isinstance(estimator, SequenceTagger) and option == "--probabilities"
    if not hasattr(estimator, "predict_marginals" if tagger else _METHODS[option]):
        loss = f" with the {estimator.loss} loss" if hasattr(estimator, "loss") else ""
        raise InputError(f"{option}: a {type(estimator).__name__}{loss} has none")


def _columns(estimator: WithDataFiles, values: Any, *, quiet: bool) -> Iterable[str]:
    if values.ndim == 1:
        return map(repr, values.tolist())
    _say_columns(estimator, quiet=quiet)
    return (" ".join(map(repr, row)) for row in values.tolist())


def _say_columns(estimator: Any, *, quiet: bool) -> None:
    if not quiet:
        of_columns = "quantiles" if isinstance(estimator, LinearQuantiles) else "classes_"
        labels = " ".join(show_label(label) for label in getattr(estimator, of_columns))
        print(f"columns: {labels}", file=sys.stderr)
