"""What an experiment is: a table or a figure of a paper, recomputed; and the data of several.

Data are read from the folder that ``CUTPLANE_DATA`` names. If it is not set, or the data are not
there, an InputError is raised.
"""

from __future__ import annotations

import gzip
import os
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

import cutplane as cp
from cutplane.compute.arrays import Vector
from cutplane.core.certificate import Result
from cutplane.core.protocols import Risk
from cutplane.io import InputError, SvmlightData, read_svmlight
from cutplane.report.figures import in_words

Row = dict[str, Any]
"""One line of results, by the names of the columns; curves for a picture may be among them."""

Progress = Callable[[float, str], None]
"""Is told the share of the work that is done, from 0 to 1, and what comes next."""

Published = dict[str, dict[Any, tuple[float, ...]]]
"""The figures of a printed table, by the name of a column and what a row begins with."""


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A table or a figure of a paper.

    Attributes
    ----------
    name : str
        What the command line calls it.
    title : str
        What it shows, in one line.
    run : callable
        Computes the rows, and tells its progress. If it yields them one by one, those that are
        finished survive an interruption.
    columns : mapping
        The keys of a row that the table shows, and the titles of their columns.
    paper : str
        What the paper found, to compare with.
    picture : callable, optional
        Draws the rows as a matplotlib figure, where the paper has one.
    """

    name: str
    title: str
    run: Callable[[Progress], Iterable[Row]]
    columns: Mapping[str, str]
    paper: str = ""
    picture: Callable[[Sequence[Row]], Any] | None = None


def experiment(
    name: str,
    run: Callable[[Progress], Iterable[Row]],
    picture: Callable[[Sequence[Row]], Any] | None = None,
) -> Experiment:
    """Return an experiment, whose words are in ``experiments.toml``."""
    words = tomllib.loads(_text_of("experiments.toml"))
    own = words[name]
    own = words.get(own.pop("like", None), {}) | own
    if isinstance(own["columns"], list):  # keys that are their own titles
        own["columns"] = dict(zip(own["columns"], own["columns"], strict=True))
    return Experiment(name=name, run=run, picture=picture, **own)


@cache
def _text_of(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


def minimize(*args: Any, **options: Any) -> Result:
    """Minimize as `cutplane.minimize` does, but pass Ctrl-C on, which that turns into a result."""
    result = cp.minimize(*args, **options)
    if result.state.interrupted:  # in the last moment too, when the result is optimal all the same
        raise KeyboardInterrupt
    return result


class _Enough(Exception):
    """What was asked for is reached."""


def scipy_l_bfgs(
    risk: Risk, regularizer: cp.L2, start: Vector, enough: Callable[[float], bool]
) -> tuple[float, Vector]:
    """Run SciPy's L-BFGS until it is told of an objective that is enough; return the lowest."""
    import scipy.optimize  # slow, and seldom needed

    problem, best = cp.Problem(risk, regularizer), (np.inf, start)

    def evaluate(w: Vector) -> tuple[float, Vector]:
        nonlocal best
        point = risk.at(w)
        objective = problem.objective(point)
        if objective < best[0]:
            best = (objective, w.copy())
        if enough(objective):
            raise _Enough
        return objective, regularizer.gradient(w) + point.plane().slope

    with suppress(_Enough):
        scipy.optimize.minimize(
            evaluate, start, jac=True, method="L-BFGS-B", options={"maxiter": 10_000}
        )
    return best


@dataclass
class Watch:
    """Remembers the last point within a budget, and when a run was first as low as a goal."""

    budget: int
    most: int  # evaluations: then the run ends
    goal: float = -np.inf
    w: Vector | None = None
    objective: float = np.inf
    reached: int | None = None

    def __call__(self, state: cp.State) -> bool:
        """Look at the state, and say whether the run is to end."""
        if self.w is None or state.evaluations <= self.budget:
            self.w, self.objective = state.best.w, state.objective
        if self.reached is None and state.objective <= self.goal:
            self.reached = state.evaluations
        return state.evaluations >= self.most


