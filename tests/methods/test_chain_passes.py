"""Compiled stochastic steps on chains: the same as evaluated ones, certified, resumable."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import cutplane as cp
from cutplane.core.state import Problem
from cutplane.models.sequences.passes import MarginSteps
from cutplane.solvers.stochastic import Rule
from cutplane.solvers.stochastic import loops as kernels
from cutplane.solvers.stochastic.passes import PartSteps, Settings, passes_of

METHODS = {
    Rule.PEGASOS: cp.pegasos,
    Rule.ADAPTIVE: cp.adaptive,
    Rule.BALANCED: cp.online_proximal,
    Rule.OPTIMISTIC: cp.optimistic,
}
every_rule = pytest.mark.parametrize("rule", Rule, ids=str)


def chains(seed=0, n=25, loss=None, *, empty=True, **options):
    """Return the risk of short sequences, one of them empty, whose features overlap."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 6, n)
    lengths[3] = 0 if empty else 1
    y = rng.integers(0, 3, lengths.sum())
    X = np.eye(6)[y] + np.where(rng.random((len(y), 6)) < 0.4, rng.normal(size=(len(y), 6)), 0.0)
    weights = rng.uniform(0.5, 2.0, n)
    weights[7] = 0.0
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return cp.ChainRisk(
        sp.csr_array(X), y, offsets, loss or cp.ChainMargin(), n_labels=3, weights=weights,
        **options,
    )  # fmt: skip


@every_rule
@pytest.mark.parametrize("projected", [True, False])
@pytest.mark.parametrize(
    "options",
    [{}, {"ends": True}, {"observed_only": True}, {"per_token": True, "ends": True}],
    ids=str,
)
def test_compiled_steps_are_the_evaluated_ones(rule, projected, options):
    # A sequence without tokens has no risk of its own, which the others would evaluate.
    problem = Problem(chains(empty=False, **options), cp.L2(0.02))
    settings = Settings(rule, projected=projected)
    compiled, evaluated = passes_of(problem, settings), PartSteps(problem, settings)
    assert isinstance(compiled, MarginSteps)
    walks = compiled.initial(), evaluated.initial()
    for _ in range(3):
        planes = compiled.taken(walks[0])[0], evaluated.taken(walks[1])[0]
        np.testing.assert_allclose(planes[0].slope, planes[1].slope, rtol=1e-7, atol=1e-9)
        assert planes[0].offset == pytest.approx(planes[1].offset, rel=1e-9, abs=1e-12)
        np.testing.assert_allclose(walks[0].w, walks[1].w, rtol=1e-7, atol=1e-9)
        w = walks[0].w
        numbers, others = (walk.numbers for walk in walks)
        assert numbers[kernels.SQUARE] == pytest.approx(w @ w, rel=1e-9)
        for place in (kernels.STEPS, kernels.TAU, kernels.RADIUS):
            assert numbers[place] == pytest.approx(others[place], rel=1e-7)


def test_other_losses_and_batches_are_evaluated():
    margin, crf = (Problem(chains(loss=loss), cp.L2(0.02)) for loss in (None, cp.ChainCRF()))
    for problem, options in (
        (crf, {}),
        (margin, {"batch": 2}),
        (margin, {"iterate": cp.Iterate.AVERAGE}),
    ):
        assert isinstance(passes_of(problem, Settings(Rule.PEGASOS, **options)), PartSteps)


@given(
    seed=st.integers(0, 10**6),
    lam=st.sampled_from([1e-3, 1e-2, 1.0]),
    rule=st.sampled_from([*Rule]),
    ends=st.booleans(),
    observed=st.booleans(),
)
def test_gaps_are_valid(seed, lam, rule, ends, observed):
    risk = chains(seed, n=12, ends=ends, observed_only=observed)
    found = cp.minimize(risk, cp.L2(lam), method=METHODS[rule](seed=seed), tol=1e-9, max_iter=6)
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
def test_passes_close_the_gap_and_can_be_resumed(rule):
    risk, options = chains(1, ends=True), {"method": METHODS[rule](), "tol": 2e-2}
    whole = cp.minimize(risk, cp.L2(0.05), max_iter=2000, **options)
    assert whole.status == "optimal"
    half = cp.minimize(risk, cp.L2(0.05), max_iter=whole.iterations // 2, **options)
    again = cp.minimize(risk, cp.L2(0.05), max_iter=2000, resume=half.state, **options)
    assert whole.w.tolist() == again.w.tolist()


def test_inferences_are_counted():
    risk = chains()
    passes = passes_of(Problem(risk, cp.L2(0.05)), Settings(Rule.OPTIMISTIC))
    walk = passes.initial()
    before = risk.inferences
    passes.taken(walk)
    assert risk.inferences == before + 24  # those that have a weight
