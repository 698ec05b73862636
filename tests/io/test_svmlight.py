"""Reading svmlight files: what is accepted, and one clear line for everything else."""

import bz2
import gzip
import io
import lzma
import os
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from cutplane.io import InputError, read_svmlight

PLAIN = b"+1 1:0.5 3:-2 # a comment\n\n# only a comment\n-1 qid:7 2:1e-3\r\n0.5\n"
PLAIN_X = [[0.5, 0.0, -2.0], [0.0, 1e-3, 0.0], [0.0, 0.0, 0.0]]
PLAIN_Y = [1.0, -1.0, 0.5]


@pytest.fixture
def write(tmp_path):
    def write_file(content, name="data.svm"):
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write_file


def message(path, n_features=None):
    """Return what the reader says about a bad file, without the folder."""
    with pytest.raises(InputError) as caught:
        read_svmlight(path, n_features=n_features)
    said = str(caught.value)
    assert "\n" not in said
    return said.replace(str(path), path.name)


def test_plain(write):
    data = read_svmlight(write(PLAIN))
    assert sparse.issparse(data.X)
    assert data.X.format == "csr"
    np.testing.assert_array_equal(data.X.toarray(), PLAIN_X)
    np.testing.assert_array_equal(data.y, PLAIN_Y)


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize("name", ["data.svm", "data.gz"])
def test_compression_is_read_off_the_content(write, compress, name):
    data = read_svmlight(write(compress(PLAIN), name))
    np.testing.assert_array_equal(data.X.toarray(), PLAIN_X)
    np.testing.assert_array_equal(data.y, PLAIN_Y)


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_standard_input(monkeypatch, compress):
    stdin = io.TextIOWrapper(io.BytesIO(compress(PLAIN)))
    monkeypatch.setattr("sys.stdin", stdin)
    np.testing.assert_array_equal(read_svmlight("-").y, PLAIN_Y)


def test_standard_input_is_named_in_errors(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"1 1:x\n")))
    with pytest.raises(InputError, match=r"^standard input:1: value 'x' of feature 1"):
        read_svmlight("-")


def test_a_pipe_is_read_once_and_still_explained(tmp_path):
    # Process substitution gives such a path; it cannot be opened a second time.
    reader, writer = os.pipe()
    os.write(writer, b"1 1:1\n1 1:2 0:3\n")
    os.close(writer)
    with pytest.raises(InputError, match=":2: feature index 0"):
        read_svmlight(f"/dev/fd/{reader}")
    os.close(reader)


def test_the_same_index_is_the_same_column_in_every_file(write):
    train = read_svmlight(write(b"1 1:1 2:2\n"))
    test = read_svmlight(write(b"1 2:2\n", "test.svm"), n_features=2)
    assert train.X[0, 1] == test.X[0, 1] == 2.0


def test_number_of_features_can_be_given(write):
    assert read_svmlight(write(b"1 2:2\n"), n_features=5).X.shape == (1, 5)
    assert read_svmlight(write(b"1\n-1\n"), n_features=5).X.shape == (2, 5)


def test_indices_are_small_and_values_are_double(write):
    X = read_svmlight(write(PLAIN)).X
    assert X.indices.dtype == X.indptr.dtype == np.int32
    assert X.data.dtype == np.float64


