"""A run's state as a checkpoint holds it: text, arrays, and slopes apart.

Nearly all of a large state are the slopes of its planes. They never change, so they are stored by
number, each once; the rest is small and stored anew each time. Matrices with room for more planes
than there are (slopes, Gram matrix) are stored without the room, and get it back.

The best point is stored as it is, with its scores. Evaluated afresh it would have others: those of
a point on a line are a mean of two, and differ in their last bits from a product with the data. A
point of a user's own risk that is no data is evaluated afresh all the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from cutplane.checkpoints.codec import Codec, Encoded, Unknown, Unstorable
from cutplane.checkpoints.store import Planes, Stored
from cutplane.compute.arrays import Vector
from cutplane.core.method import Method
from cutplane.core.protocols import Point
from cutplane.core.state import Problem, State


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the best point is, in place of a point that cannot be stored."""

    w: Vector


class Snapshots:
    """Takes and restores the states of runs on one problem, with one method.

    States refer to both, and checkpoints contain neither.
    """

    def __init__(self, problem: Problem, method: Method) -> None:
        self._problem = problem
        self._before = self._count()
        parts = {"risk": problem.risk, "regularizer": problem.regularizer}
        chosen = (*parts.values(), *method.policies)
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

    def take(self, state: State, inferences: int) -> tuple[Encoded, Planes]:
        """Return a state as text and arrays, and its planes; Unstorable if a policy's is no data.

        All is copied but for the slopes, which are `held` where they are: the run may go on.
        """
        bundle = state.bundle
        slopes, gram = bundle.matrices
        storage = {"slopes": slopes, "gram": gram}
        root = {"state": state, "gram": bundle.gram, "inferences": inferences}
        try:
            encoded = self._codec.encode(root, **storage)
        except Unstorable:
            root["state"] = replace(state, best=cast(Point, _Place(state.best.w)))
            encoded = self._codec.encode(root, **storage)
        encoded.tree["room"] = list(slopes.shape)
        copies = {name: array.copy() for name, array in encoded.arrays.items()}
        slots = bundle.held = bundle.slots
        return Encoded(encoded.tree, copies), Planes(bundle.numbers, lambda row: slopes[slots[row]])

    def release(self, state: State) -> None:
        """Let the run use the places of planes again that were dropped."""
        state.bundle.held = np.empty(0, dtype=np.int64)

    def restore(self, stored: Stored) -> State:
        """Return the state that was taken, or raise Unknown; the risk goes on counting."""
        encoded, slopes = stored
        try:
            rows, length = encoded.tree["room"]
            storage = {"slopes": np.zeros((rows, length)), "gram": np.zeros((rows, rows))}
            root = self._codec.decode(encoded, **storage)
            state: State = root["state"]
            n, bundle = len(root["gram"]), state.bundle
            storage["gram"][:n, :n] = root["gram"]
            for slot, number in zip(bundle.slots, bundle.numbers.tolist(), strict=True):
                storage["slopes"][slot] = slopes[number]
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise Unknown(f"not a stored state: {error}") from error
        if isinstance(state.best, _Place):
            state.best = self._problem.risk.at(state.best.w)
        if root["inferences"]:
            risk: Any = self._problem.risk
            risk.inferences += root["inferences"]
        self.release(state)
        state.stopped = state.interrupted = False
        return state
