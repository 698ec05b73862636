"""A run's state as a checkpoint holds it: text, arrays, and slopes apart.

Nearly all of a large state are the slopes of its planes. They never change, so they are stored by
number, each once; the rest is small and stored anew each time. Matrices with room for more planes
than there are (slopes, Gram matrix) are stored without the room, and get some again.

What is restored is believed: bounds and planes cannot be checked. Of a state that was written by
somebody else only the place of its best point is taken, from which a run begins anew.

The best point is stored as it is, with its scores. Evaluated afresh it would have others: those of
a point on a line are a mean of two, and differ in their last bits from a product with the data. A
point of a user's own risk that is no data is evaluated afresh all the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from cutplane.checkpoints.checking import require_fitting
from cutplane.checkpoints.codec import Codec, Encoded, Unknown, Unstorable
from cutplane.checkpoints.store import Planes, Stored
from cutplane.compute.arrays import Vector
from cutplane.core.protocols import Point
from cutplane.core.solver import AnySolver, options_of
from cutplane.core.state import Problem, Run


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the best point is, in place of a point that cannot be stored."""

    w: Vector


class Snapshots:
    """Takes and restores the states of runs on one problem, with one method.

    States refer to both, and checkpoints contain neither.
    """

    def __init__(self, problem: Problem, method: AnySolver) -> None:
        self._problem, self._method = problem, method
        self._before = self._count()
        parts = {"risk": problem.risk, "regularizer": problem.regularizer}
        chosen = (*parts.values(), method, *options_of(method).values())
        # The modules of what the user has chosen, whose classes a state may contain.
        modules = {
            kind.__module__
            for choice in chosen
            for kind in type(choice).__mro__
            if kind is not object
        }
        self._codec = Codec(parts | {"problem": problem, "method": method}, modules)

    @property
    def inferences(self) -> int:
        """How many inferences the run took, if the risk counts them; evaluations are in the state.

        To be read where a state is whole: the last check of a run is not counted twice.
        """
        return self._count() - self._before

    def _count(self) -> int:
        return int(getattr(self._problem.risk, "inferences", 0))

    def take(self, state: Run, inferences: int) -> tuple[Encoded, Planes]:
        """Return a state as text and arrays, and its planes; Unstorable if a policy's is no data.

        All is copied but for the slopes, which are `held` where they are: the run may go on.
        """
        bundle = state.bundle
        slopes, gram = bundle.matrices
        storage = {"slopes": slopes, "gram": gram}
        root = {
            "state": state,
            "gram": bundle.gram,
            "inferences": inferences,
            "w": state.best.w,
        }
        try:
            encoded = self._codec.encode(root, **storage)
        except Unstorable:
            root["state"] = replace(state, best=cast(Point, _Place(state.best.w)))
            encoded = self._codec.encode(root, **storage)
        copies = {name: array.copy() for name, array in encoded.arrays.items()}
        slots = bundle.held = bundle.slots
        return Encoded(encoded.tree, copies), Planes(bundle.numbers, lambda row: slopes[slots[row]])

    def release(self, state: Run) -> None:
        """Let the run use the places of planes again that were dropped."""
        state.bundle.held = np.empty(0, dtype=np.int64)

    def best_point(self, encoded: Encoded) -> Vector:
        """Return where a state that anybody may have written has its best point; or Unknown."""
        try:
            nodes = dict(encoded.tree["root"]["dict"])
            only = {"root": nodes["w"], "objects": [], "arrays": encoded.tree["arrays"]}
        except (LookupError, TypeError, ValueError) as error:
            raise Unknown(f"not a stored state: {error}") from error
        w = self._codec.decode(Encoded(only, encoded.arrays))
        if not (isinstance(w, np.ndarray) and w.dtype == np.float64):
            raise Unknown("not a stored state: its best point is no vector")
        problem = self._problem
        if w.shape != (problem.risk.n_parameters,):
            raise Unknown(f"its best point has shape {w.shape}")
        with np.errstate(all="ignore"):
            if not np.isfinite(problem.regularizer.value(w)):
                raise Unknown("the regularizer is not finite at its best point")
        return w.copy()

    def restore(self, stored: Stored) -> Run:
        """Return the state that was taken, or raise Unknown; the risk goes on counting."""
        encoded, slopes = stored
        nothing = np.empty((0, 0))
        try:
            root = self._codec.decode(encoded, slopes=nothing, gram=nothing)
            state: Run = root["state"]
            inferences: int = root["inferences"]
            counts = hasattr(self._problem.risk, "inferences")
            if type(inferences) is not int or inferences < 0 or (inferences and not counts):
                raise Unknown("no number of inferences")
            require_fitting(state, self._problem, self._method, self._codec.given)
            rows = [slopes[number] for number in state.bundle.numbers.tolist()]
            state.bundle.refill(self._problem.risk.n_parameters, rows, root["gram"])
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise Unknown(f"not a stored state: {error}") from error
        if isinstance(state.best, _Place):
            state.best = self._problem.risk.at(state.best.w)
        if inferences:
            risk: Any = self._problem.risk
            risk.inferences += inferences
        state.stopped = state.interrupted = False
        return state
