"""Gaussian process classification: Laplace's posterior beside scikit-learn's."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import erf, expit
from scipy.stats import norm
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

import cutplane as cp
from cutplane.models.gram.newton import mean_probability


def data(m=120, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(m, 3))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * random.normal(size=m)


def process(C, m, **options):
    options = {"gamma": 0.5, "fit_intercept": False, "tol": 1e-10} | options
    return cp.KernelClassifier("logistic", lam=1 / (C * m), posterior=True, **options)


@pytest.mark.parametrize("C", [0.5, 4.0, 50.0])
def test_agrees_with_scikit_learn(C):
    X, z = data()
    new = np.random.default_rng(1).normal(size=(60, 3)) * 2
    theirs = GaussianProcessClassifier(ConstantKernel(C) * RBF(1.0), optimizer=None)
    theirs.fit(X, z > 0)
    ours = process(C, len(X)).fit(X, z > 0)
    assert ours.log_marginal_likelihood_ == pytest.approx(
        theirs.log_marginal_likelihood_value_, rel=1e-6
    )
    mean, variance = theirs.latent_mean_and_variance(new)
    np.testing.assert_allclose(ours.decision_function(new), mean, atol=1e-4)
    expected = mean_probability(mean, variance)
    np.testing.assert_allclose(ours.predict_proba(new)[:, 1], expected, atol=1e-4)
    # scikit-learn replaces the logistic function by five error functions, which costs 3e-4.
    np.testing.assert_allclose(ours.predict_proba(new), theirs.predict_proba(new), atol=3e-4)


def five_error_functions(mean, variance):
    """Return scikit-learn's approximate mean of the logistic function (Williams and Barber 1998).

    The logistic function is replaced by a sum of error functions, whose mean over a normal
    distribution is known.
    """
    widths = np.array([0.41, 0.4, 0.37, 0.44, 0.39])[:, None]
    heights = np.array([-1854.8214151, 3516.89893646, 221.29346712, 128.12323805, -2010.49422654])
    means = erf(widths * mean / np.sqrt(1.0 + 2.0 * widths**2 * variance))
    return 0.5 * heights @ (1.0 + means)


@pytest.mark.parametrize("C", [0.5, 4.0, 50.0])
def test_only_the_mean_of_the_logistic_function_differs_from_scikit_learn(C):
    X, z = data()
    new = np.random.default_rng(2).normal(size=(60, 3)) * 2
    theirs = GaussianProcessClassifier(ConstantKernel(C) * RBF(1.0), optimizer=None)
    theirs.fit(X, z > 0)
    ours = process(C, len(X), tol=1e-13).fit(X, z > 0)
    mean = ours.decision_function(new)
    kernel = ours._kernel()
    variance = ours._posteriors[0].variances(
        kernel.between(new, ours.support_vectors_), kernel.of_pairs(new)
    )
    their_mean, their_variance = theirs.latent_mean_and_variance(new)
    np.testing.assert_allclose(mean, their_mean, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(variance, their_variance, rtol=1e-5, atol=1e-5)
    found = five_error_functions(mean, variance)
    np.testing.assert_allclose(found, theirs.predict_proba(new)[:, 1], atol=1e-5)
    np.testing.assert_allclose(ours.predict_proba(new)[:, 1], mean_probability(mean, variance))


@pytest.mark.parametrize("mean", [-30.0, -2.0, 0.0, 0.7, 5.0])
@pytest.mark.parametrize("deviation", [0.0, 0.01, 0.5, 1.0, 1.01, 4.0, 100.0])
def test_mean_probability_is_an_integral(mean, deviation):
    found = mean_probability(np.array([mean]), np.array([deviation**2]))[0]
    if deviation == 0.0:
        expected = expit(mean)
    else:
        expected = quad(
            lambda f: expit(f) * norm.pdf(f, mean, deviation),
            mean - 12 * deviation,
            mean + 12 * deviation,
            points=[mean, min(max(0.0, mean - 11 * deviation), mean + 11 * deviation)],
            epsabs=1e-13,
            limit=500,
        )[0]
    assert found == pytest.approx(expected, abs=1e-8)


def test_likelihood_finds_a_sensible_width():
    X, z = data(150)
    likelihood = {
        gamma: process(10.0, 150, gamma=gamma).fit(X, z > 0).log_marginal_likelihood_
        for gamma in (1e-3, 0.5, 1e3)
    }
    assert max(likelihood, key=likelihood.get) == 0.5


def test_less_sure_far_away_and_with_several_classes(tmp_path):
    X, z = data()
    y = np.digitize(z, [-0.5, 0.5])
    model = process(20.0, len(X), fit_intercept=True).fit(X, y, sample_weight=np.full(len(X), 1.0))
    assert model.log_marginal_likelihood_.shape == (3,)
    plain = cp.KernelClassifier("logistic", lam=model.lam_, gamma=0.5, tol=1e-10).fit(X, y)
    averaged, likely = model.predict_proba(X), plain.predict_proba(X)
    np.testing.assert_allclose(averaged.sum(axis=1), 1.0)
    assert averaged.max() < likely.max()
    cp.save_model(model, tmp_path / "m")
    np.testing.assert_allclose(cp.load_model(tmp_path / "m").predict_proba(X), averaged, rtol=1e-12)
    binary = process(20.0, len(X)).fit(X, z > 0)
    np.testing.assert_allclose(binary.predict_proba(X + 100.0), 0.5)


def test_what_it_needs():
    X, z = data(20)
    with pytest.raises(ValueError, match="needs loss='logistic'"):
        cp.KernelClassifier(posterior=True).fit(X, z > 0)
    with pytest.raises(ValueError, match="does not tell"):
        cp.KernelClassifier("logistic", kernel="precomputed", posterior=True).fit(X @ X.T, z > 0)
