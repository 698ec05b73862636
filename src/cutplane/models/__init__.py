"""Families of models, a folder each, with all that belongs to it: nobody else imports it."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=[
        "columns",
        "few_labels",
        "gram",
        "graphs",
        "measures",
        "multiclass",
        "networks",
        "novelty",
        "ordinal",
        "ranking",
        "rna",
        "sequences",
        "speech",
        "structured",
    ],
)
