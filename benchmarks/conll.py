"""Labels for the sentences of CoNLL-2000: a conditional random field beside CRFsuite.

    CUTPLANE_DATA=folder python benchmarks/conll.py [--labels chunks|tags] [--sentences N]
        [--turns 3] [--c2 1.0] [--solvers crf crfsuite]

Needs ``pip install python-crfsuite`` for the solver ``crfsuite``. Labels are chunks, from the
templates "chunking", or parts of speech (``--labels tags``), from the templates "words". All
solvers get the same lists of strings, weights for pairs of feature and label that occur, weights
for all transitions (CRFsuite: feature.possible_states=0, feature.possible_transitions=1) and none
for ends. Then n times cutplane's objective is CRFsuite's, with lam = 2 c2 / n:

    n J(w) = c2 |w|^2 + sum over the sentences of -log p(y | x)

Each solver runs in a process of its own, in turns. The first table tells

    features    CPU seconds to make features of the strings (a matrix; CRFsuite: its own form)
    fit         CPU seconds of the fit after that, and seconds
    J           of the weights it ends with, computed by cutplane for both
    to 1 %      CPU seconds of the fit, and iterations, until J was first within 1 % of the lowest
                J of all; CRFsuite's are from its own log, and it proves no gap
    to 0.1 %    the same
    memory      peak of the process, and before features were made: strings and libraries
    F1          of chunks in the test data, or the share of right labels

and the second one tokens a second and CPU second in predictions of the test data: from lists of
strings, from dictionaries with a string for each template, and from a matrix that stands ready.

The solvers ``margin`` (a max-margin Markov network) and ``ends`` (weights for first and last
labels) are other models, which have no common objective with the others.
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
from sklearn.feature_extraction import DictVectorizer
from timing import describe_machine, machine_load

import cutplane as cp
from cutplane.io import InputError, read_conll
from cutplane.metrics import count_chunks
from cutplane.models.tagging.templates import TemplateVectorizer, parse_templates
from cutplane.models.tagging.tokens import transform_names

TEMPLATES = {"chunks": "chunking", "tags": "words"}
SOLVERS = {
    "crf": ("crf", False),
    "ends": ("crf", True),
    "margin": ("margin", True),
}
SAME = ("crf", "crfsuite")
FORMS = ("strings", "dictionaries", "matrix")
# Predictions are timed so many times, each on strings of its own: those that were seen before have
# their hashes with them.
PREDICTIONS = 3

Sentences = list[list[list[str]]]


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


def sentences(part: str, labels: str, most: int | None = None) -> tuple[Sentences, Any]:
    """Return the strings of each token, one for each template, and the labels."""
    X, y = read_conll(data_folder() / "conll2000" / f"{part}.txt").split_labels()
    X, y = X[:most], y[:most]
    if labels == "tags":
        y = [[tag for _, tag in sentence] for sentence in X]
    vectorizer = TemplateVectorizer(parse_templates(TEMPLATES[labels]))
    tokens = [token for sentence in X for token in sentence]
    matrix = vectorizer.fit_transform(tokens, np.array([len(sentence) for sentence in X]))
    names = vectorizer.feature_names_
    rows = iter(np.split(matrix.indices, matrix.indptr[1:-1]))
    # Each string is an object of its own, as they are when a program makes them.
    return [[[names[j][:1] + names[j][1:] for j in next(rows)] for _ in one] for one in X], y


def as_dictionaries(X: Sentences) -> list[list[dict[str, str]]]:
    return [[dict(name.split(":", 1) for name in token) for token in one] for one in X]


def quality(labels: str, predicted: Any, y: Any) -> float:
    if labels == "chunks":
        return count_chunks(y, [list(one) for one in predicted])[""].f1
    right = np.concatenate([*predicted]) == np.concatenate([*y])
    return float(np.mean(right))


def speed(made: list[tuple[Any, Any]], n_tokens: int) -> float:
    """Return tokens a CPU second, the median over predictors with an input each."""
    found = []
    for predict, given in made:
        clock = Clock()
        predict(given)
        found.append(n_tokens / clock.cpu())
    return float(np.median(found))


def run_cutplane(loss: str, ends: bool, options: argparse.Namespace) -> dict[str, Any]:
    X, y = sentences("train", options.labels, options.sentences)
    lengths = np.array([len(sentence) for sentence in X])
    same = {"pairs": "observed", "fit_ends": ends}
    # Kernels are compiled, or read from where they are kept, before the clock runs.
    cp.SequenceTagger(loss, lam=1.0, **same).fit(X[:20], y[:20])
    before, clock = peak_megabytes(), Clock()
    tokens = [token for sentence in X for token in sentence]
    matrix = transform_names(vectorizer := DictVectorizer(), tokens, fit=True)
    features, clock, curve = clock.cpu(), Clock(), []
    tagger = cp.SequenceTagger(
        loss,
        lam=2.0 * options.c2 / len(y),
        tol=options.tol,
        callbacks=[lambda state: curve.append((clock.cpu(), state.objective))],
        **same,
    ).fit(matrix, [label for labels in y for label in labels], lengths=lengths)
    spent, peak = (clock.cpu(), clock.wall()), peak_megabytes()
    names = vectorizer.feature_names_
    n_tokens, n_weights = matrix.shape[0], int(tagger.coef_.nnz)
    tagger.vectorizer_ = vectorizer  # as a fit on the strings has it
    found = predictions(options.labels, tagger.predict)
    texts, _ = sentences("test", options.labels)
    rows = transform_names(vectorizer, [token for one in texts for token in one], fit=False)
    sizes = np.array([len(one) for one in texts])
    ready = [lambda _: tagger.predict(rows, lengths=sizes)] * PREDICTIONS
    found["matrix"] = speed([(predict, None) for predict in ready], rows.shape[0])
    renamed = [name.replace(":", "=", 1) for name in names]
    vectorizer.feature_names_ = renamed
    vectorizer.vocabulary_ = {name: place for place, name in enumerate(renamed)}
    made = [(tagger.predict, as_dictionaries(texts)) for _ in range(PREDICTIONS)]
    found["dictionaries"] = speed(made, rows.shape[0])
    return found | {
        "features": features,
        "cpu": spent[0],
        "wall": spent[1],
        "curve": curve,
        "objective": tagger.certificate_.objective,
        "gap": tagger.certificate_.relative_gap,
        "memory": peak,
        "before": before,
        "size": f"{len(y)} sentences, {n_tokens:,} tokens, {len(tagger.classes_)} labels, "
        f"{len(names):,} features, {n_weights:,} weights of observed pairs",
    }


def run_crfsuite(options: argparse.Namespace) -> dict[str, Any]:
    import pycrfsuite

    X, y = sentences("train", options.labels, options.sentences)
    before, clock = peak_megabytes(), Clock()
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
    for sentence, labels in zip(X, y, strict=True):
        trainer.append(sentence, labels)
    features, clock = clock.cpu(), Clock()
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "crfsuite.model")
        trainer.train(path)
        spent, peak = (clock.cpu(), clock.wall()), peak_megabytes()
        tagger = pycrfsuite.Tagger()
        tagger.open(path)
        steps = trainer.logparser.iterations
        seconds = np.cumsum([step["time"] for step in steps])
        curve = [(s, step["loss"] / len(y)) for s, step in zip(seconds, steps, strict=True)]
        found = predictions(options.labels, lambda X: [tagger.tag(x) for x in X])
        # Its own dictionaries join key and value by a colon: the same attributes.
        texts, _ = sentences("test", options.labels)
        n_tokens = sum(len(one) for one in texts)
        predict = lambda X: [tagger.tag(x) for x in X]  # noqa: E731
        made = [(predict, as_dictionaries(texts)) for _ in range(PREDICTIONS)]
        found["dictionaries"] = speed(made, n_tokens)
        weights = tagger.info()
    return found | {
        "features": features,
        "cpu": spent[0],
        "wall": spent[1],
        "curve": curve,
        "objective": objective(weights, X, y, options.c2),
        "told": curve[-1][1],
        "gap": None,
        "memory": peak,
        "before": before,
    }


def predictions(labels: str, predict: Any) -> dict[str, Any]:
    """Return how good predictions of the test data are, and tokens a CPU second from strings."""
    made = [sentences("test", labels) for _ in range(PREDICTIONS)]
    n_tokens = sum(len(one) for one in made[0][0])
    found = {"quality": quality(labels, predict(made[0][0]), made[0][1])}
    again = [(predict, sentences("test", labels)[0]) for _ in range(PREDICTIONS)]
    return found | {"strings": speed(again, n_tokens)}


def objective(weights: Any, X: Sentences, y: Any, c2: float) -> Any:
    """Cutplane's objective of CRFsuite's weights."""
    tokens = [token for sentence in X for token in sentence]
    matrix = transform_names(vectorizer := DictVectorizer(), tokens, fit=True)
    classes, labels = np.unique([label for one in y for label in one], return_inverse=True)
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in y])])
    risk = cp.ChainRisk(matrix, labels, offsets, cp.ChainCRF(), observed_only=True)
    number = {label: k for k, label in enumerate(classes.tolist())}
    table = np.zeros((matrix.shape[1], len(classes)))
    for (name, label), weight in weights.state_features.items():
        table[vectorizer.vocabulary_[name], number[label]] = weight
    transitions = np.zeros((len(classes), len(classes)))
    for (one, other), weight in weights.transitions.items():
        transitions[number[one], number[other]] = weight
    w = np.concatenate([risk.pairs.from_table(table), transitions.ravel()])
    return cp.L2(2.0 * c2 / len(y)).value(w) + risk.evaluate_once(w).value


def run_apart(solver: str, options: argparse.Namespace) -> dict[str, Any]:
    """Run one solver in a process of its own."""
    command = [sys.executable, __file__, "--worker", solver, "--c2", str(options.c2)]
    command += ["--tol", str(options.tol), "--labels", options.labels]
    if options.sentences is not None:
        command += ["--sentences", str(options.sentences)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise DataError(f"{solver}: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout)


def reached(curve: list[tuple[float, float]], goal: float) -> tuple[float, int]:
    for number, (seconds, value) in enumerate(curve, start=1):
        if value <= goal:
            return seconds, number
    return np.inf, 0


def print_tables(runs: dict[str, list[dict[str, Any]]]) -> None:
    """Print medians over the turns."""
    known = [run["objective"] for solver in SAME for run in runs.get(solver, [])]
    lowest = min(known, default=np.inf)
    cells = ["features", "fit", "seconds", "J", "gap", "to 1 %", "to 0.1 %", "memory", "before"]
    print(f"\n{'solver':9}" + "".join(f"{cell:>14}" for cell in [*cells, "quality"]))
    for solver, turns in runs.items():

        def median(name: str, turns: Any = turns) -> float:
            return float(np.median([turn[name] for turn in turns]))

        row = [f"{median(name):.1f}" for name in ("features", "cpu", "wall")]
        row += [f"{median('objective'):.5f}"]
        row += ["" if turns[0]["gap"] is None else f"{median('gap'):.1e}"]
        for level in (0.01, 0.001):
            when = [reached(turn["curve"], lowest * (1.0 + level)) for turn in turns]
            seconds = float(np.median([seconds for seconds, _ in when]))
            row.append(f"{seconds:.1f} ({when[0][1]})" if solver in SAME else "")
        row += [f"{median(name):.0f} MB" for name in ("memory", "before")]
        row += [f"{100 * median('quality'):.2f}"]
        print(f"{solver:9}" + "".join(f"{cell:>14}" for cell in row))
    print(f"\n{'tokens/s':9}" + "".join(f"{form:>14}" for form in FORMS))
    for solver, turns in runs.items():
        row = [
            f"{np.median([turn[form] for turn in turns]):,.0f}" if form in turns[0] else ""
            for form in FORMS
        ]
        print(f"{solver:9}" + "".join(f"{cell:>14}" for cell in row))
    for turn in runs.get("crfsuite", [])[:1]:
        print(f"\nCRFsuite's own value of its J is {turn['told']:.5f}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--labels", choices=[*TEMPLATES], default="chunks")
    parser.add_argument("--sentences", type=int, help="only the first so many")
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--c2", type=float, default=1.0)
    parser.add_argument("--tol", type=float, default=0.003)
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
    runs: dict[str, list[dict[str, Any]]] = {solver: [] for solver in options.solvers}
    for _ in range(options.turns):
        for solver, turns in runs.items():
            turns.append(run_apart(solver, options))
    print(next((run["size"] for turns in runs.values() for run in turns if "size" in run), ""))
    print_tables(runs)
    print(f"\nload at the end: {machine_load()}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (DataError, InputError) as error:
        sys.exit(f"conll.py: {error}")
