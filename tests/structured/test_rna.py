"""RNA folding: features by a plain twin, the best structure by all structures."""

import pickle
import re
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cutplane as cp
from cutplane.models.rna.model import LONGEST, N_FEATURES, PLACES
from cutplane.testing import check_model

MODEL = cp.RNAFolding()
seeds = st.integers(0, 10**6)

# The shortest multi-loop has twelve bases; these have one, with bases to spare in the second.
MULTI_LOOPS = ["GGAAACGAAACC", "AGAGAAACGAAACUC"]


def random_sequence(rng, n, letters="ACGU"):
    return "".join(rng.choice(list(letters), n))


def random_structure(rng, x):
    """Return a structure with a pair wherever a random base finds one to its right."""
    y = ["."] * len(x)

    def add_pairs(begin, end):
        if end - begin < 5:
            return
        i = int(rng.integers(begin, end))
        partners = [j for j in range(i + 4, end) if x[i] + x[j] in Twin.PAIRS]
        if partners:
            j = int(rng.choice(partners))
            y[i], y[j] = "(", ")"
            add_pairs(i + 1, j)
            add_pairs(j + 1, end)
        add_pairs(begin, i)

    add_pairs(0, len(x))
    return "".join(y)


class Twin:
    """Counts features by names, loop by loop, in plain Python."""

    PAIRS = ("AU", "CG", "GC", "GU", "UA", "UG")

    def __init__(self, x, y):
        self.x, self.y = x, y
        opened, self.partner = [], {}
        for j, sign in enumerate(y):
            if sign == "(":
                opened.append(j)
            elif sign == ")":
                self.partner[opened.pop()] = j
        self.counts = np.zeros(N_FEATURES)
        branches, unpaired = self.loop(-1, len(x))
        self.add("exterior_branch", 0, len(branches))
        self.add("exterior_unpaired", 0, unpaired)
        self.branch_all(branches)
        for i, j in self.partner.items():
            self.closed_by(i, j)

    def add(self, kind, place, times=1.0):
        here = self.counts[PLACES[kind]]
        assert 0 <= place < len(here)
        here[place] += times

    def add_at_least(self, kind, length, smallest):
        here = self.counts[PLACES[kind]]
        here[: max(length - smallest + 1, 0)] += 1.0

    def pair(self, i, j):
        return self.PAIRS.index(self.x[i] + self.x[j])

    def base(self, i):
        return "ACGU".index(self.x[i])

    def loop(self, i, j):
        """Return the pairs that branch off the loop inside (i, j), and its unpaired bases."""
        branches, unpaired, k = [], 0, i + 1
        while k < j:
            if k in self.partner:
                branches.append((k, self.partner[k]))
                k = self.partner[k]
            else:
                unpaired += 1
            k += 1
        return branches, unpaired

    def dangles(self, i, j, left, right):
        if 0 <= left < len(self.x):
            self.add("left_dangle", 4 * self.pair(i, j) + self.base(left))
        if 0 <= right < len(self.x):
            self.add("right_dangle", 4 * self.pair(i, j) + self.base(right))

    def branch_all(self, branches):
        for k, l in branches:
            self.add("closing", self.pair(l, k))
            self.dangles(k, l, k - 1, l + 1)

    def mismatch(self, kind, i, j, after_i, before_j):
        place = 16 * self.pair(i, j) + 4 * self.base(after_i) + self.base(before_j)
        self.add(kind, place)

    def closed_by(self, i, j):
        self.add("pair", ("AU", "CG", "GU").index("".join(sorted(self.x[i] + self.x[j]))))
        branches, unpaired = self.loop(i, j)
        if len(branches) == 1 and unpaired == 0:
            names = (self.x[i] + self.x[j], self.x[i + 1] + self.x[j - 1])
            self.add("stack", STACKS[names])
            return
        self.add("closing", self.pair(i, j))
        if not branches:
            self.mismatch("hairpin_mismatch", i, j, i + 1, j - 1)
            self.add_at_least("hairpin_length", min(unpaired, LONGEST), 3)
        elif len(branches) > 1:
            self.add("multi_open", 0)
            self.add("multi_branch", 0, 1 + len(branches))
            self.add("multi_unpaired", 0, unpaired)
            self.dangles(j, i, j - 1, i + 1)
            self.branch_all(branches)
        else:
            ((k, l),) = branches
            self.add("closing", self.pair(l, k))
            left, right = k - i - 1, j - l - 1
            if min(left, right) == 0:
                self.add_at_least("bulge_length", min(unpaired, LONGEST), 1)
                return
            self.mismatch("interior_mismatch", i, j, i + 1, j - 1)
            self.mismatch("interior_mismatch", l, k, l + 1, k - 1)
            self.add_at_least("interior_length", min(unpaired, LONGEST), 2)
            self.add_at_least("asymmetry", min(abs(left - right), 10), 1)


