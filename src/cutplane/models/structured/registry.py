"""The models of the library by name: model files keep these."""

from __future__ import annotations

from typing import Any

from cutplane.named import ByName

MODELS = ByName[type[Any]](
    {
        "MulticlassModel": "cutplane.models.structured.classes:MulticlassModel",
        "MultilabelModel": "cutplane.models.graphs.multilabel:MultilabelModel",
        "TreeModel": "cutplane.models.graphs.forests:TreeModel",
        "GraphModel": "cutplane.models.graphs.graphs:GraphModel",
        "RNAFolding": "cutplane.models.rna.model:RNAFolding",
    }
)
"""From a name to the class."""
