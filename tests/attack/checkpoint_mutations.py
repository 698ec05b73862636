"""Checkpoints that somebody tampered with: every number, word and array, with the right digests.

Everything is drawn from one `random.Random`, so that a seed names an input.
"""

import copy
import hashlib
import json
import random
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .model_file_mutations import DTYPES, NASTY, NUMBERS, at, paths_of

# Words that a tree of a state is made of, and names that lead to something.
NODES = [
    *({"array": 0}, {"array": 10**6}, {"array": -1}, {"object": 0}, {"object": 10**6}),
    *({"given": "risk"}, {"given": "method"}, {"given": "gram"}, {"given": "nobody"}),
    *({"tuple": [1.0]}, {"dict": [[[], 1]]}, {"dict": [[1, 2, 3]]}, {"scalar": 0}),
    *({"enum": "cutplane.core.certificate:Status", "member": "OPTIMAL"}, {"unheard": 1}),
    {"named": "cutplane.core.state:State", "items": []},
    {"named": "cutplane.core.solver:Found", "items": [1]},
    {"table": "cutplane.core.state:State", "columns": {}},
]
WHOLE = [0, 1, 2, -1, 7, 10**6, 2**31, 2**62, -(2**63), 2**63 - 1]


class File(NamedTuple):
    """A file of arrays: the words in it, and the bytes of each array by name."""

    words: dict[str, str]
    arrays: dict[str, bytes]


class Contents(NamedTuple):
    """What a checkpoint consists of; with a seed, its manifest is changed when it is written."""

    manifest: dict
    tree: dict
    files: dict[str, File]
    seed: float | None = None

    @classmethod
    def of(cls, folder):
        manifest = json.loads((folder / "checkpoint.json").read_text())
        names = [name for name, *_ in (manifest["state"], *manifest["planes"])]
        files = {name: _read(folder / name) for name in names}
        return cls(manifest, json.loads(files[names[0]].words["tree"]), files)

    @property
    def state(self):
        """The name of the file with the state."""
        return next(iter(self.files))

    def copied(self):
        return Contents(
            copy.deepcopy(self.manifest),
            copy.deepcopy(self.tree),
            {name: File(dict(file.words), dict(file.arrays)) for name, file in self.files.items()},
        )

    def write(self, folder, sign):
        """Write all into a new folder, with digests; ``sign`` makes the text of the manifest."""
        folder.mkdir()
        (folder / "lock").touch()
        state = self.state
        self.files[state].words["tree"] = json.dumps(self.tree)
        entries = {name: _write(folder / name, file) for name, file in self.files.items()}
        forged = self.manifest | {
            "state": entries[state],
            "planes": [entry for name, entry in entries.items() if name != state],
        }
        if self.seed is not None:
            change_node(random.Random(self.seed), forged)
        (folder / "checkpoint.json").write_bytes(sign(forged))


def _read(path: Path) -> File:
    content = path.read_bytes()
    begin = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:begin])
    words = header.pop("__metadata__", {})
    places = {name: entry["data_offsets"] for name, entry in header.items()}
    return File(words, {name: content[begin + a : begin + b] for name, (a, b) in places.items()})


def _write(path: Path, file: File) -> list:
    header, end = {"__metadata__": file.words}, 0
    for name, array in file.arrays.items():
        header[name] = {
            "dtype": "U8",
            "shape": [len(array)],
            "data_offsets": [end, end + len(array)],
        }
        end += len(array)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    content = len(text).to_bytes(8, "little") + text + b"".join(file.arrays.values())
    path.write_bytes(content)
    return [path.name, len(content), hashlib.sha256(content).hexdigest()]


