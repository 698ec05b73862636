"""A plain function as a risk: ``w -> (value, subgradient)``, checked at every evaluation.

What a function of a user's returns is judged here, so that whatever is wrong with it is said in
its own words, with the number of the evaluation, and not found out later by an inner product.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from cutplane.compute.arrays import Vector
from cutplane.compute.products import dot
from cutplane.core.interrupts import at_once
from cutplane.core.needs import is_risk
from cutplane.core.protocols import KeptPoint, NonFiniteRisk, Plane, Risk
from cutplane.risks.checks import checked_lower_bound
from cutplane.risks.composite import Summable

Function = Callable[[Vector], tuple[float, Vector]]
"""From parameters to the value there and a subgradient."""


class FunctionRisk(Summable):
    """A function ``w -> (value, subgradient)`` as a risk.

    `cutplane.minimize` also takes the function itself. The class is for what a function cannot
    say: a lower bound, that it is not convex, or a sum with other risks.

    Parameters
    ----------
    function : callable
        Gets a vector of length ``n_parameters`` and returns the value there and a subgradient of
        that length. Both are checked at every evaluation. The value may be infinite outside of
        the function's domain.
    n_parameters : int
        Number of parameters.
    convex : bool, optional
        Whether the function is convex. Only then is a gap a certificate. If nothing is said, the
        methods for convex risks assume it, and the certificate says that they did; those for risks
        that are not convex assume nothing.
    lower_bound : float
        A value that the function never goes below.

    Examples
    --------
    >>> import numpy as np
    >>> import cutplane as cp
    >>> risk = FunctionRisk(lambda w: (abs(w).sum(), np.sign(w)), 3, lower_bound=0.0)
    >>> risk
    FunctionRisk(the function, 3 parameters)
    >>> cp.minimize(risk, cp.L2(1.0, center=[2.0, 0.5, 0.0])).w
    array([1., 0., 0.])
    """

    def __init__(
        self,
        function: Function,
        n_parameters: int,
        *,
        convex: bool | None = None,
        lower_bound: float = -np.inf,
    ) -> None:
        if not callable(function):
            raise TypeError(f"function must be callable, got {function!r}")
        if n_parameters < 1:
            raise ValueError(f"a function needs at least 1 parameter, got {n_parameters}")
        self.function = function
        self.n_parameters = int(n_parameters)
        self.convex = convex
        self.lower_bound = checked_lower_bound(lower_bound)
        self.evaluations = 0

    def at(self, w: Vector) -> KeptPoint:
        """Call the function at ``w``, and check what it returns."""
        self.evaluations += 1
        try:
            with at_once():
                answer = self.function(w.copy())  # a copy, so that the function may write to it
        except Exception as error:
            error.add_note(f"raised by {name_of(self.function)} {self._here(w)}")
            raise
        try:
            value, subgradient = answer
        except (TypeError, ValueError):
            raise self._wrong(
                TypeError, f"must return (value, subgradient), returned {_shown(answer)}", w
            ) from None
        height = self._value(value, w)
        slope = self._subgradient(subgradient, height, w)
        return KeptPoint(w, height, Plane(slope, height - dot(slope, w)))

    def _value(self, value: Any, w: Vector) -> float:
        found = np.asarray(value)
        if found.ndim or found.dtype.kind not in "fiub":
            raise self._wrong(TypeError, f"must return a number first, returned {_shown(value)}", w)
        if np.isnan(found) or found == -np.inf:
            raise self._wrong(NonFiniteRisk, f"is {found}", w)
        return float(found)

    def _subgradient(self, subgradient: Any, value: float, w: Vector) -> Vector:
        found = np.asarray(subgradient)
        if found.dtype.kind not in "fiu":
            raise self._wrong(
                TypeError, f"must return real numbers second, returned {_shown(subgradient)}", w
            )
        if found.shape != w.shape:
            raise self._wrong(
                ValueError, f"returned a subgradient of shape {found.shape}, w has {w.shape}", w
            )
        # Where the value is infinite no plane is taken, and the subgradient is not looked at.
        bad = np.flatnonzero(~np.isfinite(found))
        if len(bad) and np.isfinite(value):
            raise self._wrong(
                NonFiniteRisk,
                f"returned a subgradient with {len(bad)} of {len(w)} entries not finite "
                f"(entry {bad[0]} is {found[bad[0]]})",
                w,
            )
        # A copy, because the function may use the same memory for the next answer.
        return np.array(found, dtype=np.float64)

    def _wrong(self, kind: type[Exception], what: str, w: Vector) -> Exception:
        return kind(f"{name_of(self.function)} {what} {self._here(w)}")

    def _here(self, w: Vector) -> str:
        return f"at evaluation {self.evaluations}, at a point of norm {np.linalg.norm(w):.3g}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({name_of(self.function)}, {self.n_parameters} parameters)"


def as_risk(risk: Risk | Function, *alike: Any) -> Risk:
    """Return a risk as it is, and a function as a risk.

    Parameters
    ----------
    risk : Risk or callable
        A risk, or a convex function ``w -> (value, subgradient)``.
    *alike : array-like or None
        Vectors with as many entries as the function has parameters, as far as there are any.
    """
    if is_risk(risk):
        return cast(Risk, risk)
    if not callable(risk):
        raise TypeError(
            "risk must be a risk such as cp.ScoredRisk, or a function that returns "
            f"(value, subgradient), got {risk!r}"
        )
    known = next((vector for vector in alike if vector is not None), None)
    if known is None:
        raise ValueError(
            f"{name_of(risk)} does not tell how many parameters it has: give "
            "start=np.zeros(d), with their number for d"
        )
    return FunctionRisk(risk, np.size(known))


def is_function_of(risk: Risk, function: Any) -> bool:
    """Say whether a risk is made of this very function."""
    return isinstance(risk, FunctionRisk) and bool(risk.function == function)


def name_of(function: Any) -> str:
    """Return what to call a function in a message."""
    name = getattr(function, "__name__", type(function).__name__)
    return "the function" if name == "<lambda>" else f"{name}()"


def _shown(thing: Any) -> str:
    """Return what something is, in a few words."""
    if isinstance(thing, np.ndarray):
        return f"an array of shape {thing.shape} and dtype {thing.dtype}"
    text = repr(thing)
    return text if len(text) <= 60 else f"a {type(thing).__name__}"
