"""Table 6 of paper 004: complete, and computed on small data as on the real ones."""

import numpy as np

from cutplane.papers.nonconvex import PUBLISHED, Digits, compare_draws


def small_digits(seed=0):
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(300) % 2, 1.0, -1.0)
    X = rng.normal(size=(300, 5))
    X[:, 0] += y
    return Digits(X[:200], y[:200], X[200:], y[200:])


def test_every_method_has_its_columns_beside_the_paper():
    rows = list(
        compare_draws(
            lambda share, what: None,
            n_draws=2,
            gammas=(1, 10),
            n_labeled=20,
            digits=small_digits(),
        )
    )
    assert [row["gamma"] for row in rows] == [1, 10]
    for row in rows:
        for name in PUBLISHED:
            assert row[f"{name} evaluations"] >= 1
            assert 0.0 <= row[f"{name} error"] <= 0.5
            assert len(row[f"{name} draws"]) == 2
            # All are low: a step or two of CCCP is near what the bundle methods find.
            assert row[f"{name} objective"] <= 1.5 * row["NRBM objective"]
    for column in PUBLISHED.values():
        assert tuple(column) == (1, 2, 5, 10, 20, 50)
        assert all(len(figures) == 3 for figures in column.values())
