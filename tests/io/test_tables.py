"""Tables: cells mean what they say, and what is wrong with a file is said with its line."""

import gzip
import io
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutplane.io import InputError
from cutplane.io.tables import Kind, looks_like_a_table, read_table

pd = pytest.importorskip("pandas")


def table_of(text, folder, name="table.csv", **how):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_table(path, **how)


def refused(text, folder, **how):
    with pytest.raises(InputError) as caught:
        table_of(text, folder, **how)
    said = str(caught.value)
    assert "\n" not in said
    return said.replace(str(folder / "table.csv"), "FILE")


@pytest.mark.parametrize("separator", [",", "\t", ";", "|"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_separators(tmp_path, separator, newline):
    lines = ["age,job", "31,cook", '40,"nurse"', "", "52, pilot"]
    text = newline.join(lines).replace(",", separator) + newline
    table = table_of(text, tmp_path)
    assert table.frame["age"].tolist() == [31.0, 40.0, 52.0]
    assert table.frame["job"].tolist() == ["cook", "nurse", "pilot"]
    assert table.kinds == {"age": Kind.NUMBERS, "job": Kind.WORDS}
    assert table.lines.tolist() == [2, 3, 5]


def test_compressed_with_a_byte_order_mark_and_a_quoted_line_break(tmp_path):
    text = '\ufeffage,"first, last"\n31,"A,\nB"\n32,C\n'
    table = table_of(gzip.compress(text.encode()), tmp_path, "people.csv.gz")
    assert table.columns == ["age", "first, last"]
    assert table.frame["first, last"].tolist() == ["A,\nB", "C"]
    assert table.lines.tolist() == [2, 4]


def test_what_is_missing(tmp_path):
    table = table_of("a,b\n1,x\n,\n?,?\nNA,null\n5,y\n", tmp_path)
    assert table.frame["a"].isna().tolist() == [False, True, True, True, False]
    assert table.frame["b"].isna().tolist() == [False, True, True, True, False]


def test_truth_values_are_words_as_they_stand(tmp_path):
    table = table_of("a,b,c\ntrue,True,1\nfalse,,2\n", tmp_path)
    assert table.frame["a"].tolist() == ["true", "false"]
    assert table.frame["b"].tolist()[0] == "True"
    assert math.isnan(table.frame["b"].tolist()[1])


def test_columns_by_number_without_a_header(tmp_path):
    table = table_of("31,cook,7\n32,nurse,8\n", tmp_path, header=False, raw=["3"], words=["1"])
    assert table.columns == ["1", "2", "3"]
    assert table.frame["1"].tolist() == ["31", "32"]
    assert table.raw["3"].tolist() == ["7", "8"]


def test_a_number_means_a_column_unless_one_has_that_name(tmp_path):
    assert list(table_of("a,b\n1,2\n", tmp_path, raw=["2"]).raw) == ["b"]
    assert list(table_of("2,b\n1,2\n", tmp_path, raw=["2"]).raw) == ["2"]


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_numbers_come_to_the_last_bit(tmp_path_factory, numbers):
    text = "x,y\n" + "".join(f"{number!r},w\n" for number in numbers)
    table = table_of(text, tmp_path_factory.getbasetemp())
    assert table.frame["x"].tolist() == numbers


WORD = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=5)


@given(st.lists(st.tuples(WORD, WORD), min_size=1, max_size=10), st.sampled_from(",\t;"))
def test_words_come_as_they_were_written(tmp_path_factory, rows, separator):
    made = pd.DataFrame(rows, columns=["first", "second"])
    text = made.to_csv(index=False, sep=separator, quoting=1, lineterminator="\n")
    how = {"words": ["first", "second"]}
    table = table_of(text, tmp_path_factory.getbasetemp(), **how)
    usual = pd.read_csv(io.StringIO(text), sep=separator, dtype=str, na_values=["?"])
    for column in ("first", "second"):
        assert table.frame[column].isna().tolist() == usual[column].isna().tolist()
        pairs = zip(table.frame[column], usual[column], strict=True)
        assert all(found == cell for found, cell in pairs if isinstance(cell, str))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "FILE: no data in the file"),
        ("a,b\n", "FILE: no data in the file"),
        ("a,b\n1,2\n3\n", "FILE:3: 1 field, the first line has 2"),
        ("a,b\n1,2\n\n3,4,5\n", "FILE:4: 3 fields, the first line has 2"),
        ('a,b\n1,"2\n3,4\n', "FILE:2: unexpected end of data"),
        ("a,a\n1,2\n", "FILE:1: two columns have the name 'a'"),
        (",a\n0,1\n", "FILE:1: column 1 has no name; leave it out by --drop 1"),
        ("1,2\n3,4\n", "FILE:1: the first line has numbers only; give --no-header"),
        (b"a,b\n1,\xff\n", "FILE:2: not UTF-8 text"),
        (b"a,b\n1,\x00\n", "FILE: not a text file"),
        (
            "a,b\n1,x\n2,y\n3,z\nfour,x\n",
            "FILE:5: column 'a' has numbers, and 'four' is none; --te",
        ),
        ("a,b\n1,x\ninf,y\n", "FILE:3: column 'a' has a number that is not finite"),
        ("a,b\n1,x\n1e999,y\n", "FILE:3: column 'a' has a number that is not finite"),
        ("a,b\n2021-03-04,x\n,y\n", "FILE: column 'a' has dates or times (2021-03-04): make numb"),
        ("a,b\n04/03/21,x\n05/03/21,y\n", "FILE: column 'a' has dates or times (04/03/21)"),
        ("a,b\n2021-03-04T10:11,x\n", "FILE: column 'a' has dates or times (2021-03-04T10:11)"),
        ("a,b\n10:30,x\n", "FILE: column 'a' has dates or times (10:30)"),
        ('a;b\n"1,5";x\n"2,5";y\n', "FILE: column 'a' has numbers with a decimal comma (1,5)"),
    ],
)
def test_what_is_refused(tmp_path, text, said):
    assert refused(text, tmp_path).startswith(said)


