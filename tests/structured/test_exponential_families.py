"""The loss "crf" of structured models: sums over all outputs, against lists of them."""

import cvxpy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

import cutplane as cp
from cutplane.models.structured.forests import ForestMarginals, ForestScores, parents_first
from cutplane.testing import check_model, check_risk

from .problems import (
    Objective,
    multiclass,
    multilabel,
    multilabel_tree,
    random_tree,
    trees,
    trees_with_edge_features,
)

seeds = st.integers(0, 10**6)


def forests(rng):
    """Graphs without loops: edges in any direction, some nodes alone."""

    def graph(n_nodes):
        parents = random_tree(rng, n_nodes).parents
        pairs = [(v, p) if rng.random() < 0.5 else (p, v) for v, p in enumerate(parents) if p >= 0]
        features = rng.normal(size=(len(pairs), 2))
        return cp.Graph(rng.normal(size=(n_nodes, 2)), rng.permutation(pairs), features)

    X = [graph(n) for n in (2, 5, 4)]
    return cp.GraphModel(2), X, [rng.integers(0, 2, len(x.nodes)) for x in X]


def symmetric_forests(rng):
    _, X, Y = forests(rng)
    return cp.GraphModel(2, symmetric=True), X, Y


PROBLEMS = {
    problem.__name__: problem
    for problem in (
        *(multiclass, multilabel, multilabel_tree),
        *(trees, trees_with_edge_features, forests, symmetric_forests),
    )
}
every = pytest.mark.parametrize("name", PROBLEMS)


class Likelihood(Objective):
    """``lam/2 |w|^2 - mean log p(y_i | x_i)`` from a list of all outputs of each example."""

    def _planes_of(self, x, y, rescaling):
        slopes, offsets = super()._planes_of(x, y, rescaling)
        return slopes[1:], offsets[1:]  # each output once: the true one is in the list

    def risk(self, w):
        return float(self._weights @ [logsumexp(slopes @ w) for slopes, _ in self._planes])

    def optimum(self):
        w = cvxpy.Variable(self._model.n_parameters)
        losses = [
            weight * cvxpy.log_sum_exp(slopes @ w)
            for weight, (slopes, _) in zip(self._weights, self._planes, strict=True)
        ]
        goal = cvxpy.Minimize(0.5 * self._lam * cvxpy.sum_squares(w) + sum(losses))
        cvxpy.Problem(goal).solve(solver=cvxpy.CLARABEL)
        return self(w.value)  # of any point, so never below the minimum


@every
@settings(max_examples=10)
@given(seed=seeds)
def test_expectations_are_sums_over_all_outputs(name, seed):
    problem = PROBLEMS[name](np.random.default_rng(seed))
    report = check_model(*problem, n_trials=3, seed=seed, scale=3.0)
    assert "expected_feature is the mean of all outputs" in report.passed


@every
@settings(max_examples=25)
@given(seed=seeds)
def test_value_and_planes_by_brute_force(name, seed):
    rng = np.random.default_rng(seed)
    model, X, Y = PROBLEMS[name](rng)
    weights = rng.uniform(0.0, 1.0, len(Y)) + 0.01
    risk = cp.StructuredRisk(model, X, Y, weights=weights, loss="crf")
    likelihood = Likelihood(model, X, Y, 1.0, weights)
    w, other, direction = rng.normal(size=(3, risk.n_parameters))
    point = risk.at(w)
    assert point.value == pytest.approx(likelihood.risk(w), rel=1e-11, abs=1e-12)
    for n_groups in (1, 2, 20):
        planes = point.planes(n_groups)
        at_w, at_other = (sum(p.slope @ v + p.offset for p in planes) for v in (w, other))
        assert at_w == pytest.approx(point.value, rel=1e-12, abs=1e-12)
        assert at_other <= likelihood.risk(other) + 1e-11
    ends = [likelihood.risk(w + step * direction) for step in (1e-5, -1e-5)]
    difference = (ends[0] - ends[1]) / 2e-5
    assert point.plane().slope @ direction == pytest.approx(difference, rel=1e-5, abs=1e-6)


