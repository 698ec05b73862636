"""``cutplane demo``: what cutplane does, on data that comes with scikit-learn, in plain words."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from cutplane import LinearClassifier, LinearRegressor
from cutplane.cli.fit_report import Fit
from cutplane.cli.options import make_folder
from cutplane.core.certificate import percent
from cutplane.io import check_writable, write_atomically
from cutplane.report.figures import PlottingUnavailable, draw_run, picture_of
from cutplane.report.text import draw_text, table
from cutplane.report.words import certificate_in_words

_PICTURE = "bounds.png"

_INTRODUCTION = """\
cutplane fits a model by making an objective J(w) as small as possible:

    J(w) = lam/2 |w|^2 + mean loss of the weights w on the data

Every evaluation of J gives an upper bound: the minimum is not above the best
value seen. It also gives a plane that lies below the loss everywhere; with all
planes so far in its place, the minimum is easy to find, and is a lower bound:
no weights can do better. When the bounds meet, the fit is proven to be optimal.
"""


def demo(
    out: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Write the picture here.", show_default="a new folder"),
    ] = None,
) -> None:
    """Show on two small data sets what a fit with a certificate is."""
    if out is not None:
        make_folder(out)
        check_writable(Path(out) / _PICTURE)
    print(_INTRODUCTION)
    classifier = _show_classification()
    _draw(classifier, out)
    _show_quantiles()
    _print_heading("What is proven, for the first of these models")
    print(certificate_in_words(classifier.certificate))


def _show_classification() -> Fit:
    from sklearn.datasets import load_breast_cancer
    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import StandardScaler

    X, y = load_breast_cancer(return_X_y=True)
    train_X, test_X, train_y, test_y = train_test_split(X, y, random_state=0, stratify=y)
    scaler = StandardScaler().fit(train_X)
    model = LinearClassifier("hinge", lam=1e-3).fit(scaler.transform(train_X), train_y)

    _print_heading("1. A support vector machine: is a tumour malignant or benign?")
    print(
        f"{len(train_y)} samples, {X.shape[1]} measurements each, hinge loss, lam = {model.lam_:g}."
        "\nThe bounds, iteration by iteration:\n"
    )
    fit = Fit(model, "hinge", n_samples=len(train_y))
    print(draw_text(fit.histories[0], tol=model.tol, ascii_only=not _can_print("▀░█┤")))
    right = model.score(scaler.transform(test_X), test_y)
    print(
        f"\n{model.n_iter_} iterations, {model.evaluations_} evaluations of J, "
        f"{model.fit_seconds_:.2g} s. On {len(test_y)} samples kept aside,\n"
        f"{100 * right:.1f} % of the predictions are right."
    )
    return fit


def _draw(fit: Fit, out: str | None) -> None:
    gap = percent(fit.certificate.relative_gap)
    try:
        picture = draw_run(
            fit.histories[0],
            title=f"Breast cancer, hinge loss, lam = {fit.estimator.lam_:g}",
            subtitle=f"within {gap} of the optimum after {fit.estimator.n_iter_} iterations",
            tol=fit.estimator.tol,
        )
    except PlottingUnavailable as missing:
        print(f"\nNo picture: {missing}\n")
        return
    path = Path(out or tempfile.mkdtemp(prefix="cutplane-demo-")) / _PICTURE
    write_atomically(path, picture_of(picture))
    print(f"\nThe same as a picture: {path}\n")


def _show_quantiles() -> None:
    from sklearn.datasets import load_diabetes
    from sklearn.preprocessing import scale

    X, y = load_diabetes(return_X_y=True)
    X = scale(X)
    _print_heading("2. Quantile regression: not the mean, but a range")
    print(
        f"{len(y)} diabetes patients, {X.shape[1]} measurements each. How far will the disease\n"
        "have progressed after a year? Three fits give a value that one patient in ten\n"
        "stays below, one that half of them do, and one that nine in ten do. The loss has\n"
        "a kink, but no derivative is needed: a plane below it will do.\n"
    )
    lines = [["quantile", "patients below the prediction", "relative gap", "iterations"]]
    for quantile in (0.1, 0.5, 0.9):
        model = LinearRegressor("quantile", quantile=quantile, lam=1e-3).fit(X, y)
        below = (y <= model.predict(X)).mean()
        gap = f"{model.certificate_.relative_gap:.1e}"
        lines.append([f"{quantile:g}", f"{100 * below:.1f} %", gap, str(model.n_iter_)])
    print("\n".join(table(lines, words=())) + "\n")


def _print_heading(title: str) -> None:
    print(title)
    print("-" * len(title))


def _can_print(characters: str) -> bool:
    try:
        characters.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True
