"""Any computation of torch as a risk: the mean loss of what a module makes of examples.

    R(w) = sum_i weight_i * loss(module(x_i; w), y_i)

The parameters are one vector in float64; the subgradient is what autograd says. Examples go through
in batches, whose sums are added up in order: see :mod:`cutplane.models.networks.network`.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector
from cutplane.compute.products import dot
from cutplane.core.interrupts import at_once
from cutplane.core.protocols import KeptPoint, NonFiniteRisk, Plane
from cutplane.data.rows import Examples
from cutplane.models.networks.network import (
    BATCH,
    Network,
    batch_bounds,
    function_module,
    identity_of,
    import_torch,
    trained,
    write_vector,
)
from cutplane.risks.composite import Summable, checked_lower_bound, name_of
from cutplane.risks.scored import normalized


class TorchRisk(Summable):
    """Mean loss of a torch module on examples, with derivatives by autograd.

    Parameters
    ----------
    module : torch.nn.Module or callable
        Maps inputs to outputs. A module is copied, and evaluated as after ``module.eval()``: it
        stays as it is until `write_back`. Its parameters that require a gradient are the risk's,
        one after the other. A function gets the parameters, a vector of ``n_parameters`` in
        float64, before the inputs.
    data : tuple of (inputs, targets)
        Arrays or tensors with one row an example; ``inputs`` may also be a tuple of them, for a
        module with several arguments. Inputs and targets that are real numbers are converted to
        ``dtype``.
    loss : callable, optional
        From outputs and targets to a number for each example, or to their mean:
        ``torch.nn.functional.cross_entropy``, say. By default outputs are the losses.
    n_parameters : int, optional
        For a function only.
    convex : bool, optional
        Whether the risk is convex in the parameters. If nothing is said, methods for convex risks
        assume it, and the certificate says that they did; `nrbm` and `nbm` assume nothing.
    lower_bound : float
        A value that the risk never goes below.
    weights : array-like of shape (n_examples,), optional
        Weights of the examples, not negative; scaled to sum to one. The loss must then be one that
        returns a number for each.
    batch : int
        How many examples go through at a time. It bounds the memory.
    device : str or torch.device
        Where.
    dtype : torch.dtype, optional
        ``torch.float64`` by default. With ``torch.float32``, which is faster, values and slopes
        are right to six digits or so.
    n_threads : int, optional
        Number of threads; all cores by default. It has no influence on the results.

    Attributes
    ----------
    start : ndarray of shape (n_parameters,)
        The module's own parameters: where to start, and perhaps the center of the regularizer.
    """

    def __init__(
        self,
        module: Any,
        data: Any,
        loss: Callable[[Any, Any], Any] | None = None,
        *,
        n_parameters: int | None = None,
        convex: bool | None = None,
        lower_bound: float = -np.inf,
        weights: Any = None,
        batch: int = BATCH,
        device: Any = "cpu",
        dtype: Any = None,
        n_threads: int | None = None,
    ) -> None:
        torch = import_torch()
        if not isinstance(data, tuple) or len(data) != 2:
            raise TypeError("data must be a pair: inputs, and targets or None")
        if not (loss is None or callable(loss)):
            raise TypeError(f"loss must be callable, got {loss!r}")
        if batch < 1:
            raise ValueError(f"batch must be at least 1, got {batch}")
        self.given = module
        self.name = type(module).__name__
        if not isinstance(module, torch.nn.Module):
            if not callable(module):
                raise TypeError(f"module must be a torch.nn.Module or a function, got {module!r}")
            if n_parameters is None or n_parameters < 1:
                raise ValueError(f"{name_of(module)} needs n_parameters, at least 1")
            self.name = name_of(module)
            module = function_module(module, n_parameters)
        elif n_parameters is not None:
            raise ValueError("n_parameters is for functions: a module knows its own")
        self.network = Network(module, device=device, dtype=dtype, n_threads=n_threads)
        self.n_parameters, self.start = self.network.n_parameters, self.network.start
        inputs, targets = data
        inputs = inputs if isinstance(inputs, tuple) else (inputs,)
        self._inputs = tuple(_array("inputs", each) for each in inputs)
        self._targets = None if targets is None else _array("targets", targets)
        sizes = {len(each) for each in (*self._inputs, self._targets) if each is not None}
        if len(sizes) != 1 or 0 in sizes:
            raise ValueError(f"inputs and targets must have the same rows, got {sorted(sizes)}")
        self.n_examples = sizes.pop()
        self.loss_function, self._batch = loss, int(batch)
        self._equal = weights is None
        self.weights = normalized(weights, self.n_examples)
        self.convex = convex
        self.lower_bound = checked_lower_bound(lower_bound)
        self.evaluations = 0

    def at(self, w: Vector) -> KeptPoint:
        """Evaluate the risk and a subgradient at ``w``, batch by batch."""
        w = np.asarray(w, dtype=np.float64)
        self.evaluations += 1
        bounds = batch_bounds(self.n_examples, self._batch)
        values = np.zeros(len(bounds) - 1)

        def value_of(k: int) -> tuple[Any, None]:
            value = self._batch_value(slice(bounds[k], bounds[k + 1]))
            values[k] = value.item()
            return value, None

        try:
            with self.network.at(w), at_once():
                slope = self.network.pulled_back(len(values), value_of)
        except Exception as error:
            error.add_note(f"raised by {self.name} {self._here(w)}")
            raise
        value = float(values.sum())
        if np.isnan(value) or value == -np.inf:
            raise NonFiniteRisk(f"the loss of {self.name} is {value} {self._here(w)}")
        bad = np.count_nonzero(~np.isfinite(slope))
        if bad and np.isfinite(value):
            raise NonFiniteRisk(
                f"the gradient of {self.name} has {bad} of {len(w)} entries not finite "
                f"{self._here(w)}"
            )
        return KeptPoint(w, value, Plane(slope, value - dot(slope, w)))

    def part(self, examples: Examples) -> TorchRisk:
        """Return the risk of some of the examples, with their weights scaled to sum to one.

        The parameters are the same, and so is the copy of the module.
        """
        part = copy(self)
        part._inputs = tuple(each[examples] for each in self._inputs)
        part._targets = None if self._targets is None else self._targets[examples]
        part.n_examples = len(part._inputs[0])
        if part.n_examples == 0:
            raise ValueError("a risk needs at least one example")
        part.weights = normalized(self.weights[examples], part.n_examples)
        part.evaluations = 0
        return part

    def write_back(self, w: Vector) -> Any:
        """Give the module that the risk was made of the parameters ``w``; return it."""
        if not isinstance(self.given, import_torch().nn.Module):
            raise TypeError(f"{self.name} is a function: it has no parameters of its own")
        if np.shape(w) != (self.n_parameters,):
            raise ValueError(f"w must have length {self.n_parameters}, got shape {np.shape(w)}")
        write_vector(trained(self.given), w)
        return self.given

    def _batch_value(self, rows: slice) -> Any:
        """Return what a batch adds to the risk, with what derivatives need."""
        torch, network = import_torch(), self.network
        losses = network.outputs(*(each[rows] for each in self._inputs))
        if self.loss_function is not None:
            targets = None if self._targets is None else network.tensor(self._targets[rows])
            losses = self.loss_function(losses, targets)
        n = rows.stop - rows.start
        if not isinstance(losses, torch.Tensor) or losses.numel() not in (1, n):
            what = tuple(losses.shape) if isinstance(losses, torch.Tensor) else repr(losses)
            raise ValueError(
                f"the loss of {self.name} must be a number, or one for each example, got {what} "
                f"for {n} examples"
            )
        losses = losses.reshape(-1).double()
        if losses.numel() == n:
            weights = torch.from_numpy(self.weights[rows].copy()).to(losses.device)
            return (losses * weights).sum()
        if not self._equal:
            raise ValueError(
                'weights need a loss that returns a number for each example: reduction="none"'
            )
        return losses.sum() * (n / self.n_examples)

    def _here(self, w: Vector) -> str:
        return f"at evaluation {self.evaluations}, at a point of norm {np.linalg.norm(w):.3g}"

    def identity(self) -> dict[str, Any]:
        """Return what the risk consists of."""
        return {
            "module": self.network.identity(),
            "inputs": self._inputs,
            "targets": self._targets,
            "weights": self.weights,
            "loss": identity_of(self.loss_function),
            "batch": self._batch,
        }

    def __repr__(self) -> str:
        return f"TorchRisk({self.name}, {self.n_examples} examples, {self.n_parameters} parameters)"


def _array(name: str, values: Any) -> NDArray[Any]:
    """Return an array or tensor as an array with rows."""
    torch = import_torch()
    array = values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else values
    array = np.asarray(array)
    if array.ndim == 0 or array.dtype.kind not in "fiub":
        raise ValueError(f"{name} must be numbers, a row an example, got {array.dtype} values")
    return array
