"""Chunking of CoNLL-2000: a conditional random field beside CRFsuite, the same objective for both.

    CUTPLANE_DATA=folder python benchmarks/conll.py [--sentences N] [--c2 1.0] [--solvers ...]

Needs ``pip install python-crfsuite`` for the solver ``crfsuite``. Both get the features of the
templates "chunking", weights for pairs of feature and label that occur, weights for all transitions
(CRFsuite: feature.possible_states=0, feature.possible_transitions=1) and none for ends. Then n
times cutplane's objective is CRFsuite's, with lam = 2 c2 / n:

    n J(w) = c2 |w|^2 + sum over the sentences of -log p(y | x)

Each solver runs in a process of its own, which tells

    features    CPU seconds to make features (cutplane: a matrix; CRFsuite: its own form of the
                strings, which stand ready)
    fit         CPU seconds of the fit, and seconds
    J           of the weights it ends with, computed by cutplane for both
    to goal     CPU seconds, and iterations, until J was first no larger than cutplane's was when
                its gap was first within the tolerance (a fit goes on to a quarter of it); the times
                are from CRFsuite's own log, and it proves no gap
    to end      the same, until J was first no larger than that which cutplane ended with
    memory      peak of the process, and before the fit, with data, libraries and compiled kernels
    F1          of chunks in the test data

The solvers ``margin`` (a max-margin Markov network) and ``ends`` (weights for first and last
labels) are other models, which only have an F1 to be compared.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from datasets import DataError, data_folder
from timing import describe_machine, machine_load

import cutplane as cp
from cutplane.io import InputError, read_conll
from cutplane.metrics import count_chunks
from cutplane.structured.templates import TemplateVectorizer, parse_templates

TEMPLATES = "chunking"
SOLVERS = {
    "crf": ("crf", False),
    "ends": ("crf", True),
    "margin": ("margin", True),
}


class Clock:
    """CPU seconds of this process, and seconds."""

    def __init__(self) -> None:
        self._begin = time.process_time(), time.perf_counter()

    def cpu(self) -> float:
        """Return CPU seconds since it was made."""
        return time.process_time() - self._begin[0]

    def wall(self) -> float:
        """Return seconds since it was made."""
        return time.perf_counter() - self._begin[1]


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def sentences(part: str, most: int | None = None) -> tuple[Any, Any]:
    X, y = read_conll(data_folder() / "conll2000" / f"{part}.txt").split_labels()
    return X[:most], y[:most]


def f1(predicted: Any, y: Any) -> float:
    return count_chunks(y, [list(labels) for labels in predicted])[""].f1


def as_matrix(X: Any, vectorizer: TemplateVectorizer, *, fit: bool) -> Any:
    tokens = [token for sentence in X for token in sentence]
    lengths = np.array([len(sentence) for sentence in X])
    return (vectorizer.fit_transform if fit else vectorizer.transform)(tokens, lengths)


def run_cutplane(loss: str, ends: bool, options: argparse.Namespace) -> dict[str, Any]:
    X, y = sentences("train", options.sentences)
    clock = Clock()
    lengths = np.array([len(sentence) for sentence in X])
    matrix = as_matrix(X, vectorizer := TemplateVectorizer(parse_templates(TEMPLATES)), fit=True)
    features = clock.cpu()
    # Kernels are compiled, or read from where they are kept, before the clock runs.
    few = slice(0, int(lengths[:20].sum()))
    warm = {"pairs": "observed", "fit_ends": ends, "lam": 1.0}
    cp.SequenceTagger(loss, **warm).fit(matrix[few], y[:20], lengths=lengths[:20])
    before, clock, curve = peak_megabytes(), Clock(), []

    def watch(state: Any) -> None:
        record = state.history[-1]
        curve.append((clock.cpu(), record.objective, record.relative_gap))

    tagger = cp.SequenceTagger(
        loss,
        lam=2.0 * options.c2 / len(y),
        pairs="observed",
        fit_ends=ends,
        tol=options.tol,
        callbacks=[watch],
    ).fit(matrix, [label for labels in y for label in labels], lengths=lengths)
    spent, peak = (clock.cpu(), clock.wall()), peak_megabytes()
    X, y = sentences("test")
    test_lengths = np.array([len(sentence) for sentence in X])
    labels = tagger.predict(as_matrix(X, vectorizer, fit=False), lengths=test_lengths)
    return {
        "features": features,
        "cpu": spent[0],
        "wall": spent[1],
        "curve": curve,
        "objective": tagger.certificate_.objective,
        "gap": tagger.certificate_.relative_gap,
        "memory": peak,
        "before": before,
        "f1": f1(np.split(labels, np.cumsum(test_lengths)[:-1]), y),
        "n_features": matrix.shape[1],
        "n_weights": int(tagger.coef_.nnz),
        "entries": int(matrix.nnz),
        "megabytes": (matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes) / 2**20,
    }


def attributes(matrix: Any, vectorizer: TemplateVectorizer, X: Any) -> list[list[list[str]]]:
    """Return the names of each token's features."""
    names = vectorizer.feature_names_
    rows = np.split(matrix.indices, matrix.indptr[1:-1])
    tokens = iter(rows)
    return [[[names[j] for j in next(tokens)] for _ in sentence] for sentence in X]


