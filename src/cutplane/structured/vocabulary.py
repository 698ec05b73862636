"""Look up many names at once, in compiled code.

A dictionary of Python finds a name by way of four objects that lie anywhere in memory, and waits
for each. Here names are bytes behind each other, and numbers lie in a table with open addressing:
the processor looks several of them up at a time. With 98,000 names of CoNLL-2000 and two million
look-ups, all that is to be done for a token takes half the time, the look-up itself a quarter.

    key of a name = FNV-1a of its bytes in UTF-8;     slot = key, or the next one that is free
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.compiled import njit

Bytes = NDArray[np.uint8]
Slots = NDArray[np.uint64]


class Vocabulary:
    """The numbers of different names: their places in a list.

    Parameters
    ----------
    names : sequence of str
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self._content, lengths = as_bytes(list(names))
        self._starts = np.zeros(len(names) + 1, dtype=np.int64)
        # Twice as many slots as names, or more: then hardly any search goes beyond the next slot.
        n_slots = 1 << max(2 * len(names), 2).bit_length()
        self._slots = np.zeros(n_slots, dtype=np.uint64)
        _insert(self._content, lengths, self._starts, self._slots)

    def numbers_of(self, content: Bytes, lengths: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the numbers of names as `as_bytes` gives them; -1 for those that are not known."""
        found = np.empty(len(lengths), dtype=np.int32)
        _look_up(content, lengths, self._content, self._starts, self._slots, found)
        return found


def as_bytes(strings: list[str], *more: list[str] | str) -> tuple[Bytes, NDArray[np.int64]]:
    """Return strings in UTF-8, one behind the other, and the number of characters of each.

    With ``more``, each is put together of parts, of which some may be the same for all. TypeError
    if a part is no string.
    """
    columns = [part if isinstance(part, list) else repeat(part) for part in more]
    parts = chain.from_iterable(zip(strings, *columns, strict=False)) if more else strings
    content = "".join(parts).encode("utf-8", "surrogatepass")
    lengths = np.full(len(strings), sum(len(part) for part in more if isinstance(part, str)))
    for part in (strings, *more):
        if isinstance(part, list):
            lengths += np.fromiter(map(len, part), np.int64, len(strings))
    return np.frombuffer(content, dtype=np.uint8), lengths


@njit(cache=True, nogil=True)
def _name_at(content: Bytes, begin: Any, n_characters: int) -> tuple[Any, Any]:
    """Return where a name ends, and its key."""
    key, at = np.uint64(14695981039346656037), begin
    left = n_characters
    while at < np.uint64(len(content)):
        byte = content[at]
        if byte & 0xC0 != 0x80:  # the first byte of a character
            if left == 0:
                break
            left -= 1
        key = (key ^ np.uint64(byte)) * np.uint64(1099511628211)
        at += np.uint64(1)
    return at, key ^ (key >> np.uint64(32))


@njit(cache=True, nogil=True)
def _insert(
    content: Bytes, lengths: NDArray[np.int64], starts: NDArray[np.int64], slots: Slots
) -> None:
    """Fill in where names begin, and the slots: the upper half of a key, and a number plus one."""
    mask = np.uint64(len(slots) - 1)
    at = np.uint64(0)
    for number in range(len(lengths)):
        starts[number] = at
        at, key = _name_at(content, at, lengths[number])
        slot = key & mask
        while slots[slot] != np.uint64(0):
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = (key >> np.uint64(32) << np.uint64(32)) | np.uint64(number + 1)
    starts[len(lengths)] = at


@njit(cache=True, nogil=True)
def _look_up(
    content: Bytes, lengths: NDArray[np.int64],
    known: Bytes, starts: NDArray[np.int64], slots: Slots, found: NDArray[np.int32],
) -> None:  # fmt: skip
    """Fill in the number of each name, -1 if it is not known."""
    mask, low = np.uint64(len(slots) - 1), np.uint64(0xFFFFFFFF)
    end = np.uint64(0)
    for i in range(len(lengths)):
        begin = end
        end, key = _name_at(content, begin, lengths[i])
        size = end - begin
        found[i] = -1
        slot = key & mask
        while slots[slot] != np.uint64(0):
            if slots[slot] >> np.uint64(32) == key >> np.uint64(32):
                number = (slots[slot] & low) - np.uint64(1)
                first = np.uint64(starts[number])
                if np.uint64(starts[number + np.uint64(1)]) - first == size:
                    k = np.uint64(0)
                    while k < size and known[first + k] == content[begin + k]:
                        k += np.uint64(1)
                    if k == size:
                        found[i] = number
                        break
            slot = (slot + np.uint64(1)) & mask
