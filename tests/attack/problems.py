"""Random small problems, each as a risk of the library and as a reference that does not use it."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise, product

import cvxpy
import numpy as np
import scipy.sparse

import cutplane as cp
from cutplane.data import AllPairs

from .references import (
    Extended,
    Maxima,
    Penalty,
    Pointwise,
    Reference,
    Scaled,
    SoftmaxTerm,
    extended,
)

CLASSIFICATION = ("hinge", "squared_hinge", "smooth_hinge", "logistic", "exponential")
LOSSES = {
    "hinge": (cp.Hinge, None),
    "squared_hinge": (cp.SquaredHinge, None),
    "smooth_hinge": (cp.SmoothHinge, (0.1, 1.0)),
    "logistic": (cp.Logistic, None),
    "exponential": (cp.Exponential, None),
    "squared": (cp.Squared, None),
    "absolute": (cp.Absolute, None),
    "quantile": (cp.Quantile, (0.05, 0.95)),
    "epsilon_insensitive": (cp.EpsilonInsensitive, (0.0, 0.5)),
    "squared_epsilon_insensitive": (cp.SquaredEpsilonInsensitive, (0.0, 0.5)),
    "huber": (cp.Huber, (0.2, 2.0)),
    "poisson": (cp.Poisson, None),
}
PARAMETER = {
    "smooth_hinge": "smoothing",
    "quantile": "quantile",
    "epsilon_insensitive": "epsilon",
    "squared_epsilon_insensitive": "epsilon",
    "huber": "delta",
}


@dataclass
class Problem:
    """What a fit needs, and what is true about it. ``intercepts`` reads those of a result."""

    name: str
    make_risk: object
    regularizer: object
    reference: Reference
    intercepts: object = lambda point: ()
    estimator: dict = field(default_factory=dict)  # how an estimator would be given the problem


def layout_of(rng, X):
    """Return the features in one of the forms that users have, and their values as stored."""
    X = X.astype(np.float32) if rng.random() < 0.3 else X
    form = rng.choice(["C", "F", "CSR", "CSR long"])
    if form == "C":
        return np.ascontiguousarray(X), X.astype(np.float64)
    if form == "F":
        return np.asfortranarray(X), X.astype(np.float64)
    csr = scipy.sparse.csr_array(X)
    if form == "CSR long":
        csr.indices, csr.indptr = csr.indices.astype(np.int64), csr.indptr.astype(np.int64)
    return csr, X.astype(np.float64)


def features(rng, m, d, *, wild):
    X = rng.normal(size=(m, d)).round(int(rng.integers(1, 12)))
    X[rng.random((m, d)) < rng.choice([0.0, 0.4])] = 0.0
    if m > 3 and rng.random() < 0.3:
        X[1] = X[0]  # the same example twice
    if wild:
        X *= 10.0 ** rng.uniform(-4, 4)
        X *= 10.0 ** rng.uniform(-2, 2, d)
    return X


def sample_weights(rng, m):
    """Return what is given to the library, and the same as shares that sum to one."""
    kind = rng.integers(4)
    if kind < 2:
        return None, np.full(m, 1.0 / m)
    weights = rng.uniform(0.1, 3.0, m)
    if kind == 3:
        weights[rng.random(m) < 0.3] = 0.0
        weights[0] = 1.0
    weights *= 10.0 ** rng.uniform(-3, 3)
    # The library scales weights in double precision; these are rounded once, from the exact ones.
    return weights, np.asarray(extended(weights) / extended(weights).sum())


def linear(rng, *, wild):
    m, d = int(rng.integers(1, rng.choice([8, 30, 80]))), int(rng.integers(1, 8))
    X = features(rng, m, d, wild=wild)
    given, stored = layout_of(rng, X)
    loss = str(rng.choice([*LOSSES]))
    make, limits = LOSSES[loss]
    parameter = 0.0 if limits is None else float(rng.uniform(*limits))
    intercept = bool(rng.integers(2))
    weights, p = sample_weights(rng, m)
    signal = stored @ rng.normal(size=d) / (1.0 + np.abs(stored).max())
    if loss in CLASSIFICATION:
        y = np.where(signal + 0.5 * rng.normal(size=m) > 0, 1.0, -1.0)
        if loss == "exponential" and intercept and len(set(y[p > 0])) < 2:
            intercept = False  # there is no best intercept
        if loss == "logistic" and intercept and len(set(y[p > 0])) < 2:
            intercept = False
    elif loss == "poisson":
        y = rng.poisson(np.exp(signal)).astype(np.float64)
        y[np.argmax(p)] += 1.0  # the loss asks for a target above zero
    else:
        y = signal + rng.standard_t(3, size=m)
        y *= 10.0 ** rng.uniform(-3, 3) if wild else 1.0
    term = Pointwise(loss, stored, y, p, parameter, int(intercept))
    options = {PARAMETER[loss]: parameter} if loss in PARAMETER else {}

    def make_risk():
        return cp.ScoredRisk(given, y, make(**options), weights=weights, intercept=intercept)

    estimator = {
        "X": given,
        "y": y,
        "loss": loss,
        "options": options,
        "weights": weights,
        "intercept": intercept,
    }
    return f"linear {loss}", make_risk, term, d, (lambda point: point.intercept), estimator


def multiclass(rng, *, wild):
    m, d, k = int(rng.integers(4, 20)), int(rng.integers(1, 4)), int(rng.integers(2, 5))
    X = features(rng, m, d, wild=wild)
    given, stored = layout_of(rng, X)
    y = rng.integers(0, k, m)
    y[:k] = np.arange(k)
    weights, p = sample_weights(rng, m)
    intercept = bool(rng.integers(2)) and bool(np.bincount(y[p > 0], minlength=k).all())
    loss = cp.CrammerSinger() if rng.integers(2) else cp.Softmax()
    if isinstance(loss, cp.Softmax):
        term = SoftmaxTerm(stored, y, p, k, k * intercept)
    else:
        own = np.eye(k)[y]
        steps = [np.eye(k) - own[i] for i in range(m)]
        term = Maxima(
            p,
            [np.kron(step, stored[i]) for i, step in enumerate(steps)],
            [1.0 - own[i] for i in range(m)],
            steps,
            k * intercept,
        )

    def make_risk():
        classes = AllPairs(cp.as_rows(given), k)
        return cp.ScoredRisk(classes, y, loss, weights=weights, intercept=intercept)

    return f"{loss!r}", make_risk, term, k * d, (lambda point: point.intercept), {}


def _labelings(y):
    return [np.array(one) for one in product([-1.0, 1.0], repeat=len(y))]


def measure(rng, *, wild):
    """Measures of a whole sample, by all labelings or all exchanges (docs: Definition)."""
    m, d = int(rng.integers(3, 8)), int(rng.integers(1, 4))
    X = features(rng, m, d, wild=wild)
    given, stored = layout_of(rng, X)
    y = np.where(rng.random(m) < 0.5, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    positive = np.flatnonzero(y > 0)
    negative = np.flatnonzero(y < 0)
    P, N = len(positive), len(negative)
    kind = str(rng.choice(["error_rate", "f_beta", "precision", "recall", "break_even", "roc"]))
    intercept = False
    if kind == "roc":
        pairs = [stored[j] - stored[i] for i in positive for j in negative]
        planes = [np.array([np.zeros(d), pair]) for pair in pairs]
        loss = cp.ROCArea()
        n_pairs = len(pairs)
        term = Maxima(np.full(n_pairs, 1 / n_pairs), planes, [np.array([0.0, 1.0])] * n_pairs)
    elif kind in ("error_rate", "f_beta"):
        intercept = bool(rng.integers(2))
        beta = float(rng.choice([0.5, 1.0, 2.0]))
        n = m if kind == "error_rate" else P
        loss = cp.ErrorRate() if kind == "error_rate" else cp.FBeta(beta)
        slopes, offsets, tilts = [], [], []
        for labels in _labelings(y):
            found = np.sum((y > 0) & (labels > 0))
            flagged = np.sum((y < 0) & (labels > 0))
            size = found + flagged + beta**2 * P
            delta = np.mean(labels != y) if n == m and kind == "error_rate" else None
            offsets.append(1 - (1 + beta**2) * found / size if delta is None else delta)
            slopes.append((labels - y) @ stored / (2 * n))
            tilts.append([np.sum(labels - y) / (2 * n)])
        term = Maxima(
            np.ones(1), [np.array(slopes)], [np.array(offsets)], [np.array(tilts)], int(intercept)
        )
    else:
        k = P if kind == "break_even" else int(rng.integers(1, m + 1))
        loss = {
            "precision": cp.PrecisionAtK(k),
            "recall": cp.RecallAtK(k),
            "break_even": cp.BreakEven(),
        }[kind]
        n = k if kind == "precision" else P
        slopes, offsets = [np.zeros(d)], [0.0]
        for labels in _labelings(y):
            left_out, flagged = (y > 0) & (labels < 0), (y < 0) & (labels > 0)
            t = int(left_out.sum()) - max(P - k, 0)
            if t <= 0 or flagged.sum() != t + max(k - P, 0):
                continue
            slopes.append(t / n * (stored[flagged].mean(axis=0) - stored[left_out].mean(axis=0)))
            offsets.append(t / n)
        term = Maxima(np.ones(1), [np.array(slopes)], [np.array(offsets) + 1 - min(k, P) / n])
    assert N

    def make_risk():
        return cp.ScoredRisk(given, y, loss, intercept=intercept)

    return f"{loss!r}", make_risk, term, d, (lambda point: point.intercept), {}


def ranking(rng, *, wild):
    m, d = int(rng.integers(4, 14)), int(rng.integers(1, 4))
    X = features(rng, m, d, wild=wild)
    given, stored = layout_of(rng, X)
    qid = rng.integers(0, 3, m)
    y = rng.integers(0, 3, m).astype(np.float64)
    qid[:2], y[:2] = 0, [0.0, 1.0]
    per = str(rng.choice(["query", "pair"]))
    slopes, factors = [], []
    groups = [
        [(i, j) for i in np.flatnonzero(qid == q) for j in np.flatnonzero(qid == q) if y[i] > y[j]]
        for q in range(3)
    ]
    groups = [group for group in groups if group]
    n_pairs = sum(map(len, groups))
    for group in groups:
        share = 1 / n_pairs if per == "pair" else 1 / len(groups) / len(group)
        for i, j in group:
            slopes.append(np.array([np.zeros(d), stored[j] - stored[i]]))
            factors.append(share)
    term = Maxima(np.array(factors), slopes, [np.array([0.0, 1.0])] * n_pairs)

    def make_risk():
        loss = cp.PairwiseHinge(per=per).for_queries(qid)
        return cp.ScoredRisk(given, y, loss, intercept=False)

    return f"pairwise per {per}", make_risk, term, d, (lambda point: ()), {}


class ShortChain:
    """A structured model of three nodes with two labels each, searched by trying all outputs."""

    def __init__(self, d):
        self.d, self.n_parameters = d, d + 1

    def outputs(self, x):
        return list(product([0, 1], repeat=len(x)))

    def joint_feature(self, x, y):
        alike = sum(a == b for a, b in pairwise(y))
        return np.append(np.asarray(y, dtype=np.float64) @ x, float(alike))

    def loss(self, y, y_hat):
        return float(np.mean(np.not_equal(y, y_hat)))

    def inference(self, x, w):
        return max(self.outputs(x), key=lambda y: float(w @ self.joint_feature(x, y)))

    def loss_augmented_inference(self, x, y, w):
        return max(
            self.outputs(x),
            key=lambda other: float(w @ self.joint_feature(x, other)) + self.loss(y, other),
        )


def structured(rng, *, wild):
    m, d = int(rng.integers(2, 8)), int(rng.integers(1, 4))
    inputs = [features(rng, 3, d, wild=wild) for _ in range(m)]
    model = ShortChain(d)
    outputs = [model.outputs(x)[int(rng.integers(8))] for x in inputs]
    slopes, offsets = [], []
    for x, y in zip(inputs, outputs, strict=True):
        right = model.joint_feature(x, y)
        slopes.append(np.array([model.joint_feature(x, o) - right for o in model.outputs(x)]))
        offsets.append(np.array([model.loss(y, o) for o in model.outputs(x)]))
    term = Maxima(np.full(m, 1 / m), slopes, offsets)

    def make_risk():
        return cp.StructuredRisk(model, inputs, outputs)

    return "structured", make_risk, term, d + 1, (lambda point: ()), {}


def summed(rng, *, wild):
    """Two linear risks of the same features' number, with factors."""
    first = linear(rng, wild=wild)
    for _ in range(100):
        second = linear(rng, wild=wild)
        if second[3] == first[3]:
            break
    else:
        return first
    factors = 10.0 ** rng.uniform(-1, 1, 2)
    term = Scaled(list(zip(factors, (first[2], second[2]), strict=True)))

    def make_risk():
        return factors[0] * first[1]() + factors[1] * second[1]()

    def intercepts(point):
        terms = zip((first[2], second[2]), point.parts, strict=True)
        return [part.intercept for own, (_, part) in terms if own.n_offsets]

    return f"{first[0]} + {second[0]}", make_risk, term, first[3], intercepts, {}