@every
@settings(max_examples=3)
@given(seed=seeds, lam=st.sampled_from([1e-3, 0.1, 10.0]))
def test_certificate_holds(name, seed, lam):
    model, X, Y = PROBLEMS[name](np.random.default_rng(seed))
    likelihood = Likelihood(model, X, Y, lam)
    risk = cp.StructuredRisk(model, X, Y, loss="crf")
    result = cp.minimize(risk, cp.L2(lam), tol=1e-6)
    certificate, optimum = result.certificate, likelihood.optimum()
    assert certificate.valid
    assert certificate.status is cp.Status.OPTIMAL
    assert certificate.lower_bound <= optimum
    assert certificate.objective <= optimum * (1.0 + 1e-6)
    assert certificate.objective == pytest.approx(likelihood(result.w), rel=1e-11)


@pytest.mark.parametrize("method", ["bmrm", "bmrm-line-search", "grouped", "level", "proximal"])
def test_bundle_methods_certify_it_too(method):
    model, X, Y = trees(np.random.default_rng(0))
    fits = [
        cp.StructuredPredictor(model, lam=0.1, loss="crf", method=name, tol=1e-4).fit(X, Y)
        for name in (method, "auto")
    ]
    assert all(fit.certificate_.status is cp.Status.OPTIMAL for fit in fits)
    assert fits[1].method_ == "quasi-newton"
    bounds = [fit.certificate_ for fit in fits]
    assert bounds[0].lower_bound <= bounds[1].objective
    assert bounds[1].lower_bound <= bounds[0].objective


@every
def test_check_risk(name):
    risk = cp.StructuredRisk(*PROBLEMS[name](np.random.default_rng(3)), loss="crf")
    assert "convex: chords above, planes below" in check_risk(risk, n_points=5).passed


def test_classes_are_softmax():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 5)), rng.integers(0, 4, 40)
    structured = cp.StructuredRisk(cp.MulticlassModel(), X, y, loss="crf")
    linear = cp.ScoredRisk(X, y, cp.Softmax(), intercept=False)
    for w in rng.normal(size=(5, 20)):
        assert structured.at(w).value == pytest.approx(linear.at(w).value, rel=1e-12)


def test_chains_are_those_of_the_tagger():
    rng = np.random.default_rng(1)
    lengths = [4, 1, 6, 3]
    X = [rng.normal(size=(n, 3)) for n in lengths]
    y = [rng.integers(0, 3, n) for n in lengths]
    tagger = cp.SequenceTagger("crf", lam=0.1, fit_ends=False, tol=1e-8).fit(X, y)
    # The parent of a token is the one before.
    as_trees = [cp.Tree(x, np.arange(len(x)) - 1) for x in X]
    predictor = cp.StructuredPredictor(cp.TreeModel(3), lam=0.1, loss="crf", tol=1e-8)
    predictor.fit(as_trees, y)
    assert predictor.certificate_.objective == pytest.approx(
        tagger.certificate_.objective, rel=2e-8
    )
    for one, other in zip(
        predictor.predict_marginals(as_trees), tagger.predict_marginals(X), strict=True
    ):
        np.testing.assert_allclose(one, other, atol=1e-3)


def long_chain(n_nodes, *, strength):
    rng = np.random.default_rng(0)
    parents = np.arange(-1, n_nodes - 1)
    unary, pairwise = (
        strength * rng.normal(size=(n_nodes, 2)),
        strength * rng.normal(size=(1, 2, 2)),
    )
    return ForestScores(unary, pairwise, parents, parents_first(parents))


@pytest.mark.parametrize("strength", [1e-3, 1.0, 1e3])
def test_deep_trees(strength):
    scores = long_chain(100_000, strength=strength)
    found = ForestMarginals.of(scores)
    np.testing.assert_allclose(found.nodes.sum(axis=1), 1.0, rtol=1e-9)
    assert found.pairs.sum() == pytest.approx(99_999, rel=1e-9)
    # A short one against all labelings, with numbers of the same size.
    chain = long_chain(12, strength=strength)
    labelings = np.array(list(np.ndindex(*[2] * 12)))
    totals = chain.unary[np.arange(12), labelings].sum(axis=1)
    totals += chain.pairwise[0][labelings[:, :-1], labelings[:, 1:]].sum(axis=1)
    probabilities = np.exp(totals - logsumexp(totals))
    exact = np.array([[probabilities @ (labelings[:, v] == k) for k in (0, 1)] for v in range(12)])
    np.testing.assert_allclose(ForestMarginals.of(chain).nodes, exact, atol=1e-9)


