"""Problems of one fit that are solved side by side: classes one against the rest, or labels.

Each problem runs in a thread, and its products use no other: the same work, so the same bits, as
one after the other. Most methods have parts that use one core, such as the epochs of dual ascent,
so that whole problems side by side keep all cores busy. Results are handed over in the order of the
problems. Not many more are begun than there are threads, because each has planes, duals and scores
of its own in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import replace
from threading import Event
from types import TracebackType
from typing import Any, Self

from cutplane.compute.threads import default_threads
from cutplane.core import interrupts
from cutplane.core.certificate import Result, Status
from cutplane.core.state import State
from cutplane.estimators.description import threads_of

# Smaller problems are Python more than compiled code, and Python runs in one thread at a time.
LEAST_ENTRIES = 1 << 19
# How often Ctrl-C is looked for, in seconds.
_LOOK_EVERY = 0.05

Solve = Callable[[int, Callable[[State], bool]], Result]


@contextmanager
def side_by_side(estimator: Any, risks: Sequence[Any], solve: Solve) -> Iterator[SideBySide | None]:
    """Solve the problems of a fit in several threads, or none at all where that would not pay.

    ``solve`` takes the number of a problem and a callback for its run, and returns the result.
    """
    n_threads = _threads_for(estimator, risks)
    if n_threads == 1:
        yield None
        return
    with SideBySide(solve, len(risks), n_threads) as ahead:
        yield ahead


def _threads_for(estimator: Any, risks: Sequence[Any]) -> int:
    """Return how many problems of a fit should be solved at a time.

    One where somebody watches, or a limit of time is shared: callbacks hear of one problem after
    the other. So it is for losses that are not convex, which have several starts.
    """
    watched = bool(estimator.callbacks or getattr(estimator, "_skl_callbacks", None))
    ordered = watched or estimator.verbose or estimator.checkpoint is not None
    if ordered or estimator.time_limit is not None or not risks[0].convex:
        return 1
    rows: Any = getattr(risks[0], "rows", None)
    if not getattr(rows, "one_by_one", False) or rows.n_entries < LEAST_ENTRIES:
        return 1
    return min(threads_of(estimator.n_jobs) or default_threads(), len(risks))


class SideBySide:
    """Results of problems that threads work on, in their order."""

    def __init__(self, solve: Solve, n_problems: int, n_threads: int) -> None:
        self._solve = solve
        self._n_problems = n_problems
        self._stop = Event()
        self._pool = ThreadPoolExecutor(n_threads, thread_name_prefix="cutplane-problem")
        self._n_threads = n_threads
        self._begun = list[Future[Result] | None]()
        self._run = interrupts.running()  # all of them are one run to Ctrl-C

    def __enter__(self) -> Self:
        self._run.__enter__()
        for _ in range(self._n_threads + 1):
            self._begin_next()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop.set()  # an error ends the runs that nobody waits for
        self._pool.shutdown(wait=error is None, cancel_futures=True)
        self._run.__exit__(kind, error, traceback)

    def _begin_next(self) -> None:
        k = len(self._begun)
        if k < self._n_problems:
            run = copy_context().run
            self._begun.append(
                self._pool.submit(run, self._solve, k, lambda state: self._stop.is_set())
            )

    def result(self, k: int) -> Result:
        """Return the result of problem ``k``; each is asked for once, in order.

        Ctrl-C ends the runs that are on, and leaves one iteration to those that are not.
        """
        future = self._begun[k]
        assert future is not None
        self._begun[k] = None  # results have planes: they must not pile up
        while not wait([future], timeout=_LOOK_EVERY).done:
            if self._run.late:
                self._stop.set()
                self._run.take()
        try:
            result = future.result()
        finally:
            self._begin_next()
        if self._stop.is_set() and result.status is Status.STOPPED:
            certificate = replace(result.certificate, status=Status.INTERRUPTED)
            return replace(result, certificate=certificate)
        return result