def settings(progress: Progress, **choices: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
    """Yield every combination of some choices, the last varying fastest; first tell of each."""
    combinations = list(product(*choices.values()))
    for done, combination in enumerate(combinations):
        named = zip(choices, combination, strict=True)
        progress(done / len(combinations), ", ".join(in_words(*each) for each in named))
        yield combination


def first(conditions: Iterable[bool]) -> int | None:
    """Return the number, from 1 on, of the first condition that holds."""
    return next((number for number, holds in enumerate(conditions, 1) if holds), None)


def printed_table(name: str) -> Published:
    """Return the figures of a table in ``printed.txt``: bars stand between cells."""
    sections = _text_of("printed.txt").strip().split("\n\n")
    (lines,) = (lines for title, *lines in map(str.splitlines, sections) if title == name)
    (_, *names), *rows = ([*map(str.strip, line.split("|"))] for line in lines)
    return {
        name: {_number(row[0]): tuple(map(_number, row[k].split())) for row in rows}
        for k, name in enumerate(names, 1)
    }


def _number(text: str) -> Any:
    """Return a number, or the text if it is none."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


def load(name: str, part: str = "train") -> tuple[Any, Vector]:
    """Return the features of a part of a data set, in CSR, and its labels -1 and 1.

    Of 20 Newsgroups, the first ten groups are told from the other ten.
    """
    folder = folder_of(name)
    with missing_files_told(name):
        if name == "news20_ng":
            with np.load(folder / "uni_labels.npz") as file:
                y = np.where(file[part] < 10, 1.0, -1.0)
            return scipy.sparse.load_npz(folder / f"uni_{part}_X.npz"), y
        y = np.load(folder / f"{part}_y.npy").astype(np.float64)
        return scipy.sparse.load_npz(folder / f"{part}_X.npz"), y


class Words(NamedTuple):
    """Words as sequences of letters: pixels of all letters, their labels, and where words begin."""

    X: Any
    y: NDArray[np.int64]
    offsets: NDArray[np.int64]


def load_words() -> tuple[Words, Words]:
    """Return the words that paper 004 trains on (folds 0 to 7), and those it tests on."""
    folder = folder_of("ocr_letters")
    with missing_files_told("ocr_letters"), np.load(folder / "ocr_letters.npz") as file:
        pixels = np.unpackbits(file["X"], axis=1).astype(np.float64)
        y, offsets, fold = file["y"].astype(np.int64), file["offsets"], file["fold"]
    lengths = np.diff(offsets)
    parts = []
    for chosen in (fold < 8, fold >= 8):
        letters = np.repeat(chosen, lengths)
        ends = np.concatenate(([0], np.cumsum(lengths[chosen])))
        parts.append(Words(scipy.sparse.csr_array(pixels[letters]), y[letters], ends))
    return parts[0], parts[1]


def load_mnist() -> Iterator[tuple[NDArray[np.uint8], NDArray[np.uint8]]]:
    """Yield pixels and digits: those to train on, then those to test on."""
    folder = folder_of("mnist")
    for name in ("train", "t10k"):
        images = gzip.decompress((folder / f"{name}-images-idx3-ubyte.gz").read_bytes())
        labels = gzip.decompress((folder / f"{name}-labels-idx1-ubyte.gz").read_bytes())
        digits = np.frombuffer(labels, np.uint8, offset=8)
        yield np.frombuffer(images, np.uint8, offset=16).reshape(len(digits), -1), digits


@contextmanager
def missing_files_told(name: str) -> Iterator[None]:
    """Say of a file that is missing which data set it belongs to."""
    try:
        yield
    except FileNotFoundError as error:
        raise InputError(f"CUTPLANE_DATA has no data set {name}: no {error.filename}") from error


def load_letor(name: str, parts: Sequence[str]) -> SvmlightData:
    """Return documents, relevance and queries of some files of a LETOR data set."""
    folder = folder_of(name)
    Xs, ys, qids = zip(
        *(read_svmlight(folder / f"{part}.txt.xz", queries=True) for part in parts), strict=True
    )
    return SvmlightData(scipy.sparse.vstack(Xs).toarray(), np.concatenate(ys), np.concatenate(qids))


def folder_of(name: str) -> Path:
    """Return the folder of a data set."""
    folder = os.environ.get("CUTPLANE_DATA")
    if not folder:
        raise InputError(
            f"CUTPLANE_DATA is not set: it must name the folder that holds the data set {name}"
        )
    return Path(folder) / name
