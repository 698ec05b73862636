"""The rough curvature of random fields on networks: exact where it must be, and of use."""

import numpy as np
import pytest

import cutplane as cp
from cutplane.core.policies.cuts import NonConvexCuts
from cutplane.models.sequences.curvature import NetworkCurvature, with_network_curvature

torch = pytest.importorskip("torch", reason="torch is not installed: the extra cutplane[torch]")


def field_on(module, seed=0, n_words=40, length=3, n_labels=2, loss=None, **options):
    rng = np.random.default_rng(seed)
    n_features = next(module.parameters()).shape[1]
    X = rng.random((n_words * length, n_features))
    y = rng.integers(n_labels, size=len(X))
    scores = cp.TorchScores(module, X, batch=50)
    offsets = np.arange(n_words + 1) * length
    return cp.ChainRisk(scores, y, offsets, loss or cp.ChainCRF(), **options)


def two_layers(n_features=4, n_units=5, n_labels=3):
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(n_features, n_units),
        torch.nn.Sigmoid(),
        torch.nn.Linear(n_units, n_labels, bias=False),
    )


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("ends", [False, True])
def test_exact_for_two_labels_of_tokens_that_stand_alone(bias, ends):
    # At zero both labels are equally likely, so that the one that is drawn makes no difference,
    # and the same matrix belongs to every token.
    module = torch.nn.Linear(3, 2, bias=bias)
    risk = field_on(module, length=1, ends=ends)
    w, lam, step = np.zeros(risk.n_parameters), 0.1, 1e-4
    curvature = NetworkCurvature.at(risk, w, lam, damping=0.0)
    direction = np.zeros_like(w)
    n = risk.map.n_parameters
    direction[:n] = np.random.default_rng(1).normal(size=n)
    change = risk.at(step * direction).plane().slope - risk.at(-step * direction).plane().slope
    image = change / (2.0 * step) + lam * direction
    np.testing.assert_allclose(curvature.solve(image)[:n], direction[:n], atol=1e-6)


def test_damping_makes_steps_shorter_and_the_inverse_stays_positive():
    risk = field_on(two_layers(), n_labels=3, weights=np.arange(40.0))
    w = np.random.default_rng(0).normal(size=risk.n_parameters)
    bare, damped = (NetworkCurvature.at(risk, w, 1e-3, damping=d) for d in (0.0, 1.0))
    for seed in range(5):
        slope = np.random.default_rng(seed).normal(size=len(w))
        assert 0.0 < slope @ damped.solve(slope) < slope @ bare.solve(slope)


def test_solve_is_linear_and_symmetric():
    risk = field_on(two_layers(), n_labels=3, ends=True)
    curvature = NetworkCurvature.at(risk, np.ones(risk.n_parameters), 1e-2)
    a, b = np.random.default_rng(0).normal(size=(2, risk.n_parameters))
    np.testing.assert_allclose(a @ curvature.solve(b), b @ curvature.solve(a), rtol=1e-9)
    both = curvature.solve(a) + 2.0 * curvature.solve(b)
    np.testing.assert_allclose(curvature.solve(a + 2.0 * b), both, rtol=1e-9)


def test_it_counts_as_an_evaluation():
    risk = field_on(two_layers(), n_labels=3)
    NetworkCurvature.at(risk, np.zeros(risk.n_parameters), 1e-2)
    assert risk.evaluations == 1


def test_known_of_linear_layers_only():
    assert with_network_curvature(field_on(two_layers(), n_labels=3))
    assert not with_network_curvature(field_on(two_layers(), n_labels=3, loss=cp.ChainMargin()))
    assert not with_network_curvature(field_on(two_layers(n_features=3000), n_labels=3))
    normed = torch.nn.Sequential(*two_layers(), torch.nn.LayerNorm(3))
    assert not with_network_curvature(field_on(normed, n_labels=3))
    # A layer that stays as it is is none to learn; one of which a part does is not known.
    frozen = two_layers()
    frozen[0].weight.requires_grad_(False)
    assert not with_network_curvature(field_on(frozen, n_labels=3))
    frozen[0].bias.requires_grad_(False)
    risk = field_on(frozen, n_labels=3)
    assert with_network_curvature(risk)
    curvature = NetworkCurvature.at(risk, np.zeros(risk.n_parameters), 1e-2)
    assert curvature.solve(np.ones(risk.n_parameters)).shape == (risk.n_parameters,)
    linear = cp.ChainRisk(np.eye(4), [0, 1, 0, 1], [0, 2, 4], cp.ChainCRF())
    assert not with_network_curvature(linear)


def test_a_layer_may_be_used_twice_and_on_any_shape():
    class Twice(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.inner, self.top = torch.nn.Linear(4, 4), torch.nn.Linear(2, 3)

        def forward(self, X):
            h = torch.sigmoid(self.inner(torch.sigmoid(self.inner(X))))
            return self.top(h.reshape(-1, 2, 2)).sum(dim=1)

    risk = field_on(Twice(), n_labels=3)
    curvature = NetworkCurvature.at(risk, np.ones(risk.n_parameters), 1e-2)
    slope = np.ones(risk.n_parameters)
    assert slope @ curvature.solve(slope) > 0.0


def words_of_shapes(n_words=60):
    rng = np.random.default_rng(0)
    lengths = rng.integers(2, 6, size=n_words)
    firsts = rng.integers(4, size=n_words)
    y = np.concatenate([np.arange(k, k + n) % 4 for k, n in zip(firsts, lengths, strict=True)])
    shapes = rng.random((4, 12)) < 0.4
    X = (shapes[y] ^ (rng.random((len(y), 12)) < 0.15)).astype(float)
    return X, y, np.concatenate([[0], np.cumsum(lengths)])


def run(n_threads=None, most=40, **options):
    X, y, offsets = words_of_shapes()
    module = two_layers(12, 8, 4)
    scores = cp.TorchScores(module, X, batch=50, n_threads=n_threads)
    risk = cp.ChainRisk(scores, y, offsets, cp.ChainCRF(), n_threads=n_threads)
    start = np.concatenate([scores.start, np.zeros(16)])
    return cp.minimize(
        risk,
        cp.L2(1e-3, center=start),
        start=start,
        method=cp.quasi_newton(cuts=NonConvexCuts()),
        callbacks=[lambda state: state.evaluations >= most],
        max_iter=None,
        **options,
    )


def test_the_number_of_threads_leaves_no_trace():
    one, two = run(n_threads=1), run(n_threads=2)
    np.testing.assert_array_equal(one.w, two.w)


def test_a_resumed_run_is_the_uninterrupted_one(tmp_path):
    whole = run()
    run(most=12, checkpoint=cp.Checkpoint(tmp_path / "run"))
    resumed = run(checkpoint=cp.Checkpoint(tmp_path / "run"))
    np.testing.assert_array_equal(resumed.w, whole.w)
