"""Every method on every kind of problem: certified, correct, and resumable bit for bit.

A method of the registry that has no line in `METHODS` gets one that asks for a gap of 1e-2. A new
problem is one line of `_problems`.
"""

from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse
from tests.random_arrays import random_array

import cutplane as cp
from cutplane.core import state as core
from cutplane.core.policies.bmrm import ForgetIdle
from cutplane.solvers.registry import ROBUST_METHODS, STRUCTURED_METHODS

from .problems import PROBLEMS as CORE_PROBLEMS
from .problems import linear_problem, structured_problem

EPS = np.finfo(np.float64).eps


class Line(NamedTuple):
    """A method and what it is asked for: the relative gap to be certified, 1e-6 but for a reason.

    ``tol_at_kinks`` is for problems whose optimum lies on kinks of the risk, ``tol_elsewhere`` for
    the others. ``resumed`` is the gap to which runs are compared that were resumed at each state.
    """

    method: cp.Method
    tol_at_kinks: float = 1e-6
    tol_elsewhere: float = 1e-6
    resumed: float = 1e-2

    def tol(self, name):
        return self.tol_at_kinks if name in AT_KINKS else self.tol_elsewhere


def stochastic(method):
    """Return the line of a method whose gap closes like one over the number of passes."""
    return Line(method, tol_at_kinks=1e-2, tol_elsewhere=1e-2, resumed=0.1)


METHODS = {
    "bmrm": Line(cp.bmrm(line_search=False)),
    "bmrm, line search": Line(cp.bmrm()),
    "limited memory": Line(cp.bmrm(planes=30)),
    "grouped": Line(cp.bmrm(groups=3)),
    "proximal": Line(cp.proximal(weight=None, line_search=False)),
    "proximal, fixed weight": Line(cp.proximal(weight=1.0, line_search=False)),
    "proximal, line search": Line(cp.proximal()),
    "proximal, limited memory": Line(cp.proximal(planes=30)),
    "proximal, grouped": Line(cp.proximal(groups=3)),
    "trust region": Line(cp.trust_region(line_search=False)),
    "trust region, line search": Line(cp.trust_region()),
    "level": Line(cp.level(line_search=False)),
    "level, line search": Line(cp.level()),
    "level, grouped": Line(cp.level(groups=3)),
    # Its center is a mean of all iterates, the first ones included, so that the last digits take
    # hundreds of iterations. Without the planes long idle they take little time.
    "balanced": Line(replace(cp.balanced_proximal(), memory=ForgetIdle())),
    "balanced, known radius": Line(replace(cp.balanced_proximal(radius=50.0), memory=ForgetIdle())),
    "kelley": Line(cp.kelley()),
    # Two planes are a step of Frank and Wolfe's method on the dual. Where the optimum has kinks,
    # the best weights are inside a face of the simplex, and then that method is no faster than
    # about 1/t (M. Canon, C. Cullum: A tight upper bound on the rate of convergence of Frank-Wolfe
    # algorithm, 1968): 1e-4 takes up to 2,141 iterations here. The rate itself is tested in
    # test_theory.py.
    "without a QP": Line(cp.bmrm_without_qp(), tol_at_kinks=1e-4),
    # For convex risks it is bmrm with a search by trials.
    "nrbm": Line(cp.nrbm()),
    "newton": Line(cp.newton()),
    "dual ascent": Line(cp.dual_ascent()),
    "class ascent": Line(cp.class_ascent()),
    "class newton": Line(cp.class_newton()),
    "quasi-newton": Line(cp.quasi_newton()),
    "coordinate descent": Line(cp.coordinate_descent()),
    "sparse quasi-newton": Line(cp.sparse_quasi_newton()),
    "block ascent": Line(cp.block_ascent()),
    "pegasos": stochastic(cp.pegasos()),
    "adaptive": stochastic(cp.adaptive()),
    "online proximal": stochastic(cp.online_proximal()),
    "optimistic": stochastic(cp.optimistic()),
}
_KINDS = {type(line.method) for line in METHODS.values()}
_ANY = core.Problem(CORE_PROBLEMS["hinge CSR intercept"].make_risk(), cp.L2(1.0))
REGISTERED = {
    name: Line(made, tol_at_kinks=1e-2, tol_elsewhere=1e-2)
    for name, make in (ROBUST_METHODS | STRUCTURED_METHODS).items()
    for made in [make(_ANY)]
    if made.bounds and type(made) not in _KINDS
}
METHODS |= REGISTERED
STOCHASTIC = {"pegasos", "adaptive", "online proximal", "optimistic"}
AT_KINKS = {
    "kinks", "kinks without intercept", "quantile", "degenerate", "sparse", "structured",
    "100,000 features", "classes",
}  # fmt: skip


