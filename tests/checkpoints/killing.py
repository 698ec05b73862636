"""Children that kill themselves at a chosen point."""

import os
import pickle
import select
import signal
import sys
import time
import traceback
from functools import partial
from itertools import count

import psutil

import cutplane as cp
from cutplane.compute import durable


def at_boundary(nth, number=signal.SIGKILL):
    """Send a signal to this process at its nth write boundary."""
    steps = count()

    def observe(_):
        if next(steps) == nth:
            os.kill(os.getpid(), number)

    durable.observer = observe


# Called by Numba for a kernel that is compiled or read, which happens once, and not in children.
COMPILING = ("compiled.py", "compiling.py", "pipeline.py")


def _at_each_call(act, after):
    """Act when a function of cutplane is called, from the first call of one named ``after`` on."""
    begun = after is None

    def observe(frame, event, _):
        nonlocal begun
        file = frame.f_code.co_filename
        if event == "call" and "cutplane" in file and os.path.basename(file) not in COMPILING:
            begun = begun or frame.f_code.co_name == after
            if begun:
                act()

    sys.setprofile(observe)


def at_call(nth, number=signal.SIGKILL, *, after=None):
    """Send a signal to this process when the nth function of cutplane is called."""
    calls = count()

    def act():
        if next(calls) == nth:
            sys.setprofile(None)
            os.kill(os.getpid(), number)

    _at_each_call(act, after)


def calls_of(function, *, after=None):
    """Return how many functions of cutplane are called."""
    calls = count()
    _at_each_call(lambda: next(calls), after)
    try:
        function()
    finally:
        sys.setprofile(None)
    return next(calls)


def boundaries_of(function):
    """Return the write boundaries that are met, in order."""
    steps = []
    durable.observer = steps.append
    try:
        function()
    finally:
        durable.observer = None
    return steps


def in_child(function, prepare=lambda: None):
    """Run a function in a child process; return how it ended, and what the function returned.

    The first is the number of the signal that ended it, negative, or its exit status.
    """
    for _ in range(3):
        if (ended := _forked(function, prepare)) is not None:
            return ended
    raise TimeoutError("three children in a row did nothing")


# Seconds in which a child has not used the processor: it never will. At the fork a thread of other
# tests, of a Dask cluster say, held a lock (OpenSSL's, for digests) that nobody gives back there.
PATIENCE = 60.0


def _forked(function, prepare):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(reader)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            prepare()
            try:
                found = function()
            finally:
                sys.setprofile(None)
            with os.fdopen(writer, "wb") as stream:
                pickle.dump(found, stream)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(writer)
    content = None
    try:
        content = _all_from(reader, child)
    finally:
        if content is None:  # it does nothing, or Ctrl-C was pressed: it does not outlive the tests
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    if content is None:
        return None
    return os.waitstatus_to_exitcode(status), pickle.loads(content) if content else None


def _all_from(reader, child):
    """Return what a child writes into a pipe; None if it no longer uses the processor."""
    content, used, since = b"", -1.0, time.monotonic()
    with os.fdopen(reader, "rb", buffering=0) as stream:
        while time.monotonic() - since <= PATIENCE:
            if select.select([stream], [], [], 1.0)[0]:
                if not (part := stream.read(1 << 16)):
                    return content
                content += part
            elif used < (now := sum(psutil.Process(child).cpu_times()[:2])):
                used, since = now, time.monotonic()
    return None


KILLED = -signal.SIGKILL


def require_kill(work, prepare):
    """Check that a child was killed, and by itself: it had not ended before."""
    status, found = in_child(work, prepare)
    assert (status, found) == (KILLED, None)


def require_same_after_kills_at_boundaries(work, folder):
    """Check that work gives the same again after it was killed at each of its write boundaries."""
    expected = work()
    steps = boundaries_of(partial(work, cp.Checkpoint(folder / "first", 0)))
    assert len(steps) > 100
    for nth in range(len(steps)):
        again = partial(work, cp.Checkpoint(folder / str(nth), 0))
        require_kill(again, partial(at_boundary, nth))
        assert again() == expected, steps[nth]


def interrupted_at(parts, checkpointed, name, folder):
    """Yield work that was interrupted by Ctrl-C after parts of its calls, and what came of it.

    Without a write before: what Ctrl-C leaves is all there is. It comes once the loop has begun.
    """
    whole = calls_of(partial(checkpointed, name, folder / "first", every=1e9), after="descend")
    for part in parts:
        work = partial(checkpointed, name, folder / str(part), every=1e9)
        press = partial(at_call, int(part * whole), signal.SIGINT, after="descend")
        yield work, in_child(work, press)
