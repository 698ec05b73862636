"""A client for a scheduler that runs, or for workers on this machine."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from distributed import Client, LocalCluster

from cutplane.cluster.workers import ClusterError

# Seconds that a scheduler has to answer.
_PATIENCE = 10.0


@contextmanager
def client_at(address: str) -> Iterator[Client]:
    """Connect to a scheduler, and leave it at the end.

    Parameters
    ----------
    address : str
        Such as ``tcp://10.0.0.1:8786``.
    """
    log = logging.getLogger("distributed")
    before = log.level
    log.setLevel(logging.CRITICAL)  # what goes wrong is said by errors
    try:
        try:
            client = Client(address, timeout=_PATIENCE)
        except (OSError, TimeoutError, ValueError) as error:
            raise ClusterError(f"no scheduler answers at {address}") from error
        with client:
            yield client
    finally:
        log.setLevel(before)


@contextmanager
def local_client(n_workers: int) -> Iterator[Client]:
    """Start workers on this machine, which share its processors, and end them at the end.

    Parameters
    ----------
    n_workers : int
        How many processes.
    """
    n_threads = max((os.cpu_count() or 1) // n_workers, 1)
    with (
        _started(n_workers, n_threads) as cluster,
        client_at(cluster.scheduler_address) as client,
    ):
        yield client


def _started(n_workers: int, n_threads: int) -> LocalCluster:
    """Start workers that Ctrl-C does not end: it is for the leader, who needs them once more."""
    in_main = threading.current_thread() is threading.main_thread()
    # What is ignored here, processes that are started here ignore too.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN) if in_main else None
    try:
        return LocalCluster(
            n_workers=n_workers,
            threads_per_worker=n_threads,
            processes=True,
            dashboard_address=":0",  # another cluster may run on this machine
            silence_logs=logging.CRITICAL,
        )
    finally:
        if in_main:
            signal.signal(signal.SIGINT, before)
