"""Run several methods on the same problem, one after another, and scikit-learn's beside them.

The parameters of its linear models in our terms: ``C = 1 / (lam * n)`` for LIBLINEAR and
LogisticRegression, which add losses up, ``alpha = lam * n`` for Ridge, ``alpha = lam`` for
stochastic gradients. What they return is judged by our objective at their coefficients, with the
best intercept for these: some regularize theirs.
"""

from __future__ import annotations

import csv
import io
import json
import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone

from cutplane.compute.arrays import require_in_memory
from cutplane.core.certificate import Certificate, Record, relative
from cutplane.core.interrupts import held, interrupted_so_far
from cutplane.core.solver import AnySolver
from cutplane.core.state import Problem
from cutplane.estimators.classifier import LinearClassifier
from cutplane.estimators.description import look_up
from cutplane.estimators.estimator import Estimator, of_problems
from cutplane.estimators.regressor import LinearRegressor
from cutplane.report.charts import Chart, Curve, Table, finite, mean_run, table_of_run
from cutplane.report.page import Report, Section, versions_section
from cutplane.report.text import table as text_table
from cutplane.report.words import Html, element, mean_certificate
from cutplane.report.words import table as html_table
from cutplane.solvers.minimize import minimize
from cutplane.solvers.registry import ROBUST_METHODS, STRUCTURED_METHODS

FORMATS = ("text", "csv", "latex", "json")


@dataclass(frozen=True)
class Entry:
    """What one method did.

    Attributes
    ----------
    method : str
    records : sequence of Record
        The bounds after each iteration; of a peer, each record is a fit of its own to another
        tolerance, and there are no lower bounds.
    certificate : Certificate or None
        None for peers, which prove nothing, and for methods that could not be used.
    note : str
        Why a method could not be used.
    """

    method: str
    records: Sequence[Record] = ()
    certificate: Certificate | None = None
    note: str = ""

    @property
    def best(self) -> Record | None:
        """The record with the lowest objective, the last of those that are equal."""
        return min(reversed(self.records), key=lambda record: record.objective, default=None)


