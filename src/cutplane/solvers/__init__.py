"""Methods by name, the automatic choice among them, and the front door."""

from cutplane.named import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
