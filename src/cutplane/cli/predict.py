"""``cutplane predict``: one prediction per line."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any

import typer

from cutplane.cli.options import (
    DataArgument,
    ModelArgument,
    QuietOption,
    require_at_least_one,
    require_outputs,
)
from cutplane.estimators.description import Reads, Targets
from cutplane.io import ConllData, InputError, read_conll, write_atomically
from cutplane.io.examples import FileModel, load_for_files, require_columns
from cutplane.io.labels import harmless, show_label


def predict(
    model: ModelArgument,
    data: DataArgument,
    out: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write here instead of standard output.")
    ] = None,
    scores: Annotated[
        bool, typer.Option("--scores", help="Print decision values, one column per class.")
    ] = False,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Print probabilities, one column per class.")
    ] = False,
    n_best: Annotated[
        int | None,
        typer.Option("--n-best", metavar="N", help="For sequences: print the N best labelings."),
    ] = None,
    formulas: Annotated[
        bool,
        typer.Option("--formulas", help="Print labels such as =A1+1 as they are, not as '=A1+1."),
    ] = False,
    quiet: QuietOption = False,
) -> None:
    """Predict a label for every line of DATA; the labels in DATA are ignored.

    Labels are printed as they stood in the training file; words that a spreadsheet would take for
    a formula, such as =A1+1, have an apostrophe before them, unless --formulas is given. With two
    classes, --scores prints one column: positive for the second class. For a ranker, the
    predictions are the scores by which the documents of a query are ranked, highest first.

    A model of several quantiles prints a column for each of them, a model of many labels the
    numbers of those that an example has, with commas between them.

    For a tagger of sequences, DATA are columns, and all of them are printed with one more. With
    --n-best, each sequence is printed N times, each time after a line "# rank probability" (or
    score).

    For sequences of vectors, the class of each sequence is printed, or the label of each frame,
    with an empty line after each sequence.
    """
    given = {"--scores": scores, "--probabilities": probabilities, "--n-best": n_best is not None}
    chosen = [option for option, is_given in given.items() if is_given]
    if len(chosen) > 1:
        raise InputError(f"give {chosen[0]} or {chosen[1]}, not both")
    require_at_least_one("--n-best", n_best)
    require_outputs({"--out": out}, inputs=[model, data])
    loaded = load_for_files(model)
    estimator = loaded.estimator
    sequences = estimator.description.reads is Reads.SEQUENCES
    if chosen:
        _require_method(estimator, chosen[0], sequences=sequences)
    if sequences:
        text = _tagged(loaded, data, probabilities, n_best, quiet=quiet)
    else:
        X = loaded.read(data, labels=False).X
        show = str if formulas else harmless
        lines = _lines(estimator, X, *chosen, show=show, quiet=quiet)
        text = "".join(f"{line}\n" for line in lines)
    if out is None:
        sys.stdout.buffer.write(text.encode())  # as in the training file, whatever the terminal
    else:
        write_atomically(out, text.encode())


_METHODS = {
    False: {"--scores": "decision_function", "--probabilities": "predict_proba"},
    True: {"--probabilities": "predict_marginals", "--n-best": "predict_n_best"},
}
"""Of rows, and of sequences."""


def _require_method(estimator: Any, option: str, *, sequences: bool) -> None:
    if hasattr(estimator, _METHODS[sequences].get(option, "")):
        return
    kind = type(estimator).__name__
    if option == "--n-best":
        raise InputError(f"--n-best: a {kind} has none; it is for sequences")
    loss = f" with the {estimator.loss} loss" if estimator.description.losses else ""
    logistic = option == "--probabilities" and "logistic" in estimator.description.losses
    instead = "; fit with --loss logistic" if logistic else ""
    raise InputError(f"{option}: a {kind}{loss} has none{instead}")


def _lines(
    estimator: Any, X: Any, option: str = "", *, show: Callable[[str], str], quiet: bool
) -> Iterable[str]:
    """Return the line of each example: a label as it is shown, or what the option asks for."""
    if estimator.description.targets is Targets.TAGS:
        tagged = estimator.predict(X)
        return [show(line) for tags in tagged for line in (*map(show_label, tags), "")]
    values = getattr(estimator, _METHODS[False].get(option, "predict"))(X)
    if values.ndim == 1:
        if option or not hasattr(estimator, "classes_"):
            return map(repr, values.tolist())
        texts = map(show, _class_names(estimator))
        shown = dict(zip(estimator.classes_.tolist(), texts, strict=True))
        return [shown[label] for label in values.tolist()]
    if values.dtype.kind == "f":
        _say_columns(estimator, quiet=quiet)
        return _numbers(values)
    # Many labels, as in files of the svmlight format; an empty line has none.
    names = [*map(show, _class_names(estimator))]
    return [",".join(names[label] for label in row.nonzero()[0]) for row in values]


def _class_names(estimator: Any) -> list[str]:
    """Return the classes as they stood in the training file."""
    texts: list[str] | None = getattr(estimator, "class_texts_", None)
    return [*map(show_label, estimator.classes_)] if texts is None else texts


def _tagged(
    model: FileModel, data: str, probabilities: bool, n_best: int | None, *, quiet: bool
) -> str:
    """Return the text for sequences: their columns and labels, or the probabilities of labels."""
    tagger = model.estimator
    if probabilities:
        _say_columns(tagger, quiet=quiet)
    read = read_conll(data)  # columns that the model does not know are left alone
    require_columns(model, read.n_columns, data)
    if probabilities:
        blocks = map(_numbers, tagger.predict_marginals(read.sequences))
        return "".join(f"{line}\n" for block in blocks for line in (*block, ""))
    if n_best is not None:
        return "".join(_ranked(tagger, read, n_best))
    return read.with_column([labels.tolist() for labels in tagger.predict(read.sequences)])


def _ranked(tagger: Any, data: ConllData, n: int) -> Iterator[str]:
    """Yield each sequence with its n best labelings, best first.

    Each begins with a line as CRF++ writes it: ``#``, the rank from 0 on, and the probability of
    the labels, or their score if the model knows no probabilities.
    """
    labelings = tagger.predict_n_best(data.sequences, n)
    for sequence, ranked in zip(data.sequences, labelings, strict=True):
        alone = ConllData([sequence], data.separator)
        for rank, (labels, score, log_probability) in enumerate(ranked):
            value = score if log_probability is None else math.exp(log_probability)
            yield f"# {rank} {value!r}\n"
            yield alone.with_column([labels.tolist()])


def _numbers(values: Any) -> Iterator[str]:
    return (" ".join(map(repr, row)) for row in values.tolist())


def _say_columns(estimator: Any, *, quiet: bool) -> None:
    names = [*map(show_label, getattr(estimator, "quantiles", ()))]
    if hasattr(estimator, "classes_"):
        names = _class_names(estimator)
    if not quiet and names:
        print(f"columns: {' '.join(names)}", file=sys.stderr)
