"""Chunks: hand-made cases, and the rules of conlleval written out as its authors do."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutplane.metrics import (
    Chunk,
    ChunkCounts,
    count_chunks,
    find_chunks,
    sequence_accuracy,
    token_accuracy,
)


@pytest.mark.parametrize(
    ("labels", "chunks"),
    [
        ("", []),
        ("O O", []),
        ("B-NP I-NP O", [(0, 2, "NP")]),
        ("B-NP B-NP I-NP", [(0, 1, "NP"), (1, 3, "NP")]),  # IOB2: neighbors
        ("I-NP I-NP B-NP I-VP", [(0, 2, "NP"), (2, 3, "NP"), (3, 4, "VP")]),  # IOB1
        ("B-NP E-NP S-NP O S-VP", [(0, 2, "NP"), (2, 3, "NP"), (4, 5, "VP")]),  # IOBES
        ("B-NP I-NP E-NP I-NP", [(0, 3, "NP"), (3, 4, "NP")]),  # after an end a new one begins
        ("E-NP E-NP", [(0, 1, "NP"), (1, 2, "NP")]),
        ("B-NP I-VP", [(0, 1, "NP"), (1, 2, "VP")]),  # another type is another chunk
        ("O I-NP O", [(1, 2, "NP")]),
        ("B I O B", [(0, 2, ""), (3, 4, "")]),  # without types
        ("B-A-B I-A-B", [(0, 2, "A-B")]),
    ],
)
def test_hand_made_cases(labels, chunks):
    assert find_chunks(labels.split()) == [Chunk(*chunk) for chunk in chunks]
    assert find_chunks(np.array(labels.split(), dtype=str)) == [Chunk(*chunk) for chunk in chunks]


def by_conlleval(labels):
    """Begin and end of chunks decided by two neighboring labels, as in conlleval's script."""
    chunks, begin = [], None
    before = ("O", "")
    for place, label in enumerate([*labels, "O"]):
        prefix, _, kind = label.partition("-")
        pair = before[0] + prefix
        differs = before[1] != kind
        ends = pair in {"BB", "BO", "BS", "IB", "IO", "IS", "EE", "EI", "EO", "EB", "ES"}
        ends |= before[0] == "S" or (before[0] != "O" and differs)
        starts = pair in {"BB", "IB", "OB", "EB", "OI", "EI", "OE", "EE", "SB", "SI", "SE"}
        starts |= prefix == "S" or (prefix != "O" and differs)
        if begin is not None and ends:
            chunks.append(Chunk(begin, place, before[1]))
            begin = None
        if starts:
            begin = place
        before = (prefix, kind)
    return chunks


tags = st.sampled_from(["O", *(f"{prefix}-{kind}" for prefix in "BIES" for kind in ("X", "Y"))])


@given(st.lists(tags, max_size=12))
def test_any_labels_are_read_as_conlleval_does(labels):
    assert find_chunks(labels) == by_conlleval(labels)


def test_counts():
    y = [["B-NP", "I-NP", "O", "B-VP"], ["B-NP", "O"]]
    predicted = [["B-NP", "I-NP", "B-VP", "B-VP"], ["O", "B-PP"]]
    counts = count_chunks(y, predicted)
    assert counts == {
        "NP": ChunkCounts(2, 1, 1),
        "PP": ChunkCounts(0, 1, 0),
        "VP": ChunkCounts(1, 2, 1),
        "": ChunkCounts(3, 4, 2),
    }
    assert counts[""].precision == 0.5
    assert counts[""].recall == pytest.approx(2 / 3)
    assert counts[""].f1 == pytest.approx(2 * 0.5 * (2 / 3) / (0.5 + 2 / 3))
    assert (counts["PP"].precision, counts["PP"].recall, counts["PP"].f1) == (0.0, 0.0, 0.0)
    assert ChunkCounts(0, 0, 0).f1 == 0.0
    assert token_accuracy(y, predicted) == 0.5
    assert sequence_accuracy(y, predicted) == 0.0
    assert sequence_accuracy([*y, []], [y[0], predicted[1], []]) == pytest.approx(2 / 3)
    assert token_accuracy([np.array([1, 2])], [[1, 3]]) == 0.5


def test_what_is_refused():
    with pytest.raises(ValueError, match="'NP' is no label of a chunk"):
        find_chunks(["B-NP", "NP"])
    with pytest.raises(ValueError, match="2 sequences, and 1 predictions"):
        token_accuracy([["O"], ["O"]], [["O"]])
    with pytest.raises(ValueError, match="sequence 1 has 1 labels, its prediction 2"):
        count_chunks([["O"], ["O"]], [["O"], ["O", "O"]])
    with pytest.raises(ValueError, match="no token to judge"):
        sequence_accuracy([], [])
