"""Stochastic methods: certified, the same as plain arithmetic, reproducible, honest about input."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import cutplane as cp
from cutplane.compute.products import dot
from cutplane.core.state import Problem
from cutplane.losses import CLASSIFICATION, REGRESSION
from cutplane.solvers.row_steps import shuffle
from cutplane.solvers.stochastic import Rule
from cutplane.solvers.stochastic import loops as kernels
from cutplane.solvers.stochastic.loops import slope_of
from cutplane.solvers.stochastic.passes import CompiledSteps, Settings, passes_of

LOSSES = [factory() for factory in (*CLASSIFICATION.values(), *REGRESSION.values())]
METHODS = {
    Rule.PEGASOS: cp.pegasos,
    Rule.ADAPTIVE: cp.adaptive,
    Rule.BALANCED: cp.online_proximal,
    Rule.OPTIMISTIC: cp.optimistic,
}
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)
every_rule = pytest.mark.parametrize("rule", Rule, ids=str)
LAYOUTS = {
    "sparse": sp.csr_array,
    "sparse, float32": lambda X: sp.csr_array(X.astype(np.float32)),
    "dense": np.ascontiguousarray,
    "by columns": np.asfortranarray,
}


def sample(loss, seed, layout="sparse", m=40, d=12, intercept=False):
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((m, d)) < 0.4, rng.normal(size=(m, d)), 0.0)
    X[0] = 0.0
    signal = X @ rng.normal(size=d) + 0.5
    if isinstance(loss, cp.Poisson):
        y = rng.poisson(np.exp(0.3 * signal)).astype(np.float64)
    elif loss.task == "regression":
        y = signal + rng.normal(size=m)
    else:
        y = np.where(signal + rng.normal(size=m) > 0.0, 1.0, -1.0)
    weights = rng.uniform(0.5, 2.0, m)
    weights[m // 2] = 0.0
    return cp.ScoredRisk(LAYOUTS[layout](X), y, loss, weights=weights, intercept=intercept)


# -- certificates ----------------------------------------------------------------------------------


@every_loss
@given(
    seed=st.integers(0, 10**6),
    lam=st.sampled_from([1e-3, 1e-2, 1.0]),
    intercept=st.booleans(),
    layout=st.sampled_from([*LAYOUTS]),
    rule=st.sampled_from([*Rule]),
    batch=st.sampled_from([1, 3, 16, None]),
    iterate=st.sampled_from([*cp.Iterate]),
    sampling=st.sampled_from([*cp.Sampling]),
)
def test_gaps_are_valid(loss, seed, lam, intercept, layout, rule, batch, iterate, sampling):
    risk = sample(loss, seed, layout, intercept=intercept)
    method = METHODS[rule](batch=batch, seed=seed, iterate=iterate, sampling=sampling)
    found = cp.minimize(risk, cp.L2(lam), method=method, tol=1e-9, max_iter=6)
    exact = cp.minimize(risk, cp.L2(lam), tol=1e-6, max_iter=5000)
    assert exact.status == "optimal"
    assert found.certificate.valid
    rounding = 1e-12 * (1.0 + exact.objective)
    for record in found.history:
        assert record.lower_bound <= exact.objective + rounding
        assert record.objective >= exact.certificate.lower_bound - rounding
    w = np.random.default_rng(seed).normal(size=risk.n_parameters)
    plane = found.state.bundle.aggregate()
    height, value = plane.slope @ w + plane.offset, risk.at(w).value
    assert height <= value + 1e-11 * (abs(height) + abs(value) + abs(plane.offset))


@every_rule
@pytest.mark.parametrize("loss", [cp.Hinge(), cp.Logistic(), cp.Quantile(0.8)], ids=repr)
@pytest.mark.parametrize("intercept", [False, True])
def test_passes_close_the_gap(loss, rule, intercept):
    risk = sample(loss, 5, m=300, intercept=intercept)
    method = METHODS[rule]()
    found = cp.minimize(risk, cp.L2(0.03), method=method, tol=5e-3, max_iter=500)
    assert found.status == "optimal"


def test_a_structured_risk_is_certified_too():
    rng = np.random.default_rng(0)
    X = list(rng.normal(size=(30, 4)))
    y = [int(np.argmax(x[:3])) for x in X]
    risk = cp.StructuredRisk(cp.MulticlassModel(), X, y)
    exact = cp.minimize(risk, cp.L2(0.05), tol=1e-6)
    found = cp.minimize(
        risk, cp.L2(0.05), method=cp.optimistic(batch=4, iterate=cp.Iterate.BEST), max_iter=60,
        tol=1e-2,
    )  # fmt: skip
    assert found.certificate.lower_bound <= exact.objective
    assert found.certificate.relative_gap <= 0.05
    assert found.certificate.valid


# -- the steps themselves --------------------------------------------------------------------------


def plain_passes(risk, lam, settings, orders):
    """Take the steps of paper 002 with whole vectors; return iterate, mean of the last pass."""
    X = risk.rows.X if hasattr(risk.rows, "X") else None
    X = X if X is not None else sp.csr_array(risk.rows.matrix, shape=risk.rows.shape).toarray()
    X = X.astype(np.float64)
    form = risk.loss.slope_form
    used = risk.weights > 0.0
    importance = risk.weights * used.sum()
    B = np.sqrt(risk.at(np.zeros(X.shape[1])).value / lam)
    G = lam * B + (importance * np.linalg.norm(X, axis=1)).max()
    R = min(1.0, B) if settings.rule is Rule.OPTIMISTIC else B
    w, t, tau = np.zeros(X.shape[1]), 0, 0.0
    for order in orders:
        visited = []
        for begin in range(0, len(order), settings.batch):
            batch = order[begin : begin + settings.batch]
            slopes = [slope_of(*form, risk.y[i], X[i] @ w) for i in batch]
            g = lam * w + np.mean(
                [importance[i] * q * X[i] for i, q in zip(batch, slopes, strict=True)], axis=0
            )
            t += 1
            L = lam * t + tau
            factor = {Rule.PEGASOS: 0.0, Rule.ADAPTIVE: 8.0 / 3.0}.get(settings.rule, 1.0)
            new = (np.sqrt(L**2 + factor * G**2 / R**2) - L) / 2
            eta = 1.0 / (L + new)
            if settings.rule is Rule.ADAPTIVE:
                g = g + new * w
            tau += new
            w = w - eta * g
            ball = min(B, R) if settings.longest < np.inf else B
            if settings.projected:
                w = w * min(1.0, ball / max(np.linalg.norm(w), 1e-300))
            settled = eta * G <= settings.longest * R
            at_rim = np.linalg.norm(w) >= R * (1 - 1e-12)
            if settings.rule is Rule.OPTIMISTIC and settled and at_rim:
                R, t, tau = np.sqrt(2) * R, 0, 0.0
            visited.append(w)
    return w, np.mean(visited, axis=0), R


@every_rule
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("batch", [1, 7])
@pytest.mark.parametrize(("projected", "longest"), [(True, np.inf), (False, np.inf), (True, 0.5)])
@pytest.mark.parametrize("loss", [cp.Hinge(), cp.Logistic(), cp.Huber()], ids=repr)
def test_compiled_steps_are_those_of_the_paper(rule, layout, batch, projected, longest, loss):
    risk, lam = sample(loss, 3, layout), 0.02
    settings = Settings(rule, batch, projected=projected, iterate=cp.Iterate.BEST, longest=longest)
    if loss.task == "regression":  # a bound on its slopes is delta, in place of 1
        loss = cp.Huber(1.0)
        risk = cp.ScoredRisk(risk.rows, risk.y, loss, weights=risk.weights, intercept=False)
    passes = CompiledSteps(Problem(risk, cp.L2(lam)), settings)
    walk = passes.initial()
    orders = []
    for _ in range(3):
        order, seed = np.flatnonzero(risk.weights), walk.seed.copy()
        shuffle(order, seed)
        orders.append(order)
        passes.taken(walk)
    w, mean, radius = plain_passes(risk, lam, settings, orders)
    np.testing.assert_allclose(walk.w, w, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(walk.mean, mean, rtol=1e-9, atol=1e-10)
    assert walk.numbers[kernels.RADIUS] == pytest.approx(radius)
    assert walk.numbers[kernels.SQUARE] == pytest.approx(w @ w, rel=1e-9)


@every_rule
@pytest.mark.parametrize("intercept", [False, True])
def test_a_batch_of_all_examples_is_the_full_batch_bit_for_bit(rule, intercept):
    risk, lam = sample(cp.Hinge(), 11, intercept=intercept), 0.02
    n = risk.n_examples
    seen = {}
    for name, batch, seed in (("m", n, 0), ("more", n + 5, 1), ("all", None, 2)):
        iterates = []
        result = cp.minimize(
            risk, cp.L2(lam), method=METHODS[rule](batch=batch, seed=seed), tol=1e-12, max_iter=40,
            callbacks=[lambda state, to=iterates: to.append(state.own.w.tolist())],
        )  # fmt: skip
        seen[name] = (iterates, result.w.tolist(), result.certificate.lower_bound)
    assert seen["m"] == seen["more"] == seen["all"]
    # By hand, with nothing but evaluations of the whole risk.
    radius = np.sqrt(risk.at(np.zeros(risk.n_parameters)).value / lam)
    R = min(1.0, radius) if rule is Rule.OPTIMISTIC else radius
    w, t, tau, by_hand = np.zeros(risk.n_parameters), 0.0, 0.0, []
    for _ in range(40):
        slope = risk.at(w).plane().slope
        gradient = lam * w + slope
        t += 1.0
        before = lam * (t - 1.0) + tau
        steepness = np.sqrt(dot(gradient, gradient))
        new = kernels.tau_of(int(rule), before + lam, steepness, R)
        eta = 1.0 / (before + lam + new)
        shrink = (before if rule is Rule.ADAPTIVE else before + new) * eta
        tau += new
        w = shrink * w - eta * slope
        length = np.sqrt(dot(w, w))
        ball = min(radius, R)
        if length > ball:
            w = (ball / length) * w
        settled = eta * steepness <= 0.0625 * R
        at_rim = dot(w, w) >= ((1.0 - 1e-12) * R) ** 2
        if rule is Rule.OPTIMISTIC and settled and at_rim:
            R, t, tau = R * np.sqrt(2.0), 0.0, 0.0
        by_hand.append(w.tolist())
    assert seen["all"][0] == by_hand


def test_a_compiled_batch_of_all_agrees_with_the_full_batch():
    # The same subgradients, added up in another order; Huber's slopes do not jump.
    problem = Problem(sample(cp.Huber(), 2), cp.L2(0.05))
    settings = Settings(Rule.PEGASOS, problem.risk.n_examples)
    compiled, whole = CompiledSteps(problem, settings), passes_of(problem, settings)
    assert not isinstance(whole, CompiledSteps)
    walks = compiled.initial(), whole.initial()
    for _ in range(10):
        compiled.taken(walks[0])
        whole.taken(walks[1])
    np.testing.assert_allclose(walks[0].w, walks[1].w, rtol=1e-10, atol=1e-12)


# -- reproducible ----------------------------------------------------------------------------------


def test_the_seed_decides():
    risk = sample(cp.Hinge(), 1)
    run = [
        cp.minimize(
            risk, cp.L2(0.01), method=cp.pegasos(seed=seed), max_iter=5, tol=1e-9
        ).w.tolist()
        for seed in (3, 3, 4)
    ]
    assert run[0] == run[1] != run[2]


@every_rule
@pytest.mark.parametrize("batch", [1, None])
def test_a_resumed_run_has_the_same_bits(rule, batch):
    risk = sample(cp.Hinge(), 8, intercept=True)
    method = METHODS[rule](batch=batch, iterate=cp.Iterate.BEST)
    options = {"method": method, "tol": 1e-9}
    whole = cp.minimize(risk, cp.L2(0.01), max_iter=8, **options)
    half = cp.minimize(risk, cp.L2(0.01), max_iter=4, **options)
    again = cp.minimize(risk, cp.L2(0.01), max_iter=8, resume=half.state, **options)
    assert whole.w.tolist() == again.w.tolist()
    assert [r.lower_bound for r in whole.history] == [r.lower_bound for r in again.history]


def test_a_checkpoint_goes_on(tmp_path):
    risk = sample(cp.Logistic(), 8, intercept=True)
    options = {"method": cp.optimistic(), "tol": 1e-9}
    whole = cp.minimize(risk, cp.L2(0.01), max_iter=8, **options)
    cp.minimize(risk, cp.L2(0.01), max_iter=4, checkpoint=tmp_path, **options)
    again = cp.minimize(risk, cp.L2(0.01), max_iter=8, checkpoint=tmp_path, **options)
    assert whole.w.tolist() == again.w.tolist()


def test_rows_of_weight_zero_say_nothing():
    risk = sample(cp.Hinge(), 4)
    X = sp.csr_array(risk.rows.matrix, shape=risk.rows.shape).tocsr()
    used = risk.weights > 0.0
    alone = cp.ScoredRisk(
        X[used], risk.y[used], cp.Hinge(), weights=risk.weights[used], intercept=False
    )
    found = [
        cp.minimize(each, cp.L2(0.01), method=cp.optimistic(), max_iter=5, tol=1e-9)
        for each in (risk, alone)
    ]
    np.testing.assert_allclose(found[0].w, found[1].w, rtol=1e-10, atol=1e-12)


@every_rule
@pytest.mark.parametrize("make", [np.zeros, sp.csr_array], ids=["dense", "sparse"])
def test_rows_without_entries(rule, make):
    y = np.repeat([1.0, -1.0, 1.0], 4)
    risk = cp.ScoredRisk(make((12, 3)), y, cp.Hinge())
    found = cp.minimize(risk, cp.L2(0.1), method=METHODS[rule](), tol=1e-6)
    assert found.status == "optimal"
    assert found.objective == pytest.approx(2 / 3)


# -- input -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"batch": 0}, "batch must be"),
        ({"batch": 1.5}, "batch must be"),
        ({"seed": -1}, "seed must be"),
        ({"radius": 0.0}, "radius must be"),
        ({"epsilon": -1.0}, "epsilon must be"),
        ({"delta": 0.0}, "delta must be"),
        ({"delta": 1.5}, "delta must be"),
    ],
)
def test_options_are_checked(options, words):
    with pytest.raises(ValueError, match=words):
        Settings(Rule.OPTIMISTIC, **options)


def test_names_are_no_iterates():
    with pytest.raises(TypeError, match="iterate must be one of"):
        cp.pegasos(iterate="last")
    with pytest.raises(TypeError, match="sampling must be one of"):
        cp.pegasos(sampling="drawn")


def test_what_cannot_be_done_is_refused():
    X, y = np.eye(4), np.array([1.0, -1.0, 1.0, -1.0])
    squares = cp.ScoredRisk(X, y, cp.Squared(), intercept=False)
    with pytest.raises(ValueError, match="slopes are bounded"):
        CompiledSteps(
            Problem(squares, cp.L2(0.1)), Settings(Rule.OPTIMISTIC, epsilon=0.1)
        ).initial()
    with pytest.raises(ValueError, match="sum over examples"):
        cp.minimize(cp.ScoredRisk(X, y, cp.ROCArea()), cp.L2(0.1), method=cp.pegasos())
    with pytest.raises(ValueError, match="L2"):
        cp.minimize(squares, cp.ElasticNet(0.1, 0.1), method=cp.pegasos())
    structured = cp.StructuredRisk(cp.MulticlassModel(), list(X), [0, 1, 0, 1])
    with pytest.raises(ValueError, match=r"Sampling\.SHUFFLED"):
        cp.minimize(structured, cp.L2(0.1), method=cp.pegasos(sampling=cp.Sampling.DRAWN))


def test_planes_of_passes_serve_the_bundle_method():
    risk = sample(cp.Hinge(), 6, m=200, intercept=True)
    first = cp.minimize(risk, cp.L2(0.01), method=cp.optimistic(), tol=1e-9, max_iter=10)
    result = cp.minimize(risk, cp.L2(0.01), method=cp.bmrm(), planes_from=first.state)
    assert result.status == "optimal"
    assert result.history[0].lower_bound >= first.certificate.lower_bound - 1e-9
