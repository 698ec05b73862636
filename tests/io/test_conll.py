"""Files of columns: read, written, refused."""

import gzip
import lzma

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutplane.io import InputError, read_conll

TEXT = "He PRP B-NP\nran VBD B-VP\n\n\nYes UH O\n"


def written(folder, content, name="tokens.txt"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_sequences_and_labels(tmp_path):
    data = read_conll(written(tmp_path, TEXT))
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
        gzip.compress(TEXT.encode(), mtime=0),
        lzma.compress(TEXT.encode()),
        b"\xef\xbb\xbf" + TEXT.encode(),
        TEXT.replace("\n", "\r\n").encode(),
        TEXT.replace(" ", "   ").encode(),
        TEXT.replace(" ", "\t").encode(),
        ("\n \n" + TEXT.rstrip()).encode(),
    ],
    ids=["gzip", "xz", "mark", "carriage-returns", "spaces", "tabs", "blank-lines"],
)
def test_other_spellings_of_the_same(tmp_path, content):
    plain = read_conll(written(tmp_path, TEXT))
    assert read_conll(written(tmp_path, content, "other")).sequences == plain.sequences


word = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=4)
tokens = st.tuples(word, word)


@given(
    sequences=st.lists(st.lists(tokens, min_size=1, max_size=4), min_size=1, max_size=4),
    separator=st.sampled_from([" ", "\t"]),
)
def test_what_is_written_is_read(tmp_path_factory, sequences, separator):
    text = "\n".join(
        "".join(f"{separator.join(token)}\n" for token in sequence) for sequence in sequences
    )
    data = read_conll(written(tmp_path_factory.mktemp("columns"), text))
    assert data.sequences == sequences
    assert data.separator == separator


def test_tabs_keep_spaces(tmp_path):
    data = read_conll(written(tmp_path, "New York\tNNP\tO\n\t\tO\n"))
    assert data.sequences == [[("New York", "NNP", "O"), ("", "", "O")]]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a b c\nd e\n", ":2: 2 columns, but the first line has 3"),
        ("a b\n\nc d e\n", ":3: 3 columns, but the first line has 2"),
        ("a b\nc d\n\xff".encode("latin-1"), ":3: not UTF-8 text"),
        ("a b\rc d\r", ":1: a carriage return inside a line; lines end with a newline"),
        ("a b\n\ufeffc d\n", ":2: a byte order mark inside the file"),
        (b"a\0b", ": not a text file"),
        ("", ": no data in the file"),
        ("\n \n\n", ": no data in the file"),
        (gzip.compress(TEXT.encode(), mtime=0)[:-9], ": damaged gzip file"),
    ],
)
def test_what_is_refused(tmp_path, content, said):
    path = written(tmp_path, content)
    with pytest.raises(InputError) as caught:
        read_conll(path)
    assert str(caught.value).startswith(f"{path}{said}")


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


def test_no_file(tmp_path):
    with pytest.raises(InputError, match="cannot read: no such file"):
        read_conll(tmp_path / "missing")
