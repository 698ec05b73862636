"""Random problems that are not convex, many with narrow valleys, each as a plain function too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import cutplane as cp
from cutplane.core.policies.cuts import NonConvexCuts
from cutplane.papers.nonconvex import crescent_2, mifflin_2

from ..core.oracles import ramp_loss, transductive
from ..core.test_nonconvex import difference_of_convex

METHODS = {
    **{
        f"nrbm {search}, planes {planes}": cp.nrbm(line_search=search, planes=planes)
        for search in ("all", "greedy", "full", "none")
        for planes in (None, 10)
    },
    "nbm": cp.nbm(),
    "quasi-newton": cp.quasi_newton(cuts=NonConvexCuts()),
}


@dataclass
class NonConvex:
    """``lam/2 |theta * (w - center)|^2 + function(w)``, and the library's form of the function."""

    name: str
    function: Callable[[np.ndarray], tuple[float, np.ndarray]]
    start: np.ndarray
    lam: float
    center: np.ndarray | None = None
    theta: np.ndarray | None = None
    scored: object = None  # a risk of scores, for methods that want one

    def make_risk(self):
        return self.scored or cp.FunctionRisk(self.function, len(self.start), convex=False)

    @property
    def regularizer(self):
        return cp.L2(self.lam, center=self.center, weights=self.theta)

    @property
    def methods(self):
        return METHODS if self.scored is None else METHODS | {"cccp": cp.cccp()}

    def __call__(self, w):
        """Return objective and slope, without the library."""
        value, slope = self.function(w)
        theta = 1.0 if self.theta is None else self.theta
        way = theta * (w if self.center is None else w - self.center)
        return float(value + 0.5 * self.lam * way @ way), slope + self.lam * theta * way


def roots(rng):
    """``sum sqrt(|a.w + b| + 1e-3)``: a narrow valley wherever a term vanishes."""
    d = int(rng.integers(1, 6))
    n = int(rng.integers(2, 12)) + d
    A, b = rng.normal(size=(n, d)), rng.normal(size=n)
    share = 1.0 / n if rng.random() < 0.5 else 1.0

    def function(w):
        u = A @ w + b
        root = np.sqrt(np.abs(u) + 1e-3)
        return share * root.sum(), share * A.T @ (0.5 * np.sign(u) / root)

    start = 2.0 * rng.normal(size=d)
    return NonConvex(f"roots {d}", function, start, 10.0 ** rng.uniform(-6, -1))


def rosenbrock(rng):
    """``sum K (w_{i+1} - w_i^2)^2 + (1 - w_i)^2``: a curved valley."""
    d = int(rng.choice([2, 3, 5, 10]))
    steep = 10.0 ** rng.uniform(0.5, 2.5)

    def function(w):
        across, along = w[1:] - w[:-1] ** 2, 1.0 - w[:-1]
        slope = np.zeros_like(w)
        slope[1:] = 2.0 * steep * across
        slope[:-1] -= 4.0 * steep * across * w[:-1] + 2.0 * along
        return steep * across @ across + along @ along, slope

    start = rng.uniform(-2.0, 2.0, d) if rng.random() < 0.5 else np.resize([-1.2, 1.0], d)
    return NonConvex(f"Rosenbrock {d}", function, start, 10.0 ** rng.uniform(-7, -1))


def smooth(rng):
    """Sines of products, in a bowl: hills and hollows of all sizes."""
    d, n = int(rng.integers(1, 9)), int(rng.integers(2, 9))
    A, b, c = rng.normal(size=(n, d)), rng.uniform(0, 7, n), rng.normal(size=n)
    A *= 10.0 ** rng.uniform(-0.5, 1.0, (n, 1))

    def function(w):
        u = A @ w + b
        bowl = np.sqrt(1.0 + w * w)
        return np.sin(u) @ c + n + bowl.sum(), A.T @ (np.cos(u) * c) + w / bowl

    return NonConvex(f"smooth {d}", function, rng.normal(size=d), 10.0 ** rng.uniform(-6, 0))


def stretched(rng):
    """A difference of rounded lengths in stretched coordinates: valleys as narrow as 1 : 1000."""
    d = int(rng.integers(2, 7))
    turn, _ = np.linalg.qr(rng.normal(size=(d, d)))
    A = turn * 10.0 ** rng.uniform(-1.5, 1.5, d)
    shift, hole, depth = rng.normal(size=d), rng.normal(size=d), rng.uniform(0.1, 0.6)

    def function(w):
        u, v = A.T @ (w - shift), w - hole
        long, short = np.sqrt(1.0 + u @ u), np.sqrt(0.1 + v @ v)
        return long + 1.0 - depth * np.log(short), A @ u / long - depth * v / short**2

    return NonConvex(f"stretched {d}", function, rng.normal(size=d), 10.0 ** rng.uniform(-6, -1))