def test_what_is_refused_can_be_taken_as_words(tmp_path):
    table = table_of("a,b\n1,x\n2,y\n3,z\nfour,x\n", tmp_path, words=["a"])
    assert table.frame["a"].tolist() == ["1", "2", "3", "four"]


def test_columns_that_are_not_there(tmp_path):
    assert refused("a,b\n1,2\n", tmp_path, raw=["c"]) == "FILE: no column 'c'; there are a, b"
    assert refused("a,b\n1,2\n", tmp_path, raw=["3"]) == "FILE: no column '3'; there are a, b"
    said = refused("a,b\n1,2\n", tmp_path, kinds={"c": Kind.NUMBERS})
    assert said == "FILE: no column 'c', which the model was fitted to; there are a, b"
    assert refused("a\n1\n", tmp_path, without=["a"]) == "FILE: no column is left to learn from"


def test_known_kinds(tmp_path):
    kinds = {"b": Kind.NUMBERS, "a": Kind.WORDS}
    table = table_of("a,b,c\n1,2,2021-03-04\n", tmp_path, kinds=kinds)
    assert list(table.frame) == ["b", "a"]
    assert table.frame["a"].tolist() == ["1"]
    said = refused("a,b\n1,2\n1,x\n", tmp_path, kinds=kinds)
    assert said == "FILE:3: column 'b' has numbers, and 'x' is none"
    empty = table_of("a,b\n1,\n", tmp_path, kinds=kinds)
    assert math.isnan(empty.frame["b"][0])


def test_numbers_that_are_too_large_for_whole_numbers(tmp_path):
    table = table_of(f"a,b\n{10**30},x\n1,y\n", tmp_path)
    assert table.frame["a"].tolist() == [1e30, 1.0]


def test_labels(tmp_path):
    table = table_of("a,b,c\n+1,x,1\n-1,y,\n", tmp_path, raw=["a", "b", "c"], kinds={"a": None})
    assert table.labels("a").tolist() == [1.0, -1.0]
    assert table.labels("b").tolist() == ["x", "y"]
    with pytest.raises(InputError, match=r":3: column 'c' is empty here"):
        table.labels("c")
    table = table_of(f"a,b\n1,{'x' * 300}\n", tmp_path, raw=["b"])
    with pytest.raises(InputError, match=r":2: column 'b': label 'xx.* has 300 characters"):
        table.labels("b")


def test_names_of_tables():
    for name in ("a.csv", "a.TSV", "a.parquet", "a.csv.gz", "b/c.tsv.xz"):
        assert looks_like_a_table(name)
    for name in ("-", "a.svm", "csv", "a.csv.svm"):
        assert not looks_like_a_table(name)


def test_parquet(tmp_path):
    pytest.importorskip("pyarrow")
    made = pd.DataFrame(
        {
            "age": [31, 40, 52],
            "pay": [1.5, None, 2.5],
            "job": ["cook", None, "nurse"],
            "town": pd.Categorical(["Rome", "Oslo", "Rome"]),
            "member": [True, False, True],
            "code": [7.0, 8.0, 8.5],
        }
    )
    path = tmp_path / "table.parquet"
    made.to_parquet(path)
    table = read_table(path, words=["code"], raw=["age"])
    assert table.raw["age"].tolist() == ["31", "40", "52"]
    assert table.frame["pay"].isna().tolist() == [False, True, False]
    assert table.frame["job"].isna().tolist() == [False, True, False]
    assert table.frame["town"].tolist() == ["Rome", "Oslo", "Rome"]
    assert table.frame["member"].tolist() == ["True", "False", "True"]
    assert table.frame["code"].tolist() == ["7", "8", "8.5"]
    assert str(table.wrong("a", " is wrong", 2)) == f"{path}, row 3: column 'a' is wrong"
    made["born"] = pd.to_datetime(["2021-03-04"] * 3)
    made.to_parquet(path)
    with pytest.raises(InputError, match="column 'born' has dates or times"):
        read_table(path)
    pd.DataFrame({"a": [[1], [2]]}).to_parquet(path)
    with pytest.raises(InputError, match="column 'a' has cells of type"):
        read_table(path)
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(InputError, match="damaged Parquet file"):
        read_table(path)


def test_parquet_and_csv_say_the_same(tmp_path):
    pytest.importorskip("pyarrow")
    rng = np.random.default_rng(0)
    made = pd.DataFrame({"x": rng.normal(size=50), "k": rng.integers(0, 5, 50)})
    made.loc[3, "x"] = np.nan
    made["w"] = rng.choice(["a", "b"], 50)
    made.to_parquet(tmp_path / "t.parquet")
    made.to_csv(tmp_path / "t.csv", index=False)
    one, other = read_table(tmp_path / "t.parquet"), read_table(tmp_path / "t.csv")
    pd.testing.assert_frame_equal(one.frame, other.frame)
    assert one.kinds == other.kinds
