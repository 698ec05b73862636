"""Tables become folders: CSV, TSV, Parquet, Arrow and data frames give the same numbers."""

import gzip
import lzma
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cutplane as cp
from cutplane.data import as_rows
from cutplane.io import InputError, conversion
from cutplane.io import files as sources

pa = pytest.importorskip("pyarrow", reason="tables are read by pyarrow")
from pyarrow import csv, feather, parquet  # noqa: E402


def table_of(n_rows=50):
    rng = np.random.default_rng(0)
    return pa.table({
        "a": rng.standard_normal(n_rows),
        "b": rng.integers(-9, 9, n_rows),
        "kind": ["good" if k % 3 else "bad" for k in range(n_rows)],
        "flag": rng.random(n_rows) < 0.5,
        "w": rng.random(n_rows),
        "q": np.arange(n_rows) // 4,
        "id": [f"row {k}" for k in range(n_rows)],
    })  # fmt: skip


ROLES = {"target": "kind", "weights": "w", "query": "q", "drop": ["id"]}


def tsv(table, path):
    csv.write_csv(table, path, csv.WriteOptions(delimiter="\t"))


def compressed(compress, write):
    def write_compressed(table, path):
        write(table, path)
        path.write_bytes(compress(path.read_bytes()))

    return write_compressed


def stream(table, path):
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=7)


WRITERS = {
    "t.csv": csv.write_csv,
    "t.tsv": tsv,
    "t.csv.gz": compressed(gzip.compress, csv.write_csv),
    "t.TAB.xz": compressed(lzma.compress, tsv),
    "t.parquet": parquet.write_table,
    "t.pq": lambda table, path: parquet.write_table(table, path, row_group_size=7),
    "t.feather": feather.write_feather,
    "t.arrows": stream,
}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("small_batches", [False, True])
def test_files(tmp_path, monkeypatch, name, small_batches):
    if small_batches:
        monkeypatch.setattr(conversion.Sizes, "BATCH", 20)
        monkeypatch.setattr(conversion.Sizes, "HEAD", 200)
        monkeypatch.setattr(sources.Limits, "PART", 100)
    table = table_of()
    WRITERS[name](table, tmp_path / name)
    told = []
    folder = cp.convert(
        tmp_path / name, tmp_path / "d", on_progress=lambda *n: told.append(n), **ROLES
    )
    require_same(folder, table)
    size = (tmp_path / name).stat().st_size
    assert folder.manifest.source.bytes == size
    if name != "t.arrows":  # a stream does not say how long it is
        assert told[-1] == (size, size)
    cp.open_folder(tmp_path / "d", check=True)


def require_same(folder, table):
    columns = [table[name].to_numpy().astype(float) for name in ("a", "b", "flag")]
    np.testing.assert_array_equal(folder.X, np.transpose(columns))
    assert folder.feature_names == ["a", "b", "flag"]
    assert folder.y.tolist() == table["kind"].to_pylist()
    np.testing.assert_array_equal(folder.weights, table["w"].to_numpy())
    np.testing.assert_array_equal(folder.queries, table["q"].to_numpy())
    names = folder.manifest
    assert (names.target, names.weights, names.queries) == ("kind", "w", "q")


def test_tables_in_memory(tmp_path):
    table = table_of()
    pandas = pytest.importorskip("pandas")
    tables_there = [table, table.to_reader(max_chunksize=7), pandas.DataFrame(table.to_pydict())]
    for k, source in enumerate(tables_there):
        folder = cp.convert(source, tmp_path / f"{k}", **ROLES)
        require_same(folder, table)
        assert folder.manifest.source.format == "arrow stream"
        assert folder.manifest.source.bytes is None


