"""A data frame made of a file is the file: the same bits, whatever types its columns have."""

import io

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from cutplane.cli.app import app
from cutplane.io import InputError, load_model, save_model
from cutplane.io.tables import MISSING, read_table

# Columns by what stands in their cells, and those of them that are words by `--text`.
COLUMNS = {
    "flag": ["True", "False"],
    "lower": ["true", "false"],
    "upper": ["TRUE", "FALSE"],
    "flag_gap": ["true", "false", ""],
    "word": ["red", "green", "blue"],
    "word_gap": ["red", "green", "", "NA", "?"],
    "code": ["1", "2", "30"],
    "code_gap": ["1", "2", "30", ""],
    "padded": ["007", "011", "3"],
    "fraction": ["1.50", "2.0", "3"],
    "mixed": ["1", "two", "three"],
    "whole": ["1", "2", "-3"],
    "number": ["0.1", "2.5", "-1e-3", "7"],
    "number_gap": ["0.1", "2.5", "", "-4"],
    "zero_one": ["0", "1"],
    "large": ["9007199254740993", "12345678901234567890", "1"],
    "empty": [""],
}
ROWS = 60
AS_TEXT = ["code", "code_gap", "padded", "fraction"]
# pandas 3.1 rounds right by itself, and warns if it is told to.
EXACT = {} if pd.__version__ >= "3.1" else {"float_precision": "round_trip"}


def read(text, **options):
    return pd.read_csv(io.StringIO(text), **EXACT, **options)


def nullable(text):
    return read(text, dtype_backend="numpy_nullable")


def with_arrow(text):
    return read(text, dtype_backend="pyarrow")


def with_bools(text):
    """Truth values where a file has 0 and 1."""
    return read(text).assign(zero_one=lambda frame: frame["zero_one"].astype(bool))


FRAMES = {
    "as read": read,
    "text": lambda text: read(text, dtype=str),
    "text, nothing missing": lambda text: read(text, dtype=str, keep_default_na=False),
    "objects": lambda text: read(text).astype(object),
    "text as objects": lambda text: read(text, dtype=str).astype(object),
    "categories": lambda text: read(text).astype("category"),
    "categories of text": lambda text: read(text, dtype=str).astype("category"),
    "nullable": nullable,
    "nullable as objects": lambda text: nullable(text).astype(object),
    "nullable categories": lambda text: nullable(text).astype("category"),
    "strings of pandas": lambda text: read(text, dtype="string"),
    "Arrow": with_arrow,
    "Arrow as objects": lambda text: with_arrow(text).astype(object),
    "Arrow categories": lambda text: with_arrow(text).astype("category"),
    "converted": lambda text: read(text).convert_dtypes(),
    "truth values": with_bools,
    "in another order": lambda text: read(text).iloc[:, ::-1],
    "with other rows' names": lambda text: read(text).set_index(pd.Index(range(100, 100 + ROWS))),
}


def table_of(seed):
    """Return a table as text, whose column y can be predicted."""
    rng = np.random.default_rng(seed)
    cells = {name: rng.choice(words, ROWS) for name, words in COLUMNS.items()}
    cells["y"] = np.where(rng.random(ROWS) < 0.4 + 0.3 * (cells["word"] == "red"), "yes", "no")
    return pd.DataFrame(cells).to_csv(index=False)


def run(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def probabilities(model, path):
    lines = run("predict", model, path, "--probabilities", "--quiet").splitlines()
    return np.array([[float(number) for number in line.split()] for line in lines])


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("frames")
    (folder / "train.csv").write_text(table_of(0))
    text = [option for name in AS_TEXT for option in ("--text", name)]
    fit = ["fit", folder / "train.csv", "--target", "y", *text, "--loss", "logistic", "--quiet"]
    run(*fit, "--rare", 2, "--lam", 0.001, "--out", folder / "model")
    return folder / "model"


@pytest.mark.parametrize("how", FRAMES)
def test_frames_of_every_type(model, tmp_path, how):
    for seed in range(3):
        text = table_of(seed)
        (tmp_path / "new.csv").write_text(text)
        expected = probabilities(model, tmp_path / "new.csv")
        assert len(np.unique(expected)) > 20
        found = load_model(model).predict_proba(FRAMES[how](text))
        np.testing.assert_array_equal(found, expected)


@settings(max_examples=20)
@given(data=st.data())
def test_columns_of_any_types_side_by_side(model, tmp_path_factory, data):
    text = table_of(data.draw(st.integers(0, 1000)))
    path = tmp_path_factory.mktemp("any") / "new.csv"
    path.write_text(text)
    frames = {how: FRAMES[how](text).reset_index(drop=True) for how in FRAMES}
    frame = pd.DataFrame(
        {name: frames[data.draw(st.sampled_from(sorted(frames)), name)][name] for name in COLUMNS}
    )
    found = load_model(model).predict_proba(frame)
    np.testing.assert_array_equal(found, probabilities(model, path))


def test_a_model_that_was_loaded_and_saved_takes_frames_too(model, tmp_path):
    save_model(load_model(model), tmp_path / "again")
    text = table_of(5)
    (tmp_path / "new.csv").write_text(text)
    expected = probabilities(model, tmp_path / "new.csv")
    np.testing.assert_array_equal(probabilities(tmp_path / "again", tmp_path / "new.csv"), expected)
    found = load_model(tmp_path / "again").predict_proba(nullable(text))
    np.testing.assert_array_equal(found, expected)


def test_frames_of_polars(model, tmp_path):
    polars = pytest.importorskip("polars")
    text = table_of(3)
    (tmp_path / "new.csv").write_text(text)
    frame = polars.read_csv(io.StringIO(text), null_values=["", "NA", "?"])
    found = load_model(model).predict_proba(frame)
    np.testing.assert_array_equal(found, probabilities(model, tmp_path / "new.csv"))


def test_what_is_missing_in_a_file_is_missing_in_a_frame(tmp_path):
    words = sorted(MISSING - {""})
    (tmp_path / "words.csv").write_text("\n".join(["a,b", *(f"{word},1" for word in words)]))
    frame = read_table(tmp_path / "words.csv").frame
    assert frame["a"].isna().all()
    assert len(frame) == len(words)


@pytest.mark.parametrize(
    ("column", "cell", "said"),
    [
        ("number", "many", "'many' is none"),
        ("number", np.inf, "not finite"),
        ("word", pd.Timestamp("2026-01-01"), "cells of type Timestamp"),
        ("word", [1], "cells of type list"),
    ],
)
def test_cells_that_no_file_would_have(model, column, cell, said):
    frame = read(table_of(1))
    frame[column] = pd.Series([cell] * ROWS, dtype=object if column == "word" else None)
    with pytest.raises(InputError, match=said) as caught:
        load_model(model).predict_proba(frame)
    assert "\n" not in str(caught.value)
    assert repr(column) in str(caught.value)


def test_a_column_that_is_not_there(model):
    with pytest.raises(ValueError, match="word"):
        load_model(model).predict_proba(read(table_of(1)).drop(columns="word"))
