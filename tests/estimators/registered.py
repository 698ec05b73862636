"""Small data for any estimator of the registry, from what its description says."""

import numpy as np

import cutplane as cp
from cutplane.estimators.description import Reads, Targets

_rng = np.random.default_rng(0)
_X = _rng.normal(size=(60, 3)) + 1.0
_SCORES = _X @ [1.0, -1.0, 0.5] + 0.1 * _rng.normal(size=60)
_GRADES = np.digitize(_SCORES, np.quantile(_SCORES, [0.3, 0.7]))
_TARGETS = {
    Targets.CLASSES: _X.argmax(axis=1),
    Targets.GRADES: _GRADES,
    Targets.RELEVANCE: _GRADES,
    Targets.NUMBERS: _SCORES,
    Targets.VECTORS: np.column_stack([_SCORES, _X[:, 0] - _SCORES]),
    Targets.LABEL_SETS: (_X > 1.0).astype(int),
    Targets.NOTHING: None,
}


def made(of, **options):
    """Return an estimator with a loose tolerance."""
    needed = {"model": cp.MulticlassModel()} if of.description.reads is Reads.STRUCTURES else {}
    quick = {"lams": [1.0, 0.1], "cv": 2} if of.description.becomes else {}
    return of(**needed, **quick, **{"tol": 1e-2} | options)


def plain_methods(of):
    """Return two methods for it: one by name, another one itself."""
    return ("bmrm", cp.level()) if "bmrm" in of.description.methods else ("nrbm", cp.nbm())


def data_for(of):
    """Return what to fit it to: X, y and more by name."""
    reads, targets = of.description.reads, of.description.targets
    if reads in (Reads.SEQUENCES, Reads.FRAMES) and targets is Targets.TAGS:
        return [_X[i : i + 6] for i in range(0, 60, 6)], _GRADES.reshape(-1, 6).tolist(), {}
    if reads is Reads.FRAMES:
        order = np.argsort(_SCORES)
        return [_X[order[i : i + 4]] for i in range(0, 60, 4)], np.arange(15) // 5, {}
    if reads is Reads.STRUCTURES:
        return _X, _GRADES, {}
    more = {"qid": np.arange(60) // 10} if reads is Reads.QUERIES else {}
    return _X, _TARGETS[targets], more


def fitted(of, **options):
    """Return the estimator, fitted to its data."""
    X, y, more = data_for(of)
    return made(of, **options).fit(X, y, **more)
