"""Kernel regression with a certificate: quantiles, medians, counts, support vectors."""

from __future__ import annotations

from dataclasses import field
from typing import Any

import numpy as np

from cutplane.estimators.callbacks import Attributes
from cutplane.estimators.collections import by_parts
from cutplane.estimators.description import Targets
from cutplane.estimators.estimator import estimator
from cutplane.estimators.fit import Examples, Plan
from cutplane.estimators.linear.numbers import NumberScores
from cutplane.losses import NU_REGRESSION, REGRESSION
from cutplane.models.gram.model import KernelModel, kernel_description


@estimator
class KernelRegressor(NumberScores, KernelModel):
    """Kernel regression that minimizes ``lam/2 |f|^2 + mean loss`` over all functions.

    The functions are those of the kernel's space, of whatever dimension, and what is proven holds
    for all of them. With "epsilon_insensitive" it is scikit-learn's `SVR` with the same ``C``, with
    "squared" and without an intercept its `KernelRidge` with ``alpha = lam * n_samples``.

    Parameters
    ----------
    loss : str or Loss, default="squared"
        "squared", "absolute", "quantile", "epsilon_insensitive", "squared_epsilon_insensitive",
        "huber" or "poisson"; or "nu_insensitive", whose width follows from a share ``nu`` of the
        examples.
    quantile : float, default=0.5
        Which quantile the loss "quantile" fits.
    delta : float, default=1.35
        Residual from which on the loss "huber" is linear.
    epsilon : float, default=0.1
        Width of the zone without loss of "epsilon_insensitive" and "squared_epsilon_insensitive".
    nu : float, default=0.5
        With "nu_insensitive", the largest share of examples that are off by more than the width of
        the zone without loss.

    Attributes
    ----------
    intercept_ : float

    Examples
    --------
    >>> import numpy as np
    >>> import cutplane as cp
    >>> x = np.linspace(0.0, 6.0, 200)[:, None]
    >>> y = np.sin(x[:, 0]) + np.random.default_rng(0).normal(size=200) * 0.2
    >>> model = cp.KernelRegressor("quantile", quantile=0.9, lam=1e-4).fit(x, y)
    >>> 0.85 <= (y <= model.predict(x)).mean() <= 0.95
    np.True_
    """

    description = kernel_description(
        task="kernel-regression",
        targets=Targets.NUMBERS,
        losses=REGRESSION | NU_REGRESSION,
    )

    loss: Any = field(default="squared", kw_only=False)
    quantile: float = 0.5
    delta: float = 1.35
    epsilon: float = 0.1
    nu: float = 0.5

    @by_parts
    def predict(self, X: Any) -> Any:
        """Return the prediction for each example."""
        return self.loss_function().predict(self._scores(X)[:, 0])

    def _plan(self, examples: Examples) -> Plan:
        y = np.asarray(examples.y, dtype=np.float64)
        return self._kernel_plan(examples, [y], examples.weights, varied=bool(np.ptp(y) > 0.0))

    def _turned(self, attributes: Attributes) -> Attributes:
        return {**attributes, "intercept_": float(attributes["intercept_"][0])}
