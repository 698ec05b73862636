"""Files of sequences, of tokens and of vectors: read, written, refused."""

import bz2
import gzip
import io
import lzma

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutplane.io import InputError, read_conll, read_frames

TOKENS = "He PRP B-NP\nran VBD B-VP\n\n\nYes UH O\n"
FRAMES = "up 0.5 -1\nup 1e2 .5\n\n\ndown 3 4\n"


def written(folder, content, name="sequences.txt"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def require_refused(read, path, said):
    with pytest.raises(InputError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}{said}")


@pytest.mark.parametrize("read", [read_conll, read_frames])
@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a 1 2\nb 1\n", ":2: 2 columns, but the first line has 3"),
        ("a 1 2\nb\n", ":2: 1 column, but the first line has 3"),
        ("a 1\n\nb 1 2\n", ":3: 3 columns, but the first line has 2"),
        ("a 1\nb \xff\n".encode("latin-1"), ":2: not UTF-8 text"),
        ("a 1\nc 1\n\xff".encode("latin-1"), ":3: not UTF-8 text"),
        ("a 1\rb 1\r", ":1: a carriage return inside a line; lines end with a newline"),
        ("a 1\n\ufeffb 1\n", ":2: a byte order mark inside the file"),
        ("a 1\n\n\ufeffb 1\n", ":3: a byte order mark inside the file"),
        (b"a\0b", ": not a text file"),
        ("", ": no data in the file"),
        ("\n \n\n", ": no data in the file"),
        (gzip.compress(TOKENS.encode(), mtime=0)[:-9], ": damaged gzip file"),
        (gzip.compress(FRAMES.encode(), mtime=0)[:-9], ": damaged gzip file"),
    ],
)
def test_what_is_refused(tmp_path, read, content, said):
    require_refused(read, written(tmp_path, content), said)


@pytest.mark.parametrize("read", [read_conll, read_frames])
def test_no_file(tmp_path, read):
    with pytest.raises(InputError, match="cannot read: no such file"):
        read(tmp_path / "missing")


def test_sequences_and_labels(tmp_path):
    data = read_conll(written(tmp_path, TOKENS))
    assert data.sequences == [
        [("He", "PRP", "B-NP"), ("ran", "VBD", "B-VP")],
        [("Yes", "UH", "O")],
    ]
    assert (data.n_columns, data.n_tokens, data.separator) == (3, 3, " ")
    X, y = data.split_labels()
    assert X == [[("He", "PRP"), ("ran", "VBD")], [("Yes", "UH")]]
    assert y == [["B-NP", "B-VP"], ["O"]]
    assert data.with_column([["a", "b"], ["c"]]) == (
        "He PRP B-NP a\nran VBD B-VP b\n\nYes UH O c\n\n"
    )


@pytest.mark.parametrize(
    "content",
    [
        gzip.compress(TOKENS.encode(), mtime=0),
        lzma.compress(TOKENS.encode()),
        b"\xef\xbb\xbf" + TOKENS.encode(),
        TOKENS.replace("\n", "\r\n").encode(),
        TOKENS.replace(" ", "   ").encode(),
        TOKENS.replace(" ", "\t").encode(),
        ("\n \n" + TOKENS.rstrip()).encode(),
    ],
    ids=["gzip", "xz", "mark", "carriage-returns", "spaces", "tabs", "blank-lines"],
)
def test_other_spellings_of_tokens(tmp_path, content):
    plain = read_conll(written(tmp_path, TOKENS))
    assert read_conll(written(tmp_path, content, "other")).sequences == plain.sequences


word = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=4)
tokens = st.tuples(word, word)


@given(
    sequences=st.lists(st.lists(tokens, min_size=1, max_size=4), min_size=1, max_size=4),
    separator=st.sampled_from([" ", "\t"]),
)
def test_tokens_that_are_written_are_read(tmp_path_factory, sequences, separator):
    text = "\n".join(
        "".join(f"{separator.join(token)}\n" for token in sequence) for sequence in sequences
    )
    data = read_conll(written(tmp_path_factory.mktemp("columns"), text))
    assert data.sequences == sequences
    assert data.separator == separator


def test_tabs_keep_spaces(tmp_path):
    data = read_conll(written(tmp_path, "New York\tNNP\tO\n\t\tO\n"))
    assert data.sequences == [[("New York", "NNP", "O"), ("", "", "O")]]


def test_white_space_of_other_alphabets_is_part_of_words(tmp_path):
    data = read_conll(written(tmp_path, "10\u00a0000 CD\n\u3000 X\n\u00a0 Y\n\x1c Z\n"))
    assert data.sequences == [
        [("10\u00a0000", "CD"), ("\u3000", "X"), ("\u00a0", "Y"), ("\x1c", "Z")]
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("a\t", ":2: label '' is empty"),
        ("a\t" + "z" * 257, f":2: label '{'z' * 36}' has 257 characters; 256 are allowed"),
        ("a\tO\x85", ":2: label 'O\\x85' has the invisible character U+0085"),
    ],
)
def test_labels_that_are_refused(tmp_path, line, said):
    path = written(tmp_path, f"a\tb\n{line}\n")
    assert read_conll(path).n_tokens == 2
    with pytest.raises(InputError) as caught:
        read_conll(path, labels=True)
    assert str(caught.value) == f"{path}{said}"


