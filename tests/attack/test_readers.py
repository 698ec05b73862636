"""Every reader of data files against a slow one that is obviously right.

Files that look real are damaged at random. Both readers must find the same values, or both refuse
the file, because of the same line. No file may take much more memory than its size.
"""

import bz2
import gzip
import json
import lzma
import random
import re
import tracemalloc
from itertools import pairwise

import pytest
from tests.attack import reader_references as reference

from cutplane.cli.fit import read_templates
from cutplane.io import InputError, read_conll, read_frames, read_svmlight, read_trace
from cutplane.io import files as sources
from cutplane.models.rna.model import read_structures
from cutplane.models.tagging.templates import parse_templates

COMPRESSORS = {
    b"\x1f\x8b": lambda content: gzip.compress(content, mtime=0),
    b"BZh": bz2.compress,
    b"\xfd7zXZ\x00": lzma.compress,
}
ODD_BYTES = [
    *(bytes([byte]) for byte in b"\0\t\n\v\f\r\x1c\x7f #%,:_+-.()[]{}>\"\\0123456789eEUBnaifxG"),
    b"\r\n", b"\n\n", b"\xff", b"\xc2\xa0", b"\xc2\x85", b"\xe2\x80\xa8", b"\xef\xbb\xbf",
    "\uff11".encode(), "é".encode(), "ẚ".encode(), b"\xc3",
]  # fmt: skip


# -- files that look real --------------------------------------------------------------------------

NUMBERS = ["0", "1", "-1", "+1", "0.5", ".5", "5.", "1e5", "-2.5E-3", "007", "-0", "1e-999"]
NO_NUMBERS = [
    "1_0", "0x10", "nan", "-inf", "Infinity", "1e999", "0x1p3", "1e", ".", "", "+-1", "--nan",
    "1.2.3", "1e5e3", "\uff11", "1,5", "1" * 400,
]  # fmt: skip
WORDS = ["spam", "ham", "C#", "e", "E", "1-2", "Grün", "x" * 256, "x" * 257, "a\xa0b", "qid"]
INDICES = [
    "0",
    "-1",
    "+3",
    "04",
    "1.0",
    "x",
    "100000000",
    "100000001",
    "2147483648",
    f"1{18 * '0'}",
]
QUERIES = ["qid:3", "qid:-3", "qid:0", "qid:9223372036854775807"]
NO_QUERIES = ["qidc:3", "qidfoo:9", "qid", "qid:", "qid:nan", "qid:1_0", "qid:1.0", "qid:1e3"]
NO_QUERIES += ["QID:3", "qid:9223372036854775808", "qid:3:1", f"qid:{101 * '0'}"]


def choose(rng, good, bad, share=0.01):
    return rng.choice(bad if rng.random() < share else good)


def svmlight_text(rng):
    words = rng.random() < 0.3
    with_queries = rng.random() < 0.4
    lines = []
    for _ in range(rng.randint(0, 6)):
        good = WORDS[:2] if words else NUMBERS
        tokens = [choose(rng, good, WORDS + NO_NUMBERS + NUMBERS)]
        if with_queries:
            tokens.append(choose(rng, QUERIES, NO_QUERIES))
        for index in sorted(rng.sample(range(1, 12), rng.randint(0, 4))):
            shown = choose(rng, [str(index)], INDICES)
            tokens.append(f"{shown}:{choose(rng, NUMBERS, NO_NUMBERS)}")
        space = choose(rng, [" "], ["\t", "  ", "\r", "\v", "\f"], 0.1)
        comment = choose(rng, [""], [" # a_b 1:1", "#", " #qid:3", "# é"], 0.1)
        lines.append(space.join(tokens) + comment)
        lines += choose(rng, [[]], [[""], ["  "], ["# only"]], 0.05)
    return lines


def columns_text(rng):
    separator = rng.choice([" ", "\t"])
    words = ["He", "ran", "New-York", "é", "a\xa0b", "10\u3000000"]
    lines = []
    for _ in range(rng.randint(0, 8)):
        label = choose(rng, ["O", "B-NP"], ["", "x" * 257, "x" * 256, "\x85", "\ufeffO"])
        space = choose(rng, [separator], [" ", "\t", "  ", " \t"], 0.03)
        token = [rng.choice(words), rng.choice(["NN", "VB"]), label]
        lines.append(space.join(token[choose(rng, [0], [1, 2], 0.02) :]))
        lines += choose(rng, [[]], [[""], [" "], ["\t"], ["\xa0"], ["", ""]], 0.2)
    return lines