def wide_problem(y):
    """Return a problem with 100,000 features; its optimum is that of an isometric small one."""
    rng = np.random.default_rng(8)
    X = random_array((len(y), 100_000), density=1e-3, rng=rng, format="csr")
    short = np.linalg.cholesky((X @ X.T).toarray())
    problem = linear_problem("100,000 features", short, y, cp.Hinge(), 2.8, intercept=False)
    rows = cp.as_rows(X)
    return replace(problem, make_risk=lambda: cp.ScoredRisk(rows, y, cp.Hinge(), intercept=False))


def _problems():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(60, 5))
    signal = X @ rng.normal(size=5) + 0.4
    labels = np.where(signal + rng.normal(size=60) > 0, 1.0, -1.0)
    numbers = signal + rng.standard_t(3, size=60)
    yield linear_problem("smooth", X, labels, cp.Logistic(), 0.03)
    yield linear_problem("kinks", X, labels, cp.Hinge(), 0.03)
    yield linear_problem("kinks without intercept", X, labels, cp.Hinge(), 0.01, intercept=False)
    yield linear_problem("quantile", X, numbers, cp.Quantile(0.8), 0.03)
    scales = np.logspace(0, -3, 5)
    yield linear_problem("ill-conditioned", X * scales, numbers, cp.Squared(), 1e-3)
    twice = np.vstack([np.hstack([X, X[:, :2], np.zeros((60, 1))])] * 2)
    yield linear_problem("degenerate", twice, np.tile(labels, 2), cp.Hinge(), 0.03)
    yield linear_problem("one dimension", X[:, :1], numbers, cp.Absolute(), 0.03)
    yield linear_problem("one example", X[:1], labels[:1], cp.SquaredHinge(), 0.1, intercept=False)
    far = np.abs(X @ np.arange(1, 6)) > 1.0
    apart = np.where(X @ np.arange(1, 6) > 0.0, 1.0, -1.0)
    yield linear_problem("separable", X[far], apart[far], cp.SmoothHinge(), 1e-3)
    yield linear_problem(
        "other metric", X, numbers, cp.Huber(), 0.03,
        center=rng.normal(size=5), theta=rng.uniform(0.5, 2.0, 5),
    )  # fmt: skip
    counts = rng.poisson(np.exp(0.3 * signal)).astype(np.float64)
    weights = rng.uniform(0.0, 2.0, 60) * (rng.random(60) > 0.1)
    yield linear_problem("counts, weighted", X, counts, cp.Poisson(), 0.1, weights=weights)

    yield linear_problem("sparse", scipy.sparse.csr_array(X), labels, cp.Hinge(), 0.03)
    yield linear_problem("sparse, smooth", scipy.sparse.csr_array(X), labels, cp.Logistic(), 0.03)
    yield structured_problem("structured", X, np.argmax(X[:, :3], axis=1), 0.03)
    # The same classes as scores of one linear map.
    highest = np.argmax(X[:, :3], axis=1)
    classes = structured_problem("classes", X, highest, 0.03)
    yield replace(
        classes,
        make_risk=lambda: cp.ScoredRisk(X, highest, cp.CrammerSinger(), intercept=False),
    )
    yield wide_problem(labels[:12])


PROBLEMS = {problem.name: problem for problem in _problems()}


def suits(how, name):
    """Say whether a method can minimize a problem, with the regularizer that it is for."""
    problem, method = PROBLEMS[name], METHODS[how].method
    if how == "kelley":
        return True
    if how == "newton" and name == "100,000 features":
        return False  # its matrix would take 75 GiB
    if how in STOCHASTIC and name == "classes":
        return False  # refused with a line of their own: steps are on sums of losses of one score
    if "grouped" in how and name == "classes":
        return False  # the loss is not one of single scores
    return method.obstacle(core.Problem(problem.make_risk(), problem.regularizer)) is None


