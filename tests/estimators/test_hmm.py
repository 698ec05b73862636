"""Hidden Markov models as estimators: what they learn, forms of input, awkward input, files."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import cutplane as cp
from cutplane.io import load_model, save_model

both = pytest.mark.parametrize("of", [cp.HMMClassifier, cp.HMMTagger])


def words(n, seed=0, noise=1.3):
    """Return sequences of two features that rise, fall or stay, and the words for that."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat(["down", "flat", "up"], -(-n // 3)))[:n]
    slopes = {"down": -1.0, "flat": 0.0, "up": 1.0}
    X = []
    for word in y:
        level = slopes[word] * np.linspace(-1.5, 1.5, rng.integers(5, 20))[:, None]
        # The second feature tells nothing, but its noise is not Gaussian.
        noises = np.column_stack([rng.normal(size=len(level)), rng.standard_t(2, len(level))])
        X.append(level * [1.0, 0.3] + noise * noises)
    return X, y


def sentences(n, seed=0, n_words=4):
    """Return words one after the other, and the words that frames belong to."""
    X, y = words(n * n_words, seed, noise=0.7)
    frames = [np.concatenate(X[i : i + n_words]) for i in range(0, len(X), n_words)]
    labels = [np.repeat(word, len(x)) for word, x in zip(y, X, strict=True)]
    return frames, [np.concatenate(labels[i : i + n_words]) for i in range(0, len(X), n_words)]


def data_of(of, n=24, seed=0):
    return words(n, seed) if of is cp.HMMClassifier else sentences(n // 3, seed)


def test_the_margin_makes_fewer_mistakes_than_maximum_likelihood():
    X, y = words(300)
    model = cp.HMMClassifier(3, n_components=2).fit(X, y)
    assert model.certificate_.status == "stationary"
    assert not model.certificate_.valid
    before, fresh = model.maximum_likelihood(), words(1000, seed=1)
    assert model.score(*fresh) > before.score(*fresh)
    assert model.score(X, y) > before.score(X, y)
    np.testing.assert_array_equal(before.coef_, model.likelihood_coef_)
    assert model.method_ == "nrbm"
    assert model.means_.shape == model.sds_.shape == (3, 3, 2, 2)


def test_segments_are_found():
    X, y = sentences(40)
    model = cp.HMMTagger(3).fit(X, y)
    assert model.certificate_.status == "stationary"
    fresh = sentences(30, seed=1)
    assert model.score(*fresh) > 0.5
    assert model.score(X, y) > model.maximum_likelihood().score(X, y)
    labels = model.predict(fresh[0])
    for found, segments in zip(labels, model.predict_segments(fresh[0]), strict=True):
        assert [segment.begin for segment in segments[1:]] == [s.end for s in segments[:-1]]
        assert (segments[0].begin, segments[-1].end) == (0, len(found))
        for label, begin, end in segments:
            assert set(found[begin:end]) == {label}


@pytest.mark.parametrize("covariance", ["diagonal", "shared", "full"])
@pytest.mark.parametrize("topology", ["left-to-right", "ergodic"])
@both
def test_every_kind_of_model(of, topology, covariance):
    X, y = data_of(of)
    model = of(2, n_components=2, topology=topology, covariance=covariance, tol=0.1)
    model.fit(X, y)
    assert model.score(X, y) > 0.45  # a third would be chance
    assert (model.sds_ > 0.0).all()


@both
def test_the_form_of_the_input_has_no_influence(of):
    X, y = data_of(of)
    lengths = [len(x) for x in X]
    model = of(2, tol=0.1).fit(X, y)
    flat = of(2, tol=0.1).fit(np.concatenate(X), y, lengths=lengths)
    lists = of(2, tol=0.1).fit([x.tolist() for x in X], y)
    for other in (flat, lists):
        np.testing.assert_array_equal(other.coef_, model.coef_)
    predicted = flat.predict(np.concatenate(X), lengths=lengths)
    expected = model.predict(X)
    np.testing.assert_array_equal(
        predicted, expected if of is cp.HMMClassifier else np.concatenate(expected)
    )
    assert flat.score(np.concatenate(X), y, lengths=lengths) == model.score(X, y)


def test_equal_lengths_may_be_one_array():
    X = np.random.default_rng(0).normal(size=(12, 5, 2)) + np.arange(12)[:, None, None] // 6
    y = np.arange(12) // 6
    model = cp.HMMClassifier(2).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), model.predict(list(X)))


@both
@pytest.mark.parametrize("scale", [1e-150, 1e-3, 1e15])
def test_units_have_no_influence(of, scale):
    X, y = data_of(of)
    model = of(2, tol=0.1).fit(X, y)
    shifted = [scale * (x + 3.0) for x in X]
    other = of(2, tol=0.1).fit(shifted, y)
    np.testing.assert_allclose(other.means_, scale * (model.means_ + 3.0), rtol=1e-3)
    assert other.score(shifted, y) == pytest.approx(model.score(X, y), abs=0.03)


