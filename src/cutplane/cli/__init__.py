"""The command line: ``cutplane fit | predict | evaluate | demo``."""

import io
import sys


def main() -> None:
    """Run the command line. The console script ``cutplane`` calls this."""
    from cutplane.cli.app import app

    # A label that the terminal has no letters for is no reason to fail.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    app()