def test_queries_are_read_where_they_are_asked_for(write):
    path = write(b"1 qid:7 1:1\n0 qid:-3 # x\n\n2 qid:7 2:4\n")
    data = read_svmlight(path, queries=True)
    assert data.qid.tolist() == [7, -3, 7]
    np.testing.assert_array_equal(data.X.toarray(), [[1, 0], [0, 0], [0, 4]])
    assert read_svmlight(path).qid is None
    words = read_svmlight(write(b"a qid:2 1:1\nb qid:1 1:1\n"), queries=True)
    assert (words.y.tolist(), words.qid.tolist()) == (["a", "b"], [2, 1])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"1 1:1", "no query (qid:number after the label)"),
        (b"1", "no query (qid:number after the label)"),
        (b"1 qid: 1:1", "query '' is not a whole number"),
        (b"1 qid:x 1:1", "query 'x' is not a whole number"),
        (b"1 qid:2.5 1:1", "query '2.5' is not a whole number"),
        (b"1 qid:nan 1:1", "query 'nan' is not a whole number"),
        (b"1 qid:1_0 1:1", "query '1_0' is not a whole number"),
        (b"1 qidc:3 1:1", "no query (qid:number after the label)"),
        (b"1 qid:99999999999999999999 1:1", "query 99999999999999999999 is too large"),
        (b"1 qid:1 1:x", "value 'x' of feature 1 is not a number"),
    ],
)
def test_first_bad_query_is_named(write, line, said):
    path = write(b"1 qid:1 1:1\n# comment\n" + line + b"\n1 1:1\n")
    with pytest.raises(InputError) as caught:
        read_svmlight(path, queries=True)
    assert str(caught.value) == f"{path}:3: {said}"


def test_words_as_labels(write):
    data = read_svmlight(write("Grün 1:1\nrot 2:1 # x\n\nGrün qid:1 1:4\n".encode()))
    assert data.y.tolist() == ["Grün", "rot", "Grün"]
    np.testing.assert_array_equal(data.X.toarray(), [[1, 0], [0, 1], [4, 0]])


def test_byte_order_mark_is_not_part_of_the_label(write):
    assert read_svmlight(write(b"\xef\xbb\xbf1 1:1\n")).y.tolist() == [1.0]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"1:0.5 2:1", "the label is missing (the line starts with '1:0.5')"),
        (b"1,2 1:1", "label '1,2': several labels in a line are not supported"),
        (b"nan 1:1", "label 'nan' is not finite"),
        (b"1e999 1:1", "label '1e999' is not finite"),
        (b"spam 1:1", "label 'spam' after '1' in line 1: numbers and words mixed"),
        (b"1 1:abc", "value 'abc' of feature 1 is not a number"),
        (b"1 1:", "value '' of feature 1 is not a number"),
        (b"1 1:nan", "value 'nan' of feature 1 is not finite"),
        (b"1 2:-inf", "value '-inf' of feature 2 is not finite"),
        (b"1 x:1", "feature index 'x' is not a whole number"),
        (b"1 1.5:1", "feature index '1.5' is not a whole number"),
        (b"1 -2:1", "feature index -2: indices start at 1"),
        (b"1 0:1", "feature index 0: indices start at 1"),
        (b"1 3:1 2:1", "feature index 2 follows 3: indices must increase"),
        (b"1 3:1 3:1", "feature index 3 follows 3: indices must increase"),
        (b"1 99999999999:1", "feature index 99999999999 is too large"),
        (b"1 4 5", "'4' is not of the form index:value"),
        (b"1 1:1 qid:3", "feature index 'qid' is not a whole number"),
        (b"1 qid", "'qid' is not of the form index:value"),
        (b"1 qidc:3 1:1", "feature index 'qidc' is not a whole number"),
        (b"1 qidfoo:9 1:1", "feature index 'qidfoo' is not a whole number"),
        (b"1 qid:x 1:1", "query 'x' is not a whole number"),
        (b"1_0 1:1", "label '1_0' after '1' in line 1: numbers and words mixed"),
        (b"0x10 1:1", "label '0x10' after '1' in line 1: numbers and words mixed"),
        ("\uff11 1:1".encode(), "label '\uff11' after '1' in line 1: numbers and words mixed"),
        (b"\xef\xbb\xbf1 1:1", "label '\\ufeff1' has the invisible character U+FEFF"),
        (b"-Infinity 1:1", "label '-Infinity' is not finite"),
        (b"1 1:1_0", "value '1_0' of feature 1 is not a number"),
        (b"1 1:0x1p3", "value '0x1p3' of feature 1 is not a number"),
        ("1 1:\uff11".encode(), "value '\uff11' of feature 1 is not a number"),
        (b"1 1_0:1", "feature index '1_0' is not a whole number"),
        (b"1 " + b"0" * 5000 + b"1:1", "feature index " + "0" * 35 + "... is too large"),
        (b"1 1" + b"0" * 18 + b":1", "feature index 1000000000000000000 is too large"),
        (b"\xff\xfe 1:1", "label '\\\\xff\\\\xfe' is neither a number nor UTF-8 text"),
        (b"1 " + b"z" * 500, "'" + "z" * 35 + "...' is not of the form index:value"),
    ],
)
def test_first_bad_line_is_named(write, line, said):
    path = write(b"1 1:1\n# comment\n\n" + line + b"\n1 1:also bad\n")
    assert message(path).startswith(f"data.svm:4: {said}")


