"""One cluster of processes for all tests of a session."""

import pytest

distributed = pytest.importorskip("distributed", reason="needs the extra cutplane[dask]")


@pytest.fixture(scope="session")
def cluster():
    with distributed.LocalCluster(
        n_workers=3,
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
        client.wait_for_workers(3, timeout=120)
        yield client
