"""A data folder as Dask arrays, whose partitions are recipes: a path and a range of rows."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from cutplane.io.folders.folder import DataFolder
from cutplane.io.folders.shards import FolderRecipe, FolderSource


def dask_arrays(folder: DataFolder, n_parts: int) -> dict[str, Any]:
    """Return ``X``, and those of ``y``, ``weights`` and ``queries`` that exist, as Dask arrays.

    Nothing is read before a partition is needed, and then by whoever needs it: the folder must
    have the same path on every worker.

    Parameters
    ----------
    folder : DataFolder
    n_parts : int
        Into how many ranges of rows it is cut.
    """
    import dask.array as da
    from dask import delayed

    source, n_rows = FolderSource(folder), len(folder)
    bounds = [k * n_rows // n_parts for k in range(n_parts + 1)]
    recipes = [source.recipe(*rows) for rows in pairwise(bounds) if rows[0] < rows[1]]
    like = folder.rows(0, 1)

    def array(name: str) -> Any:
        part = like[name]
        parts = [
            da.from_delayed(
                delayed(_read, pure=True)(recipe, name),
                shape=(recipe.end - recipe.begin, *part.shape[1:]),
                meta=part[:0],
            )
            for recipe in recipes
        ]
        return da.concatenate(parts)

    return {name: array(name) for name in like}


def _read(recipe: FolderRecipe, name: str) -> Any:
    return recipe.read()[name]
