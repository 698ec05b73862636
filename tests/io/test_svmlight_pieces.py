"""Files that are read piece by piece: order, what is wrong with the whole, memory."""

import bz2
import errno
import gzip
import io
import lzma
import tracemalloc
from functools import partial

import numpy as np
import pytest

from cutplane.compute.threads import thread_limit
from cutplane.io import InputError, read_svmlight, svmlight
from cutplane.io import files as sources
from cutplane.io.svmlight import Rules, read_pieces

COMPRESSORS = {
    "plain": bytes,
    "gzip": partial(gzip.compress, compresslevel=1),
    "bzip2": bz2.compress,
    "xz": partial(lzma.compress, preset=0),
}


@pytest.fixture
def small_chunks(monkeypatch):
    """Chunks of 64 kB, so that a few megabytes are many batches, but still go to threads."""
    monkeypatch.setattr(svmlight.Sizes, "CHUNK", 2**16)
    monkeypatch.setattr(svmlight.Sizes, "CHUNKS_AT_ONCE", 4)


def text_of(n_rows, *, query=""):
    """Return rows with a second value that does not compress much."""
    return "".join(
        f"{k % 7}{query} {k % 97 + 1}:{k} 200:0.{k * 2654435761 % 2**32}\n" for k in range(n_rows)
    ).encode()


def refusal(path, *, queries=False):
    with pytest.raises(InputError) as caught:
        read_svmlight(path, queries=queries)
    return str(caught.value).removeprefix(str(path))


@pytest.mark.parametrize("compress", COMPRESSORS.values(), ids=COMPRESSORS)
@pytest.mark.parametrize("n_threads", [1, 3])
def test_rows_come_in_order(tmp_path, small_chunks, compress, n_threads):
    path = tmp_path / "data.svm"
    text = text_of(40_000, query=" qid:5")
    cut = len(text) // 3  # two streams, or one file
    path.write_bytes(compress(text[:cut]) + compress(text[cut:]))
    with thread_limit(n_threads):
        X, y, qid = read_svmlight(path, queries=True)
    rows = np.arange(40_000)
    np.testing.assert_array_equal(y, rows % 7)
    np.testing.assert_array_equal(X.indptr, 2 * np.arange(40_001))
    np.testing.assert_array_equal(X.indices.reshape(-1, 2)[:, 0], rows % 97)
    np.testing.assert_array_equal(X.data.reshape(-1, 2)[:, 0], rows)
    assert set(qid) == {5}
    assert X.shape == (40_000, 200)


def test_lines_are_counted_from_the_beginning_of_the_file(tmp_path, small_chunks):
    path = tmp_path / "data.svm"
    good = text_of(30_000)
    path.write_bytes(good + b"1 1:x\n" + good)
    assert refusal(path) == ":30001: value 'x' of feature 1 is not a number"
    path.write_bytes(b"# comment\n\n" + good + b"spam 1:1\n" + good)
    said = "label 'spam' after '0' in line 3: numbers and words mixed"
    assert refusal(path) == f":30003: {said}"
    # Where a chunk begins with a word, too.
    path.write_bytes(good[:-1].replace(b"\n", b"\n\n") + b"\n" + b"spam 1:1\n" * 30_000)
    assert refusal(path) == ":60000: label 'spam' after '0' in line 1: numbers and words mixed"


def test_the_longest_label_is_named_with_its_line(tmp_path, small_chunks, monkeypatch):
    monkeypatch.setattr(sources.Limits, "LABELS", 1)
    path = tmp_path / "data.svm"
    short = b"a 1:1\n" * 30_000
    path.write_bytes(short + b"b" * 100 + b" 1:1\n" + short + b"c" * 100 + b" 1:1\n")
    assert refusal(path).startswith(":30001: a label of 100 characters")


def test_what_is_wrong_with_the_file_comes_before_what_is_wrong_with_a_line(tmp_path, small_chunks):
    path = tmp_path / "data.svm"
    good = text_of(40_000)
    path.write_bytes(b"1 1:x\n" + good + b"\0\n")
    assert refusal(path) == ": not a text file"
    path.write_bytes(gzip.compress(b"1 1:x\n" + good)[:-5])
    assert refusal(path) == ": damaged gzip file: it ends too early"
    path.write_bytes(b"1 1:x\n" + good)
    assert refusal(path, queries=True) == ": no line has a query (qid:number after the label)"
    path.write_bytes(b"1 1:1\n" + good + b"# qid: is for queries\n")
    assert refusal(path, queries=True) == ":1: no query (qid:number after the label)"


