"""What can happen to a cluster: bounds that hold, within the tolerance, or an error that says what;
no wait without an end."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import cutplane as cp

da = pytest.importorskip("dask.array", reason="needs the extra cutplane[dask]")
distributed = pytest.importorskip("distributed", reason="needs the extra cutplane[dask]")

from tests.cluster.processes import Processes, ended_after, pids_of  # noqa: E402
from tests.processes import PATIENCE, wait_until  # noqa: E402

from cutplane.cluster import sharded_sample  # noqa: E402
from cutplane.cluster.risk import ShardedRisk  # noqa: E402
from cutplane.cluster.workers import ClusterError  # noqa: E402

pytestmark = pytest.mark.slow

M, D = 350_000, 3  # eight shards, so that each of five workers has some
OPTIONS = {"method": cp.bmrm(), "tol": 1e-6}


def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(M, D))
    y = np.where(X @ np.array([2.0, -1.0, 0.5]) + rng.normal(size=M) > 0.0, 1.0, -1.0)
    return X, y


def collections():
    return [da.from_array(array, chunks=(70_000, *array.shape[1:])) for array in data()]


def fit(callbacks=(), **options):
    """Return the result of a fit on the cluster in use, and which workers were lost."""
    sample = sharded_sample(*collections(), **options)
    try:
        risk = ShardedRisk(sample, cp.Logistic())
        return cp.minimize(risk, cp.L2(1e-5), **OPTIONS, callbacks=callbacks), sample.losses
    finally:
        sample.close()


@pytest.fixture(scope="module")
def plain():
    X, y = data()
    return cp.minimize(cp.ScoredRisk(X, y, cp.Logistic()), cp.L2(1e-5), **OPTIONS)


@pytest.fixture
def processes(start_process, tmp_path):
    cluster = Processes(tmp_path, start_process)
    yield cluster
    cluster.close()


def same(one, other):
    """Say whether nothing has left a trace."""
    return (
        np.array_equal(one.w, other.w)
        and one.certificate.lower_bound == other.certificate.lower_bound
        and one.evaluations == other.evaluations
    )


def agree(one, other):
    """Say whether both are within the tolerance, and their certificates may both be true."""
    certificates = one.certificate, other.certificate
    return all(a.valid and a.relative_gap <= OPTIONS["tol"] for a in certificates) and all(
        a.lower_bound <= b.objective for a in certificates for b in certificates
    )


def once(iteration, act):
    """Return a callback that acts after an iteration."""

    def callback(state):
        if state.iteration == iteration:
            act()

    return callback


def test_workers_killed_at_random_moments_cost_no_proof(client, plain):
    rng = np.random.default_rng(0)
    fit()  # imports and compiles
    begin = time.monotonic()
    fit()
    usual = time.monotonic() - begin
    for k in range(20):
        # One that a kill has ended may still be being started again.
        wait_until(lambda: len(pids_of(client)) >= 2)
        pids = pids_of(client)
        victim = pids[rng.choice(sorted(pids))]
        if k % 2:  # while it works: then it is missed
            moment = once(rng.integers(1, plain.iterations - 2), partial(_kill, victim))
            result, losses = fit([moment], patience=120.0)
            assert losses
        else:  # at any time, perhaps when there is no connection yet
            timer = threading.Timer(rng.uniform(0.0, usual), _kill, [victim])
            timer.start()
            result, losses = fit(patience=120.0)
            timer.cancel()
            timer.join()
        assert agree(plain, result)
        if not losses:
            assert same(plain, result)


def _kill(pid):
    with suppress(ProcessLookupError):  # killed before
        os.kill(pid, signal.SIGKILL)


def test_a_stopped_worker_is_given_up_after_the_patience(processes, plain):
    first, second = processes.add(), processes.add()
    stopped = processes.address(first)
    begin = time.monotonic()
    result, losses = fit([once(3, lambda: first.send_signal(signal.SIGSTOP))], patience=8.0)
    assert time.monotonic() - begin < PATIENCE
    (loss,) = losses
    assert stopped in loss
    assert "shards [" in loss
    assert "nothing heard for 8 s" in loss
    assert agree(plain, result)
    assert second.poll() is None


def test_a_slow_worker_is_not_given_up(processes, plain):
    slow, _ = processes.add(), processes.add()

    def pause(state):
        if state.iteration % 3 == 0:
            slow.send_signal(signal.SIGSTOP)
            threading.Timer(0.5, slow.send_signal, [signal.SIGCONT]).start()

    result, losses = fit([pause], patience=20.0)
    assert not losses
    assert same(plain, result)


def test_a_worker_that_joins_takes_over(processes, plain):
    first = processes.add()

    def replace():
        processes.add()
        first.kill()

    result, losses = fit([once(2, replace)])
    assert len(losses) == 1
    assert agree(plain, result)


def test_a_restarted_worker_is_used_again(plain):
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address=":0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        (pid,) = pids_of(client).values()

        def kill():
            os.kill(pid, signal.SIGKILL)

        result, losses = fit([once(3, kill)])
        assert len(losses) == 1
        assert agree(plain, result)


def test_a_cluster_without_workers_is_named(processes):
    worker = processes.add()
    name = processes.address(worker)
    with pytest.raises(ClusterError, match=f"none came within 60 s .*{name}.*shards") as caught:
        fit([once(2, worker.kill)])
    assert caught.value.result.certificate.lower_bound <= caught.value.result.objective
    with pytest.raises(ClusterError, match="none came within 60 s"):
        cp.LinearClassifier().fit(*collections())


def test_a_scheduler_that_is_gone_is_named(processes):
    processes.add(2)

    def kill():
        processes.scheduler.kill()
        # The workers leave when they hear of it. Until then a fit would go on.
        wait_until(lambda: all(each.poll() is not None for each in processes.workers))

    begin = time.monotonic()
    with pytest.raises(ClusterError, match="the scheduler is gone"):
        fit([once(2, kill)])
    assert time.monotonic() - begin < PATIENCE


SCRIPT = """
import sys
import time

