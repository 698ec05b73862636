"""Files in the svmlight format become folders with the same numbers, whatever their size."""

import bz2
import gzip
import hashlib
import io
import lzma
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cutplane as cp
from cutplane.compute.threads import thread_limit
from cutplane.data import as_rows
from cutplane.io import InputError, folders, read_svmlight, svmlight

COMPRESSORS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
TEXT = b"spam qid:3 1:0.5 4:-2 # a comment\n\nham qid:3 2:1e-3\nspam qid:7\nham qid:8 4:7\n"


def write(path, text):
    path.write_bytes(text)
    return path


def require_same(folder, path, *, dtype=np.float64, **options):
    X, y, qid = read_svmlight(path, **options)
    assert folder.X.shape == X.shape == folder.shape
    assert folder.X.data.dtype == dtype
    assert folder.X.indices.dtype == folder.X.indptr.dtype == np.int32
    np.testing.assert_array_equal(folder.X.data, X.data.astype(dtype))
    np.testing.assert_array_equal(folder.X.indices, X.indices)
    np.testing.assert_array_equal(folder.X.indptr, X.indptr)
    np.testing.assert_array_equal(folder.y, y)
    assert folder.y.dtype.kind == y.dtype.kind
    assert (folder.queries is None) == (qid is None)
    if qid is not None:
        np.testing.assert_array_equal(folder.queries, qid)


@pytest.mark.parametrize("ending", COMPRESSORS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_folder_holds_what_the_file_says(tmp_path, ending, dtype):
    content = COMPRESSORS[ending](TEXT)
    path = write(tmp_path / f"data.svm{ending}", content)
    folder = cp.convert(path, tmp_path / "data", query="qid", dtype=dtype)
    require_same(folder, path, queries=True, dtype=dtype)
    source = folder.manifest.source
    assert (source.format, source.name, source.bytes) == ("svmlight", path.name, len(content))
    assert source.sha256 == hashlib.sha256(content).hexdigest()
    assert source.modified_ns == path.stat().st_mtime_ns
    assert folder.manifest.target == "label"
    assert folder.feature_names is None
    assert folder.weights is None
    assert len(folder) == 4
    headers = 128 * len(folder.manifest.arrays)
    files = [file.stat().st_size for file in folder.path.glob("*.npy")]
    assert folder.n_bytes == sum(files) - headers


ENTRIES = st.dictionaries(
    st.integers(1, 60), st.floats(allow_nan=False, allow_infinity=False), max_size=5
)


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(st.tuples(st.floats(-5, 5), ENTRIES), min_size=1, max_size=8))
def test_any_rows(tmp_path_factory, rows):
    rows[0][1][1] = 2.5  # one row has a feature
    place = tmp_path_factory.mktemp("rows")
    lines = [
        " ".join([repr(y), *(f"{i}:{v!r}" for i, v in sorted(entries.items()))])
        for y, entries in rows
    ]
    path = write(place / "data", "\n".join(lines).encode())
    require_same(cp.convert(path, place / "folder"), path)


@pytest.fixture(scope="module")
def long_text():
    """Rows of more than one block, which do not compress much."""
    rng = np.random.default_rng(0)
    columns = np.sort(rng.integers(0, 50, (12_000, 30)), axis=1) * 40 + np.arange(1, 31)
    values = rng.standard_normal((12_000, 30)).astype(np.float32)
    return b"".join(
        b"%d %b\n" % (k % 2, b" ".join(b"%d:%.6g" % e for e in zip(*row, strict=True)))
        for k, row in enumerate(zip(columns.tolist(), values.tolist(), strict=True))
    )


def test_many_pieces(tmp_path, long_text):
    path = write(tmp_path / "data.svm", long_text)
    told = []
    folder = cp.convert(path, tmp_path / "d", on_progress=lambda *n: told.append(n))
    require_same(folder, path)
    assert told[-1] == (len(long_text), len(long_text))
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    bounds = folder.manifest.block_bounds
    assert bounds == [0, 6000, 12_000]  # halves of halves of all rows


def test_fits_have_the_bits_of_those_in_memory(tmp_path, long_text):
    path = write(tmp_path / "data.svm", long_text)
    folder = cp.convert(path, tmp_path / "d")
    rows = as_rows(folder.X)
    for name in ("data", "indices", "indptr"):
        mapped = getattr(folder.X, name)
        # Where rows begin is copied: a file that changes must not lead compiled code astray.
        shared = any(np.shares_memory(mapped, part) for part in rows.entries())
        assert shared == (name != "indptr")
        assert not mapped.flags.writeable
    X, y, _ = read_svmlight(path)
    on_disk = cp.LinearClassifier(lam=1e-3).fit(folder.X, folder.y)
    in_memory = cp.LinearClassifier(lam=1e-3).fit(X, y)
    assert on_disk.method_ == in_memory.method_
    np.testing.assert_array_equal(on_disk.coef_, in_memory.coef_)
    np.testing.assert_array_equal(
        on_disk.decision_function(folder.X), in_memory.decision_function(X)
    )


