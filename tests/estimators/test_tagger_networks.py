"""The tagger on networks: layers of the library, modules of the user's, scikit-learn's habits."""

import pickle

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

import cutplane as cp
from cutplane.io import InputError

from .sequences import Sequences
from .test_tagger import RowTagger

torch = pytest.importorskip("torch", reason="torch is not installed: the extra cutplane[torch]")


class Scaled(Sequences):
    """The same sequences with features between 0 and 1."""

    def __init__(self, **options):
        super().__init__(**options)
        self.X = [np.clip((X + 2.0) / 5.0, 0.0, 1.0) for X in self.X]


@pytest.fixture(scope="module")
def data():
    return Scaled()


def layers(hidden=(5,), **options):
    return cp.NeuralFeatures(hidden, **{"epochs": 2, "batch_size": 20} | options)


def module(seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh())


def tagger(features, loss="crf", **options):
    return cp.SequenceTagger(loss, features=features, **{"lam": 1e-2} | options)


@pytest.fixture(scope="module")
def fitted(data):
    return tagger(layers()).fit(data.X, data.y)


@pytest.mark.parametrize("loss", ["crf", "margin"])
@pytest.mark.parametrize("features", [layers(), module()], ids=["layers", "module"])
def test_learns_and_claims_no_more_than_it_knows(features, loss, data):
    model = tagger(features, loss).fit(data.X, data.y)
    assert model.certificate_.status == "stationary"
    assert not model.certificate_.valid
    assert "not linear" in model.certificate_.reason
    assert model.method_ == ("quasi-newton" if loss == "crf" else "nrbm")
    fresh = Scaled(seed=1)
    assert model.score(fresh.X, fresh.y) > 0.8
    assert model.coef_.shape == (3, 5 if isinstance(features, cp.NeuralFeatures) else 4)
    assert model.n_features_in_ == 3
    assert [len(labels) for labels in model.predict(fresh.X)] == fresh.lengths
    assert model.predict([]) == []
    assert model.inferences_ >= model.evaluations_ * len(data.X)


def test_pretraining_is_told(fitted):
    (epochs,) = fitted.pretraining_
    assert len(epochs) == 2
    assert 0.0 < epochs[-1].reconstruction_error < 1.0
    assert np.isfinite(epochs[-1]).all()


def test_marginals_and_n_best(fitted, data):
    marginals = fitted.predict_marginals(data.X[:3])
    np.testing.assert_allclose(np.vstack(marginals).sum(axis=1), 1.0)
    best = fitted.predict_n_best(data.X[:3], 2)
    assert [one[0].labels.tolist() for one in best] == [
        labels.tolist() for labels in fitted.predict(data.X[:3])
    ]


def test_no_hidden_layer_is_the_linear_chain(data):
    options = {"lam": 1e-2, "tol": 1e-5, "mean": "token"}
    linear = cp.SequenceTagger("crf", **options).fit(data.X, data.y)
    network = tagger(layers((), scale=0.0), **options).fit(data.X, data.y)
    assert network.certificate_.status == "stationary"
    assert network.certificate_.objective == pytest.approx(linear.certificate_.objective, rel=2e-5)


def test_a_mean_over_tokens_is_another_scale(data):
    length = np.mean(data.lengths)
    one = cp.SequenceTagger("crf", lam=1e-2 * length, tol=1e-6).fit(data.X, data.y)
    other = cp.SequenceTagger("crf", lam=1e-2, tol=1e-6, mean="token").fit(data.X, data.y)
    assert other.certificate_.objective * length == pytest.approx(
        one.certificate_.objective, rel=2e-6
    )


@pytest.mark.filterwarnings("ignore::cutplane.ConstantModelWarning")  # one step says a little
def test_the_center_is_where_it_begins(data):
    # With a strong regularizer nothing moves.
    own = module()
    model = tagger(own, lam=1e6).fit(data.X, data.y)
    for before, after in zip(own.parameters(), model.network_.parameters(), strict=True):
        np.testing.assert_allclose(before.detach(), after.detach(), atol=1e-4)
    np.testing.assert_allclose(model.coef_, 0.0, atol=1e-4)


