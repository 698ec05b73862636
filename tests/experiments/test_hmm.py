"""Table 7 of paper 004, and connected digits: complete, and computed on small data."""

from functools import cache
from itertools import pairwise

import numpy as np
import pytest

import cutplane as cp
from cutplane.papers.hmm import (
    LAMS,
    PUBLISHED,
    Comparison,
    Options,
    Utterances,
    compare,
    compare_connected,
    connected,
    load_digits,
)

from ..structured.test_hmm import generated


@cache
def small_digits():
    return Utterances(*generated(60)), Utterances(*generated(40, seed=1))


def test_every_method_has_its_columns_beside_the_paper():
    most = 100
    rows = list(
        compare(
            lambda share, what: None,
            lams=LAMS[:1],
            digits=small_digits(),
            options=Options(n_states=2, n_gaussians=1, margin=3.0, most=most),
        )
    )
    (row,) = rows
    assert row["lam"] == LAMS[0]
    assert row["NRBMLS evaluations (paper)"] == PUBLISHED[0][0]
    assert row["NRBMLS status"] == "stationary"
    budget = min(row["NRBMLS evaluations"], most)
    assert budget <= row["SGD passes"] == len(row["SGD curve"])
    assert row["SGD+ objective"] == min(row["SGD curve"][:budget])
    assert row["SGD objective"] <= row["SGD+ objective"]
    assert row["NBM objective"] <= row["NBM+ objective"]
    assert 0.0 <= row["NRBMLS error"] <= 1.0
    if row["NBM* evaluations"] is not None:
        assert row["NBM* evaluations"] <= row["NBM evaluations"]
    # All begin at maximum likelihood, and end near each other.
    ends = [row[f"{name} objective"] for name in ("NRBMLS", "NBM", "SGD")]
    assert max(ends) <= 1.5 * min(ends)


def test_connected_digits_have_each_utterance_once():
    digits, _ = small_digits()
    strings, truth = connected(digits, seed=0)
    assert sum(map(len, truth)) == len(digits.y)
    assert len(strings.frames) == len(digits.frames) == len(strings.y) == strings.offsets[-1]
    assert np.sort(strings.frames[:, 0]).tolist() == np.sort(digits.frames[:, 0]).tolist()
    for (begin, end), labels in zip(pairwise(strings.offsets), truth, strict=True):
        seen = strings.y[begin:end]
        runs = seen[np.append(True, seen[1:] != seen[:-1])].tolist()
        assert runs == [label for i, label in enumerate(labels) if not i or label != labels[i - 1]]


def test_connected_digits_are_found():
    rows = list(
        compare_connected(
            lambda share, what: None,
            lams=(10.0,),
            digits=small_digits(),
            options=Options(n_states=2, n_gaussians=1, margin=2.0),
        )
    )
    (row,) = rows
    assert row["status"] == "stationary"
    for name in ("digit error", "frame error", "likelihood digit error", "likelihood frame error"):
        assert 0.0 <= row[name] <= 1.0


@pytest.mark.slow
@pytest.mark.usefixtures("data_folder")
def test_the_margin_on_real_data():
    # The first row, with every third utterance and two Gaussians.
    train, test = load_digits()
    comparison = Comparison(train.every(3), test, Options(n_gaussians=2))
    ours = comparison.by_nrbm(1.0)
    assert ours.status == "stationary"
    assert comparison.error(ours.w) <= 0.8 * comparison.error(comparison.start)
    other = cp.minimize(
        comparison.risk,
        comparison.regularizer(1.0),
        method=cp.nbm(),
        start=comparison.start,
        tol=1e-6,
        max_iter=None,
        callbacks=[lambda state: state.evaluations >= ours.evaluations],
    )
    assert ours.objective < other.objective