def test_a_line_may_be_longer_than_a_chunk(tmp_path, small_chunks):
    path = tmp_path / "data.svm"
    long = b"1 " + b" ".join(b"%d:1" % k for k in range(1, 100_001)) + b"\n"
    path.write_bytes(long + b"2 1:1\n" + long)
    X, y, _ = read_svmlight(path)
    assert y.tolist() == [1.0, 2.0, 1.0]
    assert np.diff(X.indptr).tolist() == [100_000, 1, 100_000]


def test_indices_are_wide_where_entries_are_many(tmp_path, monkeypatch):
    monkeypatch.setattr(svmlight, "LARGEST_INDEX", 3)
    path = tmp_path / "data.svm"
    path.write_bytes(b"1 1:1 2:1\n1 1:1\n")
    assert read_svmlight(path).X.indices.dtype == np.int32
    path.write_bytes(b"1 1:1 2:1\n1 1:1 2:1\n")
    parts = svmlight_parts(path)
    assert [part.dtype for part in parts] == [np.int64, np.int64]


def svmlight_parts(path):
    """Return the index arrays as they are handed to SciPy, which makes them narrow again."""
    import scipy.sparse

    kept = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scipy.sparse, "csr_matrix", lambda parts, shape: kept.extend(parts[1:]))
        read_svmlight(path)
    return kept


def peak_of(work):
    work()  # imports and compiles
    tracemalloc.start()
    try:
        result = work()
        return tracemalloc.get_traced_memory()[1], result
    finally:
        tracemalloc.stop()


def resizing_counts_twice():
    """Whether NumPy names the new place of an array before it takes back the old one, as 2.5 does.

    The memory is enlarged in place all the same.
    """
    array = np.empty(100_000)
    tracemalloc.start()
    try:
        array.resize(125_000, refcheck=False)  # the first was there before anything was counted
        array.resize(100_000, refcheck=False)
        return tracemalloc.get_traced_memory()[1] > 1.5e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("compress", COMPRESSORS.values(), ids=COMPRESSORS)
def test_reading_takes_little_more_memory_than_the_result(tmp_path, small_chunks, compress):
    path = tmp_path / "data.svm"
    path.write_bytes(compress(text_of(100_000)))
    peak, (X, y, _) = peak_of(lambda: read_svmlight(path))
    arrays = [X.data.nbytes, X.indices.nbytes, X.indptr.nbytes, y.nbytes]
    # Each array has room for a quarter more; ends of rows are counted in int64 first.
    assert peak < 1.6 * sum(arrays) + 2e6 + max(arrays) * resizing_counts_twice()


@pytest.mark.parametrize("compress", COMPRESSORS.values(), ids=COMPRESSORS)
def test_pieces_take_memory_that_does_not_depend_on_the_file(tmp_path, small_chunks, compress):
    path = tmp_path / "data.svm"
    peaks = []
    for n_rows in (60_000, 180_000):
        path.write_bytes(compress(text_of(n_rows)))
        peak, counted = peak_of(
            lambda: sum(len(piece.labels) for piece in read_pieces(path, Rules()))
        )
        assert counted == n_rows
        peaks.append(peak)
    # Three times the file. What threads hold at the same time is a matter of chance.
    assert peaks[1] < 1.5 * peaks[0]


@pytest.mark.parametrize("compress", COMPRESSORS.values(), ids=COMPRESSORS)
def test_a_failing_disk_is_no_damaged_file(monkeypatch, compress):
    class Failing(io.BytesIO):
        def read(self, size=-1):
            return super().read(size) or self.fail()

        def fail(self):
            raise OSError(errno.EIO, "Input/output error")

    content = compress(text_of(10_000))[:-100]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(Failing(content)))
    with pytest.raises(InputError, match=r"^standard input: cannot read: input/output error$"):
        read_svmlight("-")


def test_what_is_suspicious_is_held_back(tmp_path, monkeypatch):
    # Only what is refused in the end is; so nothing is made of it before.
    made = []
    monkeypatch.setattr(sources.Limits, "ALWAYS_ALLOWED", 3_000_000)
    path = tmp_path / "data.gz"
    path.write_bytes(gzip.compress(b"\n" * 10_000_000))
    with pytest.raises(InputError, match="decompresses to more than 3 MB"):
        made.extend(sources.read_parts(path))
    assert sum(map(len, made)) <= 100 * path.stat().st_size
