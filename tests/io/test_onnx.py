"""Exported models say in onnxruntime what they say here."""

import sys
import warnings

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

import cutplane as cp
from cutplane.estimators import ESTIMATORS
from cutplane.io.onnx import is_linear

onnx = pytest.importorskip("onnx", reason="exports need the package onnx")
runtime = pytest.importorskip("onnxruntime", reason="exports are checked with onnxruntime")

X, GRADES = load_iris(return_X_y=True)
WORDS = np.array(["setosa", "versicolor", "virginica"])[GRADES]
TWO = GRADES > 0
SEVERAL = np.column_stack([GRADES == 0, GRADES > 0, X[:, 0] > 6]).astype(int)
QUERIES = np.arange(150) % 15
SEEN = np.where(np.arange(150) % 3 == 0, np.where(TWO, 1, -1), 0)

# Estimators, what they are fitted to, and which other outputs there are.
CASES = {
    "hinge": (cp.LinearClassifier(lam=0.01), TWO, {}),
    "logistic": (cp.LinearClassifier("logistic"), TWO, {}),
    "logistic, words": (cp.LinearClassifier("logistic", lam=0.1), WORDS, {}),
    "exponential": (cp.LinearClassifier("exponential", lam=0.1), GRADES, {}),
    "numbers as classes": (cp.LinearClassifier(), 2.0 * GRADES, {}),
    "first class": (cp.LinearClassifier("f1", pos_label=0, lam=0.01), GRADES == 1, {}),
    "softmax": (cp.LinearClassifier("logistic", multi_class="softmax"), WORDS, {}),
    "crammer-singer": (cp.LinearClassifier(multi_class="crammer_singer"), GRADES, {}),
    "no intercept": (cp.LinearClassifier("logistic", fit_intercept=False), GRADES, {}),
    "cross-validation": (cp.LinearClassifierCV(lams=[0.1, 0.01], cv=2), GRADES, {}),
    "transductive": (cp.TransductiveClassifier(lam=0.01), SEEN, {}),
    "grades": (cp.OrdinalClassifier(), WORDS, {}),
    "probable grades": (cp.OrdinalClassifier("logistic"), GRADES, {}),
    "several labels": (cp.MultilabelClassifier(), SEVERAL, {}),
    "ranked labels": (cp.MultilabelClassifier(multi_label="ranking", lam=0.1), SEVERAL, {}),
    "one label": (cp.MultilabelClassifier(loss="logistic"), WORDS, {}),
    "outliers": (cp.NoveltyDetector(nu=0.2), None, {}),
    "numbers": (cp.LinearRegressor("absolute"), X[:, 3], {}),
    "quantile": (cp.LinearRegressor("quantile", quantile=0.9), X[:, 3], {}),
    "counts": (cp.LinearRegressor("poisson"), GRADES, {}),
    "chosen numbers": (cp.LinearRegressorCV("huber", lams=[0.1, 0.01], cv=2), X[:, 3], {}),
    "quantiles": (cp.LinearQuantiles(quantiles=[0.1, 0.5, 0.9]), X[:, 3], {}),
    "parallel quantiles": (cp.LinearQuantiles(quantiles=[0.2, 0.8], parallel=True), X[:, 3], {}),
    "vectors": (cp.VectorRegressor(), X[:, 2:], {}),
    "vectors of one": (cp.VectorRegressor(), X[:, 3], {}),
    "ranking": (cp.LinearRanker(lam=0.1), GRADES, {"qid": QUERIES}),
}


def test_every_linear_estimator_is_there():
    covered = {type(model) for model, _, _ in CASES.values()}
    assert {of for of in ESTIMATORS.values() if is_linear(of)} <= covered


def fitted(case):
    model, y, options = CASES[case]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # doubts about these labels
        return model.fit(X, y, **options)


def outputs(path, rows):
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {"X": rows}), strict=True))


def assert_same(ours, theirs):
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert theirs.shape == ours.shape
    if ours.dtype.kind == "f":
        np.testing.assert_allclose(theirs, ours, rtol=1e-12, atol=1e-12)
    else:
        np.testing.assert_array_equal(theirs, ours)


