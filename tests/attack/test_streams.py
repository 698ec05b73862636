"""Streams of random batches: coefficients stay finite, and what is certified is true.

Claims are held against objectives in extended precision, as in `test_claims`.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass

import numpy as np
import pytest

import cutplane as cp
from cutplane.solvers.registry import STOCHASTIC_METHODS

from .problems import CLASSIFICATION, LOSSES, PARAMETER
from .references import Extended, Penalty, Pointwise, Reference, extended

N_STREAMS = int(os.environ.get("CUTPLANE_EXAMPLES", "40"))


@dataclass
class Fed:
    """A model that has seen some batches, and what of them it was given."""

    name: str
    model: object
    lam: float
    X: np.ndarray
    y: np.ndarray
    window: int


def fed(seed):
    """Return a model after a stream of random batches, or None if its steps overflowed."""
    rng = np.random.default_rng(seed)
    loss = str(rng.choice([*LOSSES]))
    classify = loss in CLASSIFICATION
    make = cp.LinearClassifier if classify else cp.LinearRegressor
    _, limits = LOSSES[loss]
    options = {PARAMETER[loss]: float(rng.uniform(*limits))} if limits else {}
    lam, d = float(10.0 ** rng.uniform(-6, 1)), int(rng.integers(1, 6))
    method = str(rng.choice([*STOCHASTIC_METHODS]))
    intercept = bool(rng.integers(2))
    model = make(loss, lam=lam, method=method, fit_intercept=intercept, tol=1e-3, **options)
    window = int(rng.choice([1, 7, 50]))
    scale, size = 10.0 ** rng.uniform(-4, 4, 2) if rng.random() < 0.3 else (1.0, 1.0)
    w = rng.normal(size=d)
    batches = []
    for k in range(int(rng.integers(1, 6))):
        m = int(rng.choice([1, 2, 20]))
        X = rng.normal(size=(m, d)) * rng.choice([0.0, 1.0, 30.0], p=[0.1, 0.8, 0.1])
        y = X @ w + rng.normal(size=m)
        if classify:
            y = np.where(y > 0.0, 1.0, -1.0)
        elif loss == "poisson":
            y = 1.0 + rng.poisson(np.exp(np.clip(y, -5.0, 3.0)))  # it asks for one above zero
        else:
            y = np.zeros(m) if k == 0 and rng.random() < 0.3 else size * y
        batches.append((scale * X, y))
        first = {"classes": [-1.0, 1.0]} if classify else {}
        try:
            model.partial_fit(*batches[-1], window=window, **first)
        except cp.NonFiniteRisk:  # said aloud, and the stream has ended
            return None
        assert np.isfinite(model.coef_).all()
        assert np.isfinite(model.intercept_).all()
        assert np.isfinite(model.seen_lower_bound_)
        assert not model.certificate_.valid
    X, y = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    return Fed(f"{loss}, {method}, lam {lam:g}", model, lam, X, y, window)


def reference_of(stream, X, y):
    """Return the objective of some examples, by its formula."""
    model, lam = stream.model, stream.lam
    parameter = getattr(model, PARAMETER.get(model.loss, ""), 0.0)
    p = np.full(len(y), 1.0 / len(y))
    term = Pointwise(model.loss, X, y, p, parameter, int(model.fit_intercept))
    penalty = Penalty(lambda w: Extended(lam) / 2 * np.sum(w * w), None)
    return Reference(term, penalty, X.shape[1])


def best_intercept(reference, w):
    """Return the intercept that costs least, by a search in extended precision; () if none."""
    if not reference.term.n_offsets:
        return ()
    scores = reference.term.X @ w
    reach = np.abs(scores).max() + np.abs(reference.term.y).max() + 1.0
    low, high = -2.0 * reach - 50.0, 2.0 * reach + 50.0
    for _ in range(200):
        third = (high - low) / 3.0
        left, right = low + third, high - third
        if reference.objective(w, [left]) <= reference.objective(w, [right]):
            high = right
        else:
            low = left
    return [0.5 * (low + high)]


def false_claims(stream):
    """Name what is wrong with what is said of a stream."""
    model = stream.model
    seen = reference_of(stream, stream.X, stream.y)
    kept = reference_of(stream, stream.X[-stream.window :], stream.y[-stream.window :])
    w = np.ravel(model.coef_)
    points = [w, np.zeros_like(w), 0.1 * w]
    rounding = [8 * each.rounding(w, best_intercept(each, w)) for each in (seen, kept)]
    for each in (seen, kept):
        for point in points:
            each.objective(point, best_intercept(each, point))
    lower = Extended(model.seen_lower_bound_)
    if lower > seen.best * (1 + Extended(1e-12)) + rounding[0]:
        yield f"no model costs less than {lower}, but one costs {seen.best}"
    certificate = model.certify()
    true = kept.objective(w, best_intercept(kept, w))
    if not certificate.valid:
        if np.isfinite(certificate.objective) and np.isfinite(certificate.lower_bound):
            yield f"not valid: {certificate}"
        return
    if abs(extended(certificate.objective) - true) > 1e-6 * abs(true) + rounding[1]:
        yield f"the objective is {true}, not {certificate.objective}"
    if certificate.lower_bound > kept.best * (1 + Extended(1e-12)) + rounding[1]:
        yield f"the bound {certificate.lower_bound} is above {kept.best}"
    if certificate.status == "optimal":
        if true - kept.best > model.tol * abs(true) + rounding[1]:
            yield "optimal beyond the tolerance"
    elif certificate.status != "stopped":
        yield f"status {certificate.status}"


@pytest.mark.parametrize("part", range(4))
def test_no_claim_about_a_stream_is_false(part):
    found, n_streams = [], 0
    # Exponentials overflow in extended precision too: then the reference claims nothing.
    with warnings.catch_warnings(), np.errstate(over="ignore", invalid="ignore"):
        warnings.simplefilter("ignore", cp.ConstantModelWarning)
        for seed in range(1000 * part, 1000 * part + N_STREAMS // 4):
            stream = fed(seed)
            if stream is None:
                continue
            n_streams += 1
            found += [f"seed {seed}, {stream.name}: {what}" for what in false_claims(stream)]
    assert not found, "\n".join(found)
    assert n_streams >= N_STREAMS // 8
