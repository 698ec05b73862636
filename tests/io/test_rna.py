"""Files of RNA sequences with their structures."""

import pytest

from cutplane.io import InputError
from cutplane.models.rna.model import FoldedRNA, read_structures


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "some.dbn"
        path.write_text(text)
        return path

    return write


def test_read(write):
    path = write(">first\nGAAAC\n(...)\n> second \nGA\n..\n\n")
    expected = [FoldedRNA("first", "GAAAC", "(...)"), FoldedRNA("second", "GA", "..")]
    assert read_structures(path) == expected
    assert read_structures(write("\ufeff>first\nGAAAC\n(...)\n")) == expected[:1]
    assert read_structures(write("")) == []


def test_odd_pairs_are_taken_out(write):
    path = write(">one\nGAAAA\n(...)\n")
    assert read_structures(path)[0].structure == "(...)"
    assert read_structures(path, clean=True)[0].structure == "....."


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("GAAAC\n(...)\n", r"some.dbn:1: expected a name after >, found 'GAAAC'"),
        (">a\nGAAAC\n(...)\n>b\nGAAAC\n", r"some.dbn:6: a structure of 0 bases .* of 5"),
        (">a\nGAXAC\n(...)\n", "some.dbn:2: base 3 is 'X'"),
        (">a\nGAAAC\n(....\n", "some.dbn:3: the bracket at base 1 is not closed"),
        (">a\n", "some.dbn:2: the sequence is missing"),
        (">a\nG\u1e9a\n..\n", "some.dbn:2: base 2 is '\u1e9a'"),
    ],
)
def test_errors_name_the_line(write, text, message):
    with pytest.raises(InputError, match=message):
        read_structures(write(text))


def test_no_file(tmp_path):
    with pytest.raises(InputError, match=r"none\.dbn.*no such file"):
        read_structures(tmp_path / "none.dbn")
    binary = tmp_path / "binary.dbn"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not a text file"):
        read_structures(binary)
    binary.write_bytes(b">a\nGA\n\xff\n")
    with pytest.raises(InputError, match=r"binary\.dbn:3: not UTF-8 text"):
        read_structures(binary)
