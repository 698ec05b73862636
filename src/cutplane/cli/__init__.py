"""The command line: ``cutplane fit | predict | evaluate | convert | demo``."""

import io
import os
import sys


def main() -> None:
    """Run the command line. The console script ``cutplane`` calls this."""
    # Little is imported above, and slow packages below, so that Ctrl-C is one line at any moment.
    try:
        from cutplane.cli.process import end_at_ctrl_c

        end_at_ctrl_c()
    except KeyboardInterrupt:
        os.write(2, b"cutplane: interrupted\n")
        os._exit(130)
    try:
        from cutplane.cli.app import app

        # A label that the terminal has no letters for is no reason to fail.
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        app()
    except Exception as error:
        from cutplane.cli.process import complain_of_defect

        sys.exit(complain_of_defect(error))
