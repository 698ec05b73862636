"""What tests start ends with them."""

import os
import signal
import subprocess
import sys

import pytest
from tests.processes import Started

# It starts a process that would live for ever, and lives for ever itself; both hold the pipe open.
PARENT = """
import subprocess, sys, time
child = [sys.executable, "-c", "import time; time.sleep(1e6)"]
subprocess.Popen(child, pass_fds=[int(sys.argv[1])])
print("started", flush=True)
time.sleep(1e6)
"""


@pytest.mark.skipif(os.name != "posix", reason="groups of processes")
def test_a_process_ends_with_all_that_it_has_started():
    started = Started()
    reader, writer = os.pipe()
    command = [sys.executable, "-c", PARENT, writer]
    process = started(command, pass_fds=[writer], stdout=subprocess.PIPE)
    os.close(writer)
    assert process.stdout.readline() == b"started\n"
    started.end()
    assert process.returncode == -signal.SIGKILL
    assert os.read(reader, 1) == b""  # the end: nobody is left who could write
    os.close(reader)
