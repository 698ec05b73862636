"""Quantile and absolute regression: seconds beside a linear program and rehline, and growth.

Run as ``CUTPLANE_DATA=FOLDER python benchmarks/regression.py``. Features and target are
standardized. Three tables:

highs
    scikit-learn's `QuantileRegressor` minimizes the pinball loss without a penalty (alpha = 0) by
    HiGHS, which gives the exact optimum; ours has ``lam = 1e-6`` and is timed until its own loss is
    within 1e-3 and 1e-4 of that. The absolute loss is twice the pinball loss of the median, so one
    linear program serves both.
rehline
    `rehline` (optional: ``pip install rehline``) minimizes ``|w|^2 / 2 + C * sum of losses``, with
    ``C = 1 / (lam m)`` our objective divided by lam. It has no intercept, so both get a column of
    ones and none besides. Both are timed until the objective, evaluated here, is within 1e-3 and
    1e-4 of a lower bound that is proven to 1e-6; rehline stops after 10,000 iterations.
growth
    Generated data of 20 features in float32 at two sizes in fresh processes, with the memory they
    took beyond the data.

The whole run takes ten minutes, most of them for the linear programs: ``--rows 5000`` takes
so many examples of each data set, ``--tables rehline growth`` leaves them out.
"""

import argparse
import json
import subprocess
import sys
import warnings
from functools import partial
from itertools import product

import numpy as np
import pandas
from datasets import DataError, data_folder
from sklearn.linear_model import QuantileRegressor
from sklearn.metrics import mean_pinball_loss
from sklearn.preprocessing import scale
from timing import best_of_few, describe_machine, machine_load, stopwatch

import cutplane as cp

DATA = ("CASP", "CPS1988")
# A loss by its name, our parameters, the quantile whose pinball loss it is, and how many times it.
LOSSES = {
    "quantile 0.1": ({"loss": "quantile", "quantile": 0.1}, 0.1, 1.0),
    "quantile 0.5": ({"loss": "quantile", "quantile": 0.5}, 0.5, 1.0),
    "absolute": ({"loss": "absolute"}, 0.5, 2.0),
    "quantile 0.9": ({"loss": "quantile", "quantile": 0.9}, 0.9, 1.0),
}
LAMS = (1e-4, 1e-5)  # rehline takes up to a minute for 1e-6
TARGETS = (1e-3, 1e-4)
TOLERANCES = (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5)
SIZES = (300_000, 3_000_000)

GROWTH = """
import json, resource, sys, time
import numpy as np
import cutplane as cp
m = int(sys.argv[1])
rng = np.random.default_rng(0)
X = np.empty((m, 20), dtype=np.float32)
for block in np.array_split(X, 20):
    block[:] = rng.standard_normal(block.shape, dtype=np.float32)
y = X @ rng.standard_normal(20, dtype=np.float32) + rng.standard_exponential(m, dtype=np.float32)
cp.LinearRegressor("quantile", quantile=0.9, lam=1e-6).fit(X[:1000], y[:1000])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
begin = time.perf_counter()
model = cp.LinearRegressor("quantile", quantile=0.9, lam=1e-6).fit(X, y)
seconds = time.perf_counter() - begin
extra = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(json.dumps({"seconds": seconds, "iterations": model.n_iter_, "extra": extra * 1024 / X.nbytes,
                  "gap": model.certificate_.relative_gap}))
"""


def load(name, rows=None):
    frame = pandas.read_csv(data_folder() / "regression" / f"{name}.csv.gz")
    if rows is not None and rows < len(frame):
        frame = frame.sample(rows, random_state=0)
    if name == "CASP":
        target = frame.pop("RMSD")
    else:
        frame = frame.drop(columns="rownames")
        target = frame.pop("wage")
    return scale(pandas.get_dummies(frame, drop_first=True).astype(float)), scale(target)


def first_within(fit, loss_of, bound):
    """Return seconds and model of the first tolerance for which the loss is within the bound."""
    for tol in TOLERANCES:
        seconds, model = best_of_few(partial(fit, tol))
        if loss_of(model) <= bound:
            return seconds, model
    return None


def print_row(*columns):
    widths = (10, 14, 8, 10, 10, 10, 8, 6)
    print("".join(f"{column:>{width}}" for column, width in zip(columns, widths, strict=True)))
    sys.stdout.flush()


