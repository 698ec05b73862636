"""Planes and states go to runs on the same problem only: each change is found out."""

import numpy as np
import pytest
import scipy.sparse

import cutplane as cp
from cutplane.papers.nonconvex import crescent_2

RNG = np.random.default_rng(5)
M, D = 40, 3
X = RNG.normal(size=(M, D))
Y = np.where(X[:, 0] + RNG.normal(size=M) > 0.0, 1.0, -1.0)
CLASSES = np.arange(M) % 3
WEIGHTS = RNG.uniform(0.5, 1.5, M)


def chain(**changes):
    options = {"weights": None, "loss": cp.ChainMargin(), "offsets": [0, 10, 25, M]} | changes
    loss, offsets = options.pop("loss"), options.pop("offsets")
    return cp.ChainRisk(X, CLASSES, offsets, loss, **options)


def linear(X=X, y=Y, loss=None, **options):
    return cp.ScoredRisk(X, y, loss or cp.Hinge(), **options)


def plus_one(vector, i=7):
    changed = vector.copy()
    changed[i] += 1
    return changed


# How to make a risk, and how to make others that differ from it in one way.
RISKS = {
    "linear": (
        linear,
        {
            "scaled": lambda: linear(2.0 * X),
            "another entry": lambda: linear(X + 1e-9 * (np.arange(M)[:, None] == 3)),
            "a label": lambda: linear(y=np.where(np.arange(M) == 4, -Y, Y)),
            "all labels": lambda: linear(y=-Y),
            "dropped rows": lambda: linear(X[1:], Y[1:]),
            "weights": lambda: linear(weights=WEIGHTS),
            "loss": lambda: linear(loss=cp.Logistic()),
            "no intercept": lambda: linear(intercept=False),
        },
    ),
    "quantile": (
        lambda: linear(y=X[:, 1], loss=cp.Quantile(0.3)),
        {
            "parameter": lambda: linear(y=X[:, 1], loss=cp.Quantile(0.31)),
            "shifted targets": lambda: linear(y=X[:, 1] + 1.0, loss=cp.Quantile(0.3)),
        },
    ),
    "sparse": (
        lambda: linear(scipy.sparse.csr_array(X)),
        {"an entry": lambda: linear(scipy.sparse.csr_array(X + np.eye(M, D)))},
    ),
    "classes": (
        lambda: cp.ScoredRisk(X, CLASSES, cp.Softmax()),
        {
            "loss": lambda: cp.ScoredRisk(X, CLASSES, cp.CrammerSinger()),
            "a class": lambda: cp.ScoredRisk(X, plus_one(CLASSES, 6), cp.Softmax()),
            "weights": lambda: cp.ScoredRisk(X, CLASSES, cp.Softmax(), weights=WEIGHTS),
        },
    ),
    "chains": (
        chain,
        {
            "loss": lambda: chain(loss=cp.ChainCRF()),
            "other sequences": lambda: chain(offsets=[0, 12, 25, M]),
            "weights": lambda: chain(weights=np.array([1.0, 2.0, 3.0])),
        },
    ),
    "structured": (
        lambda: cp.StructuredRisk(cp.MulticlassModel(), X, CLASSES),
        {
            "an output": lambda: cp.StructuredRisk(cp.MulticlassModel(), X, plus_one(CLASSES, 6)),
            "weights": lambda: cp.StructuredRisk(cp.MulticlassModel(), X, CLASSES, weights=WEIGHTS),
            "inputs": lambda: cp.StructuredRisk(cp.MulticlassModel(), X + 1.0, CLASSES),
        },
    ),
    "sum": (
        lambda: linear() + 2.0 * linear(loss=cp.Logistic()),
        {
            "factor": lambda: linear() + 3.0 * linear(loss=cp.Logistic()),
            "term": lambda: linear(weights=WEIGHTS) + 2.0 * linear(loss=cp.Logistic()),
        },
    ),
}
CHANGES = [(kind, change) for kind, (_, changes) in RISKS.items() for change in changes]
HOW = ["planes_from", "resume"]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("kind", RISKS)
def test_equal_risks_are_the_same(kind, how):
    make = RISKS[kind][0]
    earlier = cp.minimize(make(), cp.L2(0.1), max_iter=4)
    again = cp.minimize(make(), cp.L2(0.1), **{how: earlier.state})
    assert again.status == "optimal"
    afresh = cp.minimize(make(), cp.L2(0.1))
    assert again.certificate.lower_bound <= afresh.objective
    assert afresh.certificate.lower_bound <= again.objective


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize(("kind", "change"), CHANGES)
def test_every_change_of_the_risk_is_refused(kind, change, how):
    make, changes = RISKS[kind]
    earlier = cp.minimize(make(), cp.L2(0.1), max_iter=4)
    changed = changes[change]()
    with pytest.raises(ValueError, match=rf"^{how} is of a run on another risk \(not the same: "):
        cp.minimize(changed, cp.L2(0.1), **{how: earlier.state})
    assert changed.evaluations == 0