FLOATS = st.floats(allow_nan=False, allow_infinity=False)
KINDS = {
    pa.float64(): FLOATS,
    pa.float32(): st.floats(allow_nan=False, allow_infinity=False, width=32),
    pa.int8(): st.integers(-128, 127),
    pa.uint64(): st.integers(0, 2**53),
    pa.bool_(): st.booleans(),
    pa.decimal128(9, 2): st.integers(-(10**6), 10**6).map(lambda n: Decimal(n) / 100),
}


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_numbers(tmp_path_factory, data):
    n_rows = data.draw(st.integers(1, 6))
    kinds = data.draw(st.lists(st.sampled_from([*KINDS]), min_size=1, max_size=4))
    columns = [data.draw(st.lists(KINDS[k], min_size=n_rows, max_size=n_rows)) for k in kinds]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    table = pa.table(arrays, names=[f"x{j}" for j in range(len(kinds))])
    place = tmp_path_factory.mktemp("table")
    folder = cp.convert(table, place / "d", dtype=np.float64)
    np.testing.assert_array_equal(folder.X, np.transpose([[*map(float, c)] for c in columns]))
    assert folder.y is None


def test_csv_numbers_are_those_of_python(tmp_path):
    rng = np.random.default_rng(0)
    numbers = rng.standard_normal(500) * 10.0 ** rng.integers(-300, 300, 500)
    path = tmp_path / "t.csv"
    path.write_text("x,y\n" + "".join(f"{x!r},{k}\n" for k, x in enumerate(numbers.tolist())))
    folder = cp.convert(path, tmp_path / "d", target="y")
    assert folder.X[:, 0].tolist() == numbers.tolist()


def test_fits_have_the_bits_of_those_in_memory(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30_000, 12)).astype(np.float32)
    y = X[:, 0] + rng.standard_normal(len(X)) > 0
    table = pa.table({f"x{j}": X[:, j] for j in range(12)} | {"y": y})
    parquet.write_table(table, tmp_path / "t.parquet")
    folder = cp.convert(tmp_path / "t.parquet", tmp_path / "d", target="y", dtype="float32")
    assert folder.X.dtype == np.float32
    rows = as_rows(folder.X)
    assert np.shares_memory(rows.X, folder.X)
    assert folder.manifest.block_bounds == rows._score_bounds.tolist()
    on_disk = cp.LinearClassifier(lam=1e-3).fit(folder.X, folder.y)
    in_memory = cp.LinearClassifier(lam=1e-3).fit(X, y.astype(float))
    np.testing.assert_array_equal(on_disk.coef_, in_memory.coef_)


def refusal(source, place, **options):
    with pytest.raises(InputError) as caught:
        cp.convert(source, place / "d", **options)
    message = str(caught.value)
    assert "\n" not in message
    assert not (place / "d").exists()
    return message


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("", {}, "no data in the file"),
        ("a,b\n", {}, "no data in it"),
        ("1.5,2\n3,4\n", {}, "the first line must name the columns; it reads 1.5, 2"),
        ("a,,c\n1,2,3\n", {}, "column 2 has no name in the first line"),
        ("a,a\n1,2\n", {}, "several columns have the name 'a'"),
        ("a,city\n1,Bern\n", {}, "column 'city' holds text, no numbers; leave it out (--drop city"),
        ("a,day\n1,2020-01-01\n", {}, "column 'day' holds date32[day], no numbers"),
        ("a,b\n1,2\n3,\n", {}, "row 2, column 'b': a value is missing"),
        ("a,b\n1,2\nnan,3\n", {}, "row 2, column 'a': a value is missing"),
        ("a,b\n1,2\n-inf,3\n", {}, "row 2, column 'a': -inf is not finite"),
        ("a,b\n1,2\n1,2,3\n", {}, "row 2: Expected 2 columns, got 3: 1,2,3"),
        ("a,b\n1,2\n", {"target": "y"}, "no column 'y'; there are 'a', 'b'"),
        ("a,b\n1,2\n", {"target": "a", "weights": "a"}, "column 'a' is named for two purposes"),
        ("a,b\n1,2\n", {"target": "a", "drop": ["b"]}, "no column is left for the features"),
        ("a,b\n1,2.5\n", {"query": "b"}, "the query 'b' holds double, no whole numbers"),
        ("a,b\n1,x\n", {"weights": "b"}, "column 'b' holds text, no numbers"),
        ("a,b\n1,\n2,x\n", {"target": "b"}, "row 1, column 'b': label '' is empty"),
        ("a,b\n1,2\n", {"n_features": 3}, "a number of features is for svmlight files only"),
        ("a,b\n1,1e300\n", {"dtype": "float32"}, "row 1: 1e+300 is too large for float32"),
    ],
)  # fmt: skip
def test_refused_in_one_line(tmp_path, text, options, message):
    path = tmp_path / "t.csv"
    path.write_text(text)
    assert message in refusal(path, tmp_path, **options)
    assert [*tmp_path.iterdir()] == [path]


