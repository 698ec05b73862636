"""Taggers whose weights are sparse: CRFsuite's c1 and c2, exact zeros, files, refusals."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import cutplane as cp
from cutplane.models.tagging.tagger import LOSSES

from .sequences import Sequences

WORDS = [["the", "old", "cat", "sees", "a", "dog"], ["a", "dog", "sleeps"], ["dogs", "bark"]]
TAGS = [["D", "A", "N", "V", "D", "N"], ["D", "N", "V"], ["N", "V"]]
NAMED = [[{"word": word, "s": word.endswith("s")} for word in words] for words in WORDS]
PENALTIES = {"l1": {}, "elasticnet": {"l1_ratio": 0.7}}
every_penalty = pytest.mark.parametrize("penalty", [*PENALTIES])
every_loss = pytest.mark.parametrize("loss", [*LOSSES])


@pytest.fixture(scope="module")
def data():
    return Sequences()


@every_loss
@every_penalty
def test_the_objective_is_that_of_c1_and_c2(loss, penalty, data):
    c1, c2 = (0.6, 0.0) if penalty == "l1" else (0.6, 0.1)
    lam = (c1 + 2 * c2) / len(data.X)
    share = {} if penalty == "l1" else {"l1_ratio": c1 / (c1 + 2 * c2)}
    tagger = cp.SequenceTagger(loss, lam=lam, penalty=penalty, **share).fit(data.X, data.y)
    rest = tagger.transitions_, tagger.start_, tagger.end_
    w = np.concatenate([tagger.coef_.ravel(), *(each.ravel() for each in rest)])
    losses = 0.0
    for X, y in zip(data.X, data.y, strict=True):
        labels = np.searchsorted(tagger.classes_, y)
        risk = cp.ChainRisk(X, labels, [0, len(X)], LOSSES[loss](), n_labels=3, ends=True)
        losses += risk.at(w).value
    theirs = losses + c1 * np.abs(w).sum() + c2 * w @ w
    assert tagger.certificate_.objective * len(data.X) == pytest.approx(theirs, rel=1e-9)
    assert tagger.certificate_.status is cp.Status.OPTIMAL
    assert tagger.certificate_.relative_gap <= tagger.tol
    assert tagger.lam_ == lam
    assert (w == 0.0).any()


def test_auto_takes_the_method_for_smooth_losses(data):
    tagger = cp.SequenceTagger(lam=0.01, penalty="l1").fit(data.X, data.y)
    assert tagger.method_ == "sparse-quasi-newton"
    same = cp.SequenceTagger(lam=0.01, penalty="l1", method="sparse-quasi-newton")
    np.testing.assert_array_equal(same.fit(data.X, data.y).coef_, tagger.coef_)


@every_penalty
def test_weights_of_named_features_store_no_zeros(penalty, tmp_path):
    tagger = cp.SequenceTagger(lam=0.1, penalty=penalty, **PENALTIES[penalty]).fit(NAMED, TAGS)
    assert sp.issparse(tagger.coef_)
    assert (tagger.coef_.data != 0.0).all()
    plain = cp.SequenceTagger(lam=0.1).fit(NAMED, TAGS)
    assert 0 < tagger.coef_.nnz < plain.coef_.nnz
    assert len(tagger.state_features_) == tagger.coef_.nnz
    path = tmp_path / "tagger.cutplane"
    cp.save_model(tagger, path)
    loaded = cp.load_model(path)
    assert loaded.get_params()["penalty"] == penalty
    for mine, theirs in zip(tagger.predict(NAMED), loaded.predict(NAMED), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    again = clone(tagger).set_params(warm_start=True)
    assert again.fit(NAMED, TAGS).fit(NAMED, TAGS).certificate_.relative_gap <= again.tol


def test_coefficients_of_matrices_can_be_made_sparse(data):
    tagger = cp.SequenceTagger(lam=0.05, penalty="l1").fit(data.X, data.y)
    before, coef = tagger.predict(data.X), tagger.coef_
    tagger.sparsify()
    assert sp.issparse(tagger.coef_)
    for mine, theirs in zip(before, tagger.predict(data.X), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(tagger.densify().coef_, coef)


def test_a_strong_penalty_leaves_nothing(data):
    with pytest.warns(cp.ConstantModelWarning):
        tagger = cp.SequenceTagger(lam=1e3, penalty="l1").fit(data.X, data.y)
    assert not tagger.coef_.any()
    assert not tagger.transitions_.any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"penalty": "lasso"}, "unknown penalty 'lasso'"),
        ({"penalty": "elasticnet", "l1_ratio": 1.5}, "l1_ratio must be a number from 0 to 1"),
        ({"penalty": "l1", "method": "quasi-newton"}, "needs a quadratic regularizer"),
    ],
)
def test_what_makes_no_sense_is_refused(options, message, data):
    with pytest.raises(ValueError, match=message):
        cp.SequenceTagger(**options).fit(data.X, data.y)


def test_a_share_without_effect_is_said(data):
    with pytest.warns(cp.UnusedParameterWarning, match="l1_ratio=0.2 has no effect"):
        cp.SequenceTagger(lam=0.1, l1_ratio=0.2).fit(data.X, data.y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cp.SequenceTagger(lam=0.1, penalty="elasticnet", l1_ratio=0.2).fit(data.X, data.y)
