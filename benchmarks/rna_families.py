"""RNA folding of families that were not learned from, with their real structures.

Run as ``CUTPLANE_DATA=FOLDER python benchmarks/rna_families.py``. The data set
``rna_rfam_consensus`` has 1,061 sequences of 21 families with the consensus structures of Rfam. The
families are put into four parts by a seeded generator. Each part is tested once: weights are
learned from two of the others, and ``lam`` is chosen on the third. So no family is in two of
training, validation and test. Sensitivity, PPV and F1 are means over sequences, and F1 also over
families, which differ in size (2 to 181 sequences).

Weights are learned around those of the nearest-neighbor model, times 3, from at most 8 sequences a
family, with up to 400 bases. Training sequences that the nearest-neighbor weights fold with an F1
below 0.6 are left out: a hinge loss never gives such an example up, and it then outweighs others.
A loss counts by the inverse number of true pairs. One choice of ``lam`` is infinity, the
nearest-neighbor weights as they are.

Beside it: the nearest-neighbor weights, and the ViennaRNA package (optional: ``pip install
ViennaRNA``).
"""

import sys
import time

import numpy as np
from datasets import DataError, data_folder

import cutplane as cp
from cutplane.io import InputError
from cutplane.io.rna import read_structures

MODEL = cp.RNAFolding()
NEAREST = MODEL.nearest_neighbor_weights()
N_PARTS, LONGEST = 4, 400
EACH, LEAST_F1, SCALE = 8, 0.6, 3.0
LAMS = (np.inf, 10.0, 1.0, 0.1)
VALIDATED = 12  # sequences of a family


def f1_of(item, w):
    return cp.PairCounts.of(item.structure, MODEL.inference(item.sequence, w)).f1


def path(items):
    """Yield lam and weights."""
    yield np.inf, NEAREST
    counted = np.array([1.0 / item.structure.count("(") for item in items])
    risk = cp.StructuredRisk(
        MODEL, [i.sequence for i in items], [i.structure for i in items], weights=counted
    )
    known = {"start": SCALE * NEAREST}
    for lam in LAMS[1:]:
        result = cp.minimize(
            risk,
            cp.L2(lam, center=SCALE * NEAREST),
            method=cp.bmrm(groups="auto"),
            tol=0.02,
            **known,
        )
        known = {"planes_from": result.state}
        yield lam, result.w


def learned(families):
    """Return the structure of each sequence, and print what was chosen."""
    names = sorted(families)
    part_of = dict(
        zip(names, np.random.default_rng(1).permutation(len(names)) % N_PARTS, strict=True)
    )
    said = {}
    for part in range(N_PARTS):
        tested = [name for name in names if part_of[name] == part]
        validated = [name for name in names if part_of[name] == (part + 1) % N_PARTS]
        items = []
        for name in set(names) - set(tested) - set(validated):
            usable = [i for i in families[name] if "(" in i.structure]
            good = [i for i in usable if f1_of(i, NEAREST) >= LEAST_F1]
            items += good[:EACH]
        items.sort(key=lambda item: item.name)
        best = (-1.0, None, None)
        for lam, w in path(items):
            means = [np.mean([f1_of(i, w) for i in families[f][:VALIDATED]]) for f in validated]
            best = max(best, (float(np.mean(means)), lam, w), key=lambda choice: choice[0])
        print(f"part {part}: {len(items)} sequences learned from, lam = {best[1]:g}", flush=True)
        for name in tested:
            for item in families[name]:
                said[item.name] = MODEL.inference(item.sequence, best[2])
    return said


def print_row(name, families, fold):
    counts = {
        family: [cp.PairCounts.of(item.structure, fold(item)) for item in items]
        for family, items in families.items()
    }
    every = [one for each in counts.values() for one in each]
    means = [np.mean([getattr(one, key) for one in every]) for key in ("sensitivity", "ppv", "f1")]
    means.append(np.mean([np.mean([one.f1 for one in each]) for each in counts.values()]))
    print(f"| {name} | " + " | ".join(f"{mean:.3f}" for mean in means) + " |", flush=True)


def main():
    families = {}
    for item in read_structures(
        data_folder() / "rna_rfam_consensus" / "structures.txt", clean=True
    ):
        if len(item.sequence) <= LONGEST:
            families.setdefault(item.name.split()[1], []).append(item)
    begin = time.process_time()
    said = learned(families)
    print(f"{time.process_time() - begin:.0f} s of processor time\n")
    print("| weights | sensitivity | PPV | F1 | F1, mean of families |\n|---|---|---|---|---|")
    print_row("learned", families, lambda item: said[item.name])
    print_row("nearest neighbor", families, lambda item: MODEL.inference(item.sequence, NEAREST))
    try:
        import RNA
    except ImportError:
        return
    print_row(f"ViennaRNA {RNA.__version__}", families, lambda item: RNA.fold(item.sequence)[0])


if __name__ == "__main__":
    try:
        main()
    except (DataError, InputError) as error:
        sys.exit(f"rna_families.py: {error}")
