"""Read RNA sequences with their structures: three lines an item, in dots and brackets."""

from __future__ import annotations

import os
from typing import NamedTuple

from cutplane.io.files import InputError, name_of, read_text
from cutplane.models.rna.model import RNAFolding, bases_of, partners_of


class FoldedRNA(NamedTuple):
    """A sequence and its structure, with a name."""

    name: str
    sequence: str
    structure: str


def read_structures(path: str | os.PathLike[str], *, clean: bool = False) -> list[FoldedRNA]:
    """Return the items of a file; each has a line ``>name``, its sequence and its structure.

    Parameters
    ----------
    path : str or PathLike
        The file, in text, compressed or not; ``-`` for standard input.
    clean : bool
        Whether to take out pairs that `cutplane.RNAFolding` does not know.

    Raises
    ------
    InputError
        With the number of the line, if it is not what it should be.
    """
    lines = read_text(path).split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    items = []
    for begin in range(0, len(lines), 3):
        name, sequence, structure = (
            [line.strip() for line in lines[begin : begin + 3]] + [""] * 2
        )[:3]
        if not name.startswith(">"):
            raise InputError(
                f"{name_of(path)}:{begin + 1}: expected a name after >, found {name[:20]!r}"
            )
        if not sequence:
            raise InputError(f"{name_of(path)}:{begin + 2}: the sequence is missing")
        for line, (read, text) in enumerate([(bases_of, sequence), (partners_of, structure)], 2):
            try:
                read(text)
            except ValueError as error:
                raise InputError(f"{name_of(path)}:{begin + line}: {error}") from error
        if len(sequence) != len(structure):
            raise InputError(
                f"{name_of(path)}:{begin + 3}: a structure of {len(structure)} bases for a "
                f"sequence of {len(sequence)}"
            )
        if clean:
            structure = RNAFolding.without_odd_pairs(sequence, structure)
        items.append(FoldedRNA(name[1:].strip(), sequence, structure))
    return items
