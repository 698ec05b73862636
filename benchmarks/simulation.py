"""How long a fit would take on a cluster that is not there.

An iteration of the bundle method (`bmrm`, logistic loss, intercept) on workers is

    work      the rows of the worker with the most shards, entry by entry and row by row, on all of
              its threads;
    waiting   calls and sums, each a round trip and a message to and from every worker;
    sending   coefficients down, a plane up and its sum down again, for every worker, all through
              the network of the client, which also packs, unpacks and adds the numbers;
    leading   what the client does by itself: the reduced problem, with a product of the new plane
              and every plane so far.

Each is a count times a speed. Reading the rows, which is done once, is not in it, nor are workers
of unequal speed, or networks that others use. `Speeds.here` measures the speeds; ``scale.py
simulate`` compares with fits. `docs/decisions/2026-11-18-a-billion-rows.md` shows the output.

    python benchmarks/simulation.py [--here]
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import Pipe
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

import cutplane as cp
from cutplane.cluster.allreduce import Leader, Link, serve
from cutplane.cluster.sample import MOST_SHARDS
from cutplane.compute.threads import thread_limit
from cutplane.data.rows import most_shards

# Calls and sums of an iteration, as `benchmarks/scale.py rounds` counts them.
_EXCHANGES = 24
_BYTES = 8  # of a number that is sent
_WIDE = 10_000  # features of sparse rows that are timed


@dataclass(frozen=True)
class Speeds:
    """Seconds of what fits consist of.

    By default as measured on a virtual machine with an AMD EPYC, beside other work: processor time.

    Attributes
    ----------
    entry, sparse_entry : float
        For each stored number of dense or sparse features and iteration, on one thread.
    row : float
        For each row and iteration, on one thread: the loss, the searches.
    message : float
        Of the client, for a message to a worker and its answer.
    number : float
        Of the client, for a number that is packed and sent, or received and added.
    iteration : float
        Of the client, for an iteration that reads nothing.
    """

    entry: float = 4.0e-10
    sparse_entry: float = 2.2e-9
    row: float = 4.0e-8
    message: float = 5.0e-5
    number: float = 1.8e-9
    iteration: float = 3.0e-4

    @classmethod
    def here(cls, *, n_rows: int = 1 << 17) -> Speeds:
        """Measure those of this machine, in some seconds.

        Parameters
        ----------
        n_rows : int
            How many rows to fit to.
        """
        n_features, many = 32, 1 << 18
        with thread_limit(1):
            X, y = _data(n_rows, n_features)
            entry = _products(X, y) / X.size
            sparse = scipy.sparse.csr_array(
                (X.ravel(), np.arange(X.size) * 7919 % _WIDE, np.arange(0, X.size + 1, n_features)),
                shape=(n_rows, _WIDE),
            )
            sparse_entry = _products(sparse, y) / X.size
            row = _iteration(n_rows, n_features) / n_rows - n_features * entry
            empty = _iteration(256, 1)
        one, five, large = _exchange(1, 1), _exchange(5, 1), _exchange(1, many)
        # Leader and member share the time of an exchange; a number goes up and down again.
        return cls(
            entry=entry,
            sparse_entry=sparse_entry,
            row=max(row, 0.0),
            message=max(five - one, 0.0) / 8,
            number=max(large - one, 0.0) / (4 * many),
            iteration=empty,
        )


class Simulation(NamedTuple):
    """Seconds of an iteration, and how many there are."""

    work: float
    waiting: float
    sending: float
    leading: float
    iterations: int

    @property
    def iteration(self) -> float:
        """Seconds of an iteration."""
        return self.work + self.waiting + self.sending + self.leading

    @property
    def seconds(self) -> float:
        """Seconds of the fit."""
        return self.iterations * self.iteration


def simulate(
    n_rows: int,
    n_features: int,
    n_workers: int,
    *,
    per_row: float | None = None,
    n_threads: int = 1,
    round_trip: float = 5e-4,
    bandwidth: float = 1.25e9,
    iterations: int = 50,
    speeds: Speeds = Speeds(),
) -> Simulation:
    """Return about how long a fit would take on a cluster, in seconds.

    It is a model of `cutplane.bmrm` with the logistic loss and an intercept, for clusters that are
    not at hand.

    Parameters
    ----------
    n_rows, n_features, n_workers : int
        Sizes of the data and of the cluster.
    per_row : float, optional
        Stored numbers of a row, if rows are sparse; by default rows are dense.
    n_threads : int
        Threads of each worker.
    round_trip : float
        Seconds that a message takes to a worker and back.
    bandwidth : float
        Bytes a second of the client's network, in each direction.
    iterations : int
        How many iterations the fit takes. This depends on the data and on ``lam``, hardly on the
        number of rows: count those of a fit to a sample.
    speeds : Speeds
        Of one thread of a worker, and of the client.

    Returns
    -------
    Simulation
        Seconds of an iteration by kind (``work``, ``waiting``, ``sending``, ``leading``), and
        ``seconds`` of the whole fit.
    """
    if min(n_rows, n_features, n_workers, n_threads) < 1:
        raise ValueError("rows, features, workers and threads must be at least 1")
    each = n_features * speeds.entry if per_row is None else per_row * speeds.sparse_entry
    n_entries = None if per_row is None else round(per_row * n_rows)
    n_shards = min(most_shards(n_rows, n_features, n_entries), MOST_SHARDS)
    n_used = min(n_workers, n_shards)
    share = -(-n_shards // n_used) / n_shards  # of the rows, on the worker with the most
    numbers = 3 * n_used * n_features
    planes = 0.5 * iterations  # on average
    return Simulation(
        work=share * n_rows * (each + speeds.row) / n_threads,
        waiting=_EXCHANGES * (round_trip + n_used * speeds.message),
        # Two thirds of the numbers go down, while the network up is idle.
        sending=numbers * (_BYTES / bandwidth + speeds.number),
        leading=speeds.iteration + planes * n_features * speeds.entry,
        iterations=iterations,
    )


def _data(n_rows: int, n_features: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_features)).astype(np.float32)
    return X, np.where(X[:, 0] + rng.normal(size=n_rows) > 0.0, 1.0, -1.0)


def _products(X: Any, y: Any) -> float:
    """Return the processor time of the two products of an iteration."""
    rows, w = cp.as_rows(X), np.ones(X.shape[1])

    def multiply() -> None:
        rows.scores(w)
        rows.pullback(y)

    multiply()  # compiles
    return _fastest(multiply)


def _iteration(n_rows: int, n_features: int) -> float:
    """Return the processor time of an iteration on one thread."""
    risk = cp.ScoredRisk(*_data(n_rows, n_features), cp.Logistic())

    def run(n: int) -> None:
        cp.minimize(risk, cp.L2(1e-7), method=cp.bmrm(), stop=cp.Iterations(n))

    few, more = 2, 8
    run(few)  # compiles
    return max(_fastest(lambda: run(more)) - _fastest(lambda: run(few)), 0.0) / (more - few)


def _exchange(n_members: int, n_numbers: int) -> float:
    """Return the processor time of a sum over members in this process, theirs too."""
    ours, theirs = zip(*(Pipe() for _ in range(n_members)), strict=True)
    members = [threading.Thread(target=serve, args=(each, _ask), daemon=True) for each in theirs]
    for member in members:
        member.start()
    n_blocks, n = 1 << (n_members - 1).bit_length(), 20
    each = [[(n_blocks, k)] for k in range(n_members)]
    each[-1] += [(n_blocks, k) for k in range(n_members, n_blocks)]
    leader = Leader(ours)
    seconds = _fastest(lambda: leader.call("sums", n, n_numbers, each=each))
    leader.close()
    for member in members:
        member.join(10.0)
    return seconds / n


def _ask(link: Link, verb: str, n: int, n_numbers: int, blocks: list[tuple[int, int]]) -> None:
    """Take part in some sums, as a member."""
    own: list[Any] = [(*block, (np.zeros(n_numbers),)) for block in blocks]
    for _ in range(n):
        link.ask("total", own)


def _fastest(act: Callable[[], object]) -> float:
    """Return the least processor time of a few calls: what disturbs them only adds."""
    found = []
    for _ in range(3):
        begin = time.process_time()
        act()
        found.append(time.process_time() - begin)
    return min(found)


def main() -> None:
    """Print what a billion rows take, and how many workers many features are worth."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--here", action="store_true", help="measure the speeds of this machine")
    speeds = Speeds.here() if parser.parse_args().here else Speeds()
    print("a billion dense rows of 50 features, 8 threads a worker, 50 iterations")
    for n_workers in (1, 4, 16, 64, 256):
        fit = simulate(10**9, 50, n_workers, n_threads=8, speeds=speeds)
        share = 100.0 * fit.work / fit.iteration
        print(f"{n_workers:3} workers: {fit.seconds:4.0f} s, of which {share:.0f} % are work")
    seconds = {
        n: simulate(10**7, 10**6, n, per_row=100, speeds=speeds).seconds for n in range(1, 65)
    }
    best = min(seconds, key=lambda n: seconds[n])
    print("ten million rows with 100 of a million features, 1 thread a worker, 50 iterations")
    print(f"{best} workers are best, {seconds[1] / seconds[best]:.1f} times as fast as one")


if __name__ == "__main__":
    main()