def test_text_that_is_not_utf8(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("größe,y\n1,2\n".encode("latin-1"))
    assert refusal(path, tmp_path) == f"{path}:1: not UTF-8 text"
    path.write_bytes("größe,y\n1,2\n".encode("utf-16"))
    assert refusal(path, tmp_path) == f"{path}:1: not UTF-8 text"
    path.write_bytes(b"x,y\n1,a\n1,b\xff\n")
    assert refusal(path, tmp_path, target="y").startswith(f"{path}: ")
    path.write_bytes(b"\xef\xbb\xbfx,y\n1,a\n")
    assert cp.convert(path, tmp_path / "d", target="y").feature_names == ["x"]


def test_types_are_read_off_a_line_at_least(tmp_path, monkeypatch):
    monkeypatch.setattr(conversion.Sizes, "HEAD", 3)
    monkeypatch.setattr(sources.Limits, "PART", 2)
    path = tmp_path / "t.csv"
    path.write_text("first,second,y\n1.5,2,yes\n3,4.5,no\n")
    folder = cp.convert(path, tmp_path / "d", target="y")
    assert folder.X.tolist() == [[1.5, 2.0], [3.0, 4.5]]
    assert folder.y.tolist() == ["yes", "no"]


def test_a_file_without_lines_is_not_read_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(conversion.Sizes, "LONGEST_HEAD", 10**5)
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\r" * 10**6)
    told = []
    with pytest.raises(InputError, match="no two lines in its first 100,000 bytes"):
        cp.convert(path, tmp_path / "d", on_progress=lambda done, _: told.append(done))
    assert told[-1] < 10**6


def test_text_far_behind_numbers_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(conversion.Sizes, "HEAD", 1000)
    monkeypatch.setattr(sources.Limits, "PART", 100)
    path = tmp_path / "t.csv"
    path.write_text("a,b,c\n" + "1,2,3\n" * 999 + "1,2,x\n")
    said = f"{path}: row 1000, column 'c': 'x' is no number, as those at the beginning"
    assert refusal(path, tmp_path, drop=["a"]).startswith(said)
    path.write_text("a,b\n" + "1,2\n" * 999 + "1.5,2\n")
    assert cp.convert(path, tmp_path / "d").X[-1].tolist() == [1.5, 2.0]


@pytest.mark.parametrize("name", ["t.parquet", "t.feather"])
def test_damaged_files(tmp_path, name):
    path = tmp_path / name
    WRITERS[name](table_of(), path)
    path.write_bytes(path.read_bytes()[:-20])
    assert refusal(path, tmp_path, **ROLES).startswith(f"{path}: ")
    path.write_bytes(b"")
    assert refusal(path, tmp_path, **ROLES).startswith(f"{path}: ")
    path.unlink()
    assert refusal(path, tmp_path).endswith("cannot read: no such file or directory")


def test_types_that_are_no_numbers(tmp_path):
    table = table_of().append_column("t", pa.array([0] * 50, pa.timestamp("s")))
    said = "a Table: column 't' holds timestamp[s], no numbers; leave it out (--drop t; drop=['t']"
    assert said in refusal(table, tmp_path, **ROLES)
    said = "a Table: the target 't' holds timestamp[s], no number or word"
    assert refusal(table, tmp_path, target="t", drop=["kind", "id"]) == said
    beyond = pa.table({"x": [1.0], "q": pa.array([2**63], pa.uint64())})
    assert refusal(beyond, tmp_path, query="q").startswith("a Table: column 'q': Integer value")


def test_streams_of_parquet_are_refused(tmp_path):
    said = "standard input: parquet must be a file, not a stream"
    assert refusal("-", tmp_path, format="parquet") == said


def test_without_pyarrow(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    said = "t.csv: tables are read by pyarrow; install it with pip install 'cutplane[parquet]'"
    assert refusal("t.csv", tmp_path) == said
