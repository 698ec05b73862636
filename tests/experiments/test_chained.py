"""Tables 2 and 3 of paper 004: the functions, and the goal that our line search meets."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cutplane as cp
from cutplane.papers.nonconvex import (
    CRESCENT,
    EXPERIMENTS,
    LAMS,
    MIFFLIN,
    compare,
    converge,
    crescent_2,
    mifflin_2,
)

TABLES = {"table2": MIFFLIN, "table3": CRESCENT}
vectors = st.lists(st.floats(-3.0, 3.0), min_size=2, max_size=6).map(np.array)


@given(vectors)
def test_functions_are_those_of_the_paper(w):
    pairs = list(pairwise(w))
    mifflin = sum(-a + 2 * (a**2 + b**2 - 1) + 1.75 * abs(a**2 + b**2 - 1) for a, b in pairs)
    crescent = sum(
        max(a**2 + (b - 1) ** 2 + b - 1, -(a**2) - (b - 1) ** 2 + b + 1) for a, b in pairs
    )
    assert mifflin_2(w)[0] == pytest.approx(mifflin, abs=1e-12)
    assert crescent_2(w)[0] == pytest.approx(crescent, abs=1e-12)


@pytest.mark.parametrize("function", [mifflin_2, crescent_2])
@given(w=vectors)
def test_slopes_are_those_of_the_functions(function, w):
    step = 1e-6
    # Where the difference quotients of both sides agree, there is no kink in between.
    for j, slope in enumerate(function(w)[1]):
        way = np.zeros_like(w)
        way[j] = step
        here, ahead, back = (function(v)[0] for v in (w, w + way, w - way))
        right, left = (ahead - here) / step, (here - back) / step
        assert min(left, right) - 1e-3 <= slope <= max(left, right) + 1e-3


@pytest.mark.parametrize("table", TABLES)
def test_published_numbers_are_complete(table):
    published = TABLES[table].published
    assert set(published) == {"NBM", "NRBM", "NRBMLS"}
    for numbers in published.values():
        assert tuple(numbers) == (100, 1_000, 10_000, 100_000)
        assert all(len(row) == len(LAMS) for row in numbers.values())


# Chained Crescent 2 with 1,000 parameters and lam = 0.5 ends in another valley with candidates of
# the level method: 0.15 % above the paper's objective, and so with all 12 constants that were
# looked at (docs/non-convex.md).
WORSE = {781.5: 2e-3}


def totals(rows):
    """Check objectives, and count: settings with at most the paper's evaluations, and both sums."""
    for row in rows:
        published = row["NRBMLS objective (paper)"]
        assert row["nrbm() status"] == "stationary"
        allowed = WORSE.get(published, 1e-3)
        assert row["nrbm() objective"] <= published + allowed * abs(published)
    ours = np.array([row["nrbm() evaluations"] for row in rows])
    theirs = np.array([row["NRBMLS evaluations (paper)"] for row in rows])
    return np.array([np.sum(ours <= theirs), ours.sum(), theirs.sum()])


@pytest.mark.parametrize("table", TABLES)
def test_line_search_needs_no_more_evaluations_than_published(table):
    options = {"sizes": (100, 1_000), "methods": {"nrbm()": cp.nrbm()}}
    rows = list(compare(TABLES[table], lambda share, text: None, **options))
    n_good, ours, theirs = totals(rows)
    assert n_good >= 6
    assert ours <= theirs


@pytest.mark.parametrize(
    ("table", "lam"),
    [("table2", 0.2), ("table2", 1.0), ("table3", 0.2), ("table3", 1.0)],
)
def test_nbm_ends_where_the_published_one_does(table, lam):
    result = TABLES[table].fit(cp.nbm(), 100, lam)
    published, _ = TABLES[table].published["NBM"][100][LAMS.index(lam)]
    assert result.status == "stationary"
    assert result.objective <= published + 1e-3 * abs(published)


@pytest.mark.slow
def test_all_settings():
    counts, calls = np.zeros(3, dtype=int), []
    for experiment in EXPERIMENTS[:2]:  # the tables
        rows = list(experiment.run(lambda share, text: calls.append(share)))
        assert len(rows) == 16
        assert set(experiment.columns) <= set(rows[0])
        counts += totals(rows)
    n_good, ours, theirs = counts
    assert n_good >= 24
    assert ours <= theirs
    assert calls[0] == 0.0
    assert calls[-1] == 1.0


def test_convergence_in_small():
    rows = list(converge(lambda share, what: None, size=20))
    assert [(row["function"], row["lam"], row["method"]) for row in rows] == [
        (function, lam, method)
        for function in ("Chained Mifflin 2", "Chained Crescent 2")
        for lam in LAMS
        for method in ("NBM", "NRBM", "NRBMLS")
    ]
    for row in rows:
        curve, evaluations = row["objectives"], row["at evaluations"]
        assert curve == sorted(curve, reverse=True)
        assert evaluations == sorted(evaluations)
        assert evaluations[0] == 1
        assert curve[-1] == row["objective"]
        assert 1 <= row["to 1 %"] <= row["evaluations"] == evaluations[-1]
    experiment = next(each for each in EXPERIMENTS if each.name == "fig8-004")
    figure = experiment.picture(rows)
    assert len(figure.axes) == 2 * len(LAMS)
    assert all(len(axes.get_legend().get_texts()) == 3 for axes in figure.axes)
