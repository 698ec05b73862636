"""Model files: what is saved comes back; what is damaged or foreign is refused in one line."""

import gzip
import inspect
import json
import math
import re
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load, save
from scipy.optimize import Bounds, LinearConstraint
from sklearn.exceptions import NotFittedError

import cutplane as cp
from cutplane.compute.threads import default_threads
from cutplane.estimators import ESTIMATORS
from cutplane.io import InputError, OutputError, load_model, save_model
from cutplane.io.models.files import Content
from cutplane.io.models.schema import NEVER_KEPT, arguments_of

from .damage import damage

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
    intercept = fitted.thresholds_[::-1].copy()
    path = rewritten(saved(fitted, tmp_path), tensors={"intercept": intercept})
    with pytest.raises(InputError, match="thresholds are not in order"):
        load_model(path)


def test_any_thresholds_in_order_are_read(tmp_path):
    fitted = cp.OrdinalClassifier(lam=0.01).fit(*make_data([1, 2, 3]))
    extreme = np.array([-1e308, 1e308])  # whose difference is no number
    path = rewritten(saved(fitted, tmp_path), tensors={"intercept": extreme})
    np.testing.assert_array_equal(load_model(path).thresholds_, extreme)


def test_parallel_quantiles_with_different_slopes_are_refused(tmp_path):
    fitted = cp.LinearQuantiles([0.1, 0.9], lam=0.1, parallel=True)
    fitted.fit(*make_data([1.0, 2.5, 7.0]))
    path = rewritten(saved(fitted, tmp_path), tensors={"coef": np.arange(6.0).reshape(2, 3)})
    assert refused(path).endswith("parallel quantiles with different slopes")


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


@pytest.mark.parametrize("options", [{}, {"parallel": True}], ids=repr)
@pytest.mark.parametrize("quantiles", [[0.1, 0.5, 0.9], (0.5,)], ids=repr)
def test_quantiles_come_back(tmp_path, options, quantiles):
    X, y = make_data([1.0, 2.5, 7.0])
    fitted = cp.LinearQuantiles(quantiles, lam=0.01, warm_start=True, **options).fit(X, y)
    loaded = load_model(saved(fitted, tmp_path))
    assert isinstance(loaded, cp.LinearQuantiles)
    np.testing.assert_array_equal(loaded.predict(X), fitted.predict(X))
    assert loaded.get_params() == fitted.get_params() | {"quantiles": list(quantiles)}
    assert loaded.certificate_ == fitted.certificate_
    assert loaded.largest_crossing_ == fitted.largest_crossing_
    assert loaded.lam_ == fitted.lam_
    assert loaded.score(X, y) == fitted.score(X, y)
    # A fit starts from the file as it would from the model.
    first = fitted.history_[0].objective
    again, expected = (model.fit(X, y).history_[0].objective for model in (loaded, fitted))
    assert again == expected < first


@pytest.mark.parametrize("multi_label", ["ranking", "worst_pair", "independent"])
@pytest.mark.parametrize("targets", ["matrix", "two classes", "three classes"])
def test_many_labels_come_back(tmp_path, multi_label, targets):
    X, y = make_data([3, 4, 7] if targets == "three classes" else [3, 4])
    if targets == "matrix":
        y = np.column_stack([y == 3, X[:, 0] > 0.5, X[:, 1] > 1.0]).astype(int)
    fitted = cp.MultilabelClassifier(multi_label, lam=0.01, warm_start=True).fit(X, y)
    loaded = load_model(saved(fitted, tmp_path))
    assert isinstance(loaded, cp.MultilabelClassifier)
    assert loaded.multilabel_ is fitted.multilabel_
    np.testing.assert_array_equal(loaded.classes_, fitted.classes_)
    np.testing.assert_array_equal(loaded.predict(X), fitted.predict(X))
    np.testing.assert_array_equal(loaded.decision_function(X), fitted.decision_function(X))
    assert loaded.get_params() == fitted.get_params()
    assert loaded.certificate_ == fitted.certificate_
    assert np.array_equal(loaded.fit(X, y).coef_, fitted.fit(X, y).coef_)


def test_parameters_are_those_of_the_constructor():
    # A new one is kept without further code.
    for of in ESTIMATORS.values():
        kept = {field.name for field in msgspec.structs.fields(arguments_of(of, ["hinge"]))}
        assert kept == {*inspect.signature(of).parameters} - NEVER_KEPT
    assert {
        "callbacks", "checkpoint", "model", "features", "bounds", "constraints"
    } >= NEVER_KEPT  # fmt: skip


