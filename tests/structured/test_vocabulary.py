"""Names looked up in compiled code: as a dictionary does."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutplane.models.tagging.templates import Vocabulary, as_bytes

texts = st.one_of(
    st.sampled_from(["", "a", "aa", "a\0", "\0", "é", "e\u0301", "\ud83d", "\ude00", "\U0001f600"]),
    st.text(max_size=4),
)


@given(names=st.lists(texts, unique=True, max_size=30), asked=st.lists(texts, max_size=30))
def test_numbers_are_those_of_a_dictionary(names, asked):
    vocabulary = Vocabulary(names)
    numbers = {name: number for number, name in enumerate(names)}
    for some in (asked, names, [*names, *asked] * 2, []):
        expected = [numbers.get(name, -1) for name in some]
        assert vocabulary.numbers_of(*as_bytes(some)).tolist() == expected


def test_many_names():
    names = [f"name {k}" for k in range(30_000)]
    vocabulary = Vocabulary(names)
    np.testing.assert_array_equal(vocabulary.numbers_of(*as_bytes(names)), np.arange(30_000))
    assert set(vocabulary.numbers_of(*as_bytes([name + "x" for name in names])).tolist()) == {-1}


def test_what_is_no_string_is_refused():
    with pytest.raises(TypeError):
        as_bytes(["a", 1])
