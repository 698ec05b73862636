"""The cases of golden.py: what is fitted, to which data.

They are made of what the library lists itself: all estimators with all their losses and methods,
all methods that public functions make, all losses and regularizers. A new one is a case without a
word here; at most it needs data or arguments of its own, in the tables below.
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse

import cutplane as cp

TOL = 1e-3
MAX_ITER = 120  # so that a run that has gone astray ends

Run = Callable[[], Any]

N, D = 120, 6
_rng = np.random.default_rng(20240607)
X = _rng.normal(size=(N, D)) * np.linspace(1.0, 0.3, D) + 0.2
SPARSE = scipy.sparse.csr_array(np.where(np.abs(X) > 0.5, X, 0.0))
NUMBERS = X @ _rng.normal(size=D) + 0.4 + 0.5 * _rng.standard_t(3, size=N)
COUNTS = _rng.poisson(np.exp(0.3 * NUMBERS.clip(-3.0, 3.0))).astype(np.float64)
SIGNS = np.where(NUMBERS + 0.5 * _rng.normal(size=N) > 0.0, 1.0, -1.0)
CLASSES = (X[:, :3] + 0.5 * _rng.normal(size=(N, 3))).argmax(axis=1)
GRADES = np.digitize(NUMBERS, np.quantile(NUMBERS, [0.4, 0.7]))
VECTORS = np.column_stack([NUMBERS, X[:, 0] - NUMBERS + _rng.normal(size=N)])
LABEL_SETS = (X[:, :3] + 0.5 * _rng.normal(size=(N, 3)) > 0.3).astype(int)
QUERIES = np.arange(N) // 10
FEW_LABELS = np.where(np.arange(N) % 4 == 0, SIGNS > 0.0, -1).astype(int)
WEIGHTS = _rng.uniform(0.2, 2.0, N)
TOKENS = [X[i : i + 6] for i in range(0, N, 6)]
TAGS = [GRADES[i : i + 6] for i in range(0, N, 6)]
WORDS = [[[f"w{k}"] for k in np.digitize(x[:, 0], [-0.5, 0.0, 0.5, 1.0])] for x in TOKENS]
OFFSETS = np.arange(0, N + 1, 6)
LETTERS = ["GGAC" + "".join(_rng.choice(list("ACGU"), 4)) + "GUCC" for _ in range(6)]
GRID = [(v, v + 1) for v in range(6) if v % 3 < 2] + [(v, v + 3) for v in range(3)]

TARGETS = {
    "classes": SIGNS,
    "grades": GRADES,
    "relevance": GRADES,
    "numbers": NUMBERS,
    "rows of numbers": VECTORS,
    "sets of labels": LABEL_SETS,
    "outputs of a model": CLASSES,
    "nothing": None,
}
STRUCTURES: dict[str, tuple[Any, Any]] = {
    "MulticlassModel": (X, CLASSES),
    "MultilabelModel": (X[:40], LABEL_SETS[:40]),
    "TreeModel": ([cp.Tree(x, [-1, 0, 0, 1, 1, 2]) for x in TOKENS], TAGS),
    "GraphModel": ([cp.Graph(x, GRID) for x in TOKENS], TAGS),
    "RNAFolding": (LETTERS, ["((((....))))", ".(((....)))."] * 3),
}


def data_of(estimator: type[Any]) -> tuple[Any, Any, dict[str, Any]]:
    """Return X, y and more by name: what an estimator with this description can be fitted to."""
    reads, targets = str(estimator.description.reads), str(estimator.description.targets)
    if targets == "labels of tokens":
        return TOKENS, TAGS, {}
    if reads == "sequences of vectors":
        return TOKENS, np.arange(len(TOKENS)) % 2, {}
    if "unlabeled" in inspect.signature(estimator).parameters:
        return X, FEW_LABELS, {}
    return X, TARGETS[targets], {"qid": QUERIES} if reads == "rows with queries" else {}


REGULARIZERS: dict[str, tuple[Any, ...]] = {  # arguments; a strength alone for others
    "Ball": (2.0,),
    "Box": (-0.5, 0.5),
    "ConstrainedL2": (0.01, np.diff(np.eye(D), axis=0), 0.0),
    "QuadraticForm": (0.01, X.T @ X / N),
}
LOSSES: dict[str, tuple[Any, ...]] = {  # arguments; none for others
    "NuHinge": (0.3,),
    "NonCrossing": ([0.2, 0.5, 0.8],),
    "SharedScore": ([cp.Quantile(0.2), cp.Quantile(0.8)],),
}
LOSS_TARGETS = {
    "CrammerSinger": CLASSES,
    "Softmax": CLASSES,
    "Euclidean": VECTORS,
    "SquaredEuclidean": VECTORS,
    "LabelRanking": LABEL_SETS.astype(bool),
    "NonCrossing": NUMBERS,
    "SharedScore": np.column_stack([NUMBERS, NUMBERS]),
    "Poisson": COUNTS,
}
TASK_TARGETS = {"classification": SIGNS, "regression": NUMBERS, "ranking": GRADES.astype(float)}


def function(w: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the largest absolute residual, and a subgradient."""
    residuals = X @ w - NUMBERS
    worst = np.abs(residuals).argmax()
    return float(abs(residuals[worst])), np.sign(residuals[worst]) * X[worst]


