"""Fit models by cutting planes, with a proof of how close to optimal each fit is."""

import lazy_loader

__version__ = "0.1.0"

# The public names are in __init__.pyi, and are imported when they are first used: NumPy, Numba and
# scikit-learn take a second or two, in which the command line, which begins here too, could not
# tell what Ctrl-C means.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
