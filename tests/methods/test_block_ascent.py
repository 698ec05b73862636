"""Block ascent on cached outputs: valid planes, certified optima, few inferences."""

from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cutplane as cp
from cutplane.core.state import Problem
from cutplane.solvers.block_ascent import ProximalTerm, block_ascent, outputs_of

from ..risks.test_chain import optimum, risk_of
from ..structured.problems import PROBLEMS, Objective
from ..structured.sequences import LAYOUTS, Sample, features

seeds = st.integers(0, 10**6)
lams = st.sampled_from([1e-3, 1e-2, 1.0])
every_problem = pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)


def words(seed, n=60, *, n_labels=4, d=6):
    """Sequences whose labels can be told from noisy features and from each other."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 8, n)
    y = np.cumsum(rng.integers(0, 2, lengths.sum())) % n_labels
    X = rng.normal(size=(n_labels, d))[y] + rng.normal(size=(len(y), d))
    return cp.ChainRisk(X, y, np.concatenate([[0], np.cumsum(lengths)]), cp.ChainMargin())


def check_planes(risk, lam, rng):
    """Ascend and learn; assert that planes lie below the risk and that bounds do not fall."""
    regularizer, zero = cp.L2(lam), np.zeros(risk.n_parameters)
    outputs, term = outputs_of(risk), ProximalTerm.toward(zero, 0.0, lam)
    state = outputs.learn(outputs.first(20), risk.at(zero))
    bound = -np.inf
    for _ in range(4):
        w, _ = outputs.minimizer(state, term)
        gaps = outputs.ascend(state, w, term, rng.permutation(outputs.examples(state)))
        assert (gaps >= 0.0).all()
        drifted = outputs.vector(w)
        plane, exact = outputs.plane(state, term)
        np.testing.assert_allclose(exact, drifted, atol=1e-11 * (1.0 + np.abs(drifted).max()))
        np.testing.assert_allclose(state.kept.alpha.sum(axis=1), 1.0, rtol=1e-14)
        assert (state.kept.alpha >= 0.0).all()
        for scale in (0.0, 0.1, 1.0, 10.0):
            w = scale * rng.normal(size=risk.n_parameters)
            height, value = plane.slope @ w + plane.offset, risk.at(w).value
            assert height <= value + 1e-12 * (1.0 + abs(height) + abs(value))
        now = plane.offset - regularizer.conjugate(-plane.slope)[0]
        assert now >= bound - 1e-12 * (1.0 + abs(now))
        bound = now
        state = outputs.learn(state, risk.at(exact))


@given(seed=seeds, lam=lams, layout=st.sampled_from([*LAYOUTS]), ends=st.booleans())
def test_planes_of_chains_stay_below_the_risk(seed, lam, layout, ends):
    sample = Sample(seed, layout=layout, ends=ends)
    risk = risk_of(sample, cp.ChainMargin())
    check_planes(risk, lam, sample.rng)


def observed(sample):
    data, options = sample.arguments()
    return cp.ChainRisk(*data, cp.ChainMargin(), observed_only=True, **options)


@given(seed=seeds, lam=lams, ends=st.booleans())
def test_planes_of_chains_with_observed_pairs(seed, lam, ends):
    sample = Sample(seed, layout="CSR", ends=ends)
    risk = observed(sample)
    check_planes(risk, lam, sample.rng)
    check_proximal_term(risk, lam, sample.rng)


@given(seed=seeds, lam=lams, ends=st.booleans())
def test_observed_pairs_have_the_same_optimum_with_other_methods(seed, lam, ends):
    risk = observed(Sample(seed, layout="CSR", ends=ends))
    other = cp.minimize(risk, cp.L2(lam), tol=1e-7).certificate
    found = cp.minimize(risk, cp.L2(lam), method=block_ascent(), tol=1e-5).certificate
    assert found.status == "optimal"
    assert found.lower_bound <= other.objective
    assert other.lower_bound <= found.objective


@every_problem
@given(seed=seeds, lam=lams)
def test_planes_of_models_stay_below_the_risk(problem, seed, lam):
    rng = np.random.default_rng(seed)
    risk = cp.StructuredRisk(*problem(rng), n_jobs=1)
    check_planes(risk, lam, rng)


def kept_outputs(state, i):
    """Return the loss and the features of each output that is kept for an example."""
    kept, store = state.kept, state.outputs
    parts = [slice(*ends) for ends in zip(store.begins[i], store.ends[i], strict=True)]
    return [
        (kept.losses[i, p], *store.indices[parts[p]], *store.values[parts[p]])
        for p in range(kept.counts[i])
    ]


def learn_and_check(outputs, state, point, seen):
    """Take in a point; assert that what is kept was found, and that inner products belong to it."""
    for k, i in enumerate(point.examples):
        entries = slice(point.starts[k], point.starts[k + 1])
        seen[i].append((point.losses[k], *point.indices[entries], *point.values[entries]))
    state = outputs.learn(state, point)
    for i in point.examples:
        kept = kept_outputs(state, i)
        assert kept[0] == (0.0,)  # the true output
        assert seen[i][-1] in kept
        assert len(set(kept)) == len(kept) <= state.kept.alpha.shape[1]
        assert set(kept[1:]) <= set(seen[i])
        dense = np.zeros((len(kept), len(point.w)))
        for row, (_, *entries) in zip(dense, kept, strict=True):
            half = len(entries) // 2
            row[np.array(entries[:half], dtype=int)] = entries[half:]
        gram = state.kept.gram[i, : len(kept), : len(kept)]
        np.testing.assert_allclose(gram, dense @ dense.T, rtol=1e-12, atol=1e-12)
    return state


@every_problem
@given(seed=seeds, most=st.integers(2, 5))
def test_caches_of_models_hold_what_was_found(problem, seed, most):
    rng = np.random.default_rng(seed)
    risk = cp.StructuredRisk(*problem(rng), n_jobs=1)
    outputs, seen = outputs_of(risk), [[] for _ in range(risk.n_examples)]
    state = outputs.first(most)
    for _ in range(12):
        point = risk.at(rng.normal(size=risk.n_parameters))
        state = learn_and_check(outputs, state, point, seen)


@pytest.mark.parametrize("kernel", ["pack", "insert"])
def test_ctrl_c_does_not_mix_up_outputs(kernel, monkeypatch):
    rng = np.random.default_rng(0)
    risk = cp.StructuredRisk(*PROBLEMS["multilabel"](rng), n_jobs=1)
    outputs, seen = outputs_of(risk), [[] for _ in range(risk.n_examples)]
    state = outputs.first(3)
    module = import_module("cutplane.solvers.block_ascent")
    run, interrupts = getattr(module, kernel), 0

    def interrupted(*arguments):
        run(*arguments)
        raise KeyboardInterrupt

    for _ in range(30):
        point = risk.at(rng.normal(size=risk.n_parameters))
        with monkeypatch.context() as patch:
            patch.setattr(module, kernel, interrupted)
            try:
                outputs.learn(state, point)
            except KeyboardInterrupt:
                interrupts += 1
        state = learn_and_check(outputs, state, point, seen)
    assert interrupts > 1  # not only at the first point, when nothing is kept


def check_proximal_term(risk, lam, rng):
    """Assert that the plane is one of the risk alone, and where the minimizer is with the term."""
    outputs = outputs_of(risk)
    state = outputs.learn(outputs.first(20), risk.at(np.zeros(risk.n_parameters)))
    for strength in (0.0, 0.5 * lam, 10.0 * lam):
        center = rng.normal(size=risk.n_parameters)
        term = ProximalTerm.toward(center, strength, lam)
        w, _ = outputs.minimizer(state, term)
        outputs.ascend(state, w, term, rng.permutation(outputs.examples(state)))
        drifted = outputs.vector(w)
        plane, minimizer = outputs.plane(state, term)
        exact = (strength * center - plane.slope) / (lam + strength)
        size = 1.0 + np.abs(exact).max()
        np.testing.assert_allclose(minimizer, exact, atol=1e-13 * size)
        np.testing.assert_allclose(drifted, exact, atol=1e-11 * size)
        for scale in (0.0, 1.0, 10.0):
            w = scale * rng.normal(size=risk.n_parameters)
            height, value = plane.slope @ w + plane.offset, risk.at(w).value
            assert height <= value + 1e-12 * (1.0 + abs(height) + abs(value))
        state = outputs.learn(state, risk.at(minimizer))


@given(seed=seeds, lam=lams, ends=st.booleans())
def test_a_proximal_term_moves_the_minimiser_of_chains(seed, lam, ends):
    sample = Sample(seed, ends=ends)
    risk = risk_of(sample, cp.ChainMargin())
    check_proximal_term(risk, lam, sample.rng)


@every_problem
@given(seed=seeds, lam=lams)
def test_a_proximal_term_moves_the_minimiser_of_models(problem, seed, lam):
    rng = np.random.default_rng(seed)
    risk = cp.StructuredRisk(*problem(rng), n_jobs=1)
    check_proximal_term(risk, lam, rng)


@given(seed=seeds, ends=st.booleans())
def test_inner_products_are_those_of_the_features(seed, ends):
    sample = Sample(seed, ends=ends)
    risk = risk_of(sample, cp.ChainMargin())
    outputs = outputs_of(risk)
    state = outputs.first(3)
    for _ in range(6):
        state = outputs.learn(state, risk.at(sample.somewhere(1.0)))
    for i, (x, y) in enumerate(sample.sequences()):
        n, begin = len(y), 3 * sample.offsets[i]
        own = features(x, y, sample.n_labels, ends=ends)
        kept = [state.outputs[begin + p * n :][:n] for p in range(state.kept.counts[i])]
        if n == 0:
            assert len(kept) == 1
            continue
        np.testing.assert_array_equal(kept[0], y)
        assert len({labels.tobytes() for labels in kept}) == len(kept)
        differences = [features(x, one, sample.n_labels, ends=ends) - own for one in kept]
        gram = np.array(differences) @ np.array(differences).T
        np.testing.assert_allclose(state.kept.gram[i, : len(kept), : len(kept)], gram, atol=1e-12)
        assert state.kept.losses[i, : len(kept)].tolist() == [np.sum(one != y) for one in kept]


@given(seed=seeds, lam=lams, ends=st.booleans(), outputs=st.sampled_from([2, 3, 20]))
def test_bounds_of_chains_enclose_the_optimum(seed, lam, ends, outputs):
    sample = Sample(seed, ends=ends)
    best = optimum(sample, cp.ChainMargin(), lam)
    result = cp.minimize(
        risk_of(sample, cp.ChainMargin()),
        cp.L2(lam),
        method=block_ascent(outputs=outputs),
        tol=1e-4,
        max_iter=60,
    )
    assert result.certificate.valid
    for record in result.history:
        assert record.lower_bound <= best + 1e-8 * (1.0 + best)
        assert record.objective >= best - 1e-8 * (1.0 + best)
    if outputs == 20:
        assert result.status == "optimal"


@every_problem
@pytest.mark.parametrize("lam", [1e-2, 1.0])
def test_bounds_of_models_enclose_the_optimum(problem, lam):
    for seed in range(3):
        model, X, Y = problem(np.random.default_rng(seed))
        best = Objective(model, X, Y, lam).optimum()
        risk = cp.StructuredRisk(model, X, Y)
        result = cp.minimize(risk, cp.L2(lam), method=block_ascent(), tol=1e-5)
        assert result.status == "optimal"
        assert result.certificate.lower_bound <= best + 1e-8
        assert best - 1e-8 <= result.objective <= best * (1.0 + 1e-5) + 1e-8


def test_a_full_cache_still_converges():
    risk = words(1)
    exact = cp.minimize(risk, cp.L2(1e-2), tol=1e-5).objective
    found = cp.minimize(risk, cp.L2(1e-2), method=block_ascent(outputs=4), tol=1e-2)
    assert found.status == "optimal"
    assert found.certificate.lower_bound <= exact <= found.objective * (1.0 + 1e-5)


@pytest.mark.parametrize("lam", [1e-2, 1e-3])
def test_takes_far_fewer_inferences_than_a_line_search(lam):
    counts = []
    for method in (block_ascent(), cp.bmrm()):
        risk = words(2, 200)
        assert cp.minimize(risk, cp.L2(lam), method=method, tol=1e-2).status == "optimal"
        counts.append(risk.inferences)
    assert 3 * counts[0] < counts[1]


def test_the_proximal_term_saves_inferences():
    counts, usual = [], block_ascent()
    for method in (usual, replace(usual, proximal=0.0)):
        risk = words(2, 200)
        result = cp.minimize(risk, cp.L2(1e-4), method=method, tol=1e-2)
        assert result.status == "optimal"
        counts.append(risk.inferences)
    assert counts[0] < counts[1]


def test_few_examples_keep_more_outputs():
    rooms = []
    for n in (60, 400, 3000):
        result = cp.minimize(words(5, n), cp.L2(1.0), method=block_ascent(), max_iter=1, tol=1e-9)
        rooms.append(result.state.own.kept.alpha.shape[1])
    assert rooms == [100, 50, 20]


@pytest.mark.parametrize("kind", ["chains", "model"])
def test_the_same_run_gives_the_same_bits_also_when_resumed(kind):
    if kind == "chains":
        risk = words(3)
    else:
        risk = cp.StructuredRisk(*PROBLEMS["multilabel"](np.random.default_rng(3)))
    options = {"method": block_ascent(outputs=5), "tol": 1e-12}
    whole = cp.minimize(risk, cp.L2(1e-2), max_iter=8, **options)
    half = cp.minimize(risk, cp.L2(1e-2), max_iter=3, **options)
    kept = half.state.own.kept.alpha.copy()
    resumed = cp.minimize(risk, cp.L2(1e-2), max_iter=8, resume=half.state, **options)
    np.testing.assert_array_equal(resumed.w, whole.w)
    np.testing.assert_array_equal(half.state.own.kept.alpha, kept)
    bounds = [(r.objective, r.lower_bound) for r in whole.history]
    assert [(r.objective, r.lower_bound) for r in resumed.history] == bounds


def test_says_why_it_cannot_be_used():
    risk, plain = words(4), cp.L2(0.1)
    crf = cp.ChainRisk(risk.rows, risk.data.y, risk.data.chains.offsets, cp.ChainCRF())
    centered = cp.L2(0.1, center=np.ones(risk.n_parameters))
    for problem, why in [
        ((object(), plain), "structured model"),
        ((crf, plain), "a loss that is a maximum over outputs"),
        ((risk, centered), "with neither center nor weights"),
    ]:
        assert why in block_ascent().obstacle(Problem(*problem))
    with pytest.raises(ValueError, match=r"^BlockAscent needs a structured model, and a loss that"):
        cp.minimize(crf, plain, method=block_ascent())
    with pytest.raises(ValueError, match="at least 2 outputs"):
        block_ascent(outputs=1)
    assert block_ascent().obstacle(Problem(risk, plain)) is None


def test_few_examples_that_are_told_apart_with_a_tiny_lam():
    # With the term it takes 1,500 evaluations or more, without 92; groups of planes take 252.
    rng = np.random.default_rng(0)
    secret = rng.normal(size=(20, 5))
    X = rng.normal(size=(60, 20))
    y = np.argmax(X @ secret, axis=1)
    offsets = np.arange(0, 61, 6)
    evaluations = {}
    for name, method in (("block", cp.block_ascent()), ("groups", cp.bmrm(groups="auto"))):
        risk = cp.ChainRisk(X, y, offsets, cp.ChainMargin())
        result = cp.minimize(risk, cp.L2(1e-6), method=method, tol=1e-2)
        assert result.certificate.status == "optimal"
        evaluations[name] = risk.inferences
    assert evaluations["block"] < evaluations["groups"]