def assert_same_outputs(model, path, rows):
    found = outputs(path, rows)
    assert_same(model.predict(rows), found.pop("label" if "label" in found else "prediction"))
    scores = found.pop("scores", None)
    if scores is not None and not hasattr(model, "thresholds_"):
        ours = model.decision_function(rows) if hasattr(model, "decision_function") else None
        assert_same(np.log(model.predict(rows)) if ours is None else ours, scores)
    elif scores is not None:
        assert_same(model.score_samples(rows), scores)
    assert ("probabilities" in found) == hasattr(model, "predict_proba")
    if "probabilities" in found:
        assert_same(model.predict_proba(rows), found.pop("probabilities"))
    assert not found


@pytest.mark.parametrize("case", CASES)
def test_outputs_are_the_same(case, tmp_path):
    model = fitted(case)
    cp.export_onnx(model, tmp_path / "model.onnx")
    rows = np.vstack([X, np.random.default_rng(0).normal(3.0, 3.0, size=(200, 4))])
    assert_same_outputs(model, tmp_path / "model.onnx", rows)
    assert_same_outputs(model, tmp_path / "model.onnx", rows[:1])


@pytest.mark.parametrize(
    "steps",
    [
        [StandardScaler()],
        [StandardScaler(with_mean=False)],
        [StandardScaler(with_std=False)],
        [RobustScaler()],
        [RobustScaler(with_centering=False, with_scaling=False)],
        [MinMaxScaler((-1, 1)), MaxAbsScaler()],
        ["passthrough", SimpleImputer(), StandardScaler()],
        [SimpleImputer(strategy="constant", fill_value=2.5)],
    ],
    ids=str,
)
def test_pipelines(steps, tmp_path):
    rows = X.copy()
    if any(isinstance(step, SimpleImputer) for step in steps):
        rows[::7, 2] = np.nan
    model = make_pipeline(*steps, cp.LinearClassifier("logistic", lam=0.01)).fit(rows, WORDS)
    cp.export_onnx(model, tmp_path / "model.onnx")
    assert_same_outputs(model, tmp_path / "model.onnx", rows)


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ([QuantileTransformer(n_quantiles=10)], "'quantiletransformer' is a QuantileTransformer"),
        ([MinMaxScaler(clip=True)], "'minmaxscaler' clips"),
        ([SimpleImputer(add_indicator=True)], "'simpleimputer' is a SimpleImputer"),
    ],
    ids=str,
)
def test_other_steps_are_refused_by_name(steps, said, tmp_path):
    model = make_pipeline(*steps, cp.LinearRegressor()).fit(X, GRADES)
    with pytest.raises(TypeError, match=said):
        cp.export_onnx(model, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def table(n=150):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    made = pandas.DataFrame(
        {
            "size": X[:n, 0],
            "kind of shop": np.where(X[:n, 1] > 3.9, "rare", np.where(X[:n, 1] > 3, "a", "b")),
            "town": np.where(rng.random(n) < 0.2, None, "Oslo"),
            "constant_0": X[:n, 2],
        }
    )
    made.loc[::9, "size"] = np.nan
    return made


@pytest.mark.parametrize(
    "encoder",
    [
        OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=10),
        OneHotEncoder(handle_unknown="ignore", min_frequency=10),
        OneHotEncoder(handle_unknown="ignore"),
    ],
    ids=str,
)
def test_tables_have_an_input_for_each_column(encoder, tmp_path):
    train, new = table(), table(30).iloc[:, ::-1]
    new.loc[::4, "kind of shop"] = "unheard of"
    columns = make_column_transformer(
        (make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), ["size"]),
        (encoder, ["town", "kind of shop"]),
        ("passthrough", [3]),
    )
    model = make_pipeline(columns, cp.LinearClassifier("logistic", lam=0.01)).fit(train, WORDS)
    cp.export_onnx(model, tmp_path / "model.onnx")
    session = runtime.InferenceSession(
        str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"]
    )
    kinds = {each.name: each.type for each in session.get_inputs()}
    assert kinds == {
        "size": "tensor(double)",
        "kind of shop": "tensor(string)",
        "town": "tensor(string)",
        "constant_0": "tensor(double)",
    }
    feed = {
        name: new[[name]].to_numpy(np.float64)
        if kind == "tensor(double)"
        else new[[name]].fillna("").to_numpy(object)
        for name, kind in kinds.items()
    }
    label, probabilities = session.run(["label", "probabilities"], feed)
    assert label.tolist() == model.predict(new[train.columns]).tolist()
    np.testing.assert_allclose(
        probabilities, model.predict_proba(new[train.columns]), rtol=0, atol=1e-12
    )


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ([(OneHotEncoder(), ["town"])], "drops features or refuses unknown words"),
        ([(OneHotEncoder(drop="first", handle_unknown="ignore"), ["town"])], "drops features"),
        ([(OneHotEncoder(handle_unknown="ignore"), ["size"])], "'size' has the level 4.3"),
        ([(QuantileTransformer(n_quantiles=10), ["size"])], "is a QuantileTransformer"),
        (
            [("passthrough", ["constant_0"]), (OneHotEncoder(handle_unknown="ignore"), [3])],
            "both as numbers and as words",
        ),
    ],
    ids=str,
)
def test_tables_that_cannot_be_exported(parts, said, tmp_path):
    train = table().fillna({"size": 4.4})
    model = make_pipeline(make_column_transformer(*parts), cp.LinearRegressor()).fit(train, X[:, 3])
    with pytest.raises(TypeError, match=said):
        cp.export_onnx(model, tmp_path / "model.onnx")
    nameless = make_pipeline(make_column_transformer(("passthrough", [0])), cp.LinearRegressor())
    with pytest.raises(TypeError, match="columns have names"):
        cp.export_onnx(nameless.fit(X, X[:, 3]), tmp_path / "model.onnx")


