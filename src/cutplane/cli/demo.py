"""``cutplane demo``: what cutplane does, on data that comes with scikit-learn, in plain words."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from cutplane import LinearClassifier, LinearRegressor
from cutplane.cli.fit_report import certificate_in_words, percent
from cutplane.io import OutputError, check_writable, write_atomically
from cutplane.io.errors import reason
from cutplane.report.convergence import PlottingUnavailable, draw_png
from cutplane.report.text_picture import draw_text

_INTRODUCTION = """\
cutplane fits a model by making an objective J(w) as small as possible:

    J(w) = lam/2 |w|^2 + mean loss of the weights w on the data

Every evaluation of J gives an upper bound on the minimum: J cannot be worse
than the best value seen. It also gives a plane that lies below J everywhere, and
the lowest point of all planes so far is a lower bound: no weights can do better.
When the two bounds meet, the fit is finished, and provably so.
"""


def demo(
    out: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Write the picture here.", show_default="a new folder"),
    ] = None,
) -> None:
    """Show on two small data sets what a fit with a certificate is."""
    path = _folder(out) / "bounds.png"
    check_writable(path)
    print(_INTRODUCTION)
    _show_classification(path)
    print()
    _show_quantiles()
    print("\nNext: cutplane fit --help")


def _folder(out: str | None) -> Path:
    """Return the folder for the picture, made if need be, before anything is computed."""
    if out is None:
        return Path(tempfile.mkdtemp(prefix="cutplane-demo-"))
    try:
        Path(out).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"--out {out}: cannot make this folder: {reason(error)}") from error
    return Path(out)


def _show_classification(path: Path) -> None:
    from sklearn.datasets import load_breast_cancer
    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import StandardScaler

    X, y = load_breast_cancer(return_X_y=True)
    train_X, test_X, train_y, test_y = train_test_split(X, y, random_state=0, stratify=y)
    scaler = StandardScaler().fit(train_X)
    model = LinearClassifier("hinge", lam=1e-3).fit(scaler.transform(train_X), train_y)
    certificate, tol = model.certificate_, model.tol

    _print_heading("1. A support vector machine: is a tumour malignant or benign?")
    print(
        f"{len(train_y)} samples, {X.shape[1]} measurements each, hinge loss, lam = {model.lam_:g}."
        f"\nThe bounds, iteration by iteration:\n"
    )
    print(draw_text(model.history_, tol=tol, ascii_only=not _can_print("▀░█┤")))
    print(
        f"\n{model.n_iter_} iterations, {model.evaluations_} evaluations of J, "
        f"{model.fit_seconds_:.2g} s. "
        f"On {len(test_y)} samples kept aside,\n"
        f"{100 * model.score(scaler.transform(test_X), test_y):.1f} % of the predictions are right."
    )
    print(f"\n{certificate_in_words(certificate)}")
    subtitle = (
        f"within {percent(certificate.relative_gap)} of the optimum "
        f"after {model.n_iter_} iterations"
    )
    title = f"Breast cancer, hinge loss, lam = {model.lam_:g}"
    try:
        write_atomically(path, draw_png(model.history_, title=title, subtitle=subtitle, tol=tol))
        print(f"\nThe same as a picture: {path}")
    except PlottingUnavailable as missing:
        print(f"\nNo picture: {missing}")


def _show_quantiles() -> None:
    from sklearn.datasets import load_diabetes
    from sklearn.preprocessing import scale

    X, y = load_diabetes(return_X_y=True)
    X = scale(X)
    _print_heading("2. Quantile regression: not the mean, but a range")
    print(
        f"{len(y)} diabetes patients, {X.shape[1]} measurements each. Three fits predict how far\n"
        "the disease will have progressed a year later: too low for one patient in ten,\n"
        "in the middle, and too high for all but one in ten. The loss has a kink, where\n"
        "methods that need derivatives struggle; cutting planes do not mind.\n"
    )
    print("quantile   patients below the prediction   relative gap   iterations")
    for quantile in (0.1, 0.5, 0.9):
        model = LinearRegressor("quantile", quantile=quantile, lam=1e-3).fit(X, y)
        below = (y <= model.predict(X)).mean()
        gap = model.certificate_.relative_gap
        print(f"{quantile:>8g}   {100 * below:>27.1f} %   {gap:>12.1e}   {model.n_iter_:>10}")


def _print_heading(title: str) -> None:
    print(title)
    print("-" * len(title))


def _can_print(characters: str) -> bool:
    try:
        characters.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True
