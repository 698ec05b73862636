"""Files: data, models, traces. What is read is checked; what is written is whole."""

from cutplane.named import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
