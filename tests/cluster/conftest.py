"""One cluster of processes for all tests of a session."""

import os
import time

import pytest

distributed = pytest.importorskip("distributed", reason="needs the extra cutplane[dask]")

N_WORKERS = 5


@pytest.fixture(scope="session")
def cluster():
    with distributed.LocalCluster(
        n_workers=N_WORKERS,
        threads_per_worker=1,
        processes=True,
        dashboard_address=":0",  # another cluster may run on this machine
        worker_dashboard_address=None,
        silence_logs=50,
    ) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster) as client:
        wait_for_all(client)
        yield client


def wait_for_all(client):
    """Wait until all workers answer: one that a test has killed may still be on the list."""
    deadline = time.monotonic() + 120.0
    while time.monotonic() < deadline:
        client.wait_for_workers(N_WORKERS, timeout=120)
        answers = client.run(os.getpid, on_error="return")
        if sum(isinstance(answer, int) for answer in answers.values()) == len(answers) == N_WORKERS:
            return
        time.sleep(0.1)
    raise TimeoutError(f"workers do not answer: {answers}")
