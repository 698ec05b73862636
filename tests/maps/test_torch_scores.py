"""Scores from torch modules, under chains and losses, against brute force and linear maps."""

import numpy as np
import pytest
import scipy.sparse

import cutplane as cp
from cutplane.core.fingerprint import fingerprints_of_parts
from cutplane.testing import check_risk

from ..structured.sequences import Sample, all_labels, score

torch = pytest.importorskip("torch", reason="torch is not installed: the extra cutplane[torch]")

LOSSES = [cp.ChainMargin(), cp.ChainCRF()]
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)


def layers(n_features, n_labels, seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Linear(n_features, 3), torch.nn.Sigmoid(), torch.nn.Linear(3, n_labels)
    ).double()


def risk_of(sample, loss, module=None, batch=3, **options):
    (X, y, offsets), own = sample.arguments()
    if module is None:
        module = layers(sample.dense.shape[1], sample.n_labels)
    scores = cp.TorchScores(module, X, batch=batch)
    return cp.ChainRisk(scores, y, offsets, loss, **own | options)


def by_enumeration(sample, loss, emissions, T, start, end):
    total = 0.0
    for i, p in enumerate(sample.p):
        begin, stop = sample.offsets[i], sample.offsets[i + 1]
        y, S = sample.y[begin:stop], emissions[begin:stop]
        listed = all_labels(sample.n_labels, len(y))
        scores = np.array([score(S, T, start, end, one) for one in listed])
        scores -= score(S, T, start, end, y)
        if isinstance(loss, cp.ChainCRF):
            total += p * np.logaddexp.reduce(scores)
        else:
            total += p * np.max(scores + [np.sum(one != y) for one in listed])
    return total


@every_loss
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("ends", [False, True])
def test_chains_agree_with_enumeration(loss, seed, ends):
    sample = Sample(seed, ends=ends, layout=["C", "Fortran", "CSR"][seed % 3])
    if sample.n_labels == 1:
        sample = Sample(seed + 100, ends=ends)
    risk = risk_of(sample, loss)
    rng = np.random.default_rng(seed)
    w = rng.normal(size=risk.n_parameters)
    module = layers(sample.dense.shape[1], sample.n_labels)
    torch.nn.utils.vector_to_parameters(
        torch.tensor(w[: risk.map.n_parameters]), module.parameters()
    )
    with torch.no_grad():
        emissions = module(torch.tensor(sample.dense)).numpy()
    _, *rest = risk.parts(w)
    expected = by_enumeration(sample, loss, emissions, *rest)
    assert risk.at(w).value == pytest.approx(expected, rel=1e-10)


@every_loss
def test_chains_pass_the_checks(loss):
    sample = Sample(7, ends=True)
    risk = risk_of(sample, loss)
    report = str(check_risk(risk, n_points=5))
    assert "subgradients agree" in report
    assert "segments" not in report
    assert risk.convex is False
    assert risk.good_groups == 1


@every_loss
@pytest.mark.parametrize("per_token", [False, True])
def test_no_hidden_layer_is_the_linear_chain(loss, per_token):
    sample = Sample(3, ends=True)
    (X, y, offsets), options = sample.arguments()
    linear = cp.ChainRisk(X, y, offsets, loss, per_token=per_token, **options)
    module = torch.nn.Linear(sample.dense.shape[1], sample.n_labels, bias=False)
    ours = risk_of(sample, loss, module, per_token=per_token)
    for seed in range(4):
        w = np.random.default_rng(seed).normal(size=linear.n_parameters)
        one, other = ours.at(w), linear.at(w)
        assert one.value == pytest.approx(other.value, rel=1e-12)
        np.testing.assert_allclose(one.plane().slope, other.plane().slope, atol=1e-13)
        assert one.plane().offset == pytest.approx(other.plane().offset, abs=1e-12)


@every_loss
def test_a_mean_over_tokens_is_a_multiple(loss):
    sample = Sample(5)
    (X, y, offsets), options = sample.arguments()
    length = sample.p @ np.diff(offsets)
    one = cp.ChainRisk(X, y, offsets, loss, **options)
    other = cp.ChainRisk(X, y, offsets, loss, per_token=True, **options)
    w = sample.somewhere()
    assert other.at(w).value * length == pytest.approx(one.at(w).value, rel=1e-12)
    np.testing.assert_allclose(other.weights, sample.p, rtol=1e-12)
    # Parts are divided by the same number, so that those of all sequences add up.
    parts = [other.part(np.array([i])) for i in range(other.n_examples) if sample.p[i]]
    total = [p * part.at(w).value for p, part in zip(sample.p[sample.p > 0], parts, strict=True)]
    assert sum(total) == pytest.approx(other.at(w).value, rel=1e-12)


def test_batches_and_threads_change_rounding_only_or_nothing():
    sample = next(Sample(k) for k in range(10, 50) if Sample(k).n_labels > 1)
    w = np.random.default_rng(0).normal(size=risk_of(sample, cp.ChainCRF()).n_parameters)
    whole = risk_of(sample, cp.ChainCRF(), batch=1000).at(w)
    for batch in (1, 2, 5):
        point = risk_of(sample, cp.ChainCRF(), batch=batch).at(w)
        assert point.value == pytest.approx(whole.value, rel=1e-12)
        np.testing.assert_allclose(point.plane().slope, whole.plane().slope, atol=1e-13)
    (X, y, offsets), options = sample.arguments()
    module = layers(sample.dense.shape[1], sample.n_labels)
    found = [
        cp.ChainRisk(
            cp.TorchScores(module, X, batch=2, n_threads=n), y, offsets, cp.ChainCRF(), **options
        ).at(w)
        for n in (1, 2, 3)
    ]
    assert len({point.plane().slope.tobytes() for point in found}) == 1


