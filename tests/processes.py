"""Processes that end with the test that started them, and waiting for what they do."""

import os
import signal
import subprocess
import time
from contextlib import suppress

PATIENCE = 600.0
"""Seconds to wait for what comes at once on an idle machine: only what never comes is a failure."""


class Started:
    """Processes, each with a group of its own, to which all that it starts belongs."""

    def __init__(self):
        self._processes = []

    def __call__(self, command, **options):
        """Start a process as `subprocess.Popen` does; with Ctrl-C, which may be ignored here.

        Where the tests themselves run in the background, children would inherit that.
        """
        if os.name == "posix":
            options["preexec_fn"] = _hear_ctrl_c
        process = subprocess.Popen([*map(str, command)], start_new_session=True, **options)
        self._processes.append(process)
        return process

    def end(self):
        """End what still runs, and what it has started."""
        while self._processes:
            end(self._processes.pop())


def _hear_ctrl_c():
    signal.signal(signal.SIGINT, signal.default_int_handler)


def end(process):
    """End a process that leads a group, with the whole group, and close its pipes."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL) if os.name == "posix" else process.kill()
    process.wait(PATIENCE)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with suppress(BrokenPipeError):  # what was not written any more
                pipe.close()


def wait_until(condition, seconds=PATIENCE, *, process=None):
    """Wait until something is so, while a process runs that should bring it about."""
    deadline = time.monotonic() + seconds
    while not condition():
        if process is not None:
            assert process.poll() is None, f"ended too early: {process.communicate()}"
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)