def stack_numbers():
    """Number stacks in the order of their names; both strands have the same number."""
    numbers = {}
    for outer in Twin.PAIRS:
        for inner in Twin.PAIRS:
            other_strand = (inner[::-1], outer[::-1])
            numbers[outer, inner] = numbers.get(other_strand, len(set(numbers.values())))
    return numbers


STACKS = stack_numbers()


def test_number_of_parameters():
    assert N_FEATURES == MODEL.n_parameters == 372
    assert len(set(STACKS.values())) == 21
    ends = [place.stop for place in PLACES.values()]
    assert [place.start for place in PLACES.values()] == [0, *ends[:-1]]
    assert ends[-1] == N_FEATURES


@given(seed=seeds, n=st.integers(0, 120))
def test_features_agree_with_their_twin(seed, n):
    rng = np.random.default_rng(seed)
    x = random_sequence(rng, n)
    y = random_structure(rng, x)
    assert np.array_equal(MODEL.joint_feature(x, y), Twin(x, y).counts)


@pytest.mark.parametrize("x", MULTI_LOOPS)
def test_multi_loops_are_among_the_structures(x):
    assert any(re.search(r"\)\.*\(.*\)\.*\)$", y) for y in MODEL.outputs(x))


def test_outputs_are_all_structures():
    assert MODEL.outputs("GAAAC") == [".....", "(...)"]
    assert MODEL.outputs("GAAC") == ["...."]
    found = MODEL.outputs("GGAAACC")
    assert len(found) == len(set(found))
    assert set(found) == {".......", "(....).", "(.....)", ".(...).", ".(....)", "((...))"}


@settings(max_examples=20)
@given(seed=seeds, n=st.integers(0, 14), letters=st.sampled_from(["ACGU", "GC", "GUA"]))
def test_search_finds_the_best_of_all_structures(seed, n, letters):
    rng = np.random.default_rng(seed)
    x = random_sequence(rng, n, letters)
    model = cp.RNAFolding(missed=rng.uniform(), wrong=rng.uniform())
    X = [x, *MULTI_LOOPS]
    Y = [rng.choice(model.outputs(one)) for one in X]
    report = check_model(model, X, Y, n_trials=4, seed=seed)
    assert "inference finds the best of all outputs" in report.passed
    assert "loss_augmented_inference finds the best of all outputs" in report.passed


def test_multi_loops_are_found():
    w = np.zeros(N_FEATURES)
    w[PLACES["pair"]] = 1.0
    w[PLACES["stack"]] = -10.0
    w[PLACES["multi_open"]] = 20.0
    assert MODEL.inference("GGAAACGAAACC", w) == "((...)(...))"
    # Three branches, and unpaired bases before, between and behind them.
    w[PLACES["multi_branch"]] = 5.0
    x = "GAAGAAACAAGAAACAGAAACAAC"
    assert MODEL.inference(x, w) == "(..(...)..(...).(...)..)"
    w[PLACES["multi_unpaired"]] = -9.0
    assert Twin(x, MODEL.inference(x, w)).counts @ w >= Twin(x, "." * len(x)).counts @ w


@settings(max_examples=10)
@given(seed=seeds, n=st.integers(30, 90))
def test_no_known_structure_beats_the_search(seed, n):
    rng = np.random.default_rng(seed)
    x, w = random_sequence(rng, n), rng.normal(size=N_FEATURES)
    y = random_structure(rng, x)
    for truth in (y, "." * n):
        found = MODEL.loss_augmented_inference(x, truth, w)
        assert Twin(x, found).counts @ w + MODEL.loss(truth, found) >= (
            Twin(x, y).counts @ w + MODEL.loss(truth, y) - 1e-9
        )


def test_long_interior_loops_are_scored_but_not_searched():
    w = np.zeros(N_FEATURES)
    w[PLACES["pair"]] = 1.0  # no structure has more pairs than this one
    for left, right in ((15, 15), (29, 1), (0, 30), (16, 15), (30, 1), (0, 31)):
        x = "G" + "A" * left + "GAAAC" + "A" * right + "C"
        y = "(" + "." * left + "(...)" + "." * right + ")"
        assert np.array_equal(MODEL.joint_feature(x, y), Twin(x, y).counts)
        assert (MODEL.inference(x, w) == y) == (left + right <= LONGEST)


