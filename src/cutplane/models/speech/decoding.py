"""The best path of frames through hidden Markov models, given what is said or not.

Where maximum likelihood begins: which frames belong to which state and Gaussian at first.

Predictions: what classes score, and which states frames belong to; in blocks, by threads.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.threads import count_blocks, default_threads, run_blocks
from cutplane.models.sequences.loops import Indices
from cutplane.models.speech.gaussians import fill_best
from cutplane.models.speech.model import GaussianHMMs, Tables
from cutplane.models.speech.paths import ENTERED, Path, best_labels, class_scores

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


def blocks_of(hmms: GaussianHMMs, offsets: Indices) -> list[int]:
    """Return where blocks of sequences begin, and the last ends: of about as many frames each."""
    n_frames, n_sequences = int(offsets[-1]), len(offsets) - 1
    work = n_frames * hmms.n_classes * hmms.n_states * hmms.n_components * hmms.n_features
    n_blocks = max(1, min(count_blocks(work), n_sequences))
    if n_blocks == 1:
        return [0, n_sequences]
    cuts = np.arange(1, n_blocks) * n_frames // n_blocks
    return [0, *np.searchsorted(offsets[:-1], cuts).tolist(), n_sequences]


def state_scores(
    hmms: GaussianHMMs, tables: Tables, frames: Matrix, begin: int, end: int
) -> Matrix:
    """Return what each state scores at some frames, by its best Gaussian."""
    n_all = hmms.n_classes * hmms.n_states
    scores = np.empty((end - begin, n_all))
    fill_best(frames, begin, end, tables.gaussians, n_all, scores)
    return scores


def score_classes(
    hmms: GaussianHMMs, w: Vector, frames: Matrix, offsets: Indices, *, n_threads: int | None = None
) -> Matrix:
    """Return the score of the best path of each class (column) for each sequence."""
    tables, bounds = hmms.tables(w), blocks_of(hmms, offsets)
    found = np.empty((len(offsets) - 1, hmms.n_classes))

    def run(first: int, last: int) -> None:
        for i, j in zip(bounds[first:last], bounds[first + 1 : last + 1], strict=True):
            if i < j:
                E = state_scores(hmms, tables, frames, int(offsets[i]), int(offsets[j]))
                found[i:j] = class_scores(offsets, i, j, E, tables.moves)

    run_blocks(run, len(bounds) - 1, n_threads=n_threads or default_threads())
    return found


def label_frames(
    hmms: GaussianHMMs, w: Vector, frames: Matrix, offsets: Indices, *, n_threads: int | None = None
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Return the class of each frame on the best path, and whether it begins a segment."""
    tables, bounds = hmms.tables(w), blocks_of(hmms, offsets)
    n_frames = int(offsets[-1])
    states, jumps = np.empty(n_frames, dtype=np.int32), np.empty(n_frames, dtype=np.int32)

    def run(first: int, last: int) -> None:
        for i, j in zip(bounds[first:last], bounds[first + 1 : last + 1], strict=True):
            if i < j:
                begin, end = int(offsets[i]), int(offsets[j])
                E = state_scores(hmms, tables, frames, begin, end)
                path = Path(states[begin:end], jumps[begin:end])
                best_labels(offsets, i, j, E, tables.moves, path)

    run_blocks(run, len(bounds) - 1, n_threads=n_threads or default_threads())
    return states // np.int32(hmms.n_states), jumps == ENTERED
