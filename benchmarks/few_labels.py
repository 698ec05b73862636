"""Few labels: what examples without a label gain or cost, on generated cases, some of them adverse.

    python benchmarks/few_labels.py --lam 1e-2 --seeds 4

Accuracy on the unlabeled examples, in points above the support vector machine of the labeled ones
with the same lam; means over seeds. The rule of the safeguard was chosen on the seeds 0 to 3; the
tests have other cases and seeds (tests/estimators/test_few_labels.py).
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
import scipy.sparse

import cutplane as cp

OPTIONS = {
    "default": {},
    "no safeguard": {"safeguard": "none"},
    "five steps": {"gamma_steps": 5, "safeguard": "none"},
    "double_ramp": {"loss": "double_ramp", "safeguard": "none"},
    "smooth_hat": {"loss": "smooth_hat", "safeguard": "none"},
    "cccp": {"method": "cccp", "safeguard": "none"},
}


def clusters(rng, n_features, distance, *, share=0.5, shear=1.0):
    y = (rng.random(600) < share).astype(int)
    X = rng.normal(size=(600, n_features))
    X[:, 0] += np.where(y, distance, -distance)
    X[:, 1] *= shear
    return X, y


def one_cluster(rng):
    X = rng.normal(size=(600, 10))
    return X, (X[:, 0] + 0.7 * rng.normal(size=600) > 0).astype(int)


def gap_elsewhere(rng):
    X = rng.normal(size=(600, 5))
    X[:, 1] += np.where(rng.random(600) < 0.5, 2.0, -2.0)
    return X, (X[:, 0] + 0.3 * rng.normal(size=600) > 0).astype(int)


def texts(rng, n_words=2000):
    y = rng.integers(0, 2, 500)
    rates = np.exp(0.5 * rng.normal(size=(2, n_words))) / np.arange(1, n_words + 1)
    rates /= rates.sum(axis=1, keepdims=True)
    X = np.log1p([rng.multinomial(60, rates[k]) for k in y])
    return scipy.sparse.csr_array(X / np.linalg.norm(X, axis=1, keepdims=True)), y


CASES = {
    "two clusters, 20 labels": (lambda rng: clusters(rng, 10, 1.6), 20),
    "two long clusters, 8 labels": (lambda rng: clusters(rng, 5, 2.0, shear=3.0), 8),
    "one cluster cut through, 20 labels": (one_cluster, 20),
    "one cluster cut through, 200 labels": (one_cluster, 200),
    "a gap elsewhere, 20 labels": (gap_elsewhere, 20),
    "a gap elsewhere, 150 labels": (gap_elsewhere, 150),
    "15 % in one cluster, 30 labels": (lambda rng: clusters(rng, 10, 1.6, share=0.15), 30),
    "15 %, overlapping, 30 labels": (lambda rng: clusters(rng, 10, 1.0, share=0.15), 30),
    "overlapping clusters, 20 labels": (lambda rng: clusters(rng, 10, 0.8), 20),
    "overlapping clusters, 200 labels": (lambda rng: clusters(rng, 10, 0.8), 200),
    "texts of 2,000 words, 20 labels": (texts, 20),
    "texts of 2,000 words, 150 labels": (texts, 150),
}


def drawn(name: str, seed: int):
    """Return examples, their classes, and the labels that are given."""
    make, n_labels = CASES[name]
    rng = np.random.default_rng([seed, list(CASES).index(name)])
    X, truth = make(rng)
    some = rng.permutation(len(truth))[:n_labels]
    while len(np.unique(truth[some])) < 2:
        some = rng.permutation(len(truth))[:n_labels]
    y = np.full(len(truth), -1)
    y[some] = truth[some]
    return X, truth, y


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--lam", type=float, default=1e-2)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--options", nargs="+", default=[*OPTIONS], choices=OPTIONS)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")  # a limit of iterations is a result, too
    means = []
    print(f"{'':<36}labeled  {'  '.join(chosen.options)}")
    for name in CASES:
        rows = []
        for seed in range(chosen.seeds):
            X, truth, y = drawn(name, seed)
            free = y == -1
            models = [cp.LinearClassifier(lam=chosen.lam).fit(X[~free], y[~free])]
            models += [
                cp.TransductiveClassifier(lam=chosen.lam, **OPTIONS[key]).fit(X, y)
                for key in chosen.options
            ]
            rows.append([100 * model.score(X[free], truth[free]) for model in models])
        alone, *others = np.mean(rows, axis=0)
        means.append([other - alone for other in others])
        gains = "  ".join(
            f"{gain:+{len(key)}.1f}" for gain, key in zip(means[-1], chosen.options, strict=True)
        )
        print(f"{name:<36}{alone:6.1f}   {gains}", flush=True)
    print("mean", np.round(np.mean(means, axis=0), 2), "worst", np.round(np.min(means, axis=0), 1))


if __name__ == "__main__":
    main()
