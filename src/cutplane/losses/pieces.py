"""Hinge, quantile, Huber and their relatives: each is said by its two pieces."""

from __future__ import annotations

from cutplane.losses.piecewise import Piece, PiecewiseLoss
from cutplane.losses.score_loss import not_negative, positive

_INF = float("inf")


class Hinge(PiecewiseLoss):
    """``max(0, 1 - y*z)``, the loss of the support vector machine."""

    def __init__(self) -> None:
        super().__init__("classification", left=Piece(slope=1.0))


class SquaredHinge(PiecewiseLoss):
    """``max(0, 1 - y*z)^2``."""

    def __init__(self) -> None:
        super().__init__("classification", left=Piece(slope=_INF, curvature=2.0))


class SmoothHinge(PiecewiseLoss):
    """The hinge with its kink rounded: quadratic for margins in ``(1 - smoothing, 1)``."""

    shown = ("smoothing",)

    def __init__(self, smoothing: float = 0.5) -> None:
        self.smoothing = positive("smoothing", smoothing)
        super().__init__("classification", left=Piece(slope=1.0, curvature=1.0 / self.smoothing))


class Squared(PiecewiseLoss):
    """``(z - y)^2 / 2``: the mean."""

    steady_curvature = True

    def __init__(self) -> None:
        parabola = Piece(slope=_INF, curvature=1.0)
        super().__init__("regression", left=parabola, right=parabola)


class Absolute(PiecewiseLoss):
    """``|z - y|``: the median."""

    def __init__(self) -> None:
        super().__init__("regression", left=Piece(slope=1.0), right=Piece(slope=1.0))


class Quantile(PiecewiseLoss):
    """The pinball loss ``max(q*(y - z), (1 - q)*(z - y))``, which the ``q``-quantile minimizes."""

    shown = ("quantile",)

    def __init__(self, quantile: float = 0.5) -> None:
        if not 0.0 < quantile < 1.0:
            raise ValueError(f"a quantile lies strictly between 0 and 1, got {quantile}")
        self.quantile = float(quantile)
        super().__init__(
            "regression", left=Piece(slope=quantile), right=Piece(slope=1.0 - quantile)
        )


class EpsilonInsensitive(PiecewiseLoss):
    """``max(0, |z - y| - epsilon)``, the loss of support vector regression."""

    shown = ("epsilon",)

    def __init__(self, epsilon: float = 0.1) -> None:
        self.epsilon = not_negative("epsilon", epsilon)
        piece = Piece(slope=1.0, start=self.epsilon)
        super().__init__("regression", left=piece, right=piece)


class SquaredEpsilonInsensitive(PiecewiseLoss):
    """``max(0, |z - y| - epsilon)^2``."""

    shown = ("epsilon",)

    def __init__(self, epsilon: float = 0.1) -> None:
        self.epsilon = not_negative("epsilon", epsilon)
        piece = Piece(slope=_INF, curvature=2.0, start=self.epsilon)
        super().__init__("regression", left=piece, right=piece)


class Huber(PiecewiseLoss):
    """``u^2 / 2`` for ``|u| <= delta``, ``delta*|u| - delta^2/2`` beyond, with ``u = z - y``."""

    shown = ("delta",)

    def __init__(self, delta: float = 1.35) -> None:
        self.delta = positive("delta", delta)
        piece = Piece(slope=self.delta, curvature=1.0)
        super().__init__("regression", left=piece, right=piece)