def beside_highs(rows):
    print_row("data", "loss", "lam", "target", "highs", "cutplane", "ratio", "iter")
    for name in DATA:
        X, y = load(name, rows)
        optima = {}
        for loss, (_, quantile, _) in LOSSES.items():
            if quantile not in optima:
                peer = QuantileRegressor(quantile=quantile, alpha=0.0, solver="highs")
                seconds, peer = stopwatch(partial(peer.fit, X, y))
                optima[quantile] = seconds, mean_pinball_loss(y, peer.predict(X), alpha=quantile)
            compare_with_optimum(name, loss, X, y, *optima[quantile])


def compare_with_optimum(name, loss, X, y, theirs, optimum):
    """Print how long we take to come near the optimal pinball loss, which took ``theirs``."""
    parameters, quantile, times = LOSSES[loss]
    lam = 1e-6

    def fit(tol):
        return cp.LinearRegressor(**parameters, lam=lam, tol=tol).fit(X, y)

    def loss_of(model):
        return times * mean_pinball_loss(y, model.predict(X), alpha=quantile)

    for target in TARGETS:
        ours = first_within(fit, loss_of, times * optimum * (1.0 + target))
        print_comparison(name, loss, lam, target, (theirs, None), ours)


def beside_rehline(rows):
    try:
        import rehline
    except ImportError:
        print("rehline is not installed")
        return
    print_row("data", "loss", "lam", "target", "rehline", "cutplane", "ratio", "iter")
    for name in DATA:
        X, y = load(name, rows)
        X = np.column_stack([X, np.ones(len(y))])
        for loss, lam in product(LOSSES, LAMS):
            compare_with_rehline(name, loss, lam, X, y, rehline.plqERM_Ridge)


def compare_with_rehline(name, loss, lam, X, y, peer):
    """Print how long both take to come near the same optimum."""
    parameters, quantile, times = LOSSES[loss]

    def fit(tol):
        model = cp.LinearRegressor(**parameters, lam=lam, fit_intercept=False, tol=tol)
        return model.fit(X, y)

    def fit_peer(tol):
        model = peer(
            loss={"name": "QR", "qt": quantile},
            C=times / (lam * len(y)),
            tol=tol,
            max_iter=10_000,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # not converged: the objective tells
            return model.fit(X=X, y=y)

    def objective(model):
        pinball = mean_pinball_loss(y, X @ model.coef_, alpha=quantile)
        return 0.5 * lam * model.coef_ @ model.coef_ + times * pinball

    lower = fit(1e-6).certificate_.lower_bound
    for target in TARGETS:
        bound = lower * (1.0 + target)
        theirs = first_within(fit_peer, objective, bound)
        print_comparison(name, loss, lam, target, theirs, first_within(fit, objective, bound))


def print_comparison(name, loss, lam, target, theirs, ours):
    """Print a row of seconds and their ratio; None is a target that was not reached."""
    print_row(
        name,
        loss,
        f"{lam:.0e}",
        f"{target:.0e}",
        "-" if theirs is None else f"{theirs[0]:.3f}",
        "-" if ours is None else f"{ours[0]:.3f}",
        "-" if theirs is None or ours is None else f"{theirs[0] / ours[0]:.1f}",
        "-" if ours is None else ours[1].n_iter_,
    )


def grow(_rows):
    titles = ("examples", "seconds", "iter", "ms/iter", "gap", "extra memory / X")
    widths = (10, 10, 6, 9, 10, 18)
    print("".join(f"{title:>{width}}" for title, width in zip(titles, widths, strict=True)))
    for m in SIZES:
        command = [sys.executable, "-c", GROWTH, str(m)]
        run = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
        each = 1e3 * run["seconds"] / run["iterations"]
        print(
            f"{m:>10,}{run['seconds']:>10.2f}{run['iterations']:>6}{each:>9.1f}"
            f"{run['gap']:>10.1e}{run['extra']:>18.2f}",
            flush=True,
        )


TABLES = {"highs": beside_highs, "rehline": beside_rehline, "growth": grow}


def main():
    parser = argparse.ArgumentParser(description="Quantile and absolute regression.")
    parser.add_argument("--rows", type=int, help="examples of each data set; all by default")
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    options = parser.parse_args()
    data_folder()
    for what, value in describe_machine().items():
        print(f"{what + ':':<10}{value}")
    for table in options.tables:
        print(f"\n{table}")
        TABLES[table](options.rows)
    print(f"\nload: {machine_load()}")


if __name__ == "__main__":
    try:
        main()
    except DataError as error:
        sys.exit(f"regression.py: {error}")
