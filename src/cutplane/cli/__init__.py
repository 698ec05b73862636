"""The command line: ``cutplane fit | predict | evaluate | demo``."""


def main() -> None:
    """Run the command line. The console script ``cutplane`` calls this."""
    from cutplane.cli.app import app

    app()