import distributed
from tests.cluster.test_faults import collections

import cutplane as cp


def tell(state):
    print(state.iteration, flush=True)
    time.sleep(0.1)


with distributed.Client(scheduler_file=sys.argv[1]) as client:
    model = cp.LinearClassifier(
        "logistic", lam=1e-5, callbacks=[tell], checkpoint=cp.Checkpoint(sys.argv[2], every=0.0),
        tol=1e-6, method=cp.bmrm(),
    )
    model.fit(*collections())
    found = model.certificate_
    print("end", found.status, found.valid, found.lower_bound, found.objective, flush=True)
"""


def start(processes, folder, iterations):
    """Start a client; return it after that many iterations, also of clients before it."""
    client = processes.start_process(
        [sys.executable, "-c", SCRIPT, processes.file, str(folder / "run")],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    with ended_after(client):
        while int(client.stdout.readline()) < iterations:
            pass
    return client


def test_a_client_is_interrupted_or_killed_and_goes_on_from_its_checkpoint(processes, tmp_path):
    processes.add(2)
    undisturbed = cp.LinearClassifier("logistic", lam=1e-5, tol=1e-6, method=cp.bmrm())
    undisturbed.fit(*data())
    client = start(processes, tmp_path, 5)
    client.send_signal(signal.SIGINT)
    out, _ = client.communicate(timeout=PATIENCE)
    assert out.splitlines()[-1].startswith("end interrupted")
    assert client.returncode == 0
    client = start(processes, tmp_path, 8)
    client.kill()
    client.communicate(timeout=PATIENCE)
    processes.add()
    processes.workers[0].kill()
    out, _ = start(processes, tmp_path, 9).communicate(timeout=PATIENCE)
    end, status, valid, lower, objective = out.splitlines()[-1].split()
    assert (end, status, valid) == ("end", "optimal", "True")
    assert float(lower) <= undisturbed.certificate_.objective
    assert undisturbed.certificate_.lower_bound <= float(objective)
    # What the killed client had on the workers is gone: nobody serves it any more.
    wait_until(lambda: not any(processes.client.run(_n_threads).values()))


def _n_threads():
    return sum(each.name == "cutplane worker" for each in threading.enumerate())
