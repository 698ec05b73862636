"""Small labeled sequences, and their losses by enumeration of all labels: no dynamic program."""

from itertools import pairwise, product

import numpy as np
import scipy.sparse

LAYOUTS = {
    "C": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "CSR": scipy.sparse.csr_array,
}


def score(S, T, start, end, labels):
    """The score of one sequence of labels, by its definition."""
    if len(labels) == 0:
        return 0.0
    total = start[labels[0]] + end[labels[-1]]
    total += sum(S[t, label] for t, label in enumerate(labels))
    return total + sum(T[a, b] for a, b in pairwise(labels))


def all_labels(n_labels, length):
    return [np.array(labels, dtype=int) for labels in product(range(n_labels), repeat=length)]


def features(x, labels, n_labels, *, ends):
    """The joint feature vector, in the order of the risk's parameters."""
    U, T, bounds = np.zeros((n_labels, x.shape[1])), np.zeros((n_labels, n_labels)), []
    for t, label in enumerate(labels):
        U[label] += x[t]
        if t:
            T[labels[t - 1], label] += 1.0
    if ends:
        bounds = np.zeros((2, n_labels))
        if len(labels):
            bounds[0, labels[0]] = bounds[1, labels[-1]] = 1.0
    return np.concatenate([U.ravel(), T.ravel(), np.ravel(bounds)])


class Sample:
    """Random sequences, short enough for all labels to be listed; one of them is empty."""

    def __init__(self, seed, *, layout="C", dtype=np.float64, ends=False, weighted=True, most=4):
        rng = self.rng = np.random.default_rng(seed)
        self.n_labels, d = int(rng.integers(1, 4)), int(rng.integers(1, 4))
        lengths = rng.integers(0, most + 1, size=int(rng.integers(2, 7)))
        lengths[0] = max(lengths[0], 1)
        self.offsets = np.concatenate([[0], np.cumsum(lengths)])
        n = int(self.offsets[-1])
        X = rng.normal(size=(n, d)).round(1) * (rng.random((n, d)) < 0.8)
        self.dense = X.astype(dtype).astype(np.float64)
        self.X = LAYOUTS[layout](X.astype(dtype))
        self.y = rng.integers(0, self.n_labels, n)
        self.ends = ends
        self.weights = rng.uniform(0.1, 3.0, len(lengths)) if weighted else np.ones(len(lengths))
        if weighted and len(lengths) > 2:
            self.weights[-1] = 0.0
        self.p = self.weights / self.weights.sum()
        self.n_parameters = self.n_labels * (d + self.n_labels + 2 * ends)

    def arguments(self):
        options = {"n_labels": self.n_labels, "ends": self.ends, "weights": self.weights}
        return (self.X, self.y, self.offsets), options

    def sequences(self):
        for i, j in zip(self.offsets[:-1], self.offsets[1:], strict=True):
            yield self.dense[i:j], self.y[i:j]

    def lines(self, x, y):
        """For all labels: mistakes, and the difference of features to those of y."""
        listed = all_labels(self.n_labels, len(y))
        own = features(x, y, self.n_labels, ends=self.ends)
        differences = [features(x, one, self.n_labels, ends=self.ends) - own for one in listed]
        return np.array([np.sum(one != y) for one in listed]), np.array(differences)

    def margin(self, w):
        """The margin risk by enumeration."""
        pairs = (self.lines(x, y) for x, y in self.sequences())
        return self.p @ [np.max(mistakes + differences @ w) for mistakes, differences in pairs]

    def crf(self, w):
        """The risk of a conditional random field by enumeration."""
        pairs = (self.lines(x, y) for x, y in self.sequences())
        return self.p @ [np.logaddexp.reduce(differences @ w) for _, differences in pairs]

    def somewhere(self, scale=1.0):
        return scale * self.rng.normal(size=self.n_parameters)