@pytest.mark.parametrize("value", [None, True, 3, 0.5, "word", ["low", "high"], [1, 2.5, None]])
def test_a_parameter_of_any_plain_kind_comes_back(tmp_path, binary, value):
    fitted = load_model(saved(binary, tmp_path)).set_params(class_weight=value)
    assert load_model(saved(fitted, tmp_path)).class_weight == value
    for like in (tuple(value), np.array(value)) if isinstance(value, list) else ():
        again = load_model(saved(fitted.set_params(class_weight=like), tmp_path))
        assert again.class_weight == value


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"parameters": {"quantiles": [0.9, 0.1]}}, "quantiles must ascend"),
        ({"parameters": {"quantiles": "ab"}}, "a parameter is wrong"),
        ({"parameters": {"quantiles": [0.1, 0.9], "parallel": True}}, "arrays coef, intercept, sh"),
        ({"parameters": {"quantiles": [0.1, 0.5, 0.9]}}, "coefficients of shape (2, 3) for 3 rows"),
        ({"attributes": {"largest_crossing_": -1.0}}, "Expected `float` >= 0.0"),
    ],
    ids=repr,
)
def test_quantiles_that_contradict_themselves(tmp_path, change, said):
    fitted = cp.LinearQuantiles([0.1, 0.9], lam=0.1).fit(*make_data([1.0, 2.5, 7.0]))
    assert said in refused(rewritten(saved(fitted, tmp_path), change))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"parameters": {"loss": "hinge", "multi_label": "all"}}, "unknown multi_label 'all'"),
        (
            {"parameters": {"loss": "logistic", "multi_label": "ranking"}},
            "needs loss='hinge', got 'logistic'",
        ),
        ({"attributes": {"multilabel_": "yes"}}, "Expected `bool`, got `str`"),
        ({"classes": {"dtype": "int64", "values": [1, 2]}}, "labels are not numbered from 0 on"),
        ({"classes": {"dtype": "int64", "values": [0]}}, "coefficients of shape (2, 3) for 1 rows"),
    ],
    ids=repr,
)
def test_labels_that_contradict_themselves(tmp_path, change, said):
    X, y = make_data([0, 1])
    labels = np.column_stack([y, X[:, 0] > 0.5])
    fitted = cp.MultilabelClassifier("ranking", lam=0.1).fit(X, labels)
    assert said in refused(rewritten(saved(fitted, tmp_path), change))


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
    with pytest.raises(NotFittedError, match="LinearClassifier instance is not fitted yet"):
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