def changed_arrays(array):
    """Yield other arrays in the place of one, by what was done."""
    flat = array.reshape(-1)
    yield "empty", array[:0]
    yield "shorter", flat[: max(len(flat) // 25, 1)]
    yield "without the last", array[:-1] if array.ndim and len(array) else flat[:0]
    yield "longer", np.concatenate([flat, flat])
    yield "huge", np.resize(flat, 10**5) if flat.size else np.zeros(10**5, array.dtype)
    yield "a row", array[None]
    yield "a number", flat[:1].reshape(())[()] if flat.size else np.zeros((), array.dtype)
    for dtype in DTYPES:
        if array.dtype != dtype and array.dtype.kind in "fiub":
            with np.errstate(all="ignore"):
                yield f"as {np.dtype(dtype)}", array.astype(dtype)
    yield "as words", np.full(array.shape, "x")
    if not flat.size or array.dtype.kind not in "fiu":
        return
    values = NUMBERS if array.dtype.kind == "f" else WHOLE
    for value in values:
        for where in (slice(None), 0, -1):
            changed = flat.copy()
            with np.errstate(all="ignore"):
                try:
                    changed[where] = value
                except OverflowError:
                    continue
            yield f"{value} at {where}", changed.reshape(array.shape)
    with np.errstate(all="ignore"):
        yield "negative", -array
        yield "ten times", array * array.dtype.type(10)
    yield "turned around", flat[::-1].reshape(array.shape)


def change_array(chance, contents):
    """Change an array of the state, and what is said of it; return what was done."""
    layouts = contents.tree["arrays"]
    number = chance.randrange(len(layouts))
    dtype, shape, order, _ = layouts[number]
    arrays = contents.files[contents.state].arrays
    array = np.frombuffer(arrays[str(number)], dtype=dtype)
    array = array.reshape(shape) if order == "C" else array.reshape(shape[::-1]).T
    how, changed = chance.choice(list(changed_arrays(array)))
    changed = np.ascontiguousarray(changed) if np.ndim(changed) else np.asarray(changed)
    arrays[str(number)] = changed.tobytes()
    layouts[number] = [changed.dtype.str, list(changed.shape), "C", chance.random() < 0.9]
    return f"array {number} ({dtype} {shape}) {how}"


def change_planes(chance, contents):
    """Change a file with planes; return what was done."""
    name = chance.choice([name for name, *_ in contents.manifest["planes"]])
    arrays = contents.files[name].arrays
    part = chance.choice(["numbers", "slopes"])
    array = np.frombuffer(arrays[part], dtype=np.int64 if part == "numbers" else np.float64)
    how, changed = chance.choice(list(changed_arrays(array)))
    if chance.random() < 0.1:
        del arrays[part]
        how = "missing"
    else:
        arrays[part] = np.ascontiguousarray(changed).tobytes()
    return f"{part} of {name} {how}"


def change_node(chance, tree):
    """Change one thing in a JSON document; return what was done."""
    # The branches first, because most leaves are numbers of one long list.
    holder, path = tree, ()
    while True:
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        key = chance.choice(keys)
        path = (*path, key)
        inner = holder[key]
        if not (isinstance(inner, dict | list) and inner) or chance.random() < 0.1:
            break
        holder = inner
    how = chance.randrange(8)
    if how <= 2 or (how == 7 and not isinstance(inner, int | float)):
        holder[key] = copy.deepcopy(chance.choice([*NASTY, *NODES, *NODES]))
    elif how == 3:
        holder.pop(key)
    elif how == 4:  # from elsewhere
        holder[key] = copy.deepcopy(at(tree, chance.choice(list(paths_of(tree)))))
    elif how == 5 and isinstance(holder, list):
        holder.insert(key, copy.deepcopy(holder[key]))
    elif how == 6 and isinstance(holder, list):
        chance.shuffle(holder)
    elif isinstance(inner, int | float) and abs(inner) < 1e200:
        factor = chance.choice([-1, 2, 10, 0.1, 1e30, 1 + 1e-9])
        holder[key] = type(inner)(inner * factor)
    elif isinstance(holder, dict):
        holder["more"] = copy.deepcopy(chance.choice([*NASTY, *NODES]))
    else:
        holder.append(copy.deepcopy(chance.choice([*NASTY, *NODES])))
    return f"{'.'.join(map(str, path))}: {str(inner)[:60]} -> {str(at_or_none(tree, path))[:60]}"


def at_or_none(tree, path):
    try:
        return at(tree, path)
    except (LookupError, TypeError):
        return "gone"


def mutated(chance, contents):
    """Return a checkpoint like another one, with something changed, and what was done to it."""
    contents = contents.copied()
    kind = chance.random()
    if kind < 0.5:
        return contents, change_node(chance, contents.tree)
    if kind < 0.85 and contents.tree["arrays"]:
        return contents, change_array(chance, contents)
    if kind < 0.95 and contents.manifest["planes"]:
        return contents, change_planes(chance, contents)
    seed = chance.random()
    return contents._replace(seed=seed), f"manifest, with seed {seed}"
