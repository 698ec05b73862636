"""Segments: counted by hand, and laws of a distance."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutplane.metrics import count_segments, edits


@pytest.mark.parametrize(
    ("found", "true", "n"),
    [([], [], 0), ([1], [], 1), ([], [1, 2], 2), ([1, 2, 3], [1, 3], 1), ([2, 1], [1, 2], 2)],
)
def test_edits(found, true, n):
    assert edits(found, true) == n


labels = st.lists(st.sampled_from("abc"), max_size=6)


@given(labels, labels, labels)
def test_edits_are_a_distance(one, other, third):
    assert (edits(one, other) == 0) == (one == other)
    assert edits(one, other) == edits(other, one)
    assert edits(one, third) <= edits(one, other) + edits(other, third)
    assert abs(len(one) - len(other)) <= edits(one, other) <= max(len(one), len(other))


def test_runs_of_labels_are_segments():
    y = [np.array([1, 1, 2, 2, 1]), np.array([3])]
    assert count_segments(y, y) == (4, 0)
    counts = count_segments(y, [np.array([1, 2, 2, 2, 2]), np.array([1])])
    assert counts == (4, 2)
    assert counts.error_rate == 0.5
