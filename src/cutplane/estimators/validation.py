"""Scores on other data while a fit runs: early ends, pruning, logs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cutplane.core.state import State


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
