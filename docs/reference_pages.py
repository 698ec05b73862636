"""The pages of the reference: every public name, with its docstring and an example."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import cutplane
from cutplane.estimators import ESTIMATORS

HERE = Path(__file__).parent
EXAMPLES = HERE / "reference_examples.txt"

# Pages by what their names are: estimators, or names of modules that begin so; the first that fits
# counts.
PAGES = {
    "estimators": (
        "Estimators",
        ["cutplane.estimators", "cutplane.lam_proof", "cutplane.models.networks.neural_features"],
    ),
    "risks": (
        "Risks",
        ["cutplane.risks", "cutplane.data", "cutplane.cluster", "cutplane.models.networks"]
        + [f"cutplane.models.{wing}.risk" for wing in ("sequences", "speech", "structured")],
    ),
    "structured": (
        "Structured models",
        [
            f"cutplane.models.{wing}"
            for wing in ("structured", "graphs", "rna", "sequences", "speech")
        ],
    ),
    "methods": (
        "Methods",
        [
            "cutplane.solvers",
            "cutplane.models.multiclass.newton",
            "cutplane.models.multiclass.ascent",
        ],
    ),
    "losses": ("Losses", ["cutplane.losses", "cutplane.models"]),
    "regularizers": ("Regularizers", ["cutplane.regularizers"]),
    "results": ("Runs and results", ["cutplane.core", "cutplane.checkpoints"]),
    "files": ("Files and reports", ["cutplane.io", "cutplane.report"]),
}
# What may still change: see stability.md. All other names are stable.
PROVISIONAL = {
    "Checkpoint",
    "CheckpointError",
    "Graph",
    "GraphModel",
    "GaussianHMMs",
    "HMMClassifier",
    "HMMRisk",
    "HMMTagger",
    "LamProof",
    "LinearQuantiles",
    "Method",
    "MultilabelModel",
    "NeuralFeatures",
    "NonCrossing",
    "PairCounts",
    "Problem",
    "RNAFolding",
    "SharedScore",
    "ShardedRisk",
    "Solver",
    "State",
    "StructuredModel",
    "StructuredPredictor",
    "StructuredRisk",
    "TorchRisk",
    "TorchScores",
    "TransductiveClassifier",
    "Tree",
    "TreeModel",
    "VectorRegressor",
    "class_ascent",
    "class_newton",
    "block_ascent",
    "quasi_newton",
    "sharded_sample",
    "sparse_quasi_newton",
}
# What is there to compare with the papers.
OF_THE_PAPERS = {
    "Iterate",
    "Sampling",
    "adaptive",
    "balanced_proximal",
    "bmrm_without_qp",
    "kelley",
    "nbm",
    "online_proximal",
    "pegasos",
    "subgradient",
}
# Packages that are public as such, with what they export beyond the names above.
PACKAGES = ["io", "metrics", "testing"]


def examples() -> dict[str, str]:
    """Return the examples of names whose docstrings have none, and the setup of all of them."""
    _, *parts = re.split(r"^## ", EXAMPLES.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {name: body.strip() for name, body in (part.split("\n", 1) for part in parts)}


def public_names() -> dict[str, Any]:
    """Return the public names that are no packages."""
    named = {name: getattr(cutplane, name) for name in sorted(cutplane.__all__, key=str.lower)}
    return {name: value for name, value in named.items() if not inspect.ismodule(value)}


def page_of(name: str) -> str:
    """Return the page that a name belongs to."""
    if name in ESTIMATORS:
        return "estimators"
    module = public_names()[name].__module__
    for page, (_, packages) in PAGES.items():
        if any(module.startswith(package) for package in packages):
            return page
    raise LookupError(f"{name} of {module} has no page in the reference")


def status_of(name: str) -> str:
    """Return how far a name can be relied upon."""
    if name in OF_THE_PAPERS:
        return "of the papers"
    return "provisional" if name in PROVISIONAL else "stable"


def write_reference(folder: Path) -> None:
    """Write the pages, in reStructuredText."""
    folder.mkdir(exist_ok=True)
    own, names = examples(), public_names()
    pages = {page: [name for name in names if page_of(name) == page] for page in PAGES}
    for page, (title, _) in PAGES.items():
        entries = [_entry(f"cutplane.{name}", names[name], own.get(name)) for name in pages[page]]
        _write(folder / f"{page}.rst", title, entries)
    for package in PACKAGES:
        module = getattr(cutplane, package)
        entries = [inspect.getdoc(module).strip()]
        for name in module.__all__:
            if name not in names:
                entries.append(_entry(f"cutplane.{package}.{name}", getattr(module, name), None))
        _write(folder / f"{package}.rst", f"cutplane.{package}", entries)
    toctree = [".. toctree::", "   :maxdepth: 1", ""]
    toctree += [f"   {page}" for page in [*PAGES, *PACKAGES]]
    about = "Every public name. Examples without an import begin with these lines:\n\n"
    _write(folder / "index.rst", "Reference", [about + own["setup"], "\n".join(toctree)])


def _entry(path: str, value: Any, example: str | None) -> str:
    name = path.rpartition(".")[2]
    lines = [name, "-" * len(path), "", f"*Status:* :doc:`{status_of(name)} </stability>`.", ""]
    if inspect.isclass(value):
        lines += [f".. autoclass:: {path}", "   :members:"]
        if issubclass(value, BaseException) or issubclass(value, tuple):
            lines = lines[:-1]
    elif callable(value):
        lines.append(f".. autofunction:: {path}")
    else:
        lines.append(f".. autodata:: {path}")
    if example is not None:
        lines += ["", ".. rubric:: Example", "", example]
    return "\n".join(lines)


def _write(path: Path, title: str, entries: list[str]) -> None:
    text = "\n\n".join([f"{title}\n{'=' * len(title)}", *entries]) + "\n"
    # Only if it changed: what is older than its page is built again.
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