def rewritten(path, change_model=None, *, tensors=None, digest=True, without=None):
    """Rewrite a model file with other content, its digest made right again unless told not to."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    document = json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["cutplane"])
    arrays = load(content) | (tensors or {})
    document["model"] |= change_model or {}
    document["model"].pop(without, None)
    if digest:
        document["sha256"] = Content(document["model"], arrays).digest()
    path.write_bytes(save(arrays, metadata={"cutplane": json.dumps(document)}))
    return path


CERTIFICATE = {"objective": 1.0, "lower_bound": 0.9999, "status": "optimal", "valid": True}


def certificate(**changes):
    return {"certificates": [CERTIFICATE | changes]}


def parameters(**changes):
    return {"parameters": {"loss": "hinge"} | changes}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": 2}, "format 2; this version reads 1"),
        ({"format": "1"}, "format '1'; this version reads 1"),
        ({"kind": "Pickle"}, "Invalid value 'Pickle' - at `model.kind`"),
        ({"kind": ["x"]}, "Expected `str`, got `list` - at `model.kind`"),
        (
            {"kind": "LinearRegressor", "parameters": {"loss": "hinge"}},
            "Invalid enum value 'hinge' - at `model.parameters.loss`",
        ),
        (parameters(os=1), "Object contains unknown field `os` - at `model.parameters`"),
        (parameters(callbacks=[]), "Object contains unknown field `callbacks`"),
        (parameters(lam=[1]), "Expected `int | float | null`, got `array`"),
        (parameters(lam="1"), "Expected `int | float | null`, got `str`"),
        (parameters(lam=0.0), "Expected `float` > 0.0 - at `model.parameters.lam`"),
        (parameters(lam=math.nan), "its description: JSON is malformed"),
        (parameters(lam=-1), "Expected `int` >= 1"),
        (parameters(lam=10**400), "Expected `int` <= "),
        (parameters(tol=0.0), "Expected `float` > 0.0"),
        (parameters(tol=math.inf), "its description: JSON is malformed"),
        (parameters(max_iter=1.5), "Expected `bool | int | null`, got `float`"),
        (parameters(fit_intercept=-1), "Expected `int` >= 0"),
        (parameters(method={}), "Object missing required field `labels`"),
        (parameters(n_jobs=0), "n_jobs must be None, -1 or at least 1, got 0"),
        (parameters(n_jobs="all"), "Expected `bool | int | null`, got `str`"),
        (parameters(loss=["hinge"]), "Expected `str`, got `array` - at `model.parameters.loss`"),
        ({"parameters": {}}, "Object missing required field `loss` - at `model.parameters`"),
        (
            parameters(loss="smooth_hinge", smoothing=-1.0),
            "a parameter is wrong: smoothing must be positive and finite",
        ),
        (parameters(loss="smooth_hinge", smoothing="x"), "Expected `int | float`, got `str`"),
        (
            parameters(multi_class="softmax"),
            "a parameter is wrong: multi_class='softmax' needs loss='logistic'",
        ),
        (parameters(multi_class="all"), "a parameter is wrong: unknown multi_class 'all'"),
        ({"parameters": []}, "Expected `object`, got `array` - at `model.parameters`"),
        ({"attributes": {"lam_": -1.0}}, "Expected `float` > 0.0 - at `model.attributes.lam_`"),
        ({"classes": None}, "no classes"),
        ({"classes": {"dtype": "int64", "values": [1, 1]}}, "fewer than two different classes"),
        ({"classes": {"dtype": "int64", "values": [1]}}, "fewer than two different classes"),
        ({"classes": {"dtype": "int64", "values": [1, 2**70]}}, "classes are not of type int64"),
        ({"classes": {"dtype": "int64", "values": [1, "2"]}}, "classes are not of type int64"),
        ({"classes": {"dtype": "object", "values": [[], {}]}}, "Expected "),
        ({"classes": {"dtype": "int8", "values": [1, 300]}}, "classes are not of type int8"),
        ({"classes": {"dtype": "float16", "values": [1.0, 1e9]}}, "classes are not of type float"),
        (
            {"classes": {"dtype": "float64", "values": [1.0, math.nan]}},
            "its description: JSON is malf",
        ),
        ({"classes": {"dtype": "str", "values": ["a", *"bcdefghijk", "x" * 10**6]}}, "labels are"),
        ({"classes": {"dtype": "V8", "values": [1, 2]}}, "Invalid enum value 'V8'"),
        ({"classes": {"dtype": "int64", "values": [1, 2, 3]}}, "coefficients of shape (1, 3)"),
        ({"feature_names": ["a"]}, "1 feature names for 3 features"),
        ({"feature_names": "abc"}, "Expected `array | null`, got `str`"),
        ({"certificates": []}, "0 certificates, expected 1"),
        ({"certificates": {}}, "Expected `array`, got `object` - at `model.certificates`"),
        ({"certificates": [{}]}, "Object missing required field `objective`"),
        (certificate(status="fine"), "Invalid enum value 'fine'"),
        (certificate(status="running"), "the status of a model that was fitted is not running"),
        (certificate(status="failed"), "the status of a model that was fitted is not failed"),
        (certificate(valid=1), "Expected `bool`, got `int`"),
        (certificate(reason=None), "Expected `str`, got `null`"),
        (certificate(objective="1"), "Expected `float`, got `str`"),
        (certificate(objective=math.nan), "its description: JSON is malformed"),
        (certificate(objective=math.inf), "its description: JSON is malformed"),
        (certificate(objective=10**400), "Number out of range"),
        (certificate(objective=None), "Expected `float`, got `null`"),
        (certificate(lower_bound=math.nan), "its description: JSON is malformed"),
        (certificate(lower_bound=math.inf), "its description: JSON is malformed"),
        (certificate(lower_bound=1.5), "optimal, with the lower bound 1.5 above 1.0"),
        (certificate(lower_bound=1.5, status="stalled"), "stalled, with the lower bound 1.5"),
        (certificate(lower_bound=None), "optimal without a lower bound"),
        (certificate(valid=False), "optimal, but not valid"),
        (certificate(status="inconsistent"), "inconsistent, and valid all the same"),
        (certificate(status="stationary"), "stationary, and valid all the same"),
        (certificate(lower_bound=0.5), "optimal with a relative gap of 0.5; tol is 0.001"),
        (
            certificate(lower_bound=0.5, valid=False, status="stationary"),
            "stationary with a relative gap of 0.5; tol is 0.001",
        ),
    ],
    ids=repr,
)
def test_every_entry_is_checked(tmp_path, binary, change, said):
    path = rewritten(saved(binary, tmp_path), change)
    assert refused(path).startswith(f"not a usable cutplane model: {said}")


@pytest.mark.parametrize(
    ("tensors", "said"),
    [
        ({"coef": np.ones((2, 3))}, "coefficients of shape (2, 3) for 1 rows"),
        ({"coef": np.ones(3)}, "coefficients of shape (3,) for 1 rows"),
        ({"coef": np.ones((1, 0))}, "coefficients of shape (1, 0) for 1 rows"),
        ({"intercept": np.ones(2)}, "intercepts of shape (2,), expected 1"),
        ({"coef": np.full((1, 3), np.nan)}, "coef has weights that are not finite"),
        ({"intercept": np.array([np.inf])}, "intercept has weights that are not finite"),
        ({"coef": np.ones((1, 3), dtype=np.int64)}, "coef has weights that are not finite, or no"),
        ({"intercept": np.ones(1, dtype=np.float32)}, "weights of type float64 and others"),
        ({"more": np.ones(1)}, "arrays coef, intercept, more"),
    ],
)
def test_every_tensor_is_checked(tmp_path, binary, tensors, said):
    path = rewritten(saved(binary, tmp_path), tensors=tensors)
    assert refused(path).startswith(f"not a usable cutplane model: {said}")


@pytest.mark.parametrize(
    "entry", ["kind", "parameters", "classes", "feature_names", "certificates"]
)
def test_missing_entries(tmp_path, binary, entry):
    path = rewritten(saved(binary, tmp_path), without=entry)
    said = f"not a usable cutplane model: Object missing required field `{entry}`"
    assert refused(path) == said


def test_words_that_are_none(tmp_path, binary):
    # What cannot be written to a terminal or a file is no label.
    words = {"dtype": "str", "values": ["a", "\ud800"]}
    path = rewritten(saved(binary, tmp_path), {"classes": words})
    assert "its description: " in refused(path)
    other = load_model(saved(binary, tmp_path))
    other.classes_ = np.array(words["values"])
    with pytest.raises(ValueError, match="surrogates not allowed"):
        save_model(other, path)
    np.testing.assert_array_equal(load_model(path).coef_, binary.coef_)


def test_a_message_has_one_line_of_some_length(tmp_path, binary):
    path = rewritten(saved(binary, tmp_path), parameters(**{"a\nb" + "c" * 10**5: 1}))
    assert len(refused(path)) < 400


@pytest.mark.parametrize(
    "changes",
    [
        {
            "lower_bound": None,
            "status": "interrupted",
            "valid": False,
            "reason": "there is no lower bound",
        },
        {"lower_bound": 2.0, "status": "inconsistent", "valid": False},
        {"lower_bound": 0.1, "status": "iteration_limit"},
        {"valid": False, "status": "stationary", "reason": "inference is not exact"},
        {"reason": "convexity assumed"},
    ],
    ids=repr,
)
def test_certificates_come_back(tmp_path, binary, changes):
    path = rewritten(saved(binary, tmp_path), certificate(**changes))
    loaded, expected = load_model(path), CERTIFICATE | {"reason": ""} | changes
    found = {name: getattr(loaded.certificate_, name) for name in expected}
    assert found == expected | {"lower_bound": expected["lower_bound"] or -math.inf}
    save_model(loaded, path)
    assert load_model(path).certificate_ == loaded.certificate_


def test_a_file_does_not_decide_how_many_threads_are_started(tmp_path, binary):
    path = rewritten(saved(binary, tmp_path), parameters(n_jobs=3000))
    assert 1 <= load_model(path).n_jobs <= default_threads()
    path = rewritten(saved(binary, tmp_path), parameters(n_jobs=-1))
    assert load_model(path).n_jobs == -1


def test_compressed_models_are_refused(tmp_path, binary):
    # Some kilobytes could be decompressed to any size.
    path = saved(binary, tmp_path)
    path.write_bytes(gzip.compress(path.read_bytes()))
    assert "no safetensors file" in refused(path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"tol": 1e-30}, "optimal with a relative gap"),
        ({"coef_": np.array([[np.nan, 0.0, 0.0]])}, "coef has weights that are not finite"),
        ({"max_iter": "many"}, "Expected `bool | int | null`, got `str`"),
    ],
    ids=repr,
)
def test_what_would_not_load_is_not_saved_over_what_does(tmp_path, binary, change, said):
    path = saved(binary, tmp_path)
    other = load_model(path)
    vars(other).update(change)
    with pytest.raises(
        ValueError, match=rf"cannot save this LinearClassifier: .*{re.escape(said)}"
    ):
        save_model(other, path)
    np.testing.assert_array_equal(load_model(path).coef_, binary.coef_)


def test_wrong_digest(tmp_path, binary):
    path = rewritten(saved(binary, tmp_path), tensors={"coef": np.ones((1, 3))}, digest=False)
    assert refused(path) == "not a usable cutplane model: the file is damaged"


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 2**32), cut=st.booleans(), flips=st.integers(1, 8))
def test_a_damaged_file_never_becomes_another_model(tmp_path_factory, binary, seed, cut, flips):
    path = saved(binary, tmp_path_factory.mktemp("damaged"))
    damage(path, seed, cut, flips)
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


CONSTRAINTS = {
    "numbers": {"bounds": (-0.5, 0.25)},
    "one side": {"bounds": (None, [0.1, 0.2, 0.3]), "positive": True, "penalty": "l1"},
    "scipy's": {"bounds": Bounds([-1.0, -np.inf, 0.0], 1.0)},
    "sums": {"constraints": (np.ones((1, 3)), 1.0, 1.0), "bounds": (0.0, None)},
    "several": {
        "constraints": [
            LinearConstraint([[1.0, -1.0, 0.0]], -np.inf, 0.0),
            ([[0.0, 1.0, 1.0], [1.0, 0.0, 0.0]], [-1.0, -np.inf], [np.inf, 0.5]),
        ]
    },
}


@pytest.mark.parametrize("labels", [[0, 1], [0, 1, 2]])
@pytest.mark.parametrize("options", CONSTRAINTS.values(), ids=CONSTRAINTS)
def test_bounds_and_constraints_come_back(tmp_path, options, labels):
    X, y = make_data(labels)
    multi_class = "softmax" if len(labels) > 2 and "penalty" not in options else "ovr"
    for of in (
        cp.LinearClassifier("logistic", multi_class=multi_class, lam=0.01, **options),
        cp.LinearRegressor("huber", lam=0.01, **options),
        cp.LinearClassifierCV("logistic", lams=[0.1, 0.01], cv=2, **options),
    ):
        fitted = of.fit(X, y)
        loaded = load_model(saved(fitted, tmp_path))
        np.testing.assert_array_equal(loaded.predict(X), fitted.predict(X))
        n = fitted.coef_.size
        for lam in (0.01, 0.1):
            ours, theirs = (each._regularizer(lam, n) for each in (loaded, fitted))
            u = np.linspace(-1.0, 1.0, n)
            assert ours.conjugate(u)[0] == theirs.conjugate(u)[0]
        # And again, with the same bits: what is read is what was written.
        first = saved(loaded, tmp_path).read_bytes()
        assert saved(load_model(tmp_path / "model.safetensors"), tmp_path).read_bytes() == first
        if type(loaded) is type(fitted):
            np.testing.assert_array_equal(loaded.fit(X, y).coef_, fitted.coef_)


def test_coefficients_that_violate_what_the_file_says(tmp_path):
    X, y = make_data([0, 1])
    fitted = cp.LinearRegressor(lam=0.01, bounds=(-0.1, 0.1)).fit(X, y)
    cases = [
        ({"coef": np.full(3, 0.2)}, "the coefficients violate the bounds or constraints"),
        ({"bounds.lower": np.ones(2)}, "there are 2 lower bounds for 3 features"),
        ({"bounds.lower": np.full(1, 3.0)}, "no coefficient fits the bounds of feature 0"),
        ({"bounds.lower": np.full(1, np.nan)}, "bounds.lower has no numbers, or other things"),
        ({"bounds.upper": np.zeros(3, np.int64)}, "bounds.upper has no numbers, or other things"),
        ({"constraints.A": np.ones((1, 3))}, "arrays constraints.A without constraints."),
    ]
    for tensors, said in cases:
        path = rewritten(saved(fitted, tmp_path), tensors=tensors)
        assert said in refused(path)
    with pytest.raises(ValueError, match="violate the bounds"):
        save_model(fitted.set_params(bounds=(1.0, 2.0)), tmp_path / "other")


@pytest.mark.parametrize("weights", [{0: 1, 1: 2.5}, {"a": 0.5, "b": 3.0}, {np.int64(1): 2.0}])
def test_weights_by_label_come_back(tmp_path, weights):
    labels = ["a", "b"] if "a" in weights else [0, 1]
    X, y = make_data(labels)
    fitted = cp.LinearClassifier(lam=0.01, class_weight=weights).fit(X, y)
    loaded = load_model(saved(fitted, tmp_path))
    assert loaded.class_weight == weights
    change = {"parameters": {"loss": "hinge", "class_weight": {"labels": [0, 0], "numbers": [1]}}}
    assert "do not belong together" in refused(rewritten(tmp_path / "model.safetensors", change))
