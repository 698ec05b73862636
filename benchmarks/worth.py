"""What single parts of the library are worth beside the next best thing that there is.

Each part is compared on data that its constants were not chosen on. Works are done in turns, and
numbers are medians of processor seconds unless a row says otherwise; a ratio above 1 is in favor
of the part. `docs/decisions/2026-11-18-worth.md` says what followed.

    CUTPLANE_DATA=FOLDER python benchmarks/worth.py [PART ...] [--json FILE]
"""

# ruff: noqa: B023 - works are called in the turn of the loop that makes them

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from datasets import data_folder, load, load_classes
from threadpoolctl import threadpool_limits
from timing import describe_machine, in_turns

import cutplane as cp

Row = dict[str, Any]
ROUNDS = 5


def row(data: str, ours: float, peer: float, peer_name: str, unit: str = "s") -> Row:
    """Return a line of the table; less is better."""
    return {
        "data": data, "ours": ours, "peer": peer, "peer name": peer_name, "unit": unit,
        "ratio": peer / ours if ours else float("inf"),
    }  # fmt: skip


def timed(works: dict[str, Callable[[], object]], rounds: int = ROUNDS) -> list[float]:
    """Return the median processor seconds of each of several works, done in turns."""
    for work in works.values():
        work()  # compiles
    times = in_turns(works, rounds=rounds)
    return [statistics.median(times[name].processor) for name in works]


def fit(risk: Callable[[], Any], lam: float, method: Any, tol: float = 1e-3) -> Any:
    return cp.minimize(risk(), cp.L2(lam), method=method, tol=tol, max_iter=None, time_limit=60.0)


# -- class_newton ----------------------------------------------------------------------------------
def class_newton() -> Iterator[Row]:
    """Compare Newton's method for the losses of all classes with dual ascent."""
    rng = np.random.default_rng(17)
    centers = rng.normal(size=(8, 40))
    y = rng.integers(0, 8, 3000)
    blobs = (centers[y] + 2.0 * rng.normal(size=(3000, 40)), y)
    letters = ocr_letters()
    forest = cover_types()
    for name, (X, y) in {"8 blobs": blobs, "ocr letters": letters, "covtype": forest}.items():
        for loss in (cp.Softmax(), cp.CrammerSinger()):
            for times_m in (1.0, 0.01):
                lam = times_m / len(y)

                def risk(X: Any = X, y: Any = y, loss: Any = loss) -> Any:
                    return cp.ScoredRisk(X, y, loss)

                ours, peer = timed(
                    {
                        "newton": lambda: fit(risk, lam, cp.class_newton()),
                        "ascent": lambda: fit(risk, lam, cp.class_ascent()),
                    },
                    rounds=3,
                )
                kind = type(loss).__name__
                yield row(f"{name}, {kind}, lam = {times_m:g}/m", ours, peer, "class_ascent")


def ocr_letters(most: int = 3000) -> tuple[Any, Any]:
    with np.load(next((data_folder() / "ocr_letters").glob("*.npz"))) as file:
        X = np.unpackbits(file["X"], axis=1)[:, :128].astype(np.float64)
        y = file["y"].astype(np.int64)
    some = np.random.default_rng(0).permutation(len(y))[:most]
    return X[some], np.unique(y[some], return_inverse=True)[1]


def cover_types(most: int = 8000) -> tuple[Any, Any]:
    X, _ = load("covtype")
    with np.load(data_folder() / "covtype" / "covtype.npz") as file:
        y = file["y"].astype(np.int64)
    some = np.random.default_rng(0).permutation(len(y))[:most]
    return np.ascontiguousarray(X[some]), np.unique(y[some], return_inverse=True)[1]


# -- landmarks' pilot and random features ----------------------------------------------------------
def tests_of(name: str, n_train: int, n_test: int) -> tuple[Any, Any, Any, Any]:
    """Return dense rows of two classes, scaled, and others to test on."""
    X, y = load(name)
    some = np.random.default_rng(0).permutation(len(y))[: n_train + n_test]
    X = X[some].toarray() if hasattr(X, "toarray") else X[some]
    X, y = np.asarray(X, dtype=np.float64), np.where(y[some] > 0, 1, -1)
    scale = X[:n_train].std(axis=0)
    X = (X - X[:n_train].mean(axis=0)) / np.where(scale > 0.0, scale, 1.0)
    return X[:n_train], y[:n_train], X[n_train:], y[n_train:]


