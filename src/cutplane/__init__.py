"""Fit models by cutting planes, with a proof of how close to optimal each fit is."""

# The public names are in __init__.pyi, and nothing is imported before one of them is used. NumPy,
# Numba and scikit-learn take a second or two, and the list itself some milliseconds, in which the
# command line, which begins here too, could not tell what Ctrl-C means.


def __getattr__(name: str) -> object:
    globals()["__version__"] = version = _installed_version()
    if name == "__version__":
        return version
    import lazy_loader

    found, listed, names = lazy_loader.attach_stub(__name__, __file__)
    globals().update(__getattr__=found, __dir__=listed, __all__=names)
    return names if name == "__all__" else found(name)


def __dir__() -> list[str]:
    return sorted(__getattr__("__all__"))


def _installed_version() -> str:
    """Return the version that was made of the repository's tags when the package was built."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("cutplane")
    except PackageNotFoundError:  # source that was put on the path
        return "0+unknown"
