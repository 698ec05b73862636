"""Trees of data come back exactly: types, bits, layouts, and what was one object."""

import json
import math
import sys
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import cutplane as cp
from cutplane.checkpoints.codec import Codec, Encoded, Unknown, Unstorable
from cutplane.core.certificate import Record


class Color(StrEnum):
    RED = "red"


class Pair(NamedTuple):
    first: object
    second: object


@dataclass(frozen=True, slots=True)
class Frozen:
    number: float
    inner: object = None


@dataclass
class Open:
    name: str
    parts: list = field(default_factory=list)


class Plain:
    def __init__(self, value):
        self.value = value


HERE = Codec({}, [__name__])


def passed(value, codec=HERE):
    """Encode, write as text, read, decode."""
    tree, arrays = codec.encode(value)
    text = json.dumps(tree)
    copies = {
        name: np.frombuffer(array.tobytes(), np.uint8).copy() for name, array in arrays.items()
    }
    return codec.decode(Encoded(json.loads(text), copies))


def same(a, b):
    """Whether two trees are equal to the last bit, including the types of everything."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float | np.generic):
        return np.asarray(a).tobytes() == np.asarray(b).tobytes()
    if isinstance(a, np.ndarray):
        flags = [(x.dtype, x.shape, x.flags.writeable, x.flags.f_contiguous) for x in (a, b)]
        return flags[0] == flags[1] and a.tobytes() == b.tobytes()
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return same(list(a.items()), list(b.items()))
    if isinstance(a, Frozen):
        return same((a.number, a.inner), (b.number, b.inner))
    if isinstance(a, Open):
        return same(vars(a), vars(b))
    return a == b


ARRAYS = hnp.arrays(
    st.sampled_from(["f8", "f4", "i8", "i4", "u8", "u1", "?", "c16", "U3", ">f8"]),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.sampled_from([math.nan, math.inf, -math.inf, -0.0]),
    st.text(),
    st.just(Color.RED),
    st.integers(0, 2**64 - 1).map(np.uint64),
    st.floats().map(np.float64),
    st.booleans().map(np.bool_),
    ARRAYS,
    ARRAYS.map(np.asfortranarray),
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner),
        st.lists(inner).map(tuple),
        st.dictionaries(st.one_of(st.text(), st.integers()), inner),
        st.builds(Pair, inner, inner),
        st.builds(Frozen, st.floats(allow_nan=False), inner),
        st.builds(Open, st.text(), st.lists(inner)),
        st.lists(st.builds(Frozen, st.floats(), st.integers(-(2**63) + 1, 2**63 - 1)), min_size=8),
    ),
    max_leaves=12,
)


@given(TREES)
def test_every_tree_comes_back(tree):
    assert same(passed(tree), tree)


def test_read_only_arrays_stay_so_and_views_become_whole():
    array = np.arange(6.0).reshape(2, 3)
    array.flags.writeable = False
    found, part = passed([array, np.arange(10)[::2]])
    assert not found.flags.writeable
    assert part.flags.writeable
    assert part.flags.c_contiguous
    assert part.tolist() == [0, 2, 4, 6, 8]


def test_what_was_one_object_is_one_again():
    array, shared = np.ones(3), Open("x")
    shared.parts.append(shared)
    first, second, again, found = passed([array, array, {"o": shared}, shared])
    assert first is second
    assert again["o"] is found
    assert found.parts[0] is found


def test_a_long_history_is_columns():
    history = [Record(i, 1.0 / (i + 1), -math.inf, 2 * i, i, 0.5 * i) for i in range(100)]
    tree, arrays = Codec({}).encode(history)
    assert len(arrays) == 6
    assert len(json.dumps(tree)) < 1000
    assert Codec({}).decode(Encoded(tree, arrays)) == history


def test_what_is_given_is_not_stored():
    risk = cp.FunctionRisk(lambda w: (float(w @ w), 2 * w), 3)
    codec = Codec({"risk": risk}, [__name__])
    tree, arrays = codec.encode(Open("x", [risk, np.ones(2)]))
    assert len(arrays) == 1
    assert codec.decode(Encoded(tree, arrays)).parts[0] is risk


def test_parts_of_what_is_given_have_names_and_what_came_later_is_data():
    data, later = np.ones(4), np.zeros(4)
    problem = Open("x", [data])
    problem.rows = Open("rows")
    problem.rows.values = data
    codec = Codec({"problem": problem}, [__name__])
    problem.last = later
    tree, arrays = codec.encode([data, problem.rows, later])
    assert len(arrays) == 1
    found = codec.decode(Encoded(tree, arrays))
    assert found[0] is data
    assert found[1] is problem.rows
    assert found[2] is not later
    assert same(found[2], later)


def test_an_empty_tuple_is_never_a_part_of_the_problem():
    codec = Codec({"problem": Open("x", ())}, [__name__])
    assert codec.encode(()).tree["root"] == {"tuple": []}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (lambda w: w, r"^state\[0\] is a function"),
        (sys, r"^state\[0\] is a module"),
        (Open("x", [object()]), r"^state\[0\]\.parts\[0\] is a object"),
        (np.array([None]), r"^state\[0\] is an array of object"),
        (np.zeros(2, dtype=[("a", int)]), r"^state\[0\] is an array of \["),
        (np.ma.zeros(2), r"^state\[0\] is a MaskedArray"),
    ],
)
def test_what_is_no_data_is_refused_with_its_place(value, message):
    with pytest.raises(Unstorable, match=message):
        HERE.encode([value])


def test_classes_of_other_modules_are_refused_both_ways():
    with pytest.raises(Unstorable, match="Frozen"):
        Codec({}).encode(Frozen(1.0))
    tree, arrays = HERE.encode(Frozen(1.0))
    with pytest.raises(Unknown, match="not one of cutplane's classes"):
        Codec({}).decode(Encoded(tree, arrays))


@pytest.mark.parametrize(
    "name",
    [
        "os:system",
        "subprocess:Popen",
        "cutplane.core.state:numpy",
        "cutplane.core.state:Missing",
        "cutplane.core.state:math.inf",
        "cutplane.nowhere:State",
        "",
    ],
)
def test_names_lead_nowhere_else(name):
    tree = {"root": {"object": 0}, "objects": [{"type": name, "fields": {}}], "arrays": []}
    with pytest.raises(Unknown):
        HERE.decode(Encoded(tree, {}))


def test_nothing_is_called(monkeypatch):
    def fail(*_):
        raise AssertionError

    tree, arrays = HERE.encode([Plain(1), Open("x")])
    for kind in (Plain, Open):
        monkeypatch.setattr(kind, "__init__", fail)
        monkeypatch.setattr(kind, "__setattr__", fail)
    plain, opened = HERE.decode(Encoded(tree, arrays))
    assert plain.value == 1
    assert opened.name == "x"


WORDS = ["object", "array", "tuple", "dict", "named", "items", "enum", "member", "given", "table"]


@given(
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(WORDS), inner),
    )
)
def test_any_other_text_is_refused_or_data(node):
    for tree in (node, {"root": node, "objects": [], "arrays": []}):
        try:
            found = HERE.decode(Encoded(tree, {}))
        except Unknown:
            continue
        assert isinstance(found, type(None) | bool | int | float | str | list | tuple | dict)


def test_enumerations_are_known_by_their_members():
    assert passed(cp.Status.STALLED) is cp.Status.STALLED
    assert issubclass(Color, Enum)
    tree, arrays = HERE.encode(Color.RED)
    tree["root"]["member"] = "mro"
    with pytest.raises(Unknown):
        HERE.decode(Encoded(tree, arrays))