def pilot() -> Iterator[Row]:
    """Landmarks that a pilot chooses, beside such drawn at random: errors in percent, seconds."""
    from cutplane.models.gram import reduced

    for name in ("covtype", "a9a"):
        for number in (250, 500):
            X, y, X_test, y_test = tests_of(name, 12_000, 10_000)
            errors: dict[str, list[float]] = {"pilot": [], "random": []}
            seconds: dict[str, list[float]] = {"pilot": [], "random": []}
            for seed in range(3):
                for how in errors:
                    share = reduced._LARGEST_SHARE if how == "pilot" else 0.0
                    with mock.patch.object(reduced, "_LARGEST_SHARE", share):
                        machine = cp.KernelClassifier(
                            "hinge", lam=1e-4, landmarks=number, random_state=seed
                        )
                        begin = time.process_time()
                        machine.fit(X, y)
                    seconds[how].append(time.process_time() - begin)
                    errors[how].append(100.0 * (1.0 - machine.score(X_test, y_test)))
            for what, found in (("test error, %", errors), ("s", seconds)):
                ours, peer = (statistics.median(found[how]) for how in ("pilot", "random"))
                yield row(f"{name}, {number} landmarks", ours, peer, "drawn at random", what)


# -- search on graphs ------------------------------------------------------------------------------
def grid(side: int) -> Any:
    i = np.arange(side * side).reshape(side, side)
    right, down = np.dstack([i[:, :-1], i[:, 1:]]), np.dstack([i[:-1], i[1:]])
    return np.concatenate([right.reshape(-1, 2), down.reshape(-1, 2)])


def drawn(rng: np.random.Generator, n_nodes: int, n_edges: int) -> Any:
    pairs = np.stack(np.triu_indices(n_nodes, 1), axis=1)
    return pairs[np.sort(rng.permutation(len(pairs))[:n_edges])].astype(np.int64)


def searches(seed: int, shapes: dict[str, tuple[Any, int, float]]) -> Iterator[tuple[str, Any]]:
    """Yield names, and problems with random scores: edges, labels, strength of the edges."""
    rng = np.random.default_rng(seed)
    for name, (edges, n_labels, strength) in shapes.items():
        n_nodes = int(edges.max()) + 1
        yield (
            f"{name}, {n_labels} labels, strength {strength:g}",
            [
                (
                    rng.normal(size=(n_nodes, n_labels)),
                    strength * rng.normal(size=(len(edges), n_labels, n_labels)),
                    edges,
                )
                for _ in range(6)
            ],
        )


def graphs() -> Iterator[Row]:
    """Exact search by messages and walks, beside HiGHS alone."""
    from cutplane.models.graphs.local_polytope import best_integral
    from cutplane.models.graphs.search import best_exact

    rng = np.random.default_rng(5)
    shapes = {
        "grid 8 x 8, weak": (grid(8), 3, 0.5),
        "grid 8 x 8, strong": (grid(8), 3, 1.5),
        "40 nodes, 80 edges": (drawn(rng, 40, 80), 3, 0.7),
    }
    for name, problems in searches(5, shapes):
        with threadpool_limits(1):
            seconds = timed(
                {
                    "a": lambda problems=problems: [best_exact(*each) for each in problems],
                    "b": lambda problems=problems: [best_integral(*each) for each in problems],
                },
                rounds=3,
            )
        yield row(name, *seconds, "HiGHS alone")


def triplets() -> Iterator[Row]:
    """Triplets on short cycles: beside the last walk at once, and beside longer walks instead."""
    from cutplane.models.graphs import search

    rng = np.random.default_rng(11)
    shapes = {
        "grid 12 x 12": (grid(12), 5, 1.0),
        "grid 16 x 16": (grid(16), 4, 1.0),
        "60 nodes, 150 edges": (drawn(rng, 60, 150), 3, 1.0),
        "30 nodes, 160 edges": (drawn(rng, 30, 160), 3, 0.7),
    }
    peers = {"the last walk at once": False, "messages and longer walks": True}

    def all_of(problems: Any, more: bool | None) -> int:
        """Search all; return how often triplets were asked for. None leaves them as they are."""
        asked = 0
        add = search._Messages.add_triplets

        def instead(messages: Any) -> bool:
            nonlocal asked
            asked += 1
            return add(messages) if more is None else more

        with mock.patch.object(search._Messages, "add_triplets", instead):
            for each in problems:
                search.best_exact(*each)
        return asked

    for name, problems in searches(11, shapes):
        with threadpool_limits(1):
            asked = all_of(problems, None)
            ways = {"triplets": None, **peers}
            seconds = timed(
                {way: lambda p=problems, more=more: all_of(p, more) for way, more in ways.items()},
                rounds=1,
            )
        for peer, other in zip(peers, seconds[1:], strict=True):
            yield row(
                f"{name}, {asked} of {len(problems)} ask for triplets", seconds[0], other, peer
            )


