"""Model files of taggers: what is saved comes back, what does not fit together is refused."""

import json

import numpy as np
import pytest
import scipy.sparse
from safetensors.numpy import load, save

import cutplane as cp
from cutplane.io import InputError, load_model, save_model
from cutplane.io.models.files import Content

COLUMNS = [[("the", "D"), ("cat", "N"), ("sleeps", "V")], [("dogs", "N"), ("bark", "V")]]
LABELS = [["B-NP", "I-NP", "O"], ["B-NP", "O"]]
DICTIONARIES = [[{"word": word, "size": len(word)} for word, _ in x] for x in COLUMNS]
STRINGS = [[[word, tag] for word, tag in x] for x in COLUMNS]
MATRICES = [np.arange(12.0).reshape(3, 4) % 5, np.eye(2, 4)]
SPARSE = [scipy.sparse.csr_array(X) for X in MATRICES]

FORMS = {
    "templates": ({"templates": "chunking", "pairs": "observed", "min_count": 1}, COLUMNS),
    "own-templates": ({"templates": "U1:%x[0,0]\nU2:%x[1,1]\nB"}, COLUMNS),
    "dictionaries": ({"pairs": "observed"}, DICTIONARIES),
    "strings": ({}, STRINGS),
    "matrices": ({"fit_ends": False}, MATRICES),
    "sparse": ({"pairs": "observed"}, SPARSE),
}
in_every_form = pytest.mark.parametrize(("options", "X"), FORMS.values(), ids=FORMS)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "tagger.model"


@in_every_form
def test_comes_back(file, options, X):
    fitted = cp.SequenceTagger("crf", lam=0.1, **options).fit(X, LABELS)
    save_model(fitted, file)
    loaded = load_model(file)
    assert isinstance(loaded, cp.SequenceTagger)
    assert loaded.get_params() == fitted.get_params()
    assert loaded.certificate_ == fitted.certificate_
    assert loaded.n_features_in_ == fitted.n_features_in_
    assert loaded.lam_ == 0.1
    assert scipy.sparse.issparse(loaded.coef_) == scipy.sparse.issparse(fitted.coef_)
    for one, other in zip(loaded.predict_marginals(X), fitted.predict_marginals(X), strict=True):
        np.testing.assert_array_equal(one, other)
    assert loaded.score(X, LABELS) == fitted.score(X, LABELS)


@pytest.mark.parametrize("options", [{}, {"lam": 0.3}, {"C": 2.0}], ids=repr)
def test_lam_comes_back(file, options):
    fitted = cp.SequenceTagger("crf", **options).fit(MATRICES, LABELS)
    save_model(fitted, file)
    loaded = load_model(file)
    assert loaded.lam_ == fitted.lam_
    assert loaded.get_params() == fitted.get_params()


@in_every_form
def test_a_fit_may_start_from_a_file(file, options, X):
    tagger = cp.SequenceTagger("crf", lam=0.1, warm_start=True, **options).fit(X, LABELS)
    save_model(tagger, file)
    loaded = load_model(file)
    assert loaded.state_features_ == tagger.state_features_
    assert loaded.fit(X, LABELS).n_iter_ <= 2 < tagger.n_iter_


def test_files_without_lam_are_read(file):
    save_model(cp.SequenceTagger("crf", lam=1).fit(MATRICES, LABELS), file)
    forge(file, lam=None)
    assert load_model(file).lam_ == 1.0


def test_labels_may_be_numbers_and_only_one(file):
    fitted = cp.SequenceTagger().fit([np.eye(2)], [[7, 7]])
    save_model(fitted, file)
    assert load_model(file).predict([np.eye(2)])[0].tolist() == [7, 7]


def test_trailing_features_that_never_occur_are_kept(file):
    X = [scipy.sparse.csr_array(np.eye(2, 5))]
    save_model(cp.SequenceTagger(pairs="observed").fit(X, [["a", "b"]]), file)
    assert load_model(file).n_features_in_ == 5
    assert load_model(file).predict(X)[0].tolist() == ["a", "b"]


def test_names_that_are_no_strings_are_not_saved(file):
    fitted = cp.SequenceTagger().fit([[{1: 2.0}, {3: 1.0}]], [["a", "b"]])
    with pytest.raises(TypeError, match="names that are no strings"):
        save_model(fitted, file)
    assert not file.exists()


