"""Runs of every method, small enough to be killed hundreds of times."""

import warnings
from functools import cache, partial
from importlib.util import find_spec

import numpy as np
import scipy.sparse

import cutplane as cp
from cutplane.core.policies.cuts import NonConvexCuts
from cutplane.core.state import Problem
from cutplane.models.gram.functions import Kernel
from cutplane.models.gram.newton import kernel_newton
from cutplane.models.gram.pair_ascent import pair_ascent
from cutplane.models.gram.risk import KernelRisk
from cutplane.models.gram.rows import KernelRows
from cutplane.regularizers import KernelNorm
from cutplane.solvers.registry import ROBUST_METHODS, STRUCTURED_METHODS

MOST = 14  # iterations of a run


@cache
def dense():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 8))
    return X, np.where(X @ rng.normal(size=8) + rng.normal(size=120) > 0.0, 1.0, -1.0)


@cache
def sparse():
    rng = np.random.default_rng(1)
    X = np.where(rng.random((120, 30)) < 0.2, rng.normal(size=(120, 30)), 0.0)
    y = np.where(X @ rng.normal(size=30) + 0.5 * rng.normal(size=120) > 0.0, 1.0, -1.0)
    return scipy.sparse.csr_array(X), y


@cache
def sequences():
    rng = np.random.default_rng(2)
    X = [rng.normal(size=(n, 3)) for n in rng.integers(2, 6, size=30)]
    return X, [np.argmax(x + 0.8 * rng.normal(size=x.shape), axis=1) for x in X]


def wavy(w):
    """A risk that is not convex."""
    return float(np.sum(np.log1p(w**2) + np.cos(w))), 2 * w / (1 + w**2) - np.sin(w)


def steep(w):
    """A convex one, with kinks."""
    signs = np.sign(w - np.arange(5.0))
    return float(np.abs(w - np.arange(5.0)).sum()), signs


def linear(loss, *, data=dense, **options):
    return lambda: cp.ScoredRisk(*data(), loss, **options)


def kernel(loss):
    return lambda: KernelRisk(KernelRows(Kernel("rbf", gamma=0.1), dense()[0]), dense()[1], loss)


def chains(loss):
    def made():
        X, y = sequences()
        offsets = np.cumsum([0, *map(len, X)])
        return cp.ChainRisk(np.concatenate(X), np.concatenate(y), offsets, loss)

    return made


def hidden():
    X, y = sequences()
    offsets, labels = np.cumsum([0, *map(len, X)]), [int(each[0]) for each in y]
    return cp.HMMRisk(cp.GaussianHMMs(3, 2, 1, 3), np.concatenate(X), offsets, labels)


def classes():
    X, _ = dense()
    return cp.StructuredRisk(cp.MulticlassModel(), X[:30], np.arange(30) % 3)


def softmax():
    X, _ = dense()
    return cp.ScoredRisk(X, np.arange(len(X)) % 3, cp.Softmax())


def crammer_singer():
    X, _ = dense()
    return cp.ScoredRisk(X, np.arange(len(X)) % 3, cp.CrammerSinger(), intercept=False)


L2 = cp.L2(1e-2)
HINGE, LOGISTIC = linear(cp.Hinge()), linear(cp.Logistic())
SPARSE = linear(cp.Hinge(), data=sparse)
SMOOTH_SPARSE = linear(cp.Logistic(), data=sparse, intercept=False)

