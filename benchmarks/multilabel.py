"""Several labels an example: the ways of `MultilabelClassifier` by four measures.

Run as ``CUTPLANE_DATA=FOLDER python benchmarks/multilabel.py``; without ``CUTPLANE_DATA`` only the
sets that need no files. Each set is split at random into a training, a validation and a test part,
with two seeds. For every way and every measure, lam (0.1 to 1e-5) is chosen by that measure on
the validation part; the table has means of the test part. The sets:

sparse, medium, dense
    scikit-learn's generator with 10 labels, of which an example has 1, 3 or 6 in the mean.
two digits
    Two images of scikit-learn's digits, one laid over the other; the labels are both digits.
segments
    Images of digits; the labels are the segments that a display of seven shows for them.
chunks
    Sentences of CoNLL-2000: counts of parts of speech; the labels are the kinds of chunks in them.
newsgroups
    Two texts of 20 Newsgroups added, the 1,000 most frequent words; the labels are both groups.
"""

import argparse
import sys
from collections import Counter
from functools import partial

import numpy as np
import scipy.sparse
from datasets import DataError, data_folder
from sklearn.datasets import load_digits, make_multilabel_classification
from sklearn.metrics import f1_score, hamming_loss, label_ranking_loss
from sklearn.preprocessing import normalize, scale

import cutplane as cp

WAYS = ("ranking", "worst_pair", "independent")
LAMS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
PARTS = (1000, 500, 1500)
N = sum(PARTS)
SEGMENTS = ("abcdef", "bc", "abged", "abgcd", "fgbc", "afgcd", "afgedc", "abc", "abcdefg", "abcdfg")
# Positive: the larger, the better.
MEASURES = {
    "F1 micro": (1, lambda Y, scores: f1_score(Y, scores > 0.0, average="micro", zero_division=0)),
    "F1 macro": (1, lambda Y, scores: f1_score(Y, scores > 0.0, average="macro", zero_division=0)),
    "Hamming": (-1, lambda Y, scores: hamming_loss(Y, scores > 0.0)),
    "ranking loss": (-1, label_ranking_loss),
}


def generated(n_labels, seed):
    X, Y = make_multilabel_classification(N, 30, n_classes=10, n_labels=n_labels, random_state=seed)
    return scale(X), Y


def two_digits(seed):
    X, y = load_digits(return_X_y=True)
    first, second = np.random.default_rng(seed).integers(0, len(y), size=(2, N))
    return np.maximum(X[first], X[second]) / 16.0, both(y[first], y[second], 10)


def segments(seed):
    X, y = load_digits(return_X_y=True)
    lit = np.array([[name in shown for name in "abcdefg"] for shown in SEGMENTS])
    chosen = np.random.default_rng(seed).permutation(len(y))
    return X[chosen] / 16.0, lit[y[chosen]].astype(int)


def chunks(seed):
    text = (data_folder() / "conll2000" / "train.txt").read_text()
    sentences = [part.splitlines() for part in text.split("\n\n") if part.strip()]
    chosen = np.random.default_rng(seed).permutation(len(sentences))[:N]
    rows = [[line.split() for line in sentences[i]] for i in chosen]
    counts = [Counter(word[1] for word in row) for row in rows]
    kinds = [{word[2][2:] for word in row if word[2] != "O"} for row in rows]
    parts_of_speech = sorted(set().union(*counts))
    often = [kind for kind, n in Counter(k for own in kinds for k in own).items() if n >= 30]
    X = np.array([[count[name] for name in parts_of_speech] for count in counts], dtype=float)
    return scale(X), np.array([[kind in own for kind in sorted(often)] for own in kinds], dtype=int)


def newsgroups(seed):
    folder = data_folder() / "news20_ng"
    X = scipy.sparse.load_npz(folder / "uni_train_X.npz").tocsr()
    with np.load(folder / "uni_labels.npz") as labels:
        y = labels["train"]
    X = X[:, np.sort(np.argsort(-X.getnnz(axis=0), kind="stable")[:1000])]
    first, second = np.random.default_rng(seed).integers(0, len(y), size=(2, N))
    return normalize(X[first] + X[second]).tocsr(), both(y[first], y[second], 20)


def both(first, second, n_labels):
    """Return a row of labels for each pair, with one or two of them."""
    return np.eye(n_labels, dtype=int)[first] | np.eye(n_labels, dtype=int)[second]


def without_rare(X, Y):
    """Leave out labels that fewer than ten examples of the training part have, or have not."""
    often = Y[: PARTS[0]].sum(axis=0)
    return X, Y[:, (often >= 10) & (often <= PARTS[0] - 10)]


SETS = {
    "sparse": partial(generated, 1),
    "medium": partial(generated, 3),
    "dense": partial(generated, 6),
    "two digits": two_digits,
    "segments": segments,
    "chunks": chunks,
    "newsgroups": newsgroups,
}


def measure(way, X, Y):
    """Return each measure on the test part, at the lam that has the best on the validation part."""
    train, middle = PARTS[0], PARTS[0] + PARTS[1]
    seen, validation, test = slice(train), slice(train, middle), slice(middle, None)
    models = [cp.MultilabelClassifier(way, lam=lam).fit(X[seen], Y[seen]) for lam in LAMS]
    found = []
    for sign, function in MEASURES.values():
        values = [
            sign * function(Y[validation], one.decision_function(X[validation])) for one in models
        ]
        best = models[int(np.argmax(values))]
        found.append(function(Y[test], best.decision_function(X[test])))
    return found


def main():
    parser = argparse.ArgumentParser(description="Ways to predict several labels.")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    print(f"{'':<12}{'labels':>7}  {'way':<12}" + "".join(f"{name:>14}" for name in MEASURES))
    for name in options.sets:
        try:
            data = [without_rare(*SETS[name](seed)) for seed in range(options.seeds)]
        except DataError as error:
            print(f"{name:<12}{error}")
            continue
        for way in WAYS:
            means = np.mean([measure(way, X, Y) for X, Y in data], axis=0)
            labels = np.mean([Y.sum(axis=1).mean() for _, Y in data])
            cells = "".join(f"{value:>14.4f}" for value in means)
            print(f"{name:<12}{labels:>7.2f}  {way:<12}{cells}", flush=True)


if __name__ == "__main__":
    try:
        main()
    except FileNotFoundError as error:
        sys.exit(f"multilabel.py: not in CUTPLANE_DATA: no file {error.filename}.")