def frames_text(rng):
    separator, words = rng.choice([" ", "\t", ",", ", "]), rng.random() < 0.6
    lines = []
    for _ in range(rng.randint(0, 8)):
        good = ["up", "i:", "é"] if words else ["1", "2.0", "-1"]
        label = choose(rng, good, [*WORDS, "", "nan", '"up"', "1e999", "1", "a,b", "a\x85"])
        numbers = [choose(rng, NUMBERS, NO_NUMBERS, 0.005) for _ in range(3)]
        space = choose(rng, [separator], [" ", "\t", ",", " \t", ",,"], 0.02)
        lines.append(space.join([label, *numbers][choose(rng, [0], [1, 2], 0.02) :]))
        lines += choose(rng, [[]], [[""], [" "], ["\t"], ["\xa0"], ["", ""]], 0.2)
    return lines


def structures_text(rng):
    lines = []
    for k in range(rng.randint(0, 3)):
        n = choose(rng, range(1, 12), [0], 0.03)
        sequence = "".join(rng.choices("ACGUTacgu", k=n))
        structure = ["."] * n
        if n > 4:
            structure[0], structure[rng.randint(1, n - 1)] = "()"
        names = [f">{k}", f"> item {k} "]
        lines += [choose(rng, names, ["", "name", ">"]), sequence, "".join(structure)]
        lines += choose(rng, [[]], [[""]], 0.03)
    return lines


def templates_text(rng):
    macros = ["%x[0,0]", "%x[-1,1]", "%x[12,0]", "%x[-0,007]"]
    bad = [
        "%x[1.0,0]",
        "%x[\uff11,0]",
        "%x[1_0,0]",
        "%x[1234,0]",
        "%x[0]",
        "%y[0,0]",
        "%",
        "%x[+1,0]",
    ]
    lines = [
        f"U{k}:" + "/".join(choose(rng, macros, bad) for _ in range(rng.randint(0, 3)))
        for k in range(rng.randint(0, 5))
    ]
    extra = [[], ["B"], ["# comment"], [""]]
    return lines + choose(rng, extra, [["B01:%x[0,0]"], ["words"], ["chunking"], [" U1"]], 0.1)


def traces_text(rng):
    numbers = [0.5, 0.0, 3, None, 1e-300]
    bad_numbers = ["NaN", "Infinity", "1e999", "-0", "01", '"1"', "true", f"1{400 * '0'}", "1_0"]
    lines = []
    for k in range(rng.randint(0, 4)):
        fields = {name: json.dumps(k) for name in ("iteration", "evaluations", "planes")}
        for name in ("objective", "lower_bound", "gap", "relative_gap", "seconds"):
            fields[name] = choose(rng, [json.dumps(rng.choice(numbers))], bad_numbers)
        if rng.random() < 0.1:
            fields["note"] = rng.choice(['"\\u00e9\\n"', "[1, {}]", "{}", "[]", '"é"', '"\\x"'])
        if rng.random() < 0.04:
            fields[rng.choice(["planes", "seconds", "iteration"])] = rng.choice(["-1", "2.0", "{}"])
        pairs = [f'"{name}": {value}' for name, value in fields.items()]
        if rng.random() < 0.04:
            pairs.append(rng.choice(pairs))
        lines.append("{" + ", ".join(pairs) + "}")
    return lines


# -- damage ----------------------------------------------------------------------------------------


def damaged(rng, lines):
    """Return the bytes of a file, with some tokens and bytes out of place."""
    lines = list(lines)
    if len(lines) > 1 and rng.random() < 0.1:
        i, j = rng.sample(range(len(lines)), 2)
        lines[i], lines[j] = lines[j], lines[i]
    if lines and rng.random() < 0.1:
        i = rng.randrange(len(lines))
        tokens = lines[i].split(" ")
        rng.shuffle(tokens)
        lines[i] = " ".join(tokens)
    end = choose(rng, ["\n"], ["\r\n", "\r\n", "\r"], 0.1)
    content = bytearray(end.join(lines).encode())
    if rng.random() < 0.7:
        content += end.encode()
    if rng.random() < 0.05:
        content[:0] = b"\xef\xbb\xbf" * rng.randint(1, 2)
    for _ in range(rng.choice([0, 0, 0, 0, 0, 1, 1, 2, 4])):
        place = rng.randint(0, len(content))
        match rng.randrange(4):
            case 0:
                content[place:place] = rng.choice(ODD_BYTES)
            case 1:
                content[place : place + rng.randint(1, 3)] = b""
            case 2:
                content[place : place + 1] = rng.choice(ODD_BYTES)
            case 3:
                content[place : place + 2] = content[place : place + 2][::-1]
    return bytes(content)


