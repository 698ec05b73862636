"""What every estimator of the registry does alike: a new one is tested here at once."""

import copy
import inspect
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import cutplane as cp
from cutplane.estimators import ESTIMATORS
from cutplane.estimators.description import entries_of
from cutplane.io import load_model, save_model

from .registered import data_for, fitted, made, plain_methods

registered = pytest.mark.parametrize("of", ESTIMATORS.values(), ids=ESTIMATORS)

LEFT_BY_A_FIT = {
    "certificate_",
    "evaluations_",
    "fit_seconds_",
    "history_",
    "lam_",
    "method_",
    "n_iter_",
}


def as_list(value):
    return value if isinstance(value, list) else [value]


@registered
def test_a_fit_leaves_its_attributes(of):
    model = fitted(of)
    assert set(vars(model)) >= LEFT_BY_A_FIT
    certificates, n_iter = as_list(model.certificate_), np.atleast_1d(model.n_iter_)
    assert all(certificate.relative_gap <= model.tol for certificate in certificates)
    assert len(as_list(model.method_)) == len(n_iter) == len(certificates)
    assert all(n_iter >= 1)
    assert model.evaluations_ >= 1
    assert model.fit_seconds_ > 0.0
    assert model.lam_ > 0.0


@registered
def test_the_method_has_its_name(of):
    name, other = plain_methods(of)
    assert set(as_list(fitted(of, method=name).method_)) == {name}
    # NBM takes long for the last digits where the risk is not convex.
    loose = {} if other.name != "nbm" else {"tol": 0.1}
    assert set(as_list(fitted(of, method=other, **loose).method_)) == {other.name}
    assert set(as_list(fitted(of, method=None).method_)) == set(as_list(fitted(of).method_))
    mistyped = {"bmrm": "bmmr", "nrbm": "nrmb"}[name]
    with pytest.raises(ValueError, match=f"unknown method '{mistyped}': did you mean '{name}'"):
        fitted(of, method=mistyped)


@registered
def test_callbacks_see_every_iteration_and_may_end_the_fit(of):
    seen = []
    model = fitted(of, callbacks=[seen.append])
    assert len(seen) == np.sum(model.n_iter_)
    with pytest.warns(ConvergenceWarning, match="a callback ended the fit"):
        model = fitted(of, callbacks=[lambda state: True], tol=1e-12, method=plain_methods(of)[0])
    assert all(n_iter == 1 for n_iter in np.atleast_1d(model.n_iter_))


@registered
def test_limits(of):
    # A first bundle of planes cannot be this good.
    with pytest.warns(ConvergenceWarning, match=f"^{of.__name__} ended with status iteration_lim"):
        model = fitted(of, max_iter=1, tol=1e-12, method=plain_methods(of)[0])
    assert {certificate.status for certificate in as_list(model.certificate_)} == {
        cp.Status.ITERATION_LIMIT
    }
    with pytest.warns(ConvergenceWarning, match="status time_limit"):
        fitted(of, time_limit=1e-9, tol=1e-12, method=plain_methods(of)[0])


@registered
@pytest.mark.parametrize(
    ("name", "value"),
    [("tol", 0.0), ("max_iter", 0), ("time_limit", -1.0), ("n_jobs", 0), ("callbacks", print)],
)
def test_parameters_are_checked(of, name, value):
    with pytest.raises(ValueError, match=f"^{name} must be "):
        fitted(of, **{name: value})


@registered
def test_progress_is_printed(of, capsys):
    fitted(of, verbose=1)
    assert capsys.readouterr().out


@registered
def test_a_model_comes_back_from_a_file(of, tmp_path):
    model, (X, _, _) = fitted(of), data_for(of)
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert type(loaded).__name__ == (of.description.becomes or of.__name__)
    assert loaded.certificate_ == model.certificate_
    assert loaded.lam_ == model.lam_
    for one, other in zip(loaded.predict(X), model.predict(X), strict=True):
        np.testing.assert_array_equal(one, other)


@registered
def test_estimators_are_copied_as_scikit_learn_does_it(of):
    model = made(of, verbose=1)
    first, *others = inspect.signature(of).parameters.values()
    assert first.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    assert all(parameter.kind is inspect.Parameter.KEYWORD_ONLY for parameter in others)
    assert {"tol", "max_iter", "time_limit", "method", "verbose", "n_jobs", "callbacks"} <= {
        parameter.name for parameter in others
    }
    for again in (clone(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert type(again) is of
        assert repr(again) == repr(model)
    assert model.set_params(tol=0.5).get_params()["tol"] == 0.5
    assert of.__name__ in model._repr_html_()


@registered
def test_the_docstring_has_all_parameters_and_attributes_once(of):
    doc = inspect.getdoc(of)
    assert set(entries_of(doc, "Parameters")) == set(inspect.signature(of).parameters)
    attributes = entries_of(doc, "Attributes")
    assert set(attributes) >= LEFT_BY_A_FIT
    model = fitted(of)
    sometimes = {"feature_names_in_", "positive_class_"}
    sometimes |= {"start_certificate_", "start_objectives_", "pretraining_"}
    sometimes |= {"lams_", "scores_", "path_certificates_"}  # with lam="cv"
    sometimes |= {"lam_proof_"}  # with certified=...
    sometimes |= {"clip_", "width_"}  # of losses that give up
    sometimes |= {"landmark_loss_", "log_marginal_likelihood_", "prior_scale_"}  # of kernels
    assert all(hasattr(model, name) for name in set(attributes) - sometimes)
    for title in ("Parameters", "Attributes", "Examples"):
        assert doc.count(f"\n{title}\n{'-' * len(title)}\n") == 1