@pytest.mark.parametrize(
    ("token", "number"),
    [("+1", 1.0), ("1e5", 1e5), ("-2.5E-3", -2.5e-3), (".5", 0.5), ("5.", 5.0), ("007", 7.0),
     ("-0", -0.0), ("1e-999", 0.0)],
)  # fmt: skip
def test_numbers(write, token, number):
    data = read_svmlight(write(f"{token} 1:{token}# glued\n".encode()))
    assert repr(data.y.tolist()) == repr(data.X.data.tolist()) == repr([number])


def test_labels_of_the_characters_of_numbers_may_be_words(write):
    assert read_svmlight(write(b"1-2 1:1\ne 1:1\n")).y.tolist() == ["1-2", "e"]
    assert read_svmlight(write(b"1_0 1:1\n0x10 1:1\n")).y.tolist() == ["1_0", "0x10"]


def test_a_sign_for_comments_at_the_end_of_a_word_is_not_lost(write):
    assert message(write(b"C 1:1\nC# 1:1\n")) == (
        "data.svm:2: label 'C': white space is missing before the #"
    )
    assert read_svmlight(write(b"C 1:1\nD # 1:1\n")).y.tolist() == ["C", "D"]


def test_a_wrong_line_before_a_wrong_word_is_named_first(write):
    assert message(write(b"1 1:1\n1 2:1 1:1\n1 1:x\n")).startswith("data.svm:2: feature index 1 fo")