def test_parts_of_chains_have_the_same_parameters():
    sample = Sample(2, weighted=False)
    risk = risk_of(sample, cp.ChainCRF())
    w = np.random.default_rng(0).normal(size=risk.n_parameters)
    filled = np.flatnonzero(np.diff(sample.offsets))
    values = [risk.part(np.array([i])).at(w).value for i in filled]
    assert sum(values) / risk.n_examples == pytest.approx(risk.at(w).value, rel=1e-12)


def scored(module, **options):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 4)), np.where(rng.random(30) < 0.5, -1.0, 1.0)
    scores = cp.TorchScores(module, X, batch=7)
    return cp.ScoredRisk(scores, y, cp.Logistic(), intercept=False, **options)


def test_losses_of_scores_take_them_too():
    module = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
    risk = scored(module)
    assert "subgradients agree" in str(check_risk(risk, n_points=5))
    result = cp.minimize(risk, cp.L2(0.1, center=risk.map.start), start=risk.map.start)
    assert result.status == "stationary"
    assert not result.certificate.valid
    with pytest.raises(ValueError, match="groups of planes need scores that are linear"):
        risk.groups(2)
    some = np.arange(3)
    assert risk.part(some).at(risk.map.start).value > 0.0


def test_a_linear_module_gives_the_linear_risk():
    risk = scored(torch.nn.Linear(4, 1, bias=False))
    rows = risk.map.rows
    linear = cp.ScoredRisk(rows, risk.y, cp.Logistic(), intercept=False)
    w = np.arange(4.0) / 3.0
    assert risk.at(w).value == pytest.approx(linear.at(w).value, rel=1e-12)
    np.testing.assert_allclose(risk.at(w).plane().slope, linear.at(w).plane().slope, atol=1e-14)


def test_scores_are_those_of_the_module():
    module = layers(4, 3)
    X = np.random.default_rng(0).normal(size=(10, 4))
    for given in (X, X.tolist(), scipy.sparse.csr_array(X), X.astype(np.float32)):
        scores = cp.TorchScores(module, given, batch=3)
        with torch.no_grad():
            expected = module(torch.tensor(X)).numpy()
        np.testing.assert_allclose(scores.scores(scores.start), expected, atol=1e-6)
    with pytest.raises(NotImplementedError, match="pullback_at"):
        scores.pullback(expected)


def test_fingerprints_tell_modules_apart():
    sample = Sample(3)
    one, same = (risk_of(sample, cp.ChainCRF()) for _ in range(2))
    other = risk_of(sample, cp.ChainCRF(), torch.nn.Linear(sample.dense.shape[1], sample.n_labels))
    parts = [fingerprints_of_parts(risk, portable=True) for risk in (one, same, other)]
    assert parts[0] == parts[1]
    assert parts[0]["features"] != parts[2]["features"]


class Spoiled(torch.nn.Module):
    def __init__(self, n_labels, value):
        super().__init__()
        self.inner, self.value = torch.nn.Linear(2, n_labels), value

    def forward(self, x):
        return self.inner(x) * self.value


@pytest.mark.parametrize(("value", "what"), [(np.nan, "NaN"), (np.inf, "NaN|infinite")])
def test_scores_that_are_not_finite(value, what):
    scores = cp.TorchScores(Spoiled(2, value), np.eye(2))
    risk = cp.ChainRisk(scores, [0, 1], [0, 2], cp.ChainCRF())
    with pytest.raises(cp.NonFiniteRisk, match=f"scores of Spoiled of 2 x 2 dense: ({what}) at"):
        risk.at(np.ones(risk.n_parameters))
    binary = cp.TorchScores(Spoiled(1, value), np.eye(2))
    risk = cp.ScoredRisk(binary, [-1.0, 1.0], cp.Logistic(), intercept=False)
    with pytest.raises(cp.NonFiniteRisk, match="scores of Spoiled"):
        risk.at(np.ones(3))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: cp.TorchScores(torch.nn.ReLU(), np.eye(2)), "ReLU has no parameters"),
        (lambda: cp.TorchScores(layers(2, 2), np.empty((0, 2))), "at least one example"),
        (lambda: cp.TorchScores(layers(2, 2), np.eye(2), batch=0), "batch must be at least 1"),
        (
            lambda: cp.TorchScores(torch.nn.Conv1d(1, 1, 1), np.zeros((2, 1, 3))),
            "must return a row of scores for each example",
        ),
        (
            lambda: cp.ChainRisk(
                cp.TorchScores(layers(2, 3), np.eye(2)), [0, 1], [0, 2], cp.ChainCRF(), n_labels=2
            ),
            "has 3 scores for 2 labels",
        ),
        (
            lambda: cp.ChainRisk(
                cp.TorchScores(layers(2, 1), np.eye(2)), [0, 0], [0, 2], cp.ChainCRF()
            ),
            "a chain needs a score for each label",
        ),
    ],
)
def test_bad_input(make, said):
    with pytest.raises((TypeError, ValueError), match=said):
        make()
