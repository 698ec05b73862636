"""``cutplane convert``: from a file to a folder that fits read from the disk."""

from __future__ import annotations

import contextlib
import sys
from typing import Annotated, Any

import typer

from cutplane.cli.options import QuietOption, require_at_least_one, require_known
from cutplane.io.conversion import FORMATS
from cutplane.io.conversion import convert as convert_data
from cutplane.report.progress import bytes_on


def _column(help: str) -> Any:
    """Return an option that names a column of a table."""
    return typer.Option(metavar="COLUMN", help=help)


def convert(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="svmlight, CSV, TSV, Parquet or Arrow; the first three also compressed, or - for "
            "stdin.",
        ),
    ],
    folder: Annotated[
        str, typer.Argument(metavar="FOLDER", help="The folder to write, for fit and others.")
    ],
    format: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"{', '.join(FORMATS)}.",
            show_default="as SOURCE ends, else svmlight",
        ),
    ] = None,
    target: Annotated[str | None, _column("What to predict: numbers or words.")] = None,
    weights: Annotated[str | None, _column("Weights of examples.")] = None,
    query: Annotated[str | None, _column("Queries of a ranking; qid for svmlight.")] = None,
    drop: Annotated[list[str] | None, _column("Left out; may be given several times.")] = None,
    float32: Annotated[
        bool, typer.Option("--float32", help="Half the size: features with 7 digits, not 16.")
    ] = False,
    features: Annotated[
        int | None,
        typer.Option(help="Number of features.", show_default="of svmlight, the largest index"),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace FOLDER if it is a data folder.")
    ] = False,
    quiet: QuietOption = False,
) -> None:
    """Write data to a folder of arrays, which fit, predict and evaluate read from the disk.

    SOURCE is read once, in memory that does not depend on its size. Of a table, all columns that
    no option names are features. FOLDER is there only when it is complete.
    """
    require_at_least_one("--features", features)
    if format is not None:
        require_known("--format", format, FORMATS)
    with contextlib.ExitStack() as stack:
        made = convert_data(
            source,
            folder,
            format=format,
            target=target,
            weights=weights,
            query=query,
            drop=drop or (),
            dtype="float32" if float32 else "float64",
            n_features=features,
            force=force,
            on_progress=None if quiet else stack.enter_context(bytes_on(sys.stderr)),
        )
    if not quiet:
        m, d = made.shape
        kind = "sparse" if made.manifest.sparse else "dense"
        print(f"{folder}: {m:,} samples, {d:,} features, {kind}, {made.n_bytes / 1e6:,.1f} MB")
