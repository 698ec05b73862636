"""Tables 4 and 5 of paper 004: complete, and computed on small data as on the real ones."""

import logging

import numpy as np
import pytest

import cutplane as cp
from cutplane.core.problem import Problem
from cutplane.experiments.data import Words
from cutplane.experiments.ocr import TABLE_4, TABLE_5, compare, nrbmls
from cutplane.methods import automatic

TABLES = {"table4": TABLE_4, "table5": TABLE_5}


def small_words(seed, n=12):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 4, n)
    y = np.concatenate([np.arange(3), rng.integers(0, 3, lengths.sum() - 3)])
    X = np.eye(3)[y] + 0.5 * rng.normal(size=(len(y), 3))
    return Words(cp.as_rows(X), y, np.concatenate([[0], np.cumsum(lengths)]))


@pytest.mark.parametrize("name", TABLES)
def test_every_method_has_a_row_beside_the_paper(name):
    table = TABLES[name]
    lam = table.lams[0]
    rows = list(
        compare(table, lambda share, what: None, lams=(lam,), data=(small_words(0), small_words(1)))
    )
    assert [row["method"] for row in rows] == [*table.ours, *table.others]
    certified, others = rows[: len(table.ours)], rows[len(table.ours) :]
    lowest = min(row["objective"] for row in certified)
    for row in certified:
        assert row["status"] == "optimal"
        assert row["objective"] <= lowest / (1.0 - 0.01)
        assert 0.0 < row["inferences"] <= row["in all"]
        assert row["objective"] >= row["in the end"] * (1.0 - 1e-12)  # computed afresh
    for row in others:
        # What proves nothing is never below the bound that the first method proves.
        assert row["objective"] >= certified[0]["in the end"] * (1.0 - 0.01)
        assert row["status"] in {"reached", "missed"}
    assert {row["method"] for row in rows if "inferences (paper)" in row} == set(table.published)
    for row in rows:
        assert 0.0 <= row["test error"] <= 1.0


@pytest.mark.parametrize("name", TABLES)
def test_what_was_published_is_complete(name):
    table = TABLES[name]
    assert set(table.published) <= {*table.ours, *table.others}
    assert all(len(column) == 7 for columns in table.published.values() for column in columns)
    assert len(table.lams) == 7


def test_the_greedy_search_gets_stuck_without_a_plane_at_the_candidate():
    # At w = 0 all labels tie. A plane from nearby says nothing new, and the model proposes the same
    # candidate again, which no trial on the way to descends.
    risk = cp.ChainRisk(*small_words(0, n=40), cp.ChainMargin())
    options = {"stop": cp.Gap(relative=0.01), "max_iter": 300}
    stopped = cp.minimize(risk, cp.L2(1e-3), method=nrbmls(), **options)
    assert stopped.status is cp.Status.OPTIMAL
    assert stopped.evaluations > stopped.iterations  # some searches took more than one trial


def test_chains_get_the_method_of_their_loss(caplog):
    caplog.set_level(logging.INFO, logger="cutplane")
    words, regularizer = small_words(0), cp.L2(0.1)
    many = np.tile(np.arange(200), 3000)
    for risk, said in [
        (cp.ChainRisk(*words, cp.ChainCRF()), "quasi-newton"),
        (cp.ChainRisk(*words, cp.ChainMargin()), "inference costs little here"),
        (
            cp.ChainRisk(np.ones((len(many), 1)), many, [0, len(many)], cp.ChainMargin()),
            "block-ascent (exact inference",
        ),
    ]:
        caplog.clear()
        automatic(Problem(risk, regularizer))
        assert said in caplog.text
        assert len(caplog.records) == 1