@both
def test_threads_and_repetitions_give_the_same_bits(of):
    X, y = data_of(of, 60)
    fits = {of(2, n_jobs=n, tol=0.1).fit(X, y).coef_.tobytes() for n in (1, 2, 3, None)}
    assert len(fits) == 1


@both
def test_a_prediction_does_not_depend_on_its_neighbors(of):
    X, y = data_of(of, 60)
    model = of(2, tol=0.1).fit(X, y)
    together = model.predict(X)
    for x, expected in zip(X[:9], together[:9], strict=True):
        np.testing.assert_array_equal(model.predict([x])[0], expected)


def test_scores_of_classes():
    X, y = words(40)
    model = cp.HMMClassifier(2).fit(X, y)
    scores = model.decision_function(X)
    assert scores.shape == (40, 3)
    np.testing.assert_array_equal(model.classes_[scores.argmax(axis=1)], model.predict(X))
    two = y != "flat"
    some = [x for x, kept in zip(X, two, strict=True) if kept]
    model = cp.HMMClassifier(2).fit(some, y[two])
    up = model.decision_function(some) > 0.0
    np.testing.assert_array_equal(np.where(up, "up", "down"), model.predict(some))


@both
def test_weights(of):
    X, y = data_of(of)
    weights = np.arange(len(X)) % 3
    model = of(2, tol=0.1).fit(X, y, sample_weight=weights)
    chosen = np.repeat(np.arange(len(X)), weights)
    copies = of(2, tol=0.1).fit([X[i] for i in chosen], [y[i] for i in chosen])
    np.testing.assert_allclose(model.likelihood_coef_, copies.likelihood_coef_, atol=1e-6)


@both
def test_warm_start(of):
    X, y = data_of(of)
    model = of(2, warm_start=True).fit(X, y)
    cold, first = model.evaluations_, model.coef_
    model.fit(X, y)
    assert model.evaluations_ <= cold
    assert model.certificate_.objective <= clone(model).fit(X, y).certificate_.objective * 1.001
    assert not np.array_equal(first, model.likelihood_coef_)
    model.set_params(n_states=3).fit(X, y)  # another shape starts again
    assert model.hmms_.n_states == 3


def test_a_sequence_may_be_shorter_than_the_states():
    X, y = words(60)
    X = [x[: 1 + i % 4] for i, x in enumerate(X)]
    model = cp.HMMClassifier(6, n_components=2).fit(X, y)
    assert np.isfinite(model.decision_function(X)).all()
    assert len(model.predict([[[0.0, 0.0]]])) == 1


def test_a_class_with_one_sequence():
    X, y = words(30)
    y = np.append(y, "new")
    X = [*X, np.full((1, 2), 40.0)]
    model = cp.HMMClassifier(3, n_components=2).fit(X, y)
    assert model.predict([X[-1]]).tolist() == ["new"]
    assert np.isfinite(model.coef_).all()


@both
def test_silence(of):
    # Frames that never change have no variance: the floor is what remains.
    X, y = data_of(of)
    label = y[0] if of is cp.HMMClassifier else "silence"
    silent = np.zeros((12, 2))
    X = [*X, silent, silent]
    y = [*y, label, label] if of is cp.HMMClassifier else [*y, [label] * 12, [label] * 12]
    model = of(3, n_components=2).fit(X, y)
    assert np.isfinite(model.coef_).all()
    if of is cp.HMMTagger:
        assert set(model.predict([silent])[0]) == {"silence"}


@both
def test_all_frames_are_the_same(of):
    X = [np.ones((4, 2))] * 4
    y = ["a", "b", "a", "b"] if of is cp.HMMClassifier else [["a", "a", "b", "b"]] * 4
    model = of(2).fit(X, y)
    assert np.isfinite(model.coef_).all()
    assert model.score(X, y) >= 0.5


def test_a_feature_that_never_changes():
    X, y = words(30)
    wider = [np.column_stack([x, np.full(len(x), 7.0)]) for x in X]
    model, other = cp.HMMClassifier(2).fit(X, y), cp.HMMClassifier(2).fit(wider, y)
    np.testing.assert_allclose(other.maximum_likelihood().means_[..., :2],
                               model.maximum_likelihood().means_)  # fmt: skip
    np.testing.assert_array_equal(
        other.maximum_likelihood().predict(wider), model.maximum_likelihood().predict(X)
    )
    assert other.score(wider, y) >= other.maximum_likelihood().score(wider, y)