def forge(file, *, parameters=(), **changes):
    """Change parts of a file, with the right digest."""
    content = file.read_bytes()
    length = int.from_bytes(content[:8], "little")
    document = json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["cutplane"])
    model, tensors = document["model"], load(content)
    model["parameters"] |= dict(parameters)
    for name, value in changes.items():
        if value is None:
            del tensors[name]
        else:
            tensors[name] = np.asarray(value)
    document = {"model": model, "sha256": Content(model, tensors).digest()}
    file.write_bytes(save(tensors, metadata={"cutplane": json.dumps(document)}))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"start": None}, "arrays"),
        ({"more": np.ones(2)}, "arrays"),
        ({"coef_labels": None}, "arrays"),
        ({"start": np.array([np.nan, 0.0, 0.0])}, "start has weights that are not finite"),
        ({"start": np.zeros(3, dtype=np.float32)}, "no float64"),
        ({"start": np.zeros(4)}, "for 3 classes"),
        ({"lam": np.array([0.0])}, "lam is no positive number"),
        ({"lam": np.array([np.nan])}, "lam is no positive number"),
        ({"lam": np.ones(2)}, "lam is no positive number"),
        ({"lam": None, "parameters": {"lam": "much"}}, "Expected"),
        ({"transitions": np.zeros((2, 3))}, "for 3 classes"),
        ({"coef": np.zeros(2)}, "do not fit together"),
        ({"coef_starts": np.array([0, 1])}, "do not fit together"),
        ({"coef_starts": np.array([0.5, 1])}, "not whole numbers"),
        ({"coef_starts": np.array([], dtype=np.int64)}, "not whole numbers"),
        (
            {"features": np.frombuffer(b"[1]", dtype=np.uint8)},
            "Expected `str`, got",
        ),
        ({"features": np.frombuffer(b"[", dtype=np.uint8)}, "not readable"),
        ({"features": np.ones(3)}, "not readable"),
        ({"features": np.frombuffer(b'["a"]', dtype=np.uint8)}, "1 names for"),
        ({"features": None}, "templates without names"),
        ({"parameters": {"loss": "hinge"}}, "Invalid enum value 'hinge'"),
        ({"parameters": {"pairs": "some"}}, "unknown pairs 'some'"),
        ({"parameters": {"pairs": "all"}}, "arrays"),
        ({"parameters": {"templates": "nonsense"}}, "a template begins with U"),
        ({"parameters": {"templates": 3}}, "templates"),
        ({"parameters": {"min_count": 0}}, "min_count"),
        ({"parameters": {"min_count": "x"}}, "min_count"),
    ],
    ids=repr,
)
def test_what_does_not_fit_together_is_refused(file, changes, said):
    options, X = FORMS["templates"]
    save_model(cp.SequenceTagger(lam=0.1, **options).fit(X, LABELS), file)
    load_model(file)
    forge(file, **changes)
    with pytest.raises(InputError, match=f"not a usable cutplane model: .*{said}"):
        load_model(file)


def test_starts_whose_differences_overflow_are_refused(file):
    options, X = FORMS["templates"]
    fitted = cp.SequenceTagger(lam=0.1, **options).fit(X, LABELS)
    save_model(fitted, file)
    most = 2**63 - 1
    starts = np.array([0, most, -most, -1, fitted.coef_.nnz])
    assert (np.diff(starts) > 0).all()
    forge(file, coef_starts=starts)
    with pytest.raises(InputError, match="out of range"):
        load_model(file)


def test_names_that_are_not_different_are_refused(file):
    save_model(cp.SequenceTagger(lam=0.1).fit([[{"a": 1, "b": 2}, {"b": 1}]], [["x", "y"]]), file)
    forge(file, features=np.frombuffer(b'["a", "a"]', dtype=np.uint8))
    with pytest.raises(InputError, match="names of features are not different"):
        load_model(file)


@pytest.mark.parametrize("place", [-1, 3], ids=["negative", "too-large"])
def test_labels_out_of_range_are_refused(file, place):
    options, X = FORMS["templates"]
    fitted = cp.SequenceTagger(lam=0.1, **options).fit(X, LABELS)
    save_model(fitted, file)
    forge(file, coef_labels=np.full(fitted.coef_.nnz, place, dtype=np.int32))
    with pytest.raises(InputError, match="out of range"):
        load_model(file)
