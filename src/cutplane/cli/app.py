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
from cutplane.cli.demo import demo
from cutplane.cli.errors import ExitCode, complain, complain_of_defect
from cutplane.cli.evaluate import evaluate
from cutplane.cli.fit import make_fit
from cutplane.cli.predict import predict
from cutplane.cli.reproduce import reproduce
from cutplane.cli.signals import working
from cutplane.core.interrupts import is_interrupt
from cutplane.io import InputError, OutputError
from cutplane.io.errors import reason
from cutplane.maps.torch_network import TorchUnavailable
from cutplane.report.figures import PlottingUnavailable

# Typer does not export the class of errors in how the program was called, only a child of it.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]


class _OneLineErrors(TyperGroup):
    """Commands whose expected errors are told in one line."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except _UsageError as error:
            raise _told(_in_words(error)) from None

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
            raise _told(_in_words(error)) from None
        except (InputError, OutputError, PlottingUnavailable, TorchUnavailable) as error:
            raise _told(error) from None
        except BrokenPipeError:  # the reader has seen enough; Typer ends quietly
            raise
        except OSError as error:  # files have errors of their own: this is standard output
            _discard_output()
            raise _told(f"standard output: cannot write: {reason(error)}") from None
        except MemoryError:
            raise _told("not enough memory") from None
        except BaseException as error:
            if is_interrupt(error):
                raise _told("interrupted", ExitCode.INTERRUPTED) from None
            if isinstance(error, Exception):
                raise typer.Exit(complain_of_defect(error)) from None
            raise


def _told(message: object, code: ExitCode = ExitCode.BAD_INPUT) -> typer.Exit:
    """Say what is wrong; return what ends the program."""
    complain(message)
    return typer.Exit(code)


def _in_words(error: Any) -> str:
    command = error.ctx.command_path if error.ctx else "cutplane"
    return f"{error.format_message().rstrip('.')} (see {command} --help)"


def _discard_output() -> None:
    """Send what is left for standard output nowhere, or Python would fail on it again at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"cutplane {__version__}")
        raise typer.Exit


def _about(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Fit linear models by cutting planes, with a proof of how close to optimal each fit is."""


def make_app() -> typer.Typer:
    """Return the program, for the estimators that are registered now."""
    program = typer.Typer(
        name="cutplane",
        cls=_OneLineErrors,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for command in (make_fit(), predict, evaluate, demo, reproduce):
        program.command()(command)
    program.callback()(_about)
    return program


app = make_app()