ONES = np.ones(D)
REGULARIZERS = {
    "L2": (cp.L2(0.1), cp.L2(0.2), cp.L2(0.1, center=ONES), cp.L2(0.1, weights=2.0 * ONES)),
    "center": (cp.L2(0.1, center=ONES), cp.L2(0.1, center=2.0 * ONES), cp.L2(0.1)),
    "bounds": (cp.BoundedL2(0.1), cp.BoundedL2(0.1, upper=0.5), cp.BoundedL2(0.1, center=ONES)),
    "elastic net": (cp.ElasticNet(0.1, 0.3), cp.ElasticNet(0.1, 0.4)),
    "p": (cp.SquaredLp(0.1, 1.5), cp.SquaredLp(0.1, 1.6)),
    "matrix": (cp.QuadraticForm(0.1, np.eye(D)), cp.QuadraticForm(0.1, 2.0 * np.eye(D))),
    "entropy": (cp.Entropy(0.1), cp.Entropy(0.1, center=2.0 * ONES)),
}


@pytest.mark.parametrize("kind", REGULARIZERS)
def test_every_detail_of_the_regularizer_counts(kind):
    own, *others = REGULARIZERS[kind]
    earlier = cp.minimize(linear(), own, max_iter=2)
    for other in others:
        with pytest.raises(ValueError, match=r"^resume is of a run with .* give planes_from="):
            cp.minimize(linear(), other, resume=earlier.state)
        # Planes lie below the risk whatever the regularizer is.
        again = cp.minimize(linear(), other, planes_from=earlier.state)
        afresh = cp.minimize(linear(), other)
        assert again.status == "optimal"
        assert again.certificate.lower_bound <= afresh.objective
        assert afresh.certificate.lower_bound <= again.objective


METHODS = {
    "newton": cp.newton(),
    "quasi-newton": cp.quasi_newton(),
    "dual ascent": cp.dual_ascent(),
    "bmrm": cp.bmrm(),
    "plain": cp.bmrm(line_search=False),
    "level": cp.level(),
    "balanced": cp.balanced_proximal(),
    "grouped": cp.bmrm(groups=2),
}


@pytest.mark.parametrize("first", METHODS)
@pytest.mark.parametrize("second", METHODS)
def test_a_state_of_another_method(first, second):
    risk = linear(scipy.sparse.csr_array(X), loss=cp.Logistic(), intercept=False)
    earlier = cp.minimize(risk, cp.L2(0.1), method=METHODS[first], max_iter=2, tol=1e-9)
    options = {"method": METHODS[second], "max_iter": 500}
    best = cp.minimize(risk, cp.L2(0.1), tol=1e-9)
    for how in HOW:
        if how == "resume" and (first == "grouped") != (second == "grouped"):
            with pytest.raises(ValueError, match=r"^resume is of a run with planes of . groups"):
                cp.minimize(risk, cp.L2(0.1), resume=earlier.state, **options)
            continue
        again = cp.minimize(risk, cp.L2(0.1), **{how: earlier.state}, **options)
        assert again.status == "optimal"
        assert again.certificate.lower_bound <= best.objective
        assert best.certificate.lower_bound <= again.objective


def test_planes_that_mean_something_else_are_refused():
    risk = cp.FunctionRisk(crescent_2, 10, convex=False)
    earlier = cp.minimize(risk, cp.L2(0.2), method=cp.nrbm(), max_iter=2)
    with pytest.raises(ValueError, match=r"^resume is of a run with planes of NonConvexCuts"):
        cp.minimize(risk, cp.L2(0.2), method=cp.nbm(), resume=earlier.state)


def test_another_memory_may_go_on():
    part = cp.minimize(linear(), cp.L2(0.01), method=cp.bmrm(planes=3), max_iter=3, tol=1e-6)
    rest = cp.minimize(linear(), cp.L2(0.01), method=cp.bmrm(), tol=1e-6, resume=part.state)
    assert rest.status == "optimal"


def test_the_same_risk_is_not_read_again(monkeypatch):
    risk = linear()
    earlier = cp.minimize(risk, cp.L2(0.1))

    def read(self):
        raise AssertionError("a fingerprint was made")

    monkeypatch.setattr(cp.ScoredRisk, "identity", read)
    assert cp.minimize(risk, cp.L2(0.05), planes_from=earlier.state).status == "optimal"
    assert cp.minimize(risk, cp.L2(0.1), resume=earlier.state).status == "optimal"


# What nobody has said


@pytest.mark.parametrize("method", [cp.nrbm(), cp.nrbm(line_search="none"), cp.nbm()])
def test_a_function_is_not_convex_to_a_method_for_such_risks(method):
    result = cp.minimize(crescent_2, cp.L2(0.2), method=method, start=np.tile([-1.5, 2.0], 50))
    assert not result.certificate.valid
    assert result.status != "optimal"
    assert "no model is better" not in str(result.certificate)


@pytest.mark.parametrize("said", [None, True, False])
def test_what_is_said_of_a_function_is_what_the_certificate_says(said):
    risk = cp.FunctionRisk(lambda w: (float(w @ w), 2.0 * w), 2, convex=said)
    certificate = cp.minimize(risk, cp.L2(1.0, center=[1.0, 2.0])).certificate
    assert certificate.valid is (said is not False)
    assert certificate.status == ("stationary" if said is False else "optimal")
    assert ("as was assumed" in str(certificate)) is (said is None)


def test_a_plain_function_is_said_to_be_assumed_convex():
    result = cp.minimize(lambda w: (float(w @ w), 2.0 * w), cp.L2(1.0), start=np.ones(2))
    assert result.certificate.valid
    assert str(result.certificate).endswith("%, if the risk is convex, as was assumed)")