def kinked(rng):
    """``(w_1 - 1)^2 / 4 + sum K |w_{i+1} - 2 w_i^2 + 1|``: valleys with a curved kink."""
    d = int(rng.integers(2, 4))
    steep = 10.0 ** rng.uniform(-0.5, 1.0)

    def function(w):
        across = w[1:] - 2.0 * w[:-1] ** 2 + 1.0
        slope = np.zeros_like(w)
        slope[1:] = steep * np.sign(across)
        slope[:-1] -= steep * np.sign(across) * 4.0 * w[:-1]
        slope[0] += 0.5 * (w[0] - 1.0)
        return 0.25 * (w[0] - 1.0) ** 2 + steep * np.abs(across).sum(), slope

    return NonConvex(f"kinked {d}", function, rng.normal(size=d), 10.0 ** rng.uniform(-5, -1))


def difference(rng):
    """A difference of two maxima of planes."""
    d = int(rng.integers(1, 9))
    function = difference_of_convex(int(rng.integers(1 << 30)), d)
    return NonConvex(f"difference {d}", function, rng.normal(size=d), 10.0 ** rng.uniform(-4, -0.5))


def chained(rng):
    """One of the two functions of paper 004."""
    d = int(rng.integers(2, 60))
    function, first = ((mifflin_2, (-1.0, -1.0)), (crescent_2, (-1.5, 2.0)))[rng.integers(2)]
    start = np.resize(first, d)
    lam = 10.0 ** rng.uniform(-2, 0)
    return NonConvex(f"{function.__name__} {d}", function, start, lam, center=start)


def unlabeled(rng):
    """Hinges of few examples, and hats of many without a label."""
    d = int(rng.integers(2, 8))
    X, U, truth = rng.normal(size=(12, d)), rng.normal(size=(60, d)), rng.normal(size=d)
    y = np.where(X @ truth > 0, 1.0, -1.0)
    scored = None
    if rng.random() < 0.5:
        scored = cp.ScoredRisk(X, y, cp.Hinge(), intercept=False)
        scored += cp.ScoredRisk(U, np.ones(60), cp.Hat(), intercept=False)
    lam, function = 10.0 ** rng.uniform(-4, -1), transductive(X, y, U)
    return NonConvex(f"unlabeled {d}", function, rng.normal(size=d), lam, scored=scored)


def robust(rng):
    """A loss that gives up on outliers."""
    d = int(rng.integers(1, 8))
    X, truth = rng.normal(size=(50, d)), rng.normal(size=d)
    scores = X @ truth + 0.3 * rng.normal(size=50)
    wild = rng.random(50) < 0.25
    kind = str(rng.choice(["ramp", "clipped absolute", "tukey"]))
    if kind == "ramp":
        y = np.where((scores > 0) ^ wild, 1.0, -1.0)
        function, loss = ramp_loss(X, y), cp.Ramp(2.0)
    else:
        y = scores + np.where(wild, 5.0 * rng.normal(size=50), 0.0)
        loss = cp.ClippedAbsolute(1.0) if kind == "clipped absolute" else cp.Tukey(2.0)

        def function(w):
            u = np.clip(X @ w - y, -loss_width, loss_width)
            inside = np.abs(u) < loss_width
            if kind == "clipped absolute":
                return np.abs(u).mean(), X.T @ (np.sign(u) * inside) / 50
            rest = 1.0 - (u / 2.0) ** 2
            return (4.0 / 6.0 * (1.0 - rest**3)).mean(), X.T @ (u * rest**2) / 50

        loss_width = 1.0 if kind == "clipped absolute" else 2.0
    theta = 10.0 ** rng.uniform(-0.5, 0.5, d) if rng.random() < 0.3 else None
    scored = cp.ScoredRisk(X, y, loss, intercept=False) if rng.random() < 0.6 else None
    lam = 10.0 ** rng.uniform(-5, -1)
    return NonConvex(f"{kind} {d}", function, rng.normal(size=d), lam, theta=theta, scored=scored)


KINDS = (
    roots,
    rosenbrock,
    smooth,
    stretched,
    kinked,
    difference,
    chained,
    unlabeled,
    robust,
)


def nonconvex_problem(seed):
    """Return the problem of a seed, and a generator for what else must be chosen."""
    rng = np.random.default_rng([seed, 2])
    return KINDS[seed % len(KINDS)](rng), rng
