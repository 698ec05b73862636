"""Training labels that are wrong: test accuracy and time of hinge, logistic and ramp.

    CUTPLANE_DATA=folder python benchmarks/wrong_labels.py

A fifth of the training labels are flipped at random; those of the test part are true. For each loss
the strength (and the clip of the ramp) is the one with the best accuracy on a validation part,
which has wrong labels too; then it is fitted to all training examples. covtype is fitted to
100,000 examples. Seconds are those of that last fit, the best of a few.
"""

from __future__ import annotations

import argparse
import itertools

import numpy as np
from datasets import data_folder, load
from timing import best_of_few, describe_machine

import cutplane as cp

WRONG = 0.2
LAMS = (1e-2, 1e-3, 1e-4, 1e-5)
CLIPS = (1.0, 1.5, 2.0, 3.0)
FITTED = 100_000
LOSSES = {
    "hinge": [{}],
    "logistic": [{}],
    "ramp": [{"clip": clip} for clip in CLIPS],
    "smooth_ramp": [{"clip": clip} for clip in CLIPS],
}


def parts(name: str, seed: int):
    """Return features and true labels to train and to test with."""
    X, y = load(name)
    if name == "a9a":
        import scipy.sparse

        folder = data_folder() / name
        return X, y, scipy.sparse.load_npz(folder / "test_X.npz"), np.load(folder / "test_y.npy")
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = order[:FITTED], order[FITTED:]
    return X[train], y[train], X[test], y[test]


def compare(name: str, seed: int, losses: list[str]) -> dict[str, tuple[float, float]]:
    X, y, test_X, test_y = parts(name, seed)
    rng = np.random.default_rng(seed)
    noisy = np.where(rng.random(len(y)) < WRONG, -y, y)
    order = rng.permutation(len(y))
    inner, validation = order[len(y) // 5 :], order[: len(y) // 5]
    found = {}
    for loss in losses:
        scores = {}
        for lam, options in itertools.product(LAMS, LOSSES[loss]):
            model = cp.LinearClassifier(loss, lam=lam, **options).fit(X[inner], noisy[inner])
            scores[lam, *options.items()] = model.score(X[validation], noisy[validation])
        lam, *options = max(scores, key=scores.get)
        model = cp.LinearClassifier(loss, lam=lam, **dict(options))
        seconds, _ = best_of_few(lambda model=model: model.fit(X, noisy))
        accuracy = model.score(test_X, test_y)
        found[loss] = accuracy, seconds
        chosen = ", ".join(f"{key} {value:g}" for key, value in [("lam", lam), *options])
        print(
            f"{name:<8}  {seed}  {loss:<12}{100 * accuracy:7.2f} %{seconds:8.2f} s  "
            f"{model.n_iter_:4} iterations of {model.method_}, "
            f"{model.evaluations_} evaluations  ({chosen})",
            flush=True,
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", nargs="+", default=["a9a", "covtype"])
    parser.add_argument("--loss", nargs="+", default=["hinge", "logistic", "ramp"], choices=LOSSES)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    print(describe_machine())
    for name in options.data:
        runs = [compare(name, seed, options.loss) for seed in range(options.seeds)]
        for loss in options.loss:
            accuracy = np.array([run[loss][0] for run in runs])
            seconds = np.array([run[loss][1] for run in runs])
            print(
                f"{name:<8} mean  {loss:<12}{100 * accuracy.mean():7.2f} %  (from "
                f"{100 * accuracy.min():.2f} to {100 * accuracy.max():.2f})"
                f"{seconds.mean():8.2f} s"
            )


if __name__ == "__main__":
    main()
