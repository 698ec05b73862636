"""Tables 4 and 5 of paper 004: complete, and computed on small data as on the real ones."""

import logging
from dataclasses import replace

import numpy as np
import pytest

import cutplane as cp
from cutplane.core.policies.bmrm import CutAt
from cutplane.core.state import Problem
from cutplane.papers.experiment import Words
from cutplane.papers.ocr import TABLE_4, TABLE_5, compare, nrbmls
from cutplane.solvers.automatic import automatic

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
    assert len(table.lams) == 7
    for column in table.published.values():
        assert tuple(column) == table.lams
        assert all(len(figures) == 3 for figures in column.values())


def test_nrbmls_takes_a_plane_at_the_candidate_where_no_trial_descends():
    # The start is the optimum, at a kink: the first plane sends the search the wrong way.
    def kink(w):
        return float(abs(w[0])), np.where(w >= 0.0, 1.0, -1.0)

    helped = nrbmls()
    greedy = replace(helped, query=replace(helped.query, cut_at=CutAt.LOWEST))
    steps = {}
    for method in (helped, greedy):
        risk = cp.FunctionRisk(kink, 1, convex=True)
        stop = cp.Gap(relative=1e-9)
        result = cp.minimize(risk, cp.L2(1.0), method=method, stop=stop, max_iter=1)
        steps[method] = result.state.last_step
        assert result.state.bundle.n_planes == (3 if method is helped else 2)
        assert result.evaluations == 4  # the candidate was the first of three trials
    assert steps[helped] is None  # it was no descent, and says nothing about the next
    assert steps[greedy] > 0.0


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
