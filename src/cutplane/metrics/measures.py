"""Measures of predictions in which each example counts so often: what a bootstrap draws again.

A `Quality` holds predictions beside the truth, prepared once. Its measures are functions of how
often each unit (example, query or sequence) counts: once each for the measures of the data, as
often as it was drawn for those of a resample. One that is not defined is NaN.

scikit-learn's weighted metrics agree to the last digits where both are defined. They are not used:
of a resample without a class, or of equal numbers, they warn, raise, or return 0 or 1, where here
is NaN; and one table of counts, made once per resample, gives all measures of all classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from cutplane.compute.arrays import Matrix, Vector

Columns = dict[str, Vector]
Measures = dict[str, float | Columns]
"""Numbers by name, and tables by name, whose columns are vectors."""


class Quality(Protocol):
    """Predictions beside the truth.

    Attributes
    ----------
    unit : str
        What the units are called, in the plural.
    n_units : int
    """

    unit: str
    n_units: int

    def facts(self) -> dict[str, Any]:
        """Return what stands beside the measures: counts, and for each table its first columns."""

    def at(self, counts: Vector) -> Measures:
        """Return the measures if unit ``i`` is there ``counts[i]`` times."""


def share(part: Any, whole: Any) -> Any:
    """Return a quotient, elementwise; NaN where the denominator is zero."""
    part, whole = np.asarray(part, dtype=np.float64), np.asarray(whole, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.where(whole > 0.0, part / whole, np.nan)
    return float(found) if found.ndim == 0 else found


def retrieved(right: Vector, predicted: Vector, there: Vector) -> Columns:
    """Return precision, recall and F1 of things that are looked for, from their counts."""
    return {
        "precision": share(right, predicted),
        "recall": share(right, there),
        "f1": share(2.0 * right, predicted + there),
    }


def measured(
    quality: Quality,
    *,
    resamples: int = 0,
    level: float = 0.95,
    seed: int = 0,
    progress: Callable[[float], None] = lambda share: None,
) -> dict[str, Any]:
    """Return facts and measures as plain values, None where not defined.

    Parameters
    ----------
    quality : Quality
    resamples : int
        How many times to draw as many units as there are, with replacement. If positive, an entry
        ``intervals`` holds percentile intervals, in the shape of the measures.
    level : float
        The share of resamples whose measures lie in an interval.
    seed : int
    progress : callable
        Called with the share of the resamples that is done.
    """
    own, report = quality.at(np.ones(quality.n_units)), quality.facts()
    numbers = _numbers(own)
    plain = [None if np.isnan(number) else float(number) for number in numbers]
    for name, value in _arranged(plain, own).items():
        if isinstance(value, list):  # a table, some of whose columns may be facts
            rows = report.get(name, [{} for _ in value])
            report[name] = [first | rest for first, rest in zip(rows, value, strict=True)]
        else:
            report[name] = value
    if resamples > 0:
        ends = _percentiles(quality, numbers, resamples, level, seed, progress)
        intervals = [None if np.isnan(pair).any() else pair.tolist() for pair in ends]
        report["intervals"] = {
            "level": level,
            "resamples": resamples,
            "seed": seed,
            "unit": quality.unit,
            **_arranged(intervals, own),
        }
    return report


def _percentiles(
    quality: Quality,
    own: Vector,
    resamples: int,
    level: float,
    seed: int,
    progress: Callable[[float], None],
) -> Matrix:
    """Return both ends of the interval of each number, NaN where no resample is defined."""
    drawn = np.empty((resamples, own.size))
    rng = np.random.default_rng(seed)
    for done in range(resamples):
        chosen = rng.integers(0, quality.n_units, size=quality.n_units)
        counts = np.bincount(chosen, minlength=quality.n_units).astype(np.float64)
        drawn[done] = _numbers(quality.at(counts))
        progress((done + 1) / resamples)
    ends = np.full((own.size, 2), np.nan)
    known = ~np.isnan(drawn).all(axis=0) & ~np.isnan(own)
    tail = (1.0 - level) / 2.0
    if known.any():
        ends[known] = np.nanquantile(drawn[:, known], [tail, 1.0 - tail], axis=0).T
    return ends


def _numbers(measures: Measures) -> Vector:
    """Return all numbers, those of tables column by column."""
    found = list[float]()
    for value in measures.values():
        for column in value.values() if isinstance(value, dict) else [[value]]:
            found.extend(column)
    return np.array(found)


def _arranged(values: Iterable[Any], measures: Measures) -> dict[str, Any]:
    """Return values in the places of the numbers of measures; tables are lists of rows."""
    each, found = iter(values), dict[str, Any]()
    for name, value in measures.items():
        if isinstance(value, dict):
            columns = [[next(each) for _ in column] for column in value.values()]
            found[name] = [dict(zip(value, row, strict=True)) for row in zip(*columns, strict=True)]
        else:
            found[name] = next(each)
    return found


N_BINS = 10
"""Probabilities are put into so many bins of equal width to be compared with what happened."""

# The logarithm of a probability of zero counts as that of this one, as scikit-learn has it.
_LEAST = float(np.finfo(np.float64).eps)


class ClassQuality:
    """Predicted classes beside the right ones; labels that no class is of count as mistakes.

    Parameters
    ----------
    y, predicted : ndarray of shape (n_samples,)
    classes : ndarray
        Those that the model knows.
    positive : label, optional
        Which of two classes is looked for.
    scores : ndarray of shape (n_samples,), optional
        The higher, the rather positive.
    probabilities : ndarray of shape (n_samples, n_classes), optional
    """

    unit = "samples"

    def __init__(
        self,
        y: NDArray[Any],
        predicted: NDArray[Any],
        classes: NDArray[Any],
        *,
        positive: Any = None,
        scores: Vector | None = None,
        probabilities: Matrix | None = None,
    ) -> None:
        self.n_units = len(y)
        self._labels = np.concatenate([classes, np.setdiff1d(y, classes)])
        place = {label: i for i, label in enumerate(self._labels.tolist())}
        self._actual = np.array([place[label] for label in y.tolist()], dtype=np.intp)
        self._found = np.array([place[label] for label in predicted.tolist()], dtype=np.intp)
        self._positive = positive
        self._roc = None
        if positive is not None and scores is not None:
            self._roc = _ROC(y == positive, scores)
        self._calibration = None
        if probabilities is not None:
            looked_for = None if positive is None else place[np.asarray(positive).item()]
            self._calibration = Calibration(self._actual, probabilities, looked_for)

    def facts(self) -> dict[str, Any]:
        """Return the confusion counts, and how often each class is there."""
        confusion = self._confusion(np.ones(self.n_units)).astype(np.int64)
        labels, there = self._labels.tolist(), confusion.sum(axis=1).tolist()
        facts: dict[str, Any] = {"n_samples": self.n_units}
        if self._positive is not None:
            facts["positive_class"] = np.asarray(self._positive).item()
        facts |= {
            "classes": labels,
            "confusion": confusion.tolist(),
            "per_class": [
                {"label": label, "samples": count}
                for label, count in zip(labels, there, strict=True)
            ],
        }
        if self._calibration is not None:
            facts |= self._calibration.facts()
        return facts

    def at(self, counts: Vector) -> Measures:
        """Return accuracies, measures of each class, and those of the positive one."""
        confusion = self._confusion(counts)
        right, there = confusion.diagonal(), confusion.sum(axis=1)
        per_class = retrieved(right, confusion.sum(axis=0), there)
        measures: Measures = {
            "accuracy": share(right.sum(), there.sum()),
            "balanced_accuracy": _mean_of_defined(per_class["recall"]),
        }
        if self._positive is None:
            measures["macro_f1"] = _mean_of_defined(per_class["f1"])
        else:
            place = self._labels.tolist().index(np.asarray(self._positive).item())
            measures |= {name: float(column[place]) for name, column in per_class.items()}
        if self._roc is not None:
            measures["roc_area"] = self._roc.area(counts)
        if self._calibration is not None:
            measures |= self._calibration.at(counts)
        return measures | {"per_class": per_class}

    def _confusion(self, counts: Vector) -> Matrix:
        n_labels = len(self._labels)
        cells: Vector = np.bincount(
            self._actual * n_labels + self._found, weights=counts, minlength=n_labels**2
        ).astype(np.float64)
        return cells.reshape(n_labels, n_labels)


class Calibration:
    """Probabilities beside what happened.

    Of two classes it is the probability of the one that is looked for, of more that of the most
    probable class.

    Parameters
    ----------
    actual : ndarray of shape (n_samples,)
        The column of the right class; beyond the last if the model does not know it.
    probabilities : ndarray of shape (n_samples, n_classes)
    looked_for : int, optional
        The column of the one of two classes that is looked for.
    """

    def __init__(
        self, actual: NDArray[np.intp], probabilities: Matrix, looked_for: int | None
    ) -> None:
        n_samples, n_classes = probabilities.shape
        known = actual < n_classes
        own = np.zeros(n_samples)
        own[known] = probabilities[known.nonzero()[0], actual[known]]
        self._log_losses = -np.log(np.maximum(own, _LEAST))
        if looked_for is None:
            # sum_k (p_k - [y = k])^2, where a class that is not known has probability zero
            self._squares = (probabilities**2).sum(axis=1) - 2.0 * own + 1.0
            self._said = probabilities.max(axis=1)
            self._happened = (probabilities.argmax(axis=1) == actual).astype(np.float64)
        else:
            self._said = probabilities[:, looked_for]
            self._happened = (actual == looked_for).astype(np.float64)
            self._squares = (self._said - self._happened) ** 2
        self._bins = np.minimum((self._said * N_BINS).astype(np.intp), N_BINS - 1)

    def facts(self) -> dict[str, Any]:
        """Return the bins, and how many examples are in each."""
        samples = np.bincount(self._bins, minlength=N_BINS).tolist()
        bins = [
            {"from": place / N_BINS, "to": (place + 1) / N_BINS, "samples": count}
            for place, count in enumerate(samples)
        ]
        return {"calibration": bins}

    def at(self, counts: Vector) -> Measures:
        """Return Brier score, log loss, and what was said and happened in each bin.

        The calibration error is the mean distance of both, over the examples.
        """
        n, said, happened = (
            np.bincount(self._bins, weights=counts * each, minlength=N_BINS)
            for each in (np.ones(len(counts)), self._said, self._happened)
        )
        total = counts.sum()
        return {
            "brier": float(counts @ self._squares / total),
            "log_loss": float(counts @ self._log_losses / total),
            "calibration_error": float(np.abs(said - happened).sum() / total),
            "calibration": {"predicted": share(said, n), "observed": share(happened, n)},
        }


class _ROC:
    """Positives and negatives sorted by score, once."""

    def __init__(self, positive: NDArray[np.bool_], scores: Vector) -> None:
        self._order = np.argsort(scores, kind="stable")
        ranked = scores[self._order]
        self._positive = positive[self._order].astype(np.float64)
        self._starts = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]])

    def area(self, counts: Vector) -> float:
        """Return the share of pairs in which the positive one scores higher; ties count half."""
        counts = counts[self._order]
        positives = np.add.reduceat(counts * self._positive, self._starts)
        negatives = np.add.reduceat(counts * (1.0 - self._positive), self._starts)
        below = np.cumsum(negatives) - negatives
        pairs = positives.sum() * negatives.sum()
        return float(share(positives @ (below + negatives / 2.0), pairs))


class LabelSetQuality:
    """Predicted sets of labels beside the right ones, as matrices of 0 and 1."""

    unit = "samples"

    def __init__(self, y: Matrix, predicted: Matrix) -> None:
        self.n_units = len(y)
        self._there, self._found = y != 0, predicted != 0
        self._right = (self._there & self._found).astype(np.float64)
        self._equal = (self._there == self._found).astype(np.float64)

    def facts(self) -> dict[str, Any]:
        """Return how often each label is there."""
        per_label = [
            {"label": label, "samples": int(count)}
            for label, count in enumerate(self._there.sum(axis=0))
        ]
        return {"n_samples": self.n_units, "n_labels": len(per_label), "per_label": per_label}

    def at(self, counts: Vector) -> Measures:
        """Return how many sets and labels are right, and measures of each label."""
        right, found, there = counts @ self._right, counts @ self._found, counts @ self._there
        per_label = retrieved(right, found, there)
        total = counts.sum()
        return {
            "exact_accuracy": float(counts @ self._equal.all(axis=1) / total),
            "label_accuracy": float(counts @ self._equal.mean(axis=1) / total),
            "micro_f1": share(2.0 * right.sum(), found.sum() + there.sum()),
            "macro_f1": _mean_of_defined(per_label["f1"]),
            "per_label": per_label,
        }


def _mean_of_defined(values: Vector) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else float("nan")


def pinball_losses(y: Vector, predicted: Matrix, quantiles: Vector) -> Matrix:
    """Return the pinball loss of each example, a column for each quantile."""
    errors = y[:, None] - predicted
    losses: Matrix = np.maximum(quantiles * errors, (quantiles - 1.0) * errors)
    return losses


def d2_of_quantiles(y: Vector, predicted: Matrix, quantiles: Vector, weights: Vector) -> float:
    """Return by which share pinball losses, added up, are below those of the best constants.

    For one quantile it is scikit-learn's ``d2_pinball_score``.
    """
    constants = np.quantile(y, quantiles, weights=weights, method="inverted_cdf")
    own, others = (
        float(np.average(pinball_losses(y, of, quantiles).sum(axis=1), weights=weights))
        for of in (predicted, np.broadcast_to(constants, predicted.shape))
    )
    return _share_saved(own, others)


def d2_of_counts(y: Vector, predicted: Vector, weights: Vector) -> float:
    """Return by which share the Poisson deviance is below that of the mean count.

    It is scikit-learn's ``d2_tweedie_score`` with ``power=1``.
    """
    if (y < 0.0).any():
        raise ValueError("counts must be zero or positive")
    # A mean that underflowed is not zero.
    means = np.maximum(predicted, np.finfo(np.float64).tiny)
    mean = float(np.average(y, weights=weights))

    def deviance(of: Any) -> float:
        return float(np.average(xlogy(y, y / of) - y + of, weights=weights))

    return _share_saved(deviance(means), deviance(mean) if mean > 0.0 else 0.0)


def _share_saved(own: float, others: float) -> float:
    """Return which share of a constant's loss predictions save, as scikit-learn defines it."""
    if others > 0.0:
        return 1.0 - own / others
    return 1.0 if own <= 0.0 else 0.0