KINDS = (linear, linear, linear, linear, multiclass, measure, ranking, structured, summed)


def l2(rng, d, lam):
    plain = rng.random() < 0.5
    center = rng.normal(size=d) if not plain and rng.random() < 0.6 else None
    weights = rng.uniform(0.3, 3.0, d) if not plain and rng.random() < 0.6 else None
    c = np.zeros(d) if center is None else center
    t = np.ones(d) if weights is None else weights
    return cp.L2(lam, center=center, weights=weights), Penalty(
        lambda w: Extended(lam) / 2 * np.sum((extended(t) * (w - extended(c))) ** 2),
        lambda w: lam / 2 * cvxpy.sum_squares(cvxpy.multiply(t, w - c)),
    )


def quadratic_form(rng, d, lam):
    factor = rng.normal(size=(d + 2, d))
    Q = factor.T @ factor + 0.1 * np.eye(d)
    Q = (Q + Q.T) / 2
    c = rng.normal(size=d) if rng.random() < 0.5 else np.zeros(d)
    root = np.linalg.cholesky(Q).T
    return cp.QuadraticForm(lam, Q, center=c), Penalty(
        lambda w: Extended(lam) / 2 * ((w - extended(c)) @ extended(Q) @ (w - extended(c))),
        lambda w: lam / 2 * cvxpy.sum_squares(root @ (w - c)),
    )


