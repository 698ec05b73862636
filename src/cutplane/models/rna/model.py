"""RNA secondary structure as a structured model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.models.rna.features import (
    BASES,
    N_FEATURES,
    PAIRS,
    PLACES,
    SHORTEST_HAIRPIN,
    Bases,
    Partners,
    Scores,
    count_features,
    nearest_neighbor_weights,
)
from cutplane.models.rna.fold import fold
from cutplane.models.structured.model import LibraryModel

_CODES = {letter: code for code, letter in enumerate(BASES)} | {"T": BASES.index("U")}
_CODES |= {letter.lower(): code for letter, code in _CODES.items()}


class PairCounts(NamedTuple):
    """The pairs of two structures: in both, in the first only, in the second only."""

    right: int
    missed: int
    wrong: int

    @classmethod
    def of(cls, y: str, y_hat: str) -> PairCounts:
        """Compare two structures of the same length, in dots and brackets."""
        if len(y) != len(y_hat):
            raise ValueError(f"structures of {len(y)} and {len(y_hat)} bases cannot be compared")
        true, said = (set(_pairs(partners_of(one))) for one in (y, y_hat))
        return cls(len(true & said), len(true - said), len(said - true))

    @property
    def sensitivity(self) -> float:
        """The share of the true pairs that was found; 1 if there are none."""
        true = self.right + self.missed
        return self.right / true if true else 1.0

    @property
    def ppv(self) -> float:
        """The share of the predicted pairs that is true; 1 if there are none."""
        said = self.right + self.wrong
        return self.right / said if said else 1.0

    @property
    def f1(self) -> float:
        """The harmonic mean of both."""
        total = 2 * self.right + self.missed + self.wrong
        return 2 * self.right / total if total else 1.0


class RNAFolding(LibraryModel):
    """The nested structure of an RNA sequence.

    Inputs are sequences of A, C, G and U, outputs structures in dots and brackets of the same
    length. Structures have no pseudoknots, only the pairs AU, CG and GU, and hairpins of three
    bases or more; those that the search finds have at most 30 unpaired bases in an interior loop.
    The loss counts pairs that are missed and pairs that are wrong.

    Parameters
    ----------
    missed, wrong : float
        What a pair costs that is missed, or wrong.

    Attributes
    ----------
    places : dict
        Where the weights of each kind of feature are, as slices: ``w[model.places["stack"]]``.
    """

    n_parameters = N_FEATURES
    places = PLACES

    def __init__(self, *, missed: float = 1.0, wrong: float = 1.0) -> None:
        if not (missed >= 0.0 and wrong >= 0.0):
            raise ValueError(f"losses must not be negative, got {missed} and {wrong}")
        self.missed = missed
        self.wrong = wrong

    def joint_feature(self, x: str, y: str) -> Vector:
        """Return how often each feature occurs in a structure."""
        bases, partners = bases_of(x), partners_of(y)
        if len(bases) != len(partners):
            raise ValueError(f"a structure of {len(y)} bases for a sequence of {len(x)}")
        for i, j in _pairs(partners):
            if not _can_pair(bases, i, j):
                raise ValueError(
                    f"bases {i + 1} and {j + 1} cannot pair: {x[i]}-{x[j]} with {j - i - 1} bases "
                    "between them; clean the structure by RNAFolding.without_odd_pairs"
                )
        return count_features(bases, partners)

    def loss(self, y: str, y_hat: str) -> float:
        """Return what the missed and the wrong pairs cost."""
        counts = PairCounts.of(y, y_hat)
        return self.missed * counts.missed + self.wrong * counts.wrong

    def inference(self, x: str, w: Vector) -> str:
        """Return the structure with the highest score."""
        bases = bases_of(x)
        return _written(fold(bases, Scores.of(w), np.zeros(2), np.full(len(bases), -1)))

    def loss_augmented_inference(self, x: str, y: str, w: Vector) -> str:
        """Return the structure with the highest sum of score and loss."""
        # All true pairs count as missed, and each that is there counts back.
        bonus = np.array([-self.missed, self.wrong])
        return _written(fold(bases_of(x), Scores.of(w), bonus, partners_of(y)))

    def outputs(self, x: str) -> list[str]:
        """Return all structures of a short sequence, but for long interior loops."""
        return [_written(partners) for partners in _structures(bases_of(x), 0, len(x))]

    @staticmethod
    def nearest_neighbor_weights() -> Vector:
        """Return weights after the nearest-neighbor model, in kcal/mol: a start, or a center."""
        return nearest_neighbor_weights()

    @staticmethod
    def without_odd_pairs(x: str, y: str) -> str:
        """Return a structure without the pairs that the model does not know."""
        bases, partners = bases_of(x), partners_of(y)
        for i, j in _pairs(partners):
            if not _can_pair(bases, i, j):
                partners[i] = partners[j] = -1
        return _written(partners)


def bases_of(x: str) -> Bases:
    """Return a sequence as numbers."""
    try:
        return np.array([_CODES[letter] for letter in x], dtype=np.int8)
    except KeyError as error:
        place = x.index(error.args[0])
        raise ValueError(f"base {place + 1} is {x[place]!r}, not one of A, C, G and U") from None


def partners_of(y: str) -> Partners:
    """Return the partner of each base of a structure, -1 for none."""
    partners = np.full(len(y), -1, dtype=np.int64)
    opened: list[int] = []
    for j, sign in enumerate(y):
        if sign == "(":
            opened.append(j)
        elif sign == ")":
            if not opened:
                raise ValueError(f"the bracket at base {j + 1} closes none")
            i = opened.pop()
            partners[i], partners[j] = j, i
        elif sign != ".":
            raise ValueError(f"base {j + 1} of the structure is {sign!r}, not one of . ( )")
    if opened:
        raise ValueError(f"the bracket at base {opened[-1] + 1} is not closed")
    return partners


def _written(partners: Partners) -> str:
    places = np.arange(len(partners))
    return "".join(np.where(partners < 0, ".", np.where(partners > places, "(", ")")))


def _pairs(partners: Partners) -> Iterator[tuple[int, int]]:
    opening = np.flatnonzero(partners > np.arange(len(partners)))
    return zip(opening.tolist(), partners[opening].tolist(), strict=True)


def _can_pair(bases: Bases, i: int, j: int) -> bool:
    return bool(PAIRS[bases[i], bases[j]] >= 0) and j - i > SHORTEST_HAIRPIN


def _structures(bases: Bases, begin: int, end: int) -> Iterator[Partners]:
    """Yield all structures of a part of a sequence."""
    if end - begin <= SHORTEST_HAIRPIN + 1:
        yield np.full(len(bases), -1, dtype=np.int64)
        return
    yield from _structures(bases, begin + 1, end)
    for j in range(begin + SHORTEST_HAIRPIN + 1, end):
        if _can_pair(bases, begin, j):
            for inner in _structures(bases, begin + 1, j):
                for rest in _structures(bases, j + 1, end):
                    both = np.maximum(inner, rest)
                    both[begin], both[j] = j, begin
                    yield both
