"""A scheduler and workers as processes of their own, as they are started by hand."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import distributed

from cutplane.cluster.seat import in_background


class Processes:
    """A cluster that can be hurt."""

    def __init__(self, folder):
        self.file = str(folder / "cluster.json")
        self.workers, self.clients = [], []
        self.scheduler = self._start("scheduler", "--port", "0", "--no-dashboard")
        self.client = distributed.Client(scheduler_file=self.file, timeout=120)

    def _start(self, program, *options):
        command = [sys.executable, "-m", f"distributed.cli.dask_{program}", *options]
        return subprocess.Popen(
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
        self.client.wait_for_workers(sum(each.poll() is None for each in self.workers), timeout=120)
        return self.workers[-1]

    def address(self, process):
        """Return the address of a worker."""
        pids = pids_of(self.client)
        return next(name for name, pid in pids.items() if pid == process.pid)

    def close(self):
        """End all of it; nothing may be left."""
        self.client.close(timeout=2)
        for process in [*self.clients, *self.workers, self.scheduler]:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait(30)


def wait_until(condition, seconds=60.0):
    """Wait until something is so."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def pids_of(client, seconds=120.0):
    """Return the processes of the workers that answer, by their addresses."""
    answers = in_background(lambda: client.run(os.getpid, on_error="return")).result(seconds)
    return {name: pid for name, pid in answers.items() if isinstance(pid, int)}


@contextmanager
def ended_after(process, seconds=300.0):
    """End a process that takes too long, so that nobody waits for ever for what it prints."""
    end = threading.Timer(seconds, process.kill)
    end.start()
    try:
        yield
    finally:
        end.cancel()