def compressed(rng, content):
    """Return an archive, and whether it is "whole", "broken", or "flipped" in one bit."""
    compress = rng.choice(list(COMPRESSORS.values()))
    cut = rng.randint(0, len(content))
    # Several streams are one file, also with zeros between them.
    first = compress(content[:cut]) + b"\0" * 4 * rng.randint(0, 2)
    second = compress(content[cut:])
    raw = bytearray(first + second)
    match rng.randrange(6):
        case 0:
            return first + second[: rng.randrange(1, len(second))], "broken"
        case 1:
            return bytes(raw + rng.choice([b"x", b"\1" * 40, first[:7]])), "broken"
        case 2:
            raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
            return bytes(raw), "flipped"
    return bytes(raw), "whole"


# -- comparison ------------------------------------------------------------------------------------


def read_svmlight_plainly(path, n_features, queries):
    X, y, qid = read_svmlight(path, n_features=n_features, queries=queries)
    indices = (X.indices + 1).tolist()
    entries = list(zip(indices, X.data.tolist(), strict=True))
    bounds = X.indptr.tolist()
    rows = [entries[a:b] for a, b in pairwise(bounds)]
    return rows, y.tolist(), qid if qid is None else qid.tolist(), X.shape[1]


def read_conll_plainly(path, labels):
    data = read_conll(path, labels=labels)
    return data.separator, data.sequences


def read_frames_plainly(path, n_features, labels):
    data = read_frames(path, n_features=n_features, labels=labels)
    tags = None if data.labels is None else data.labels.tolist()
    return [part.tolist() for part in data.sequences], tags


def read_trace_plainly(path):
    return [
        (r.iteration, r.evaluations, r.planes, r.objective, r.lower_bound, r.seconds)
        for r in read_trace(path)
    ]


READERS = {
    "svmlight": (
        svmlight_text,
        read_svmlight_plainly,
        reference.svmlight,
        lambda rng: (rng.choice([None, None, None, 3, 11, 11]), rng.random() < 0.25),
    ),
    "columns": (
        columns_text, read_conll_plainly, reference.columns, lambda rng: (rng.random() < 0.5,)
    ),
    "frames": (
        frames_text,
        read_frames_plainly,
        reference.frames,
        lambda rng: rng.choice([(None, True), (3, True), (3, False), (4, False)]),
    ),
    "structures": (
        structures_text,
        lambda path: [tuple(item) for item in read_structures(path)],
        reference.structures,
        lambda rng: (),
    ),
    "templates": (
        templates_text,
        lambda path: [tuple(t) for t in parse_templates(read_templates(str(path)))],
        reference.templates,
        lambda rng: (),
    ),
    "traces": (traces_text, read_trace_plainly, reference.traces, lambda rng: ()),
}  # fmt: skip


def outcome(read, path, arguments):
    """Return what a reader found as text, or the number of the line that it refused."""
    try:
        return repr(read(path, *arguments))
    except InputError as error:
        said = str(error).removeprefix("--templates ")
        assert "\n" not in said
        assert said.startswith(f"{path}:")
        number = re.match(r":(\d+): ", said.removeprefix(str(path)))
        return number and int(number[1])


def expected(read, content, arguments):
    try:
        return repr(read(content, *arguments))
    except reference.Refused as refused:
        return refused.line


def compare(name, folder, n_inputs):
    """Return how many inputs were read, and how many refused."""
    make, read, read_slowly, draw_arguments = READERS[name]
    counts = {"read": 0, "refused": 0, "archives": 0, "damaged archives": 0}
    path = folder / "data"
    for seed in range(n_inputs):
        rng = random.Random(f"{name} {seed}")
        content = damaged(rng, make(rng))
        arguments = draw_arguments(rng)
        raw, state = compressed(rng, content) if rng.random() < 0.2 else (content, "whole")
        path.write_bytes(raw)
        found = outcome(read, path, arguments)
        is_archive = raw.startswith(tuple(COMPRESSORS))
        right = expected(read_slowly, content if is_archive else raw, arguments)
        if is_archive and state == "broken":
            right = None
        # What is flipped may be without meaning, as a time stamp is.
        allowed = [right, None] if state == "flipped" else [right]
        assert found in allowed, (name, seed, arguments, content, raw)
        counts["refused" if found is None or isinstance(found, int) else "read"] += 1
        counts["archives"] += is_archive
        counts["damaged archives"] += state != "whole"
    return counts


