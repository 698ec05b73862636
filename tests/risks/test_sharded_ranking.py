"""Rankings whose documents lie on workers: no query is split, and bits are those of one place."""

from itertools import product

import numpy as np
import pytest
from tests.risks.crew import placed

import cutplane as cp
from cutplane.cluster.risk import ShardedRisk, count_queries
from cutplane.compute import blocks

PLACEMENTS = {"1": [0] * 8, "2": [0, 1, 1, 0, 1, 0, 0, 1], "5": [4, 0, 1, 2, 2, 3, 1, 0]}


@pytest.fixture(autouse=True)
def _short_blocks(monkeypatch):
    monkeypatch.setattr(blocks, "LEAST_NUMBERS", 16)
    monkeypatch.setattr(blocks, "LEAST_ENTRIES", 64)


def documents(order, m=337, d=5):
    rng = np.random.default_rng(7)
    qid = np.repeat(np.arange(200), rng.integers(2, 14, 200))[:m]
    if order == "mixed":
        rng.shuffle(qid)
    if order == "one":
        qid[:] = 3
    # Coarse, so that scores and relevances are tied.
    X = rng.integers(-2, 3, size=(m, d)).astype(float)
    y = np.clip(np.round(X @ rng.normal(size=d) + rng.normal(size=m)), 0, 3)
    weights = np.array([1.0, 0.5, 2.0])[qid % 3]
    return {"X": X, "y": y, "qid": qid, "weights": weights}


def fitted(risk):
    return cp.minimize(risk, cp.L2(1e-2), method=cp.bmrm(), tol=1e-2)


LOSSES = {
    "pairs": cp.PairwiseHinge(),
    "gains": cp.PairwiseHinge("pair", "gains"),
    "ndcg": cp.NDCGHinge(5),
    "lists": cp.NDCGListHinge(5),
}
CASES = list(product(LOSSES, ["sorted", "mixed", "one"], PLACEMENTS))
# Every loss and order on five workers, and one of each on fewer; the others are slow.
FEW = {
    ("pairs", "mixed", "1"),
    ("ndcg", "sorted", "1"),
    ("lists", "mixed", "2"),
    ("gains", "one", "2"),
}


@pytest.mark.parametrize(
    ("loss", "order", "workers"),
    [
        pytest.param(*case, marks=[] if case[2] == "5" or case in FEW else pytest.mark.slow)
        for case in CASES
    ],
)
def test_fits_have_the_bits_of_one_machine(loss, order, workers):
    given, loss = documents(order), LOSSES[loss]
    plain = cp.ScoredRisk(
        given["X"],
        given["y"],
        loss.for_queries(given["qid"]),
        weights=given["weights"],
        intercept=False,
    )
    sample = placed(given, PLACEMENTS[workers])
    risk = ShardedRisk(sample, loss, intercept=False)
    one, other = fitted(plain), fitted(risk)
    assert np.array_equal(one.w, other.w)
    assert one.certificate == other.certificate
    assert one.certificate.relative_gap <= 1e-2
    assert sample.ask(count_queries) == len(np.unique(given["qid"]))
    sample.close()


def test_scores_that_do_not_change_on_one_member_keep_nobody_waiting():
    given = documents("sorted")
    given["X"][:200] = 0.0  # all scores of the first worker are always zero
    sample = placed(given, [0, 0, 0, 0, 1, 1, 1, 1], patience=20.0)
    result = fitted(ShardedRisk(sample, cp.PairwiseHinge(), intercept=False))
    assert result.certificate.relative_gap <= 1e-2
    sample.close()


def test_what_is_wrong_with_queries_reaches_the_caller():
    given = documents("sorted")
    given["weights"] = np.arange(len(given["y"])) + 1.0
    with pytest.raises(ValueError, match="same weight"):
        ShardedRisk(placed(given, [0, 1]), cp.PairwiseHinge(), intercept=False)
    del given["weights"]
    given["y"] = np.zeros(len(given["y"]))
    with pytest.raises(ValueError, match="nothing to rank"):
        ShardedRisk(placed(given, [0, 1]), cp.PairwiseHinge(), intercept=False)
