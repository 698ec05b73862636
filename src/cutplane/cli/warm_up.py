"""``cutplane warm-up``: compile the kernels before they are needed, in an image or in CI."""

from __future__ import annotations

import contextlib
import itertools
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from cutplane.cli.fit import Choice, choose
from cutplane.cli.options import QuietOption, require_known
from cutplane.cli.process import compile_notes
from cutplane.compute.compiled import watch
from cutplane.estimators import estimators_by_task
from cutplane.estimators.classifier import MULTI_CLASS
from cutplane.estimators.description import Reads, parameters_of

_ROW = "{} {}1:{} 2:{} 3:1\n"
_TOKENS = "the DT B-NP\ncat NN I-NP\nsat VB O\n\n"
_FRAMES = "a 1 2\na 2 1\na 1 1\n\nb 8 7\nb 7 8\nb 8 8\n\n"


def warm_up(
    tasks: Annotated[
        list[str] | None,
        typer.Argument(metavar="TASK...", help="Tasks of fit.", show_default="classification"),
    ] = None,
    quiet: QuietOption = False,
) -> None:
    """Compile what fits need, once, before anyone waits for it.

    Small models of the tasks are fitted, with their first loss, to data as files give them and to
    dense ones, and where there are losses of all classes at once, with these. What is compiled goes
    to the folder NUMBA_CACHE_DIR, or beside the source.
    """
    chosen = tasks or ["classification"]
    for task in chosen:
        require_known("TASK", task, estimators_by_task())
    kernels, seconds = watch.n_kernels, watch.seconds
    with compile_notes(quiet=quiet), tempfile.TemporaryDirectory() as folder:
        for task in chosen:
            _fit_small_models(task, Path(folder) / "data.txt")
    if not quiet:
        print(f"{watch.n_kernels - kernels} kernels compiled in {watch.seconds - seconds:.1f} s")


def _fit_small_models(task: str, path: Path) -> None:
    choice = choose(task, None)
    path.write_text(_small_data(choice.description.reads))
    examples = choice.read(str(path), {})
    kinds = [examples.X]
    if choice.description.reads in (Reads.ROWS, Reads.QUERIES):
        kinds.append(examples.X.toarray())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so small models are bad ones
        for X in kinds:
            choice.make({}).fit(X, examples.y, **examples.options).predict(X)
            for parameters, y in _other_fits(choice, examples.y):
                # Not every risk and every kind of rows suits every method.
                with contextlib.suppress(ValueError):
                    choice.make(parameters).fit(X, y, **examples.options).predict(X)


def _other_fits(choice: Choice, y: Any) -> Iterator[tuple[dict[str, Any], Any]]:
    """Yield parameters and targets for what `auto` chooses for more data, or more classes."""
    methods = choice.description.methods.keys() & {"grouped", "dual-ascent", "newton"}
    for method in methods:
        yield {"method": method}, y
    if "multi_class" in parameters_of(choice.estimator):
        three = np.arange(len(y)) % 3
        joint = {name: at_once for name, at_once in MULTI_CLASS.items() if at_once is not None}
        for (name, of), method in itertools.product(joint.items(), methods):
            yield {"multi_class": name, "loss": of.extended_name, "method": method}, three


def _small_data(reads: Reads) -> str:
    """Return a few examples in the format of a task."""
    if reads is Reads.SEQUENCES:
        return 4 * _TOKENS
    if reads is Reads.FRAMES:
        return 4 * _FRAMES
    query = "qid:{} " if reads is Reads.QUERIES else ""
    return "".join(
        _ROW.format(1 + i % 2, query.format(1 + i // 8), 0.25 * (i % 5), i % 3 - 1 + i % 2)
        for i in range(24)
    )
