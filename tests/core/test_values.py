"""Copies of states: arrays of their own, all the way down."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cutplane.compute.arrays import copied


class Pair(NamedTuple):
    array: np.ndarray
    number: float


@dataclass
class Whole:
    pair: Pair
    several: list
    plain: tuple
    none: None = None


def test_arrays_are_copied_wherever_they_are():
    whole = Whole(Pair(np.zeros(3), 2.0), [np.zeros(2)], (np.zeros(1), "a"))
    twin = copied(whole)
    assert isinstance(twin.pair, Pair)
    assert twin.pair.number == 2.0
    assert twin.plain[1] == "a"
    for part in (twin.pair.array, twin.several[0], twin.plain[0]):
        part += 1.0
    assert not whole.pair.array.any()
    assert not whole.several[0].any()
    assert not whole.plain[0].any()
