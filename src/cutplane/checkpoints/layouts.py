"""What the parts of a state look like: types, shapes and ranges, in terms of the problem.

Compiled loops do not look whether an index is in range, and a state comes from a file. So before a
state is used, each part of it is compared with what is written here; numbers as such are believed
(see `key`), but none of them leads a loop out of an array. A class is known by its name:

    "Duals": {"beta": "f8[n]", "movable": "i8[*]<n", "offset": "float", ...}

has arrays of a number for each of the ``n`` examples, and of any number of examples. What may be
missing, because it is computed when it is first asked for, has a question mark behind its name.
Parts of classes that are not listed, such as a user's own, are taken as they are.

=============  ====================================================================================
``float``      finite
``real``       a float that is not NaN, maybe infinite; ``any float`` may be NaN
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
    # What solvers remember, and stabilizers, queries and cuts.
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
    "NewtonState": {
        "point": "ScoredPoint", "width": "real", "duals": "f8[n]", "steps": "count",
        "scores": "f8[n]", "slopes": "f8[n]", "plane": "Plane",
    },
    "Duals": {
        "beta": "f8[n]", "w": "f8[p]", "offset": "real", "movable": "i8[*]<n",
        "visited": "i8[*]<n", "reach": "real", "seed": "u8[1]", "stiffness": "f8[n]",
        "pull": "real",
    },
    "Shares": {
        "shares": "f8[n, c]", "W": "f8[d, m]", "offsets": "f8~[m]", "examples": "i8[*]<n",
        "gain": "real", "seed": "u8[1]", "stiffness": "f8[n]", "pull": "real", "lam": "real",
    },
    "ClassNewtonState": {
        "w": "f8[p]", "scores": "f8[n, c]", "offsets": "f8[c]", "width": "real",
        "centers": "f8[n, c] | f8[n, 0]", "spectrum": "Spectrum", "steps": "count",
        "shares": "f8[n, c]", "value": "real", "gradient": "f8[c, *]", "said": "real",
        "plane": "Plane", "objective": "real", "floor": "real",
    },
    "Spectrum": {
        "mean": "f8[d]", "sizes": "f8[d]", "basis": "f8[d, *]", "sums": "f8[c, d] | f8[0, d]",
        "masses": "f8[c] | f8[0]",
    },
    "Cache": {"kept": "Kept", "outputs": "Store | i4[*]"},
    "Kept": {
        "counts": "i8[n]", "losses": "f8[n, m]", "gram": "f8[n, m, m]", "idle": "i8[n, m]",
        "alpha": "f8[n, m]>=0",
    },
    "Store": {
        "indices": "i8[e]", "values": "f8~[e]", "begins": "i8[n, m]>=0", "ends": "i8[n, m]>=0",
        "used": "i8[1]>=0",
    },
    "PastSteps": {
        "steps": "f4[m, p]", "changes": "f4[m, p]", "products": "f8[m]", "slots": "slots",
        "curvature": "ChainCurvature | NetworkCurvature | PairCurvature | None",
        "next_refresh": "number",
    },
    "SparseSteps": {"past": "PastSteps", "squares": "f8[*, *]", "mixed": "f8[*, *]"},
    "PairCurvature": {"inverses": "f4[p]"},
    "ChainCurvature": {"factors": "f8[l, d, d]", "inverses": "f8[*]"},
    "DescentState": {
        "point": "ScoredPoint", "at": "AtBestOffset", "width": "real",
        "duals": "f8[n] | f8[0]", "damping": "real", "steps": "count", "share": "real",
    },
    "PairDuals": {"q": "f8[n]", "images": "f8[n]", "gap": "real"},
    "Walk": {
        "v": "f8[p]", "summed": "f8[p] | f8[0]", "chosen": "f8[p] | f8[0]",
        "facts": "f8[n, 4] | f8[0, 4]", "numbers": "f8~[13]", "seed": "u8[1]",
        "objective": "any float",
    },
    "Reference": {"w": "f8[p]", "seed": "u8[1]", "objective": "any float"},
    "StepTaken": {"possible": "real"},
    "StepsTaken": {"w": "f8[p]", "slope": "f8[p]", "delay": "real", "taken": "count"},
}  # fmt: skip