PAIRS = [(how, name) for how in METHODS for name in PROBLEMS if suits(how, name)]


def test_which_methods_are_for_some_problems_only():
    # Those that are missing above are missing on purpose.
    for how in METHODS.keys() - REGISTERED.keys():
        suitable = {name for other, name in PAIRS if other == how}
        others = set(PROBLEMS) - suitable
        if how == "newton":
            assert others == {"structured", "classes", "100,000 features"}
        elif how == "coordinate descent":
            assert others == {"structured", "classes"}
        elif how in ("class ascent", "class newton"):
            assert suitable == {"classes"}
        elif "grouped" in how:
            assert others == {"classes"}
        elif how == "dual ascent":
            assert others == {"structured", "classes", "counts, weighted", "other metric"}
        elif how == "block ascent":
            assert suitable == {"structured"}
        elif how == "sparse quasi-newton":
            assert suitable == {
                "smooth", "ill-conditioned", "one example", "separable", "sparse, smooth",
                "counts, weighted", "other metric",
            }  # fmt: skip
        elif how in STOCHASTIC:
            assert others == {"other metric", "classes"}
        else:
            assert not others


class Reference(NamedTuple):
    """What a method is to minimize, and a value that the minimum does not exceed."""

    regularizer: object
    value: float
    exact: bool


@cache
def reference(name, method):
    problem = PROBLEMS[name]
    if method != "kelley":
        return Reference(problem.regularizer, problem.optimum, True)
    # The optimum w of lam/2 |w|^2 + R is that of R in the ball through w. In another metric it is
    # just one of its points.
    w = problem.solve()
    value = problem.objective(w) - problem.regularizer.value(w)
    radius = np.linalg.norm(w) * (1.0 + 4 * EPS)
    return Reference(cp.Ball(radius), value, problem.regularizer.plain)


@cache
def run(name, how):
    return cp.minimize(
        PROBLEMS[name].make_risk(),
        reference(name, how).regularizer,
        method=METHODS[how].method,
        stop=cp.Gap(relative=METHODS[how].tol(name)),
        max_iter=5000,
    )


@pytest.mark.parametrize(("how", "name"), PAIRS)
def test_certified_and_correct(how, name):
    result, known = run(name, how), reference(name, how)
    certificate = result.certificate
    assert certificate.status is cp.Status.OPTIMAL
    assert certificate.valid
    assert certificate.relative_gap <= METHODS[how].tol(name)
    # The reference is an upper bound on the minimum, good to about 1e-9 where it is exact.
    assert certificate.lower_bound <= known.value + 64 * EPS * abs(known.value)
    if known.exact:
        assert result.objective >= known.value - 1e-8 * max(1.0, abs(known.value))


RESUMED = ("kinks", "smooth", "one dimension", "sparse", "structured", "classes")


@pytest.mark.parametrize(("how", "name"), [pair for pair in PAIRS if pair[1] in RESUMED])
def test_resumed_from_any_state_it_is_the_same_run(how, name):
    known = reference(name, how)
    options = {"method": METHODS[how].method, "stop": cp.Gap(relative=METHODS[how].resumed)}
    whole = cp.minimize(PROBLEMS[name].make_risk(), known.regularizer, **options)
    # All states of a short run; 40 of a long one, because each is a run of its own.
    states = np.unique(np.linspace(1, whole.iterations - 1, min(whole.iterations - 1, 40)))
    for n in states.astype(int).tolist():
        part = cp.minimize(PROBLEMS[name].make_risk(), known.regularizer, **options, max_iter=n)
        rest = cp.minimize(
            PROBLEMS[name].make_risk(), known.regularizer, **options, resume=part.state
        )
        assert [replace(record, seconds=0.0) for record in rest.history] == [
            replace(record, seconds=0.0) for record in whole.history
        ]
        assert np.array_equal(rest.w, whole.w)
        assert rest.certificate == whole.certificate
