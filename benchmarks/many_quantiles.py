"""Quantiles fitted together and one by one: how often they cross, and the loss on other examples.

    CUTPLANE_DATA=folder python benchmarks/many_quantiles.py

engel: 157 households to fit, 78 to test, 19 levels. house: 1,000 examples of 574_house_16H to fit,
5,000 to test, 9 levels. Crossing is the share of examples at which any two neighboring lines
cross; the loss is the mean pinball loss of sorted predictions on the test part.
"""

from __future__ import annotations

import numpy as np
from datasets import data_folder
from sklearn.metrics import mean_pinball_loss
from sklearn.preprocessing import scale

import cutplane as cp

LAM = 1e-4


def compare(name, X, y, n_fitted, levels) -> None:
    train, test = slice(0, n_fitted), slice(n_fitted, None)

    def report(kind, coef, intercept, note=""):
        lines = [X[part] @ coef.T + intercept for part in (train, test)]
        crossing = [(np.diff(part) < 0.0).any(axis=1).mean() for part in lines]
        largest = max(-np.diff(lines[0]).min(), 0.0)
        columns = zip(levels, np.sort(lines[1], axis=1).T, strict=True)
        loss = np.mean([mean_pinball_loss(y[test], q, alpha=level) for level, q in columns])
        shares = f"{crossing[0]:7.2%} {crossing[1]:7.2%}"
        print(f"{name:<7}{kind:<14}{shares} {largest:9.2g} {loss:.5f} {note}")

    separate = [
        cp.LinearRegressor("quantile", quantile=level, lam=LAM).fit(X[train], y[train])
        for level in levels
    ]
    coef = np.array([model.coef_ for model in separate])
    report("separate", coef, np.array([model.intercept_ for model in separate]))
    ways = {f"penalty {price:g}": {"crossing_penalty": price} for price in (0.0, 1.0, 10.0)}
    for kind, options in {**ways, "parallel": {"parallel": True}}.items():
        model = cp.LinearQuantiles(levels, lam=LAM, **options).fit(X[train], y[train])
        note = f"{model.n_iter_} iterations, {model.fit_seconds_:.1f} s"
        report(kind, model.coef_, model.intercept_, note)


def main() -> None:
    folder, rng = data_folder(), np.random.default_rng(0)
    print("data   fit           crossing: fit, test   largest    loss")
    engel = np.loadtxt(folder / "engel" / "engel.csv", delimiter=",", skiprows=1)
    engel = engel[rng.permutation(len(engel))]
    food = engel[:, 1] / engel[:, 1].std()
    compare("engel", scale(engel[:, :1]), food, 157, np.arange(1, 20) / 20)
    house = np.loadtxt(folder / "regression" / "574_house_16H.tsv.gz", delimiter="\t", skiprows=1)
    house = house[rng.permutation(len(house))[:6000]]
    price = scale(np.log1p(house[:, -1]))
    compare("house", scale(house[:, :-1]), price, 1000, np.arange(1, 10) / 10)


if __name__ == "__main__":
    main()
