"""The structured risk: exact against all outputs, certified, the same for any number of workers."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cutplane as cp
from cutplane.testing import check_risk

from .problems import PROBLEMS, Objective, multiclass, multilabel_tree, trees

every = pytest.mark.parametrize("name", PROBLEMS)
seeds = st.integers(0, 10**6)


@every
@given(seed=seeds)
def test_value_and_planes_by_brute_force(name, seed):
    rng = np.random.default_rng(seed)
    model, X, Y = PROBLEMS[name](rng)
    weights = rng.uniform(0.0, 1.0, len(Y)) * (rng.random(len(Y)) > 0.2)
    weights[0] += 0.1
    risk = cp.StructuredRisk(model, X, Y, weights=weights)
    objective = Objective(model, X, Y, 1.0, weights)
    w, other = rng.normal(size=(2, risk.n_parameters))
    point = risk.at(w)
    assert point.value == pytest.approx(objective.risk(w), rel=1e-12, abs=1e-12)
    for n_groups in (1, 2, 3, 20):
        planes = point.planes(n_groups)
        assert len(planes) == n_groups
        at_w, at_other = (sum(p.slope @ v + p.offset for p in planes) for v in (w, other))
        assert at_w == pytest.approx(point.value, rel=1e-12, abs=1e-12)
        assert at_other <= objective.risk(other) + 1e-12


@every
@pytest.mark.parametrize("method", [cp.bmrm(), cp.bmrm(groups="auto"), cp.bmrm(line_search=False)])
@settings(max_examples=5)
@given(seed=seeds, lam=st.sampled_from([1e-3, 0.1, 10.0]))
def test_certificate_holds(name, method, seed, lam):
    model, X, Y = PROBLEMS[name](np.random.default_rng(seed))
    objective = Objective(model, X, Y, lam)
    result = cp.minimize(cp.StructuredRisk(model, X, Y), cp.L2(lam), method=method, tol=1e-4)
    certificate, optimum = result.certificate, objective.optimum()
    assert certificate.valid
    assert certificate.status is cp.Status.OPTIMAL
    # The solver's point may be above the optimum by its tolerance, never below.
    assert certificate.lower_bound <= optimum
    assert certificate.objective >= optimum - 1e-8 * (1.0 + optimum)
    assert certificate.objective == pytest.approx(objective(result.w), rel=1e-12)


@settings(max_examples=10)
@given(seed=seeds)
def test_certificate_with_rescaled_slacks(seed):
    model, X, Y = multiclass(np.random.default_rng(seed))
    objective = Objective(model, X, Y, 0.01, rescaling="slack")
    risk = cp.StructuredRisk(model, X, Y, rescaling="slack")
    certificate = cp.minimize(risk, cp.L2(0.01), tol=1e-4).certificate
    optimum = objective.optimum()
    assert certificate.lower_bound <= optimum
    assert optimum - 1e-8 <= certificate.objective <= optimum * (1 + 1e-4)


class SlackTrees(cp.TreeModel):
    """Finds the worst output of rescaled slacks in the list of all."""

    def slack_augmented_inference(self, x, y, w):
        truth = self.joint_feature(x, y) @ w
        return max(
            self.outputs(x),
            key=lambda o: self.loss(y, o) * (1 + self.joint_feature(x, o) @ w - truth),
        )


def test_rescaled_slacks_with_a_loss_of_several_values():
    _, X, Y = trees(np.random.default_rng(4))
    objective = Objective(SlackTrees(3), X, Y, 0.1, rescaling="slack")
    risk = cp.StructuredRisk(SlackTrees(3), X, Y, rescaling="slack")
    w = np.random.default_rng(5).normal(size=risk.n_parameters)
    assert risk.at(w).value == pytest.approx(objective.risk(w), rel=1e-12)
    certificate = cp.minimize(risk, cp.L2(0.1), tol=1e-5).certificate
    assert certificate.lower_bound <= objective.optimum() <= certificate.objective + 1e-8


def test_multiclass_is_crammer_and_singer():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 5)), rng.integers(0, 4, 40)
    weights = rng.uniform(size=40)
    structured = cp.StructuredRisk(cp.MulticlassModel(), X, y, weights=weights)
    linear = cp.ScoredRisk(X, y, cp.CrammerSinger(), weights=weights, intercept=False)
    for w in rng.normal(size=(5, 20)):
        assert structured.at(w).value == pytest.approx(linear.at(w).value, rel=1e-12)
    fits = [cp.minimize(risk, cp.L2(0.05), tol=1e-6) for risk in (structured, linear)]
    assert fits[0].objective == pytest.approx(fits[1].objective, rel=1e-6)


@every
def test_check_risk(name):
    risk = cp.StructuredRisk(*PROBLEMS[name](np.random.default_rng(3)))
    passed = check_risk(risk, n_points=5).passed
    assert "planes of groups add up" in passed
    assert "convex: chords above, planes below" in passed


def same(one, other):
    return np.array_equal(one.w, other.w) and one.history[-1].lower_bound == (
        other.history[-1].lower_bound
    )


@pytest.mark.parametrize("name", ["trees", "multiclass"])  # by threads, by processes
def test_workers_leave_no_trace(name):
    model, X, Y = PROBLEMS[name](np.random.default_rng(1))
    fits = [
        cp.minimize(cp.StructuredRisk(model, X, Y, n_jobs=n_jobs), cp.L2(0.01), tol=1e-3)
        for n_jobs in (1, 2, 3)
    ]
    assert same(fits[0], fits[1])
    assert same(fits[0], fits[2])


def test_a_copy_outlives_the_original():
    risk = cp.StructuredRisk(*multiclass(np.random.default_rng(1)), n_jobs=2)
    w = np.ones(risk.n_parameters)
    value = risk.at(w).value
    copy = pickle.loads(pickle.dumps(risk))
    del risk
    assert copy.at(w).value == value


def test_inferences_are_counted():
    model, X, Y = multiclass(np.random.default_rng(0))
    risk = cp.StructuredRisk(model, X, Y, weights=[1, 0, 1, 1, 1, 1, 1])
    assert risk.n_examples == 7
    w = np.ones(risk.n_parameters)
    point = risk.at(w)
    assert (risk.evaluations, risk.inferences) == (1, 6)
    parts = [(risk.weights[i], risk.part([i])) for i in np.flatnonzero(risk.weights)]
    value = sum(weight * part.at(w).value for weight, part in parts)
    assert value == pytest.approx(point.value, rel=1e-14)
    assert [(part.evaluations, part.inferences) for _, part in parts] == 6 * [(1, 1)]
    assert (risk.evaluations, risk.inferences) == (1, 6)


def test_results_can_be_pickled():
    result = cp.minimize(cp.StructuredRisk(*trees(np.random.default_rng(0))), cp.L2(0.1))
    copy = pickle.loads(pickle.dumps(result))
    assert np.array_equal(copy.w, result.w)


class FailsLater(cp.MulticlassModel):
    """Fails at the fourth example, once the weights are not zero."""

    def loss_augmented_inference(self, x, y, w):
        if w.any() and x[0] == 3.0:
            raise RuntimeError("the solver gave up")
        return super().loss_augmented_inference(x, y, w)


class FailsLaterCompiled(FailsLater):
    releases_gil = True


@pytest.mark.parametrize("model", [FailsLater, FailsLaterCompiled])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_errors_name_the_example_and_keep_the_best_point(model, n_jobs):
    X, Y = np.arange(6.0)[:, None], [0, 1, 0, 1, 0, 1]
    risk = cp.StructuredRisk(model(), X, Y, n_jobs=n_jobs)
    with pytest.raises(RuntimeError, match="the solver gave up") as caught:
        cp.minimize(risk, cp.L2(0.1))
    assert f"raised by {model.__name__} at example 3" in caught.value.__notes__
    result = caught.value.result
    assert result.status is cp.Status.FAILED
    assert result.objective == pytest.approx(1.0, rel=1e-15)
    assert not result.w.any()


class WrongLoss(cp.MulticlassModel):
    def loss(self, y, y_hat):
        return -1.0 if y != y_hat else 0.0


class NoLoss(cp.MulticlassModel):
    def loss(self, y, y_hat):
        return np.nan


@pytest.mark.parametrize("model", [WrongLoss, NoLoss])
def test_wrong_losses_are_named(model):
    risk = cp.StructuredRisk(model(), np.eye(3), [0, 1, 2])
    with pytest.raises(ValueError, match=r"the loss must be finite and not negative.*example 0"):
        risk.at(np.zeros(risk.n_parameters))


class WrongFeature(cp.MulticlassModel):
    def joint_feature(self, x, y):
        return np.full(self.n_parameters, np.inf if y == 2 else 1.0)


def test_wrong_features_are_named():
    with pytest.raises(ValueError, match="not finite at index 0") as caught:
        cp.StructuredRisk(WrongFeature(), np.eye(3), [0, 1, 2])
    assert caught.value.__notes__ == ["raised by WrongFeature at example 2"]


class Inexact(cp.MultilabelModel):
    """Looks at the first label only, and leaves the others as they are by default."""

    exact = False

    def loss_augmented_inference(self, x, y, w):
        found = super().loss_augmented_inference(x, y, w)
        found[1:] = np.asarray(y)[1:]
        return found


def test_inexact_inference_gives_no_certificate():
    _, X, Y = multilabel_tree(np.random.default_rng(0))
    model = Inexact(parents=[1, -1, 1, 0])
    result = cp.minimize(cp.StructuredRisk(model, X, Y), cp.L2(0.1), tol=1e-3)
    certificate = result.certificate
    assert not certificate.valid
    assert certificate.status is cp.Status.STATIONARY
    assert "inference is not exact" in str(certificate)
    # Why it is none: the true objective is above what was seen.
    assert Objective(model, X, Y, 0.1)(result.w) > certificate.objective
    # Its planes are right all the same.
    risk = cp.StructuredRisk(model, X, Y)
    plane = risk.at(np.ones(risk.n_parameters)).plane()
    objective = Objective(model, X, Y, 0.0)
    for w in np.random.default_rng(1).normal(size=(20, risk.n_parameters)):
        assert plane.slope @ w + plane.offset <= objective.risk(w) + 1e-12


class NoInference:
    n_parameters = 3

    def joint_feature(self, x, y):
        return np.zeros(3)

    def loss(self, y, y_hat):
        return 0.0

    def loss_augmented_inference(self, x, y, w):
        return y


class NoNumber(NoInference):
    n_parameters = None

    def inference(self, x, w):
        return x


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((NoInference(), [1], [1]), TypeError, r"NoInference .* has no inference\(x, w\)"),
        ((cp.TreeModel, [1], [1]), TypeError, "TreeModel is no structured model"),
        ((NoNumber(), [1], [1]), TypeError, "n_parameters must be a whole number above 0"),
        ((cp.MulticlassModel(), [[1]], [1, 2]), ValueError, "X has 1 examples, Y has 2"),
        ((cp.MulticlassModel(), [], []), ValueError, "at least one example"),
    ],
)
def test_what_is_no_problem(arguments, error, message):
    with pytest.raises(error, match=message):
        cp.StructuredRisk(*arguments)


def test_bad_options():
    model, X, Y = trees(np.random.default_rng(0))
    with pytest.raises(ValueError, match="unknown rescaling 'none': known are margin, slack"):
        cp.StructuredRisk(model, X, Y, rescaling="none")
    with pytest.raises(TypeError, match=r"slack_augmented_inference\(x, y, w\), which TreeModel"):
        cp.StructuredRisk(model, X, Y, rescaling="slack")
    with pytest.raises(ValueError, match="n_jobs must be None, -1 or at least 1, got 0"):
        cp.StructuredRisk(model, X, Y, n_jobs=0)
    with pytest.raises(ValueError, match="weights have shape"):
        cp.StructuredRisk(model, X, Y, weights=[1.0])


@every
@given(seed=seeds)
def test_parts_are_the_risks_of_their_examples(name, seed):
    rng = np.random.default_rng(seed)
    model, X, Y = PROBLEMS[name](rng)
    weights = rng.uniform(0.1, 1.0, len(Y))
    risk = cp.StructuredRisk(model, X, Y, weights=weights)
    w = rng.normal(size=risk.n_parameters)
    chosen = rng.permutation(len(Y))[: rng.integers(1, len(Y) + 1)]
    part = risk.part(chosen)
    assert part.model is risk.model  # not initialized again: it may know more classes than the part
    assert part.n_examples == len(chosen)
    assert part.weights == pytest.approx(weights[chosen] / weights[chosen].sum(), rel=1e-14)
    alone = [risk.part([i]).at(w).value for i in chosen]
    assert part.at(w).value == pytest.approx(part.weights @ alone, rel=1e-12, abs=1e-12)
    assert part.evaluations == 1
    assert risk.evaluations == 0
    # The risk is the weighted mean of any parts that make it up.
    halves = [slice(0, len(Y) // 2), slice(len(Y) // 2, None)]
    parts = [(weights[half].sum() / weights.sum(), half) for half in halves if len(Y[half])]
    whole = sum(share * risk.part(half).at(w).value for share, half in parts)
    assert whole == pytest.approx(risk.at(w).value, rel=1e-12, abs=1e-12)


def test_a_part_needs_an_example():
    risk = cp.StructuredRisk(*multiclass(np.random.default_rng(0)))
    with pytest.raises(ValueError, match="at least one example"):
        risk.part(slice(0, 0))


def test_inexact_inference_is_not_convex_and_says_why():
    class Rough(cp.MulticlassModel):
        exact = False

    _, X, Y = multiclass(np.random.default_rng(0))
    exact, rough = (cp.StructuredRisk(model, X, Y) for model in (cp.MulticlassModel(), Rough()))
    assert exact.convex is True
    assert exact.unproven == ""
    for risk in (rough, rough.part(slice(0, 2)), rough + exact, exact + 2.0 * rough):
        assert risk.convex is False
        assert "inference is not exact" in risk.unproven
        certificate = cp.minimize(risk, cp.L2(1.0), max_iter=2).certificate
        assert not certificate.valid
        assert certificate.reason == risk.unproven