def test_a_module_is_not_changed(data):
    own = module()
    before = [each.detach().clone() for each in own.parameters()]
    model = tagger(own).fit(data.X, data.y)
    assert model.features is own
    assert all((a == b).all() for a, b in zip(before, own.parameters(), strict=True))
    assert any((a != b).any() for a, b in zip(before, model.network_.parameters(), strict=True))


def test_forms_of_input(fitted, data):
    flat = np.vstack(data.X)
    predicted = fitted.predict(flat, lengths=data.lengths)
    np.testing.assert_array_equal(predicted, np.concatenate(fitted.predict(data.X)))
    sparse = fitted.predict(scipy.sparse.csr_array(flat), lengths=data.lengths)
    np.testing.assert_array_equal(sparse, predicted)
    named = [[{"a": x[0], "b": x[1], "c": x[2]} for x in X] for X in data.X]
    model = tagger(layers()).fit(named, data.y)
    assert model.score(named, data.y) == pytest.approx(fitted.score(data.X, data.y), abs=0.05)


def test_one_label(data):
    model = tagger(layers()).fit(data.X, [["red"] * len(X) for X in data.X])
    assert set(np.concatenate(model.predict(data.X))) == {"red"}


def test_parameters_and_clones(data):
    model = tagger(layers((4,), epochs=1))
    assert model.get_params()["features__hidden"] == (4,)
    copy = clone(model).set_params(features__hidden=(3, 2))
    assert copy.features.hidden == (3, 2)
    assert model.features.hidden == (4,)
    assert "NeuralFeatures(batch_size=20, epochs=1, hidden=(4,))" in repr(model.features)
    own = clone(tagger(module()))
    assert own.features is not None
    assert repr(own.features) == repr(module())


def test_chosen_by_cross_validation():
    data = Scaled(n_sequences=18)
    X, y = np.empty(18, dtype=object), np.empty(18, dtype=object)
    X[:], y[:] = data.X, data.y
    search = GridSearchCV(
        tagger(layers((2,), epochs=1), tol=1e-2), {"features__hidden": [(2,), (3,)]}, cv=2
    ).fit(X, y)
    assert search.best_estimator_.features.hidden in ((2,), (3,))


def test_pickles(fitted, data):
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(
        np.concatenate(again.predict(data.X)), np.concatenate(fitted.predict(data.X))
    )


@pytest.mark.parametrize("n_jobs", [1, 2, 3])
def test_threads_give_the_same_bits(n_jobs, fitted, data):
    model = tagger(layers(), n_jobs=n_jobs).fit(data.X, data.y)
    assert model.certificate_ == fitted.certificate_
    np.testing.assert_array_equal(model.coef_, fitted.coef_)


def test_warm_start(data):
    model = tagger(layers(), warm_start=True).fit(data.X, data.y)
    first = model.evaluations_
    objective = model.certificate_.objective
    assert model.fit(data.X, data.y).evaluations_ < first
    assert model.certificate_.objective <= objective * (1.0 + 1e-9)


def test_single_precision(data, fitted):
    model = tagger(layers(dtype="float32")).fit(data.X, data.y)
    assert model.certificate_.status == "stationary"
    assert model.certificate_.objective == pytest.approx(fitted.certificate_.objective, rel=1e-2)


def test_without_pretraining_features_may_be_any(data):
    X = [10.0 * x - 5.0 for x in data.X]
    with pytest.raises(ValueError, match="features between 0 and 1: scale X"):
        tagger(layers()).fit(X, data.y)
    model = tagger(layers(epochs=0)).fit(X, data.y)
    assert model.pretraining_ == []
    assert model.score(X, data.y) > 0.8


def test_limits_warn(data):
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        tagger(layers(), max_iter=2).fit(data.X, data.y)


