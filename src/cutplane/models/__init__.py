"""Families of models, a folder each, with all that belongs to it: nobody else imports it."""

from pkgutil import iter_modules

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__, submodules=[family.name for family in iter_modules(__path__)]
)
