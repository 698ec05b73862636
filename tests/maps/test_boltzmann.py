"""Restricted Boltzmann machines against sums over all states, and what training does to them."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse

from cutplane.models.networks.boltzmann import (
    BoltzmannMachine,
    contrastive_divergence,
    train_cascade,
    train_machine,
)


def small(seed=0, n_visible=3, n_hidden=2):
    rng = np.random.default_rng(seed)
    return BoltzmannMachine(
        rng.normal(size=(n_hidden, n_visible)),
        rng.normal(size=n_visible),
        rng.normal(size=n_hidden),
    )


def states(n):
    return np.array(list(product([0.0, 1.0], repeat=n)))


def energy(machine, v, h):
    return -(machine.visible @ v) - machine.hidden @ h - h @ machine.weights @ v


def test_free_energy_is_that_of_all_hidden_states():
    machine = small()
    for v in states(3):
        terms = [-energy(machine, v, h) for h in states(2)]
        assert machine.free_energy(v[None])[0] == pytest.approx(-np.logaddexp.reduce(terms))


def test_means_are_conditional_probabilities():
    machine = small(1)
    for v in states(3):
        weights = np.exp([-energy(machine, v, h) for h in states(2)])
        expected = weights @ states(2) / weights.sum()
        np.testing.assert_allclose(machine.hidden_means(v[None])[0], expected)
    for h in states(2):
        weights = np.exp([-energy(machine, v, h) for v in states(3)])
        expected = weights @ states(3) / weights.sum()
        np.testing.assert_allclose(machine.visible_means(h[None])[0], expected)


def test_divergence_has_the_right_expectation():
    # <h v'> of the data less that after one step of Gibbs sampling from it, by summing over all
    # hidden states. Reconstructions are means of inputs here, so their hidden units see means.
    machine, data = small(2), states(3)[[1, 5, 6]]
    expected = np.zeros_like(machine.weights)
    for v in data:
        means = machine.hidden_means(v[None])[0]
        expected += np.outer(means, v)
        for h in states(2):
            chance = np.prod(np.where(h == 1.0, means, 1.0 - means))
            again = machine.visible_means(h[None])
            expected -= chance * np.outer(machine.hidden_means(again)[0], again[0])
    rng = np.random.default_rng(0)
    found = np.mean([contrastive_divergence(machine, data, rng)[0] for _ in range(20_000)], axis=0)
    np.testing.assert_allclose(found, expected / len(data), atol=5e-3)


def stripes(n=600, seed=0):
    rng = np.random.default_rng(seed)
    kinds = np.array([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1], [1, 0, 1, 0, 1, 0]], dtype=float)
    flips = rng.random((n, 6)) < 0.02
    return np.abs(kinds[rng.integers(3, size=n)] - flips)


def test_training_learns_what_goes_together():
    machine = train_machine(stripes(), 8, epochs=30, rate=0.1)
    first, last = machine.history[0], machine.history[-1]
    assert len(machine.history) == 30
    assert last.reconstruction_error < 0.3 * first.reconstruction_error
    # Examples are more probable than the same inputs in other company.
    assert last.noise_free_energy - last.free_energy > 1.0
    assert abs(first.noise_free_energy - first.free_energy) < 1.0
    v = stripes(50, seed=1)
    own = machine.free_energy(v)
    assert own.mean() < machine.free_energy(1.0 - v).mean()


def test_the_same_seed_gives_the_same_machines_dense_or_sparse():
    X = stripes(200)
    settings = {"epochs": 3, "rate": 0.1}
    one = train_cascade(X, (5, 4), seed=3, **settings)
    two = train_cascade(scipy.sparse.csr_array(X), (5, 4), seed=3, **settings)
    other = train_cascade(X, (5, 4), seed=4, **settings)
    for a, b, c in zip(one, two, other, strict=True):
        np.testing.assert_allclose(a.weights, b.weights, rtol=1e-9, atol=1e-12)
        assert not np.allclose(a.weights, c.weights)
    assert [machine.weights.shape for machine in one] == [(5, 6), (4, 5)]


@pytest.mark.parametrize("value", [-0.1, 1.1, np.nan])
def test_features_must_be_between_0_and_1(value):
    X = stripes(20)
    X[3, 2] = value
    with pytest.raises(ValueError, match=r"features between 0 and 1: scale X"):
        train_machine(X, 2, epochs=1, rate=0.1)


def test_inputs_that_never_change():
    X = np.column_stack([np.ones(30), np.zeros(30), np.arange(30) % 2])
    machine = train_machine(X, 2, epochs=5, rate=0.1)
    assert np.isfinite(machine.weights).all()
    assert np.isfinite(machine.history[-1]).all()