class NumberQuality:
    """Predicted numbers beside the right ones.

    Parameters
    ----------
    y, predicted : ndarray of shape (n_samples,)
    mean_loss : callable, optional
        From the share that each example has to the mean of what the model was trained to keep
        small.
    quantile : float, optional
        The share of numbers that should lie below the predictions.
    """

    unit = "samples"

    def __init__(
        self,
        y: Vector,
        predicted: Vector,
        *,
        mean_loss: Callable[[Vector], float] | None = None,
        quantile: float | None = None,
    ) -> None:
        self.n_units = len(y)
        # Deviations from one mean, so that large targets leave no rounding in the spread.
        self._centered = y - y.mean()
        self._errors = y - predicted
        self._mean_loss, self._quantile = mean_loss, quantile
        self._below = (y <= predicted).astype(np.float64)

    def facts(self) -> dict[str, Any]:
        """Return how many examples there are, and the quantile that was asked for."""
        facts: dict[str, Any] = {"n_samples": self.n_units}
        return facts if self._quantile is None else facts | {"quantile": self._quantile}

    def at(self, counts: Vector) -> Measures:
        """Return mean errors, the share of variance explained, the mean loss, and the coverage."""
        shares = counts / counts.sum()
        squares = float(shares @ self._errors**2)
        spread = float(shares @ (self._centered - shares @ self._centered) ** 2)
        # A resample of equal numbers: what is left of the spread is rounding.
        varies = spread > 1e-20 * float(np.abs(self._centered).max()) ** 2
        measures: Measures = {
            "mae": float(shares @ np.abs(self._errors)),
            "rmse": float(np.sqrt(squares)),
            "r2": 1.0 - squares / spread if varies else float("nan"),
        }
        if self._quantile is not None:
            measures["coverage"] = float(shares @ self._below)
        if self._mean_loss is not None:
            measures["mean_loss"] = float(self._mean_loss(shares))
        return measures


