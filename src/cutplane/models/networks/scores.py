"""Scores that a torch module computes, layer by layer.

What goes through the linear layers of a network: inputs, and derivatives by outputs.

Scores from a torch module: a map that is not linear, with derivatives by autograd.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector
from cutplane.data.layouts import as_rows
from cutplane.data.rows import Bounds, Examples, ScoreMap
from cutplane.models.networks.network import BATCH, Network, batch_bounds, import_torch, trained


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


def _rows(values: Any) -> NDArray[Any]:
    return np.asarray(values.detach().cpu().numpy().reshape(-1, values.shape[-1]))


SlopesOf = Callable[[int, NDArray[np.float64]], NDArray[np.float64]]
"""From the number of a batch and its scores to the derivatives by these."""


class TorchScores(ScoreMap):
    """Scores that a torch module computes: ``module(X)``, one row an example.

    A map for `cutplane.ChainRisk` and `cutplane.ScoredRisk`, whose dynamic programs and losses stay
    what they are. The parameters are those of the module that require a gradient, one after the
    other.

    Parameters
    ----------
    module : torch.nn.Module
        From features of examples to their scores: one number each, or one for each class. It is
        copied, and evaluated as after ``module.eval()``.
    X : array-like or CSR matrix
        The features, one row an example. Real numbers come to the module in the precision that
        ``dtype`` names.
    batch : int
        How many examples are evaluated at a time.
    device : str or torch.device
        Where.
    dtype : torch.dtype, optional
        ``torch.float64`` by default. With ``torch.float32`` it is faster, and values are right to
        six digits or so.
    n_threads : int, optional
        Number of threads; all cores by default. It has no influence on the results.

    Attributes
    ----------
    start : ndarray of shape (n_parameters,)
        The module's own parameters.

    Examples
    --------
    >>> import cutplane as cp
    >>> import torch  # doctest: +SKIP
    >>> scores = cp.TorchScores(torch.nn.Linear(2, 3), X)  # doctest: +SKIP
    >>> risk = cp.ChainRisk(scores, y, offsets, cp.ChainCRF())  # doctest: +SKIP
    """

    linear = False

    def __init__(
        self,
        module: Any,
        X: Any,
        *,
        batch: int = BATCH,
        device: Any = "cpu",
        dtype: Any = None,
        n_threads: int | None = None,
    ) -> None:
        if batch < 1:
            raise ValueError(f"batch must be at least 1, got {batch}")
        self.network = Network(module, device=device, dtype=dtype, n_threads=n_threads)
        self.batch = int(batch)
        self.start = self.network.start
        self.n_parameters = self.network.n_parameters
        X = X if scipy.sparse.issparse(X) else np.asarray(X)
        if X.shape[0] == 0:
            raise ValueError("a map needs at least one example")
        self._take(X)
        with self.network.at(self.start):
            found = self._batch_scores(np.array([0, 1]), 0)
        self.score_shape = found.shape[1:]

    def _take(self, X: Any) -> None:
        self._X = X.tocsr() if scipy.sparse.issparse(X) else X
        flat = self._X
        if not scipy.sparse.issparse(flat):
            flat = flat.reshape(len(flat), int(np.prod(flat.shape[1:])))
        self.rows = as_rows(flat)

    def part(self, examples: Examples) -> TorchScores:
        """Return the map for some examples: of the same parameters, and the same copy."""
        part = copy(self)
        part._take(self._X[examples])
        return part

    def scores(self, w: Vector) -> NDArray[np.float64]:
        """Return the scores of all examples."""
        bounds = batch_bounds(self.rows.shape[0], self.batch)
        scores = np.empty((self.rows.shape[0], *self.score_shape))
        torch = import_torch()

        def batch(k: int) -> None:
            with torch.no_grad():
                scores[bounds[k] : bounds[k + 1]] = self._batch_scores(bounds, k)

        with self.network.at(w):
            self.network.each_batch(len(bounds) - 1, batch)
        return scores

    def pullback(self, slopes: NDArray[np.float64]) -> Vector:
        """Not known without parameters: see `pullback_at`."""
        raise NotImplementedError("derivatives of a network need its parameters: pullback_at()")

    def pullback_at(self, w: Vector, slopes: NDArray[np.float64]) -> Vector:
        """Return the derivatives by the parameters at ``w``."""
        bounds = batch_bounds(self.rows.shape[0], self.batch)
        return self.pullback_through(w, bounds, lambda k, _: slopes[bounds[k] : bounds[k + 1]])

    def pullback_through(self, w: Vector, bounds: Bounds, slopes_of: SlopesOf) -> Vector:
        """Return the derivatives by the parameters of a function that is a sum over batches.

        Parameters
        ----------
        w : ndarray
            The parameters.
        bounds : ndarray
            The example where each batch begins, and where the last ends.
        slopes_of : callable
            From the number of a batch and its scores to the derivatives by them. Called from
            several threads.
        """

        def outputs_of(k: int) -> tuple[Any, Any]:
            outputs = self._outputs(bounds, k)
            slopes = slopes_of(k, self._as_scores(outputs, bounds, k))
            return outputs, self.network.tensor(slopes).reshape(outputs.shape)

        with self.network.at(w):
            return self.network.pulled_back(len(bounds) - 1, outputs_of)

    @property
    def widest_layer(self) -> int | None:
        """The most inputs or outputs of a layer; None if not only linear layers are learned."""
        layers = linear_layers(self.network.module)
        return max((max(layer.weight.shape) for layer in layers), default=None)

    def layer_traces(self, w: Vector, slopes: NDArray[np.float64]) -> list[LayerTrace]:
        """Return what goes through the linear layers, given the derivatives by the scores."""
        bounds, torch = batch_bounds(self.rows.shape[0], self.batch), import_torch()
        layers = linear_layers(self.network.module)
        # Inputs and outputs of each use of a layer in a batch; then inputs and slopes of all uses.
        uses: list[list[tuple[Any, Any]]] = [[] for _ in layers]
        seen: list[list[tuple[NDArray[Any], NDArray[Any]]]] = [[] for _ in layers]

        def listen(layer: Any, own: list[tuple[Any, Any]]) -> Any:
            return layer.register_forward_hook(lambda _, given, z: own.append((given[0], z)))

        def batch(k: int) -> None:
            for own in uses:
                own.clear()
            with torch.enable_grad():
                outputs = self._outputs(bounds, k)
                by_scores = self.network.tensor(slopes[bounds[k] : bounds[k + 1]])
                by_uses = iter(
                    torch.autograd.grad(
                        outputs,
                        [z for own in uses for _, z in own],
                        by_scores.reshape(outputs.shape),
                        allow_unused=True,
                        materialize_grads=True,
                    )
                )
            for own, rows in zip(uses, seen, strict=True):
                rows += [(_rows(given), _rows(next(by_uses))) for given, _ in own]

        hooks = list(map(listen, layers, uses))
        try:
            with self.network.at(w):
                self.network.each_batch(len(bounds) - 1, batch, n_threads=1)
        finally:
            for hook in hooks:
                hook.remove()
        traces = []
        for layer, each in zip(layers, seen, strict=True):
            inputs, found = map(np.concatenate, zip(*each, strict=True))
            if layer.bias is not None:
                inputs = np.concatenate([inputs, np.ones((len(inputs), 1), inputs.dtype)], axis=1)
            traces.append(LayerTrace(inputs, found, layer.bias is not None))
        return traces

    def plane_at(
        self, w: Vector, scores: NDArray[np.float64], slopes: NDArray[np.float64], offset: float
    ) -> tuple[Vector, float]:
        """Return the plane that touches, at ``w``, an affine function of the scores there."""
        slope = self.pullback_at(w, slopes)
        return slope, offset + float(np.vdot(slopes, scores)) - float(slope @ w)

    def _outputs(self, bounds: Bounds, k: int) -> Any:
        return self.network.outputs(self._X[bounds[k] : bounds[k + 1]])

    def _batch_scores(self, bounds: Bounds, k: int) -> NDArray[np.float64]:
        return self._as_scores(self._outputs(bounds, k), bounds, k)

    def _as_scores(self, outputs: Any, bounds: Bounds, k: int) -> NDArray[np.float64]:
        """Return the outputs of a batch as scores: a row, or a number, for each example."""
        n, torch = int(bounds[k + 1] - bounds[k]), import_torch()
        if not isinstance(outputs, torch.Tensor):
            raise TypeError(f"{self.network.name} must return a tensor, returned {outputs!r}")
        if outputs.ndim not in (1, 2) or len(outputs) != n:
            raise ValueError(
                f"{self.network.name} must return a row of scores for each example, returned "
                f"shape {tuple(outputs.shape)} for {n} of them"
            )
        scores: NDArray[np.float64] = outputs.detach().cpu().numpy().astype(np.float64)
        return scores[:, 0] if scores.shape[1:] == (1,) else scores

    def identity(self) -> dict[str, Any]:
        """Return what the scores depend on; batches round alike."""
        return {"module": self.network.identity(), "X": self._X, "batch": self.batch}

    def __str__(self) -> str:
        return f"{self.network.name} of {self.rows}"
