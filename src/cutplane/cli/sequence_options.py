"""Options of ``cutplane fit`` for sequences, and what the others mean there."""

from __future__ import annotations

import os
from enum import StrEnum
from functools import partial
from typing import Annotated

import typer

from cutplane.cli.options import require_at_least_one
from cutplane.io import InputError
from cutplane.io.sources import name_of, read_text
from cutplane.structured.templates import BUILT_IN, parse_templates

_option = partial(typer.Option, rich_help_panel="Sequences")


class Pairs(StrEnum):
    """Which pairs of feature and label have a weight."""

    OBSERVED = "observed"
    ALL = "all"


TemplatesOption = Annotated[
    str | None,
    _option(
        metavar="FILE",
        help=f"Feature templates as in CRF++, or a name: {', '.join(BUILT_IN)}.",
        show_default="chunking",
    ),
]
MinCountOption = Annotated[
    int | None,
    _option(help="Leave out features that fewer tokens have.", show_default="1"),
]
PairsOption = Annotated[
    Pairs | None,
    _option(
        help="Weights for all pairs of feature and label, or for those that occur in TRAIN.",
        show_default="observed",
    ),
]

DEFAULT_TEMPLATES = "chunking"


def check_sequence_options(
    *, sequences: bool, templates: str | None, min_count: int | None, pairs: Pairs | None
) -> None:
    """Refuse options for sequences where there are none."""
    given = {"--templates": templates, "--min-count": min_count, "--pairs": pairs}
    for option, value in given.items():
        if value is not None and not sequences:
            raise InputError(f"{option} is for --task sequences")
    require_at_least_one("--min-count", min_count)


def read_templates(name: str) -> str:
    """Return a name of templates that are there, or the text of a file of templates.

    Raises
    ------
    InputError
        With the line of the file that is no template.
    """
    if name in BUILT_IN and not os.path.exists(name):
        return name
    try:
        text = read_text(name) + "\n"  # so that it is not taken for a name
        parse_templates(text, name_of(name))
    except InputError as error:
        raise InputError(f"--templates {error} (known names: {', '.join(BUILT_IN)})") from None
    except ValueError as error:
        raise InputError(str(error)) from None
    return text
