"""Fit models by cutting planes, with a proof of how close to optimal each fit is."""

__version__ = "0.1.0"

# The public names are in __init__.pyi, and nothing is imported before one of them is used. NumPy,
# Numba and scikit-learn take a second or two, and the list itself some milliseconds, in which the
# command line, which begins here too, could not tell what Ctrl-C means.


def __getattr__(name: str) -> object:
    import lazy_loader

    found, listed, names = lazy_loader.attach_stub(__name__, __file__)
    globals().update(__getattr__=found, __dir__=listed, __all__=names)
    return names if name == "__all__" else found(name)


def __dir__() -> list[str]:
    return sorted(__getattr__("__all__"))