def scored(loss: Any, features: Any = X, **options: Any) -> Any:
    """Return the risk of a loss, or of one to be made, on targets that suit it."""
    loss = loss() if isinstance(loss, partial) else loss
    name = type(loss).__name__
    y = LOSS_TARGETS[name] if name in LOSS_TARGETS else TASK_TARGETS[loss.task]
    if hasattr(loss, "for_queries"):
        loss = loss.for_queries(QUERIES)
    return cp.ScoredRisk(features, y, loss, **options)


def risk_of(loss: Any, *features: Any, **options: Any) -> Run:
    return lambda: scored(loss, *features, **options)


def chain(loss: Any) -> Run:
    return lambda: cp.ChainRisk(X, np.concatenate(TAGS), OFFSETS, loss, n_labels=3)


def classes_as_structures(**options: Any) -> Run:
    return lambda: cp.StructuredRisk(cp.MulticlassModel(), X, CLASSES, **options)


PROBLEMS: dict[str, tuple[Run, Any]] = {
    "hinge": (risk_of(cp.Hinge()), cp.L2(0.01)),
    "hinge in a ball": (risk_of(cp.Hinge()), cp.Ball(1.0)),
    "logistic, sparse rows": (risk_of(cp.Logistic(), SPARSE), cp.L2(0.01)),
    "logistic, L1": (risk_of(cp.Logistic()), cp.L1(0.01)),
    "quantile, weights": (risk_of(cp.Quantile(0.8), weights=WEIGHTS), cp.L2(0.01)),
    "squared, elastic net": (risk_of(cp.Squared()), cp.ElasticNet(0.05)),
    "ramp": (risk_of(cp.Ramp()), cp.L2(0.01)),
    "crammer_singer": (risk_of(cp.CrammerSinger()), cp.L2(0.01)),
    "softmax": (risk_of(cp.Softmax()), cp.L2(0.01)),
    "chain margin": (chain(cp.ChainMargin()), cp.L2(0.05)),
    "chain crf": (chain(cp.ChainCRF()), cp.L2(0.05)),
    "structured": (classes_as_structures(), cp.L2(0.05)),
}
METRIC = cp.L2(0.05, center=np.ones(D), weights=np.linspace(0.5, 2.0, D))
MARKOV = cp.GaussianHMMs(2, 2, 1, D)
MORE_PROBLEMS: dict[str, tuple[Run, Any]] = {
    "function": (lambda: cp.FunctionRisk(function, D, convex=True), cp.L2(0.1)),
    "sum": (lambda: scored(cp.Hinge()) + 0.3 * scored(cp.Squared()), cp.L2(0.1)),
    "hidden Markov": (lambda: cp.HMMRisk(MARKOV, X, OFFSETS, np.arange(20) % 2), cp.L2(0.1)),
    "another metric": (risk_of(cp.Huber()), METRIC),
    "rescaled slack": (classes_as_structures(rescaling="slack"), cp.L2(0.05)),
}
VARIANTS: dict[str, Any] = {  # of each method that has this parameter
    "line_search": False, "planes": 10, "groups": 4, "batch": 10, "projected": False,
}  # fmt: skip

