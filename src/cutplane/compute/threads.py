"""Share compiled work among a few threads and get the same bits for any number of them.

Work is cut into blocks, numbered from 0. How it is cut depends on the data alone
(`blocks.count_blocks`), each block writes to its own place, and sums over blocks are taken along a
tree over their numbers (`cutplane.compute.blocks`): so the number of threads, and which of them did
what, leave no trace in the result.

The kernels release the GIL; the threads that run them are ordinary daemon threads, started when
first needed and kept. Whoever calls :func:`run_blocks` works too, and could finish alone: helpers
only take blocks that nobody has taken yet. So a call never waits for a helper that is busy
elsewhere, calls from several threads cannot block each other, and a thread that could not be
started costs time, not correctness.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from itertools import pairwise, starmap
from queue import SimpleQueue
from threading import Event, Lock, Thread
from typing import Any, Generic, TypeVar

from numpy.typing import NDArray

from cutplane.compute import blocks

S = TypeVar("S")
T = TypeVar("T")

Task = Callable[[int, int], object]

# More than one range each, because the other thread may share its core with somebody else's work.
_RANGES_PER_THREAD = 4
# Vectors with fewer numbers are not worth a second thread.
_LEAST_NUMBERS = 1 << 16

_limit: ContextVar[int | None] = ContextVar("thread limit", default=None)


def default_threads() -> int:
    """Return the number of threads to use when the caller does not say.

    The first of ``CUTPLANE_NUM_THREADS``, ``NUMBA_NUM_THREADS`` and ``OMP_NUM_THREADS`` that is set
    decides (joblib sets the last two in its workers), else the cores this process may run on.
    """
    for variable in ("CUTPLANE_NUM_THREADS", "NUMBA_NUM_THREADS", "OMP_NUM_THREADS"):
        value = os.environ.get(variable, "").strip()
        if not value:
            continue
        # OpenMP allows a list, one number for each level of nesting; the first is ours.
        first = value.split(",")[0] if variable == "OMP_NUM_THREADS" else value
        try:
            n_threads = int(first)
        except ValueError:
            n_threads = 0
        if n_threads < 1:
            raise ValueError(f"{variable} must be a positive whole number, got {value!r}.")
        return n_threads
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def _libraries() -> Any:
    from threadpoolctl import ThreadpoolController  # few fits ask for it

    return ThreadpoolController()


def one_blas_thread() -> Any:
    """Return a context in which BLAS uses the calling thread alone: threads are shared here."""
    return _libraries().limit(limits=1, user_api="blas")


@contextmanager
def thread_limit(n_threads: int | None) -> Iterator[None]:
    """Let work on blocks use at most so many threads meanwhile; None leaves it as it is."""
    token = _limit.set(n_threads if n_threads is not None else _limit.get())
    try:
        yield
    finally:
        _limit.reset(token)


def map_blocks(task: Callable[[slice], T], n_elements: int, *, width: int = 1) -> list[T]:
    """Return the results of ``task`` on consecutive slices of a vector, in their order.

    With ``width``, an element is a row of so many numbers. How a vector is sliced depends on its
    length and width alone, so that sums over the results are the same for any number of threads. A
    short vector is one slice, which the caller does by itself.
    """
    if n_elements * width < 2 * blocks.LEAST_NUMBERS and blocks.placed() is None:
        return [task(slice(0, n_elements))]
    n_blocks = blocks.vector_blocks(blocks.rows_in_all(n_elements), width)
    bounds = blocks.bounds_here(n_elements, n_blocks).tolist()
    return map_parts(task, list(starmap(slice, pairwise(bounds))), n_elements * width)


def map_arrays(kernel: Callable[..., T], *arrays: NDArray[Any]) -> list[T]:
    """Return the results of ``kernel`` on consecutive slices of arrays of the same length.

    The slices are those of `map_blocks`, for rows as wide as those of the widest array.
    """
    n_elements, n_numbers = len(arrays[0]), max([array.size for array in arrays])
    if n_numbers < 2 * blocks.LEAST_NUMBERS and blocks.placed() is None:
        return [kernel(*arrays)]  # one slice, and often a short one: it need not be made
    return map_blocks(
        lambda i: kernel(*[array[i] for array in arrays]),
        n_elements,
        width=n_numbers // max(n_elements, 1),
    )


def map_parts(task: Callable[[S], T], parts: Sequence[S], n_numbers: int) -> list[T]:
    """Return the results of ``task`` on parts of a sample, of so many numbers, in their order."""
    results: list[T | None] = [None] * len(parts)

    def run(first: int, last: int) -> None:
        for number in range(first, last):
            results[number] = task(parts[number])

    n_threads = (_limit.get() or default_threads()) if n_numbers >= _LEAST_NUMBERS else 1
    run_blocks(run, len(parts), n_threads=n_threads)
    return results  # type: ignore[return-value]  # every part has its result by now


def run_blocks(task: Task, n_blocks: int, *, n_threads: int) -> None:
    """Call ``task(first, last)`` on ranges that cover ``0 .. n_blocks`` without overlap.

    Parameters
    ----------
    task
        Does the blocks ``first <= block < last``; called from several threads at once. Only a task
        that releases the GIL gains by it.
    n_blocks
        Number of blocks.
    n_threads
        How many threads may work, the calling one included.

    Notes
    -----
    When this function returns or raises, no thread is at work on the task any more (only a second
    Ctrl-C does not wait for that). An exception in any thread is raised here, and ranges not yet
    started are dropped.
    """
    n_threads = min(n_threads, n_blocks, _limit.get() or n_threads)
    if n_threads <= 1:
        task(0, n_blocks)
        return
    job = _Job(task, n_blocks, min(n_blocks, _RANGES_PER_THREAD * n_threads))
    job.lead(pool, n_threads - 1)


class InOrder(Generic[T]):
    """Hands over results in the order of their numbers, from 0 on, whatever order they come in.

    For sums that must not depend on which thread was faster, where results are too large to be all
    kept until the end.
    """

    def __init__(self, take: Callable[[T], object]) -> None:
        self._take = take
        self._early: dict[int, T] = {}
        self._next = 0
        self._taking = Lock()

    def put(self, number: int, result: T) -> None:
        """Hand over a result, as soon as all before it are there."""
        with self._taking:
            self._early[number] = result
            while self._next in self._early:
                self._take(self._early.pop(self._next))
                self._next += 1


def summed(
    part: Callable[[int], T],
    n_parts: int,
    add: Callable[[T, T], object],
    *,
    n_threads: int,
) -> T:
    """Return the sum of parts, which threads make and which are added to the first one in order."""
    total: list[T] = []
    in_order = InOrder[T](lambda each: add(total[0], each) if total else total.append(each))

    def task(first: int, last: int) -> None:
        for number in range(first, last):
            in_order.put(number, part(number))

    run_blocks(task, n_parts, n_threads=n_threads)
    return total[0]


class _Job:
    """One call of `run_blocks`: the ranges nobody has taken yet, and who is at work."""

    def __init__(self, task: Task, n_blocks: int, n_ranges: int) -> None:
        cuts = [k * n_blocks // n_ranges for k in range(n_ranges + 1)]
        self._task = task
        self._untaken = deque(pairwise(cuts))
        self._helping: list[Event] = []
        self._errors: list[BaseException] = []

    def lead(self, helpers: Helpers, n_helpers: int) -> None:
        """Work as the calling thread, with up to ``n_helpers`` others, until all is done."""
        try:
            helpers.ask(n_helpers, self.help)
            self._work()
            self._wait()
        except BaseException:  # Ctrl-C too, which may come at any point
            self._untaken.clear()
            self._wait()
            raise
        finally:
            # A helper that is asked too late holds on to the job, and must not hold on to the data.
            del self._task
        if self._errors:
            raise self._errors[0]

    def help(self) -> None:
        """Work as a helper; one that comes too late finds nothing to do."""
        finished = Event()
        self._helping.append(finished)  # before taking a range, so that the caller cannot miss it
        try:
            self._work()
        except BaseException as error:
            self._errors.append(error)
            self._untaken.clear()
        finally:
            finished.set()

    def _work(self) -> None:
        while True:
            try:
                first, last = self._untaken.popleft()
            except IndexError:
                return
            self._task(first, last)

    def _wait(self) -> None:
        for finished in self._helping:
            finished.wait()


class Helpers:
    """Threads that wait for jobs."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._count = 0
        self._hiring = Lock()

    def ask(self, n_helpers: int, job: Callable[[], None]) -> None:
        """Ask ``n_helpers`` threads to run ``job``, when they find the time."""
        if self._count < n_helpers:
            self._hire(n_helpers)
        for _ in range(n_helpers):
            self._jobs.put(job)

    def _hire(self, n_helpers: int) -> None:
        with self._hiring:
            while self._count < n_helpers:
                # Daemons, so that an idle pool never keeps the interpreter from exiting.
                thread = Thread(target=_serve, args=(self._jobs,), daemon=True, name="cutplane")
                try:
                    thread.start()
                except RuntimeError:  # no more threads to be had, or the interpreter is exiting
                    return
                self._count += 1


def _serve(jobs: SimpleQueue[Callable[[], None]]) -> None:
    while True:
        job = jobs.get()
        job()
        del job  # it refers to the data, which must not live on because a helper idles


pool = Helpers()


def _forget_helpers() -> None:
    global pool
    pool = Helpers()


# Threads do not survive a fork. The child is told while it has one thread only, which a check of
# the process id at each call could not promise.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_helpers)
