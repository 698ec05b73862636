"""Pipelines in model files: the same state and the same bits come back, and nothing else does."""

import json
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load, save
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
)

import cutplane as cp
from cutplane.io import InputError
from cutplane.io.models.files import Content

pd = pytest.importorskip("pandas")
N = 60


def people(seed=0):
    """Return a table of numbers, words, truth values and gaps, and two classes."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "age": rng.normal(40.0, 10.0, N),
            "hours": rng.normal(size=N),
            "job": rng.choice(["cook", "nurse", "pilot", "tailor"], N, p=[0.6, 0.3, 0.05, 0.05]),
            "town": rng.choice(["Rome", None, "Oslo"], N),
            "member": rng.random(N) < 0.5,
        }
    )
    table.loc[::7, "age"] = np.nan
    y = np.where(table["hours"] + (table["job"] == "cook") > 0.5, "yes", "no")
    return table, y


def fitted(*steps, X=None, y=None):
    table, labels = people()
    model = cp.LinearClassifier("logistic", lam=0.01)
    return make_pipeline(*steps, model).fit(table if X is None else X, labels if y is None else y)


def through_a_file(pipeline, folder):
    path = folder / "pipeline.model"
    cp.save_model(pipeline, path)
    return cp.load_model(path)


def assert_same_state(a, b):
    """Compare all that two fitted transformers know, whatever scikit-learn calls it."""
    a, b = (each.item() if isinstance(each, np.generic) else each for each in (a, b))
    assert type(a) is type(b)
    if hasattr(a, "get_params"):
        assert set(vars(a)) == set(vars(b))
        for name in set(vars(a)) - {"transformers", "remainder"}:  # not fitted, fitted
            assert_same_state(vars(a)[name], vars(b)[name])
    elif isinstance(a, list | tuple):
        assert len(a) == len(b)
        for each, other in zip(a, b, strict=True):
            assert_same_state(each, other)
    elif isinstance(a, dict):
        assert a.keys() == b.keys()
        for name in a:
            assert_same_state(a[name], b[name])
    elif isinstance(a, np.ndarray):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert_same_state(a.tolist(), b.tolist())
    else:
        assert a == b or (a != a and b != b)


NUMBERS = ["age", "hours"]
WORDS = ["job", "town"]
FILLED = SimpleImputer(strategy="median")
PREPARATIONS = {
    "standard": [("numbers", make_pipeline(FILLED, StandardScaler()), NUMBERS)],
    "standard without mean": [
        ("numbers", make_pipeline(FILLED, StandardScaler(with_mean=False)), NUMBERS)
    ],
    "robust": [("numbers", make_pipeline(FILLED, RobustScaler()), NUMBERS)],
    "min max": [("numbers", make_pipeline(FILLED, MinMaxScaler((-1, 1), clip=True)), NUMBERS)],
    "max abs": [("numbers", make_pipeline(FILLED, MaxAbsScaler()), NUMBERS)],
    "normalized": [("numbers", make_pipeline(FILLED, Normalizer()), NUMBERS)],
    "indicator": [("numbers", SimpleImputer(add_indicator=True), NUMBERS)],
    "constant": [("numbers", SimpleImputer(strategy="constant", fill_value=-1.0), NUMBERS)],
    "one-hot": [("words", OneHotEncoder(handle_unknown="ignore"), WORDS)],
    "rare": [
        ("words", OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=9), WORDS)
    ],
    "few": [("words", OneHotEncoder(max_categories=2, sparse_output=False), WORDS)],
    "without first": [("words", OneHotEncoder(drop="first", dtype=np.float32), WORDS)],
    "without one of two": [("words", OneHotEncoder(drop="if_binary"), ["town", "member"])],
    "without named": [("words", OneHotEncoder(drop=["cook", "Oslo"]), WORDS)],
    "ordinal": [
        (
            "words",
            OrdinalEncoder(
                handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-2
            ),
            ["job", "member"],
        )
    ],
    "most frequent": [
        (
            "words",
            make_pipeline(
                SimpleImputer(strategy="most_frequent", missing_values=None), OneHotEncoder()
            ),
            ["town"],
        )
    ],
    "passed on": [("as is", "passthrough", ["hours", "member"]), ("not", "drop", WORDS)],
    "none of it": [("nothing", StandardScaler(), []), ("as is", "passthrough", ["hours"])],
}


@pytest.mark.parametrize("parts", PREPARATIONS.values(), ids=PREPARATIONS)
def test_state_and_predictions_come_back_to_the_last_bit(tmp_path, parts):
    table, _ = people()
    if parts[0][0] == "words" and isinstance(parts[0][1], Pipeline):
        table["town"] = table["town"].astype(object).where(table["town"].notna(), None)
    pipeline = fitted(ColumnTransformer(parts), X=table)
    loaded = through_a_file(pipeline, tmp_path)
    if "nothing" not in [name for name, *_ in parts]:  # a transformer of nothing is not fitted
        assert_same_state(pipeline[0], loaded[0])
    np.testing.assert_array_equal(loaded.predict_proba(table), pipeline.predict_proba(table))
    shuffled = table[table.columns[::-1]].assign(more=1.0)
    np.testing.assert_array_equal(loaded.predict(shuffled), pipeline.predict(table))
    assert loaded[-1].certificate_ == pipeline[-1].certificate_
    assert list(loaded.named_steps) == list(pipeline.named_steps)


def test_arrays_and_a_remainder(tmp_path):
    X = people()[0][["hours", "age", "hours"]].fillna(0.0).to_numpy()
    columns = ColumnTransformer(
        [("a", StandardScaler(), [0]), ("b", MinMaxScaler(), np.array([False, True, False]))],
        remainder=RobustScaler(),
        transformer_weights={"a": 2.0},
    )
    pipeline = fitted(columns, FunctionTransformer(), "passthrough", X=X)
    pipeline[0].n_jobs = 2
    loaded = through_a_file(pipeline, tmp_path)
    np.testing.assert_array_equal(loaded.decision_function(X), pipeline.decision_function(X))
    assert loaded[0].n_jobs is None  # a file does not start threads


def test_columns_that_a_function_chose_and_names_that_go_through(tmp_path):
    table, y = people()
    columns = ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), NUMBERS),
            ("words", OneHotEncoder(sparse_output=False), make_column_selector(pattern="job")),
        ]
    )
    pipeline = make_pipeline(columns, cp.LinearClassifier(lam=0.1)).set_output(transform="pandas")
    pipeline.fit(table, y)
    loaded = through_a_file(pipeline, tmp_path)
    np.testing.assert_array_equal(
        loaded[-1].feature_names_in_, pipeline[:-1].get_feature_names_out()
    )
    np.testing.assert_array_equal(loaded.predict(table), pipeline.predict(table))


def test_sparse_rows_in_float32(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 5)).astype(np.float32)
    pipeline = make_pipeline(RobustScaler(), cp.LinearRegressor(lam=0.1)).fit(X, X[:, 0])
    loaded = through_a_file(pipeline, tmp_path)
    assert_same_state(pipeline[0], loaded[0])
    np.testing.assert_array_equal(loaded.predict(X), pipeline.predict(X))


def test_a_loaded_pipeline_can_be_fitted_again(tmp_path):
    table, y = people()
    pipeline = fitted(ColumnTransformer(PREPARATIONS["rare"]))
    again = through_a_file(pipeline, tmp_path).fit(table, y)
    np.testing.assert_array_equal(again.predict_proba(table), pipeline.predict_proba(table))


LEVELS = st.lists(
    st.one_of(st.text(max_size=3), st.none(), st.just(float("nan"))), min_size=1, max_size=25
)


@given(
    LEVELS,
    st.sampled_from([None, 2, 0.2]),
    st.sampled_from([None, 1, 3]),
    st.sampled_from([None, "first", "if_binary"]),
)
def test_any_levels_come_back(tmp_path_factory, levels, min_frequency, max_categories, drop):
    # pandas' words, in which all gaps are the same, and Python's objects, in which they are not.
    for kind in ("str", object):
        X = pd.DataFrame({"level": pd.Series(levels, dtype=kind), "x": np.arange(len(levels))})
        encoder = OneHotEncoder(
            handle_unknown="infrequent_if_exist" if drop is None else "error",
            min_frequency=min_frequency,
            max_categories=max_categories,
            drop=drop,
        )
        columns = ColumnTransformer([("level", encoder, ["level"]), ("x", "passthrough", ["x"])])
        pipeline = make_pipeline(columns, cp.LinearRegressor(lam=0.1))
        pipeline.fit(X, np.arange(len(levels)) % 3)
        loaded = through_a_file(pipeline, tmp_path_factory.getbasetemp())
        assert_same_state(pipeline[0], loaded[0])
        np.testing.assert_array_equal(loaded.predict(X), pipeline.predict(X))


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ((PCA(2),), "cannot save a PCA in a pipeline"),
        ((FunctionTransformer(np.sin),), "cannot save a FunctionTransformer with func="),
        ((OrdinalEncoder(min_frequency=2),), "OrdinalEncoder that groups rare levels"),
        ((ColumnTransformer([("a", StandardScaler(), slice(0, 1))]),), "as a slice"),
    ],
)
def test_what_cannot_be_kept_is_named(tmp_path, steps, said):
    X = people()[0][["hours", "age"]].fillna(0.0).round().to_numpy()
    with pytest.raises(TypeError, match=said):
        cp.save_model(fitted(*steps, X=X), tmp_path / "pipeline.model")
    assert not (tmp_path / "pipeline.model").exists()


def test_another_model_at_the_end(tmp_path):
    from sklearn.linear_model import Ridge

    X = np.arange(6.0)[:, None]
    pipeline = make_pipeline(StandardScaler(), Ridge()).fit(X, X[:, 0])
    with pytest.raises(TypeError, match="cannot save a Ridge; only LinearClassifier"):
        cp.save_model(pipeline, tmp_path / "pipeline.model")


@pytest.fixture
def path(tmp_path):
    parts = [*PREPARATIONS["standard"], *PREPARATIONS["rare"]]
    cp.save_model(fitted(ColumnTransformer(parts)), tmp_path / "pipeline.model")
    return tmp_path / "pipeline.model"


def content_of(path):
    raw = path.read_bytes()
    header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
    return json.loads(header["__metadata__"]["cutplane"])["model"], dict(load(raw))


def write(path, model, tensors):
    content = {"model": model, "sha256": Content(model, tensors).digest()}
    path.write_bytes(save(tensors, metadata={"cutplane": json.dumps(content)}))


def refused(path):
    with pytest.raises(InputError) as caught:
        cp.load_model(path)
    assert "\n" not in str(caught.value)
    return str(caught.value).partition("not a usable cutplane model: ")[2]


def columns_of(model):
    return model["preparation"]["steps"][0]["transformer"]


def set_entry(*keys, value):
    def change(model):
        entry = columns_of(model)
        for key in keys[:-1]:
            entry = entry[key]
        entry[keys[-1]] = value

    return change


SCALER = ("parts", 0, "transformer", "parts", 1, "transformer")
ENCODER = ("parts", 1, "transformer")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (set_entry("kind", value="FunctionTransformer"), "FunctionTransformer"),
        (set_entry("kind", value="os.system"), "unknown transformer 'os.system'"),
        (set_entry(*SCALER, "kind", value="Normalizer"), "Normalizer"),
        (set_entry(*SCALER, "parameters", "with_mean", value="evil"), "with_mean"),
        (set_entry(*SCALER, "parameters", "unheard", value=1), "unheard"),
        (set_entry(*SCALER, "parameters", "copy", value={"func": 1}), "no plain value"),
        (set_entry(*SCALER, "n_features", value=3), "3"),
        (set_entry(*ENCODER, "levels", value=[]), "levels are not there"),
        (set_entry(*ENCODER, "levels", 0, "values", value=["a"]), "places of rare levels"),
        (set_entry(*ENCODER, "levels", 0, "dtype", value="float64"), "not of type float64"),
        (set_entry(*ENCODER, "rare", value=[None]), "rare levels are not there"),
        (set_entry(*ENCODER, "rare", value=[[0, 0], None]), "places of rare levels"),
        (set_entry(*ENCODER, "rare", value=[[77], None]), "places of rare levels"),
        (set_entry(*ENCODER, "rare", value=[None, None]), "features for a model of"),
        (set_entry("parts", 0, "columns", value=["age"]), "1 features for"),
        (set_entry("parts", 0, "columns", value=["age", "shoe"]), "no column has the name 'shoe'"),
        (set_entry("parts", 0, "columns", value=[0, 99]), "out of range"),
        (set_entry("parts", 0, "name", value="words"), "same name"),
        (set_entry("parts", value=[]), "without columns"),
        (set_entry("feature_names", value=["age"]), "1 names for 5 features"),
        (set_entry("more", value=1), "unknown field"),
        (lambda model: model.update(format=1), "format 1"),
        (lambda model: model["preparation"].update(model="columntransformer"), "same name"),
        (lambda model: model["preparation"].update(steps=[]), "belongs to nothing"),
    ],
)
def test_every_entry_is_checked(path, change, said):
    model, tensors = content_of(path)
    change(model)
    write(path, model, tensors)
    assert said in refused(path)


def test_every_tensor_is_checked(path):
    model, tensors = content_of(path)
    (mean,) = [name for name in tensors if name.endswith("/mean_")]
    for value, said in [
        (np.zeros(3), "no vector of 2 numbers"),
        (np.array([0.0, np.nan]), "no vector of 2 numbers"),
        (np.zeros(2, dtype=np.int64), "no vector of 2 numbers"),
    ]:
        write(path, model, tensors | {mean: value})
        assert said in refused(path)
    write(path, model, tensors | {"preparation/shoe": np.zeros(2)})
    assert "belongs to nothing" in refused(path)
    (fills,) = [name for name in tensors if name.endswith("/statistics_")]
    write(path, model, {name: each for name, each in tensors.items() if name != fills})
    assert "what fills gaps are no numbers" in refused(path)


def test_an_old_reader_does_not_take_it_for_a_model_alone(path):
    model, _ = content_of(path)
    assert model["format"] == 2


@pytest.mark.parametrize("depth", [100, 300, 5000])
def test_nesting_without_end(path, depth):
    model, tensors = content_of(path)
    columns_of(model)["parts"][0]["transformer"] = "HERE"
    step = '{"kind": "Pipeline", "parameters": {}, "parts": [{"name": "a", "transformer": '
    nested = step * depth + '"passthrough"' + "}]}" * depth
    text = json.dumps({"model": model, "sha256": "0" * 64}).replace('"HERE"', nested)
    if depth < 1000:  # with the right digest, as far as Python can compute it
        changed = json.loads(text)["model"]
        text = json.dumps({"model": changed, "sha256": Content(changed, tensors).digest()})
    path.write_bytes(save(tensors, metadata={"cutplane": text}))
    assert refused(path)


@given(st.integers(0, 2**32))
def test_changes_at_random_are_refused_or_harmless(tmp_path_factory, seed):
    """Whatever stands in the file, loading it ends with a model or with one line."""
    folder = tmp_path_factory.getbasetemp()
    path = folder / "fuzzed.model"
    parts = [*PREPARATIONS["standard"], *PREPARATIONS["rare"]]
    if not (folder / "whole.model").exists():
        cp.save_model(fitted(ColumnTransformer(parts)), folder / "whole.model")
    model, tensors = content_of(folder / "whole.model")
    rng = random.Random(seed)
    place, key = model["preparation"], "steps"
    while isinstance(place[key], dict | list) and place[key] and rng.random() < 0.9:
        place = place[key]
        key = rng.choice(list(place)) if isinstance(place, dict) else rng.randrange(len(place))
    place[key] = rng.choice([None, -1, 10**30, 0.5, "cook", [], [1], {}, {"nan": True}, True])
    write(path, model, tensors)
    said = ""
    try:
        cp.load_model(path)
    except InputError as error:
        said = str(error)
    assert "\n" not in said
