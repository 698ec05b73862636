"""Linear chains: the cost of an evaluation, how it grows, and how many a fit takes.

    CUTPLANE_DATA=folder python benchmarks/structured.py [--parts cost growth ...] [--clock cpu]

cost: one evaluation (value and plane) on the training words of the OCR data beside the NumPy
product of their features with the coefficients, 41,679 x 128 by 128 x 26 in float64; at the
parameters after 20 iterations. Ratios are of the fastest of rounds that take turns. On a machine
that others use too, OMP_NUM_THREADS=1 and CPU time are more telling than seconds.

growth: nanoseconds a token of the dynamic programs, on generated scores, for more labels, longer
sequences and more of them. A multiple of the labels' square would be constant in the last column.

n-best: milliseconds for the best labels, and for the n best, on generated scores with 22 labels.

fits: iterations, evaluations and inferences (dynamic programs on a sequence, here divided by the
number of sequences) to a certified relative gap of 1 %, with the settings of paper 004, Table 5.

peers: seconds of the conditional random field on the same words beside CRFsuite (pip install
python-crfsuite; L-BFGS, c2 = lam n / 2, weights for all pairs), until the objective is within 0.1 %
of what cutplane proves to be the lowest possible, by CRFsuite's own log; and of the max-margin
Markov network, lam = 1e-3, to a proven gap of 1 %, for which SVM-hmm took 30 s and 154,336
inferences on another machine with 2 cores.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.sparse
from datasets import DataError, data_folder
from timing import describe_machine, machine_load

import cutplane as cp
from cutplane.core.state import Problem
from cutplane.models.sequences.chain import Chains, ChainScores, n_best
from cutplane.models.sequences.losses import ChainLoss, LabeledChains
from cutplane.solvers.automatic import automatic

LOSSES = (cp.ChainMargin(), cp.ChainCRF())
SETTINGS = ((LOSSES[0], 1e-3), (LOSSES[0], 1e-4), (LOSSES[1], 1e-4), (LOSSES[1], 1e-5))
ROUNDS = 30


def ocr_words() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return pixels, letters and offsets of the words in folds 0 to 7."""
    try:
        with np.load(data_folder() / "ocr_letters" / "ocr_letters.npz") as file:
            pixels, letters = np.unpackbits(file["X"], axis=1), file["y"]
            lengths, train = np.diff(file["offsets"].astype(int)), file["fold"] < 8
    except FileNotFoundError as error:
        raise DataError(f"ocr_letters is not in CUTPLANE_DATA: {error.filename}.") from error
    tokens = np.repeat(train, lengths)
    offsets = np.concatenate([[0], np.cumsum(lengths[train])])
    return pixels[tokens].astype(np.float64), letters[tokens], offsets


clock = time.perf_counter


def fastest(ways: dict[str, Callable[[], object]], rounds: int = ROUNDS) -> dict[str, float]:
    """Return the least seconds of each way; they take turns."""
    best = dict.fromkeys(ways, np.inf)
    for _ in range(rounds):
        for name, work in ways.items():
            time.sleep(0.05)  # the threads of the BLAS spin for a while after its work
            begin = clock()
            work()
            best[name] = min(best[name], clock() - begin)
    return best


def measure_cost() -> None:
    words = ocr_words()
    print(f"\n{'loss':16}{'product':>10}{'scores':>10}{'program':>10}{'pullback':>10}", end="")
    print(f"{'all':>10}{'ratio':>8}   milliseconds")
    for loss in LOSSES:
        risk = cp.ChainRisk(*words, loss)
        w = cp.minimize(risk, cp.L2(1e-4), max_iter=20).w
        coef = risk.split(w)[0]
        by_feature = np.ascontiguousarray(coef.T)
        scores = risk.scores(w)
        slopes = risk.evaluate(scores).slopes().emissions
        found = fastest(
            {
                "product": lambda by_feature=by_feature: words[0] @ by_feature,
                "scores": lambda risk=risk, coef=coef: risk.rows.class_scores(coef),
                "program": lambda risk=risk, scores=scores: risk.evaluate(scores),
                "pullback": lambda risk=risk, slopes=slopes: risk.rows.class_pullback(slopes),
                "all": lambda risk=risk, w=w: risk.at(w).plane(),
            }
        )
        cells = "".join(f"{1e3 * seconds:10.1f}" for seconds in found.values())
        print(f"{loss!r:16}{cells}{found['all'] / found['product']:8.2f}")


