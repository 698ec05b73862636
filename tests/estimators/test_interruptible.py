"""Ctrl-C in a fit: on its own it keeps the best model, in a search it ends the search."""

import signal

import numpy as np
import pytest
from joblib import Parallel, delayed
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import cutplane as cp
from cutplane.core import interrupts


@pytest.fixture(autouse=True)
def pythons_own_handler():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5))
    return X, X @ rng.normal(size=5) + rng.normal(size=60)


class Press:
    """A callback that presses Ctrl-C once, at an iteration, and counts fits."""

    def __init__(self, iteration=2):
        self.iteration = iteration
        self.pressed = 0
        self.fits = 0

    def __call__(self, state):
        self.fits += state.iteration == 1
        if state.iteration == self.iteration and not self.pressed:
            self.pressed += 1
            signal.raise_signal(signal.SIGINT)

    def __deepcopy__(self, memo):
        return self


def regressor(press):
    return cp.LinearRegressor("absolute", lam=1e-3, tol=1e-9, method="bmrm", callbacks=[press])


def test_a_fit_on_its_own_keeps_its_model(data):
    with pytest.warns(ConvergenceWarning, match="interrupted.*the best model so far was kept"):
        model = regressor(Press()).fit(*data)
    assert model.certificate_.status == "interrupted"
    assert model.n_iter_ == 2


def test_those_that_fit_one_model_pass_it_on(data):
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = make_pipeline(StandardScaler(), regressor(Press())).fit(*data)
    assert model[-1].certificate_.status == "interrupted"
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = TransformedTargetRegressor(regressor(Press()), func=None).fit(*data)
    assert model.regressor_.certificate_.status == "interrupted"


def _search(estimator, X, y):
    return GridSearchCV(estimator, {"lam": [1e-1, 1e-2, 1e-3]}, cv=2).fit(X, y)


def _score_pipeline(estimator, X, y):
    return cross_val_score(make_pipeline(StandardScaler(), estimator), X, y, cv=3)


def _many_outputs(estimator, X, y):
    return MultiOutputRegressor(estimator).fit(X, np.column_stack([y, -y]))


def _one_vs_rest(estimator, X, y):
    options = {"callbacks": estimator.callbacks, "method": "bmrm", "tol": 1e-9}
    one = cp.LinearClassifier(lam=1e-3, **options)
    return OneVsRestClassifier(one).fit(X, np.digitize(y, [-1.0, 1.0]))


def _by_joblib(estimator, X, y):
    return Parallel(n_jobs=1)(delayed(estimator.fit)(X, y) for _ in range(3))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "search", [_search, _score_pipeline, _many_outputs, _one_vs_rest, _by_joblib]
)
def test_the_first_one_ends_a_search(search, data):
    press = Press()
    with pytest.raises(KeyboardInterrupt):
        search(regressor(press), *data)
    assert press.fits == 1


def test_one_when_the_fit_is_as_good_as_done_ends_a_search_too(data, monkeypatch):
    # After the last look at it: the fit is optimal, and the search must not go on all the same.
    monkeypatch.setattr("cutplane.estimators.fit.warn_unless_successful", _press_again)
    press = Press(iteration=None)
    with pytest.raises(KeyboardInterrupt):
        _search(regressor(press).set_params(tol=1e-3), *data)
    assert press.fits == 1


def _press_again(*arguments, **options):
    signal.raise_signal(signal.SIGINT)


def test_problems_that_are_left_get_one_iteration_each(data, monkeypatch):
    # Pressed after the first problem was solved: its status does not tell.
    X, y = data
    minimize, runs = cp.minimize, []

    def run(*arguments, **options):
        runs.append(minimize(*arguments, **options))
        if len(runs) == 1:
            signal.raise_signal(signal.SIGINT)
        return runs[-1]

    monkeypatch.setattr("cutplane.estimators.fit.minimize", run)
    classes = np.digitize(y, [-1.0, 1.0])
    with pytest.warns(ConvergenceWarning, match="interrupted in 2 of 3"):
        model = cp.LinearClassifier(lam=1e-3, tol=1e-6).fit(X, classes)
    assert [certificate.status for certificate in model.certificate_] == [
        "optimal",
        "interrupted",
        "interrupted",
    ]
    assert all(len(history) <= 1 for history in model.history_[1:])
    assert all(certificate.valid for certificate in model.certificate_)


def test_a_second_one_ends_the_fit(data, monkeypatch):
    monkeypatch.setattr(interrupts, "ONE_PRESS", 0.0)

    def press_on(state):
        signal.raise_signal(signal.SIGINT)

    X, y = data
    with pytest.raises(KeyboardInterrupt):
        cp.LinearClassifier(lam=1e-3, tol=1e-6, callbacks=[press_on]).fit(
            X, np.digitize(y, [-1.0, 1.0])
        )
