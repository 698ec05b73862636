"""Model files from anywhere: each loads as a model that can be used, or is refused in one line.

Their digests are right, so that nothing but the checks of headers and tensors stands between the
file and the program.
"""

import contextlib
import json
import math
import random
import threading
import time
import tracemalloc
from collections import Counter

import numpy as np
import pytest
import scipy.sparse
from safetensors.numpy import load

import cutplane as cp
from cutplane.compute.threads import default_threads
from cutplane.io import InputError, load_model, save_model
from cutplane.models.tagging.templates import TemplateVectorizer

from .model_file_mutations import mutated, packed

SECONDS_EACH = 5.0  # of processor time; the usual is a millisecond
BYTES_EACH = 100_000_000  # beyond a hundred times the file
# With weights below this the predictions of these models cannot overflow.
ORDINARY = 50.0

TOKENS = [[("the", "D"), ("cat", "N")], [("dogs", "N"), ("bark", "V")]]
TAGS = [["B", "I"], ["B", "O"]]

# Labels at random: there is little to find in the features.
pytestmark = pytest.mark.filterwarnings("ignore::cutplane.ConstantModelWarning")


def fitted_models():
    """Return fitted estimators of all kinds that files keep."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    codes = np.arange(30) % 3
    words = np.array(["a", "b", "c"])[codes]
    sign = np.where(X[:, 0] > 0, 1, -1)
    options = {"lam": 0.1, "tol": 0.01}
    tree = cp.Tree(rng.normal(size=(3, 2)), [-1, 0, 0])
    graph = cp.Graph(rng.normal(size=(3, 2)), [[0, 1], [1, 2], [2, 0]])
    structures = [
        (cp.MulticlassModel(), list(X[:6]), list("abcabc")),
        (cp.MultilabelModel(parents=[-1, 0, 0]), list(X[:4]), list(rng.integers(0, 2, (4, 3)))),
        (cp.TreeModel(), [tree] * 2, [[0, 1, 1], [1, 0, 0]]),
        (cp.GraphModel(2, symmetric=True), [graph] * 2, [[0, 1, 1], [1, 0, 0]]),
        (cp.RNAFolding(missed=2.0), ["GGGAAACCC"], ["(((...)))"]),
    ]
    return [
        cp.LinearClassifier(**options, n_jobs=1).fit(X, sign),
        cp.LinearClassifier("logistic", **options).fit(X, words),
        cp.LinearClassifier("logistic", multi_class="softmax", **options).fit(X, codes),
        cp.LinearClassifier("f1", **options).fit(X, sign),
        cp.LinearRegressor("quantile", quantile=0.3, **options).fit(X, X[:, 0]),
        cp.LinearRegressor("poisson", **options).fit(X, codes),
        cp.OrdinalClassifier("logistic", **options).fit(X, codes),
        cp.LinearRanker(**options).fit(X, codes, qid=np.arange(30) // 10),
        cp.NoveltyDetector(0.2).fit(X + 3.0),
        cp.LinearQuantiles(**options).fit(X, X[:, 0]),
        cp.LinearQuantiles([0.2, 0.8], parallel=True, **options).fit(X, X[:, 0]),
        cp.MultilabelClassifier(**options).fit(X, (X > 0.3).astype(int)),
        cp.MultilabelClassifier("independent", **options).fit(X, words),
        cp.SequenceTagger(**options).fit([X[:3], X[3:5]], [[0, 1, 2], [0, 1]]),
        cp.SequenceTagger("crf", templates="chunking", pairs="observed").fit(TOKENS, TAGS),
        cp.SequenceTagger("crf", **options).fit([[{"w": "a"}, {"w": "b", "n": 2}]], [["x", "y"]]),
        *(
            cp.StructuredPredictor(model, n_jobs=1, **options).fit(inputs, outputs)
            for model, inputs, outputs in structures
        ),
    ]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Header and tensors of a file of each kind."""
    path = tmp_path_factory.mktemp("files") / "model"
    found = []
    for model in fitted_models():
        save_model(model, path)
        content = path.read_bytes()
        length = int.from_bytes(content[:8], "little")
        document = json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["cutplane"])
        found.append((document["model"], load(content)))
        use(load_model(path))  # compiles what predictions need
    return found


