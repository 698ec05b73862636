"""Another cluster runs on this machine, and has the ports that Dask takes by default."""

import ast
import re
import socket
import subprocess
import sys
import warnings
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

distributed = pytest.importorskip("distributed", reason="needs the extra cutplane[dask]")

from tests.cluster.processes import Processes  # noqa: E402
from tests.docs import test_reference as reference  # noqa: E402
from tests.processes import wait_until  # noqa: E402

from cutplane.cluster.workers import local_client  # noqa: E402

PAGE = (Path(__file__).parents[2] / "docs" / "cluster.md").read_text()


@pytest.fixture(autouse=True)
def taken():
    """Take the ports of a scheduler and its dashboard, unless another cluster really has them."""
    with ExitStack() as sockets:
        for port in (8786, 8787):
            taken = sockets.enter_context(socket.socket())
            with suppress(OSError):
                taken.bind(("", port))
                taken.listen()
            socket.create_connection(("127.0.0.1", port)).close()
        yield


def test_workers_of_the_program():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with local_client(1) as client:
            assert client.submit(sum, [1, 2]).result() == 3


@pytest.mark.parametrize(
    "name", [name for name, code in reference.EXAMPLES.items() if "Client(" in code]
)
def test_examples_of_the_reference(name, tmp_path, monkeypatch):
    reference.test_example(name, tmp_path, monkeypatch)


def test_a_scheduler_of_the_tests(start_process, tmp_path):
    said = tmp_path / "said"
    with said.open("wb") as file:
        Processes(tmp_path, lambda command, **_: start_process(command, stderr=file)).close()
    assert b"already in use" not in said.read_bytes()


def test_the_scheduler_of_the_page(start_process, tmp_path):
    (anywhere,) = re.findall(r"^anywhere = (\[.+?\])", PAGE, re.MULTILINE)
    assert 'start("scheduler", *anywhere' in PAGE
    file, said = tmp_path / "cluster.json", tmp_path / "said"
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", *ast.literal_eval(anywhere)]
    with said.open("wb") as errors:
        scheduler = start_process(
            [*command, "--scheduler-file", file], stdout=subprocess.DEVNULL, stderr=errors
        )
        wait_until(file.exists, process=scheduler)
    assert b"already in use" not in said.read_bytes()
