"""Names looked up all at once: the matrix of `DictVectorizer`, token by token."""

import enum
from collections import Counter, OrderedDict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction import DictVectorizer

import cutplane as cp
from cutplane.models.tagging.tokens import transform_names

texts = st.one_of(
    st.sampled_from(["", "a", "b", "a=b", "=", "a=", "é", "\0", "\n", "\ud800", "word=a", "1"]),
    st.text(max_size=3),
)
collections = st.one_of(
    st.lists(texts, max_size=5), st.lists(texts, max_size=5).map(tuple), st.frozensets(texts)
)
values = st.one_of(
    texts,
    st.booleans(),
    st.integers(-3, 3),
    st.floats(-2.0, 2.0),
    st.sampled_from([1.0, 0.0, np.float32(0.1), np.float64(0.1), np.int64(2)]),
)
dictionaries = st.dictionaries(texts, values, max_size=5)
# Lists of strings as values, and keys that are no strings, go another way.
odd = st.dictionaries(st.one_of(texts, st.just("k")), st.lists(texts, max_size=3), max_size=2)


def by_dictionaries(vectorizer, tokens, *, fit):
    """The same by a dictionary a token, as the tagger used to do it."""
    mappings = [token if isinstance(token, dict) else Counter(token) for token in tokens]
    X = vectorizer.fit_transform(mappings) if fit else vectorizer.transform(mappings)
    X.sum_duplicates()
    return X


def assert_same(X, other):
    assert X.shape == other.shape
    assert X.has_canonical_format
    for name in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(X, name), getattr(other, name))


@pytest.mark.parametrize(
    "kinds", [collections, dictionaries, st.one_of(collections, dictionaries, odd)]
)
@given(data=st.data())
def test_the_matrix_is_that_of_dictionaries(kinds, data):
    train = data.draw(st.lists(kinds, min_size=1, max_size=6))
    test = data.draw(st.lists(kinds, min_size=1, max_size=6))
    mine, theirs = DictVectorizer(), DictVectorizer()
    assert_same(transform_names(mine, train, fit=True), by_dictionaries(theirs, train, fit=True))
    assert mine.feature_names_ == theirs.feature_names_
    assert mine.vocabulary_ == theirs.vocabulary_
    assert_same(transform_names(mine, test, fit=False), by_dictionaries(theirs, test, fit=False))


class Case(str, enum.Enum):  # noqa: UP042 (its text is not its value, unlike that of StrEnum)
    UPPER = "upper"


class Text(str):
    __slots__ = ()


@pytest.mark.parametrize(
    "tokens",
    [
        [{"case": Case.UPPER}, {"case": "upper"}],  # equal, but with other texts
        [{1: "a"}, {True: "a"}, {1: 2.0}],
        [OrderedDict(a=1), Counter("aab")],
        [[Text("a"), "a"], ["b"]],
        [{"a": "b", "a=b": 2.0}],
        [{"a": ("b", "c")}, {"a": "b"}],
    ],
)
def test_awkward_names(tokens):
    mine, theirs = DictVectorizer(), DictVectorizer()
    if 1 in tokens[0]:
        with pytest.raises(TypeError):  # names of several kinds have no order
            transform_names(mine, tokens, fit=True)
        return
    assert_same(transform_names(mine, tokens, fit=True), by_dictionaries(theirs, tokens, fit=True))
    assert mine.feature_names_ == theirs.feature_names_


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        ([["a"], "b"], "token 1 must be"),
        ([{"a": 1}, ["b", 3]], "token 1 must be"),
        ([[1]], "token 0"),
        ([{"b": 1}, {"a": None, "b": 1}], "feature 'a' of token 1 is None"),
    ],
)
def test_tokens_that_are_refused(tokens, said):
    with pytest.raises(ValueError, match=said):
        transform_names(DictVectorizer(), tokens, fit=True)


WORDS = [["the", "old", "cat", "sees", "a", "dog"], ["a", "dog", "sleeps"], ["dogs", "bark"]]
TAGS = [["D", "A", "N", "V", "D", "N"], ["D", "N", "V"], ["N", "V"]]


@pytest.mark.parametrize("pairs", ["all", "observed"])
@pytest.mark.parametrize("templates", [None, "words"])
def test_a_matrix_of_its_own_vectorizer_gives_the_same(pairs, templates):
    X = [[[word] for word in words] for words in WORDS]
    tagger = cp.SequenceTagger("crf", lam=0.01, pairs=pairs, templates=templates).fit(X, TAGS)
    tokens, lengths = [token for words in X for token in words], [len(words) for words in X]
    if templates is None:
        matrix = tagger.vectorizer_.transform([Counter(token) for token in tokens])
    else:
        matrix = tagger.vectorizer_.transform(tokens, np.array(lengths))
    for method in ("predict", "predict_marginals"):
        expected = np.concatenate(getattr(tagger, method)(X))
        found = getattr(tagger, method)(matrix, lengths=lengths)
        np.testing.assert_array_equal(found, expected)
    by_sequence = [matrix[:6], matrix[6:9], matrix[9:]]
    np.testing.assert_array_equal(
        np.concatenate(tagger.predict(by_sequence)), tagger.predict(matrix, lengths=lengths)
    )
    with pytest.raises(ValueError, match="these are matrices"):
        tagger.predict(matrix.toarray(), lengths=lengths)
    with pytest.raises(ValueError, match="features"):
        tagger.predict(matrix[:, 1:], lengths=lengths)
