"""``cutplane evaluate``: how well a model predicts data whose labels are known."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import typer

from cutplane.cli.options import DataArgument, JsonOption, ModelArgument, QuietOption
from cutplane.estimators.description import Measures, Targets
from cutplane.estimators.evaluation import Evaluation
from cutplane.estimators.evaluation import evaluate as evaluation_of
from cutplane.io import InputError, read_conll, read_frames
from cutplane.io.examples import FileModel, load_for_files, require_columns
from cutplane.io.files import name_of
from cutplane.io.labels import known_labels, target_numbers
from cutplane.report.progress import bar_on


def evaluate(
    model: ModelArgument,
    data: DataArgument,
    bootstrap: Annotated[
        int,
        typer.Option(metavar="N", help="Intervals from N resamples; 1000 is a good number."),
    ] = 0,
    level: Annotated[
        float, typer.Option(help="Share of the resamples that an interval holds.")
    ] = 0.95,
    seed: Annotated[int, typer.Option(min=0, help="Of the resamples.")] = 0,
    at: Annotated[
        str, typer.Option(metavar="K,...", help="For rankings: numbers of first documents.")
    ] = "1,3,5,10",
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Compare a model's predictions with the labels in DATA.

    Classifiers: accuracies, precision, recall and F1 of each class, ROC area (two classes),
    confusion counts; if the loss implies probabilities, Brier score, log loss and calibration.
    Regressors: mean absolute error, root mean squared error, R2, the mean of the model's loss;
    of quantiles the share of labels below them, and the pinball loss.
    Taggers of sequences: accuracy of tokens and sequences; precision, recall and F1 of labels and
    chunks. Of sequences of vectors: segments that are inserted, left out or mistaken.
    Rankers: NDCG, mean average precision and mean reciprocal rank of the first k documents, pairs
    in the right order.
    """
    require_resamples(bootstrap)
    if not 0 < level < 1:
        raise InputError(f"--level must be between 0 and 1, not {level:g}")
    positions = _positions(at)
    loaded = load_for_files(model)
    X, y, options = read_test(loaded, data)
    with resample_progress(bootstrap, quiet=quiet) as progress:
        options |= {"at": positions, "bootstrap": bootstrap, "level": level, "seed": seed}
        found: Evaluation = evaluation_of(loaded.estimator, X, y, progress=progress, **options)
    print(json.dumps(found.measures, allow_nan=False) if as_json else str(found))


def read_test(model: FileModel, data: str) -> tuple[Any, Any, dict[str, Any]]:
    """Read data that suit a model, labels, and what else a measure needs, such as queries."""
    estimator, name = model.estimator, name_of(data)
    targets, measures = estimator.description.targets, estimator.description.measures
    if measures is None or measures is Measures.LABEL_SETS:
        lacks = (
            "has no labels to compare with"
            if targets is Targets.NOTHING
            else "is evaluated in Python only, by cutplane.evaluate"
        )
        raise InputError(f"{name_of(model.path)}: a {type(estimator).__name__} {lacks}")
    if measures is Measures.CHUNKS:
        read = read_conll(data, labels=True)
        X, y = read.split_labels()
        require_columns(model, read.n_columns - 1, data)
        known = estimator.classes_.tolist()
        if set(known).isdisjoint(label for labels in y for label in labels):
            raise InputError(
                f"{name}: the model knows none of the labels in the last column: it knows "
                f"{', '.join(map(str, known[:5]))}, the first one here is {y[0][0]}"
            )
        return X, y, {}
    if measures is Measures.SEGMENTS:
        frames = read_frames(data, n_features=estimator.n_features_in_)
        tags = known_labels(frames.labels, estimator.classes_, name)
        return frames.sequences, frames.cut(tags), {}
    X, labels, qid, _ = model.read(data, labels=True)
    if measures is Measures.CLASSIFICATION:
        return X, known_labels(labels, estimator.classes_, name), {}
    if measures is not Measures.RANKING:
        return X, target_numbers(labels, name), {}
    relevance = target_numbers(labels, name, "ranking")
    if relevance.min() < 0:
        raise InputError(f"{name}: relevance must not be negative, got {relevance.min():g}")
    return X, relevance, {"qid": qid}


def _positions(text: str) -> list[int]:
    try:
        positions = [int(part) for part in text.split(",")]
    except ValueError:
        positions = [0]
    if min(positions) < 1:
        raise InputError(f"--at must be numbers of documents: 1,3,5,10; not {text!r}")
    return positions


def require_resamples(bootstrap: int) -> None:
    """Refuse a negative number of resamples."""
    if bootstrap < 0:
        raise InputError(f"--bootstrap must not be negative, not {bootstrap}")


@contextlib.contextmanager
def resample_progress(resamples: int, *, quiet: bool) -> Iterator[Callable[[float], None]]:
    """Tell on standard error how many of the resamples are done, a tenth at a time."""
    if quiet or not resamples:
        yield lambda share: None
        return
    shown = -1
    with bar_on(sys.stderr) as tell:

        def progress(share: float) -> None:
            nonlocal shown
            if int(10 * share) > shown:
                shown = int(10 * share)
                tell(shown / 10, "resamples")

        yield progress
