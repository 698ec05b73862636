"""What the parts of a state look like: types, shapes and ranges, in terms of the problem.

Compiled loops do not look whether an index is in range, and a state comes from a file. So before a
state is used, each part of it is compared with what is written here; numbers as such are believed
(see `key`), but none of them leads a loop out of an array. A class is known by its name:

    "Balance": {"radius": "real", "t": "count", "center": "f8[p]", ...}

has an array with a number for each of the ``p`` parameters. What may be missing, because it is
computed when it is first asked for, has a question mark behind its name.

What a solver of the library remembers is not listed. A dataclass says it in the types of its fields
(`layout_of`), and what has to be true of several of them in a method ``fits(risk, solver)``. Parts
of a user's own classes are taken as they are.

=============  ====================================================================================
``float``      finite
``real``       a float that is not NaN, maybe infinite
``count``      a whole number, not negative; a ``number`` may be too large to be counted to
``f8[n, *]``   a finite array: 8 or 4 bytes a float (f) or whole number (i, u), 1 a truth (b)
``f8~[n]``     maybe with entries that are not finite
``<n``         and numbers from 0 to n - 1; ``>=0``: that are not negative
``=risk.data`` the very part of the problem, and nothing else
``None``       nothing; a class by its name; ``a | b`` one or the other
``planes``     a dictionary of lists of planes
=============  ====================================================================================

The letters: ``p`` parameters, ``n`` examples, ``d`` features, ``c`` columns of scores, ``k``
planes, ``g`` groups of planes; ``t`` tokens, ``s`` sequences and ``l`` labels of chains, and ``b``
blocks of sequences; ``scores`` stands for the shape of all scores. Other letters are those that
`cutplane.checkpoints.checking` takes from the same part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from cutplane.compute.arrays import Vector

# The points of each kind of risk; those of others are taken as they are.
POINTS = {
    "ScoredRisk": "ScoredPoint",
    "KernelRisk": "ScoredPoint",
    "ChainRisk": "ChainPoint | KeptPoint",
    "StructuredRisk": "StructuredPoint",
    "WeightedSum": "SumPoint | SearchableSumPoint",
    "FunctionRisk": "KeptPoint",
    "HMMRisk": "KeptPoint",
    "TorchRisk": "KeptPoint",
}

LAYOUTS: dict[str, dict[str, str]] = {
    # What every run has.
    "Run": {
        "problem": "=problem", "method": "=method", "bundle": "Bundle", "best": "point",
        "objective": "float", "own": "unseen", "lower": "real", "convex": "bool",
        "iteration": "count", "evaluations": "count", "seconds": "float", "seconds_left": "real",
        "enough": "real", "last_step": "real | None", "stopped": "bool", "interrupted": "bool",
        "stalled_for": "count", "stationarity": "Stationarity | None",
        "convex_step": "Certificate | None", "refuted": "bool", "history": "list of Record",
    },
    "Record": {
        "iteration": "count", "objective": "float", "lower_bound": "real", "evaluations": "count",
        "planes": "count", "seconds": "float",
    },
    "Stationarity": {"radius": "real", "slope": "real", "tolerance": "real"},
    "Certificate": {
        "objective": "real", "lower_bound": "real", "status": "Status", "valid": "bool",
        "reason": "str",
    },
    "Bundle": {
        "metric": "=metric", "n_groups": "count", "_slopes": "unseen", "_gram": "unseen",
        "slots": "unseen", "held": "unseen", "_flat": "b1[k]", "groups": "i8[k]<g",
        "offsets": "f8[k]", "centered_offsets": "f8[k]", "tilts": "f8[k]", "localities": "f8[k]",
        "alpha": "f8[k]>=0", "idle": "i8[k]>=0", "numbers": "i8[k]>=0", "_n_added": "count",
        "_qp": "SimplexQP", "floor": "real", "_measured?": "measured | None",
    },
    "PolicyStates": {
        "stabilizer": "unseen", "memory": "unseen", "query": "unseen", "cuts": "unseen",
    },
    "SimplexQP": {
        "base": "i8[*]<k", "support": "i8[m]", "factor": "f8~[m, m]", "size": "count",
        "scale": "float", "free": "float", "warm": "f8[*]",
    },
    "Plane": {"slope": "f8[p]", "offset": "float", "tilt": "float", "locality": "float"},
    "Candidate": {"w": "f8[p]", "lower": "real", "model": "real"},
    # Points.
    "KeptPoint": {
        "w": "f8[p]", "value": "float", "touching": "Plane", "flatter": "Plane | None",
    },
    "_Place": {"w": "f8[p]"},
    "ScoredPoint": {
        "_risk": "=risk", "w": "f8[p]", "scores": "f8[scores] | f4[scores]",
        "_group_planes": "planes", "_at": "AtBestOffset", "_plane?": "Plane",
        "intercept?": "f8[*] | f8[*, *] | float",
    },
    "AtBestOffset": {"offset": "unseen", "value": "float", "witness": "witness"},
    "BestOffsets": {
        "base": "f8[c]", "shifts": "f8[c]", "temperature": "float", "steps": "count",
    },
    "ChainPoint": {
        "_risk": "=risk", "w": "f8[p]", "scores": "ChainScores", "_group_planes": "planes",
        "outcome?": "WorstLabels | Marginals", "_plane?": "Plane",
    },
    "ChainScores": {
        "emissions": "f8[t, l] | f4[t, l]", "transitions": "f8[l, l]", "start": "f8[l]",
        "end": "f8[l]",
    },
    "WorstLabels": {
        "_data": "=risk.data", "labels": "i4[t]<l", "mistakes": "i8[s]>=0 | f8[s]",
        "value": "float",
    },
    "Marginals": {
        "losses": "f8[s]", "value": "float", "_slopes": "ChainSlopes",
        "_chains": "=risk.data.chains", "_weights": "=risk.data.weights",
    },
    "ChainSlopes": {"emissions": "f8[t, l]", "transitions": "f8[b, l, l]", "offsets": "f8[b]"},
    "StructuredPoint": {
        "w": "f8[p]", "examples": "=risk._used", "losses": "f8[u]", "indices": "i8[e]<p",
        "values": "f8[e]", "starts": "i8[*]>=0", "_weights": "f8[u]", "_planes": "planes",
        "_owners?": "i8[e]<u", "value?": "float",
    },
    # What stabilizers, queries and cuts remember, and what solvers may begin with.
    "LastSearch": {"objective": "real", "distance": "real"},
    "LastWeight": {"mu": "real", "plain": "PlainBound"},
    "PlainBound": {"solver": "SimplexQP", "numbers": "i8[k]>=0", "alpha": "f8[k]>=0"},
    "Course": {
        "center": "f8[p]", "objective": "real", "weight": "real",
        "candidate": "Candidate | None", "plain": "PlainBound",
    },
    "Balance": {
        "radius": "real", "t": "count", "total": "real", "center": "f8[p]", "iterate": "f8[p]",
        "plain": "PlainBound",
    },
    "ChainCurvature": {"factors": "f8[l, d, d]", "inverses": "f8[*]"},
}  # fmt: skip

# Types of fields that say all by themselves: a vector is one of parameters, unless it is Annotated.
_SPECS: dict[Any, str] = {
    float: "real",
    int: "count",
    bool: "bool",
    str: "str",
    NoneType: "None",
    Vector: "f8[p]",
    NDArray[np.uint64]: "u8[1]",
}

# Classes whose parts are taken as they are: layers of PyTorch are what the user says.
_AS_THEY_ARE = {"NetworkCurvature", "LayerCurvature"}


@cache
def layout_of(kind: type) -> Mapping[str, str] | None:
    """Return the layout of a class, from the table or from the types of its fields.

    None if parts of such a class are taken as they are.
    """
    name = kind.__name__
    if name in LAYOUTS:
        return LAYOUTS[name]
    if name in _AS_THEY_ARE or not kind.__module__.startswith("cutplane."):
        return None
    if (names := _names_of(kind)) is None:
        return None
    hints = get_type_hints(kind, include_extras=True)
    return {each: spec_of(hints[each]) for each in names}


def spec_of(hint: Any) -> str:
    """Return what a type says of a part: for ``Annotated[Vector, "f8[n]"]`` it is ``"f8[n]"``."""
    origin = get_origin(hint)
    if origin is Annotated:
        return str(get_args(hint)[1])
    if origin in (Union, UnionType):
        return " | ".join(map(spec_of, get_args(hint)))
    if hint in _SPECS:
        return _SPECS[hint]
    if isinstance(hint, type) and (hint.__name__ in LAYOUTS or _names_of(hint)):
        return hint.__name__
    raise TypeError(f"{hint} does not say what a part looks like: annotate it, as with 'f8[n]'")


def _names_of(kind: type) -> list[str] | None:
    """Return the names of the fields of a dataclass, or of a named tuple."""
    if is_dataclass(kind):
        return [part.name for part in fields(kind)]
    return list(kind._fields) if issubclass(kind, tuple) and hasattr(kind, "_fields") else None