@dataclass(frozen=True, repr=False)
class Comparison:
    """Methods side by side on one problem.

    Attributes
    ----------
    title : str
    entries : list of Entry
    """

    title: str
    entries: list[Entry] = field(default_factory=list)

    @property
    def lower_bound(self) -> float:
        """The best lower bound that any method has proven; minus infinity without a proof."""
        known = [each.certificate for each in self.entries if each.certificate is not None]
        return max((own.lower_bound for own in known if own.valid), default=-math.inf)

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each method, in plain values, None where there is none.

        ``gap`` is what the method itself has proven, ``above`` how far its objective is above
        the best lower bound of all methods, both as shares of the objective.
        """
        rows = list[dict[str, Any]]()
        for entry in self.entries:
            row = dict.fromkeys(_NAMES) | {"method": entry.method, "note": entry.note}
            if (known := entry.certificate) is not None:
                last = entry.records[-1] if entry.records else None
                row |= {
                    "status": str(known.status),
                    "objective": known.objective,
                    "lower_bound": finite(known.lower_bound) if known.valid else None,
                    "gap": finite(known.relative_gap) if known.valid else None,
                    "iterations": last.iteration if last else None,
                    "evaluations": last.evaluations if last else None,
                    "seconds": last.seconds if last else 0.0,
                }
            elif (best := entry.best) is not None:  # the fit that came lowest
                row |= {"objective": best.objective, "seconds": best.seconds, "status": "no proof"}
            else:
                row["status"] = "not used"
            if row["objective"] is not None:
                row["above"] = finite(self._above(row["objective"]))
            rows.append(row)
        return rows

    def _above(self, objective: float) -> float:
        return relative(objective - self.lower_bound, objective)

    def table(self, format: str = "text") -> str:
        """Return the table as text, "csv", "latex" (for ``booktabs``) or "json"."""
        rows = self.rows()
        if format == "json":
            return json.dumps({"title": self.title, "rows": rows}, allow_nan=False)
        if format == "csv":
            written = io.StringIO()
            writer = csv.DictWriter(written, rows[0] if rows else [], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
            return written.getvalue().rstrip("\n")
        lines, notes = self._shown()
        if format == "text":
            return "\n".join([*text_table(lines, words=(0, 1)), *notes])
        if format != "latex":
            raise ValueError(f"format must be one of {', '.join(FORMATS)}, not {format!r}")
        titles, *rest = (
            " & ".join(cell.translate(_IN_LATEX) for cell in line) + r" \\" for line in lines
        )
        begin = rf"\begin{{tabular}}{{ll{'r' * (len(_TITLES) - 2)}}}"
        head = [*(f"% {note}" for note in notes), begin, r"\toprule", titles, r"\midrule"]
        return "\n".join([*head, *rest, r"\bottomrule", r"\end{tabular}"])

    def report(self) -> Report:
        """Return a page with the table, and curves of gaps against time."""
        above, tables = self._against_time()
        gaps = [
            Curve(k, "relative_gap", entry.method, k)
            for k, entry in enumerate(self._drawn())
            if entry.certificate is not None and entry.certificate.valid
        ]
        charts = [above] if math.isfinite(self.lower_bound) else []
        if gaps:
            title, xs = "gap that the method has proven", [*above.xs, ("iteration", "iterations")]
            charts.append(replace(above, id="chart-gap", title=title, xs=xs, curves=gaps))
        return Report(
            title=self.title,
            subtitle=f"{len(self.entries)} methods",
            sections=[
                Section("The table", [self._html()]),
                Section("Gaps against time", [], charts),
                versions_section(),
            ],
            tables=tables,
        )

    def _drawn(self) -> list[Entry]:
        return [entry for entry in self.entries if entry.records]

    def _against_time(self) -> tuple[Chart, list[Table]]:
        """Return a chart of how far objectives are above the bound, and a table of each method."""
        tables: list[Table] = [
            {
                **table_of_run(entry.records),
                "above": [finite(self._above(record.objective)) for record in entry.records],
            }
            for entry in self._drawn()
        ]
        curves = [Curve(k, "above", entry.method, k) for k, entry in enumerate(self._drawn())]
        title, xs = "above the best lower bound", [("seconds", "seconds")]
        chart = Chart("chart-above", title, xs, curves, log=True, loggable=True, steps=True)
        return chart, tables

    def _shown(self) -> tuple[list[list[str]], list[str]]:
        """Return titles and rows as they are printed, and the notes below them."""
        rows = self.rows()
        cells = [[_cell(name, row[name]) for name in _TITLES] for row in rows]
        notes = [f"{row['method']}: {row['note']}" for row in rows if row["note"]]
        return [[*_TITLES.values()], *cells], notes

    def _html(self) -> Html:
        (titles, *cells), notes = self._shown()
        below = [element("p", note, class_="note") for note in notes]
        return element("div", html_table(titles, cells, words=(0, 1)), *below)

    def _repr_html_(self) -> str:
        """Return the table and a chart for notebooks."""
        chart, tables = self._against_time()
        return element("div", self._html(), chart.picture(tables))

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        return f"Comparison({self.title!r}, {len(self.entries)} methods)"


_NAMES = ("method", "status", "objective", "lower_bound", "gap", "above", "iterations",
          "evaluations", "seconds", "note")  # fmt: skip
_TITLES = {name: name for name in _NAMES if name not in ("lower_bound", "note")}
_TITLES |= {"gap": "proven gap", "above": "above bound"}
_IN_LATEX = str.maketrans(
    {letter: f"\\{letter}" for letter in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
)


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if name in ("gap", "above"):
        return f"{value:.2e}"
    if name == "objective":
        return f"{value:.8g}"
    if name == "seconds":
        return f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


Methods = Sequence[str | AnySolver] | Mapping[str, str | AnySolver]


def compare(
    problem: Any,
    methods: Methods,
    X: Any = None,
    y: Any = None,
    *,
    peers: bool = False,
    tol: float | None = None,
    max_iter: int | None = None,
    time_limit: float | None = None,
    fit_params: Mapping[str, Any] | None = None,
) -> Comparison:
    """Run several methods on one problem, and put what they did side by side.

    Each method first runs for one iteration that is not counted, so that no compilation is.

    Parameters
    ----------
    problem : Problem or estimator
        A risk and a regularizer, ``cp.Problem(risk, cp.L2(lam))``; or an estimator, which is fitted
        to ``X`` and ``y`` with each method.
    methods : sequence of names or methods, or a mapping from names to them
        Such as ``["bmrm", "level", cp.newton()]``. A method that cannot be used on the problem gets
        a line that says why.
    X, y : optional
        Data, for an estimator.
    peers : bool
        For a `LinearClassifier` of two classes or a `LinearRegressor`: also fit the models of
        scikit-learn that have the same objective, to several tolerances each.
    tol, max_iter, time_limit : optional
        As for `minimize`; for an estimator, those of its parameters by default. ``time_limit`` is
        for each method.
    fit_params : mapping, optional
        What else the estimator's ``fit`` takes, such as ``qid``.

    Returns
    -------
    Comparison
        After Ctrl-C with the methods that were run.

    Examples
    --------
    >>> import numpy as np
    >>> import cutplane as cp
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> risk = cp.ScoredRisk(cp.as_rows(X), np.sign(X[:, 0]), cp.Hinge())
    >>> found = cp.compare(cp.Problem(risk, cp.L2(0.01)), ["bmrm", "level"])
    >>> [row["status"] for row in found.rows()]
    ['optimal', 'optimal']
    """
    named = _named(methods)
    given = {"tol": tol, "max_iter": max_iter, "time_limit": time_limit}
    options = {name: value for name, value in given.items() if value is not None}
    if isinstance(problem, Problem):
        if X is not None or y is not None or peers or fit_params:
            raise ValueError("X, y, peers and fit_params are for an estimator, not for a Problem")
        title = f"{type(problem.risk).__name__} with {problem.regularizer!r}"
    elif isinstance(problem, Estimator):
        if X is None or y is None:
            raise ValueError("an estimator is compared on data: give X and y")
        if peers:
            require_in_memory("compare(peers=True)", X, "scikit-learn's models need X.compute()")
        problem = clone(problem).set_params(**options)
        title = f"{type(problem).__name__}"
        if isinstance(getattr(problem, "loss", None), str):
            title += f", {problem.loss} loss"
    else:
        raise TypeError(f"problem must be a Problem or an estimator, got {problem!r}")
    found, fitted = Comparison(title), None
    with held():
        for name, method in named.items():
            try:
                if isinstance(problem, Problem):
                    entry = _minimized(problem, name, method, options)
                else:
                    entry, fitted = _fitted(problem, name, method, X, y, fit_params or {})
            except (ValueError, TypeError, AttributeError) as error:
                refused = sum(each.certificate is None for each in found.entries) + 1
                if refused == len(named):
                    raise  # the problem is at fault
                entry = Entry(name, note=" ".join(str(error).split()))
            found.entries.append(entry)
            if interrupted_so_far():
                return found
        if peers and fitted is not None:
            found.entries.extend(_peers(fitted, X, y, weighted=bool(fit_params)))
    return found


def _named(methods: Methods) -> dict[str, str | AnySolver]:
    """Return the methods by name; of those with the same name, later ones are numbered."""
    if isinstance(methods, str):
        raise ValueError(f"methods must be a list of names or methods, got {methods!r}")
    if isinstance(methods, Mapping):
        return dict(methods)
    named: dict[str, str | AnySolver] = {}
    for method in methods:
        name = method if isinstance(method, str) else method.name
        again = sum(other.partition(" #")[0] == name for other in named)
        named[name if not again else f"{name} #{again + 1}"] = method
    if not named:
        raise ValueError("there is no method to compare")
    return named


def _minimized(
    problem: Problem, name: str, method: str | AnySolver, options: dict[str, Any]
) -> Entry:
    """Minimize the problem by a method."""
    if isinstance(method, str):
        method = look_up("method", method, ROBUST_METHODS | STRUCTURED_METHODS)(problem)
    minimize(problem.risk, problem.regularizer, method=method, max_iter=1)
    result = minimize(problem.risk, problem.regularizer, method=method, **options)
    return Entry(name, result.history, result.certificate)


def _fitted(
    estimator: Any, name: str, method: str | AnySolver, X: Any, y: Any, given: Mapping[str, Any]
) -> tuple[Entry, Any]:
    """Fit the estimator by a method; return the model too."""
    first = clone(estimator).set_params(method=method, max_iter=1, callbacks=())
    model = clone(estimator).set_params(method=method)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the table says how a fit ended
        first.fit(X, y, **given)
        model.fit(X, y, **given)
    certificate = mean_certificate(of_problems(model, "certificate_"))
    return Entry(name, mean_run(of_problems(model, "history_")), certificate), model


def _peers(fitted: Any, X: Any, y: Any, *, weighted: bool) -> Iterator[Entry]:
    """Fit the models of scikit-learn with the same objective."""
    if not isinstance(fitted, LinearClassifier | LinearRegressor) or weighted:
        yield Entry("peers", note="there are none for this estimator, or with weights")
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fits before this have given them
        plan = fitted._plan(fitted._examples(X, y, None))
    n, n_features = float(plan.examples.weights.sum()), fitted.n_features_in_
    makers = peers_of(fitted, plan.regularizer.lam, n, n_features)
    plain = [risk.n_parameters for risk in plan.risks] == [n_features]
    if not makers or not plain or getattr(fitted, "class_weight", None) is not None:
        yield Entry("peers", note=f"there are none for the {fitted.loss} loss with these options")
        return
    problem = Problem(plan.risks[0], plan.regularizer)
    turned = fitted._is_turned()
    for name, make in makers.items():
        records = list(
            fits_of_peer(make, problem, X, y, turned=turned, time_limit=fitted.time_limit)
        )
        worth = list[Record]()  # the fits that came out lower than all that took less time
        for record in sorted(records, key=lambda record: (record.seconds, record.objective)):
            if not worth or record.objective < worth[-1].objective:
                worth.append(record)
        yield Entry(name, worth)


TOLERANCES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-6)
"""Each peer is fitted to all of them: a tolerance means something else to each."""

Make = Callable[..., Any]


def peers_of(estimator: Any, lam: float, n: float, n_features: int) -> dict[str, Make]:
    """Return the peers for an estimator's loss by name; each makes a model for a ``tol``."""
    from sklearn.linear_model import LogisticRegression, Ridge, SGDClassifier
    from sklearn.svm import LinearSVC, LinearSVR

    common = {"fit_intercept": estimator.fit_intercept, "max_iter": 10_000}
    seeded, epsilon = common | {"random_state": 0}, getattr(estimator, "epsilon", 0.0)
    logistic, svc, svr = (
        partial(of, C=1.0 / (lam * n), **seeded)
        for of in (LogisticRegression, LinearSVC, LinearSVR)
    )
    sgd, insensitive = partial(SGDClassifier, alpha=lam, **seeded), "epsilon_insensitive"
    known: dict[str, dict[str, Make]] = {
        loss: {"LinearSVC": partial(svc, loss=loss), "SGDClassifier": partial(sgd, loss=loss)}
        for loss in ("hinge", "squared_hinge")
    }
    known |= {
        "logistic": {
            "LogisticRegression, lbfgs": partial(logistic, solver="lbfgs"),
            "LogisticRegression, newton-cholesky": partial(logistic, solver="newton-cholesky"),
            "SGDClassifier": partial(sgd, loss="log_loss"),
        },
        "squared": {"Ridge": partial(Ridge, alpha=lam * n, **common)},
        "absolute": {"LinearSVR": partial(svr, loss=insensitive, epsilon=0.0)},
        insensitive: {"LinearSVR": partial(svr, loss=insensitive, epsilon=epsilon)},
        f"squared_{insensitive}": {
            "LinearSVR": partial(svr, loss=f"squared_{insensitive}", epsilon=epsilon)
        },
    }
    if n_features > 2_000:  # of which it keeps a matrix of their number squared
        del known["logistic"]["LogisticRegression, newton-cholesky"]
    return known.get(str(estimator.loss), {})


def fits_of_peer(
    make: Make, problem: Problem, X: Any, y: Any, *, turned: bool, time_limit: float | None
) -> Iterator[Record]:
    """Yield a record for each tolerance, the coarsest first, until the time for all is over."""
    begin = time.perf_counter()
    for fits, tol in enumerate(TOLERANCES, start=1):
        model = make(tol=tol)
        with warnings.catch_warnings():
            # That it did not converge shows in its objective.
            warnings.simplefilter("ignore")
            started = time.perf_counter()
            model.fit(X, y)
            seconds = time.perf_counter() - started
        coef = np.ravel(np.asarray(model.coef_, dtype=np.float64))
        point = problem.risk.at(-coef if turned else coef)
        yield Record(fits, problem.objective(point), -np.inf, fits, 0, seconds)
        if time_limit is not None and time.perf_counter() - begin > time_limit:
            return