def elastic_net(rng, d, lam):
    ratio = float(rng.choice([0.0, 0.3, 0.9]))
    s = Extended(ratio)
    return cp.ElasticNet(lam, ratio), Penalty(
        lambda w: Extended(lam) * (s * np.abs(w).sum() + (1 - s) / 2 * np.sum(w * w)),
        lambda w: lam * (ratio * cvxpy.norm1(w) + (1 - ratio) / 2 * cvxpy.sum_squares(w)),
    )


def l1(rng, d, lam):
    return cp.L1(lam), Penalty(
        lambda w: Extended(lam) * np.abs(w).sum(), lambda w: lam * cvxpy.norm1(w)
    )


def squared_lp(rng, d, lam):
    p = float(rng.choice([1.2, 1.5, 2.0]))

    def value(w):
        top = np.abs(w).max()
        if top == 0:
            return Extended(0)
        return Extended(lam) / 2 * top**2 * np.sum((np.abs(w) / top) ** p) ** (2 / Extended(p))

    return cp.SquaredLp(lam, p), Penalty(value, lambda w: lam / 2 * cvxpy.square(cvxpy.pnorm(w, p)))


def entropy(rng, d, lam):
    c = rng.uniform(0.3, 2.0, d)

    def value(w):
        logs = np.log(np.where(w > 0, w, 1) / extended(c))
        return Extended(lam) * np.sum(np.where(w > 0, w * logs, 0) - w + extended(c))

    return cp.Entropy(lam, center=c), Penalty(
        value,
        lambda w: lam * cvxpy.sum(cvxpy.kl_div(w, c)),
        project=lambda w: np.maximum(w, 0.0),
    )


