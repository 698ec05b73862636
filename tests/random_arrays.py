"""Sparse arrays of random numbers."""

import numpy as np
import scipy
import scipy.sparse

# What the generator is called.
_NAME = "rng" if [*map(int, scipy.__version__.split(".")[:2])] >= [1, 15] else "random_state"


def random_array(shape, *, rng, **options):
    """Return what `scipy.sparse.random_array` makes, in all versions of SciPy."""
    return scipy.sparse.random_array(shape, **{_NAME: np.random.default_rng(rng)}, **options)
