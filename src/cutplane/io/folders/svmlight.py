"""Batches of rows from files in the svmlight format."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from cutplane.io.folders.writer import Batch
from cutplane.io.svmlight.lines import Rules
from cutplane.io.svmlight.pieces import read_pieces

QUERY, LABEL = "qid", "label"


def svmlight_batches(
    path: str | os.PathLike[str], rules: Rules, on_part: Callable[[bytes], object]
) -> Iterator[Batch]:
    """Yield the rows of a file; ``on_part`` is called with all that is read, before it is used."""
    for piece in read_pieces(path, rules, on_part=on_part):
        yield Batch((piece.values, piece.indices, piece.indptr), piece.labels, None, piece.qid)