def bounded(rng, d, lam):
    lower, upper = -rng.uniform(0, 0.5, d), rng.uniform(0, 0.5, d)
    upper[0] = np.inf
    finite = np.isfinite(upper)
    return cp.BoundedL2(lam, lower=lower, upper=upper), Penalty(
        lambda w: Extended(lam) / 2 * np.sum(w * w),
        lambda w: lam / 2 * cvxpy.sum_squares(w),
        lambda w: [w >= lower] + ([w[finite] <= upper[finite]] if finite.any() else []),
        lambda w: np.clip(w, lower, upper),
    )


def ball(rng, d, lam):
    radius = float(10.0 ** rng.uniform(-1, 1))

    def project(w):
        norm = np.linalg.norm(w)
        return w if norm < radius else w * (radius / norm * (1 - 1e-15))

    return cp.Ball(radius), Penalty(
        lambda w: Extended(0), lambda w: 0, lambda w: [cvxpy.norm(w) <= radius], project
    )


REGULARIZERS = (
    *(l2,) * 6,
    *(quadratic_form,) * 2,
    elastic_net,
    elastic_net,
    l1,
    l1,
    squared_lp,
    entropy,
    bounded,
    ball,
)


def random_problem(seed):
    """Return the problem of a seed; one in three has features and targets of wild sizes."""
    rng = np.random.default_rng(seed)
    wild = rng.random() < 1 / 3
    make = KINDS[rng.integers(len(KINDS))]
    name, make_risk, term, d, intercepts, estimator = make(rng, wild=wild)
    lam = float(10.0 ** rng.uniform(-6, 1))
    regularizer, penalty = REGULARIZERS[rng.integers(len(REGULARIZERS))](rng, d, lam)
    plain = isinstance(regularizer, cp.L2) and not (
        regularizer.center is not None or regularizer.weights is not None
    )
    estimator = {**estimator, "lam": lam} if estimator and plain else {}
    if not term.n_offsets:
        intercepts = lambda point: ()  # noqa: E731
    name = f"{name}, {type(regularizer).__name__}{', wild' if wild else ''}"
    return Problem(name, make_risk, regularizer, Reference(term, penalty, d), intercepts, estimator)