def generated(n_sequences: int, length: int, n_labels: int) -> tuple[Chains, ChainScores]:
    """Return sequences of one length with random scores."""
    rng = np.random.default_rng(0)
    ends = np.zeros(n_labels)
    emissions = rng.normal(size=(n_sequences * length, n_labels))
    scores = ChainScores(emissions, rng.normal(size=(n_labels, n_labels)), ends, ends)
    return Chains(np.arange(n_sequences + 1) * length, n_labels), scores


def program_seconds(loss: ChainLoss, n_sequences: int, length: int, n_labels: int) -> float:
    chains, scores = generated(n_sequences, length, n_labels)
    y = np.random.default_rng(1).integers(0, n_labels, chains.n_tokens).astype(np.int32)
    data = LabeledChains(chains, y, np.full(n_sequences, 1.0 / n_sequences))
    return fastest({"program": lambda: loss.evaluate(data, scores)}, rounds=10)["program"]


def measure_growth() -> None:
    print(f"\n{'loss':16}{'sequences':>10}{'length':>8}{'labels':>8}{'ns/token':>10}", end="")
    print(f"{'ns/(token*labels^2)':>21}")
    shapes = [(4000, 10, labels) for labels in (4, 8, 16, 32, 64)]
    shapes += [(40_000 // length, length, 16) for length in (1, 100, 1000, 10_000)]
    shapes += [(n, 10, 16) for n in (1000, 16_000)]
    for loss in LOSSES:
        for n_sequences, length, n_labels in shapes:
            seconds = program_seconds(loss, n_sequences, length, n_labels)
            each = 1e9 * seconds / (n_sequences * length)
            print(
                f"{loss!r:16}{n_sequences:10}{length:8}{n_labels:8}{each:10.0f}"
                f"{each / n_labels**2:21.2f}",
                flush=True,
            )


def measure_n_best() -> None:
    print(f"\n{'sequences':>10}{'length':>8}{'n':>5}{'milliseconds':>14}{'times the best':>16}")
    for n_sequences, length in ((1, 10_000), (10_000, 20)):
        chains, scores = generated(n_sequences, length, 22)
        ways: dict[str, Callable[[], object]] = {
            str(n): lambda n=n, chains=chains, scores=scores: n_best(chains, scores, n)
            for n in (1, 2, 5, 10, 20, 50)
        }
        ways["best"] = lambda chains=chains, scores=scores: chains.best(scores)
        found = fastest(ways, rounds=10)
        best = found.pop("best")
        for n, seconds in found.items():
            cells = f"{1e3 * seconds:14.1f}{seconds / best:16.1f}"
            print(f"{n_sequences:10}{length:8}{n:>5}{cells}")


def measure_fits() -> None:
    words = ocr_words()
    print(f"\n{'loss':16}{'lam':>8}{'groups':>8}{'objective':>11}{'iterations':>12}", end="")
    print(f"{'evaluations':>13}{'inferences':>12}{'seconds':>9}")
    for loss, lam in SETTINGS:
        for groups in (1, "auto"):
            risk = cp.ChainRisk(*words, loss)
            result = cp.minimize(
                risk, cp.L2(lam), method=cp.bmrm(groups=groups), stop=cp.Gap(relative=0.01)
            )
            print(
                f"{loss!r:16}{lam:8g}{groups if groups == 1 else risk.good_groups:8}"
                f"{result.objective:11.4f}{result.iterations:12}{result.evaluations:13}"
                f"{risk.inferences / risk.n_examples:12.0f}{result.seconds:9.1f}",
                flush=True,
            )


def measure_peers() -> None:
    words = ocr_words()
    print(f"\n{'loss':16}{'lam':>8}{'solver':>16}{'seconds':>9}{'inferences':>12}{'proven':>9}")
    for lam in (1e-4, 1e-5):
        seconds, inferences, lower = ours_until(words, cp.ChainCRF(), lam, 1e-3)
        cells = f"{seconds:9.2f}{inferences:12,}{'0.1 %':>9}"
        print(f"{'ChainCRF()':16}{lam:8.0e}{'cutplane':>16}{cells}", flush=True)
        peer, iterations = crfsuite_until(words, lam, lower / (1.0 - 1e-3))
        cells = f"{peer:9.2f}{iterations * (len(words[2]) - 1):12,}{'-':>9}"
        print(f"{'':16}{'':8}{'CRFsuite':>16}{cells}   {peer / seconds:.1f} times", flush=True)
    seconds, inferences, _ = ours_until(words, cp.ChainMargin(), 1e-3, 1e-2)
    cells = f"{seconds:9.2f}{inferences:12,}{'1 %':>9}"
    print(f"{'ChainMargin()':16}{1e-3:8.0e}{'cutplane':>16}{cells}")


def ours_until(words: tuple, loss: ChainLoss, lam: float, gap: float) -> tuple[float, int, float]:
    """Return seconds, inferences and the bound of a fit by the method that "auto" takes."""
    X, y, offsets = words
    risk = cp.ChainRisk(scipy.sparse.csr_array(X), y, offsets, loss)
    regularizer = cp.L2(lam)
    method = automatic(Problem(risk, regularizer))
    cp.minimize(risk, regularizer, method=method, max_iter=2, tol=0.5)  # kernels are compiled
    risk.inferences = 0
    begin = time.perf_counter()
    result = cp.minimize(risk, regularizer, method=method, stop=cp.Gap(relative=gap), max_iter=None)
    return time.perf_counter() - begin, risk.inferences, result.certificate.lower_bound


def crfsuite_until(words: tuple, lam: float, goal: float) -> tuple[float, int]:
    """Return seconds and iterations of CRFsuite until its objective is at the goal."""
    import pycrfsuite

    X, y, offsets = words
    n = len(offsets) - 1
    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    trainer.set_params(
        {
            "c1": 0.0,
            "c2": lam * n / 2.0,
            "max_iterations": 700,
            "epsilon": 1e-9,
            "delta": 1e-9,
            "feature.possible_states": True,
            "feature.possible_transitions": True,
        }
    )
    names = [[str(j) for j in np.flatnonzero(row)] for row in X]
    for i, j in itertools.pairwise(offsets.tolist()):
        trainer.append(names[i:j], [str(label) for label in y[i:j]])
    with tempfile.TemporaryDirectory() as folder:
        trainer.train(str(Path(folder) / "crfsuite.model"))
    steps = trainer.logparser.iterations
    seconds = np.cumsum([step["time"] for step in steps])
    for number, step in enumerate(steps):
        if step["loss"] / n <= goal:
            return float(seconds[number]), number + 1
    raise DataError(f"CRFsuite ended at {steps[-1]['loss'] / n}, the goal was {goal}")


PARTS = {
    "cost": measure_cost,
    "growth": measure_growth,
    "n-best": measure_n_best,
    "fits": measure_fits,
    "peers": measure_peers,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    arguments = parser.parse_args()
    global clock
    clock = {"wall": time.perf_counter, "cpu": time.process_time}[arguments.clock]
    for name, value in describe_machine().items():
        print(f"{name}: {value}")
    try:
        for part in arguments.parts:
            PARTS[part]()
    except DataError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"\nload at the end: {machine_load()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
