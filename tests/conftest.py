"""Settings shared by all tests."""

import os
import signal

import pytest
from hypothesis import HealthCheck, settings
from tests.processes import Started

# Compiling a kernel on its first call takes longer than any deadline for one example.
settings.register_profile(
    "default",
    deadline=None,
    max_examples=int(os.environ.get("CUTPLANE_EXAMPLES", "30")),
    derandomize=True,
    # Nor is it slow to generate examples: the machine may be busy.
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("default")

# A shell's background job ignores Ctrl-C, and tests that press it would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def start_process():
    """Return a function that starts processes, which end with the test, whatever comes of it."""
    started = Started()
    yield started
    started.end()


@pytest.fixture(scope="session")
def data_folder():
    """The folder of real data sets; tests that need it are marked slow."""
    folder = os.environ.get("CUTPLANE_DATA")
    if not folder:
        pytest.skip("CUTPLANE_DATA is not set: it names the folder with the real data sets")
    return folder


@pytest.fixture(autouse=True, scope="session")
def _key_of_the_tests(tmp_path_factory):
    """Keep the key that signs checkpoints away from that of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUTPLANE_KEY_FILE", str(tmp_path_factory.mktemp("key") / "checkpoint.key"))
        yield
