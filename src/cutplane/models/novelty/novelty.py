"""Find what is unlike the rest: the linear one-class support vector machine.

Its objective is that of paper 000's novelty detection with the nu-trick,

    |w|^2 / 2 + min_rho mean(max(0, rho - x.w)) / nu - rho

The term in ``rho`` is a quantile loss in disguise: ``max(0, u) = (1 - nu) * max(0, u) + nu *
max(0, -u) + nu * u``. Times ``nu``, and with ``|w|^2 / 2 - w.mean(x)`` made a square, it is

    nu/2 |w - mean(x)|^2 + min_rho mean pinball(x.w - rho) - nu/2 |mean(x)|^2

with the pinball loss of the quantile ``nu`` of the scores. So it is a quantile regression of zero,
regularized towards the mean, with everything that is known about those: the exact best ``rho``,
planes, line searches, Newton steps, bounds that start at zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import OutlierMixin

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.products import dot
from cutplane.core.certificate import Result
from cutplane.estimators.callbacks import Attributes
from cutplane.estimators.description import Description, Targets
from cutplane.estimators.estimator import by_parts, estimator
from cutplane.estimators.fit import Examples, Plan
from cutplane.estimators.linear import LinearModel
from cutplane.losses import Quantile
from cutplane.regularizers import L2
from cutplane.risks import ScoredRisk

# Scores of examples on the margin are equal to the offset but for rounding. They are no outliers.
_ROUNDING = 1e-12
# A mean this much smaller than the examples is what centering leaves of it.
_CENTERED = 1e-9


@estimator
class NoveltyDetector(OutlierMixin, LinearModel):
    """Linear one-class support vector machine that proves how close to optimal it came.

    It finds the halfspace ``x.w >= offset`` that is farthest from the origin while at most a share
    ``nu`` of the examples is outside. What is minimized is ``nu/2 |w - mean(x)|^2`` plus the mean
    quantile loss of ``x.w - offset``. That is ``nu`` times the usual objective of the one-class
    support vector machine, plus ``nu/2 |mean(x)|^2``. There is no ``lam``: it would only scale
    ``w``.

    Parameters
    ----------
    nu : float, default=0.5
        Largest share of outliers among the training examples, between 0 and 1.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    offset_ : float
        Scores below it are outliers.

    Examples
    --------
    >>> import numpy as np
    >>> import cutplane as cp
    >>> X = np.random.default_rng(0).normal(5.0, 1.0, size=(1000, 2))
    >>> model = cp.NoveltyDetector(nu=0.1).fit(X)
    >>> bool((model.predict(X) == -1).mean() <= 0.1)
    True
    >>> model.predict([[5.0, 5.0], [0.0, 1.0]])
    array([ 1, -1])
    """

    description = Description(
        task="novelty",
        targets=Targets.NOTHING,
        only_loss="one_class",
        intercept="offset_",
    )

    nu: float = field(default=0.5, kw_only=False)
    # There is no lam: it would only scale the coefficients.
    lam: ClassVar[None] = None  # type: ignore[misc]
    C: ClassVar[None] = None  # type: ignore[misc]

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X, sample_weight
            As for the other linear models; but the features should not be centered: the origin is
            what the examples are separated from.
        y : ignored
            For pipelines.

        Returns
        -------
        NoveltyDetector
            Itself, fitted.
        """
        super().fit(X, None, sample_weight)
        return self

    @by_parts
    def score_samples(self, X: Any) -> Any:
        """Return the score of each example: the lower, the more unlike the rest."""
        return self._products(X)[:, 0]

    @by_parts
    def decision_function(self, X: Any) -> Any:
        """Return how far each score is above the offset; outliers are below zero."""
        return self.score_samples(X) - self.offset_

    @by_parts
    def predict(self, X: Any) -> Any:
        """Return 1 for examples like the rest, -1 for outliers."""
        return np.where(self.decision_function(X) >= 0.0, 1, -1)

    def _plan(self, examples: Examples) -> Plan:
        if not 0.0 < self.nu < 1.0:
            raise ValueError(f"nu lies strictly between 0 and 1, got {self.nu}")
        # The target is zero and the score x.w - offset: the signs turn the quantile around.
        zeros, loss = np.zeros(len(examples.weights)), Quantile(1.0 - self.nu)
        risk = ScoredRisk(self._rows(examples.X), zeros, loss, weights=examples.weights)
        mean = risk.rows.pullback(risk.weights)
        if dot(mean, mean) <= _CENTERED * float(np.abs(risk.rows.scores(mean)).max()):
            raise ValueError(
                "the mean of the examples is zero, and no halfspace without the origin holds them: "
                "leave out centering, or map the features by RBFSampler or Nystroem of scikit-learn"
            )
        good = (1.0 - self.tol) * 0.5 * self.nu * dot(mean, mean)
        return replace(
            self._plan_of(examples, [risk]),
            regularizer=L2(self.nu, center=mean),
            starts=self._starts((1, risk.n_parameters), otherwise=mean),
            symptom=partial(_symptom, good=good),
            advice="raise nu, or map the features by RBFSampler or Nystroem of scikit-learn",
        )

    def _model(self, coef: Matrix, intercept: Vector) -> Attributes:
        offset = -float(intercept[0])
        return {"coef_": coef[0], "offset_": offset - _ROUNDING * abs(offset)}


def _symptom(flat: Sequence[bool], result: Result, *, good: float) -> str | None:
    """Say that the best coefficients are zero, unless the objective is better than theirs."""
    if result.certificate.objective < good:
        return None
    return (
        "no halfspace without the origin holds all but a share nu of the examples, and the "
        "best coefficients are zero"
    )
