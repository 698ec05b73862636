"""What is read is compared with the problem: every part of a state is described."""

import json
from typing import Annotated

import numpy as np
import pytest

import cutplane as cp
from cutplane.checkpoints.checking import layout_of, require_fitting, spec_of
from cutplane.checkpoints.checkpoint import Snapshots
from cutplane.checkpoints.codec import Unknown
from cutplane.checkpoints.store import Stored
from cutplane.compute.arrays import Vector
from cutplane.core.policies.bmrm import LastSearch
from cutplane.core.state import Problem
from cutplane.named import load

from .runs import HINGE, L2, LOGISTIC, RUNS, run
from .test_resume import minimized

# Those that are compared by code of their own, in `checking`.
OTHERS = {
    *("SumPoint", "SearchableSumPoint", "_Balance", "Labeling", "Flips", "Limit", "Status"),
    *("NetworkCurvature", "LayerCurvature"),  # as they are
}


def names_in(node):
    """Yield the places of all classes in a stored tree."""
    if isinstance(node, list):
        for part in node:
            yield from names_in(part)
    elif isinstance(node, dict):
        for key, part in node.items():
            if key in ("type", "named", "table", "enum") and ":" in str(part):
                yield part
            else:
                yield from names_in(part)


@pytest.mark.parametrize("name", RUNS)
def test_all_classes_of_states_are_described(name, tmp_path):
    run(name, tmp_path, max_iter=5)
    state = max(tmp_path.glob("state-*"))  # on a slow machine there is one before it
    content = state.read_bytes()
    length = int.from_bytes(content[:8], "little")
    tree = json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["tree"])
    places = {place for place in names_in(tree) if place.partition(":")[2] not in OTHERS}
    assert all(layout_of(load(place)) for place in places)


def test_a_field_must_say_what_it_looks_like():
    assert spec_of(Annotated[Vector, "f8[n]"] | None) == "f8[n] | None"
    with pytest.raises(TypeError, match="does not say what a part looks like"):
        spec_of(list)


def restored(risk, method, change=lambda state: None):
    """Return a state after a way to files and back, with something changed on the way."""
    state = minimized(None, risk=risk, method=method).state
    change(state)
    problem = state.problem
    encoded, planes = Snapshots(problem, method).take(state, 0)
    slopes = {number: planes.slope(row) for row, number in enumerate(planes.numbers.tolist())}
    return Snapshots(problem, method).restore(Stored(encoded, slopes))


def put(path, value):
    """Return a function that replaces a part of a state, even of one that never changes."""
    *way, name = path.split(".")

    def change(state):
        holder = state
        for part in way:
            holder = getattr(holder, part)
        object.__setattr__(holder, name, value)

    return change


WRONG = {
    "scores": ("best.scores", np.zeros(8)),
    "scores of another type": ("best.scores", np.zeros(120, dtype=np.int64)),
    "scores that are not finite": ("best.scores", np.full(120, np.nan)),
    "duals": ("own.duals", np.zeros(119)),
    "duals of another method": ("own", cp.Record(1, 1.0, 1.0, 1, 1, 1.0)),
    "weights": ("bundle.alpha", np.zeros(3)),
    "groups": ("bundle.n_groups", 2),
    "support": ("bundle._qp.support", np.full(1000, 10**6)),
    "size": ("bundle._qp.size", 10**6),
    "words": ("lower", "high"),
    "NaN": ("lower", float("nan")),
    "more than there was": ("stationarity", np.zeros(3)),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_is_unknown(name):
    path, value = WRONG[name]
    restored(HINGE(), cp.newton())
    with pytest.raises(Unknown, match=r"state|Bundle"):
        restored(HINGE(), cp.newton(), put(path, value))


def test_before_the_first_iteration_nothing_is_remembered():
    assert restored(HINGE(), cp.newton(), put("own", None)).own is None


def test_of_a_search_not_all_need_be_known():
    last = LastSearch(1.0, None)
    assert restored(HINGE(), cp.bmrm(), put("own.query", last)).own.query == last


def test_a_part_of_the_problem_is_no_place_to_write_to():
    risk = HINGE()
    with pytest.raises(Unknown, match=r"^not a stored state: state\.own\.duals"):
        restored(risk, cp.newton(), put("own.duals", risk.y))


def test_a_risk_that_is_not_convex_has_no_convex_states():
    risk = RUNS["nrbm, ramp"][0]()
    with pytest.raises(Unknown, match="convex is not what the risk says"):
        restored(risk, cp.nrbm(), put("convex", True))


def test_the_terms_of_a_sum_are_given(tmp_path):
    risk = HINGE() + 0.5 * LOGISTIC()
    state = restored(risk, cp.bmrm())
    for (_, term), (_, point) in zip(risk.terms, state.best.parts, strict=True):
        assert point.risk is term


def test_no_state_at_all():
    with pytest.raises(Unknown, match="it is no state"):
        require_fitting({}, Problem(HINGE(), L2), cp.bmrm(), [])
