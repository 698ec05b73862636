"""Model files of structured predictors: what comes back, what is refused, what cannot be saved."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load, save

import cutplane as cp
from cutplane.io import InputError, load_model, save_model
from cutplane.io.models.files import Content
from cutplane.models.structured import MODELS

from ..structured.problems import PROBLEMS
from .damage import damage

TRIANGLE = [[0, 1], [1, 2], [2, 0]]


def vectors(rng):
    return list(rng.normal(size=(6, 3)))


def trees(rng):
    return [cp.Tree(rng.normal(size=(4, 2)), [-1, 0, 0, 2]) for _ in range(5)]


def trees_with_edges(rng):
    return [x._replace(edges=rng.normal(size=(4, 3))) for x in trees(rng)]


def graphs(rng):
    return [cp.Graph(rng.normal(size=(3, 2)), TRIANGLE) for _ in range(5)]


def graphs_with_edges(rng):
    return [x._replace(edge_features=rng.normal(size=(3, 2))) for x in graphs(rng)]


def labels(rng, X):
    return [rng.integers(0, 3, len(x.nodes)) for x in X]


def label_sets(rng, X):
    return [rng.integers(0, 2, 4) for _ in X]


CASES = {
    "classes": (cp.MulticlassModel(), vectors, lambda rng, X: list("abcabc")),
    "numbers": (cp.MulticlassModel(), vectors, lambda rng, X: [1, 2, 2, 7, 7, 1]),
    "label sets": (cp.MultilabelModel(), vectors, label_sets),
    "joined labels": (cp.MultilabelModel(parents=np.array([-1, 0, 0, 2])), vectors, label_sets),
    "trees": (cp.TreeModel(), trees, labels),
    "more labels than occur": (cp.TreeModel(np.int64(4)), trees, labels),
    "trees with edges": (cp.TreeModel(3), trees_with_edges, labels),
    "graphs": (cp.GraphModel(), graphs, labels),
    "relaxed graphs": (cp.GraphModel(search="relaxed"), graphs, labels),
    "symmetric graphs": (cp.GraphModel(3, symmetric=True), graphs_with_edges, labels),
    "RNA": (
        cp.RNAFolding(missed=2.0),
        lambda rng: ["GGGAAACCC", "GCAAAAAGC"],
        lambda rng, X: ["(((...)))", "((.....))"],
    ),
}


def fitted(name):
    rng = np.random.default_rng(0)
    if name in CASES:
        model, inputs, outputs = CASES[name]
        X = inputs(rng)
        Y = outputs(rng, X)
    else:
        model, X, Y = PROBLEMS[name](rng)
    return cp.StructuredPredictor(model, lam=0.01, tol=1e-2, n_jobs=1).fit(X, Y), X, Y


@pytest.fixture
def file(tmp_path):
    return tmp_path / "structured.model"


@pytest.mark.parametrize("name", [*CASES, *(name for name in PROBLEMS if name not in CASES)])
def test_comes_back(file, name):
    predictor, X, Y = fitted(name)
    save_model(predictor, file)
    loaded = load_model(file)
    assert isinstance(loaded, cp.StructuredPredictor)
    assert type(loaded.model) is type(predictor.model)
    assert loaded.certificate_ == predictor.certificate_
    assert (loaded.lam, loaded.tol, loaded.n_jobs) == (0.01, 1e-2, 1)
    assert np.array_equal(loaded.coef_, predictor.coef_)
    for one, other in zip(loaded.predict(X), predictor.predict(X), strict=True):
        assert np.array_equal(one, other)
        assert type(one) is type(other)
    assert loaded.score(X, Y) == predictor.score(X, Y)
    content = file.read_bytes()
    save_model(loaded, file)
    assert file.read_bytes() == content
    again = loaded.fit(X, Y)
    assert again.certificate_.objective == predictor.certificate_.objective


def test_every_model_is_there():
    models = {
        type_
        for type_ in (getattr(cp, name) for name in cp.__all__)
        if isinstance(type_, type) and hasattr(type_, "loss_augmented_inference")
    } - {cp.StructuredModel}
    assert set(MODELS.values()) == models
    tried = {type(problem(np.random.default_rng(0))[0]) for problem in PROBLEMS.values()}
    assert tried | {type(model) for model, _, _ in CASES.values()} == models


class OneOfMyOwn(cp.TreeModel):
    pass


def test_models_of_ones_own_are_not_saved(file):
    _, X, Y = fitted("trees")
    own = cp.StructuredPredictor(OneOfMyOwn(), tol=0.1).fit(X, Y)
    with pytest.raises(
        TypeError, match="the code of OneOfMyOwn would not be in the file"
    ) as caught:
        save_model(own, file)
    assert "\n" not in str(caught.value)
    own.model_ = cp.RNAFolding(wrong=np.inf)
    with pytest.raises(TypeError, match="cannot save RNAFolding with wrong=inf"):
        save_model(own, file)
    assert not file.exists()


def refused(file):
    with pytest.raises(InputError) as caught:
        load_model(file)
    said = str(caught.value)
    assert "\n" not in said
    return said.removeprefix(f"{file}: not a usable cutplane model: ")


def forge(file, *, parameters=(), tensors=(), without=False, **changes):
    """Change parts of a file, with the right digest."""
    content = file.read_bytes()
    length = int.from_bytes(content[:8], "little")
    model = json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["cutplane"])["model"]
    arrays = load(content) | dict(tensors)
    model["parameters"] |= dict(parameters)
    for name, change in changes.items():
        old = model["structured"].get(name)
        model["structured"][name] = old | change if isinstance(change, dict) else change
    if without:
        del model["structured"]
    document = json.dumps({"model": model, "sha256": Content(model, arrays).digest()})
    file.write_bytes(save(arrays, metadata={"cutplane": document}))


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("trees", {"without": True}, "Object missing required field `structured`"),
        ("trees", {"kind": "Pickle"}, "Invalid value 'Pickle' - at `model.structured.kind`"),
        ("trees", {"kind": ["TreeModel"]}, "Expected `str`, got `list`"),
        ("trees", {"options": []}, "Expected `object`, got `array`"),
        ("trees", {"kind": "MultilabelModel"}, "Object contains unknown field `n_labels`"),
        ("trees", {"options": {"os": 1}}, "Object contains unknown field `os`"),
        ("trees", {"options": {"n_labels": {}}}, "Expected `bool | int | null`, got `object`"),
        ("trees", {"options": {"n_labels": "x"}}, "Expected `bool | int | null`, got `str`"),
        ("trees", {"options": {"n_labels": 2}}, "label 2 occurs, there are 2 labels"),
        ("trees", {"options": {"n_labels": 4}}, "15 weights for TreeModel with 24 parameters"),
        ("trees", {"sizes": {"labels": 0}}, "15 weights for TreeModel"),
        ("trees", {"sizes": {"labels": -1}}, "Expected `int` >= 0"),
        ("trees", {"sizes": {"n_features": 10**15}}, "no numbers up to 15"),
        ("trees", {"sizes": {"n_features": 2.0}}, "Expected `int`, got `float`"),
        ("trees", {"sizes": {"n_features": 3}}, "15 weights for TreeModel with 18 parameters"),
        ("trees", {"sizes": {"more": 3}}, "Object contains unknown field `more`"),
        ("trees", {"parameters": {"model": 1}}, "Object contains unknown field `model`"),
        ("trees", {"parameters": {"os": 1}}, "Object contains unknown field `os`"),
        ("trees", {"tensors": {"coef": np.ones(14)}}, "14 weights for TreeModel with 15"),
        ("trees", {"tensors": {"coef": np.ones((3, 5))}}, "weights are no vector of finite"),
        ("trees", {"tensors": {"coef": np.full(15, np.nan)}}, "weights are no vector of finite"),
        ("trees", {"tensors": {"coef": np.ones(15, dtype=np.int64)}}, "weights are no vector"),
        ("trees", {"tensors": {"more": np.ones(1)}}, "arrays coef, more"),
        ("graphs", {"options": {"symmetric": -1}}, "Expected `int` >= 0"),
        ("graphs", {"options": {"symmetric": 7}}, "Expected `int` <= 1"),
        ("graphs", {"options": {"symmetric": "no"}}, "Expected `bool | int`, got `str`"),
        ("graphs", {"options": {"n_labels": 10**400}}, "Expected `int` <= "),
        ("graphs", {"options": {"search": "fast"}}, "unknown search 'fast'"),
        ("joined labels", {"options": {"parents": [0, 0, 0, 0]}}, "go round in a circle"),
        ("joined labels", {"options": {"parents": [-1, 0, 0, 9]}}, "MultilabelModel cannot be"),
        ("joined labels", {"options": {"parents": [10**30] * 4}}, "Expected "),
        ("joined labels", {"options": {"parents": [-1, 0.5, 0, 0]}}, "parents are no whole"),
        ("joined labels", {"options": {"parents": [-1]}}, "1 parents for 4 labels"),
        (
            "joined labels",
            {"options": {"parents": ["x"] * 4}},
            "MultilabelModel cannot be restored",
        ),
        ("classes", {"classes": None}, "no classes"),
        ("classes", {"classes": {"values": ["a", "a", "b"]}}, "fewer than one different classes"),
        ("classes", {"classes": {"values": ["b", "a", "c"]}}, "9 weights for MulticlassModel"),
        ("classes", {"classes": {"values": ["a", "b"]}}, "9 weights for MulticlassModel with 6"),
        ("RNA", {"options": {"missed": -1.0}}, "losses must not be negative"),
        ("RNA", {"options": {"missed": "x"}}, "Expected `int | float`, got `str`"),
    ],
    ids=str,
)
def test_what_does_not_fit_together_is_refused(file, name, changes, said):
    save_model(fitted(name)[0], file)
    forge(file, **changes)
    assert said in refused(file)


@pytest.fixture(scope="module")
def graph_predictor():
    return fitted("symmetric graphs")


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32), cut=st.booleans(), flips=st.integers(1, 4))
def test_damaged_files(tmp_path_factory, graph_predictor, seed, cut, flips):
    predictor, X, _ = graph_predictor
    path = tmp_path_factory.mktemp("damaged") / "model"
    save_model(predictor, path)
    damage(path, seed, cut, flips)
    try:
        loaded = load_model(path)
    except InputError:
        assert refused(path)
    else:  # only what has no meaning was changed
        assert np.array_equal(loaded.coef_, predictor.coef_)
        assert repr(loaded.model) == repr(predictor.model)
        assert all(map(np.array_equal, loaded.predict(X), predictor.predict(X)))
