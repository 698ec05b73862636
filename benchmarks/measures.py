"""Training for a measure: what an evaluation costs beside the hinge loss, and what it gains.

    CUTPLANE_DATA=folder python benchmarks/measures.py [--tables speed growth fits quality]

speed: one evaluation on covtype (scores, loss, plane), and the ratio to that of the hinge loss.
growth: value and slopes from given scores, for samples with 1 % positives.
fits: processor seconds (both cores) and iterations to a relative gap of 1e-3.
quality: measures on the test set. A fifth of the training set, drawn by a seeded generator, is held
out to choose lam, and the threshold where the table says "tuned", for each measure by itself.
Models see only the rest. The k of precision at k is 5 % of the examples.

Other times are wall-clock times, the best of several calls in turn. Run it on an idle machine.
"""

import argparse
import sys
import time

import numpy as np
import scipy.sparse
from datasets import DataError, data_folder, load
from sklearn.metrics import f1_score, precision_recall_curve, roc_auc_score
from timing import describe_machine

import cutplane as cp

LOSSES = {
    "hinge": cp.Hinge(),
    "f1": cp.FBeta(1.0),
    "precision_at_k": cp.PrecisionAtK(0.05),
    "break_even": cp.BreakEven(),
    "roc_area": cp.ROCArea(),
}
REPEATS = 9
SIZES = (250_000, 500_000, 1_000_000)
FITS = (("a9a", 1e-4), ("ijcnn1", 1e-4), ("covtype", 1e-4))
TIME_LIMIT = 120.0
QUALITY = ("a9a", "ijcnn1", "reuters_lasvm")
LAMS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
AT_K = 0.05


def fastest(tasks):
    """Return milliseconds of each task, the best of several rounds through all of them."""
    best = dict.fromkeys(tasks, np.inf)
    for _ in range(REPEATS):
        for name, task in tasks.items():
            begin = time.perf_counter()
            task()
            best[name] = min(best[name], 1e3 * (time.perf_counter() - begin))
    return best


def speed():
    X, y = load("covtype")
    rows, w = cp.as_rows(X), np.random.default_rng(0).normal(size=X.shape[1])
    for intercept in (True, False):
        risks = {
            name: cp.ScoredRisk(rows, y, loss, intercept=intercept) for name, loss in LOSSES.items()
        }
        times = fastest({name: lambda risk=risk: evaluate(risk, w) for name, risk in risks.items()})
        print(f"\ncovtype, one evaluation, {'with' if intercept else 'without'} an intercept\n")
        print("| loss | ms | ratio to hinge |\n|---|---|---|")
        for name, ms in times.items():
            print(f"| `{name}` | {ms:.0f} | {ms / times['hinge']:.2f} |")


def evaluate(risk, w):
    point = risk.at(w)
    return point.value, point.plane()


def growth():
    print("\nvalue and slopes from scores, ms; 1 % positives\n")
    print(f"| loss | {' | '.join(f'{size:,}' for size in SIZES)} |")
    print("|---" * (len(SIZES) + 1) + "|")
    rng = np.random.default_rng(0)
    samples = []
    for size in SIZES:
        y = np.where(rng.random(size) < 0.01, 1.0, -1.0)
        samples.append((y, rng.normal(size=size) + y, np.full(size, 1.0 / size)))
    for name, loss in LOSSES.items():
        times = fastest({len(s[0]): lambda s=s, loss=loss: loss(*s) for s in samples})
        print(f"| `{name}` | {' | '.join(f'{times[size]:.1f}' for size in SIZES)} |")


def fits():
    print("\nfits to a relative gap of 1e-3, lam = 1e-4, bundle method with line search\n")
    print("| data | loss | CPU s | iterations | evaluations | relative gap |")
    print("|---" * 6 + "|")
    for name, lam in FITS:
        X, y = load(name)
        rows = cp.as_rows(X)
        for label, loss in LOSSES.items():
            begin = time.process_time()
            result = cp.minimize(
                cp.ScoredRisk(rows, y, loss),
                cp.L2(lam),
                method=cp.bmrm(),
                stop=cp.Gap(relative=1e-3),
                max_iter=None,
                time_limit=TIME_LIMIT,
            )
            seconds = time.process_time() - begin
            print(
                f"| {name} | `{label}` | {seconds:.2f} | {len(result.history)} | "
                f"{result.evaluations} | {result.certificate.relative_gap:.1e} |",
                flush=True,
            )


def quality():
    print("\nmeasures on the test set, in percent\n")
    print("| data | trained for | F1 | F1, tuned | ROC area | precision at 5 % | break-even |")
    print("|---|---|---|---|---|---|---|")
    for name in QUALITY:
        X, y = load(name)
        test_X = scipy.sparse.load_npz(data_folder() / name / "test_X.npz")
        test_y = np.load(data_folder() / name / "test_y.npy")
        shuffled = np.random.default_rng(0).permutation(len(y))
        held_out, fitted = np.split(shuffled, [len(y) // 5])
        for label, loss in LOSSES.items():
            path = cp.path(X[fitted], y[fitted], loss, LAMS, max_iter=5000)
            best = {}
            for model in map(path.model, range(len(LAMS))):
                scores = model.decision_function(X[held_out])
                test_scores = model.decision_function(test_X)
                for measure, (here, there) in MEASURES.items():
                    chosen, threshold = here(y[held_out], scores)
                    if measure not in best or chosen > best[measure][0]:
                        best[measure] = chosen, there(test_y, test_scores, threshold)
            cells = " | ".join(f"{100 * best[measure][1]:.2f}" for measure in MEASURES)
            print(f"| {name} | `{label}` | {cells} |", flush=True)


def f1(y, scores, threshold=0.0):
    return f1_score(y > 0, scores > threshold)


def best_f1(y, scores):
    """Return the best F1 over thresholds, and the threshold."""
    precision, recall, thresholds = precision_recall_curve(y > 0, scores)
    values = 2 * precision * recall / np.maximum(precision + recall, 1e-300)
    best = int(values[:-1].argmax())
    return values[best], np.nextafter(thresholds[best], -np.inf)


def top(y, scores, k):
    return np.mean(y[np.argsort(-scores, kind="stable")[:k]] > 0)


def of_ranking(measure):
    """Return how to choose by a measure that needs no threshold, and how to report it."""
    return lambda y, z: (measure(y, z), 0.0), lambda y, z, _: measure(y, z)


MEASURES = {
    "F1": (lambda y, z: (f1(y, z), 0.0), f1),
    "F1, tuned": (best_f1, f1),
    "ROC area": of_ranking(lambda y, z: roc_auc_score(y > 0, z)),
    "precision": of_ranking(lambda y, z: top(y, z, round(AT_K * len(y)))),
    "break-even": of_ranking(lambda y, z: top(y, z, int((y > 0).sum()))),
}
TABLES = {"speed": speed, "growth": growth, "fits": fits, "quality": quality}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    chosen = parser.parse_args().tables
    for what, text in describe_machine().items():
        print(f"{what}: {text}")
    try:
        for name in chosen:
            TABLES[name]()
    except DataError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
