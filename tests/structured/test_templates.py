"""Feature templates: against names made token by token, by replacing text."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutplane.models.tagging.templates import BUILT_IN, TemplateVectorizer, parse_templates

words = st.sampled_from(["a", "b", "{}", "x/y", "é", "_B-1"])
sequences = st.lists(st.lists(st.tuples(words, words), max_size=5), min_size=1, max_size=5).filter(
    any
)
templates = st.lists(
    st.sampled_from(
        [
            "U0:%x[0,0]",
            "U1:%x[-2,0]/%x[-1,1]",
            "U2:%x[1,1]{%x[3,0]}",
            "U%x[-1,0]",  # without a name, as for bags of words
            "U%x[1,0]",
            "Uconstant",
            "U9:%x[-1,0]%x[0,0]%x[1,0]%x[0,1]%x[0,1]",
        ]
    ),
    min_size=1,
    max_size=4,
)


def names_by_replacing(lines, sequence, t):
    """The features of token ``t`` of a sequence."""

    def word(match):
        place, column = t + int(match[1]), int(match[2])
        if place < 0:
            return f"_B{place}"
        if place >= len(sequence):
            return f"_B+{place - len(sequence) + 1}"
        return sequence[place][column]

    return [re.sub(r"%x\[(-?\d+),(\d+)\]", word, line) for line in lines]


def flat(sequences):
    tokens = [token for sequence in sequences for token in sequence]
    return tokens, np.array([len(sequence) for sequence in sequences])


def features_of(X, vectorizer):
    """From each token to the counts of its features."""
    return [
        {
            vectorizer.feature_names_[j]: value
            for j, value in zip(row.indices, row.data, strict=True)
        }
        for row in (X[[i]] for i in range(X.shape[0]))
    ]


def expected_features(lines, sequences):
    rows = []
    for sequence in sequences:
        for t in range(len(sequence)):
            names = names_by_replacing(lines, sequence, t)
            rows.append({name: float(names.count(name)) for name in names})
    return rows


@given(lines=templates, train=sequences, test=sequences)
def test_features_are_those_of_replaced_text(lines, train, test):
    vectorizer = TemplateVectorizer(parse_templates("\n".join(lines)))
    X = vectorizer.fit_transform(*flat(train))
    expected = expected_features(lines, train)
    assert features_of(X, vectorizer) == expected
    assert X.has_sorted_indices
    known = {name for row in expected for name in row}
    assert sorted(vectorizer.feature_names_) == sorted(known)
    again = vectorizer.transform(*flat(test))
    assert features_of(again, vectorizer) == [
        {name: count for name, count in row.items() if name in known}
        for row in expected_features(lines, test)
    ]


@given(train=sequences, min_count=st.integers(1, 4))
def test_rare_features_are_left_out(train, min_count):
    lines = ["U0:%x[0,0]", "U1:%x[-1,1]", "Uconstant"]
    vectorizer = TemplateVectorizer(parse_templates("\n".join(lines)), min_count=min_count)
    rows = expected_features(lines, train)
    counts = {name: sum(name in row for row in rows) for row in rows for name in row}
    if len(rows) < min_count:
        with pytest.raises(ValueError, match=f"min_count = {min_count}"):
            vectorizer.fit_transform(*flat(train))
        return
    X = vectorizer.fit_transform(*flat(train))
    assert set(vectorizer.feature_names_) == {n for n, k in counts.items() if k >= min_count}
    np.testing.assert_array_equal(
        np.asarray(X.sum(axis=0)).ravel(), [counts[name] for name in vectorizer.feature_names_]
    )


def test_keys_of_many_columns_do_not_overflow():
    line = "U:" + "/".join(["%x[0,0]"] * 20)  # 1000^20 is beyond all integers
    tokens = [(str(k),) for k in range(1000)]
    vectorizer = TemplateVectorizer(parse_templates(line))
    X = vectorizer.fit_transform(tokens, np.array([1000]))
    assert X.shape == (1000, 1000)
    assert vectorizer.feature_names_[X[[7]].indices[0]] == "U:" + "/".join(["7"] * 20)


def test_those_that_are_there():
    assert len(parse_templates("chunking")) == 19
    assert {name: TemplateVectorizer(parse_templates(name)).n_columns for name in BUILT_IN} == {
        "words": 1,
        "chunking": 2,
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# nothing\n\nB\n", "my file: no line is a template"),
        ("chunkin", "my file:1: a template begins with U, got 'chunkin'"),
        ("U0:%x[0,0]\nB1:%x[0,0]", "my file:2: labels cannot depend on words"),
        ("U0:%x[0;0]", r"my file:1: expected %x\[row,column\], got 'U0:%x\[0;0\]'"),
        ("U0:%x[0,-1]", "my file:1: expected"),
        ("U0:%t[0,0]", "my file:1: expected"),
        ("U0:%x[\uff11,0]", "my file:1: expected"),
        ("U0:%x[0,0]\rU1:%x[1,0]", "my file:1: a carriage return inside a line"),
    ],
)
def test_what_is_refused(text, said):
    with pytest.raises(ValueError, match=said):
        parse_templates(text, "my file")


def test_only_newlines_end_lines():
    (template,) = parse_templates("U0:\u2028\x85\x0c%x[0,0]\u00a0\r\n")
    assert template == (("U0:\u2028\x85\x0c", "\u00a0"), ((0, 0),))


def test_tokens_that_are_refused():
    vectorizer = TemplateVectorizer(parse_templates("chunking"))
    for tokens, said in [
        ([("a", "b"), ("a",)], "token 1 has 1 columns, the templates ask for 2"),
        ([("a", "b"), {"a": 1}], "token 1 must be a list of columns"),
        ([("a", 3)], "token 0 must be a list of columns"),
    ]:
        with pytest.raises(ValueError, match=said):
            vectorizer.fit_transform(tokens, np.array([len(tokens)]))
    with pytest.raises(ValueError, match="min_count must be at least 1, got 0"):
        TemplateVectorizer(parse_templates("words"), min_count=0)
