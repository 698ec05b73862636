"""Learning from a stream: batch after batch, each example once, and a certificate when asked for.

`partial_fit` takes stochastic steps on the examples of a batch, by the rules of paper 002. Nothing
is kept of them but sums that bound what any model could achieve on all that was seen. With a
``window`` the last examples are kept too: then `certify` says how good the model is on them, and
steps stay as long as after so many examples, so that the model follows a stream that changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
import scipy.sparse

from cutplane.compute.arrays import Matrix, Vector, require_in_memory
from cutplane.compute.threads import thread_limit
from cutplane.core.certificate import VANISHES, Certificate, Status
from cutplane.core.protocols import NonFiniteRisk
from cutplane.estimators.description import lam_of, threads_of
from cutplane.estimators.linear import LinearModel
from cutplane.losses.loss import Loss
from cutplane.risks import ScoredRisk
from cutplane.solvers.registry import STOCHASTIC_METHODS
from cutplane.solvers.stochastic import StochasticPasses, optimistic
from cutplane.solvers.stochastic.stream import Stream, bounds_on

M = TypeVar("M", bound=LinearModel)

_UNPROVEN = "the objective is that of the last batch of a stream; certify() proves more"


def can_stream(model: Any) -> bool:
    """Say whether a model learns from streams, as `available_if` asks it."""
    if model.no_stream:
        raise AttributeError(f"{type(model).__name__} {model.no_stream}")
    if model.loss_function().slope_form is None:
        raise AttributeError(f"the loss {model.loss!r} is no convex function of single scores")
    if getattr(model, "multi_class", "ovr") != "ovr":
        raise AttributeError("a stream has one score at a time: use multi_class='ovr'")
    if not model._is_plain():
        raise AttributeError("a stream has penalty='l2' alone, without bounds and constraints")
    if _steps_of(model.method) is None:
        known = ", ".join(map(repr, STOCHASTIC_METHODS))
        raise AttributeError(
            f"partial_fit takes stochastic steps: method must be 'auto', {known}, or one of these "
            f"as an object, got {model.method!r}"
        )
    return True


def _steps_of(method: Any) -> StochasticPasses | None:
    """Return the method of stochastic steps that a parameter stands for, or None."""
    if isinstance(method, str) and method in STOCHASTIC_METHODS:
        return cast(StochasticPasses, STOCHASTIC_METHODS[method](None))  # type: ignore[arg-type]
    if method is None or method == "auto":
        return optimistic()
    if isinstance(method, StochasticPasses):
        return method
    return None


@dataclass
class Batch:
    """Examples that are kept: targets and slopes have a column for each problem."""

    X: Any
    targets: Matrix
    weights: Vector
    slopes: Matrix

    def last(self, n_examples: int) -> Batch:
        """Return the last of them."""
        first = max(len(self.weights) - n_examples, 0)
        return Batch(
            self.X[first:], self.targets[first:], self.weights[first:], self.slopes[first:]
        )


class Rules(NamedTuple):
    """What a stream is learned by, from its beginning to its end; named as the parameters are."""

    loss: Loss
    lam: float
    method: StochasticPasses
    fit_intercept: bool
    pos_label: Any


@dataclass
class Memory:
    """What a model knows of a stream: a `Stream` for each problem, and the last examples."""

    rules: Rules
    streams: list[Stream]
    window: int
    kept: list[Batch]

    @property
    def n_kept(self) -> int:
        """How many examples are kept."""
        return sum(len(batch.weights) for batch in self.kept)

    def keep(self, batch: Batch) -> None:
        """Keep a batch, and forget what is older than the window."""
        if not self.window:
            self.kept.clear()
            return
        self.kept.append(batch.last(self.window))
        while (excess := self.n_kept - self.window) > 0:
            oldest = self.kept[0]
            if len(oldest.weights) <= excess:
                del self.kept[0]
            else:
                self.kept[0] = oldest.last(len(oldest.weights) - excess)


def certify(model: LinearModel, max_iter: int) -> Certificate | list[Certificate]:
    """Set the certificate to what is proven of the model on the examples that were kept."""
    memory = model._memory
    if memory is None or not memory.kept:
        raise ValueError("there are no examples to certify the model on: give partial_fit a window")
    if max_iter < 0 or max_iter != int(max_iter):
        raise ValueError(f"max_iter must be a whole number, not negative, got {max_iter!r}")
    _rules_of(model, memory)
    kept, seen = memory.n_kept, memory.streams[0].n_seen
    X = _stacked([batch.X for batch in memory.kept])
    weights = np.concatenate([batch.weights for batch in memory.kept])
    reason = f"on the last {kept} examples" if kept < seen else f"on all {kept} examples seen"
    found = []
    with thread_limit(threads_of(model.n_jobs)):
        rows = model._rows(X)
        for k, stream in enumerate(memory.streams):
            y, slopes = (
                np.concatenate([getattr(batch, name)[:, k] for batch in memory.kept])
                for name in ("targets", "slopes")
            )
            risk = ScoredRisk(
                rows, y, model.loss_function(), weights=weights, intercept=model.fit_intercept
            )
            bounds = bounds_on(
                *(risk, stream.lam, stream.w, slopes), tol=model.tol, max_iter=max_iter
            )
            status = Status.OPTIMAL if bounds.small or bounds.vanishes else Status.STOPPED
            why = f"{VANISHES}, {reason}" if bounds.vanishes else reason
            found.append(Certificate(bounds.objective, bounds.lower_bound, status, True, why))
    proven = found[0] if len(found) == 1 else found
    model.__dict__["certificate_"] = proven
    return proven


@contextmanager
def batch(model: LinearModel, X: Any) -> Iterator[None]:
    """Look at a batch; forget what was found out about it if it is refused."""
    require_in_memory("partial_fit", X, "call it for each partition")
    before = dict(model.__dict__)
    try:
        yield
    except Exception:
        model.__dict__.clear()
        model.__dict__.update(before)
        raise


def learn(model: M, X: Any, targets: Sequence[Vector], weights: Vector, window: Any) -> M:
    """Learn from a batch, with targets for each problem, and set the fitted attributes."""
    model._check_parameters()
    if window is not None and not (isinstance(window, Integral) and int(window) >= 0):
        raise ValueError(f"window must be None or a whole number, not negative, got {window!r}")
    rules = _rules_of(model, model._memory)
    if model._memory is None:
        model.__dict__["_memory"] = _first_memory(model, rules, len(targets), X.shape[1])
    memory = model._memory
    if window is not None:
        memory.window = int(window)
    with thread_limit(threads_of(model.n_jobs)):
        rows = model._rows(X)
        slopes, costs = [], []
        for stream, y in zip(memory.streams, targets, strict=True):
            stream.window = memory.window
            try:
                slopes.append(stream.learn(rows, y, weights))
                costs.append(stream.objective(rows, y, weights))
            except NonFiniteRisk as error:
                del model.__dict__["_memory"]  # there is no going on from steps that overflow
                raise NonFiniteRisk(f"{error}; the next batch begins a new stream") from error
    memory.keep(Batch(X, np.column_stack(targets), weights, np.column_stack(slopes)))
    streams = memory.streams
    coef = np.array([stream.w for stream in streams])
    intercept = np.array([stream.offset for stream in streams])
    bounds = [stream.lower_bound() for stream in streams]
    unproven = [Certificate(cost, -np.inf, Status.STOPPED, False, _UNPROVEN) for cost in costs]
    model.__dict__.update(
        model._model(coef, intercept),
        certificate_=unproven[0] if len(unproven) == 1 else unproven,
        lam_=streams[0].lam,
        method_=rules.method.name,
        n_seen_=streams[0].n_seen,
        seen_lower_bound_=bounds[0] if len(bounds) == 1 else np.array(bounds),
    )
    return model


def _rules_of(model: LinearModel, memory: Memory | None) -> Rules:
    """Return what the parameters ask for, found to be what the stream was begun with."""
    if model.C is not None:
        raise ValueError("partial_fit needs lam in place of C, which hangs on all examples")
    if getattr(model, "class_weight", None) == "balanced":
        raise ValueError(
            "class_weight='balanced' hangs on all examples: give partial_fit a dictionary"
        )
    method = _steps_of(model.method)
    assert method is not None  # `can_stream` has looked
    rules = Rules(
        model.loss_function(),
        lam_of(model.lam, None, 1.0),
        method,
        model.fit_intercept,
        getattr(model, "pos_label", None),
    )
    if memory is None:
        return rules
    for name, begun, now in zip(Rules._fields, memory.rules, rules, strict=True):
        if repr(begun) != repr(now):
            raise ValueError(
                f"{name} has changed since the stream began: a clone of the model begins again"
            )
    return rules


def _first_memory(model: LinearModel, rules: Rules, n_problems: int, n_features: int) -> Memory:
    settings = rules.method.settings
    if not isinstance(model.method, StochasticPasses):  # which would have a seed of its own
        settings = replace(settings, seed=model.random_state or 0)
    streams = [
        Stream(rules.loss, rules.lam, settings, n_features, rules.fit_intercept)
        for _ in range(n_problems)
    ]
    return Memory(rules, streams, 0, [])


def _stacked(parts: Sequence[Any]) -> Any:
    if any(map(scipy.sparse.issparse, parts)):
        return scipy.sparse.vstack(parts, format="csr")
    return np.vstack(parts)
