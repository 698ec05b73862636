"""Restricted Boltzmann machines: layers of features learned from examples without labels.

    E(v, h) = -b.v - c.h - h.W v        F(v) = -b.v - sum_j log(1 + exp(c_j + W_j v))

v are the inputs, between 0 and 1, h hidden units that are 0 or 1, E the energy and F the free
energy, exp(-F(v)) the probability of v up to a factor. One step of contrastive divergence (G.
Hinton: Training products of experts by minimizing contrastive divergence, 2002) raises the
probability of examples and lowers that of what one step of Gibbs sampling makes of them:

    W <- W + rate * (<h v'> of examples - <h v'> of reconstructions)

A cascade of such machines, each trained on the mean hidden units of the one before, gives a network
of sigmoid layers to start from (G. Hinton, S. Osindero, Y.-W. Teh, 2006; paper 004, section 5.6).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.special import expit

from cutplane.compute.arrays import Matrix, Vector


class TrainingSettings(NamedTuple):
    """How machines are trained, as G. Hinton's practical guide (2010) advises.

    Attributes
    ----------
    sample : int
        How many examples, evenly spread, are looked at to see how training goes: all of them would
        take nearly as many products as the training.
    first_momentum : float
        The most momentum of the first epochs, in which gradients are large.
    first_epochs : int
        How many these are.
    first_scale : float
        Standard deviation of the weights that training begins with.
    """

    sample: int = 4096
    first_momentum: float = 0.5
    first_epochs: int = 5
    first_scale: float = 0.01


SETTINGS = TrainingSettings()


class Epoch(NamedTuple):
    """What is known of a machine after a pass over the examples, from a few thousand of them.

    Attributes
    ----------
    reconstruction_error : float
        The mean square of the difference between inputs and their reconstructions.
    free_energy : float
        The mean free energy of the examples.
    noise_free_energy : float
        The same of examples whose inputs were exchanged among them, each input for itself. A
        machine that has learned how inputs go together gives these more.
    """

    reconstruction_error: float
    free_energy: float
    noise_free_energy: float


@dataclass(frozen=True)
class BoltzmannMachine:
    """A trained machine.

    Attributes
    ----------
    weights : ndarray of shape (n_hidden, n_visible)
    visible : ndarray of shape (n_visible,)
        What inputs are without hidden units: b.
    hidden : ndarray of shape (n_hidden,)
        c.
    history : list of Epoch
    """

    weights: Matrix
    visible: Vector
    hidden: Vector
    history: list[Epoch] = field(default_factory=list)

    def hidden_means(self, v: Any) -> Matrix:
        """Return the probability that each hidden unit is 1."""
        return np.asarray(expit(v @ self.weights.T + self.hidden))

    def visible_means(self, h: Matrix) -> Matrix:
        """Return the probability that each input is 1."""
        return np.asarray(expit(h @ self.weights + self.visible))

    def free_energy(self, v: Any) -> Vector:
        """Return the free energy of each example."""
        energy: Vector = -(v @ self.visible)
        energy -= np.logaddexp(0.0, v @ self.weights.T + self.hidden).sum(axis=1)
        return energy


def train_machine(
    X: Any,
    n_hidden: int,
    *,
    epochs: int,
    rate: float,
    momentum: float = 0.9,
    decay: float = 2e-4,
    batch: int = 100,
    seed: int | np.random.SeedSequence = 0,
) -> BoltzmannMachine:
    """Return a machine trained by contrastive divergence, one step of Gibbs sampling each.

    Products are in single precision: what is drawn at random is far coarser.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n_examples, n_visible)
        Numbers between 0 and 1.
    n_hidden, epochs, batch : int
        Hidden units, passes over the examples, and how many of these a step looks at.
    rate, momentum, decay : float
        Size of steps, share of the last step in the next one, and how much weights shrink.
    seed : int or SeedSequence
        The same seed gives the same machine.
    """
    from threadpoolctl import threadpool_limits

    require_probabilities(X)
    n, n_visible = X.shape
    rng = np.random.default_rng(seed)
    mean = np.asarray(X.mean(axis=0), dtype=np.float64).ravel()
    mean = np.clip(mean, 1.0 / (n + 2.0), 1.0 - 1.0 / (n + 2.0))
    machine = BoltzmannMachine(
        (SETTINGS.first_scale * rng.normal(size=(n_hidden, n_visible))).astype(np.float32),
        np.log(mean / (1.0 - mean)).astype(np.float32),
        np.zeros(n_hidden, dtype=np.float32),
    )
    parts = machine.weights, machine.visible, machine.hidden
    sample = _dense(X[:: -(-n // SETTINGS.sample)])
    last = [np.zeros_like(part) for part in parts]
    # Products of a batch are small: more threads would wait for each other most of the time.
    with threadpool_limits(1, "blas"):
        for epoch in range(epochs):
            order = rng.permutation(n)
            first = epoch < SETTINGS.first_epochs
            kept = min(momentum, SETTINGS.first_momentum) if first else momentum
            for begin in range(0, n, batch):
                v = _dense(X[order[begin : begin + batch]])
                changes = contrastive_divergence(machine, v, rng)
                changes[0] -= decay * machine.weights
                for part, step, change in zip(parts, last, changes, strict=True):
                    step *= kept
                    step += rate * change
                    part += step
            machine.history.append(_report(machine, sample, rng))
    weights, visible, hidden = (part.astype(np.float64) for part in parts)
    return BoltzmannMachine(weights, visible, hidden, machine.history)


def contrastive_divergence(
    machine: BoltzmannMachine, v: Matrix, rng: np.random.Generator
) -> list[Any]:
    """Return the direction of a step by weights, inputs and hidden units, a mean over examples.

    Hidden units are drawn at random to make reconstructions; elsewhere means take their place,
    which have the same expectation and less noise.
    """
    means = machine.hidden_means(v)
    drawn = (rng.random(means.shape, dtype=means.dtype) < means).astype(means.dtype)
    again = machine.visible_means(drawn)
    means_again = machine.hidden_means(again)
    n = len(v)
    return [
        (means.T @ v - means_again.T @ again) / n,
        (v - again).mean(axis=0),
        (means - means_again).mean(axis=0),
    ]


def train_cascade(
    X: Any, hidden: Sequence[int], *, seed: int | None, **settings: Any
) -> list[BoltzmannMachine]:
    """Return a machine for each layer, trained on the mean hidden units of the one below."""
    seeds = np.random.SeedSequence(seed).spawn(len(hidden))
    machines: list[BoltzmannMachine] = []
    for n_hidden, own in zip(hidden, seeds, strict=True):
        machines.append(train_machine(X, n_hidden, seed=own, **settings))
        X = machines[-1].hidden_means(X)
    return machines


def require_probabilities(X: Any) -> None:
    """Raise ValueError unless all entries are between 0 and 1."""
    values = X.data if scipy.sparse.issparse(X) else X
    if values.size and not (values.min() >= 0.0 and values.max() <= 1.0):
        raise ValueError(
            "pre-training by Boltzmann machines needs features between 0 and 1: scale X, for "
            "example by scikit-learn's MinMaxScaler"
        )


def _report(machine: BoltzmannMachine, v: Matrix, rng: np.random.Generator) -> Epoch:
    """Return how the machine does on some examples."""
    again = machine.visible_means(machine.hidden_means(v))
    return Epoch(
        float(((v - again) ** 2).mean()),
        float(machine.free_energy(v).mean()),
        float(machine.free_energy(rng.permuted(v, axis=0)).mean()),
    )


def _dense(rows: NDArray[Any] | scipy.sparse.csr_array) -> Any:
    dense = rows if isinstance(rows, np.ndarray) else rows.toarray()
    return np.asarray(dense, dtype=np.float32)