@both
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda X, y: ([], []), "there is no sequence to learn from: X is empty"),
        (lambda X, y: ([np.empty((0, 2)), *X[1:]], y), "sequence 0 has no frames"),
        (lambda X, y: ([X[0] * np.nan, *X[1:]], y), "contains NaN"),
        (lambda X, y: ([X[0] + np.inf, *X[1:]], y), "contains infinity"),
        (lambda X, y: ([X[0], X[1][:, :1], *X[2:]], y), "sequence 1 has 1 features, sequence 0"),
        (lambda X, y: ([[["a"], ["b"]]], y[:1]), "frames are vectors of numbers"),
        (lambda X, y: (X, y[:-1]), "^y has "),
        (lambda X, y: (X, None), "y is None"),
        (lambda X, y: (3.5, y), "."),
    ],
)  # fmt: skip
def test_awkward_input(of, change, said):
    with pytest.raises(ValueError, match=said) as caught:
        of(2).fit(*change(*map(list, data_of(of))))
    assert len(str(caught.value)) > 5


@both
def test_what_does_not_suit_the_model(of):
    X, y = data_of(of)
    model = of(2, tol=0.1)
    with pytest.raises(NotFittedError):
        model.predict(X)
    model.fit(X, y)
    with pytest.raises(ValueError, match=r"X has 3 features, but .* is expecting 2 features"):
        model.predict([np.zeros((4, 3))])
    with pytest.raises(ValueError, match="sequence 1 has no frames"):
        model.predict([X[0], np.empty((0, 2))])
    assert len(model.predict([])) == 0


def test_one_class_is_refused():
    with pytest.raises(ValueError, match="class"):
        cp.HMMClassifier(2).fit(words(3)[0], ["a", "a", "a"])


def test_one_label_is_no_question():
    X, _ = words(4)
    model = cp.HMMTagger(2).fit(X, [["a"] * len(x) for x in X])
    assert set(model.predict(X)[0]) == {"a"}


@both
@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("n_states", 0, "n_states must be a whole number above 0, got 0"),
        ("n_components", 1.5, "n_components must be a whole number above 0, got 1.5"),
        ("topology", "ring", "unknown topology 'ring': known are left-to-right, ergodic"),
        ("covariance", "diag", "unknown covariance 'diag': did you mean 'diagonal'"),
        ("margin", 0.0, "margin must be positive and finite, got 0.0"),
        ("lam", -1.0, "lam must be positive and finite, or 'cv', .*, got -1.0$"),
        ("variance_floor", 2.0, "variance_floor must be above 0 and at most 1, got 2.0"),
        ("likelihood_iter", 0, "likelihood_iter must be a whole number above 0, got 0"),
    ],
)
def test_parameters_are_checked(of, name, value, said):
    with pytest.raises(ValueError, match=said):
        of(**{name: value}).fit(*data_of(of))


@both
def test_files(of, tmp_path):
    X, y = data_of(of)
    model = of(3, n_components=2, covariance="full", topology="ergodic", tol=0.1).fit(X, y)
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    for name in ("coef_", "likelihood_coef_", "center_", "scale_", "classes_", "means_"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(model, name))
    assert loaded.hmms_ == model.hmms_
    assert loaded.get_params() == model.get_params()
    assert loaded.score(X, y) == model.score(X, y)
    assert loaded.maximum_likelihood().score(X, y) == model.maximum_likelihood().score(X, y)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"coef_": np.zeros(3)}, "n_states is no number|too few|expected"),
        ({"scale_": np.array([1.0, 0.0])}, "center and scale do not fit"),
        ({"center_": np.array([1.0])}, "center and scale do not fit"),
        ({"coef_": np.full(3, np.nan)}, "coef is no vector of finite numbers"),
        ({"n_states": 4}, "expected|too few"),
        ({"topology": "ring"}, "unknown topology"),
    ],
)
def test_files_that_contradict_themselves_are_not_written(tmp_path, change, said):
    X, y = words(12)
    model = cp.HMMClassifier(2, tol=0.1).fit(X, y)
    for name, value in change.items():
        setattr(model, name, value)
    with pytest.raises(ValueError, match=said):
        save_model(model, tmp_path / "model")


def test_cross_validation_and_pickle():
    X, y = words(45)
    model = cp.HMMClassifier(2, tol=0.1)
    assert cross_val_score(model, X, y, cv=3).mean() > 0.5
    again = pickle.loads(pickle.dumps(model.fit(X, y)))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


# Each row of a matrix is a sequence of one frame: so the checks apply to the classifier.
@parametrize_with_checks([cp.HMMClassifier(1), cp.HMMClassifier(2, n_components=2)])
def test_estimator_checks(estimator, check):
    check(estimator)
