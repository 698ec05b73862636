"""The same work on many examples: threads for compiled work, processes for plain Python.

Results come in the order of the examples, so that the number of workers leaves no trace in sums.
"""

from __future__ import annotations

import os
import pickle
import signal
import tempfile
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from multiprocessing import current_process
from typing import Any, Generic, TypeVar

from cutplane.compute.arrays import Vector
from cutplane.compute.threads import default_threads, run_blocks

T = TypeVar("T")

_CHUNKS_EACH = 4  # for each process, because examples differ in size


class Workers(Generic[T]):
    """Calls a function of an example's number and ``w`` for many examples.

    If it releases the GIL, threads run it at the same time. If not, processes do, which get a copy
    of it, and of all it refers to, once. ``n_jobs`` is how many; -1 means as many as there are
    cores. So does None for threads, while it is one process, because a new one takes a second to
    start.
    """

    def __init__(
        self, function: Callable[[int, Vector], T], *, releases_gil: bool, n_jobs: int | None
    ) -> None:
        if n_jobs is not None and n_jobs != -1 and n_jobs < 1:
            raise ValueError(f"n_jobs must be None, -1 or at least 1, got {n_jobs}")
        self._function = function
        self._releases_gil = releases_gil
        if n_jobs is None and not releases_gil:
            n_jobs = 1
        self._n_jobs = default_threads() if n_jobs is None or n_jobs == -1 else int(n_jobs)
        self._path: str | None = None

    def __call__(self, examples: Sequence[int], w: Vector) -> list[T]:
        """Return the results of the examples, in their order."""
        if min(self._n_jobs, len(examples)) <= 1:
            return [self._function(i, w) for i in examples]
        return self._by_threads(examples, w) if self._releases_gil else self._by_jobs(examples, w)

    def __getstate__(self) -> dict[str, Any]:
        # The file goes with the original, so a copy writes its own.
        return self.__dict__ | {"_path": None}

    def _by_threads(self, examples: Sequence[int], w: Vector) -> list[T]:
        results: list[T | None] = [None] * len(examples)
        left = deque(range(len(examples)))

        def work(first: int, last: int) -> None:
            # One example at a time, because one may take as long as all others together.
            while (place := _taken(left)) is not None:
                try:
                    results[place] = self._function(examples[place], w)
                except BaseException:
                    left.clear()
                    raise

        run_blocks(work, self._n_jobs, n_threads=self._n_jobs)
        return results  # type: ignore[return-value]  # every place has its result by now

    def _by_jobs(self, examples: Sequence[int], w: Vector) -> list[T]:
        from joblib import Parallel, delayed

        if self._path is None:
            self._path = _written(self._function)
            weakref.finalize(self, os.unlink, self._path)
        n_chunks = min(_CHUNKS_EACH * self._n_jobs, len(examples))
        cuts = [k * len(examples) // n_chunks for k in range(n_chunks + 1)]
        chunks = [list(examples[a:b]) for a, b in pairwise(cuts)]
        parts = Parallel(n_jobs=self._n_jobs)(delayed(_run)(self._path, part, w) for part in chunks)
        return [result for part in parts for result in part]


def _taken(left: deque[int]) -> int | None:
    try:
        return left.popleft()
    except IndexError:
        return None


def _written(function: Any) -> str:
    # Wrapped by joblib, because models are often defined in a notebook or a script.
    from joblib import wrap_non_picklable_objects

    handle, path = tempfile.mkstemp(prefix="cutplane-", suffix=".pickle")
    with os.fdopen(handle, "wb") as file:
        pickle.dump(wrap_non_picklable_objects(function, keep_wrapper=False), file)
    return path


@lru_cache(maxsize=2)
def _read(path: str) -> Any:
    with open(path, "rb") as file:
        return pickle.load(file)


def _run(path: str, examples: list[int], w: Vector) -> list[Any]:
    # A terminal sends Ctrl-C to all its processes. The one that started this one decides what
    # becomes of it; a worker that died of it would take the others along.
    if current_process().name != "MainProcess":
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    function = _read(path)
    return [function(i, w) for i in examples]
