"""A run calls its point stationary only where no path leads down from it.

The referee does not use the library. A claim is false if it finds a path from the returned point to
one that is lower by more than the tolerance, on which the objective does not rise:

- The path is made of straight pieces. Each is sampled at all of its sixteenths, and before the
  first one at every ``4^-k`` of its length, down to that of rounding. No sample is higher than the
  one before by more than rounding.
- All of it is within ``sqrt(2 eps / lam)`` of the returned point in the regularizer's metric, where
  ``eps`` is the tolerance. That is ten times the longest step of the library's own test.

Pieces lead against the slope, along directions of BFGS, of scipy's L-BFGS and Nelder and Mead's
simplex, and at random.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter

import numpy as np
import pytest
from scipy.optimize import minimize

import cutplane as cp

from .nonconvex_problems import KINDS, nonconvex_problem

EPS = float(np.finfo(np.float64).eps)


class Referee:
    """Looks for a path down from a point."""

    def __init__(self, problem, w, tolerance):
        self.problem, self.home, self.w = problem, w, w
        self.tolerance = tolerance
        self.first = self.value = problem(w)[0]
        self.theta = 1.0 if problem.theta is None else problem.theta
        self.reach = np.sqrt(2.0 * tolerance / problem.lam)
        # Terms cancel: rounding is judged beside the sizes that a value is made of.
        self.rounding = 64.0 * EPS * max(abs(self.first), 1.0)

    @property
    def gain(self):
        return self.first - self.value

    @property
    def refuted(self):
        return self.gain > self.tolerance

    def near(self, w):
        return np.linalg.norm(self.theta * (w - self.home)) <= self.reach

    def piece(self, way):
        """Go along a straight piece as long as it does not rise; return whether that was lower."""
        begin, before, value = self.w, self.value, self.value
        size = np.linalg.norm(way)
        if not (0.0 < size < np.inf):
            return False
        tiny = 16.0 * EPS * max(np.linalg.norm(begin), 1e-3)
        count = max(int(np.log(size / tiny) / np.log(4.0)), 3)
        for length in (*4.0 ** -np.arange(count, 2.0, -1.0), *np.arange(1.0, 17.0) / 16.0):
            w = begin + length * way
            now = self.problem(w)[0]
            if not (now <= value + self.rounding and self.near(w)):
                break
            value = now
            if now < self.value:
                self.w, self.value = w, now
        return self.value < before - self.rounding

    def steepest(self, most=60):
        for _ in range(most):
            slope = self.problem(self.w)[1]
            size = np.linalg.norm(slope)
            if size == 0.0 or self.refuted or not self.piece(-slope * (self.reach / size)):
                return

    def bfgs(self, most=150):
        d = len(self.w)
        inverse, slope, scaled = np.eye(d), self.problem(self.w)[1], False
        for _ in range(most):
            way, at = -inverse @ slope, self.w
            if self.refuted or not slope @ way < 0.0:
                return
            far = way * (self.reach / np.linalg.norm(way))
            if not (self.piece(way) or self.piece(far)):
                return
            before, slope = slope, self.problem(self.w)[1]
            s, y = self.w - at, slope - before
            if (curved := s @ y) > 1e-12 * np.linalg.norm(s) * np.linalg.norm(y):
                if not scaled:
                    inverse, scaled = np.eye(d) * curved / (y @ y), True
                turn = np.eye(d) - np.outer(s, y) / curved
                inverse = turn @ inverse @ turn.T + np.outer(s, s) / curved

    def guided(self, method, **options):
        """Follow the points that an algorithm of scipy visits."""
        visited = []
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # of numbers that overflow far away
            gradient = method != "Nelder-Mead"
            minimize(
                self.problem if gradient else (lambda w: self.problem(w)[0]),
                self.w,
                jac=gradient or None,
                method=method,
                callback=lambda w: visited.append(w.copy()),
                options=options,
            )
        for w in visited:
            if self.refuted or not (self.piece(w - self.w) or w is not visited[-1]):
                return

    def random(self, rng, most=60):
        d = len(self.w)
        for _ in range(most):
            if self.refuted:
                return
            way = rng.normal(size=d) / self.theta
            scale = self.reach * 10.0 ** rng.uniform(-5.0, 0.0)
            self.piece(way * (scale / np.linalg.norm(way)))

    def look(self, rng):
        """Return how much lower paths lead."""
        self.steepest()
        self.bfgs()
        self.guided("L-BFGS-B", maxiter=200)
        if len(self.w) <= 5 and not self.refuted:
            for share in (1e-1, 1e-3, 1e-5):
                step = share * min(self.reach, 1.0)
                simplex = np.vstack([self.w, self.w + step * np.eye(len(self.w))])
                self.guided("Nelder-Mead", maxiter=60, initial_simplex=simplex)
        self.random(rng)
        self.bfgs()
        return self.gain


def attack(seeds):
    """Fit problems; return counts, and which claims were found to be false."""
    counts, found = Counter(), []
    for seed in seeds:
        problem, rng = nonconvex_problem(seed)
        names = [*problem.methods]
        name = names[rng.integers(len(names))] if rng.random() < 0.7 else names[0]
        tol = float(10.0 ** -rng.integers(2, 5))
        result = cp.minimize(
            problem.make_risk(),
            problem.regularizer,
            method=problem.methods[name],
            start=problem.start,
            tol=tol,
            max_iter=150,
        )
        kind = problem.name.rpartition(" ")[0]
        counts[kind, "runs"] += 1
        counts[kind, str(result.status)] += 1
        counts[kind, "evaluations"] += result.evaluations
        assert not result.certificate.valid
        objective, _ = problem(result.w)
        assert result.objective == pytest.approx(objective, rel=1e-9, abs=1e-12)
        if result.status is not cp.Status.STATIONARY:
            continue
        tolerance = tol * abs(objective)
        gain = Referee(problem, result.w, tolerance).look(rng)
        if gain > tolerance:
            counts[kind, "false"] += 1
            found.append(
                f"seed {seed}, {problem.name}, {name}, tol {tol:g}, lam {problem.lam:.1e}: "
                f"{objective:.6g} falls by {gain / tolerance:.1f} times the tolerance"
            )
    return counts, found


def table(counts):
    columns = ("runs", "stationary", "iteration_limit", "stalled", "false", "evaluations")
    kinds = sorted({kind for kind, _ in counts})
    lines = [f"{'':18}" + "".join(f"{column:>17}" for column in columns)]
    lines += [
        f"{kind:18}" + "".join(f"{counts[kind, column]:17}" for column in columns) for kind in kinds
    ]
    total = [sum(counts[kind, column] for kind in kinds) for column in columns]
    return "\n".join([*lines, f"{'all':18}" + "".join(f"{count:17}" for count in total)])


@pytest.mark.parametrize("kind", [kind.__name__ for kind in KINDS])
def test_no_path_leads_down_from_what_is_called_stationary(kind):
    place = [each.__name__ for each in KINDS].index(kind)
    counts, found = attack(range(place, 5 * len(KINDS), len(KINDS)))
    print(table(counts))
    assert not found, "\n".join(found)


# Once, cusps were missed: nearer than the one step, and farther away than the next.
@pytest.mark.parametrize("seed", [1016, 1091, 1221, 1471, 1576])
def test_cusps_are_seen_in_one_dimension(seed):
    rng = np.random.default_rng(seed)
    rng.integers(2, 5), rng.integers(2, 7), rng.integers(3)
    a, b, lam = rng.normal(size=20), rng.normal(size=20), 1e-4

    def cusps(w):
        u = a * w[0] + b
        root = np.sqrt(np.abs(u) + 1e-3)
        return root.sum(), np.array([(np.sign(u) * a / (2.0 * root)).sum()])

    def objective(w):
        return np.sqrt(np.abs(np.outer(w, a) + b) + 1e-3).sum(axis=1) + lam / 2.0 * w * w

    risk = cp.FunctionRisk(cusps, 1, convex=False, lower_bound=0.0)
    result = cp.minimize(risk, cp.L2(lam), method=cp.nrbm(), tol=1e-3, max_iter=400)
    assert result.status is cp.Status.STATIONARY
    tolerance = 1e-3 * result.objective
    reach = np.sqrt(2.0 * tolerance / lam)
    for sign in (-1.0, 1.0):
        values = objective(result.w[0] + sign * np.r_[0.0, np.geomspace(1e-12, reach, 20_000)])
        rises = np.flatnonzero(np.diff(values) > 1e-12)
        end = rises[0] if len(rises) else len(values)
        assert values[0] - values[: end + 1].min() <= tolerance


@pytest.mark.slow
def test_paths_lead_down_from_none_of_many():
    # Constants were chosen on seeds from 10,000 on.
    n_problems = int(os.environ.get("CUTPLANE_ATTACKS", "1200"))
    counts, found = attack(range(20_000, 20_000 + n_problems))
    print(table(counts))
    claims = sum(counts[kind, "stationary"] for kind, what in counts if what == "runs")
    assert claims > n_problems / 2
    assert not found, "\n".join(found)
