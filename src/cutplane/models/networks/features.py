"""Networks of sigmoid layers, begun as cascades of Boltzmann machines, and what stands on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cutplane.compute.arrays import Matrix, Vector
from cutplane.models.networks.boltzmann import BoltzmannMachine
from cutplane.models.networks.network import import_torch


def sigmoid_layers(machines: Sequence[BoltzmannMachine]) -> Any:
    """Return a module with a layer for each machine, which begins with its weights."""
    return layers_with([(machine.weights, machine.hidden) for machine in machines])


def layers_with(weights: Sequence[tuple[Matrix, Vector]]) -> Any:
    """Return a module of sigmoid layers with these weights and biases, in float64."""
    torch = import_torch()
    layers: list[Any] = []
    for weight, bias in weights:
        layer = torch.nn.Linear(weight.shape[1], weight.shape[0], dtype=torch.float64)
        with torch.no_grad():
            layer.weight.copy_(torch.from_numpy(np.array(weight)))
            layer.bias.copy_(torch.from_numpy(np.array(bias)))
        layers += [layer, torch.nn.Sigmoid()]
    return torch.nn.Sequential(*layers)


def with_scores(features: Any, coef: Matrix) -> Any:
    """Return a module that scores labels by the features of another: one row of ``coef`` each."""
    torch = import_torch()
    scores = torch.nn.Linear(coef.shape[1], coef.shape[0], bias=False, dtype=torch.float64)
    with torch.no_grad():
        scores.weight.copy_(torch.from_numpy(np.array(coef)))
    return torch.nn.Sequential(features, scores)
