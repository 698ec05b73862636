"""Weights after the nearest-neighbor model of RNA, to begin with or to stay close to.

Free energies at 37 degrees, in kcal/mol and with the opposite sign, since scores are maximized:
stacks, loops by their lengths, dangling bases and multi-loops as in D. Mathews et al. (PNAS 101,
2004), mismatches in hairpins after D. Mathews et al. (J. Mol. Biol. 288, 1999). Stacks, loops and
dangling bases were compared with the tables of ViennaRNA, the mismatches were not. What this model
has no features for is left out: tables of small interior loops, special hairpins.
"""

from __future__ import annotations

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.structured.rna.features import LONGEST, N_FEATURES, PLACES, REVERSED, stack_places

# Pairs are in the order of `PAIRS`: AU, CG, GC, GU, UA, UG. Rows: the outer pair; columns: the
# inner pair, read from its other base.
_STACK = [
    [1.1, 2.1, 2.2, 1.4, 0.9, 0.6],
    [2.1, 2.4, 3.3, 2.1, 2.1, 1.4],
    [2.2, 3.3, 3.4, 2.5, 2.4, 1.5],
    [1.4, 2.1, 2.5, -1.3, 1.3, 0.5],
    [0.9, 2.1, 2.4, 1.3, 1.3, 1.0],
    [0.6, 1.4, 1.5, 0.5, 1.0, -0.3],
]
# For each pair: bases A, C, G, U behind it, then before it.
_DANGLE = [
    [0.7, 0.1, 0.7, 0.1, 0.3, 0.3, 0.4, 0.2],
    [1.1, 0.4, 1.3, 0.6, 0.5, 0.3, 0.2, 0.1],
    [1.7, 0.8, 1.7, 1.2, 0.2, 0.3, 0.0, 0.0],
    [0.7, 0.1, 0.7, 0.1, 0.3, 0.3, 0.4, 0.2],
    [0.8, 0.5, 0.8, 0.6, 0.3, 0.1, 0.2, 0.2],
    [0.8, 0.5, 0.8, 0.6, 0.3, 0.1, 0.2, 0.2],
]
# For each pair: the first base inside it, then the last one.
_HAIRPIN_MISMATCH = [
    [0.3, 0.5, 0.3, 0.3, 0.1, 0.2, 1.5, 0.2, 1.1, 1.2, 0.2, -0.2, 0.3, 0.3, 0.6, 1.1],
    [1.5, 1.5, 1.4, 1.8, 1.0, 0.9, 2.9, 0.8, 2.2, 2.0, 1.6, 1.1, 1.7, 1.4, 1.8, 2.0],
    [1.1, 1.5, 1.3, 2.1, 1.1, 0.7, 2.4, 0.5, 2.4, 2.9, 1.4, 1.2, 1.9, 1.0, 2.2, 1.5],
    [-0.2, 0.5, 0.3, 0.3, 0.1, 0.2, 1.5, 0.2, 0.9, 1.1, 0.3, 0.0, 0.3, 0.3, 0.4, 1.1],
    [0.5, 0.3, 0.6, 0.5, 0.2, 0.1, 1.2, 0.0, 1.4, 1.2, 0.7, 0.2, 0.3, 0.1, 0.5, 0.8],
    [0.5, 0.3, 0.6, 0.5, 0.2, 0.1, 1.7, 0.0, 0.8, 1.2, 0.3, 0.7, 0.6, 0.1, 0.6, 0.8],
]
_HAIRPIN = [5.4, 5.6, 5.7, 5.4, 6.0, 5.5, 6.4]
_BULGE = [3.8, 2.8, 3.2, 3.6, 4.0, 4.4]
_INTERIOR = [1.0, 1.0, 1.1, 2.0, 2.0, 2.1, 2.3, 2.4, 2.5]
_LONGER = 1.07856  # times the logarithm of how much longer a loop is than the longest of a table
_WEAK_END = 0.5  # a helix that ends with AU or GU
_GA_OR_UU = 0.8  # in an interior loop
_ASYMMETRY, _MOST_ASYMMETRY = 0.6, 5
_MULTI_LOOP, _BRANCH = 9.3, -0.9
# A bulge of one base leaves the stack around it, which is no feature: about what it is worth.
_STACK_AROUND_A_BULGE = 2.0


def nearest_neighbor_weights() -> Vector:
    """Return weights after the nearest-neighbor model."""
    w = np.zeros(N_FEATURES)
    stack = np.array(_STACK)[:, REVERSED]
    w[PLACES["stack"]][stack_places()] = stack
    weak = np.array([0, 3, 4, 5])
    w[PLACES["closing"]][weak] = -_WEAK_END
    mismatch = np.array(_HAIRPIN_MISMATCH)
    mismatch[weak] += _WEAK_END  # these tables have it already
    w[PLACES["hairpin_mismatch"]] = mismatch.ravel()
    interior = np.zeros((6, 4, 4))
    interior[:, 0, 2] = interior[:, 2, 0] = interior[:, 3, 3] = _GA_OR_UU
    w[PLACES["interior_mismatch"]] = interior.ravel()
    w[PLACES["hairpin_length"]] = _by_length(_HAIRPIN, 3)
    w[PLACES["bulge_length"]] = _by_length([_BULGE[0] - _STACK_AROUND_A_BULGE, *_BULGE[1:]], 1)
    w[PLACES["interior_length"]] = _by_length(_INTERIOR, 2)
    w[PLACES["asymmetry"]][:_MOST_ASYMMETRY] = -_ASYMMETRY
    behind, before = np.hsplit(np.array(_DANGLE), 2)
    w[PLACES["left_dangle"]], w[PLACES["right_dangle"]] = before.ravel(), behind.ravel()
    w[PLACES["multi_open"]] = -_MULTI_LOOP
    w[PLACES["multi_branch"]] = -_BRANCH
    return w


def _by_length(known: list[float], shortest: int) -> Vector:
    """Return weights of "at least so long": what each length costs beyond the one before it."""
    longest = shortest + len(known) - 1
    beyond = np.arange(longest + 1, LONGEST + 1)
    costs = np.concatenate([known, known[-1] + _LONGER * np.log(beyond / longest)])
    return -np.diff(costs, prepend=0.0)
