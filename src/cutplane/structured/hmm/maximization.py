"""The M step of maximum likelihood: the parameters that are most likely, given counts.

With the share ``g_t`` of each frame that a Gaussian takes, its mean is the mean of frames, weighted
by them. Its variance is the weighted mean of squares around it; one variance for the Gaussians of
all classes is the mean over all of them, each with as many frames as it takes. Both maximize the
expected likelihood exactly, so that it never falls, as long as no floor is touched.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.structured.hmm.likelihood import Counts
from cutplane.structured.hmm.model import Array, Covariance, GaussianHMMs

# Probabilities of moves and of Gaussians are at least this: zeros would have no logarithm, and what
# was not seen in training must remain possible.
_LEAST_PROBABILITY = 1e-4
# A Gaussian that fewer frames belong to keeps mean and spread.
_FEWEST_FRAMES = 1e-3
# Added to full covariances, as a share of the floor: few frames leave them singular.
_RIDGE = 1e-6


def no_counts(one: GaussianHMMs) -> Counts:
    """Return zeros: room for the counts of one class."""
    K, G, D = one.n_states, one.n_states * one.n_components, one.n_features
    products = D * D if one.covariance is Covariance.FULL else D
    return Counts(
        np.zeros(G),
        np.zeros((G, D)),
        np.zeros((G, products)),
        np.zeros(K),
        np.zeros((len(one.jumps), K)),
        np.zeros(K),
    )


def _shifts(counts: Counts) -> Matrix:
    """Return by how much each mean moves."""
    seen = (counts.gaussians > _FEWEST_FRAMES)[:, None]
    safe = np.where(seen, counts.gaussians[:, None], 1.0)
    return np.where(seen, counts.sums / safe, 0.0)


def shared_variance(counts: Iterable[Counts], floors: Vector) -> Vector:
    """Return the variance that is most likely if Gaussians of several classes have the same."""
    total, n = np.zeros_like(floors), 0.0
    for each in counts:
        # Around the new means. A frame of a Gaussian whose mean stays counts around the old one.
        squares = each.products - each.gaussians[:, None] * _shifts(each) ** 2
        total, n = total + squares.sum(axis=0), n + float(each.gaussians.sum())
    return np.maximum(total / n, floors)


def reestimated(
    one: GaussianHMMs,
    parts: dict[str, Array],
    counts: Counts,
    floors: Vector,
    shared: Vector | None = None,
) -> dict[str, Array]:
    """Return the parameters of one class that are most likely, given these counts.

    ``shared`` is the variance of all Gaussians, where they share one.
    """
    K, M, D = one.n_states, one.n_components, one.n_features
    n, shift = counts.gaussians, _shifts(counts)
    seen = n > _FEWEST_FRAMES
    means = parts["means"].reshape(-1, D) + shift
    log_sds, lower = parts["log_sds"].reshape(-1, D).copy(), parts["lower"].reshape(K * M, -1)
    if shared is not None:
        log_sds[:] = 0.5 * np.log(shared)
    elif one.covariance is Covariance.FULL:
        lower = lower.copy()
        for g in np.flatnonzero(seen):
            products = counts.products[g].reshape(D, D) / n[g]
            covariance = products - np.outer(shift[g], shift[g]) + np.diag(_RIDGE * floors)
            log_sds[g], lower[g] = _regressions(covariance)
        log_sds = np.maximum(log_sds, 0.5 * np.log(floors))
    else:
        safe = np.where(seen, n, 1.0)[:, None]
        variances = np.maximum(counts.products / safe - shift**2, floors)
        log_sds[seen] = 0.5 * np.log(variances[seen])
    # What leaves a state goes on by an arc or ends.
    arcs = counts.bands[one.band_of_arc, one.arcs[:, 1]]
    leaving = np.zeros((K, K + 1))
    leaving[one.arcs[:, 0], one.arcs[:, 1]] = arcs
    leaving[:, K] = counts.end
    allowed = np.zeros((K, K + 1), dtype=np.bool_)
    allowed[one.arcs[:, 0], one.arcs[:, 1]] = allowed[:, K] = True
    log_leaving = np.log(probabilities(leaving, allowed), where=allowed, out=np.zeros((K, K + 1)))
    mixture = np.log(probabilities(n.reshape(M, K).T)).T
    return {
        "means": means.reshape(one.shapes["means"]),
        "log_sds": log_sds.reshape(one.shapes["means"]),
        "lower": lower.reshape(one.shapes["lower"]),
        "weights": mixture.reshape(one.shapes["weights"]),
        "start": np.log(probabilities(counts.start[None, one.starts])),
        "arcs": log_leaving[one.arcs[:, 0], one.arcs[:, 1]][None, :],
        "end": log_leaving[:, K][None, :],
        "prior": np.zeros(1),
        "follow": np.zeros((0, 0)),
    }


def probabilities(counts: Matrix, allowed: NDArray[np.bool_] | None = None) -> Matrix:
    """Return the shares of counts in their row, none too small; equal ones if there are none."""
    allowed = np.ones(counts.shape, dtype=np.bool_) if allowed is None else allowed
    totals = counts.sum(axis=1, keepdims=True)
    equal = allowed / allowed.sum(axis=1, keepdims=True)
    shares = np.where(totals > 0.0, counts / np.where(totals > 0.0, totals, 1.0), equal)
    shares = np.where(allowed, np.maximum(shares, _LEAST_PROBABILITY), 0.0)
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def _regressions(covariance: Matrix) -> tuple[Vector, Vector]:
    """Return each feature's spread given those before it (logarithms), and their coefficients.

    With a Cholesky factor ``L`` of the covariance, ``inv(L / diag(L))`` has them in its rows.
    """
    factor = np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)
    sds = np.diag(factor)
    unit = np.asarray(np.linalg.solve(factor / sds, np.eye(len(sds))), dtype=np.float64)
    return np.log(sds), unit[np.tril_indices(len(sds), -1)]
