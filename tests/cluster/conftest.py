"""One cluster of processes for all tests of a session."""

import pytest

distributed = pytest.importorskip("distributed", reason="needs the extra cutplane[dask]")

import dask  # noqa: E402
from distributed.utils import get_mp_context  # noqa: E402
from tests.cluster.processes import pids_of  # noqa: E402
from tests.processes import wait_until  # noqa: E402

N_WORKERS = 5


# What workers import: once, by the process that they are forked from. Five of them that import it
# at the same time take minutes where others work too, and so do those that are started again.
PRELOADED = [
    "dask.array",
    "dask.bag",
    "distributed",
    "cutplane.cluster.workers",
    "cutplane.estimators",
    "cutplane.solvers",
    "cutplane.cluster.risk",
]


@pytest.fixture(scope="session")
def cluster():
    with (
        dask.config.set(
            {
                "distributed.worker.multiprocessing-method": "forkserver",
                # After that the cluster gives up one that is being started again, 15 s by default.
                "distributed.deploy.lost-worker-timeout": "600 s",
            }
        ),
        _local_cluster() as cluster,
    ):
        yield cluster


def _local_cluster():
    get_mp_context().set_forkserver_preload(PRELOADED)
    return distributed.LocalCluster(
        n_workers=N_WORKERS,
        threads_per_worker=1,
        processes=True,
        dashboard_address=":0",  # another cluster may run on this machine
        worker_dashboard_address=None,
        silence_logs=50,
    )


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster) as client:
        wait_for_all(client)
        yield client


def wait_for_all(client):
    """Wait until all workers answer: one that a test has killed may still be on the list."""

    def all_answer():
        known = client.scheduler_info(n_workers=-1)["workers"]
        return len(known) == N_WORKERS and len(pids_of(client)) == N_WORKERS

    wait_until(all_answer)
