"""What linear models share: from rows and targets to a plan, from coefficients to scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from cutplane.compute.arrays import Matrix, Vector, dense
from cutplane.compute.collections import is_dask
from cutplane.core.certificate import Result
from cutplane.core.protocols import Regularizer
from cutplane.data import Rows, as_rows, ordered_scores
from cutplane.estimators.callbacks import Attributes
from cutplane.estimators.cautions import rows_are_equal, scores_are_equal, warn_of_unused
from cutplane.estimators.collections import by_parts
from cutplane.estimators.description import Layout, defaults_of, loss_parameters
from cutplane.estimators.estimator import Regularized, estimator
from cutplane.estimators.fit import Examples, Plan, fit_plan
from cutplane.estimators.fitting import fitting
from cutplane.estimators.linear.starts import with_convex_starts
from cutplane.estimators.parameters import check_parameters, lam_of, look_up, threads_of, weights_of
from cutplane.losses import Loss
from cutplane.regularizers import L2
from cutplane.risks import ScoredRisk

FLOATS = (np.float64, np.float32)


def flat_symptom(flat: Sequence[bool], result: Result, several: str = "classes") -> str | None:
    """Return in which way a model is constant, from whether the scores of each problem are."""
    if all(flat):
        return "the best coefficients are zero, and all scores the same"
    if any(flat):
        return f"the best coefficients of {sum(flat)} of {len(flat)} {several} are zero"
    return None


@estimator
class LinearModel(Regularized):
    """A linear model of rows.

    Attributes
    ----------
    n_features_in_ : int
    feature_names_in_ : ndarray
        Only if the training data had feature names.
    """

    # Of fits with a loss that is not convex; parameters where there are names of such losses.
    n_starts = 1
    random_state = 0
    # Of arrays that parameters give and model files keep: those of a parameter come together.
    array_names: ClassVar[tuple[tuple[str, ...], ...]] = ()

    @fitting
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Dense data in C or F order and CSR matrices, in float32 or float64, are used as they
            are. Dask arrays and data frames are fitted where they are: see docs/cluster.md.
        y : array-like of shape (n_samples,)
            The targets, as the text of the class says.
        sample_weight : array-like of shape (n_samples,), optional
            A weight of k counts as k copies, a weight of 0 as none.

        Returns
        -------
        estimator
            Itself, fitted.
        """
        self._check_parameters()
        if is_dask(X):
            self._fit_collection(X, y, sample_weight)
            return self
        return self._fit(self._examples(X, y, sample_weight))

    def loss_function(self) -> Loss:
        """Return the loss that the parameters describe."""
        if isinstance(self.loss, Loss):
            if self.loss.task != (task := self.description.loss_task):
                raise ValueError(f"{self.loss} is a loss for {self.loss.task}, not {task}")
            return self.loss
        self._refuse_loss_of_others()
        make = look_up("loss", self.loss, self.description.losses)
        made: Loss = make(**{name: getattr(self, name) for name in loss_parameters(make)})
        return made

    def _refuse_loss_of_others(self) -> None:
        """Raise ValueError if the loss is known, but to another estimator."""
        if not isinstance(self.loss, str) or self.loss in self.description.losses:
            return
        from cutplane.estimators import ESTIMATORS  # which lists this one

        for name, of in ESTIMATORS.items():
            if self.loss in of.description.losses:
                raise ValueError(
                    f"{self.loss!r} is a loss of {name}; {type(self).__name__} has "
                    f"{', '.join(self.description.losses)}"
                )

    def layout(self) -> Layout:
        """Return which arrays the parameters and classes ask for; ValueError if they disagree."""
        if self.description.losses:
            self.loss_function()  # predictions depend on it
        return Layout()

    def _complete(self, shifts: Vector | None) -> None:
        """Check arrays that were read from a file, and set what follows from them."""
        if shifts is not None:
            self._parameters = np.append(self.coef_, shifts)[None, :]

    def parameter_arrays(self) -> dict[str, NDArray[np.float64]]:
        """Return what parameters say in arrays, which model files keep."""
        return {}

    def set_parameter_arrays(self, arrays: Mapping[str, NDArray[np.float64]]) -> None:
        """Set parameters of a fitted model from such arrays; ValueError if it contradicts them."""

    def _check_parameters(self) -> None:
        check_parameters(self)
        warn_of_unused(self, self._unused())

    def _unused(self) -> dict[str, str]:
        """Return the parameters that have no effect with the others, and why."""
        losses = self.description.losses
        if not losses:
            return {}
        unused = set[str]().union(*map(loss_parameters, losses.values()))
        if isinstance(self.loss, str) and self.loss in losses:
            unused -= loss_parameters(losses[self.loss])
        if self.loss_function().convex:
            # A seed is set for all estimators alike, as scikit-learn's tools do: no word of that.
            unused |= {"n_starts"} & set(defaults_of(type(self)))
        return dict.fromkeys(sorted(unused), f"with loss={self.loss!r}")

    def _examples(self, X: Any, y: Any, sample_weight: Any, **how: Any) -> Examples:
        """Validate the data of a fit."""
        how.setdefault("y_numeric", self.description.loss_task != "classification")
        how.setdefault("accept_sparse", "csr")
        X, y = validate_data(self, X, y, dtype=FLOATS, **how)
        return Examples(
            X, y, weights_of(sample_weight, X.shape[0]), {"sample_weight": sample_weight}
        )

    def _fit_collection(self, X: Any, y: Any, sample_weight: Any) -> None:
        """Fit the model to Dask collections, where their rows are."""
        from cutplane.estimators import ESTIMATORS  # which lists this one

        like = self.description.becomes
        advice = "give it arrays, such as X.compute()"
        if like and takes_collections(ESTIMATORS[like]):
            advice = f"{like}(lam='cv') chooses lam on a cluster"
        raise TypeError(f"{type(self).__name__} takes no Dask collections: {advice}")

    def _plan(self, examples: Examples) -> Plan:
        """Return what to fit to these examples."""
        raise NotImplementedError

    def _model(self, coef: Matrix, intercept: NDArray[np.float64]) -> Attributes:
        """Return the attributes that make the estimator ready to predict."""
        raise NotImplementedError

    def _fit(self, examples: Examples) -> Self:
        """Fit the model to validated examples."""
        fit_plan(self, with_convex_starts(self, self._plan(examples)))
        return self

    def _plan_of(
        self, examples: Examples, risks: Sequence[ScoredRisk], *, varied: bool = True
    ) -> Plan:
        """Return the plan to minimize these risks of examples whose targets vary, or do not."""
        rows = risks[0].rows
        return Plan(
            examples=examples,
            risks=risks,
            regularizer=self._regularizer(
                lam_of(self.lam, self.C, float(examples.weights.sum())), risks[0].n_parameters
            ),
            model=self._model,
            intercept_shape=risks[0].intercept_shape,
            starts=self._starts((len(risks), risks[0].n_parameters)),
            look=_is_flat,
            symptom=flat_symptom,
            could_vary=lambda: varied and not rows_are_equal(rows),
            advice="try a smaller lam, and see whether the features have to do with the targets",
        )

    def _regularizer(self, lam: float, n_parameters: int) -> Regularizer:
        """Return the regularizer of each problem."""
        return L2(lam)

    def _is_plain(self) -> bool:
        """Say whether the regularizer is ``lam/2 |w|^2`` and nothing else."""
        return True

    def _starts(
        self, shape: tuple[int, int], otherwise: Vector | None = None
    ) -> Sequence[Vector | None]:
        """Return where to start each problem: at the last fit's coefficients, if wanted."""
        if self.warm_start and hasattr(self, "coef_"):
            previous = self._previous()
            if previous.shape == shape:
                return [*previous]
        return [otherwise] * shape[0]

    def _previous(self) -> Matrix:
        """Return the parameters of the last fit as its risks have them, one row per problem."""
        return np.atleast_2d(vars(self).get("_parameters", dense(self.coef_)))

    def _rows(self, X: Any) -> Rows:
        return as_rows(X, n_threads=threads_of(self.n_jobs))

    def _fitted_with(self, coef: Matrix, intercept: Vector) -> Self:
        """Return a copy that predicts with these coefficients."""
        model = copy(self)
        model.__dict__.update(self._model(coef, intercept))
        return model

    def _scores(self, X: Any) -> Any:
        """Return the scores, one column per problem, intercepts included."""
        scores = self._products(X)
        scores += self.intercept_
        return scores

    @by_parts
    def _products(self, X: Any) -> Any:
        """Return the products with the coefficients alone, one column per problem.

        Those of a row do not depend on the other rows, to the last bit.
        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=FLOATS, reset=False)
        return ordered_scores(
            X, np.atleast_2d(dense(self.coef_)), n_threads=threads_of(self.n_jobs)
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def split_off_shifts(parameters: Matrix, n_columns: int) -> Matrix:
    """Return the coefficients, a row for each column, of a row of them that ends with shifts."""
    return parameters[0, :-n_columns].reshape(n_columns, -1)


def _is_flat(risk: Any, result: Result) -> bool:
    """Say whether all scores are the same, while targets differ: there was something to find."""
    point: Any = result.point
    differ = bool((risk.y != risk.y[0]).any())
    return differ and scores_are_equal(point.scores, point.intercept)


def takes_collections(kind: type) -> bool:
    """Whether estimators of a kind can be fitted to Dask collections."""
    own = {name: getattr(kind, name, None) for name in ("_fit_collection", "_fit_queries")}
    return own["_fit_queries"] is not None or own["_fit_collection"] not in (
        None,
        LinearModel._fit_collection,
    )
