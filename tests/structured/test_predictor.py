"""`StructuredPredictor`: the estimator around any model."""

import pickle
import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.utils.estimator_checks import parametrize_with_checks

import cutplane as cp
from cutplane.compute.threads import default_threads, map_blocks, run_blocks

from .problems import PROBLEMS, trees


@parametrize_with_checks([cp.StructuredPredictor(cp.MulticlassModel(), lam=0.1, max_iter=None)])
def test_estimator_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("name", PROBLEMS)
def test_fits_every_model(name):
    model, X, Y = PROBLEMS[name](np.random.default_rng(2))
    predictor = cp.StructuredPredictor(model, lam=0.01).fit(X, Y)
    assert predictor.certificate_.valid
    assert predictor.certificate_.relative_gap <= 1e-3
    assert predictor.coef_.shape == (predictor.model_.n_parameters,)
    losses = [
        predictor.model_.loss(y, said) for y, said in zip(Y, predictor.predict(X), strict=True)
    ]
    assert predictor.score(X, Y) == -np.mean(losses)
    assert predictor.n_iter_ == len(predictor.history_)
    assert predictor.inferences_ >= predictor.evaluations_ * len(X)


def test_copies_and_files():
    model, X, Y = trees(np.random.default_rng(0))
    predictor = cp.StructuredPredictor(model, lam=0.1, n_jobs=2)
    assert clone(predictor).get_params()["lam"] == 0.1
    predictor.fit(X, Y)
    copy = pickle.loads(pickle.dumps(predictor))
    for one, other in zip(copy.predict(X), predictor.predict(X), strict=True):
        assert np.array_equal(one, other)
    assert not hasattr(clone(predictor), "coef_")


def test_grid_search():
    X, y = load_iris(return_X_y=True)
    X = np.column_stack([X, np.ones(len(X))])
    folds = KFold(3, shuffle=True, random_state=0)
    search = GridSearchCV(
        cp.StructuredPredictor(cp.MulticlassModel(), tol=0.05), {"lam": [10.0, 0.01]}, cv=folds
    ).fit(X, y)
    assert search.best_params_ == {"lam": 0.01}
    assert search.best_score_ > -0.2


def test_weights_count_as_copies():
    X, y = np.array([[1.0, 0.0], [0.5, 1.0], [-1.0, 0.3]]), [0, 1, 2]
    once = cp.StructuredPredictor(cp.MulticlassModel(), lam=0.1, tol=1e-8)
    twice = clone(once).fit(np.vstack([X, X[:1]]), [*y, 0])
    weighted = once.fit(X, y, sample_weight=[2, 1, 1])
    assert weighted.certificate_.objective == pytest.approx(twice.certificate_.objective, rel=1e-8)
    assert weighted.score(X, y, sample_weight=[2, 1, 1]) == twice.score(
        np.vstack([X, X[:1]]), [*y, 0]
    )


def test_warm_start():
    model, X, Y = trees(np.random.default_rng(0))
    predictor = cp.StructuredPredictor(model, lam=0.01, warm_start=True, tol=1e-4)
    first = predictor.fit(X, Y)
    reached, begun = first.certificate_.objective, first.history_[0].objective
    assert predictor.fit(X, Y).history_[0].objective <= reached < begun


def test_limits_warn():
    model, X, Y = trees(np.random.default_rng(0))
    with pytest.warns(ConvergenceWarning, match="iteration_limit.*raise max_iter"):
        cp.StructuredPredictor(model, max_iter=1).fit(X, Y)
    seen = []
    with pytest.warns(ConvergenceWarning, match="a callback ended the fit"):
        cp.StructuredPredictor(
            model, lam=1e-6, callbacks=[lambda state: seen.append(state.iteration) or True]
        ).fit(X, Y)
    assert seen == [1]


@pytest.mark.parametrize("n_jobs", [None, 1, 2])
def test_a_fit_keeps_to_its_threads(n_jobs, monkeypatch):
    model, X, Y = trees(np.random.default_rng(0))
    seen = []

    def watched(task, n_blocks, *, n_threads):
        seen.append(n_threads)
        run_blocks(task, n_blocks, n_threads=n_threads)

    def work(state):  # as the solver does on long vectors
        map_blocks(lambda part: None, 10**6)

    monkeypatch.setattr("cutplane.compute.threads.run_blocks", watched)
    predictor = cp.StructuredPredictor(model, lam=1, n_jobs=n_jobs, callbacks=[work]).fit(X, Y)
    assert set(seen) == {default_threads() if n_jobs is None else n_jobs}
    assert predictor.lam_ == 1.0
    assert type(predictor.lam_) is float


class NoProof(cp.TreeModel):
    exact = False


def test_a_model_without_proof():
    _, X, Y = trees(np.random.default_rng(0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        predictor = cp.StructuredPredictor(NoProof(), lam=0.1).fit(X, Y)
    assert not predictor.certificate_.valid
    assert predictor.certificate_.status is cp.Status.STATIONARY


class FailsToPredict(cp.MulticlassModel):
    def inference(self, x, w):
        if x[0] == 2.0:
            raise RuntimeError("no idea")
        return super().inference(x, w)


def test_errors():
    with pytest.raises(NotFittedError, match="StructuredPredictor instance is not fitted yet"):
        cp.StructuredPredictor(cp.MulticlassModel()).predict([[1.0]])
    with pytest.raises(TypeError, match="str is no structured model"):
        cp.StructuredPredictor("trees").fit([[1.0]], [1])
    with pytest.raises(TypeError, match="a sparse matrix is no list of examples"):
        cp.StructuredPredictor(cp.MulticlassModel()).fit(csr_array(np.eye(2)), [0, 1])
    predictor = cp.StructuredPredictor(FailsToPredict()).fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(RuntimeError, match="no idea") as caught:
        predictor.predict([[1.0], [2.0]])
    assert caught.value.__notes__ == ["raised by inference of example 1"]


def test_progress_is_printed(capsys):
    model, X, Y = trees(np.random.default_rng(0))
    cp.StructuredPredictor(model, lam=0.1, verbose=1).fit(X, Y)
    assert "gap" in capsys.readouterr().out