# -- Boltzmann machines ----------------------------------------------------------------------------
def boltzmann() -> Iterator[Row]:
    """Our Boltzmann machine beside BernoulliRBM at its best rate: errors of a model on top."""
    from sklearn.neural_network import BernoulliRBM

    from cutplane.models.networks.boltzmann import train_machine

    X, y = load_classes("mnist")
    some = np.random.default_rng(0).permutation(len(y))[:4000]
    mnist = np.asarray(X[some].toarray()), y[some]
    settings = {"rate": 0.2, "momentum": 0.0, "decay": 0.0}  # as BernoulliRBM, which has none
    for name, (X, y) in {"ocr letters": ocr_letters(4000), "mnist": mnist}.items():
        X, X_test, y, y_test = X[:2500], X[2500:], y[:2500], y[2500:]
        makers: dict[str, Callable[[int], Callable[[Any], Any]]] = {
            "ours": lambda seed, X=X: (
                train_machine(X, 200, epochs=10, rate=0.05, seed=seed).hidden_means
            ),
            "ours without momentum and decay": lambda seed, X=X: (
                train_machine(X, 200, epochs=10, seed=seed, **settings).hidden_means
            ),
        }
        for rate in (0.05, 0.2, 0.5):
            makers[f"BernoulliRBM, rate {rate:g}"] = lambda seed, X=X, rate=rate: (
                BernoulliRBM(200, learning_rate=rate, batch_size=100, n_iter=10, random_state=seed)
                .fit(X)
                .transform
            )
        errors: dict[str, list[float]] = {maker: [] for maker in makers}
        for seed in range(3):
            for maker, make in makers.items():
                with threadpool_limits(1):
                    means = make(seed)
                model = cp.LinearClassifier("logistic", lam=1e-4).fit(means(X), y)
                errors[maker].append(100.0 * (1.0 - model.score(means(X_test), y_test)))
        ours, *others = map(statistics.median, errors.values())
        for peer, other in zip(list(makers)[1:], others, strict=True):
            yield row(name, ours, other, peer, "test error, %")  # type: ignore[arg-type]


# -- stochastic passes -----------------------------------------------------------------------------
BINARY = (("ijcnn1", 1e-4), ("a9a", 1e-5), ("reuters_lasvm", 1e-4))


def passes() -> Iterator[Row]:
    """Which examples passes visit: seconds of `optimistic` to 1e-2."""

    def cost(how: dict[str, Any], risk: Any, lam: float) -> tuple[float, float]:
        begin = time.process_time()
        found = cp.minimize(
            risk(), cp.L2(lam), method=cp.optimistic(**how), tol=1e-2, max_iter=300, time_limit=5.0
        )
        return time.process_time() - begin, found.certificate.relative_gap

    for name, lam in BINARY[:3]:
        X, y = load(name)

        def risk(X: Any = X, y: Any = y) -> Any:
            return cp.ScoredRisk(X, y, cp.Hinge(), intercept=False)

        variants: dict[str, dict[str, Any]] = {
            "as it is": {},
            "Sampling.DRAWN": {"sampling": cp.Sampling.DRAWN},
        }
        found: dict[str, list[tuple[float, float]]] = {each: [] for each in variants}
        for how in variants.values():
            cost(how, risk, 0.1)  # compiles
        for seed in range(3):
            for each, how in variants.items():
                found[each].append(cost({**how, "seed": seed}, risk, lam))
        usual = statistics.median(seconds for seconds, _ in found["as it is"])
        for each in list(variants)[1:]:
            seconds = statistics.median(seconds for seconds, _ in found[each])
            reached = sum(gap <= 1e-2 for _, gap in found[each])
            yield row(f"{name}, lam = {lam:g}: {each}, {reached} of 3 reach it", seconds, usual,
                      "as it is")  # fmt: skip