USUAL: dict[str, Any] = {  # of each estimator that has this parameter
    "lam": 0.01, "lams": [0.1, 0.01], "gammas": [0.1, 1.0], "cv": 3, "n_states": 2, "nu": 0.3,
    "model": cp.MulticlassModel(),
}  # fmt: skip
CONSTRAINTS = {"constraints": ([[1.0] * D], 0.0, 0.5)}
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "LinearClassifier": [
        *({"loss": loss, "penalty": penalty} for loss in ("hinge", "logistic", "squared_hinge")
          for penalty in ("l1", "elasticnet")),
        *({"positive": True, "penalty": penalty} for penalty in ("l2", "l1", "elasticnet")),
        {"bounds": (-0.2, 0.3)}, CONSTRAINTS, {"fit_intercept": False}, {"lam": None, "C": 1.0},
        {"class_weight": "balanced"}, {"loss": "f1", "pos_label": -1.0},
        {"loss": "ramp", "n_starts": 3}, {"lam": "cv"}, {"lam": 1e-4, "tol": 1e-6}, {"max_iter": 2},
    ],
    "LinearRegressor": [
        *({"loss": loss, "penalty": penalty} for loss in ("squared", "quantile", "huber")
          for penalty in ("l1", "elasticnet")),
        {"positive": True}, {"bounds": (-0.2, 0.3)}, CONSTRAINTS, {"fit_intercept": False},
        {"loss": "quantile", "quantile": 0.9}, {"loss": "tukey", "n_starts": 3}, {"tol": 1e-6},
    ],
    "LinearRanker": [{"per": "pair"}, {"pair_weights": "grades"}, {"penalty": "l1"}],
    "MultilabelClassifier": [{"multi_label": "ranking"}, {"multi_label": "worst_pair"}],
    "LinearQuantiles": [{"parallel": True}, {"crossing_penalty": 0.0}],
    "NoveltyDetector": [{"nu": 0.1}],
    "TransductiveClassifier": [{"balance": "labels"}, {"safeguard": "none"}, {"gamma_steps": 3}],
    "SequenceTagger": [
        {"loss": "margin", "method": "block-ascent"}, {"loss": "crf", "method": "quasi-newton"},
        *({"loss": loss, **more} for loss in ("crf", "margin")
          for more in ({"penalty": "l1"}, {"penalty": "elasticnet"}, {"fit_ends": False},
                       {"mean": "token"})),
    ],
    "HMMClassifier": [{"topology": "ergodic"}, {"covariance": "full"}, {"n_components": 2}],
    "HMMTagger": [{"topology": "ergodic"}, {"covariance": "shared"}],
    "KernelClassifier": [
        {"kernel": "linear"}, {"kernel": "polynomial"}, {"landmarks": 20},
        {"loss": "logistic", "posterior": True}, {"loss": "logistic", "method": "kernel-newton"},
        {"gamma": 2.0, "fit_intercept": False},
    ],
    "KernelRegressor": [
        {"kernel": "polynomial"}, {"landmarks": 20},
        {"loss": "absolute", "method": "pair-ascent"},
    ],
    "StructuredPredictor": [{"loss": "crf", "method": "quasi-newton"}],
    "LinearClassifierCV": [{"certified": 0.05}, {"rule": "one_standard_error"}],
    "LinearRegressorCV": [{"certified": 0.05}],
}  # fmt: skip


def public(of: Callable[[Any], bool]) -> dict[str, Any]:
    """Return the public things of a kind by name, those of the library's parts too."""
    parts = (cp, cp.solvers, cp.losses, cp.regularizers)
    found = {name: getattr(part, name) for part in parts for name in part.__all__}
    return {name: thing for name, thing in sorted(found.items()) if of(thing)}


