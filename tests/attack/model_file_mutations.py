"""Model files that somebody tampered with: headers, tensors and bytes, with the right digest.

Everything is drawn from one `random.Random`, so that a seed names an input.
"""

import copy
import json

import numpy as np
from safetensors.numpy import save

from cutplane.io.models.files import Content

NASTY = [
    *(None, True, False, 0, -1, 1, 2, 3, 3000, 2**31, 2**63, 2**64, -(2**63), 10**30, 10**400),
    *(0.0, -0.0, 0.5, -0.5, 1.5, 1e-300, 1e308, 5e-324, float("nan"), float("inf"), -float("inf")),
    *(
        "",
        "x",
        "0",
        "nan",
        "a\nb",
        "\0",
        "\ud800",
        "x" * 1000,
        "softmax",
        "optimal",
        "inconsistent",
    ),
    *(
        "LinearRegressor",
        "TreeModel",
        "int8",
        "float16",
        "object",
        "hinge",
        "poisson",
        "crf",
        "all",
    ),
    *([], {}, [None], [0], [1, 2], [0.9, 0.1], ["x"], [[1]], [[[[[[]]]]]], {"a": 1}, {"": None}),
]
NUMBERS = [0.0, -0.0, -1.0, 1e-320, 1e308, -1e308, np.nan, np.inf, -np.inf, 7.0]
DTYPES = [np.float16, np.float32, np.float64, np.int8, np.int32, np.int64, np.uint8, np.bool_]


def paths_of(tree, path=()):
    """Yield where things stand in a JSON document, the root excepted."""
    if not isinstance(tree, dict | list):
        return
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
        yield (*path, key)
        yield from paths_of(value, (*path, key))


def at(tree, path):
    for key in path:
        tree = tree[key]
    return tree


def change_header(chance, model, others):
    """Change one thing in a header: a value, a type, or the structure."""
    path = chance.choice(list(paths_of(model)))
    holder, key = at(model, path[:-1]), path[-1]
    how = chance.randrange(8)
    if how <= 2:
        holder[key] = copy.deepcopy(chance.choice(NASTY))
    elif how == 3:
        holder.pop(key)
    elif how == 4:  # from elsewhere, maybe from a file of another kind
        other = chance.choice([model, chance.choice(others)])
        holder[key] = copy.deepcopy(at(other, chance.choice(list(paths_of(other)))))
    elif how == 5 and isinstance(holder, list):
        holder.insert(key, copy.deepcopy(chance.choice([*holder, *NASTY])))
    elif how == 6 and isinstance(holder, list):
        chance.shuffle(holder)
    elif isinstance(holder[key], bool | str | None):
        holder[key] = chance.choice(NASTY)
    elif isinstance(holder[key], int | float) and abs(holder[key]) < 1e200:
        factor = chance.choice([-1, 2, 10, 0.1, 1e30, 1 + 1e-9])
        holder[key] = type(holder[key])(holder[key] * factor)
    else:
        name = chance.choice(["x", "dtype", "kind", "n_jobs", "loss"])
        (holder if isinstance(holder, dict) else model)[name] = chance.choice(NASTY)


def change_tensors(chance, tensors, others):
    """Change one tensor: its values, shape or type; or drop, add or rename one."""
    name = chance.choice(list(tensors))
    tensor = tensors[name]
    how = chance.randrange(9)
    if how == 0:
        del tensors[name]
    elif how == 1:
        other = chance.choice(others)
        tensors[chance.choice([name, "more"])] = other[chance.choice(list(other))].copy()
    elif how == 2:
        tensors[chance.choice(["x", "lam", "features", "shifts"])] = tensors.pop(name)
    elif how == 3:
        with np.errstate(all="ignore"):
            tensors[name] = tensor.astype(chance.choice(DTYPES))
    elif how == 4:
        shapes = [(-1,), (1, -1), (-1, 1), (1, *tensor.shape), tensor.shape[::-1]]
        tensors[name] = tensor.reshape(chance.choice(shapes)) if tensor.size else tensor[None]
    elif how == 5:
        flat = tensor.reshape(-1)
        tensors[name] = chance.choice([flat[:-1], np.append(flat, flat), flat[:0], tensor[:0]])
    elif tensor.size:
        changed = tensor.copy().reshape(-1)
        places = [chance.randrange(changed.size) for _ in range(chance.randint(1, 3))]
        for place in places:
            if changed.dtype.kind == "f":
                with np.errstate(over="ignore"):
                    changed[place] = chance.choice(NUMBERS)
            else:
                most = np.iinfo(changed.dtype) if changed.dtype.kind in "iu" else None
                changed[place] = chance.choice([0, 1, most.min, most.max]) if most else True
        tensors[name] = changed.reshape(tensor.shape)


def change_bytes(chance, content):
    """Cut a file off, flip bits, or put other bytes into it."""
    content = bytearray(content)
    how = chance.randrange(5)
    if how == 0:
        del content[chance.randrange(len(content)) :]
    elif how == 1:
        content[:8] = chance.choice([0, 1, 2**40, 2**63, 2**64 - 1]).to_bytes(8, "little")
    elif how == 2:
        place = chance.randrange(len(content))
        content[place:place] = chance.choice([b"\0", b"[" * 10**5, b'{"a":' * 2000, b"9" * 5000])
    elif how == 3:
        return chance.randbytes(chance.randrange(300))
    for _ in range(chance.randint(1, 8)):
        if content:
            content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    return bytes(content)


def packed(model, tensors):
    """Return a model file with the right digest."""
    tensors = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    document = json.dumps({"model": model, "sha256": Content(model, tensors).digest()})
    return save(tensors, metadata={"cutplane": document})


def mutated(chance, files):
    """Return the bytes of a file that is like one of ``files``, pairs of header and tensors."""
    model, tensors = chance.choice(files)
    model, tensors = copy.deepcopy(model), dict(tensors)
    headers, arrays = [header for header, _ in files], [others for _, others in files]
    kind = chance.random()
    for _ in range(chance.choice([1, 1, 1, 2, 4])):
        if kind < 0.6 and model:
            change_header(chance, model, headers)
        elif kind < 0.9 and tensors:
            change_tensors(chance, tensors, arrays)
    if kind < 0.1 and tensors:
        change_tensors(chance, tensors, arrays)
    content = packed(model, tensors)
    return content if kind < 0.9 else change_bytes(chance, content)