# -- memory and compilation ------------------------------------------------------------------------
def room() -> Iterator[Row]:
    """Vectors whose memory is used again, beside NumPy's: a fit by bmrm."""
    from cutplane.compute import arrays

    rng = np.random.default_rng(0)
    for name, (X, y) in {
        "covtype": load("covtype"),
        "5,000,000 generated rows of 4": (rng.normal(size=(5_000_000, 4)), np.empty(0)),
    }.items():
        if not len(y):
            y = np.where(X[:, 0] + rng.normal(size=len(X)) > 0.0, 1.0, -1.0)
        for label, loss, method in (
            ("hinge, bmrm", cp.Hinge(), cp.bmrm()),
            ("logistic, newton", cp.Logistic(), cp.newton()),
        ):
            risk = cp.ScoredRisk(X, y, loss)

            def work(least: float, risk: Any = risk, method: Any = method) -> None:
                with mock.patch.object(arrays, "_LEAST_NUMBERS", least):
                    cp.minimize(risk, cp.L2(1e-4), method=method, stop=cp.Iterations(15))

            works = {"with": lambda: work(1 << 16), "without": lambda: work(np.inf)}
            yield row(f"{name}, {label}, 15 iterations", *timed(works), "NumPy's own memory")


# -- fingerprints and docstrings -------------------------------------------------------------------
def fingerprints() -> Iterator[Row]:
    """Compare functions told by their code with functions told by name: what goes unseen."""
    from cutplane.core.fingerprint import fingerprint

    before = "def risk(w):\n    return abs(w).sum() * scale"
    changes = {
        "a constant": ("def risk(w):\n    return abs(w).sum() * scale + 1.0", 2.0),
        "an operator": ("def risk(w):\n    return (w * w).sum() * scale", 2.0),
        "a global variable": (before, 3.0),
    }

    def made(source: str, scale: float) -> Any:
        scope: dict[str, Any] = {"scale": scale, "__name__": "script"}
        exec(source, scope)
        return scope["risk"]

    ours = fingerprint(made(before, 2.0))
    assert ours == fingerprint(made(before, 2.0))
    unseen = sum(fingerprint(made(*change)) == ours for change in changes.values())
    # By name alone all are the same function.
    yield row("3 changes of a function", unseen, len(changes), "by name", "changes not noticed")
    function = made(before, 2.0)
    begin = time.process_time()
    for _ in range(1000):
        fingerprint(function)
    yield row("one function", (time.process_time() - begin) / 1000, 0.0, "by name")


def docstrings() -> Iterator[Row]:
    """Docstrings completed and read when estimators are made: seconds of an import."""
    code = """
import sys, time
import numpy, scipy.sparse, sklearn.base, numba
from cutplane.estimators import docstrings, estimator, description
spent = 0.0
def watched(function):
    def call(*args):
        global spent
        begin = time.process_time()
        try:
            return function(*args)
        finally:
            spent += time.process_time() - begin
    return call
for module in (estimator, description):
    for name in ("complete_docstring", "entries_of"):
        if hasattr(module, name):
            setattr(module, name, watched(getattr(module, name)))
begin = time.process_time()
import cutplane as cp
from cutplane.estimators.description import ESTIMATORS
list(ESTIMATORS.values())
print(spent, time.process_time() - begin)
"""
    found = []
    for _ in range(5):
        done = subprocess.run(
            [sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True
        )
        found.append([float(each) for each in done.stdout.split()])
    spent, whole = (statistics.median(each) for each in zip(*found, strict=True))
    yield row("import of all estimators", spent, whole, "the whole import")


PARTS: dict[str, Callable[[], Iterator[Row]]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        class_newton, pilot, graphs, triplets, boltzmann, passes, room,
        fingerprints, docstrings,
    )
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--json", type=Path, help="write the rows into this file too")
    options = parser.parse_args()
    rows = []
    for part in options.parts or PARTS:
        for found in PARTS[part]():
            rows.append({"part": part, **found})
            print(
                f"{part}: {found['data']}: {found['ours']:.3g}, {found['peer name']} "
                f"{found['peer']:.3g} ({found['unit']}), ratio {found['ratio']:.2f}",
                flush=True,
            )
    if options.json:
        content = {"machine": describe_machine(), "rows": rows}
        options.json.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
