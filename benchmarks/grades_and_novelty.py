"""Grades and novelty detection beside others: objective, error and time.

    CUTPLANE_DATA=folder python benchmarks/grades_and_novelty.py

Grades are house prices in five equal parts (regression/574_house_16H.tsv.gz, 15,000 examples to
fit). mord's LogisticAT minimizes the same objective as OrdinalClassifier("logistic"); it takes part
if it is installed. Novelty detection is on 20,000 generated examples; objectives are those of the
one-class support vector machine, at the best offset for the coefficients, for all.
"""

from __future__ import annotations

import warnings

import numpy as np
from datasets import data_folder
from sklearn.linear_model import SGDOneClassSVM
from sklearn.metrics import accuracy_score, mean_absolute_error
from sklearn.preprocessing import scale
from sklearn.svm import OneClassSVM
from timing import best_of_few, describe_machine

import cutplane as cp

FITTED = 15_000


def grades(lam: float) -> None:
    path = data_folder() / "regression" / "574_house_16H.tsv.gz"
    table = np.loadtxt(path, delimiter="\t", skiprows=1)
    table = table[np.random.default_rng(0).permutation(len(table))]
    X, price = scale(table[:, :-1]), table[:, -1]
    y = np.searchsorted(np.quantile(price, [0.2, 0.4, 0.6, 0.8]), price)
    train_X, train_y, test_X, test_y = X[:FITTED], y[:FITTED], X[FITTED:], y[FITTED:]

    def objective(w, thresholds):
        signs = np.where(train_y[:, None] > np.arange(4), 1.0, -1.0)
        margins = signs * ((train_X @ w)[:, None] - thresholds)
        return 0.5 * lam * w @ w + np.logaddexp(0.0, -margins).sum(axis=1).mean()

    models = {
        "OrdinalClassifier hinge": cp.OrdinalClassifier(lam=lam),
        "OrdinalClassifier logistic": cp.OrdinalClassifier("logistic", lam=lam),
        "softmax": cp.LinearClassifier("logistic", multi_class="softmax", lam=lam),
        "one against the rest": cp.LinearClassifier("logistic", lam=lam),
        "regression, rounded": cp.LinearRegressor(lam=lam),
    }
    try:
        from mord import LogisticAT
    except ImportError:
        print("mord is not installed, and left out")
    else:
        models["mord LogisticAT"] = LogisticAT(alpha=lam * FITTED)
    print(f"\ngrades, lam = {lam:g}: mean absolute error, accuracy, seconds, objective (logistic)")
    for name, model in models.items():
        seconds, _ = best_of_few(lambda model=model: model.fit(train_X, train_y))
        predicted = np.clip(model.predict(test_X).round(), 0, 4)
        error, accuracy = mean_absolute_error(test_y, predicted), accuracy_score(test_y, predicted)
        line = f"{name:<28}{error:.4f}  {accuracy:.4f}  {seconds:7.2f}"
        if "mord" in name:
            line += f"  {objective(model.coef_, model.theta_):.7g}"
        elif name.endswith("logistic"):
            line += f"  {objective(model.coef_, model.thresholds_):.7g}"
            line += f" (proven: not below {model.certificate_.lower_bound:.7g})"
        print(line)


def novelty(nu: float) -> None:
    rng = np.random.default_rng(0)
    X = np.abs(rng.normal(size=(20_000, 30))) + rng.gamma(1.0, 1.0, size=(20_000, 1))
    mean = X.mean(axis=0)

    def objective(w):
        scores = X @ w
        offset = np.quantile(scores, nu, method="inverted_cdf")
        return 0.5 * w @ w + np.maximum(offset - scores, 0.0).mean() / nu - offset

    print(f"\nnovelty, nu = {nu:g}: objective, seconds, share of outliers")
    models = {
        "NoveltyDetector": cp.NoveltyDetector(nu),
        "OneClassSVM, linear": OneClassSVM(kernel="linear", nu=nu),
        "SGDOneClassSVM": SGDOneClassSVM(nu=nu, random_state=0),
    }
    for name, model in models.items():
        seconds, _ = best_of_few(lambda model=model: model.fit(X))
        w = np.ravel(model.coef_)
        if name.startswith("OneClass"):
            w = w / (nu * len(X))
        outliers = (model.predict(X) == -1).mean()
        line = f"{name:<24}{objective(w):.5f}  {seconds:7.3f}  {outliers:.4f}"
        if name == "NoveltyDetector":
            lower = model.certificate_.lower_bound / nu - 0.5 * mean @ mean
            line += f"  (proven: not below {lower:.5f})"
        if name.startswith("SGD"):
            best = min(objective(factor * w) for factor in np.geomspace(0.1, 10.0, 300))
            line += f"  ({best:.5f} with the best factor)"
        print(line)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print("\n".join(f"{name}: {value}" for name, value in describe_machine().items()))
    grades(1e-4)
    for share in (0.05, 0.2):
        novelty(share)
