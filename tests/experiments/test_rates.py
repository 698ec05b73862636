"""Gaps beside proven rates, on small data in the place of the real ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cutplane as cp
from cutplane.papers import EXPERIMENTS
from cutplane.papers.bundles import proven_steps

from .test_bmrm_figures import small_data  # noqa: F401

EXPERIMENT = EXPERIMENTS["rates-001"]


def test_gaps_stay_below_what_is_proven(small_data):  # noqa: F811
    shares = []
    rows = list(EXPERIMENT.run(lambda share, message: shares.append(share)))
    assert len(rows) == len(shares) == 3 * 2 * 3
    assert all(set(EXPERIMENT.columns) <= set(row) for row in rows)
    for row in rows:
        assert row["status"] == cp.Status.OPTIMAL
        assert row["steps"] == sorted(row["steps"])
        for level, steps in zip(row["levels"], row["steps"], strict=True):
            needed = next(n for n, gap in enumerate(row["gaps"], 1) if gap <= level)
            assert needed <= max(steps, 1)
        assert row["proven"] == row["steps"][-1]
    figure = EXPERIMENT.picture(rows)
    drawn = [axes for axes in figure.axes if axes.get_lines()]
    assert len(drawn) == 6
    assert all(len(axes.get_lines()) == 2 * 3 for axes in drawn)


@given(
    lam=st.sampled_from([1e-2, 1e-1, 1.0, 10.0]),
    steepest=st.floats(0.3, 3.0),
    more=st.floats(0.01, 4.0),
    share=st.sampled_from([1e-1, 1e-2]),
)
@pytest.mark.parametrize("kinks", [True, False])
def test_the_numbers_follow_from_single_steps(kinks, lam, steepest, more, share):
    """What equations (11) and (12) of paper 000 say of one step, over and over."""
    at_zero, curved = 1.0, None if kinks else lam + more
    goal = share * min(4.0 * steepest**2 / lam, at_zero)
    gap, steps = at_zero, 0
    while gap > goal:
        if kinks:
            gap -= 0.5 * gap * min(1.0, lam * gap / (4.0 * steepest**2))
        else:
            gap -= lam * gap / (4.0 * curved)
        steps += 1
    assert steps <= proven_steps(goal, at_zero, lam, steepest, curved) + 1
