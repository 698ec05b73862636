"""Quantile regression: seconds beside scikit-learn's linear program, and growth with the data.

Run as ``CUTPLANE_DATA=FOLDER python benchmarks/regression.py``. Features and target are
standardised. scikit-learn's `QuantileRegressor` minimises the pinball loss without a penalty
(alpha = 0), which gives the exact optimum; ours has ``lam = 1e-6`` and is timed until its own
pinball loss is within 1e-3 and 1e-4 of that. The second table fits generated data of 20 features in
float32 at two sizes in fresh processes, with the memory they took beyond the data. The whole run
takes eight minutes, nearly all of them for the linear programs.
"""

import json
import subprocess
import sys
from functools import partial

import pandas
from datasets import DataError, data_folder
from sklearn.linear_model import QuantileRegressor
from sklearn.metrics import mean_pinball_loss
from sklearn.preprocessing import scale
from timing import best_of_few, describe_machine, stopwatch

import cutplane as cp

QUANTILES = (0.1, 0.5, 0.9)
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


def load(name):
    frame = pandas.read_csv(data_folder() / "regression" / f"{name}.csv.gz")
    if name == "CASP":
        target = frame.pop("RMSD")
    else:
        frame = frame.drop(columns="rownames")
        target = frame.pop("wage")
    return scale(pandas.get_dummies(frame, drop_first=True).astype(float)), scale(target)


def time_to(X, y, quantile, optimum, target):
    """Return seconds and iterations of our fastest setting within the target, or None."""
    for tol in TOLERANCES:
        model = cp.LinearRegressor("quantile", quantile=quantile, lam=1e-6, tol=tol)
        seconds, model = best_of_few(partial(model.fit, X, y))
        loss = mean_pinball_loss(y, model.predict(X), alpha=quantile)
        if loss <= optimum * (1.0 + target):
            return seconds, model.n_iter_
    return None


def compare():
    print(
        f"{'data':>10}{'quantile':>10}{'highs':>10}{'target':>10}{'cutplane':>10}{'ratio':>8}{'iter':>6}"
    )
    for name in ("CASP", "CPS1988"):
        X, y = load(name)
        for quantile in QUANTILES:
            peer = QuantileRegressor(quantile=quantile, alpha=0.0, solver="highs")
            theirs, peer = stopwatch(partial(peer.fit, X, y))
            optimum = mean_pinball_loss(y, peer.predict(X), alpha=quantile)
            for target in TARGETS:
                found = time_to(X, y, quantile, optimum, target)
                ours = ("-", "-", "-")
                if found is not None:
                    ours = (f"{found[0]:.3f}", f"{theirs / found[0]:.0f}", f"{found[1]}")
                print(
                    f"{name:>10}{quantile:>10}{theirs:>10.2f}{target:>10.0e}"
                    f"{ours[0]:>10}{ours[1]:>8}{ours[2]:>6}",
                    flush=True,
                )


def grow():
    titles = ("examples", "seconds", "iter", "ms/iter", "gap", "extra memory / X")
    widths = (10, 10, 6, 9, 10, 18)
    print("\n" + "".join(f"{title:>{width}}" for title, width in zip(titles, widths, strict=True)))
    for m in SIZES:
        command = [sys.executable, "-c", GROWTH, str(m)]
        run = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
        each = 1e3 * run["seconds"] / run["iterations"]
        print(
            f"{m:>10,}{run['seconds']:>10.2f}{run['iterations']:>6}{each:>9.1f}"
            f"{run['gap']:>10.1e}{run['extra']:>18.2f}",
            flush=True,
        )


if __name__ == "__main__":
    try:
        data_folder()
        for what, value in describe_machine().items():
            print(f"{what + ':':<10}{value}")
        print()
        compare()
        grow()
    except DataError as error:
        sys.exit(f"regression.py: {error}")