def is_estimator(thing: Any) -> bool:
    return inspect.isclass(thing) and hasattr(thing, "fit") and hasattr(thing, "description")


def makes_methods(thing: Any) -> bool:
    if not inspect.isfunction(thing):
        return False
    # Annotations are text, to be looked up where the function is.
    made = thing.__globals__.get(str(inspect.signature(thing).return_annotation))
    return inspect.isclass(made) and issubclass(made, cp.Solver)


def is_loss(thing: Any) -> bool:
    known = inspect.isclass(thing) and issubclass(thing, cp.losses.ScoreLoss)
    return known and not inspect.isabstract(thing) and thing.__name__ in cp.__all__


def is_regularizer(thing: Any) -> bool:
    return getattr(thing, "__name__", None) in set(cp.regularizers.__all__) & set(cp.__all__)


def words(options: dict[str, Any]) -> str:
    return ", ".join(f"{key}={value!r}" for key, value in options.items())


def fit(of: type[Any], x: Any, y: Any, more: dict[str, Any] | None = None, **options: Any) -> Run:
    return lambda: of(**({"max_iter": MAX_ITER} | options)).fit(x, y, **(more or {}))


def solve(risk: Run, regularizer: Any, method: Any = None, **options: Any) -> Run:
    """Return a run of a method: one by name, or a function that makes it, with its options."""

    def run() -> Any:
        made = method
        penalty = regularizer() if callable(regularizer) else regularizer
        if callable(method):
            wanted = "problem" in inspect.signature(method).parameters
            given = [cp.Problem(risk(), penalty)] if wanted else []
            made = method(*given, **options)
        return cp.minimize(risk(), penalty, method=made, tol=TOL, max_iter=MAX_ITER)

    return run


def estimator_cases(of: type[Any]) -> Iterator[tuple[str, Run]]:
    """Yield an estimator with each of its losses, methods and options."""
    name, description = of.__name__, of.description
    x, y, more = data_of(of)
    usual = {key: USUAL[key] for key in inspect.signature(of).parameters if key in USUAL}
    methods = [*description.methods][: 2 if description.becomes else None]
    chosen: list[dict[str, Any]] = [{}, *({"loss": loss} for loss in description.losses)]
    chosen += [{"method": method} for method in methods] + OPTIONS.get(name, [])
    for options in chosen:
        targets = COUNTS if options.get("loss") == "poisson" else y
        yield f"{name}({words(options)})", fit(of, x, targets, more, **usual | options)


def other_cases() -> Iterator[tuple[str, Run]]:
    """Yield fits to other data: several classes, sparse rows, weights, structures, streams."""
    for how in ("ovr", "crammer_singer", "softmax"):
        for penalty in ("l2", "l1", "elasticnet"):
            loss = "logistic" if how == "softmax" else "hinge"
            options = {"loss": loss, "lam": 0.01, "multi_class": how, "penalty": penalty}
            yield f"3 classes/{how}/{penalty}", fit(cp.LinearClassifier, X, CLASSES, **options)
    costs = {"lam": 0.01, "multi_class": "crammer_singer", "costs": 3.0 * (1.0 - np.eye(3))}
    yield "3 classes/costs", fit(cp.LinearClassifier, X, CLASSES, **costs)
    yield "3 classes/kernel", fit(cp.KernelClassifier, X, CLASSES, lam=0.01)
    for of, y in ((cp.LinearClassifier, SIGNS), (cp.LinearRegressor, NUMBERS)):
        yield f"{of.__name__}, weights", fit(of, X, y, {"sample_weight": WEIGHTS}, lam=0.01)
        yield f"{of.__name__}, sparse rows", fit(of, SPARSE, y, lam=0.01)
        yield f"{of.__name__}, float32", fit(of, X.astype(np.float32), y, lam=0.01)
    yield "LinearClassifier, stream", stream
    yield "LinearClassifier, data folder", folder
    yield "path/hinge", lambda: cp.path(X, SIGNS, "hinge", n_lams=5)
    yield "path/logistic, L1", lambda: cp.path(X, SIGNS, "logistic", penalty="l1", n_lams=5)
    tags = [[f"t{tag}" for tag in sequence] for sequence in TAGS]
    for pairs in ("all", "observed"):
        options = {"lam": 0.01, "templates": "U0:%x[0,0]\nU1:%x[-1,0]", "pairs": pairs}
        yield f"SequenceTagger, words, {pairs}", fit(cp.SequenceTagger, WORDS, tags, **options)
    if importlib.util.find_spec("torch"):
        features = cp.NeuralFeatures((4,), epochs=1)
        yield "SequenceTagger, network", fit(cp.SequenceTagger, TOKENS, TAGS, features=features)
    models = {name: of() for name, of in cp.models.structured.MODELS.items()}
    for name, model in [*models.items(), ("GraphModel", cp.GraphModel(search="relaxed"))]:
        for options in ({}, {"loss": "crf"}, {"rescaling": "slack"}, {"method": "block-ascent"}):
            options = {"model": model, "lam": 0.1, "tol": 0.01} | options
            data = STRUCTURES.get(name, (X, CLASSES))
            yield f"structures/{words(options)}", fit(cp.StructuredPredictor, *data, **options)


