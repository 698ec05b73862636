"""Settings shared by all tests."""

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

# Compiling a kernel on its first call takes longer than any deadline for one example.
settings.register_profile(
    "default",
    deadline=None,
    max_examples=int(os.environ.get("CUTPLANE_EXAMPLES", "30")),
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
settings.load_profile("default")

# A shell's background job ignores Ctrl-C, and tests that press it would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def data_folder():
    """The folder of real data sets; tests that need it are marked slow."""
    folder = os.environ.get("CUTPLANE_DATA")
    if not folder:
        pytest.skip("CUTPLANE_DATA is not set: it names the folder with the real data sets")
    return folder
