"""Where X lives, its products, and the maps from parameters to scores that are made of them."""

from cutplane.named import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