# Name: the risk, the regularizer, the method. Below, solvers of the registry are added to these.
RUNS = {
    "bmrm": (HINGE, L2, cp.bmrm),
    "bmrm, logistic": (LOGISTIC, L2, cp.bmrm),
    "bmrm, quantile": (linear(cp.Quantile(0.3)), L2, cp.bmrm),
    "bmrm, F-measure": (linear(cp.FBeta()), L2, cp.bmrm),
    "bmrm, ROC area": (linear(cp.ROCArea()), L2, cp.bmrm),
    "bmrm, softmax": (softmax, L2, cp.bmrm),
    "bmrm, L1": (HINGE, cp.L1(1e-2), cp.bmrm),
    "bmrm, elastic net": (HINGE, cp.ElasticNet(1e-2, 0.5), cp.bmrm),
    "bmrm, center": (HINGE, cp.L2(1e-2, center=np.full(8, 0.3)), cp.bmrm),
    "bmrm, sum": (lambda: HINGE() + 0.5 * LOGISTIC(), L2, cp.bmrm),
    "bmrm, function": (lambda: cp.FunctionRisk(steep, 5), L2, cp.bmrm),
    "bmrm, chains": (chains(cp.ChainMargin()), L2, cp.bmrm),
    "candidates": (HINGE, L2, lambda: cp.bmrm(line_search=False)),
    "groups": (HINGE, L2, lambda: cp.bmrm(groups=4)),
    "few planes": (HINGE, L2, lambda: cp.bmrm(planes=3)),
    "two planes": (HINGE, L2, cp.bmrm_without_qp),
    "proximal": (HINGE, L2, cp.proximal),
    "adaptive": (HINGE, L2, lambda: cp.proximal(weight=None, line_search=False)),
    "trust region": (HINGE, L2, cp.trust_region),
    "level": (HINGE, L2, cp.level),
    "balanced": (HINGE, L2, cp.balanced_proximal),
    "kelley": (HINGE, cp.Ball(2.0), cp.kelley),
    "kelley in a box": (HINGE, cp.Box(-2.0, 2.0), cp.kelley),
    "newton": (HINGE, L2, cp.newton),
    "newton, logistic": (LOGISTIC, L2, cp.newton),
    "dual ascent": (SPARSE, L2, cp.dual_ascent),
    "dual ascent, logistic": (SMOOTH_SPARSE, L2, cp.dual_ascent),
    "class ascent": (softmax, L2, cp.class_ascent),
    "class ascent, kinks": (crammer_singer, L2, cp.class_ascent),
    "class newton": (softmax, L2, cp.class_newton),
    "class newton, kinks": (crammer_singer, L2, cp.class_newton),
    "block ascent": (classes, L2, cp.block_ascent),
    "block ascent, chains": (chains(cp.ChainMargin()), L2, cp.block_ascent),
    "quasi-newton": (chains(cp.ChainCRF()), L2, cp.quasi_newton),
    "quasi-newton, linear": (LOGISTIC, L2, cp.quasi_newton),
    "nrbm": (lambda: cp.FunctionRisk(wavy, 6, convex=False), L2, cp.nrbm),
    "nrbm, ramp": (linear(cp.Ramp()), L2, cp.nrbm),
    "nrbm, hidden Markov models": (hidden, L2, cp.nrbm),
    "cccp, ramp": (linear(cp.Ramp()), L2, cp.cccp),
    "cccp, sum": (lambda: HINGE() + 2.0 * linear(cp.Hat(), intercept=False)(), L2, cp.cccp),
    "subgradient": (linear(cp.Ramp()), L2, cp.subgradient),
    "nbm": (lambda: cp.FunctionRisk(wavy, 6, convex=False), L2, cp.nbm),
    "nbm, hidden Markov models": (hidden, L2, cp.nbm),
    "optimistic": (SPARSE, L2, cp.optimistic),
    "optimistic, chains": (chains(cp.ChainMargin()), L2, cp.optimistic),
    "pegasos, batches": (LOGISTIC, L2, lambda: cp.pegasos(batch=7, iterate=cp.Iterate.BEST)),
    "coordinate descent": (SPARSE, cp.ElasticNet(1e-2, 0.5), cp.solvers.coordinate_descent),
    "sparse quasi-newton": (LOGISTIC, cp.L1(1e-2), cp.solvers.sparse_quasi_newton),
    "pair ascent": (kernel(cp.Hinge()), KernelNorm(1e-2), pair_ascent),
    "kernel newton": (kernel(cp.Logistic()), KernelNorm(1e-2), kernel_newton),
}


def registered():
    """Yield a run of each other solver of the registry, on the first problem that suits it."""
    known = {type(method()) for _, _, method in RUNS.values()}
    for name, make in (ROBUST_METHODS | STRUCTURED_METHODS).items():
        for risk in (HINGE, LOGISTIC, linear(cp.Ramp()), classes, softmax):
            problem = Problem(risk(), L2)
            try:
                solver = make(problem)
            except ValueError:
                continue
            if type(solver) not in known and solver.obstacle(problem) is None:
                known.add(type(solver))
                yield name, (risk, L2, lambda solver=solver: solver)


RUNS |= dict(registered())

if find_spec("torch"):  # the extra cutplane[torch]

    def layers(n_inputs, n_outputs):
        import torch

        torch.manual_seed(0)
        return torch.nn.Sequential(
            torch.nn.Linear(n_inputs, 2), torch.nn.Sigmoid(), torch.nn.Linear(2, n_outputs)
        )

    def network():
        import torch

        X, y = dense()
        return cp.TorchRisk(
            layers(8, 1), (X, y[:, None]), torch.nn.functional.soft_margin_loss, convex=False
        )

    def network_chains():
        X, y = sequences()
        scores = cp.TorchScores(layers(3, 3), np.concatenate(X), batch=16)
        offsets = np.cumsum([0, *map(len, X)])
        return cp.ChainRisk(scores, np.concatenate(y), offsets, cp.ChainCRF())

    RUNS |= {
        "nrbm, torch": (network, L2, cp.nrbm),
        "nrbm, network of a chain": (network_chains, L2, cp.nrbm),
        "quasi-newton, network of a chain": (
            network_chains,
            L2,
            lambda: cp.quasi_newton(cuts=NonConvexCuts()),
        ),
    }


