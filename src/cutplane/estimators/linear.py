"""What linear models share: from rows and targets to a plan, penalties, bounds, scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import lru_cache
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from cutplane.compute.arrays import Matrix, Vector, dense, is_dask
from cutplane.core.certificate import Certificate, Result
from cutplane.data import Rows, as_rows, ordered_scores
from cutplane.estimators.callbacks import Attributes
from cutplane.estimators.cautions import rows_are_equal, scores_are_equal, warn_of_unused
from cutplane.estimators.description import (
    Layout,
    check_parameters,
    defaults_of,
    lam_of,
    look_up,
    loss_parameters,
    threads_of,
    weights_of,
)
from cutplane.estimators.estimator import Estimator, by_parts, estimator
from cutplane.estimators.fit import (
    Examples,
    Plan,
    ScaledRegularizer,
    fit_plan,
    fitting,
    with_convex_starts,
)
from cutplane.losses import Loss
from cutplane.regularizers import L1, L2, BoundedElasticNet, BoundedL2, ConstrainedL2, ElasticNet
from cutplane.risks import ScoredRisk
from cutplane.risks.scored import ScoredPoint

E = TypeVar("E", bound=Estimator)

PENALTIES = {"l2": 0.0, "l1": 1.0, "elasticnet": None}
"""Which share of each are absolute values; None where the user says."""


def share_of_l1(penalty: str, l1_ratio: float) -> float:
    """Return which share of a penalty are absolute values."""
    share = look_up("penalty", penalty, PENALTIES)
    return float(l1_ratio) if share is None else share


def penalty_regularizer(
    penalty: str, l1_ratio: float, lam: float, *, center: Vector | None = None
) -> L1 | L2 | ElasticNet:
    """Return the regularizer of a penalty by its name; a center goes with "l2" alone."""
    share = share_of_l1(penalty, l1_ratio)
    if penalty == "l2":
        return L2(lam, center=center)
    return L1(lam) if share == 1.0 else ElasticNet(lam, share)


def why_unused(penalty: str) -> dict[str, str]:
    """Return why the share of absolute values has no effect, if it has none."""
    return {} if penalty == "elasticnet" else {"l1_ratio": f"with penalty={penalty!r}"}


def without_zeros(coef: Any) -> Any:
    """Return coefficients; if they are a sparse array, without the zeros that it stores."""
    if issparse(coef):
        coef.eliminate_zeros()
    return coef


def sparsify(self: E) -> E:
    """Make ``coef_`` a sparse array, which takes less memory where most entries are zero.

    Predictions stay the same.
    """
    check_is_fitted(self)
    self.coef_ = csr_array(self.coef_)
    return self


def densify(self: E) -> E:
    """Make ``coef_`` an ordinary array again."""
    check_is_fitted(self)
    self.coef_ = dense(self.coef_)
    return self


FLOATS = (np.float64, np.float32)


@lru_cache(maxsize=256)
def _maker_of_loss(of: type[Any], name: str) -> tuple[Callable[..., Loss], tuple[str, ...]]:
    """Return what makes a loss, and the names of its parameters; ValueError if it is unknown."""
    losses = of.description.losses
    if name not in losses:
        from cutplane.estimators import ESTIMATORS  # which lists this one

        for other, known in ESTIMATORS.items():
            if name in known.description.losses:
                raise ValueError(
                    f"{name!r} is a loss of {other}; {of.__name__} has {', '.join(losses)}"
                )
    make = look_up("loss", name, losses)
    return make, tuple(loss_parameters(make))


@lru_cache(maxsize=64)
def _made(make: Callable[..., Loss], names: tuple[str, ...], *values: Any) -> Loss:
    """Return a loss with these parameters: nothing changes it, so one is enough for all fits."""
    return make(**dict(zip(names, values, strict=True)))


def can_stream(model: Any) -> bool:
    """Say whether a model learns from streams, as `available_if` asks it."""
    from cutplane.estimators import streams  # few models do

    return streams.can_stream(model)


def flat_symptom(flat: Sequence[bool], result: Result, several: str = "classes") -> str | None:
    """Return in which way a model is constant, from whether the scores of each problem are."""
    if all(flat):
        return "the best coefficients are zero, and all scores the same"
    if any(flat):
        return f"the best coefficients of {sum(flat)} of {len(flat)} {several} are zero"
    return None


@estimator
class LinearModel(Estimator):
    """A linear model of rows.

    Attributes
    ----------
    n_features_in_ : int
    feature_names_in_ : ndarray
        Only if the training data had feature names.
    """

    _memory: ClassVar[Any] = None  # of a stream
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
        if not isinstance(X, np.ndarray) and is_dask(X):
            self._fit_collection(X, y, sample_weight)
            return self
        return self._fit(self._examples(X, y, sample_weight))

    def loss_function(self) -> Loss:
        """Return the loss that the parameters describe."""
        if isinstance(self.loss, Loss):
            if self.loss.task != (task := self.description.loss_task):
                raise ValueError(f"{self.loss} is a loss for {self.loss.task}, not {task}")
            return self.loss
        if not isinstance(self.loss, str):
            look_up("loss", self.loss, self.description.losses)  # which says what is known
        of: Any = type(self)
        make, names = _maker_of_loss(of, self.loss)
        return _made(make, names, *[getattr(self, name) for name in names])

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
        changed = check_parameters(self)
        if hasattr(self, "loss"):
            self.loss_function()  # which is refused if nobody knows it
        if changed:
            self._check_together()
            warn_of_unused(self, self._unused())

    def _check_together(self) -> None:
        """Refuse parameters that contradict each other."""

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
        self.__dict__.pop("_memory", None)  # of a stream
        plan = self._plan(examples)
        if any(risk.convex is False for risk in plan.risks):
            plan = with_convex_starts(self, plan)
        fit_plan(self, plan)
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
            starts=self._starts((len(risks), risks[0].n_parameters)) if self.warm_start else None,
            look=_is_flat,
            symptom=flat_symptom,
            could_vary=lambda: varied and not rows_are_equal(rows),
            advice="try a smaller lam, and see whether the features have to do with the targets",
        )

    def _regularizer(self, lam: float, n_parameters: int) -> ScaledRegularizer:
        """Return the regularizer of each problem."""
        return L2(lam)

    def _is_plain(self) -> bool:
        """Say whether the regularizer is ``lam/2 |w|^2`` and nothing else."""
        return True

    def _is_turned(self) -> bool:
        """Say whether what is fitted is the first of two classes, against the second."""
        return False

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


def _is_flat(risk: ScoredRisk, result: Result) -> bool:
    """Say whether all scores are the same, while targets differ: there was something to find."""
    point = result.point
    assert isinstance(point, ScoredPoint)
    differ = bool((risk.y != risk.y[0]).any())
    return differ and scores_are_equal(point.scores, point.intercept)


def takes_collections(kind: type) -> bool:
    """Whether estimators of a kind can be fitted to Dask collections."""
    own = {name: getattr(kind, name, None) for name in ("_fit_collection", "_fit_queries")}
    return own["_fit_queries"] is not None or own["_fit_collection"] not in (
        None,
        LinearModel._fit_collection,
    )


# Model files keep bounds and constraints as arrays of these names.
_BOUNDS = ("bounds.lower", "bounds.upper")
_CONSTRAINTS = ("constraints.A", "constraints.lower", "constraints.upper")


@estimator
class Penalized(LinearModel):
    """A linear model whose coefficients may be sparse, and have bounds.

    Parameters
    ----------
    penalty : {"l2", "l1", "elasticnet"}, default="l2"
        What ``lam`` is the strength of: ``|w|^2 / 2``; ``|w|_1``, the sum of absolute values,
        which makes many coefficients exactly zero; or "elasticnet",
        ``l1_ratio * |w|_1 + (1 - l1_ratio) * |w|^2 / 2``.
    l1_ratio : float, default=0.5
        Share of the absolute values in "elasticnet", from 0 to 1.
    positive : bool, default=False
        Whether no coefficient may be negative.
    bounds : pair or scipy.optimize.Bounds, optional
        The lower and the upper bounds of the coefficients, each a number, an array with one for
        each feature, or None. With several classes they hold for the coefficients of each.
    constraints : tuple, scipy.optimize.LinearConstraint or a list of them, optional
        Linear constraints ``lower <= A @ coef <= upper``, as ``(A, lower, upper)``: ``A`` has a
        column for each feature, the bounds are numbers or one for each row, equal for equations,
        infinite for none. With several classes they hold for each. They go with ``penalty="l2"``.
    """

    penalty: str = "l2"
    l1_ratio: float = 0.5
    positive: bool = False
    bounds: Any = None
    constraints: Any = None
    array_names: ClassVar[tuple[tuple[str, ...], ...]] = (_BOUNDS, _CONSTRAINTS)
    no_stream: ClassVar[str] = ""  # why such a model cannot learn from streams
    sparsify, densify = sparsify, densify

    @available_if(can_stream)
    def certify(self, *, max_iter: int = 100) -> Certificate | list[Certificate]:
        """Return what is proven of the model on the examples that `partial_fit` kept.

        The objective is that of the coefficients, with the best intercept for these examples. The
        lower bound comes from the slopes that each had when it was learned from and, if that is
        not within ``tol``, from a fit to them; the model does not change. The certificate becomes
        ``certificate_``, and its ``reason`` says how many examples it is about.

        Parameters
        ----------
        max_iter : int, default=100
            Limit on the iterations of the fit; 0 for none.

        Returns
        -------
        Certificate, or a list with one for each class against the rest
        """
        from cutplane.estimators.streams import certify

        return certify(self, max_iter)

    def _check_together(self) -> None:
        look_up("penalty", self.penalty, PENALTIES)
        if self._is_plain():
            return
        if not self.loss_function().convex:
            raise ValueError(
                f"{self.loss_function()!r} is not convex: it goes with penalty='l2' alone"
            )
        self._check_constraints()

    def _check_constraints(self) -> None:
        if self.bounds is not None:
            _pair(self.bounds)
        if self.constraints is not None and self.penalty != "l2":
            raise ValueError(f"constraints go with penalty='l2', not with {self.penalty!r}")

    def _unused(self) -> dict[str, str]:
        return super()._unused() | why_unused(self.penalty)

    def _is_plain(self) -> bool:
        bounded = self.positive or self.bounds is not None
        return self.penalty == "l2" and not bounded and self.constraints is None

    def parameter_arrays(self) -> dict[str, NDArray[np.float64]]:  # noqa: D102
        n, found = self.n_features_in_, dict[str, NDArray[np.float64]]()
        if self.bounds is not None:
            for name, given in zip(_BOUNDS, _pair(self.bounds), strict=True):
                values = _per_feature(name.removeprefix("bounds."), given, n)
                found[name] = values if np.size(given) > 1 else values[:1]
        if self.constraints is not None:
            arrays = stacked_constraints(self.constraints, n)
            found |= dict(zip(_CONSTRAINTS, arrays, strict=True))
        return found

    def set_parameter_arrays(self, arrays: Mapping[str, NDArray[np.float64]]) -> None:  # noqa: D102
        if _BOUNDS[0] in arrays:
            both = [arrays[name] for name in _BOUNDS]
            self.bounds = tuple(of if of.size > 1 else float(of.item()) for of in both)
        if _CONSTRAINTS[0] in arrays:
            self.constraints = tuple(arrays[name] for name in _CONSTRAINTS)
        if self._is_plain():
            return
        self._check_constraints()
        coef = np.asarray(dense(self.coef_), dtype=np.float64).ravel()
        value = self._regularizer(1.0, coef.size).value(-coef if self._is_turned() else coef)
        if not np.isfinite(value):
            raise ValueError("the coefficients violate the bounds or constraints")

    def _regularizer(self, lam: float, n_parameters: int) -> ScaledRegularizer:
        if self._is_plain():
            return L2(lam)
        bounded = self.positive or self.bounds is not None
        if not bounded and self.constraints is None:
            return penalty_regularizer(self.penalty, self.l1_ratio, lam)
        n, turned = int(self.n_features_in_), self._is_turned()
        copies = n_parameters // n  # classes that are fitted together, each with coefficients
        if copies == 2:
            raise ValueError(
                "bounds and constraints of two classes need multi_class='ovr': else coef_ is the "
                "difference of the coefficients of both"
            )
        lower, upper = (-np.inf, np.inf) if self.bounds is None else _pair(self.bounds)
        low, high = _per_feature("lower", lower, n), _per_feature("upper", upper, n)
        if self.positive:
            low = np.maximum(low, 0.0)
        if not (low <= high).all():
            j = int((low > high).argmax())
            raise ValueError(
                f"no coefficient fits the bounds of feature {j}: from {low[j]:g} to {high[j]:g}"
            )
        if self.constraints is not None:
            parts = [stacked_constraints(self.constraints, n)]
            parts += [(np.eye(n), low, high)] if bounded else []
            A, low, high = (np.concatenate(each) for each in zip(*parts, strict=True))
            A = np.kron(np.eye(copies), -A if turned else A)
            return ConstrainedL2(lam, A, np.tile(low, copies), np.tile(high, copies))
        if turned:
            low, high = -high, -low
        limits = {"lower": np.tile(low, copies), "upper": np.tile(high, copies)}
        if self.penalty == "l2":
            return BoundedL2(lam, **limits)
        return BoundedElasticNet(lam, share_of_l1(self.penalty, self.l1_ratio), **limits)


def _pair(bounds: Any) -> tuple[Any, Any]:
    """Return lower and upper bounds as they were given, infinite where none were."""
    if hasattr(bounds, "lb") and hasattr(bounds, "ub"):
        return bounds.lb, bounds.ub
    try:
        lower, upper = bounds
    except (TypeError, ValueError):
        raise ValueError(
            f"bounds must be a pair of lower and upper bounds, such as (0, 1), got {bounds!r}"
        ) from None
    return -np.inf if lower is None else lower, np.inf if upper is None else upper


def _per_feature(name: str, given: Any, n_features: int) -> Vector:
    """Return a bound for each feature."""
    try:
        values = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"the {name} bounds must be numbers, got {given!r}") from None
    if values.ndim == 1 and values.shape != (n_features,) and values.size != 1:
        raise ValueError(f"there are {values.size} {name} bounds for {n_features} features")
    if values.ndim > 1 or np.isnan(values).any():
        raise ValueError(f"the {name} bounds must be a number, or one for each feature")
    worst = np.inf if name == "lower" else -np.inf
    if (values == worst).any():
        raise ValueError("the bounds must leave room for finite coefficients")
    return np.array(np.broadcast_to(values, n_features))


def stacked_constraints(given: Any, n_features: int) -> tuple[Matrix, Vector, Vector]:
    """Return the matrix and the bounds of all constraints, each a row."""
    parts = given if isinstance(given, list) else [given]
    found = [_one_constraint(part, n_features) for part in parts]
    if not found:
        raise ValueError("constraints is an empty list: leave it out")
    A, lower, upper = (np.concatenate(each) for each in zip(*found, strict=True))
    return A, lower, upper


def _one_constraint(given: Any, n_features: int) -> tuple[Matrix, Vector, Vector]:
    if hasattr(given, "A") and hasattr(given, "lb") and hasattr(given, "ub"):
        given = (given.A, given.lb, given.ub)
    try:
        matrix, lower, upper = given
        A = np.atleast_2d(np.asarray(dense(matrix), dtype=np.float64))
        bounds = [
            np.array(np.broadcast_to(np.asarray(bound, dtype=np.float64), len(A)))
            for bound in (lower, upper)
        ]
    except (TypeError, ValueError):
        raise ValueError(
            "a constraint must be (A, lower, upper), numbers with one bound for all rows of A or "
            "one for each"
        ) from None
    if A.ndim != 2 or A.shape[1] != n_features:
        raise ValueError(f"constraints have {A.shape[-1]} columns, X has {n_features} features")
    return A, bounds[0], bounds[1]
