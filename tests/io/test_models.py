"""Model files: what is saved comes back; what is damaged or foreign is refused in one line."""

import json
import math
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save
from sklearn.exceptions import NotFittedError

import cutplane as cp
from cutplane.io import InputError, OutputError, load_model, save_model
from cutplane.io.models import _digest

FIXTURES = Path(__file__).parent / "fixtures"


def make_data(labels, seed=0):
    """Return features that tell the labels apart, with some noise."""
    rng = np.random.default_rng(seed)
    codes = np.arange(60) % len(labels)
    X = rng.normal(size=(60, 3)) + 2.0 * np.eye(len(labels), 3)[codes]
    return X, np.asarray(labels)[codes]


def saved(estimator, folder):
    path = folder / "model.safetensors"
    save_model(estimator, path)
    return path


@pytest.fixture(scope="module")
def binary():
    return cp.LinearClassifier(lam=0.01).fit(*make_data([-1, 1]))


@pytest.mark.parametrize(
    ("chooser", "plain", "labels"),
    [
        (cp.LinearClassifierCV("logistic", lams=[1.0, 0.01], cv=2), cp.LinearClassifier, [0, 1]),
        (cp.LinearClassifierCV(lams=[1.0, 0.01], cv=2, tol=1e-2), cp.LinearClassifier, "abc"),
        (
            cp.LinearRegressorCV("quantile", quantile=0.3, lams=[0.1, 1e-3], cv=2),
            cp.LinearRegressor,
            [0, 1],
        ),
    ],
)
def test_cross_validated_models_are_saved_as_what_they_became(tmp_path, chooser, plain, labels):
    X, y = make_data(list(labels))
    fitted = chooser.fit(X, y)
    loaded = load_model(saved(fitted, tmp_path))
    assert type(loaded) is plain
    assert loaded.lam == fitted.lam_
    assert (loaded.loss, loaded.tol) == (fitted.loss, fitted.tol)
    assert loaded.certificate_ == fitted.certificate_
    np.testing.assert_array_equal(loaded.predict(X), fitted.predict(X))


@pytest.mark.parametrize(
    "labels",
    [
        [-1, 1],
        [1.0, 2.0],
        [False, True],
        ["ham", "späm"],
        np.array(["ham", "spam"], dtype=object),
        np.array([3, 7], dtype=np.int8),
        np.array([0, 1, 2], dtype=np.uint16),
        ["a", "b", "c"],
    ],
    ids=["int", "float", "bool", "str", "object", "int8", "three-uint16", "three-str"],
)
def test_classifiers_come_back_with_their_labels(tmp_path, labels):
    X, y = make_data(labels)
    fitted = cp.LinearClassifier(lam=0.01).fit(X, y)
    loaded = load_model(saved(fitted, tmp_path))
    assert isinstance(loaded, cp.LinearClassifier)
    assert loaded.classes_.dtype == fitted.classes_.dtype
    np.testing.assert_array_equal(loaded.predict(X), fitted.predict(X))
    np.testing.assert_array_equal(loaded.decision_function(X), fitted.decision_function(X))
    assert loaded.certificate_ == fitted.certificate_
    assert loaded.get_params() == fitted.get_params()


@pytest.mark.parametrize("labels", [[-1, 1], ["a", "b", "c"]], ids=["two", "three"])
@pytest.mark.parametrize(
    ("loss", "multi_class"), [("hinge", "crammer_singer"), ("logistic", "softmax")]
)
def test_classifiers_of_all_classes_at_once_come_back(tmp_path, labels, loss, multi_class):
    X, y = make_data(labels)
    fitted = cp.LinearClassifier(loss, multi_class=multi_class, lam=0.01).fit(X, y)
    loaded = load_model(saved(fitted, tmp_path))
    assert loaded.multi_class == multi_class
    assert isinstance(loaded.certificate_, cp.Certificate)
    assert loaded.certificate_ == fitted.certificate_
    np.testing.assert_array_equal(loaded.decision_function(X), fitted.decision_function(X))
    if loss == "logistic":
        np.testing.assert_array_equal(loaded.predict_proba(X), fitted.predict_proba(X))


