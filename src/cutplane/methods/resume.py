"""Go on from a checkpoint in files."""

from __future__ import annotations

import os
from typing import Any

from cutplane.checkpoints.checkpoint import Checkpoint, stored_method
from cutplane.core.problem import Problem
from cutplane.core.protocols import Regularizer, Risk
from cutplane.core.result import Result
from cutplane.methods.minimize import minimize
from cutplane.risks.function import Function


def resume(
    path: str | os.PathLike[str],
    problem: Problem | Risk | Function,
    regularizer: Regularizer | None = None,
    *,
    every: float | None = None,
    **options: Any,
) -> Result:
    """Go on with a run whose state is in files, as if it had never been stopped.

    Parameters
    ----------
    path : str or path
        The folder that was given to `minimize` as `checkpoint`. It is kept up to date.
    problem : Problem or Risk or callable
        The same problem: a risk and a regularizer, together or one after the other. One with other
        data, another loss or another regularizer is refused.
    regularizer : Regularizer, optional
        If the first is a risk.
    every : float, optional
        See `Checkpoint`.
    **options
        Those of `minimize`: ``tol``, ``max_iter`` and ``time_limit``, which count from the
        beginning of the first run, ``stop``, ``callbacks``. The method is that of the first run; it
        must be given, as ``method``, only if it is made of policies of your own.

    Returns
    -------
    Result
        See `minimize`.
    """
    if regularizer is None:
        if not isinstance(problem, Problem):
            raise TypeError("resume needs a problem, or a risk and a regularizer")
        problem, regularizer = problem.risk, problem.regularizer
    method = options.pop("method", None) or stored_method(path)
    checkpoint = Checkpoint(path, every)
    return minimize(problem, regularizer, method=method, checkpoint=checkpoint, **options)
