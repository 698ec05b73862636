"""Labeled sequences for the tests of the tagger."""

import numpy as np


class Sequences:
    """Sequences whose labels depend on the token and on the label before."""

    def __init__(self, n_sequences=60, seed=0):
        rng = np.random.default_rng(seed)
        self.X, self.y = [], []
        for length in rng.integers(1, 9, n_sequences):
            labels = [int(rng.integers(3))]
            for _ in range(1, length):
                labels.append((labels[-1] + int(rng.random() < 0.8)) % 3)
            X = np.eye(3)[labels] + 0.5 * rng.normal(size=(length, 3))
            self.X.append(X)
            self.y.append(np.array(["red", "green", "blue"])[labels])
        self.lengths = [len(labels) for labels in self.y]
