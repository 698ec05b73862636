"""How well classes are told apart, and whether probabilities are what they say."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.metrics.quality import Measures, retrieved, share

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
