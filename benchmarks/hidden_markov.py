"""An evaluation of the margin risk of hidden Markov models beside one matrix product.

    CUTPLANE_DATA=/path/to/data python benchmarks/hidden_markov.py

The logarithms of all Gaussian densities at all frames are a product of the frames and their squares
with a matrix: whatever an evaluation does, it needs these numbers. Here it also finds the best path
of each class, and slopes. 6,600 utterances of Spoken Arabic Digits, 10 classes of 5 states of 4
Gaussians, float64. The least processor time of several turns, on one thread each.
"""

import time

import numpy as np
from threadpoolctl import threadpool_limits
from timing import describe_machine

import cutplane as cp
from cutplane.models.speech.estimation import Likelihood
from cutplane.models.speech.paths import fill_best
from cutplane.papers.hmm import load_digits

TURNS = 7


def main() -> None:
    train, _ = load_digits()
    hmms = cp.GaussianHMMs(10, 5, 4, 13)
    w, _ = Likelihood(n_iterations=2).fit(hmms, *train, np.ones(len(train.y)))
    tables = hmms.tables(w).gaussians
    frames = train.frames
    linear = np.concatenate([tables.means * tables.scales**2, -0.5 * tables.scales**2])
    constants = tables.constants - 0.5 * ((tables.means * tables.scales) ** 2).sum(axis=0)

    # The constants are a column of their own, so that all is one product.
    wide = np.concatenate([frames, frames**2, np.ones((len(frames), 1))], axis=1)
    matrix = np.concatenate([linear, constants[None, :]])
    risk = cp.HMMRisk(hmms, *train, margin=50.0, n_threads=1)
    expected = wide[:1000] @ matrix
    found = np.empty_like(expected)
    fill_best(frames, 0, 1000, tables, expected.shape[1], found)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    tasks = {"densities by one product": lambda: wide @ matrix, "evaluation": lambda: risk.at(w)}
    least = dict.fromkeys(tasks, np.inf)
    for turn in range(TURNS):
        for name, task in tasks.items():
            with threadpool_limits(1):
                begin = time.process_time()
                task()
                seconds = time.process_time() - begin
            if turn:  # the first may compile
                least[name] = min(least[name], seconds)
    for name, seconds in least.items():
        print(f"{name:<28}{1e3 * seconds:8.0f} ms")
    first, second = least.values()
    print(f"{'ratio':<28}{second / first:8.2f}")
    for name, value in describe_machine().items():
        print(f"{name}: {value}")


if __name__ == "__main__":
    main()
