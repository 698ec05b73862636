"""The program: its commands, and what happens to errors.

Whatever is wrong with files or options ends in one line on standard error, and so does a defect of
the program, with an exit code of its own.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from cutplane import __version__
from cutplane.cli.defects import complain_of_defect
from cutplane.cli.demo import demo
from cutplane.cli.evaluate import evaluate
from cutplane.cli.exit_codes import ExitCode
from cutplane.cli.fit import fit
from cutplane.cli.predict import predict
from cutplane.cli.reproduce import reproduce
from cutplane.cli.signals import working
from cutplane.core.interrupts import is_interrupt
from cutplane.io import InputError, OutputError
from cutplane.io.errors import reason
from cutplane.report.figures import PlottingUnavailable

# Typer does not export the class of errors in how the program was called, only a child of it.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]


class _OneLineErrors(TyperGroup):
    """Commands whose expected errors are told in one line."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except _UsageError as error:
            _complain_of_usage(error)
            raise typer.Exit(ExitCode.BAD_INPUT) from None

    def invoke(self, ctx: Any) -> Any:
        try:
            with working():
                try:
                    return super().invoke(ctx)
                finally:
                    sys.stdout.flush()  # a full disk shows here, or not at all
        except (typer.Exit, typer.Abort):
            raise
        except _UsageError as error:
            _complain_of_usage(error)
            raise typer.Exit(ExitCode.BAD_INPUT) from None
        except (InputError, OutputError, PlottingUnavailable) as error:
            _complain(str(error))
            raise typer.Exit(ExitCode.BAD_INPUT) from None
        except BrokenPipeError:  # the reader has seen enough; Typer ends quietly
            raise
        except OSError as error:  # files have errors of their own: this is standard output
            _complain(f"standard output: cannot write: {reason(error)}")
            _discard_output()
            raise typer.Exit(ExitCode.BAD_INPUT) from None
        except MemoryError:
            _complain("not enough memory")
            raise typer.Exit(ExitCode.BAD_INPUT) from None
        except BaseException as error:
            if is_interrupt(error):
                _complain("interrupted")
                raise typer.Exit(ExitCode.INTERRUPTED) from None
            if isinstance(error, Exception):
                raise typer.Exit(complain_of_defect(error)) from None
            raise


def _complain_of_usage(error: Any) -> None:
    command = error.ctx.command_path if error.ctx else "cutplane"
    message = " ".join(error.format_message().split()).rstrip(".")
    _complain(f"{message} (see {command} --help)")


def _complain(message: str) -> None:
    print(f"cutplane: {message}", file=sys.stderr)


def _discard_output() -> None:
    """Send what is left for standard output nowhere, or Python would fail on it again at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())


app = typer.Typer(
    name="cutplane",
    cls=_OneLineErrors,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(fit)
app.command()(predict)
app.command()(evaluate)
app.command()(demo)
app.command()(reproduce)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"cutplane {__version__}")
        raise typer.Exit


@app.callback()
def cutplane(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Fit linear models by cutting planes, with a proof of how close to optimal each fit is."""
