"""Passes of stochastic methods beside those of scikit-learn's SGDClassifier, on one thread.

    CUTPLANE_DATA=... python benchmarks/online.py

Processor time of a pass over shuffled examples, hinge loss without an intercept, best of several
measured in turns. An epoch of scikit-learn is the difference between fits of many epochs and of
one, by their number. The certificate of a pass costs two products with the data more, which the
last column includes.
"""

import time
import warnings

import numpy as np
from sklearn.linear_model import SGDClassifier

import cutplane as cp
from cutplane.core.state import Problem
from cutplane.papers.online import load_task
from cutplane.solvers.stochastic import Rule
from cutplane.solvers.stochastic.passes import CompiledSteps, Settings

REPEATS = 7
TASKS = {"a9a": 4, "rcv1 (Reuters)": 10, "real-sim (20 Newsgroups)": 5}  # passes at a time
LAM = 1e-4


def seconds(work):
    """Return the processor time that something takes."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def epoch_of_scikit_learn(X, y, n):
    """Return the time of an epoch, from fits of n + 1 epochs and of one."""
    times = []
    for epochs in (n + 1, 1):
        model = SGDClassifier(alpha=LAM, fit_intercept=False, max_iter=epochs, tol=None)
        times.append(seconds(lambda model=model: model.fit(X, y)))
    return (times[0] - times[1]) / n


def main():
    """Print a line for each task and rule."""
    print(f"{'data':26} {'rule':11} {'sklearn':>9} {'pass':>9} {'ratio':>6} {'certified':>9}")
    for name, n in TASKS.items():
        task = load_task(name)
        risk = cp.ScoredRisk(cp.as_rows(task.X, n_threads=1), task.y, cp.Hinge(), intercept=False)
        problem = Problem(risk, cp.L2(LAM))
        theirs, ours, checks = [], {rule: [] for rule in Rule}, []
        walks = {}
        for rule in Rule:
            passes = CompiledSteps(problem, Settings(rule))
            walks[rule] = passes, passes.initial()
            for _ in range(5):
                passes.steps(walks[rule][1])
        for _ in range(REPEATS):
            theirs.append(epoch_of_scikit_learn(task.X, task.y, n))
            for rule, (passes, walk) in walks.items():
                ours[rule].append(
                    seconds(lambda p=passes, w=walk, n=n: [p.steps(w) for _ in range(n)]) / n
                )
            passes, walk = walks[Rule.PEGASOS]
            checks.append(seconds(lambda p=passes, w=walk, r=risk: (p.plane(w), r.at(w.w))))
        for rule in Rule:
            epoch, own = np.median(theirs), np.median(ours[rule])
            whole = own + np.median(checks)
            print(
                f"{name:26} {rule.name.lower():11} {1e3 * epoch:6.2f} ms {1e3 * own:6.2f} ms "
                f"{own / epoch:6.2f} {whole / epoch:9.2f}"
            )


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one epoch does not converge, and need not
        main()