def outcome(result):
    """Return everything that must be the same, to the last bit; not the seconds."""
    certificate = result.certificate
    return {
        "w": result.w.tobytes(),
        "certificate": (
            certificate.objective.hex(),
            certificate.lower_bound.hex(),
            str(certificate.status),
            certificate.valid,
            certificate.reason,
        ),
        "history": [
            (line.iteration, line.objective.hex(), line.lower_bound.hex(), line.evaluations,
             line.planes)
            for line in result.history
        ],
        "counts": (result.iterations, result.evaluations),
    }  # fmt: skip


def run(name, checkpoint=None, **options):
    """Return the outcome of a run, which begins far from its optimum and makes `MOST` steps."""
    risk, regularizer, method = RUNS[name]
    problem = risk()
    start = np.random.default_rng(3).normal(size=problem.n_parameters)
    start /= max(np.linalg.norm(start), 1.0)
    defaults = {"tol": 1e-9, "max_iter": MOST, "start": start}
    result = cp.minimize(
        problem, regularizer, method=method(), checkpoint=checkpoint, **defaults | options
    )
    return outcome(result)


def texts():
    """Return data that every estimator can be given, by what it reads."""
    X, y = dense()
    grades = np.digitize(X @ np.ones(8), [-2.0, 0.0, 2.0])
    labels = (X[:, :3] + X[:, 3:6] > 0.0).astype(int)
    some = np.where(np.arange(120) < 20, y > 0.0, -1)
    return {
        "X": X, "y": y, "grades": grades, "labels": labels, "queries": np.arange(120) // 10,
        "some labels": some,
    }  # fmt: skip


def frames():
    """Return sequences of vectors, each with a class."""
    X, y = sequences()
    return X, [int(labels[0]) for labels in y]


def fitted(make, *, y=None, of=None, **fit):
    """Return a function that fits an estimator and tells everything it has learned."""

    def run_it(checkpoint=None, **options):
        data = texts()
        model = make(checkpoint=checkpoint, **{"tol": 1e-6, "max_iter": 10} | options)
        given = {name: data[column] for name, column in fit.items()}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # fits of ten iterations do not converge
            if of is not None:
                model.fit(*of())
            else:
                model.fit(data["X"], *([] if y is None else [data[y]]), **given)
        return learned(model)

    return run_it


def learned(model):
    """Return the fitted attributes, to the last bit; not the seconds."""

    def exact(value):
        if isinstance(value, np.ndarray):
            return value.dtype.str, value.shape, value.tobytes()
        if isinstance(value, list | tuple):
            return [exact(part) for part in value]
        if hasattr(value, "state_dict"):  # a network
            return [exact(part.numpy()) for part in value.state_dict().values()]
        if isinstance(value, cp.Record):
            return value.objective.hex(), value.lower_bound.hex(), value.evaluations, value.planes
        return repr(value)

    return {
        name: exact(value)
        for name, value in vars(model).items()
        if name.endswith("_") and name not in ("fit_seconds_", "risk_", "model_")
    }


ESTIMATORS = {
    "classifier": fitted(cp.LinearClassifier, y="y"),
    "classifier, three classes": fitted(cp.LinearClassifier, y="grades"),
    "classifier, softmax": fitted(
        partial(cp.LinearClassifier, "logistic", multi_class="softmax"), y="grades"
    ),
    "classifier, cross-validated": fitted(partial(cp.LinearClassifierCV, lams=3, cv=2), y="y"),
    "classifier, ramp": fitted(partial(cp.LinearClassifier, "ramp", n_starts=2), y="y"),
    "classifier, cccp": fitted(partial(cp.LinearClassifier, "ramp", method="cccp"), y="y"),
    "few labels": fitted(cp.TransductiveClassifier, y="some labels"),
    "few labels, annealed": fitted(
        partial(cp.TransductiveClassifier, loss="smooth_hat", gamma_steps=3), y="some labels"
    ),
    "few labels, cccp": fitted(
        partial(cp.TransductiveClassifier, loss="double_ramp", method="cccp"), y="some labels"
    ),
    "regressor": fitted(partial(cp.LinearRegressor, "absolute"), y="grades"),
    "ranker": fitted(cp.LinearRanker, y="grades", qid="queries"),
    "grades": fitted(cp.OrdinalClassifier, y="grades"),
    "quantiles": fitted(partial(cp.LinearQuantiles, [0.2, 0.8]), y="grades"),
    "labels": fitted(cp.MultilabelClassifier, y="labels"),
    "novelty": fitted(cp.NoveltyDetector),
    "tagger": fitted(cp.SequenceTagger, of=sequences),
    "hidden Markov models": fitted(partial(cp.HMMClassifier, 2), of=frames),
    "hidden Markov models, segments": fitted(partial(cp.HMMTagger, 1), of=sequences),
    "structured": fitted(partial(cp.StructuredPredictor, cp.MulticlassModel()), y="grades"),
}

if find_spec("torch"):
    ESTIMATORS |= {
        "tagger, network": fitted(
            partial(cp.SequenceTagger, "crf", features=cp.NeuralFeatures((3,), epochs=0)),
            of=sequences,
        )
    }
