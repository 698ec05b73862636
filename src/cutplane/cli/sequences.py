"""Sequences between files and a tagger: what fit, predict and evaluate do with columns."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from cutplane import SequenceTagger
from cutplane.io import ConllData, InputError, read_conll
from cutplane.io.sources import name_of
from cutplane.metrics import count_chunks, sequence_accuracy, token_accuracy
from cutplane.structured.templates import TemplateVectorizer


def read_labeled(path: str) -> tuple[Any, Any]:
    """Return tokens without their last column, and that column: their labels."""
    data = read_conll(path, labels=True)
    if data.n_columns < 2:
        raise InputError(
            f"{name_of(path)}: one column only; the last is the label, others make features"
        )
    return data.split_labels()


def tag_columns(tagger: SequenceTagger, path: str, model: str) -> str:
    """Return the text of a file with one more column: the labels that the tagger predicts."""
    data = _readable(tagger, read_conll(path), path, model)
    return data.with_column([labels.tolist() for labels in tagger.predict(data.sequences)])


def probability_lines(tagger: SequenceTagger, path: str, model: str) -> Iterable[str]:
    """Return a line for each token with the probabilities of all labels."""
    data = _readable(tagger, read_conll(path), path, model)
    for probabilities in tagger.predict_marginals(data.sequences):
        yield from (" ".join(map(repr, row)) for row in probabilities.tolist())
        yield ""


def n_best_columns(tagger: SequenceTagger, path: str, model: str, n: int) -> str:
    """Return the text of `tag_columns` n times for each sequence, with the best labels first.

    Each time begins with a line as CRF++ writes it: ``#``, the rank from 0 on, and the probability
    of the labels, or their score if the model knows no probabilities.
    """
    data = _readable(tagger, read_conll(path), path, model)
    parts = []
    for sequence, ranked in zip(
        data.sequences, tagger.predict_n_best(data.sequences, n), strict=True
    ):
        alone = ConllData([sequence], data.separator)
        for rank, (labels, score, log_probability) in enumerate(ranked):
            value = score if log_probability is None else math.exp(log_probability)
            parts += [f"# {rank} {value!r}\n", alone.with_column([labels.tolist()])]
    return "".join(parts)


def evaluate_tagger(tagger: SequenceTagger, path: str, model: str) -> dict[str, Any]:
    """Return how well a tagger predicts the last column of a file."""
    data = read_conll(path, labels=True)
    X, y = data.split_labels()
    _readable(tagger, ConllData(X, data.separator), path, model)
    known = set(tagger.classes_.tolist())
    if known.isdisjoint(label for labels in y for label in labels):
        raise InputError(
            f"{name_of(path)}: the model knows none of the labels in the last column: it knows "
            f"{', '.join(map(str, tagger.classes_[:5]))}, the first one here is {y[0][0]}"
        )
    predicted = [labels.tolist() for labels in tagger.predict(X)]
    report: dict[str, Any] = {
        "n_samples": len(y),
        "n_tokens": data.n_tokens,
        "accuracy": token_accuracy(y, predicted),
        "sequence_accuracy": sequence_accuracy(y, predicted),
    }
    try:
        counts = count_chunks(y, predicted)
    except ValueError:  # labels of another kind
        return report
    report["chunks"] = [
        {
            "type": kind or "all",
            "precision": found.precision,
            "recall": found.recall,
            "f1": found.f1,
            "there": found.there,
            "predicted": found.predicted,
            "right": found.right,
        }
        for kind, found in sorted(counts.items())
    ]
    return report


def chunk_table(chunks: list[dict[str, Any]]) -> list[str]:
    """Return how well chunks of each type are found, as the lines of a table."""
    width = max(len("chunks"), *(len(chunk["type"]) for chunk in chunks))
    shares, numbers = ("precision", "recall", "f1"), ("there", "predicted", "right")
    title = "chunks".ljust(width) + "".join(f"{name:>11}" for name in (*shares, *numbers))
    return [
        title.replace("f1", "F1"),
        *(
            chunk["type"].ljust(width)
            + "".join(f"{chunk[name]:11.4f}" for name in shares)
            + "".join(f"{chunk[name]:11,}" for name in numbers)
            for chunk in chunks
        ),
    ]


def _readable(tagger: SequenceTagger, data: ConllData, path: str, model: str) -> ConllData:
    """Return the data if the tagger makes its features of columns, and these are there."""
    vectorizer = tagger.vectorizer_
    if not isinstance(vectorizer, TemplateVectorizer):
        raise InputError(
            f"{name_of(model)}: a SequenceTagger without templates reads no columns; use Python"
        )
    if data.n_columns < vectorizer.n_columns:
        raise InputError(
            f"{name_of(path)}: {data.n_columns} columns beside labels, the model's templates ask "
            f"for {vectorizer.n_columns}"
        )
    return data