def test_what_is_no_fitted_linear_model_is_refused(tmp_path):
    with pytest.raises(NotFittedError):
        cp.export_onnx(cp.LinearClassifier(), tmp_path / "model.onnx")
    tagger = cp.SequenceTagger().fit([[["a"], ["b"]]], [["x", "y"]])
    with pytest.raises(TypeError, match="SequenceTagger cannot be exported to ONNX"):
        cp.export_onnx(tagger, tmp_path / "model.onnx")
    with pytest.raises(TypeError, match="KernelClassifier cannot be exported to ONNX"):
        cp.export_onnx(cp.KernelClassifier().fit(X, TWO), tmp_path / "model.onnx")
    mixed = cp.LinearClassifier().fit(X, np.where(TWO, "a", "b"))
    mixed.classes_ = np.array(["a", 1], dtype=object)
    with pytest.raises(TypeError, match="labels are neither numbers nor words"):
        cp.export_onnx(mixed, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_a_missing_package_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r'pip install "cutplane\[onnx\]"'):
        cp.export_onnx(fitted("hinge"), tmp_path / "model.onnx")


class TestSkl2onnx:
    """Pipelines that skl2onnx converts."""

    @pytest.fixture(autouse=True)
    def registered(self):
        pytest.importorskip("skl2onnx", reason="converters are for skl2onnx")
        cp.io.register_onnx_converters()

    def convert(self, model, inputs, path):
        from skl2onnx import to_onnx

        path.write_bytes(to_onnx(model, initial_types=inputs).SerializeToString())
        return runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])

    @pytest.mark.parametrize("case", ["logistic, words", "logistic", "hinge", "grades", "numbers"])
    def test_estimators(self, case, tmp_path):
        from skl2onnx.common.data_types import DoubleTensorType

        model = fitted(case)
        inputs = [("X", DoubleTensorType([None, 4]))]
        label, *rest = self.convert(model, inputs, tmp_path / "m.onnx").run(None, {"X": X})
        assert_same(model.predict(X).ravel(), label.ravel())
        if case.startswith("logistic"):
            (probabilities,) = rest
            if isinstance(probabilities, list):  # a dictionary for each row
                probabilities = [[row[name] for name in model.classes_] for row in probabilities]
            assert_same(model.predict_proba(X), probabilities)

    def test_text_columns(self, tmp_path):
        pandas = pytest.importorskip("pandas")
        from skl2onnx.common.data_types import DoubleTensorType, StringTensorType

        table = pandas.DataFrame({"size": X[:, 0], "kind": np.where(X[:, 1] > 3, "a", "b")})
        columns = make_column_transformer(
            (StandardScaler(), ["size"]), (OneHotEncoder(handle_unknown="ignore"), ["kind"])
        )
        model = make_pipeline(columns, cp.LinearClassifier("logistic")).fit(table, TWO.astype(int))
        inputs = [("size", DoubleTensorType([None, 1])), ("kind", StringTensorType([None, 1]))]
        session = self.convert(model, inputs, tmp_path / "m.onnx")
        feed = {
            "size": table[["size"]].to_numpy(),
            "kind": table[["kind"]].to_numpy(dtype=object),
        }
        label, _ = session.run(None, feed)
        assert_same(model.predict(table), label)