def test_many_queries_take_linear_time(write):
    path = write(b"".join(b"1 qid:%d 1:1\n" % (k // 3) for k in range(200_000)))
    read_svmlight(write(b"1 qid:1 1:1\n", "small"), queries=True)  # imports
    start = time.process_time()
    qid = read_svmlight(path, queries=True).qid
    assert time.process_time() - start < 5
    assert qid.dtype == np.int64
    np.testing.assert_array_equal(qid, np.arange(200_000) // 3)


def test_all_streams_of_an_archive_are_read_or_none(write):
    for compress in (gzip.compress, bz2.compress, lzma.compress):
        first, second = compress(b"1 1:1\n"), compress(b"2 1:2\n")
        for padding in (b"", bytes(8)):
            assert read_svmlight(write(first + padding + second)).y.tolist() == [1.0, 2.0]
        for damaged in (first + second[:-3], first + second[3:], first + b"1 1:1\n"):
            assert message(write(damaged)).startswith("data.svm: damaged ")


@pytest.mark.parametrize(
    "line",
    [b"1 qidc:3 1:1", b"1 qidfoo:9 1:1", b"1 qid:nan 1:1", b"1 qid:1_0 1:1", b"1 1:1_0", b"1 1_0:1",
     b"1_0 1:1"],
)  # fmt: skip
@pytest.mark.parametrize("queries", [False, True])
def test_one_bad_line_among_good_ones_is_refused(write, line, queries):
    path = write(b"1 qid:1 1:1\n2 qid:1 1:1\n" + line + b"\n1 qid:2 1:1\n")
    with pytest.raises(InputError, match=r"data\.svm:3: "):
        read_svmlight(path, queries=queries)


def test_index_zero_says_how_scikit_learn_users_get_there(write):
    assert message(write(b"1 0:1\n")).endswith("(in scikit-learn, write with zero_based=False)")


def test_a_feature_beyond_those_expected_is_named(write):
    path = write(b"1 1:1\n1 2:1 7:1\n")
    assert message(path, 5) == "data.svm:2: feature index 7 is beyond the 5 features expected"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no data in the file"),
        (b"# only\n\n   \n", "no data in the file"),
        (b"spam\nham\n", "no line has a feature (index:value)"),
        (b"1\n-1\n", "no line has a feature (index:value)"),
        (b"\x00\x01\x02", "not a text file"),
        ("1 1:1\n".encode("utf-16"), "not a text file"),
        (gzip.compress(PLAIN, mtime=0)[:-9], "damaged gzip file"),
        (gzip.compress(PLAIN, mtime=0)[:5], "damaged gzip file"),
        (b"\x1f\x8bnonsense", "damaged gzip file"),
        (bz2.compress(PLAIN)[:-9], "damaged bzip2 file"),
        (lzma.compress(PLAIN)[:-9], "damaged xz file"),
    ],
)
def test_files_without_data(write, content, said):
    assert message(write(content)).startswith(f"data.svm: {said}")


def test_missing_file_and_directory(tmp_path):
    assert message(tmp_path / "gone") == "gone: cannot read: no such file or directory"
    assert message(tmp_path).endswith(": cannot read: is a directory")


def test_unreadable_file(write):
    path = write(PLAIN)
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user may read every file")
    assert message(path) == "data.svm: cannot read: permission denied"


@settings(max_examples=150, deadline=None)
@given(content=st.binary(max_size=60))
def test_garbage_is_an_input_error_or_data(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("garbage") / "data"
    path.write_bytes(content)
    try:
        data = read_svmlight(path)
    except InputError:
        assert message(path).startswith("data:")
    else:
        assert data.X.shape[0] == len(data.y) > 0


TOKENS = st.sampled_from(
    ["1", "-1", "a", "1:1", "2:0.5", "2:nan", "0:1", "x:1", "qid:1", "#", "1,2"]
)


@settings(max_examples=300, deadline=None)
@given(lines=st.lists(st.lists(TOKENS, max_size=4), min_size=1, max_size=3))
def test_almost_right_text_is_an_input_error_or_data(tmp_path_factory, lines):
    path = tmp_path_factory.mktemp("almost") / "data"
    path.write_text("\n".join(map(" ".join, lines)))
    try:
        data = read_svmlight(path)
    except InputError:
        assert message(path).startswith("data:")
    else:
        assert np.isfinite(data.X.data).all()
        assert len(data.y) == data.X.shape[0]
        if data.y.dtype.kind != "U":  # names of classes are text
            assert np.isfinite(data.y).all()


@settings(max_examples=40, deadline=None)
@given(
    dense=st.lists(
        st.lists(st.floats(-1e300, 1e300, allow_subnormal=True), min_size=3, max_size=3),
        min_size=1,
        max_size=5,
    )
)
def test_what_scikit_learn_writes_is_read_back(tmp_path_factory, dense):
    path = tmp_path_factory.mktemp("round") / "data"
    X, y = np.array(dense), np.arange(len(dense))
    dump_svmlight_file(X, y, str(path), zero_based=False)
    data = read_svmlight(path, n_features=3)
    np.testing.assert_allclose(data.X.toarray(), X, rtol=1e-15)
    np.testing.assert_array_equal(data.y, y)
    theirs, _ = load_svmlight_file(str(path), n_features=3, zero_based=False)
    assert data.X.data.tobytes() == theirs.data.tobytes()


def test_a_file_of_the_size_of_a9a_takes_less_than_a_quarter_of_a_second(tmp_path):
    read_svmlight(_written(tmp_path, n_samples=10))  # imports and compiles
    path = _written(tmp_path, n_samples=32_561)
    start = time.process_time()
    data = read_svmlight(path)
    assert time.process_time() - start < 0.25
    assert data.X.nnz == 32_561 * 14


def _written(folder, n_samples):
    rng = np.random.default_rng(0)
    indices = np.sort(rng.permuted(np.tile(np.arange(1, 124), (n_samples, 1)), axis=1)[:, :14])
    path = folder / "large.svm"
    path.write_text("\n".join("1 " + " ".join(f"{i}:1" for i in row) for row in indices.tolist()))
    return path