def test_scores_of_any_size_give_probabilities():
    scores = long_chain(50, strength=1e200)
    found = ForestMarginals.of(scores)
    assert np.isfinite(found.nodes).all()
    assert found.entropy == pytest.approx(0.0, abs=1e-12)


def test_loops_are_refused():
    square = cp.Graph(np.ones((4, 1)), [(0, 1), (1, 2), (2, 3), (3, 0)])
    line = cp.Graph(np.ones((4, 1)), [(0, 1), (1, 2), (2, 3)])
    predictor = cp.StructuredPredictor(cp.GraphModel(), loss="crf")
    with pytest.raises(ValueError, match=r"the graph has loops: .* use loss='margin'") as caught:
        predictor.fit([line, square], [[0, 1, 0, 1]] * 2)
    assert caught.value.__notes__ == ["raised by GraphModel at example 1"]
    predictor.fit([line], [[0, 1, 0, 1]])
    with pytest.raises(ValueError, match="the graph has loops"):
        predictor.predict_marginals([square])
    assert len(predictor.predict([square])[0]) == 4  # the best labels of any graph are known


def test_what_goes_without_probabilities():
    model, X, Y = trees(np.random.default_rng(0))
    with pytest.raises(ValueError, match="unknown loss 'hinge': known are margin, crf"):
        cp.StructuredRisk(model, X, Y, loss="hinge")
    with pytest.raises(ValueError, match="rescaling='slack' is for loss='margin'"):
        cp.StructuredRisk(cp.MulticlassModel(), np.eye(2), [0, 1], loss="crf", rescaling="slack")
    with pytest.raises(
        TypeError, match=r"loss='crf' needs expected_feature\(x, w\), which RNAFold"
    ):
        cp.StructuredRisk(cp.RNAFolding(), ["GGGAAACCC"], ["(((...)))"], loss="crf")
    with pytest.raises(ValueError, match="'quasi-newton' is for smooth losses"):
        cp.StructuredPredictor(model, method="quasi-newton").fit(X, Y)
    with pytest.raises(ValueError, match=r"BlockAscent needs .* a maximum over outputs"):
        cp.StructuredPredictor(model, method="block-ascent", loss="crf").fit(X, Y)
    assert not hasattr(cp.StructuredPredictor(model), "predict_marginals")


class Uneven(cp.MulticlassModel):
    """Says something else than the mean."""

    def expected_feature(self, x, w):
        features, entropy = super().expected_feature(x, w)
        return 1.01 * features, entropy


class Unsure(cp.MulticlassModel):
    def expected_feature(self, x, w):
        features, entropy = super().expected_feature(x, w)
        return features, entropy - 5.0


def test_wrong_expectations_are_found():
    with pytest.raises(AssertionError, match="expected_feature is off by"):
        check_model(Uneven(), np.eye(3), [0, 1, 2])
    with pytest.raises(AssertionError, match="expected_feature gives the entropy"):
        check_model(Unsure(), np.eye(3), [0, 1, 2])
    risk = cp.StructuredRisk(Unsure(), np.eye(3), [0, 1, 2], loss="crf")
    with pytest.raises(ValueError, match=r"the entropy must be finite and not negative.*example 0"):
        risk.at(np.zeros(9))


def test_model_files_keep_the_loss(tmp_path):
    model, X, Y = forests(np.random.default_rng(2))
    predictor = cp.StructuredPredictor(model, lam=0.1, loss="crf").fit(X, Y)
    cp.save_model(predictor, tmp_path / "model.cutplane")
    again = cp.load_model(tmp_path / "model.cutplane")
    assert again.loss == "crf"
    for one, other in zip(again.predict_marginals(X), predictor.predict_marginals(X), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("n_jobs", [2, 3])
def test_workers_leave_no_trace(n_jobs):
    model, X, Y = trees(np.random.default_rng(1))
    fits = [
        cp.StructuredPredictor(model, lam=0.01, loss="crf", n_jobs=n).fit(X, Y) for n in (1, n_jobs)
    ]
    assert np.array_equal(fits[0].coef_, fits[1].coef_)
