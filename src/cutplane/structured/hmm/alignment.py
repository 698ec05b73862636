"""Where maximum likelihood begins: which frames belong to which state and Gaussian at first."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.structured.chains.kernels import Indices
from cutplane.structured.hmm.model import GaussianHMMs
from cutplane.structured.hmm.paths import Path

_CLUSTER_STEPS = 10


def even_path(one: GaussianHMMs, offsets: Indices) -> Path:
    """Return a path through equal parts of each sequence, as far as moves allow it."""
    states = np.empty(offsets[-1], dtype=np.int32)
    jumps = np.zeros(offsets[-1], dtype=np.int32)
    for i0, i1 in pairwise(offsets.tolist()):
        t = np.arange(i1 - i0)
        states[i0:i1] = np.minimum(t * one.n_states // (i1 - i0), t * int(one.jumps[-1]))
        jumps[i0 + 1 : i1] = np.searchsorted(one.jumps, np.diff(states[i0:i1]))
    return Path(states, jumps)


def clusters(frames: Matrix, states: NDArray[np.int32], one: GaussianHMMs) -> NDArray[np.int32]:
    """Return the Gaussian of each frame in its state, by k-means; nothing is left to chance.

    Centers begin along the direction in which the frames of the state spread most, at quantiles.
    """
    found = np.zeros(len(frames), dtype=np.int32)
    scale = frames.std(axis=0)
    scale[scale == 0.0] = 1.0
    for s in range(one.n_states if one.n_components > 1 else 0):
        here = np.flatnonzero(states == s)
        if len(here) < 2:
            continue
        x = (frames[here] - frames[here].mean(axis=0)) / scale
        along = x @ _main_direction(x)
        order = np.argsort(along, kind="stable")
        own = np.empty(len(here), dtype=np.int64)
        own[order] = np.arange(len(here)) * one.n_components // len(here)
        for _ in range(_CLUSTER_STEPS):
            n = np.bincount(own, minlength=one.n_components)
            centers = np.array([x[own == m].mean(axis=0) if n[m] else x[0] for m in range(len(n))])
            distances = ((x[:, None, :] - centers) ** 2).sum(axis=2)
            distances[:, n == 0] = np.inf
            nearest = distances.argmin(axis=1)
            if (nearest == own).all():
                break
            own = nearest
        found[here] = own
    return found


def _main_direction(x: Matrix) -> Vector:
    """Return a direction of large variance: a few powers of the covariance, without a BLAS."""
    covariance = np.einsum("ti,tj->ij", x, x)
    direction = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    for _ in range(20):
        length = math.sqrt(float((direction**2).sum()))
        if length == 0.0:
            return np.ones(x.shape[1])
        direction = np.einsum("ij,j->i", covariance, direction / length)
    return direction