def attack(path, content):
    """Load a file, within limits, and use what it has become; say what came of it."""
    path.write_bytes(content)
    threads, begin = threading.active_count(), time.process_time()
    tracemalloc.start()
    try:
        model = load_model(path)
    except InputError as error:
        said = str(error)
        assert said.startswith(f"{path}: not a usable cutplane model: ")
        assert len(said) < len(str(path)) + 400
        assert said.isprintable()
        return "refused"
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 100 * len(content) + BYTES_EACH
        assert time.process_time() - begin < SECONDS_EACH
    check_certificates(model)
    with np.errstate(all="ignore"):  # some weights are huge
        use(model)
    assert time.process_time() - begin < SECONDS_EACH
    assert threading.active_count() <= threads + default_threads()
    save_model(model, path)
    again = load_model(path)
    assert repr(again.certificate_) == repr(model.certificate_)
    assert np.array_equal(dense(again.coef_), dense(model.coef_))
    return "loaded"


def check_certificates(model):
    found = model.certificate_
    for certificate in found if isinstance(found, list) else [found]:
        assert math.isfinite(certificate.objective)
        if certificate.status is cp.Status.INCONSISTENT:
            assert not certificate.valid
        else:
            assert certificate.lower_bound <= certificate.objective
        if certificate.status.success:
            assert certificate.relative_gap <= model.tol * 1.01
            assert certificate.valid == (certificate.status is cp.Status.OPTIMAL)


def dense(array):
    return array.toarray() if scipy.sparse.issparse(array) else array


def use(model):
    """Predict by all means that a model has, and check that numbers are finite."""
    repr(model)
    ordinary = weight_of(model) < ORDINARY
    if isinstance(model, cp.StructuredPredictor):
        # Scores of huge weights may overflow, and HiGHS takes finite ones only.
        with contextlib.nullcontext() if ordinary else contextlib.suppress(ValueError):
            assert len(model.predict([structured_input(model.model_)])) == 1
        return
    if isinstance(model, cp.SequenceTagger):
        X = tagger_input(model)
        assert {*model.predict(X)[0].tolist()} <= {*model.classes_.tolist()}
        if hasattr(model, "predict_marginals") and ordinary:
            assert np.isfinite(model.predict_marginals(X)[0]).all()
        return
    X = np.linspace(-1.0, 1.0, 3 * model.n_features_in_).reshape(3, -1)
    for name in ("predict", "decision_function", "predict_proba", "score_samples"):
        if hasattr(model, name):
            found = getattr(model, name)(named(X, model))
            assert len(found) == 3
            if found.dtype.kind == "f" and ordinary:
                assert np.isfinite(found).all(), name


def named(X, model):
    if not hasattr(model, "feature_names_in_"):
        return X
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(X, columns=model.feature_names_in_)


def weight_of(model):
    names = ("coef_", "intercept_", "offset_", "thresholds_", "transitions_", "start_", "end_")
    parts = [dense(getattr(model, name, 0.0)) for name in names]
    return max(float(np.abs(part).max(initial=0.0)) for part in map(np.asarray, parts))


def tagger_input(tagger):
    if tagger.vectorizer_ is None:
        return [np.linspace(-1.0, 1.0, 2 * tagger.n_features_in_).reshape(2, -1)]
    if isinstance(tagger.vectorizer_, TemplateVectorizer):
        return [[["the"] * tagger.vectorizer_.n_columns] * 2]
    return [[{"w": "a"}, dict.fromkeys(tagger.vectorizer_.feature_names_[:3], 0.5)]]


def structured_input(model):
    match model:
        case cp.TreeModel():
            edges = np.ones((2, model.n_edge_features))
            return cp.Tree(np.ones((2, model.n_features)), [-1, 0], edges)
        case cp.GraphModel():
            edges = [[0, 1], [1, 2], [2, 0]]
            features = np.ones((3, model.n_edge_features))
            return cp.Graph(np.ones((3, model.n_features)), edges, features)
        case cp.RNAFolding():
            return "GGGAAACCC"
        case _:
            return np.ones(model.n_features)


def attack_with(files, path, seeds):
    counts = Counter()
    for seed in seeds:
        try:
            content = mutated(random.Random(seed), files)
            counts[attack(path, content)] += 1
        except Exception as error:
            error.add_note(f"with the seed {seed}")
            raise
    return counts


def test_files_that_were_tampered_with(files, tmp_path):
    counts = attack_with(files, tmp_path / "model", range(400))
    assert counts["refused"] > 100
    assert counts["loaded"] > 20
    assert counts.total() == 400


@pytest.mark.slow
def test_many_files_that_were_tampered_with(files, tmp_path):
    counts = attack_with(files, tmp_path / "model", range(1000, 21_000))
    print(dict(counts))
    assert counts["refused"] > 5000
    assert counts["loaded"] > 1000
    assert counts.total() == 20_000


def test_files_as_they_were_are_loaded(files, tmp_path):
    for model, tensors in files:
        assert attack(tmp_path / "model", packed(model, tensors)) == "loaded"