@pytest.mark.parametrize("loss", ["squared", "quantile", "poisson"])
def test_regressors_come_back(tmp_path, loss):
    X, codes = make_data([1.0, 2.5, 7.0])
    parameters = {"quantile": 0.3} if loss == "quantile" else {}
    fitted = cp.LinearRegressor(loss, lam=0.1, **parameters).fit(X, codes)
    loaded = load_model(saved(fitted, tmp_path))
    assert isinstance(loaded, cp.LinearRegressor)
    np.testing.assert_array_equal(loaded.predict(X), fitted.predict(X))
    assert loaded.quantile == parameters.get("quantile", 0.5)
    assert loaded.coef_.shape == fitted.coef_.shape
    assert np.shape(loaded.intercept_) == np.shape(fitted.intercept_)
    assert loaded.certificate_ == fitted.certificate_


@pytest.mark.parametrize("labels", [[1, 2], ["a", "c", "b"]], ids=["two", "three"])
def test_grades_come_back(tmp_path, labels):
    X, y = make_data(labels)
    fitted = cp.OrdinalClassifier("logistic", lam=0.01, categories=labels).fit(X, y)
    loaded = load_model(saved(fitted, tmp_path))
    assert isinstance(loaded, cp.OrdinalClassifier)
    np.testing.assert_array_equal(loaded.thresholds_, fitted.thresholds_)
    np.testing.assert_array_equal(loaded.predict(X), fitted.predict(X))
    np.testing.assert_array_equal(loaded.predict_proba(X), fitted.predict_proba(X))
    assert loaded.certificate_ == fitted.certificate_
    assert loaded.get_params() == fitted.get_params()


def test_thresholds_out_of_order_are_refused(tmp_path):
    fitted = cp.OrdinalClassifier(lam=0.01).fit(*make_data([1, 2, 3]))
    fitted.thresholds_ = fitted.thresholds_[::-1].copy()
    with pytest.raises(InputError, match="thresholds are not in order"):
        load_model(saved(fitted, tmp_path))


def test_novelty_detectors_come_back(tmp_path):
    X = make_data([0, 1])[0] + 3.0
    fitted = cp.NoveltyDetector(0.2).fit(X)
    loaded = load_model(saved(fitted, tmp_path))
    assert isinstance(loaded, cp.NoveltyDetector)
    assert type(loaded.offset_) is float
    np.testing.assert_array_equal(loaded.decision_function(X), fitted.decision_function(X))
    assert loaded.certificate_ == fitted.certificate_
    assert loaded.get_params() == fitted.get_params()


@pytest.mark.parametrize("loss", ["pairwise", "ndcg"])
def test_rankers_come_back(tmp_path, loss):
    X, codes = make_data([0, 1, 2])
    qid = np.arange(60) // 6
    parameters = {"pair_weights": "gains"} if loss == "pairwise" else {}
    fitted = cp.LinearRanker(loss, lam=0.1, k=3, **parameters).fit(X, codes, qid=qid)
    loaded = load_model(saved(fitted, tmp_path))
    assert isinstance(loaded, cp.LinearRanker)
    np.testing.assert_array_equal(loaded.predict(X), fitted.predict(X))
    assert loaded.get_params() == fitted.get_params()
    assert loaded.certificate_ == fitted.certificate_
    assert loaded.score(X, codes, qid=qid) == fitted.score(X, codes, qid=qid)
    with pytest.raises(ValueError, match="score needs qid"):
        loaded.score(X, codes)


def test_feature_names_come_back(tmp_path):
    pandas = pytest.importorskip("pandas")
    X, y = make_data([0, 1])
    frame = pandas.DataFrame(X, columns=["height", "weight", "größe"])
    loaded = load_model(saved(cp.LinearClassifier(lam=0.01).fit(frame, y), tmp_path))
    assert loaded.feature_names_in_.tolist() == ["height", "weight", "größe"]
    assert len(loaded.predict(frame)) == 60


def test_numpy_parameters_are_kept_and_what_json_cannot_hold_gets_its_default(tmp_path):
    X, y = make_data([0, 1])
    fitted = cp.LinearClassifier(
        lam=np.float64(0.01), max_iter=np.int64(500), callbacks=(lambda record: None,)
    ).fit(X, y)
    loaded = load_model(saved(fitted, tmp_path))
    assert (loaded.lam, loaded.max_iter, loaded.callbacks) == (0.01, 500, ())


def test_a_loaded_model_can_be_fitted_again(tmp_path, binary):
    X, y = make_data([-1, 1])
    loaded = load_model(saved(binary, tmp_path))
    np.testing.assert_array_equal(loaded.fit(X, y).coef_, binary.coef_)


