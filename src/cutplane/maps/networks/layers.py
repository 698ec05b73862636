"""What goes through the linear layers of a network: inputs, and derivatives by outputs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutplane.maps.networks.network import import_torch, trained


class LayerTrace(NamedTuple):
    """What a linear layer has seen of some examples, a row for each of its uses.

    Attributes
    ----------
    inputs : ndarray of shape (n_uses, n_inputs)
        With a last column of ones if the layer has a bias.
    slopes : ndarray of shape (n_uses, n_outputs)
        The derivatives by its outputs.
    bias : bool
    """

    inputs: NDArray[Any]
    slopes: NDArray[Any]
    bias: bool


def linear_layers(module: Any) -> list[Any]:
    """Return the linear layers of a module, in order, if it learns nothing else; else none."""
    torch = import_torch()
    layers = [each for each in module.modules() if type(each) is torch.nn.Linear and trained(each)]
    whole = all(len(trained(layer)) == len(list(layer.parameters())) for layer in layers)
    learned = [id(parameter) for layer in layers for parameter in layer.parameters()]
    same = learned == [id(parameter) for parameter in trained(module)]
    return layers if whole and same else []


class Recorder:
    """Hears what goes through layers, batch by batch.

    Parameters
    ----------
    layers : list of torch.nn.Linear
    """

    def __init__(self, layers: list[Any]) -> None:
        self._layers = layers
        self._batch: list[list[tuple[Any, Any]]] = []
        self._inputs: list[list[Any]] = [[] for _ in layers]
        self._slopes: list[list[Any]] = [[] for _ in layers]

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Hear of every use of a layer in here."""
        handles = [
            layer.register_forward_hook(self._hears(number))
            for number, layer in enumerate(self._layers)
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _hears(self, number: int) -> Any:
        def heard(layer: Any, inputs: tuple[Any, ...], outputs: Any) -> None:
            self._batch[number].append((inputs[0], outputs))

        return heard

    def begin_batch(self) -> None:
        """Forget the uses of the last batch."""
        self._batch = [[] for _ in self._layers]

    def end_batch(self, outputs: Any, slopes: Any) -> None:
        """Go back from the outputs of the network to those of all layers."""
        torch = import_torch()
        uses = [use for each in self._batch for use in each]
        found = iter(
            torch.autograd.grad(
                outputs, [z for _, z in uses], slopes, allow_unused=True, materialize_grads=True
            )
        )
        for number, each in enumerate(self._batch):
            for given, z in each:
                self._inputs[number].append(_rows(given, given.shape[-1]))
                self._slopes[number].append(_rows(next(found), z.shape[-1]))

    def traces(self) -> list[LayerTrace]:
        """Return what was heard of all batches."""
        traces = []
        for layer, inputs, slopes in zip(self._layers, self._inputs, self._slopes, strict=True):
            rows, bias = np.concatenate(inputs), layer.bias is not None
            if bias:
                rows = np.concatenate([rows, np.ones((len(rows), 1), rows.dtype)], axis=1)
            traces.append(LayerTrace(rows, np.concatenate(slopes), bias))
        return traces


def _rows(values: Any, width: int) -> NDArray[Any]:
    rows: NDArray[Any] = values.detach().cpu().numpy().reshape(-1, width)
    return rows