def test_memory_does_not_depend_on_the_size(tmp_path, long_text, monkeypatch):
    monkeypatch.setattr(svmlight.Sizes, "CHUNK", 2**16)
    monkeypatch.setattr(svmlight.Sizes, "CHUNKS_AT_ONCE", 4)
    peaks = []
    for times in (1, 1, 5):  # the first imports and compiles
        path = write(tmp_path / f"{times}.svm", long_text * times)
        tracemalloc.start()
        with thread_limit(1):  # else it depends on how many pieces are read at the same moment
            folder = cp.convert(path, tmp_path / "d", force=True)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert folder.n_bytes > 4 * 12_000 * 30 * 12
    # Four fifths of the bytes are more than the shorter file has.
    assert peaks[2] - peaks[1] < 0.8 * folder.n_bytes / 20
    assert peaks[2] < folder.n_bytes / 4


def test_standard_input(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(TEXT)))
    told = []
    folder = cp.convert("-", tmp_path / "d", on_progress=lambda *n: told.append(n))
    assert folder.y.tolist() == ["spam", "ham", "spam", "ham"]
    assert told == [(len(TEXT), None)]
    assert folder.manifest.source.name is None
    assert folder.manifest.source.sha256 == hashlib.sha256(TEXT).hexdigest()


def test_a_number_of_features(tmp_path):
    path = write(tmp_path / "data", TEXT)
    assert cp.convert(path, tmp_path / "9", n_features=9).shape == (4, 9)
    with pytest.raises(InputError, match=r"data:1: feature index 4 is beyond the 3 features"):
        cp.convert(path, tmp_path / "3", n_features=3)
    with pytest.raises(InputError, match="at least 1, not 0"):
        cp.convert(path, tmp_path / "0", n_features=0)


def test_indices_are_wide_where_entries_are_many(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "LARGEST_INT32", 3)
    folder = cp.convert(write(tmp_path / "data", TEXT), tmp_path / "d")
    types = {name: folder.manifest.arrays[name].dtype for name in ("indices", "indptr")}
    assert types == {"indices": "<i8", "indptr": "<i8"}
    assert folder.X.toarray().tolist() == [[0.5, 0, 0, -2], [0, 1e-3, 0, 0], [0] * 4, [0, 0, 0, 7]]
    cp.open_folder(tmp_path / "d", check=True)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (b"", {}, "data: no data in it"),
        (b"# nothing\n", {}, "data: no data in it"),
        (b"1\n2\n", {}, "data: no row has a feature"),
        (b"1 1:1\n1 1:x\n", {}, "data:2: value 'x' of feature 1 is not a number"),
        (b"1 1:1\nspam 1:1\n", {}, "data:2: label 'spam' after '1' in line 1"),
        (b"1 1:1\n", {"query": "qid"}, "data: no line has a query"),
        (b"1 1:1\n\n2 1:2 5:1e39\n", {"dtype": "float32"}, "data: row 2: 1e+39 is too large for"),
        (TEXT, {"query": "id"}, "queries of svmlight files are 'qid', not 'id'"),
        (TEXT, {"target": "y"}, "svmlight files have no column 'y'"),
        (TEXT, {"drop": ["id"]}, "svmlight files have no column 'id'"),
        (TEXT, {"drop": "id"}, "drop must be a list of columns, not the text 'id'"),
        (TEXT, {"dtype": "int64"}, "dtype must be float32 or float64, not int64"),
        (TEXT, {"format": "svm"}, "unknown format 'svm'; choose from svmlight, csv"),
        (gzip.compress(TEXT, mtime=0)[:-3], {}, "data: damaged gzip file"),
    ],
)  # fmt: skip
def test_refused_in_one_line(tmp_path, text, options, message):
    path = write(tmp_path / "data", text)
    with pytest.raises(InputError) as caught:
        cp.convert(path, tmp_path / "d", **options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert [*tmp_path.iterdir()] == [path]


def test_too_many_words(tmp_path, monkeypatch):
    monkeypatch.setattr(folders.FolderWriter, "MOST_LABELS", 1)
    with pytest.raises(InputError, match="more than 1 different words as labels"):
        cp.convert(write(tmp_path / "data", TEXT), tmp_path / "d")


def test_a_source_that_is_none(tmp_path):
    with pytest.raises(InputError, match="a list is neither the name of a file nor a table"):
        cp.convert([1, 2], tmp_path / "d")
    with pytest.raises(InputError, match="missing: cannot read: no such file or directory"):
        cp.convert(tmp_path / "missing", tmp_path / "d")
    assert [*tmp_path.iterdir()] == []


def test_a_source_that_changes_meanwhile(tmp_path):
    path = write(tmp_path / "data", TEXT)
    with pytest.raises(InputError, match="data: changed while it was read"):
        cp.convert(path, tmp_path / "d", on_progress=lambda *_: path.write_bytes(TEXT * 2))
    assert [*tmp_path.iterdir()] == [path]