def test_training_and_certificate():
    rng = np.random.default_rng(0)
    true_weights = rng.normal(size=N_FEATURES)
    true_weights[PLACES["pair"]] += 2.0
    X = [random_sequence(rng, 40) for _ in range(12)]
    Y = [MODEL.inference(x, true_weights) for x in X]
    fits = [cp.StructuredPredictor(MODEL, lam=0.05, n_jobs=n).fit(X, Y) for n in (1, 2)]
    assert np.array_equal(fits[0].coef_, fits[1].coef_)
    assert fits[0].certificate_.valid
    assert fits[0].certificate_.relative_gap <= 1e-3
    start = cp.StructuredPredictor(MODEL, lam=1e6).fit(X, Y)
    assert fits[0].score(X, Y) > start.score(X, Y)
    copy = pickle.loads(pickle.dumps(fits[0]))
    assert copy.predict(X) == fits[0].predict(X)


def test_nearest_neighbor_weights():
    model = cp.RNAFolding()
    w = model.nearest_neighbor_weights()
    # A stack is the same from both strands: 5'-GC-3' on 3'-CG-5' is the strongest, GU on UG weak.
    assert w[PLACES["stack"]].max() == 3.4
    assert w[PLACES["stack"]].min() == -1.3
    # Longer hairpins and bulges cost more in the end.
    for kind, first in (("hairpin_length", -5.4), ("bulge_length", -1.8)):
        costs = np.cumsum(w[PLACES[kind]])
        assert costs[0] == pytest.approx(first)
        assert (np.diff(costs[6:]) < 0.0).all()
    # Four GC pairs around a loop of four: three stacks, the loop, and the mismatch inside it.
    structure = "((((....))))"
    score = w @ model.joint_feature("GGGGAAAACCCC", structure)
    assert score == pytest.approx(3 * 3.3 - 5.6 + 1.1)
    assert model.inference("GGGGAAAACCCC", w) == structure
    assert model.inference("AAAAAAAAAAAA", w) == "." * 12


def test_pair_counts():
    counts = cp.PairCounts.of("((...))..", ".(...)...")
    assert counts == (1, 1, 0)
    assert (counts.sensitivity, counts.ppv, counts.f1) == (0.5, 1.0, pytest.approx(2 / 3))
    assert MODEL.loss("((...)).", ".(....).") == 3.0
    assert cp.RNAFolding(missed=2, wrong=0.5).loss("((...)).", ".(....).") == 4.5
    assert cp.PairCounts.of("...", "...") == (0, 0, 0)
    assert cp.PairCounts.of("...", "...").f1 == 1.0


def test_letters():
    w = np.ones(N_FEATURES)
    assert MODEL.inference("ggaaactt", w) == MODEL.inference("GGAAACUU", w)
    assert MODEL.inference("", w) == ""


def test_odd_pairs_can_be_taken_out():
    x, y = "GAAACGGAACA", "(...)((..))"
    with pytest.raises(ValueError, match=r"bases 6 and 11 cannot pair: G-A with 4 bases"):
        MODEL.joint_feature(x, y)
    clean = MODEL.without_odd_pairs(x, y)
    assert clean == "(...)......"
    assert MODEL.joint_feature(x, clean).sum() > 0


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ("GAXAC", ".....", "base 3 is 'X', not one of A, C, G and U"),
        ("GAAAC", "(...", "the bracket at base 1 is not closed"),
        ("GAAAC", "....)", "the bracket at base 5 closes none"),
        ("GAAAC", "[...]", r"base 1 of the structure is '\['"),
        ("GAAAC", "....", "a structure of 4 bases for a sequence of 5"),
    ],
)
def test_bad_input(x, y, message):
    with pytest.raises(ValueError, match=message):
        cp.RNAFolding().joint_feature(x, y)


def test_bad_losses():
    with pytest.raises(ValueError, match="losses must not be negative"):
        cp.RNAFolding(missed=-1.0)
    with pytest.raises(ValueError, match="structures of 1 and 2 bases"):
        MODEL.loss(".", "..")


@pytest.mark.slow
def test_time_grows_with_the_cube_of_the_length():
    rng = np.random.default_rng(0)
    w = rng.normal(size=N_FEATURES)
    seconds = []
    for n in (400, 800, 1600):
        x = random_sequence(rng, n)
        MODEL.inference(x, w)
        begin = time.process_time()
        MODEL.inference(x, w)
        seconds.append(time.process_time() - begin)
    # Eight times for twice the length, and some room for caches that overflow.
    assert seconds[2] < 12 * seconds[1] < 150 * seconds[0]


@pytest.mark.slow
def test_real_structures_are_known(data_folder):
    with open(f"{data_folder}/rna_rfam151/rfam151.dbn") as file:
        lines = file.read().split("\n")
    items = list(zip(lines[1::3], lines[2::3], strict=False))
    assert len(items) == 151
    for x, y in items:
        assert np.array_equal(MODEL.joint_feature(x, y), Twin(x, y).counts)