def test_the_same_model_gives_the_same_bytes(tmp_path, binary):
    path = saved(binary, tmp_path)
    content = path.read_bytes()
    save_model(load_model(path), path)
    assert path.read_bytes() == content


def test_what_cannot_be_saved(tmp_path, binary):
    path = tmp_path / "model"
    with pytest.raises(NotFittedError):
        save_model(cp.LinearClassifier(), path)
    with pytest.raises(TypeError, match="cannot save a dict"):
        save_model({}, path)
    with pytest.raises(OutputError, match="no such file or directory"):
        save_model(binary, tmp_path / "no" / "model")
    assert list(tmp_path.iterdir()) == []


def test_a_loss_of_its_own_cannot_be_saved(tmp_path, binary):
    other = load_model(saved(binary, tmp_path))
    other.loss = object()
    with pytest.raises(TypeError, match="give the loss by name"):
        save_model(other, tmp_path / "other")


def refused(path):
    with pytest.raises(InputError) as caught:
        load_model(path)
    said = str(caught.value)
    assert said.startswith(str(path))
    assert "\n" not in said
    return said.removeprefix(f"{path}: ")


def test_files_that_are_no_models(tmp_path):
    assert refused(tmp_path / "gone") == "cannot read: no such file or directory"
    assert refused(tmp_path) == "cannot read: is a directory"
    path = tmp_path / "file"
    for content in (b"", b"1 1:1\n", b"\x00" * 100, save({"coef": np.ones(2)})):
        path.write_bytes(content)
        assert refused(path).startswith("not a usable cutplane model: ")


