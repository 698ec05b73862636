"""The program: its commands, and what happens to errors.

Whatever is wrong with files or options ends in one line on standard error, and so does a defect of
the program, with an exit code of its own.

A command is imported when it is called, or asked for its options: NumPy, Numba and scikit-learn
take ten times as long as ``cutplane --help`` does without them.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from cutplane import __version__
from cutplane.cli.process import ExitCode, complain, complain_of_defect, working

# Typer does not export the class of errors in how the program was called, only a child of it.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]


class _OneLineErrors(TyperGroup):
    """Commands whose expected errors are reported in one line."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except _UsageError as error:
            raise _told(_in_words(error)) from None

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (typer.Exit, typer.Abort):
            raise
        except _UsageError as error:
            raise _told(_in_words(error)) from None
        except _expected_errors() as error:
            raise _told(error) from None
        except BrokenPipeError:  # the reader has seen enough; Typer ends quietly
            raise
        except OSError as error:  # files have errors of their own: this is standard output
            from cutplane.io.files import reason

            # What is left goes nowhere, or Python would fail on it again at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise _told(f"standard output: cannot write: {reason(error)}") from None
        except MemoryError:
            raise _told("not enough memory") from None
        except BaseException as error:
            from cutplane.core.interrupts import is_interrupt

            if is_interrupt(error):
                raise _told("interrupted", ExitCode.INTERRUPTED) from None
            if isinstance(error, Exception):
                raise typer.Exit(complain_of_defect(error)) from None
            raise


class _WorkingCommand(TyperCommand):
    """A command with its arguments and options, imported."""

    def invoke(self, ctx: Any) -> Any:
        with working():
            try:
                return super().invoke(ctx)
            finally:
                sys.stdout.flush()  # a full disk shows here, or not at all


class LazyCommand(TyperCommand):
    """A command by name and one line of help; the function that does the work is imported late."""

    def load(self) -> Any:
        """Return the command with its arguments and options."""
        name = str(self.name).replace("-", "_")
        module = importlib.import_module(f"cutplane.cli.{name}")
        # One whose options depend on the estimators that are registered is made when it is called.
        make = getattr(module, f"make_{name}", None)
        program = typer.Typer(add_completion=False)
        function = make() if make else getattr(module, name)
        program.command(self.name, cls=_WorkingCommand)(function)
        return typer.main.get_command(program)

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """Hand over to the command itself, with its arguments."""
        return self.load().make_context(info_name, args, parent=parent, **extra)


def _expected_errors() -> tuple[type[Exception], ...]:
    """Return the errors that say by themselves what is wrong with files, options or packages."""
    from cutplane.compute.arrays import ChangedData
    from cutplane.io import InputError, OutputError
    from cutplane.io.tables import TablesUnavailable
    from cutplane.models.networks.network import TorchUnavailable
    from cutplane.report.figures import PlottingUnavailable

    unavailable = PlottingUnavailable, TablesUnavailable, TorchUnavailable
    return InputError, OutputError, ChangedData, *unavailable


def _told(message: object, code: ExitCode = ExitCode.BAD_INPUT) -> typer.Exit:
    """Say what is wrong; return what ends the program."""
    complain(message)
    return typer.Exit(code)


def _in_words(error: Any) -> str:
    command = error.ctx.command_path if error.ctx else "cutplane"
    return f"{error.format_message().rstrip('.')} (see {command} --help)"


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


# The commands, in the order of the list that --help prints, with the first paragraphs of their own
# docstrings.
COMMANDS = {
    "fit": "Train a model, and prove how close to optimal it is.",
    "predict": "Predict a label for every line of DATA; the labels in DATA are ignored.",
    "evaluate": "Compare a model's predictions with the labels in DATA.",
    "report": "Write a page about a model or runs: one HTML file, to be read anywhere, also "
    "offline.",
    "info": "Say what a model file holds: the model, its certificate, and how it reads a table.",
    "compare": "Fit the same model by several methods, and put what they did side by side.",
    "convert": "Write data to a folder of arrays, which fit, predict and evaluate read from the "
    "disk.",
    "demo": "Show on two small data sets what a fit with a certificate is.",
    "reproduce": "Compute tables and figures of the papers again, beside what the papers found.",
    "warm-up": "Compile what fits need, once, before anyone waits for it.",
}


def make_app() -> typer.Typer:
    """Return the program."""
    program = typer.Typer(
        name="cutplane",
        cls=_OneLineErrors,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for name, about in COMMANDS.items():
        program.command(name, cls=LazyCommand, help=about)(lambda: None)
    program.callback()(_about)
    return program


app = make_app()