def test_what_has_no_effect_is_told(data):
    with pytest.warns(cp.UnusedParameterWarning, match="pairs='observed' has no effect with a"):
        tagger(layers(), pairs="observed").fit(data.X, data.y)


@pytest.mark.parametrize("features", [layers((5, 4)), layers(()), module()], ids=repr)
def test_model_files(features, tmp_path, data):
    model = tagger(features, tol=1e-2).fit(data.X, data.y)
    path = tmp_path / "tagger.model"
    cp.save_model(model, path)
    own = None if isinstance(features, cp.NeuralFeatures) else module(seed=5)
    loaded = cp.load_model(path, features=own)
    for one, other in zip(
        loaded.predict_marginals(data.X), model.predict_marginals(data.X), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    assert loaded.certificate_ == model.certificate_
    assert loaded.n_features_in_ == 3
    if own is None:
        assert loaded.features.get_params() == model.features.get_params()
    else:
        assert loaded.features is own
        assert not torch.equal(own[0].weight, loaded.network_[0].weight)


def test_files_that_do_not_fit(tmp_path, data, fitted):
    path = tmp_path / "tagger.model"
    cp.save_model(tagger(module(), tol=1e-2).fit(data.X, data.y), path)
    with pytest.raises(InputError, match=r"give it again: load_model\(path, features=module\)"):
        cp.load_model(path)
    wrong = torch.nn.Sequential(torch.nn.Linear(3, 7), torch.nn.Tanh())
    with pytest.raises(InputError, match=r"0\.weight has shape"):
        cp.load_model(path, features=wrong)
    cp.save_model(cp.SequenceTagger().fit(data.X, data.y), path)
    with pytest.raises(InputError, match="has no network"):
        cp.load_model(path, features=module())
    cp.save_model(cp.LinearClassifier(lam=0.1).fit([[0.0], [1.0]], [0, 1]), path)
    with pytest.raises(InputError, match="only a SequenceTagger may need"):
        cp.load_model(path, features=module())


class Nan(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(3, 2)

    def forward(self, x):
        return self.inner(x) / 0.0 - self.inner(x) / 0.0


@pytest.mark.parametrize(
    ("features", "error", "said"),
    [
        (Nan(), cp.NonFiniteRisk, "scores of Sequential of .*: NaN at parameters of norm"),
        (3, TypeError, "features must be None, cp.NeuralFeatures"),
        (torch.nn.Flatten(0), ValueError, "features must make one row for each token"),
        (cp.NeuralFeatures((0,)), ValueError, "hidden must be whole numbers from 1 on"),
        (cp.NeuralFeatures(7), ValueError, "hidden must be a sequence of sizes"),
        (cp.NeuralFeatures(epochs=-1), ValueError, "epochs must be whole numbers from 0 on"),
        (cp.NeuralFeatures(scale=-1.0), ValueError, "scale must be a number, not negative"),
        (cp.NeuralFeatures(dtype="half"), ValueError, "dtype must be one of float64, float32"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_bad_networks(features, error, said, data):
    with pytest.raises(error, match=said):
        tagger(features).fit(data.X, data.y)


def test_unknown_means(data):
    with pytest.raises(ValueError, match="unknown mean 'tokens': did you mean 'token'"):
        tagger(None, mean="tokens").fit(data.X, data.y)


def test_without_effect_on_frozen_networks(data):
    own = module().requires_grad_(False)
    model = tagger(own).fit(data.X, data.y)
    assert torch.equal(own[0].weight, model.network_[0].weight)
    assert model.score(data.X, data.y) > 0.7


# Inputs near 100, as one of the checks has them, saturate sigmoid units: all tokens look alike.
@pytest.mark.filterwarnings(
    "ignore:.*gives all tokens:cutplane.estimators.cautions.ConstantModelWarning"
)
@parametrize_with_checks(
    [RowTagger("crf", lam=1e-3, tol=1e-4, features=cp.NeuralFeatures((3,), epochs=0))]
)
def test_estimator_checks(estimator, check):
    check(estimator)
