"""A torch module whose parameters are one vector: values and derivatives, batch by batch.

The module is copied and evaluated as after ``module.eval()``, so that the one given stays as it is,
nothing is drawn at random, and an example's outputs do not depend on others. A batch runs on one
thread of torch, several batches at a time on threads of ours, and their derivatives are added up in
order in float64: the number of threads leaves no trace in the result, and the memory needed is that
of a few batches.

Networks of sigmoid layers begin as cascades of Boltzmann machines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from threading import RLock
from typing import Any, Self

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from cutplane.compute.arrays import Matrix, Vector
from cutplane.compute.threads import InOrder, default_threads, run_blocks

BATCH = 2048
"""Examples of a batch by default: enough for fast products, few enough for little memory."""

_SIMPLE = (bool, int, float, str, tuple, type(None))

Outputs = Callable[[int], tuple[Any, Any]]
"""From the number of a batch to outputs of the module, and the derivatives by them."""


class TorchUnavailable(ImportError):
    """Torch is not installed."""


def import_torch() -> Any:
    """Return torch, which is imported when it is first needed."""
    try:
        import torch
    except ImportError as error:
        raise TorchUnavailable('networks need torch: pip install "cutplane[torch]"') from error
    return torch


class Network:
    """A copy of a torch module, evaluated at any vector of parameters.

    Parameters
    ----------
    module : torch.nn.Module
        Parameters that require no gradient, and buffers, are constants.
    device : str or torch.device
        Where it is evaluated.
    dtype : torch.dtype, optional
        In which precision; float64 by default. Sums over batches are in float64 anyway.
    n_threads : int, optional
        How many batches are evaluated at a time on a CPU; as many as there are cores by default.

    Attributes
    ----------
    n_parameters : int
    start : ndarray of shape (n_parameters,)
        The module's own parameters, one after the other.
    """

    def __init__(
        self, module: Any, *, device: Any = "cpu", dtype: Any = None, n_threads: int | None = None
    ) -> None:
        torch = import_torch()
        if not isinstance(module, torch.nn.Module):
            raise TypeError(f"module must be a torch.nn.Module, got {module!r}")
        self.dtype = torch.float64 if dtype is None else dtype
        if self.dtype not in (torch.float32, torch.float64):
            raise ValueError(f"dtype must be torch.float32 or torch.float64, got {dtype!r}")
        self.device = torch.device(device)
        self.name = type(module).__name__
        # Parameters in float64 wherever they come from: a conversion would round those of float32.
        self.start = vector_of(module)
        self.n_parameters = len(self.start)
        if self.n_parameters == 0:
            raise ValueError(f"{self.name} has no parameters to learn")
        if not np.isfinite(self.start).all():
            raise ValueError(f"{self.name} has parameters that are not finite")
        self.module = deepcopy(module).to(device=self.device, dtype=self.dtype).eval()
        self._parameters = trained(self.module)
        self._n_threads = n_threads
        self._busy = RLock()

    def __getstate__(self) -> dict[str, Any]:
        """Return all but the lock, which no copy shares."""
        return {name: value for name, value in vars(self).items() if name != "_busy"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._busy = RLock()

    @contextmanager
    def at(self, w: Vector) -> Iterator[Self]:
        """Give the copy the parameters ``w``; nobody else can meanwhile."""
        if np.shape(w) != (self.n_parameters,):
            raise ValueError(
                f"w must have length {self.n_parameters}, as many as {self.name} has parameters, "
                f"got shape {np.shape(w)}"
            )
        with self._busy:
            write_vector(self._parameters, w)
            yield self

    def outputs(self, *inputs: Any) -> Any:
        """Return the outputs for a batch of one array or several, with what derivatives need."""
        return self.module(*map(self.tensor, inputs))

    def tensor(self, values: Any) -> Any:
        """Return an array as a tensor of its own; real numbers in the precision of the network."""
        torch = import_torch()
        if scipy.sparse.issparse(values):
            values = values.toarray()
        if isinstance(values, torch.Tensor):
            values = values.detach().cpu().numpy()
        dtype = self.dtype
        if values.dtype.kind != "f":
            dtype = torch.from_numpy(np.empty(0, values.dtype)).dtype
        # Memory of its own, also where arrays are read-only, and aligned in the same way each time.
        made = torch.empty(values.shape, dtype=dtype)
        made.numpy()[...] = values
        return made.to(self.device)

    def pulled_back(self, n_batches: int, outputs_of: Outputs) -> Vector:
        """Return the sum over batches of the derivatives by the parameters, at those of `at`."""
        torch = import_torch()
        total = np.zeros(self.n_parameters)

        def take(derivatives: Any) -> None:
            nonlocal total
            total += derivatives

        in_order = InOrder(take)

        def batch(k: int) -> None:
            with torch.enable_grad():
                outputs, slopes = outputs_of(k)
                found = torch.autograd.grad(
                    outputs, self._parameters, slopes, allow_unused=True, materialize_grads=True
                )
            in_order.put(k, _joined(found))

        self.each_batch(n_batches, batch)
        return total

    def each_batch(
        self, n_batches: int, batch: Callable[[int], object], *, n_threads: int | None = None
    ) -> None:
        """Call a function on each batch, on a thread of torch each."""
        torch = import_torch()
        before = torch.get_num_threads()
        one_each = self.device.type == "cpu"

        def task(first: int, last: int) -> None:
            if one_each:
                torch.set_num_threads(1)  # of this thread, which may be new to torch
            for k in range(first, last):
                batch(k)

        n_threads = n_threads or self._n_threads or default_threads()
        n_threads = n_threads if one_each else 1
        try:
            run_blocks(task, n_batches, n_threads=n_threads)
        finally:
            torch.set_num_threads(before)

    def identity(self) -> dict[str, Any]:
        """Return what the outputs depend on, besides inputs and parameters."""
        return {"module": identity_of(self.module), "dtype": str(self.dtype)}


def function_module(function: Any, n_parameters: int) -> Any:
    """Return a module whose one parameter is the first argument of a function."""
    torch = import_torch()

    class Function(torch.nn.Module):  # type: ignore[misc,name-defined,unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.function = function
            self.w = torch.nn.Parameter(torch.zeros(n_parameters, dtype=torch.float64))

        def forward(self, *inputs: Any) -> Any:
            return self.function(self.w, *inputs)

    return Function()


def identity_of(function: Any) -> Any:
    """Return what a module consists of, but the parameters to learn; another function as it is."""
    if not isinstance(function, import_torch().nn.Module):
        return function
    fixed = {name: each.cpu().numpy() for name, each in function.named_buffers()}
    fixed |= {
        name: each.detach().cpu().numpy()
        for name, each in function.named_parameters()
        if not each.requires_grad
    }
    layers = [
        (name, type(layer), list(_settings(layer))) for name, layer in function.named_modules()
    ]
    return {"layers": layers, "constants": fixed}


def trained(module: Any) -> list[Any]:
    """Return the parameters that require a gradient, each of them once."""
    return [parameter for parameter in module.parameters() if parameter.requires_grad]


def vector_of(module: Any) -> Vector:
    """Return the parameters of a module that require a gradient, one after the other."""
    return _joined([parameter.detach() for parameter in trained(module)])


def write_vector(parameters: list[Any], w: Vector) -> None:
    """Give parameters the values of a vector."""
    torch = import_torch()
    begin = 0
    for parameter in parameters:
        end = begin + parameter.numel()
        values = np.reshape(w[begin:end], tuple(parameter.shape))
        if parameter.device.type == "cpu":
            # Not by torch, whose threads would wait for each other, longer than a step takes.
            parameter.detach().numpy()[...] = values
        else:
            with torch.no_grad():
                parameter.copy_(torch.from_numpy(values.copy()))
        begin = end


def batch_bounds(n_examples: int, size: int) -> NDArray[np.int64]:
    """Return where batches of about equal size begin, and where the last ends."""
    n_batches = max(-(-n_examples // size), 1)
    return np.arange(n_batches + 1) * n_examples // n_batches


def _joined(tensors: Any) -> Vector:
    parts = [each.detach().cpu().numpy().astype(np.float64).ravel() for each in tensors]
    return np.concatenate(parts) if parts else np.empty(0)


def _settings(layer: Any) -> Iterator[tuple[str, Any]]:
    """Yield what a layer's constructor left behind in plain values."""
    for key, value in sorted(vars(layer).items()):
        plain = isinstance(value, _SIMPLE) or callable(value)
        if plain and not key.startswith("_") and key != "training":
            yield key, value


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