def stream() -> Any:
    model = cp.LinearClassifier(lam=0.01, method="pegasos")
    for i in range(0, N, 30):
        model.partial_fit(X[i : i + 30], SIGNS[i : i + 30], [-1.0, 1.0], window=N)
    model.certify()
    return model


def folder() -> Any:
    import pandas as pd

    table = pd.DataFrame(X, columns=list("abcdef")).assign(y=SIGNS)
    with tempfile.TemporaryDirectory() as place:
        data = cp.convert(table, os.path.join(place, "data"), target="y")
        return cp.LinearClassifier(lam=0.01).fit(data.X, data.y)


def method_cases(names: set[str]) -> Iterator[tuple[str, Run]]:
    """Yield all methods that public functions make, and all that estimators know by name."""
    for name, make in public(makes_methods).items():
        for problem, given in PROBLEMS.items():
            yield f"{name}()/{problem}", solve(*given, make)
        for key in sorted(inspect.signature(make).parameters.keys() & VARIANTS.keys()):
            options = {key: VARIANTS[key]}
            for problem in ("hinge", "logistic, sparse rows"):
                case = f"{name}({words(options)})/{problem}"
                yield case, solve(*PROBLEMS[problem], make, **options)
    for name in sorted(names):
        for problem in ("hinge", "ramp", "softmax", "chain crf", "structured"):
            yield f"{name!r}/{problem}", solve(*PROBLEMS[problem], name)


def cases() -> Iterator[tuple[str, Run]]:
    """Yield the name of each case, and what it runs."""
    estimators = public(is_estimator)
    for of in estimators.values():
        yield from estimator_cases(of)
    yield from other_cases()
    yield from method_cases({name for of in estimators.values() for name in of.description.methods})
    for problem, given in MORE_PROBLEMS.items():
        yield problem, solve(*given)
        yield f"{problem}/level", solve(*given, cp.level)
    for name, of in public(is_loss).items():
        loss = partial(of, *LOSSES.get(name, ()))
        yield f"{name}/L2", solve(risk_of(loss), cp.L2(0.01))
        yield f"{name}/L2, level", solve(risk_of(loss), cp.L2(1e-3), cp.level)
        without = risk_of(loss, intercept=False)
        yield f"{name}/L2, no intercept", solve(without, cp.L2(0.01))
        yield f"{name}/ElasticNet, no intercept", solve(without, cp.ElasticNet(0.02))
    for name, of in public(is_regularizer).items():
        for loss in (cp.Hinge(), cp.Logistic(), cp.Squared()):
            make = partial(of, *REGULARIZERS.get(name, (0.01,)))
            method = cp.kelley if name in ("Ball", "Box") else None
            yield f"{name}/{type(loss).__name__}", solve(risk_of(loss), make, method)