@pytest.mark.parametrize("name", READERS)
def test_readers_agree_with_slow_ones(name, tmp_path):
    counts = compare(name, tmp_path, 500)
    assert min(counts["read"], counts["refused"]) >= 100, counts
    assert counts["damaged archives"] >= 20, counts


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_readers_agree_with_slow_ones_on_many_files(name, tmp_path):
    counts = compare(name, tmp_path, 20_000)
    print(name, counts)
    assert min(counts["read"], counts["refused"]) >= 4_000, counts


# -- memory ----------------------------------------------------------------------------------------


def refused_in_little_memory(read, path, megabytes):
    tracemalloc.start()
    try:
        with pytest.raises(InputError) as caught:
            read(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < megabytes * 1e6
    return str(caught.value).removeprefix(str(path))


def test_one_long_label_does_not_widen_all(tmp_path):
    path = tmp_path / "data.svm"
    path.write_text("a 1:1\n" * 1000 + "z" * 20_000 + " 1:1\n" + "b 1:1\n" * 9_000)
    said = refused_in_little_memory(read_svmlight, path, 20)
    assert said.startswith(":1001: label 'zzz")
    assert said.endswith("has 20,000 characters; 256 are allowed")


def test_labels_take_room_in_proportion_to_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(sources.Limits, "LABELS", 10**6)
    path = tmp_path / "data.svm"
    path.write_text("a 1:1\n" * 5000 + "z" * 200 + " 1:1\n")
    said = refused_in_little_memory(read_svmlight, path, 3)
    assert said == (
        ":5001: a label of 200 characters; with as much room for the label of each of 5,001 "
        "lines, they would take 4 MB; use shorter labels"
    )


def test_labels_of_frames_take_room_in_proportion_to_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(sources.Limits, "LABELS", 10**6)
    path = tmp_path / "frames"
    path.write_text("a 1\n" * 5000 + "z" * 200 + " 1\n")
    said = refused_in_little_memory(read_frames, path, 3)
    assert said.startswith(":5001: a label of 200 characters; with as much room for")


def test_one_long_label_of_a_token_is_refused(tmp_path):
    path = tmp_path / "data.txt"
    path.write_text("a X\n" * 1000 + "a " + "z" * 20_000 + "\n")
    said = refused_in_little_memory(lambda path: read_conll(path, labels=True), path, 5)
    assert said.endswith("has 20,000 characters; 256 are allowed")
    assert read_conll(path).n_tokens == 1001


READ_FILES = [read_svmlight, read_conll, read_frames, read_structures, read_trace]


@pytest.mark.parametrize("compress", COMPRESSORS.values(), ids=["gzip", "bzip2", "xz"])
@pytest.mark.parametrize("reader", READ_FILES)
def test_little_that_becomes_much_is_refused(tmp_path, monkeypatch, compress, reader):
    monkeypatch.setattr(sources.Limits, "ALWAYS_ALLOWED", 10**6)
    path = tmp_path / "bomb"
    path.write_bytes(compress(b"\n" * 20_000_000))
    said = refused_in_little_memory(reader, path, 15)
    assert re.match(r": decompresses to more than \d+ MB, which is suspicious", said)
    assert said.endswith("if it is right, decompress it first")


def test_the_limit_as_it_is(tmp_path):
    path = tmp_path / "bomb"
    path.write_bytes(gzip.compress(b"1 1:1\n" * 200_000) * 400)  # 480 MB
    said = refused_in_little_memory(read_svmlight, path, 300)
    assert said.startswith(": decompresses to more than 256 MB")


@pytest.mark.parametrize("compress", COMPRESSORS.values(), ids=["gzip", "bzip2", "xz"])
def test_redundant_files_are_read(tmp_path, compress):
    path = tmp_path / "data"
    path.write_bytes(compress(b"1 1:1\n" * 200_000))
    assert read_svmlight(path).X.shape == (200_000, 1)


def test_a_large_index_alone_does_not_make_a_large_model(tmp_path):
    path = tmp_path / "data.svm"
    path.write_text("1 1:1\n2 1:1 2147483647:1\n")
    said = refused_in_little_memory(read_svmlight, path, 5)
    assert said == (
        ":2: feature index 2147483647 is beyond 100,000,000; if it is right, give the number of "
        "features (--features, or n_features in Python)"
    )
    assert read_svmlight(path, n_features=2**31 - 1).X.shape == (2, 2**31 - 1)
    path.write_text("1 100000000:1\n")
    assert read_svmlight(path).X.shape == (1, 10**8)
