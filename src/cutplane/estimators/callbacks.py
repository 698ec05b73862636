"""Callbacks that are shown models: scikit-learn's own (from version 1.9 on), and `Validation`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any

from cutplane.core.certificate import Certificate, Status
from cutplane.core.state import State

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn before 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in for scikit-learn's mixin where it does not exist."""

    def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
        """Return the method as it is."""
        return method


__all__ = ["Attributes", "CallbackSupportMixin", "FitContext", "with_callbacks", "with_models"]

Attributes = dict[str, Any]


class FitContext:
    """A task that scikit-learn's callbacks watch: a fit, one of its problems, or an iteration.

    ``context`` is the task's place in the tree; ``data`` (``X``, ``y`` and ``metadata``) are passed
    on to the callbacks.
    """

    def __init__(self, estimator: Any, context: Any, data: dict[str, Any]) -> None:
        self._estimator = estimator
        self._context = context
        self._data = data
        context.call_on_fit_task_begin(estimator=estimator, **data)

    @classmethod
    def of_fit(cls, estimator: Any, examples: Any, *, max_subtasks: int | None) -> FitContext:
        """Open the root task of ``estimator.fit``; metadata that are None were not given."""
        context = estimator._init_callback_context(max_subtasks=max_subtasks)
        given = {name: value for name, value in examples.metadata.items() if value is not None}
        data = {"X": examples.X, "y": examples.y, "metadata": given or None}
        return cls(estimator, context, data)

    def subtask(self, name: str, *, max_subtasks: int | None) -> FitContext:
        """Open a task below this one."""
        context = self._context.subcontext(task_name=name, max_subtasks=max_subtasks)
        return FitContext(self._estimator, context, self._data)

    def iterations(self, attributes: Callable[[State], Attributes]) -> Callable[[State], bool]:
        """Return a solver callback that reports each iteration as a task of its own.

        ``attributes`` gives the fitted attributes of the best model so far; it is called only if
        a callback asks for a fitted estimator.
        """
        return lambda state: self.subtask("iteration", max_subtasks=0).end(
            lambda: attributes(state)
        )

    def end(self, attributes: Attributes | Callable[[], Attributes]) -> bool:
        """Close the task; return whether a callback asks to stop."""
        return bool(
            self._context.call_on_fit_task_end(
                estimator=self._estimator, reconstruction_attributes=attributes, **self._data
            )
        )


def with_models(
    estimator: Any, attributes: Callable[[State], Attributes], lam: float, *, several: bool
) -> Sequence[Callable[[State], object]]:
    """Return an estimator's callbacks as the solver calls them, with the state alone.

    One that says ``takes_model``, such as `Validation`, hears that a fit begins, and is also given
    a function from the state to the best model so far: a fitted copy of the estimator.
    """

    def model_at(state: State) -> Any:
        model, record = copy(estimator), state.history[-1]
        known = Certificate(record.objective, record.lower_bound, Status.STOPPED, state.convex)
        model.__dict__.update(attributes(state), callbacks=(), certificate_=known, lam_=lam)
        model.n_iter_, model.history_ = record.iteration, list(state.history)
        return model

    def called(callback: Any) -> Callable[[State], object]:
        if not getattr(callback, "takes_model", False):
            plain: Callable[[State], object] = callback
            return plain
        if several:
            raise ValueError(
                "classes or labels are fitted one by one here, and there is no model to score "
                "before the last; give multi_class='softmax' or 'crammer_singer', or no Validation"
            )
        callback.begin()
        return lambda state: callback(state, model_at)

    return [called(callback) for callback in estimator.callbacks]


class Validation:
    """A callback that scores the best model so far on data kept aside.

    Parameters
    ----------
    eval_set : tuple (X, y)
        The data, as the estimator's ``fit`` takes them.
    scoring : str or callable, optional
        A scorer of scikit-learn, the more the better; by default the estimator's own ``score``.
    every : int
        Score after so many iterations each.
    patience : int, optional
        End the fit after so many scores in a row that are no new best.
    min_delta : float
        A new best is better by more than this.
    on_score : callable, optional
        Called with the iteration and the score. If it returns true the fit ends; what it raises
        goes through ``fit``.
    score_params : mapping, optional
        What else the score needs, such as ``qid``.

    Attributes
    ----------
    scores : list of pairs of an iteration and a score
    best_score, best_iteration
        The highest score, and where it was reached first; None before the first.
    best_model : estimator
        A fitted copy with the highest score, and a certificate with its own objective. What the fit
        itself returns is the model with the lowest objective.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import cutplane as cp
    >>> X, y = load_iris(return_X_y=True)
    >>> watch = cp.Validation((X[1::2], y[1::2] > 0))
    >>> model = cp.LinearClassifier(lam=0.01, callbacks=[watch]).fit(X[::2], y[::2] > 0)
    >>> watch.best_score == watch.best_model.score(X[1::2], y[1::2] > 0)
    True
    """

    takes_model = True

    def __init__(
        self,
        eval_set: Any,
        *,
        scoring: Any = None,
        every: int = 1,
        patience: int | None = None,
        min_delta: float = 0.0,
        on_score: Callable[[int, float], object] | None = None,
        score_params: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(eval_set, tuple) or len(eval_set) != 2:
            raise ValueError("eval_set must be a tuple of X and y")
        if every < 1:
            raise ValueError(f"every must be at least 1, got {every}")
        if patience is not None and patience < 1:
            raise ValueError(f"patience must be at least 1, got {patience}")
        if not min_delta >= 0.0:
            raise ValueError(f"min_delta must not be negative, got {min_delta}")
        self.eval_set = eval_set
        self.scoring = scoring
        self.every = every
        self.patience = patience
        self.min_delta = min_delta
        self.on_score = on_score
        self.score_params = dict(score_params or {})
        self.begin()

    def begin(self) -> None:
        """Forget an earlier fit."""
        self.scores: list[tuple[int, float]] = []
        self.best_score: float | None = None
        self.best_iteration: int | None = None
        self.best_model: Any = None
        self._since_best = 0

    def __call__(self, state: State, model_at: Callable[[State], Any]) -> bool:
        """Score the best model so far; say whether the fit should end."""
        if state.iteration % self.every:
            return False
        model = model_at(state)
        score = self._score(model)
        if self.scores and state.iteration <= self.scores[-1][0]:  # from another start
            self._since_best = 0
        self.scores.append((state.iteration, score))
        if self.best_score is None or score > self.best_score + self.min_delta:
            self.best_score, self.best_iteration = score, state.iteration
            self.best_model, self._since_best = model, 0
        else:
            self._since_best += 1
        asked = self.on_score is not None and bool(self.on_score(state.iteration, score))
        return asked or (self.patience is not None and self._since_best >= self.patience)

    def _score(self, model: Any) -> float:
        X, y = self.eval_set
        if self.scoring is None:
            return float(model.score(X, y, **self.score_params))
        from sklearn.metrics import check_scoring

        return float(check_scoring(model, self.scoring)(model, X, y, **self.score_params))
