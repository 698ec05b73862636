"""What a proven choice of lam costs beside ordinary cross-validation, in turns, on one thread.

    CUTPLANE_DATA=folder python benchmarks/proven_lam.py [--data a9a] [--loss hinge logistic]

Processor seconds of `LinearClassifierCV` with 5 folds and 20 lams, without a proof and with one to
half a point (``certified=0.005``), and their ratio, turn by turn; the target is 5. Kernels are
compiled before.
"""

import argparse
import time

import datasets
from timing import machine_load

import cutplane as cp


def seconds_of_fit(model, X, y):
    begin = time.process_time()
    model.fit(X, y)
    return time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="a9a")
    parser.add_argument("--loss", nargs="+", default=["hinge", "logistic"])
    parser.add_argument("--certified", type=float, default=0.005)
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    X, y = datasets.load(options.data)
    print(f"{options.data}: {len(y):,} rows, load {machine_load()}")
    print(f"{'loss':<12}{'ordinary':>10}{'proven':>10}{'ratio':>8}{'lams':>6}  what is proven")
    for loss in options.loss:
        ordinary = cp.LinearClassifierCV(loss, cv=5, n_jobs=1)
        proven = cp.LinearClassifierCV(loss, cv=5, n_jobs=1, certified=options.certified)
        few = slice(0, 2000)
        for model in (ordinary, proven):
            model.fit(X[few], y[few])  # compiles
        for _ in range(options.turns):
            plain, seconds = (seconds_of_fit(model, X, y) for model in (ordinary, proven))
            proof = proven.lam_proof_
            enough = "enough" if proof.success else "not enough"
            print(
                f"{loss:<12}{plain:>10.2f}{seconds:>10.2f}{seconds / plain:>8.2f}"
                f"{len(proven.lams_):>6}  {proof.proven:.4f}, {enough}",
                flush=True,
            )


if __name__ == "__main__":
    main()
