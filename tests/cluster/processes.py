"""A scheduler and workers as processes of their own, as they are started by hand."""

import os
import subprocess
import sys
import threading
from contextlib import contextmanager

import distributed
from tests.processes import PATIENCE

from cutplane.cluster.workers import in_background


class Processes:
    """A cluster that can be hurt."""

    def __init__(self, folder, start_process):
        self.file = str(folder / "cluster.json")
        self.workers, self.start_process = [], start_process
        # Without a dashboard it still has a page, on a port that another one may have.
        self.scheduler = self._start("scheduler", "--port", "0", "--dashboard-address", ":0")
        self.client = distributed.Client(scheduler_file=self.file, timeout=PATIENCE)

    def _start(self, program, *options):
        command = [sys.executable, "-m", f"distributed.cli.dask_{program}", *options]
        return self.start_process(
            [*command, "--scheduler-file", self.file],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def add(self, n=1):
        """Start workers; wait until they are there; return the process of the last."""
        for _ in range(n):
            self.workers.append(
                self._start("worker", "--nthreads", "1", "--no-nanny", "--no-dashboard")
            )
        self.client.wait_for_workers(sum(each.poll() is None for each in self.workers), PATIENCE)
        return self.workers[-1]

    def address(self, process):
        """Return the address of a worker."""
        pids = pids_of(self.client)
        return next(name for name, pid in pids.items() if pid == process.pid)

    def close(self):
        """Leave the processes, which end with the test."""
        self.client.close(timeout=2)


def pids_of(client, seconds=PATIENCE):
    """Return the processes of the workers that answer, by their addresses."""
    answers = in_background(lambda: client.run(os.getpid, on_error="return")).result(seconds)
    return {name: pid for name, pid in answers.items() if isinstance(pid, int)}


@contextmanager
def ended_after(process, seconds=PATIENCE):
    """End a process that takes too long, so that nobody waits for ever for what it prints."""
    end = threading.Timer(seconds, process.kill)
    end.start()
    try:
        yield
    finally:
        end.cancel()