def rewritten(path, change_model=None, *, tensors=None, digest=True):
    """Rewrite a model file with other content, its digest made right again unless told not to."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    document = json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["cutplane"])
    fitted = load_model(path)
    arrays = {"coef": fitted.coef_, "intercept": np.atleast_1d(fitted.intercept_)}
    arrays |= tensors or {}
    document["model"] |= change_model or {}
    if digest:
        document["sha256"] = _digest(document["model"], arrays)
    path.write_bytes(save(arrays, metadata={"cutplane": json.dumps(document)}))
    return path


CERTIFICATE = {"objective": 1.0, "lower_bound": 0.5, "status": "optimal", "valid": True}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": 2}, "format 2; this version reads 1"),
        ({"format": "1"}, "format '1'; this version reads 1"),
        ({"kind": "Pickle"}, "unknown kind of estimator 'Pickle'"),
        ({"kind": ["x"]}, "unknown kind of estimator ['x']"),
        ({"kind": "LinearRegressor", "parameters": {"loss": "hinge"}}, "unknown loss 'hinge'"),
        ({"parameters": {"loss": "hinge", "os": 1}}, "unknown parameter 'os'"),
        ({"parameters": {"loss": "hinge", "lam": [1]}}, "parameters are not plain values"),
        ({"parameters": {"loss": ["hinge"]}}, "parameters are not plain values"),
        ({"parameters": {"loss": "hinge", "lam": math.nan}}, "parameters are not plain values"),
        ({"parameters": {}}, "unknown loss None"),
        (
            {"parameters": {"loss": "smooth_hinge", "smoothing": -1.0}},
            "a parameter of the loss is wrong: ",
        ),
        (
            {"parameters": {"loss": "smooth_hinge", "smoothing": "x"}},
            "a parameter of the loss is wrong: ",
        ),
        (
            {"parameters": {"loss": "hinge", "multi_class": "softmax"}},
            "a parameter of the loss is wrong: multi_class='softmax' needs loss='logistic'",
        ),
        ({"parameters": []}, "parameters are not plain values"),
        ({"classes": None}, "no classes"),
        ({"classes": {"dtype": "int64", "values": [1, 1]}}, "fewer than two different classes"),
        ({"classes": {"dtype": "int64", "values": [1]}}, "fewer than two different classes"),
        ({"classes": {"dtype": "int64", "values": [1, 2**70]}}, "classes are not of type int64"),
        ({"classes": {"dtype": "int64", "values": [1, "2"]}}, "classes are not of type int64"),
        ({"classes": {"dtype": "object", "values": [[], {}]}}, "classes are not of type object"),
        ({"classes": {"dtype": "V8", "values": [1, 2]}}, "no classes"),
        ({"classes": {"dtype": "int64", "values": [1, 2, 3]}}, "weights of shapes (1, 3) and (1,)"),
        ({"feature_names": ["a"]}, "1 feature names for 3 features"),
        ({"feature_names": "abc"}, "feature names are not words"),
        ({"certificates": []}, "expected 1 certificates"),
        ({"certificates": {}}, "expected 1 certificates"),
        ({"certificates": [{}]}, "a certificate is incomplete"),
        ({"certificates": [CERTIFICATE | {"status": "fine"}]}, "a certificate is incomplete"),
        ({"certificates": [CERTIFICATE | {"valid": 1}]}, "a certificate is incomplete"),
    ],
)
def test_every_entry_is_checked(tmp_path, binary, change, said):
    path = rewritten(saved(binary, tmp_path), change)
    assert refused(path).startswith(f"not a usable cutplane model: {said}")


@pytest.mark.parametrize(
    ("tensors", "said"),
    [
        ({"coef": np.ones((2, 3))}, "weights of shapes (2, 3) and (1,)"),
        ({"coef": np.ones(3)}, "weights of shapes (3,) and (1,)"),
        ({"intercept": np.ones(2)}, "weights of shapes (1, 3) and (2,)"),
        ({"coef": np.full((1, 3), np.nan)}, "a weight is not finite"),
        ({"intercept": np.array([np.inf])}, "a weight is not finite"),
        ({"coef": np.ones((1, 3), dtype=np.int64)}, "weights of type int64 and float64"),
        ({"more": np.ones(1)}, "the file is damaged"),
    ],
)
def test_every_tensor_is_checked(tmp_path, binary, tensors, said):
    path = rewritten(saved(binary, tmp_path), tensors=tensors)
    assert refused(path) == f"not a usable cutplane model: {said}"


@pytest.mark.parametrize("entry", ["kind", "parameters", "classes", "certificates"])
def test_missing_entries(tmp_path, binary, entry, monkeypatch):
    described = {
        "format": 1,
        "kind": "LinearClassifier",
        "parameters": {"loss": "hinge"},
        "classes": {"dtype": "int64", "values": [0, 1]},
        "feature_names": None,
        "certificates": [CERTIFICATE],
    }
    del described[entry]
    monkeypatch.setattr("cutplane.io.models._describe", lambda *_: described)
    assert refused(saved(binary, tmp_path)) == f"not a usable cutplane model: no entry '{entry}'"


def test_a_bound_that_was_never_found_comes_back_as_infinite(tmp_path, binary):
    path = rewritten(
        saved(binary, tmp_path), {"certificates": [CERTIFICATE | {"lower_bound": None}]}
    )
    assert load_model(path).certificate_.lower_bound == -math.inf


def test_wrong_digest(tmp_path, binary):
    path = rewritten(saved(binary, tmp_path), tensors={"coef": np.ones((1, 3))}, digest=False)
    assert refused(path) == "not a usable cutplane model: the file is damaged"


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 2**32), cut=st.booleans(), flips=st.integers(1, 8))
def test_a_damaged_file_never_becomes_another_model(tmp_path_factory, binary, seed, cut, flips):
    path = saved(binary, tmp_path_factory.mktemp("damaged"))
    chance = random.Random(seed)
    content = bytearray(path.read_bytes())
    if cut:
        del content[chance.randrange(len(content)) :]
    for _ in range(min(flips, len(content))):
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)
    try:
        loaded = load_model(path)
    except InputError:
        refused(path)
    else:  # only what has no meaning was changed
        np.testing.assert_array_equal(loaded.coef_, binary.coef_)
        assert loaded.get_params() == binary.get_params()
        assert loaded.certificate_ == binary.certificate_


@pytest.mark.parametrize("name", ["binary", "classes", "quantile"])
def test_files_of_format_1_stay_readable(name):
    expected = json.loads((FIXTURES / f"model-v1-{name}.json").read_text())
    loaded = load_model(FIXTURES / f"model-v1-{name}.safetensors")
    X = np.array(expected["X"])
    assert type(loaded).__name__ == expected["kind"]
    if expected["kind"] == "LinearClassifier":
        assert loaded.predict(X).tolist() == expected["predictions"]
        np.testing.assert_allclose(loaded.decision_function(X), expected["scores"], rtol=1e-12)
    else:
        np.testing.assert_allclose(loaded.predict(X), expected["predictions"], rtol=1e-12)
