"""Predictions: what classes score, and which states frames belong to; in blocks, by threads."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.threads import count_blocks, default_threads, run_blocks
from cutplane.structured.chains.kernels import Indices
from cutplane.structured.hmm.gaussians import fill_best
from cutplane.structured.hmm.model import GaussianHMMs, Tables
from cutplane.structured.hmm.paths import ENTERED, Path, best_labels, class_scores


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