def run_crfsuite(options: argparse.Namespace) -> dict[str, Any]:
    import pycrfsuite

    X, y = sentences("train", options.sentences)
    matrix = as_matrix(X, vectorizer := TemplateVectorizer(parse_templates(TEMPLATES)), fit=True)
    strings = attributes(matrix, vectorizer, X)
    clock = Clock()
    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    trainer.set_params(
        {
            "c1": 0.0,
            "c2": options.c2,
            "max_iterations": 1000,
            "feature.possible_states": False,
            "feature.possible_transitions": True,
        }
    )
    for sentence, labels in zip(strings, y, strict=True):
        trainer.append(sentence, labels)
    features, before, clock = clock.cpu(), peak_megabytes(), Clock()
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "crfsuite.model")
        trainer.train(path)
        spent, peak = (clock.cpu(), clock.wall()), peak_megabytes()
        tagger = pycrfsuite.Tagger()
        tagger.open(path)
        steps = trainer.logparser.iterations
        seconds = np.cumsum([step["time"] for step in steps])
        curve = [(s, step["loss"] / len(y), 1.0) for s, step in zip(seconds, steps, strict=True)]
        test_X, test_y = sentences("test")
        test_matrix = as_matrix(test_X, vectorizer, fit=False)
        predicted = [tagger.tag(x) for x in attributes(test_matrix, vectorizer, test_X)]
        weights = tagger.info()
    return {
        "features": features,
        "cpu": spent[0],
        "wall": spent[1],
        "curve": curve,
        "objective": objective(weights, matrix, vectorizer, y, options.c2),
        "told": curve[-1][1],
        "gap": None,
        "memory": peak,
        "before": before,
        "f1": f1(predicted, test_y),
    }


def objective(weights: Any, matrix: Any, vectorizer: TemplateVectorizer, y: Any, c2: float) -> Any:
    """Cutplane's objective of CRFsuite's weights."""
    classes, labels = np.unique([label for one in y for label in one], return_inverse=True)
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in y])])
    risk = cp.ChainRisk(matrix, labels, offsets, cp.ChainCRF())
    number = {label: k for k, label in enumerate(classes.tolist())}
    place = {name: j for j, name in enumerate(vectorizer.feature_names_)}
    w = np.zeros(risk.n_parameters)
    coef, transitions, _, _ = risk.split(w)  # views
    for (name, label), weight in weights.state_features.items():
        coef[number[label], place[name]] = weight
    for (one, other), weight in weights.transitions.items():
        transitions[number[one], number[other]] = weight
    return cp.L2(2.0 * c2 / len(y)).value(w) + risk.at(w).value


def run_apart(solver: str, options: argparse.Namespace) -> dict[str, Any]:
    """Run one solver in a process of its own."""
    command = [sys.executable, __file__, "--worker", solver, "--c2", str(options.c2)]
    command += ["--tol", str(options.tol)]
    if options.sentences is not None:
        command += ["--sentences", str(options.sentences)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise DataError(f"{solver}: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout)


def reached(curve: list[tuple[float, float, float]], goal: float) -> str:
    for number, (seconds, value, _) in enumerate(curve, start=1):
        if value <= goal:
            return f"{seconds:.1f} ({number})"
    return "never"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sentences", type=int, help="only the first so many")
    parser.add_argument("--c2", type=float, default=1.0)
    parser.add_argument("--tol", type=float, default=0.01)
    parser.add_argument(
        "--solvers", nargs="+", choices=[*SOLVERS, "crfsuite"], default=["crf", "crfsuite"]
    )
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker is not None:
        known = options.worker in SOLVERS
        found = run_cutplane(*SOLVERS[options.worker], options) if known else run_crfsuite(options)
        print(json.dumps(found))
        return 0
    for name, value in describe_machine().items():
        print(f"{name}: {value}")
    goals: list[float] = []
    cells = ["features", "fit", "seconds", "iterations", "J", "gap", "to goal", "to end", "memory"]
    print(f"\n{'solver':9}" + "".join(f"{cell:>12}" for cell in [*cells, "before", "F1"]))
    for solver in options.solvers:
        found = run_apart(solver, options)
        if solver == "crf":
            first = next((J for _, J, gap in found["curve"] if gap <= options.tol), np.inf)
            goals = [first, found["objective"]]
        same = solver in ("crf", "crfsuite")
        row = [
            f"{found['features']:.1f}",
            f"{found['cpu']:.1f}",
            f"{found['wall']:.1f}",
            str(len(found["curve"])),
            f"{found['objective']:.5f}",
            "" if found["gap"] is None else f"{found['gap']:.1e}",
            *([reached(found["curve"], goal) for goal in goals] if same and goals else ["", ""]),
            f"{found['memory']:.0f} MB",
            f"{found['before']:.0f} MB",
            f"{100 * found['f1']:.2f}",
        ]
        print(f"{solver:9}" + "".join(f"{cell:>12}" for cell in row), flush=True)
        if solver == options.solvers[0] and "entries" in found:
            print(
                f"{'':9}{found['n_features']:,} features, {found['n_weights']:,} weights of "
                f"observed pairs, {found['entries']:,} entries in {found['megabytes']:.0f} MB"
            )
        if "told" in found:
            print(f"{'':9}CRFsuite's own value of J is {found['told']:.5f}")
    print(f"\nload at the end: {machine_load()}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (DataError, InputError) as error:
        sys.exit(f"conll.py: {error}")
