"""How far predicted numbers are from the right ones, and how many lie below predicted quantiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import xlogy

from cutplane.compute.arrays import Matrix, Vector
from cutplane.metrics.quality import Measures


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
