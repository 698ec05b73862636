"""A function of the user's own: ``w -> (value, subgradient)``."""

from __future__ import annotations

from cutplane.risks.composite import Summable
from cutplane.risks.oracle import Oracle, name_of


class FunctionRisk(Summable, Oracle):
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

    def __repr__(self) -> str:
        return f"{type(self).__name__}({name_of(self.function)}, {self.n_parameters} parameters)"
