"""RNA folding: how well learned weights fold families they have not seen, and how time grows.

Run as ``CUTPLANE_DATA=FOLDER python benchmarks/rna.py``. Two tables:

quality
    The 151 sequences of ``rna_rfam151``, each of another family, in five random parts. Weights are
    learned on four parts, with planes carried over from one ``lam`` to the next, and tried on the
    fifth. Sensitivity, PPV and F1 are means over all sequences, each folded once while it was held
    out. Beside it: Nussinov's structure with the most pairs, the same with weights 2, 3 and 1 for
    AU, CG and GU, and the ViennaRNA package (optional: ``pip install ViennaRNA``), whose parameters
    were measured in the laboratory and are not learned from these data.
growth
    Seconds to fold a random sequence, for three lengths.
"""

import argparse
import sys
import time

import numpy as np
from datasets import DataError, data_folder
from timing import describe_machine, machine_load

import cutplane as cp
from cutplane.io import InputError
from cutplane.models.rna.model import read_structures

MODEL = cp.RNAFolding()
LENGTHS = (500, 1000, 2000)
REPEATS = 3


def pair_weights(au, cg, gu):
    w = np.zeros(MODEL.n_parameters)
    w[MODEL.places["pair"]] = au, cg, gu
    return w


def print_row(*cells):
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def print_quality(name, counts, *rest):
    means = [np.mean([getattr(one, key) for one in counts]) for key in ("sensitivity", "ppv", "f1")]
    print_row(name, *(f"{mean:.3f}" for mean in means), *(rest or ["", "", ""]))


def folded(items, fold):
    return [cp.PairCounts.of(item.structure, fold(item.sequence)) for item in items]


def train(items, lams, tol):
    """Yield lam, the result, and the seconds it took, each run with the planes of the last."""
    X, Y = [item.sequence for item in items], [item.structure for item in items]
    risk, earlier = cp.StructuredRisk(MODEL, X, Y), None
    for lam in lams:
        result = cp.minimize(
            risk,
            cp.L2(lam),
            method=cp.bmrm(groups="auto"),
            tol=tol,
            planes_from=earlier,
        )
        earlier = result.state
        yield lam, result


def quality(items, lams, n_folds, tol):
    print_row("weights", "sensitivity", "PPV", "F1", "evaluations", "seconds", "largest gap")
    print_row(*["---"] * 7)
    for name, weights in (("Nussinov", (1, 1, 1)), ("Nussinov, weighted", (2, 3, 1))):
        w = pair_weights(*weights)
        print_quality(name, folded(items, lambda x, w=w: MODEL.inference(x, w)))
    try:
        import RNA
    except ImportError:
        pass
    else:
        print_quality(f"ViennaRNA {RNA.__version__}", folded(items, lambda x: RNA.fold(x)[0]))
    part_of = np.random.default_rng(0).permutation(len(items)) % n_folds
    counts, results = {lam: [] for lam in lams}, {lam: [] for lam in lams}
    for part in range(n_folds):
        inside = [item for item, its in zip(items, part_of, strict=True) if its != part]
        outside = [item for item, its in zip(items, part_of, strict=True) if its == part]
        for lam, result in train(inside, lams, tol):
            results[lam].append(result)
            counts[lam] += folded(outside, lambda x, w=result.w: MODEL.inference(x, w))
    for lam in lams:
        runs = results[lam]
        print_quality(
            f"learned, lam = {lam:g}",
            counts[lam],
            f"{np.mean([run.evaluations for run in runs]):.0f}",
            f"{np.mean([run.seconds for run in runs]):.0f}",
            f"{max(run.certificate.relative_gap for run in runs):.1e}",
        )


def growth():
    rng = np.random.default_rng(0)
    w = rng.normal(size=MODEL.n_parameters)
    print_row("bases", "CPU seconds", "times the last")
    print_row(*["---"] * 3)
    last = None
    for n in LENGTHS:
        x = "".join(rng.choice(list("ACGU"), n))
        seconds = []
        for _ in range(REPEATS):
            begin = time.process_time()
            MODEL.inference(x, w)
            seconds.append(time.process_time() - begin)
        best = min(seconds)
        print_row(n, f"{best:.3f}", f"{best / last:.1f}" if last else "")
        last = best


def main():
    parser = argparse.ArgumentParser(description="RNA folding")
    parser.add_argument("--lams", type=float, nargs="+", default=[0.1, 0.01])
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--tol", type=float, default=0.02, help="relative gap to be certified")
    parser.add_argument("--tables", nargs="+", default=["quality", "growth"])
    options = parser.parse_args()
    items = read_structures(data_folder() / "rna_rfam151" / "rfam151.dbn")
    for name, value in describe_machine().items():
        print(f"{name}: {value}")
    if "quality" in options.tables:
        print()
        quality(items, options.lams, options.folds, options.tol)
    if "growth" in options.tables:
        print()
        growth()
    print(f"\nload after: {machine_load()}")


if __name__ == "__main__":
    try:
        main()
    except (DataError, InputError) as error:
        sys.exit(f"rna.py: {error}")
