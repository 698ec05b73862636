"""Callbacks that are shown models: scikit-learn's own (from version 1.9 on), and ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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

    ``context`` is the task's place in the tree, None where scikit-learn has no callbacks; ``data``
    (``X``, ``y`` and ``metadata``) are passed on to them.
    """

    def __init__(self, estimator: Any, context: Any, data: dict[str, Any]) -> None:
        self._estimator = estimator
        self._context = context
        self._data = data
        if context is not None:
            context.call_on_fit_task_begin(estimator=estimator, **data)

    @classmethod
    def of_fit(cls, estimator: Any, examples: Any, *, max_subtasks: int | None) -> FitContext:
        """Open the root task of ``estimator.fit``; metadata that are None were not given."""
        context = None
        if hasattr(estimator, "_init_callback_context"):
            context = estimator._init_callback_context(max_subtasks=max_subtasks)
        given = {name: value for name, value in examples.metadata.items() if value is not None}
        return cls(
            estimator, context, {"X": examples.X, "y": examples.y, "metadata": given or None}
        )

    def subtask(self, name: str, *, max_subtasks: int | None) -> FitContext:
        """Open a task below this one."""
        context = self._context
        if context is not None:
            context = context.subcontext(task_name=name, max_subtasks=max_subtasks)
        return FitContext(self._estimator, context, self._data)

    def iterations(self, attributes: Callable[[State], Attributes]) -> Callable[[State], bool]:
        """Return a solver callback that reports each iteration as a task of its own.

        ``attributes`` gives the fitted attributes of the best model so far; it is called only if
        a callback asks for a fitted estimator.
        """

        def report(state: State) -> bool:
            if self._context is None or not getattr(self._estimator, "_skl_callbacks", None):
                return False
            return self.subtask("iteration", max_subtasks=0).end(lambda: attributes(state))

        return report

    def end(self, attributes: Attributes | Callable[[], Attributes]) -> bool:
        """Close the task; return whether a callback asks to stop."""
        if self._context is None:
            return False
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
