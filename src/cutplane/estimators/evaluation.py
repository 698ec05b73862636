"""How well a fitted model predicts data whose targets are known.

The description of an estimator says which measures go with its predictions; here are the
predictions that each of them needs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cutplane.compute.arrays import is_dask, require_in_memory
from cutplane.estimators.description import Measures
from cutplane.metrics import (
    RANKED_AT,
    ClassQuality,
    LabelSetQuality,
    NumberQuality,
    Quality,
    QuantileQuality,
    RankingQuality,
    Rankings,
    SegmentQuality,
    TokenQuality,
    measured,
)
from cutplane.models.ranking.loss import Queries
from cutplane.report.measures import measures_in_words, measures_to_html


@dataclass(frozen=True, repr=False)
class Evaluation:
    """Measures of a model's predictions.

    Attributes
    ----------
    measures : dict
        Numbers, tables (lists of rows) and counts by name, in plain values that JSON can hold; None
        where a measure is not defined for the data. With a bootstrap, ``intervals`` has the ends of
        an interval for each measure, under the same names.
    """

    measures: dict[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.measures[name]

    def __str__(self) -> str:
        return measures_in_words(self.measures)

    def __repr__(self) -> str:
        numbers = (
            f"{name}={value:.4g}"
            for name, value in self.measures.items()
            if isinstance(value, float)
        )
        return f"Evaluation({', '.join(numbers)})"

    def _repr_html_(self) -> str:
        return measures_to_html(self.measures)


def evaluate(
    model: Any,
    X: Any,
    y: Any,
    *,
    qid: Any = None,
    at: Sequence[int] = RANKED_AT,
    bootstrap: int = 0,
    level: float = 0.95,
    seed: int = 0,
    progress: Callable[[float], None] = lambda share: None,
) -> Evaluation:
    """Compare a model's predictions with the truth, in all measures that go with them.

    Parameters
    ----------
    model : estimator
        A fitted estimator of cutplane, or a pipeline that ends with one.
    X, y
        Data as its ``fit`` takes them. Of Dask collections, predictions and truth are fetched, and
        rows stay where they are.
    qid : array-like, optional
        For a ranker: the query of each document.
    at : sequence of int
        For a ranker: the numbers of first documents to look at.
    bootstrap : int
        How many resamples to draw for percentile intervals: of examples, of queries for a ranker,
        of sequences for a tagger. None are drawn by default.
    level : float
        The share of resamples whose measures lie in an interval.
    seed : int
        Of the resamples. The same seed gives the same intervals.
    progress : callable
        Called with the share of the resamples that is done.

    Returns
    -------
    Evaluation

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import cutplane as cp
    >>> X, y = load_iris(return_X_y=True)
    >>> model = cp.LinearClassifier("logistic", lam=0.01).fit(X, y)
    >>> found = cp.evaluate(model, X, y, bootstrap=100)
    >>> round(found["accuracy"], 1)
    0.9
    >>> low, high = found["intervals"]["accuracy"]
    >>> low <= found["accuracy"] <= high
    True
    """
    from sklearn.utils.validation import check_is_fitted

    if bootstrap < 0:
        raise ValueError(f"bootstrap must not be negative, got {bootstrap}")
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must be between 0 and 1, got {level:g}")
    model, X = split_pipeline(model, X)
    check_is_fitted(model)
    y, qid = fetched(y), fetched(qid)
    measures = model.description.measures
    if measures is None:
        raise TypeError(f"there are no measures for a {type(model).__name__}")
    if measures is Measures.RANKING:
        quality: Quality = ranking_quality(model, X, y, qid, at)
    elif qid is not None:
        raise ValueError(f"qid is for rankers, not for a {type(model).__name__}")
    else:
        quality = _QUALITIES[measures](model, X, y)
    found = measured(quality, resamples=bootstrap, level=level, seed=seed, progress=progress)
    if measures is Measures.REGRESSION:
        found["loss"] = str(model.loss)
    return Evaluation(found)


def split_pipeline(model: Any, X: Any) -> tuple[Any, Any]:
    """Return the last step of a pipeline, and what it sees of the data; others as they are."""
    from sklearn.pipeline import Pipeline

    if isinstance(model, Pipeline):
        require_in_memory("a pipeline", X)
        X = model[:-1].transform(X) if len(model.steps) > 1 else X
        model = model[-1]
    if not hasattr(model, "description"):
        raise TypeError(f"not an estimator of cutplane: {type(model).__name__}")
    return model, X


def fetched(numbers: Any) -> Any:
    """Return targets or predictions: those of a Dask collection, others as they are."""
    return numbers.compute() if is_dask(numbers) else numbers


def ranking_quality(
    model: Any, X: Any, y: Any, qid: Any, at: Sequence[int] = RANKED_AT
) -> RankingQuality:
    """Return how a ranker ranks the documents of each query."""
    if qid is None:
        raise ValueError("qid is needed: the query of each document")
    if not at or min(at) < 1:
        raise ValueError(f"at must be numbers of documents, at least 1, got {list(at)}")
    queries = Queries(qid)
    y = np.asarray(y, dtype=np.float64)
    if len(queries.numbers) != len(y):
        raise ValueError(f"{len(queries.numbers)} queries for {len(y)} documents")
    return RankingQuality(Rankings(y, fetched(model.predict(X)), queries), queries, sorted({*at}))


def _classification(model: Any, X: Any, y: Any) -> Quality:
    classes, y = model.classes_, np.asarray(y)
    positive, scores = None, None
    if len(classes) == 2:
        positive = getattr(model, "positive_class_", classes[1])
        scores = fetched(model.decision_function(X)) * (1.0 if positive == classes[1] else -1.0)
    probabilities = fetched(model.predict_proba(X)) if hasattr(model, "predict_proba") else None
    return ClassQuality(
        y,
        fetched(model.predict(X)),
        classes,
        positive=positive,
        scores=scores,
        probabilities=probabilities,
    )


def _regression(model: Any, X: Any, y: Any) -> Quality:
    y = np.asarray(y, dtype=np.float64)
    # The mean of what the model was trained to keep small, such as the pinball loss.
    scores = fetched(model._scores(X)[:, 0])
    loss = model.loss_function()
    return NumberQuality(
        y,
        fetched(model.predict(X)),
        mean_loss=lambda shares: loss(y, scores, shares)[0],
        quantile=model.quantile if model.loss == "quantile" else None,
    )


def _quantiles(model: Any, X: Any, y: Any) -> Quality:
    predicted = fetched(model.predict(X))
    return QuantileQuality(np.asarray(y, dtype=np.float64), predicted, model.quantiles)


def _label_sets(model: Any, X: Any, y: Any) -> Quality:
    if model.multilabel_:
        return LabelSetQuality(np.asarray(y), fetched(model.predict(X)))
    return ClassQuality(np.asarray(y), fetched(model.predict(X)), model.classes_)


def _labels(sequences: Any) -> list[list[Any]]:
    return [np.asarray(labels).tolist() for labels in sequences]


def _chunks(model: Any, X: Any, y: Any) -> Quality:
    return TokenQuality(_labels(y), _labels(fetched(model.predict(X))))


def _segments(model: Any, X: Any, y: Any) -> Quality:
    return SegmentQuality(_labels(y), _labels(fetched(model.predict(X))))


_QUALITIES: dict[Measures, Callable[[Any, Any, Any], Quality]] = {
    Measures.CLASSIFICATION: _classification,
    Measures.REGRESSION: _regression,
    Measures.QUANTILES: _quantiles,
    Measures.LABEL_SETS: _label_sets,
    Measures.CHUNKS: _chunks,
    Measures.SEGMENTS: _segments,
}