class QuantileQuality:
    """Predicted quantiles, a column each, beside the numbers that came.

    Parameters
    ----------
    y : ndarray of shape (n_samples,)
    predicted : ndarray of shape (n_samples, n_quantiles)
    quantiles : ndarray of shape (n_quantiles,)
    """

    unit = "samples"

    def __init__(self, y: Vector, predicted: Matrix, quantiles: Vector) -> None:
        self.n_units = len(y)
        self._quantiles = np.asarray(quantiles, dtype=np.float64)
        self._below = (y[:, None] <= predicted).astype(np.float64)
        self._pinball = pinball_losses(y, predicted, self._quantiles)
        self._inside = ((predicted[:, 0] <= y) & (y <= predicted[:, -1])).astype(np.float64)

    def facts(self) -> dict[str, Any]:
        """Return the quantiles, and the share that should lie between the outer ones."""
        facts: dict[str, Any] = {"n_samples": self.n_units}
        if len(self._quantiles) > 1:
            facts["nominal_coverage"] = float(self._quantiles[-1] - self._quantiles[0])
        quantiles = [{"quantile": quantile} for quantile in self._quantiles.tolist()]
        return facts | {"per_quantile": quantiles}

    def at(self, counts: Vector) -> Measures:
        """Return the shares below each quantile and between the outer ones, and pinball losses."""
        shares = counts / counts.sum()
        pinball = shares @ self._pinball
        measures: Measures = {"pinball_loss": float(pinball.mean())}
        if len(self._quantiles) > 1:
            measures["interval_coverage"] = float(shares @ self._inside)
        columns = {"coverage": shares @ self._below, "pinball_loss": pinball}
        return measures | {"per_quantile": columns}
