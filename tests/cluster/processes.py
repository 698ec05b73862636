"""A scheduler and workers as processes of their own, as they are started by hand."""

import os
import signal
import subprocess
import sys
import time

import distributed


class Processes:
    """A cluster that can be hurt."""

    def __init__(self, folder):
        self.file = str(folder / "cluster.json")
        self.workers = []
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
        pids = self.client.run(os.getpid)
        return next(name for name, pid in pids.items() if pid == process.pid)

    def close(self):
        """End all of it; nothing may be left."""
        self.client.close(timeout=2)
        for process in [*self.workers, self.scheduler]:
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
