"""Rows of a data folder as shards: a path and a range of rows is all that travels.

Whoever holds a shard reads it from the folder itself, and a shard that is lost is read again. The
folder must have the same path everywhere, and is recognized by the digest of its manifest, in which
are those of all its arrays.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from cutplane.io.errors import InputError
from cutplane.io.folders.folder import DataFolder, open_folder
from cutplane.io.folders.manifest import digest_of


@dataclass(frozen=True)
class FolderRecipe:
    """How to read some rows of a data folder."""

    path: str
    sha256: str
    begin: int
    end: int

    def read(self) -> dict[str, Any]:
        """Return the rows, by the names of their arrays (see `DataFolder.rows`)."""
        folder = open_folder(self.path)
        if digest_of(folder.manifest) != self.sha256:
            raise InputError(f"{self.path}: not the data that the fit began with")
        return folder.rows(self.begin, self.end)


class FolderSource:
    """A data folder that shards are read from.

    Parameters
    ----------
    folder : DataFolder
        Under this path, made absolute, whoever holds a shard must find it.
    """

    def __init__(self, folder: DataFolder) -> None:
        self.n_rows = len(folder)
        self._path, self._sha256 = os.path.abspath(folder.path), digest_of(folder.manifest)

    def recipe(self, begin: int, end: int) -> FolderRecipe:
        """Return how to read some of the rows."""
        return FolderRecipe(self._path, self._sha256, begin, end)
