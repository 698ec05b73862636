"""RNA folding of families that were not learned from, with their real structures.

Run as ``CUTPLANE_DATA=FOLDER python benchmarks/rna_families.py``. The data set
``rna_rfam_consensus`` has 1,061 sequences of 21 families with the consensus structures of Rfam. The
families are put into four parts by a seeded generator. Each part is tested once: weights are
learned from two of the others, and ``lam`` is chosen on the third. So no family is in two of
training, validation and test. Sensitivity, PPV and F1 are means over sequences, and F1 also over
families, which differ in size (2 to 181 sequences).

Weights are learned twice, each time around those that were known before. First around those of the
nearest-neighbor model, times 3, from the sequences of ``rna_rfam151`` with up to 200 bases, whose
structures are what ViennaRNA predicts. So they say nothing about real structures, but much about
what the nearest-neighbor weights lack; sequences that share a fifth of their words of ten bases
with the others or more are left out, because they belong to the same families. Here ``lam`` is
chosen on all parts but the one that is tested. Then from real structures: at most 8 sequences a
family, with up to 400 bases, that the weights known before fold with an F1 of at least 0.6: a hinge
loss never gives an example up, and it then outweighs others. One choice of ``lam`` is infinity, the
weights known before as they are. A loss counts by the inverse number of true pairs.

Beside it: the nearest-neighbor weights, and the ViennaRNA package (optional: ``pip install
ViennaRNA``).
"""

import sys
import time

import numpy as np
from datasets import DataError, data_folder

import cutplane as cp
from cutplane.io import InputError
from cutplane.models.rna.model import read_structures

MODEL = cp.RNAFolding()
NEAREST = MODEL.nearest_neighbor_weights()
N_PARTS, LONGEST = 4, 400
EACH, LEAST_F1, SCALE = 8, 0.6, 3.0
LAMS = (np.inf, 10.0, 1.0, 0.1)
PREDICTED_LAMS = (np.inf, 1.0, 0.3, 0.1, 0.03, 0.01)
PREDICTED_LONGEST, WORD, SHARED = 200, 10, 0.2
VALIDATED = 12  # sequences of a family


def f1_of(item, w):
    return cp.PairCounts.of(item.structure, MODEL.inference(item.sequence, w)).f1


def path(items, lams, known_before, scale):
    """Yield lam and weights; these are regularized around ``scale`` times those known before."""
    yield np.inf, known_before
    counted = np.array([1.0 / item.structure.count("(") for item in items])
    risk = cp.StructuredRisk(
        MODEL, [i.sequence for i in items], [i.structure for i in items], weights=counted
    )
    center = scale * known_before
    known = {"start": center}
    for lam in lams[1:]:
        result = cp.minimize(
            risk, cp.L2(lam, center=center), method=cp.bmrm(groups="auto"), tol=0.02, **known
        )
        known = {"planes_from": result.state}
        yield lam, result.w


def words(item):
    return {item.sequence[k : k + WORD] for k in range(len(item.sequence) - WORD + 1)}


def from_predictions(families):
    """Return lams and weights that were learned from what ViennaRNA predicts of other families."""
    tested = set().union(*(words(item) for items in families.values() for item in items))
    items = [
        item
        for item in read_structures(data_folder() / "rna_rfam151" / "rfam151.dbn", clean=True)
        if "(" in item.structure
        and WORD <= len(item.sequence) <= PREDICTED_LONGEST
        and len(words(item) & tested) < SHARED * len(words(item))
    ]
    print(f"{len(items)} predicted structures learned from", flush=True)
    return list(path(items, PREDICTED_LAMS, NEAREST, SCALE))


def best_of(candidates, families, validated):
    """Return lam and weights with the highest F1, as a mean over some families."""

    def quality(candidate):
        means = [
            np.mean([f1_of(i, candidate[1]) for i in families[name][:VALIDATED]])
            for name in validated
        ]
        return float(np.mean(means))

    return max(candidates, key=quality)


def learned(families):
    """Return the structure of each sequence, by what was learned from, and print what was chosen.

    The first are from predictions only, the second also from real structures.
    """
    names = sorted(families)
    part_of = dict(
        zip(names, np.random.default_rng(1).permutation(len(names)) % N_PARTS, strict=True)
    )
    predicted = from_predictions(families)
    said = {}, {}
    for part in range(N_PARTS):
        tested = [name for name in names if part_of[name] == part]
        validated = [name for name in names if part_of[name] == (part + 1) % N_PARTS]
        others = [name for name in names if part_of[name] != part]
        lam, known = best_of(predicted, families, others)
        items = []
        for name in sorted(set(others) - set(validated)):
            usable = [i for i in families[name] if "(" in i.structure]
            items += [i for i in usable if f1_of(i, known) >= LEAST_F1][:EACH]
        real_lam, real = best_of(path(items, LAMS, known, 1.0), families, validated)
        print(
            f"part {part}: lam = {lam:g}, then {len(items)} real structures, lam = {real_lam:g}",
            flush=True,
        )
        for name in tested:
            for item in families[name]:
                for structures, w in zip(said, (known, real), strict=True):
                    structures[item.name] = MODEL.inference(item.sequence, w)
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
    for name, structures in zip(("predictions", "real structures too"), said, strict=True):
        print_row(f"learned from {name}", families, lambda item, known=structures: known[item.name])
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
