"""Stochastic passes and planes, alone and mixed, by what they read of the data.

    CUTPLANE_DATA=... python benchmarks/mixtures.py [NAME ...]

For linear risks (hinge loss, no intercept) products with the data are counted, of which a pass of
steps is one: relative gaps after some numbers of them, and how many it takes to reach some gaps.
For chains (the margin of handwritten words) inferences per word are counted: objective and
relative gap. Everything here is counted, so that other work on the machine changes nothing.
"""

import sys

import cutplane as cp
from cutplane.papers.experiment import load_words
from cutplane.papers.online import load_task

LINEAR = {
    "covtype": ("covtype", 1e-6),
    "ijcnn1": ("ijcnn1", 1e-6),
    "a9a": ("a9a", 1e-4),
    "reuters_lasvm": ("rcv1 (Reuters)", 1e-4),
    "mnist": ("mnist", 1e-5),
}
WORDS = {
    "words-1000": (1000, 1e-3),
    "words": (5512, 1e-3),
    "words-small-lam": (5512, 1e-4),
}
AFTER = {"products": (50, 200), "inferences": (25, 100)}
TOLERANCE = 1e-7  # below what is printed
GAPS = (0.1, 0.01, 0.001)


# The passes that come first, and what follows.
MIXTURES = {
    "optimistic": (0, cp.optimistic),
    "bmrm": (0, cp.bmrm),
    "2 passes first": (2, cp.bmrm),
    "5 passes first": (5, cp.bmrm),
    "10 passes first": (10, cp.bmrm),
}


class Products:
    """Counts products with the rows of a risk: scores, slopes pulled back, and passes of steps."""

    def __init__(self, rows):
        self.n = 0
        rows.scores, rows.pullback = map(self._counted, (rows.scores, rows.pullback))

    def _counted(self, product):
        def counting(vector):
            self.n += 1
            return product(vector)

        return counting

    def __call__(self, state):
        """Return how many there were so far, after an iteration."""
        self.n += state.method.name == "optimistic"  # by a pass
        return self.n


def inferences(state):
    """Return how many inferences there were for each word."""
    return state.problem.risk.inferences / state.problem.risk.n_examples


def linear(name):
    """Return a risk, its lam, and what counts its costs."""
    task, lam = LINEAR[name]
    data = load_task(task)
    rows = cp.as_rows(data.X)
    return cp.ScoredRisk(rows, data.y, cp.Hinge(), intercept=False), lam, Products(rows)


def words(name):
    """Return a risk, its lam, and what counts its costs."""
    n, lam = WORDS[name]
    train = load_words()[0]
    end = train.offsets[n]
    risk = cp.ChainRisk(train.X[:end], train.y[:end], train.offsets[: n + 1], cp.ChainMargin())
    return risk, lam, inferences


def curve(make, name, mixture, most):
    """Return costs, objective and relative gap after each iteration, until costs are ``most``."""
    risk, lam, costs = make(name)
    found = []

    def note(state):
        found.append((costs(state), state.objective, state.relative_gap))
        return found[-1][0] >= most

    passes, method = MIXTURES[mixture]
    first = None
    if passes:
        first = cp.minimize(
            risk,
            cp.L2(lam),
            method=cp.optimistic(),
            tol=TOLERANCE,
            max_iter=passes,
            callbacks=[note],
        ).state
    cp.minimize(
        risk, cp.L2(lam), method=method(), tol=TOLERANCE, max_iter=None, callbacks=[note],
        planes_from=first,
    )  # fmt: skip
    return found


def at(found, cost):
    """Return the objective and the gap when no more than ``cost`` was spent."""
    *_, last = [line for line in found if line[0] <= cost] or [found[0]]
    return last[1:]


def main():
    """Print a line for each task and mixture."""
    chosen = sys.argv[1:] or [*LINEAR, *WORDS]
    if unknown := [name for name in chosen if name not in {**LINEAR, **WORDS}]:
        sys.exit(f"mixtures.py: unknown: {', '.join(unknown)}; known: {', '.join(LINEAR | WORDS)}")
    for name in chosen:
        unit, make = ("products", linear) if name in LINEAR else ("inferences", words)
        for mixture in MIXTURES:
            found = curve(make, name, mixture, AFTER[unit][-1])
            after = [
                f"after {cost}: {objective:.4g}, {100 * gap:.2g} %"
                for cost in AFTER[unit]
                for objective, gap in [at(found, cost)]
            ]
            needed = [next((cost for cost, _, gap in found if gap <= goal), None) for goal in GAPS]
            to = ", ".join("-" if cost is None else f"{cost:.0f}" for cost in needed)
            print(f"{name:16} {mixture:16} {'; '.join(after)}; {unit} to {GAPS}: {to}", flush=True)


if __name__ == "__main__":
    main()