def test_frames_and_labels(tmp_path):
    data = read_frames(written(tmp_path, FRAMES))
    assert data.X.tolist() == [[0.5, -1.0], [100.0, 0.5], [3.0, 4.0]]
    assert data.lengths.tolist() == [2, 1]
    assert data.labels.tolist() == ["up", "up", "down"]
    assert data.classes().tolist() == ["up", "down"]
    assert [part.tolist() for part in data.sequences] == [[[0.5, -1.0], [100.0, 0.5]], [[3.0, 4.0]]]
    assert [part.tolist() for part in data.cut(data.labels)] == [["up", "up"], ["down"]]


@pytest.mark.parametrize(
    "content",
    [
        gzip.compress(FRAMES.encode(), mtime=0),
        bz2.compress(FRAMES.encode()),
        b"\xef\xbb\xbf" + FRAMES.encode(),
        FRAMES.replace("\n", "\r\n").encode(),
        FRAMES.replace(" ", "  \t").encode(),
        FRAMES.replace(" ", ",").encode(),
        FRAMES.replace(" ", " , ").encode(),
        ("\n \t\n" + FRAMES.rstrip()).encode(),
    ],
    ids=["gzip", "bzip2", "mark", "carriage-returns", "spaces", "commas", "spaces too", "blank"],
)
def test_other_spellings_of_frames(tmp_path, content):
    plain, other = (read_frames(written(tmp_path, each, "file")) for each in (FRAMES, content))
    for one, two in zip(plain[:3], other[:3], strict=True):
        np.testing.assert_array_equal(one, two)


def test_labels_that_are_numbers(tmp_path):
    data = read_frames(written(tmp_path, "1 0\n1.0 0\n\n2 0\n"))
    assert data.labels.dtype == np.float64
    assert data.classes().tolist() == [1.0, 2.0]


def test_phones_may_have_signs(tmp_path):
    labels = ["i:", "@", "#", '"a', "a,b", "nan", "é", "-"]
    data = read_frames(written(tmp_path, "".join(f"{label} 1\n" for label in labels)))
    assert data.labels.tolist() == labels


def test_files_without_labels(tmp_path):
    path = written(tmp_path, "1 2\n3 4\n")
    data = read_frames(path, n_features=2, labels=False)
    assert data.labels is None
    assert data.X.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert read_frames(path, n_features=1, labels=False).labels.tolist() == [1.0, 3.0]
    with pytest.raises(InputError, match=r":1: 2 columns; expected a label and 2 numbers$"):
        read_frames(path, n_features=2)
    with pytest.raises(InputError, match=r"a label and 5 numbers, or the numbers alone$"):
        read_frames(path, n_features=5, labels=False)


numbers = st.floats(allow_nan=False, allow_infinity=False)
words = st.text(st.characters(exclude_categories=["C", "Z"], exclude_characters=","), min_size=1)


@given(
    sequences=st.lists(
        st.lists(st.tuples(numbers, numbers), min_size=1, max_size=4), min_size=1, max_size=4
    ),
    word=words.map(lambda text: f"_{text}"),
    separator=st.sampled_from([" ", "\t", ",", ", "]),
)
def test_frames_that_are_written_are_read(tmp_path_factory, sequences, word, separator):
    text = "\n".join(
        "".join(f"{word}{separator}{separator.join(map(repr, frame))}\n" for frame in sequence)
        for sequence in sequences
    )
    data = read_frames(written(tmp_path_factory.mktemp("frames"), text))
    assert [[tuple(frame) for frame in part.tolist()] for part in data.sequences] == sequences
    assert set(data.labels.tolist()) == {word}


def test_what_numpy_writes_is_read(tmp_path):
    X, file = np.random.default_rng(0).normal(size=(5, 3)), io.BytesIO()
    for part in (X[:2], X[2:]):
        np.savetxt(file, np.column_stack([np.ones(len(part)), part]))
        file.write(b"\n")
    data = read_frames(written(tmp_path, file.getvalue()))
    np.testing.assert_array_equal(data.X, X)
    assert data.lengths.tolist() == [2, 3]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a\nb\n", ":1: one column only; the first is the label, others are numbers"),
        ("label,x\na,1\n", ":1: 'x' in column 2 is not a number"),
        ("a 1\nb nan\n", ":2: 'nan' in column 2 is not a number"),
        ("a 1 2\nb 1 1e999\n", ":2: '1e999' in column 3 is not finite"),
        ("a 1_0\n", ":1: '1_0' in column 2 is not a number"),
        ("a \uff11\n", ":1: '\uff11' in column 2 is not a number"),
        ("a,1,\n", ":1: '' in column 3 is not a number"),
        (",1\n", ":1: label '' is empty"),
        ("a 1\n1 1\n", ":2: label '1' after 'a' in line 1: numbers and words mixed"),
        ("1e999 1\n", ":1: label '1e999' is not finite"),
        ('"a",1\n', ":1: label '\"a\"' has quotes; write labels without them"),
        ("a\x85 1\n", ":1: label 'a\\x85' has the invisible character U+0085"),
        ("z" * 257 + " 1\n", f":1: label '{'z' * 35}...' has 257 characters; 256 are allowed"),
    ],
)
def test_frames_that_are_refused(tmp_path, content, said):
    require_refused(read_frames, written(tmp_path, content), said)


def test_a_sequence_has_one_class(tmp_path):
    path = written(tmp_path, "a 1\na 1\n\nb 1\nb 2\nc 3\n")
    data = read_frames(path)
    with pytest.raises(InputError) as caught:
        data.classes()
    assert str(caught.value) == (
        f"{path}:6: label 'c' in a sequence that began with 'b' in line 4; "
        "all frames of a sequence must have its class"
    )
    with pytest.raises(InputError, match=":2: label '2' in a sequence that began with '1' in"):
        read_frames(written(tmp_path, "1 1\n2 1\n")).classes()
