"""Plain functions ``w -> (value, subgradient)`` as risks, convex and not."""

import numpy as np

from cutplane.core.protocols import Plane


class FunctionRisk:
    """A function as a risk without segments. It keeps every point where it was evaluated."""

    def __init__(self, function, n_parameters, *, convex=False, lower_bound=-np.inf):
        self.function = function
        self.n_parameters = n_parameters
        self.convex = convex
        self.lower_bound = lower_bound
        self.evaluations = 0
        self.seen = []

    def identity(self):
        return {"function": self.function, "claims": (self.convex, self.lower_bound)}

    def at(self, w):
        self.evaluations += 1
        self.seen.append(FunctionPoint(w, *self.function(w)))
        return self.seen[-1]


class FunctionPoint:
    def __init__(self, w, value, slope):
        self.w, self.value = w, float(value)
        self._plane = Plane(slope, self.value - float(slope @ w))

    def plane(self):
        return self._plane


def waves(w):
    """``sum_j |w_j| + 2 sin(3 w_j)``: many local minima."""
    return np.sum(np.abs(w) + 2.0 * np.sin(3.0 * w)), np.sign(w) + 6.0 * np.cos(3.0 * w)


def ramp_loss(X, y):
    """The mean of ``min(2, max(0, 1 - z))``: a difference of hinges."""

    def function(w):
        z = y * (X @ w)
        slopes = np.where((z < 1.0) & (z > -1.0), -y, 0.0)
        return np.mean(np.clip(1.0 - z, 0.0, 2.0)), X.T @ slopes / len(y)

    return function


def transductive(X, y, U):
    """The hinge loss of labeled examples, and ``max(0, 1 - |z|)`` of others."""

    def function(w):
        z, free = y * (X @ w), U @ w
        inside = np.abs(free) < 1.0
        value = np.mean(np.maximum(1.0 - z, 0.0)) + np.mean(np.maximum(1.0 - np.abs(free), 0.0))
        slope = X.T @ np.where(z < 1.0, -y, 0.0) / len(y)
        return value, slope + U.T @ np.where(inside, -np.sign(free), 0.0) / len(free)

    return function


def largest(slopes, offsets):
    """``max_i a_i.w + b_i``: convex."""

    def function(w):
        heights = slopes @ w + offsets
        top = int(np.argmax(heights))
        return heights[top], slopes[top]

    return function
