"""The compiled reader of svmlight files against the slow one that knows the rules.

`read_line` reads a line by Python's own means; `read_chunk` must find the same values to the last
bit, or refuse the same line with the same words.
"""

import math
import random
import struct
from decimal import Decimal, localcontext
from itertools import chain

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cutplane.io import InputError, read_svmlight, svmlight
from cutplane.io import files as sources
from cutplane.io.files import Wrong
from cutplane.io.svmlight import Rules, read_chunk, read_line

RULES = [Rules(), Rules(n_features=40), Rules(queries=True), Rules(n_features=2**31 - 1)]


# -- comparison ------------------------------------------------------------------------------------


def read_slowly(text, rules):
    """Return the lines of a text up to one that is wrong, its number and what is wrong with it."""
    lines = []
    for number, content in enumerate(text.split(b"\n"), start=1):
        try:
            line = read_line(content, rules)
        except Wrong as wrong:
            return lines, (number, str(wrong))
        if line is not None:
            if lines and line.is_word != lines[0].is_word:
                return lines, (number, None)
            lines.append(line)
    return lines, None


def require_same(text, rules):
    """Check that both readers agree on a text, and return whether it is right."""
    piece = read_chunk(text, rules)
    lines, fault = read_slowly(text, rules)
    assert (piece.fault and tuple(piece.fault)) == fault
    require_rows(piece, lines, rules)
    return fault is None


def require_rows(piece, lines, rules):
    values = list(chain.from_iterable(line.values for line in lines))
    assert piece.values.tobytes() == np.array(values, np.float64).tobytes()
    assert (piece.indices + 1).tolist() == [*chain.from_iterable(line.indices for line in lines)]
    assert piece.indices.dtype == np.int32
    ends = np.cumsum([0] + [len(line.values) for line in lines])
    assert piece.indptr.tolist() == ends.tolist()
    if isinstance(piece.labels, list):
        assert piece.labels == [line.token.decode() for line in lines]
        assert all(line.is_word for line in lines)
    else:
        labels = np.array([float(line.token) for line in lines], np.float64)
        assert piece.labels.tobytes() == labels.tobytes()
    if rules.queries:
        assert piece.qid.tolist() == [line.query for line in lines]
    else:
        assert piece.qid is None


# -- decimal numbers -------------------------------------------------------------------------------


def decimal_of(x):
    """Return all digits of a double, or of a number between two doubles."""
    with localcontext(prec=1200):
        return Decimal(x)


def between(x):
    """Return the number in the middle between a double and the next one."""
    with localcontext(prec=1200):
        return (Decimal(x) + Decimal(math.nextafter(x, math.inf))) / 2


def any_double(rng):
    x = struct.unpack("<d", rng.randbytes(8))[0]
    return abs(x) if math.isfinite(x) else 1.5


def moderate_double(rng):
    return math.ldexp(rng.random() + 1e-9, rng.randint(-40, 40))


def written(rng, number):
    """Return a number in one of the ways to write it."""
    form = rng.choice(["f", "e", "E", "g"])
    text = format(number, form if abs(math.log10(number or 1)) < 60 else form.replace("f", "e"))
    if form == "f" and rng.random() < 0.3:
        text = "0" * rng.randint(0, 30) + text
    if rng.random() < 0.2 and "e" not in text.lower():
        text += ("" if "." in text else ".") + "0" * rng.randint(0, 30)
    return text


def halfway(rng):
    """Return a number that lies between two doubles, or all but does."""
    middle = between(rng.choice([any_double, moderate_double])(rng))
    text = written(rng, middle)
    if rng.random() < 0.5:
        mantissa, e, exponent = text.partition("e")
        if "." in mantissa and rng.random() < 0.7:
            mantissa += "0" * rng.randint(0, 300) + "1"
        else:
            mantissa = mantissa[:-1] + rng.choice("0123456789")
        text = mantissa + e + exponent
    return text


def digits_and_exponent(rng):
    n_digits = rng.choice([1, 2, 6, 15, 16, 17, 18, 19, 20, 21, 40, 800])
    text = "".join(rng.choices("0123456789", k=n_digits))
    if rng.random() < 0.6:
        place = rng.randint(0, n_digits)
        text = text[:place] + "." + text[place:]
    if rng.random() < 0.6:
        power = rng.choice([rng.randint(-30, 30), rng.randint(-370, 330), rng.randint(-900, 900)])
        text += rng.choice("eE") + rng.choice(["", "+"] if power >= 0 else [""]) + str(power)
    return text


SHORT = ["0", "1", "5.", ".5", "0.25", "12", "1e5", "00.100", "3E-2", "0e0", "0.0e-400", "100000"]
EXTREME = [
    "5e-324", "4.9e-324", "2.4703282292062327e-324", "2.4703282292062328e-324", "1e-999", "1e400",
    "2.2250738585072014e-308", "2.2250738585072011e-308", "2.2250738585072009e-308",
    "1.7976931348623157e308", "1.7976931348623158e308", "1.7976931348623159e308",
    "179769313486231580793e289", "9007199254740993", "9007199254740992.5", "9007199254740993e-22",
    "18446744073709551615", "18446744073709551616", "9999999999999999999", "99999999999999999999",
    "1e22", "1e23", "9e22", "1e-22", "1e-23", "8.5e-323", "0." + "0" * 400 + "1e401",
    "1" + "0" * 400 + "e-400", "1" + "0" * 308, "1" + "0" * 309, "1e99999999999999999999",
    "1e-99999999999999999999", "0e99999999999999999999", "123456789012345678901234567890",
    "7205759403792793199999e-5", "7205759403792793200001e-5", "6929495644600919.5",
    "3.7455744005952583e15", "1e-7", "2e-23",
    "1.00000000000000011102230246251565404236316680908203125",
]  # fmt: skip


def good_number(rng):
    make = rng.choice([
        lambda rng: rng.choice(SHORT),
        lambda rng: str(rng.randint(0, 300)),
        lambda rng: f"{moderate_double(rng):.6g}",
        lambda rng: repr(moderate_double(rng)),
        lambda rng: repr(any_double(rng)),
        lambda rng: f"{moderate_double(rng):.{rng.randint(0, 30)}f}",
        lambda rng: written(rng, decimal_of(moderate_double(rng))),
        digits_and_exponent,
        halfway,
        lambda rng: rng.choice(EXTREME),
    ])  # fmt: skip
    return rng.choice(["", "", "", "-", "+"]) + make(rng)


def signs_and_places(number):
    return [number, "-" + number, "+" + number, "000" + number, number + "0" * ("." in number)]


@pytest.mark.parametrize("text", EXTREME + SHORT)
def test_extreme_numbers(text):
    for number in signs_and_places(text) if "e" not in text else [text, "-" + text]:
        require_same(b"%b 1:%b\n" % (number.encode(), number.encode()), Rules())


def test_every_power_of_ten_at_the_edges_of_doubles():
    lines = [
        b"1 1:%de%d\n" % (w, q)
        for q in range(-345, 310)
        for w in (1, 2**53 - 1, 2**53 + 1, 2**63, 2**64 - 1, 10**19 - 1, 5**27, 5**26 + 1)
    ]
    good = [line for line in lines if read_slowly(line, Rules())[1] is None]
    assert len(good) > 5_000
    assert require_same(b"".join(good), Rules())


def test_digits_cannot_make_up_for_any_exponent():
    for n_digits, power in ((100_200, -200_000), (100_200, -100_100), (1200, -1200)):
        require_same(b"1 1:%se%d\n" % (b"7" * n_digits, power), Rules())


@settings(max_examples=400)
@given(seed=st.integers(0, 2**63), bits=st.integers(1, 2**63 - 2**52 - 1))
def test_numbers_are_those_of_python(seed, bits):
    rng = random.Random(seed)
    double = struct.unpack("<d", struct.pack("<Q", bits))[0]  # hypothesis looks for odd ones
    numbers = [repr(double), str(between(double)) if bits < 0x7FEFFFFFFFFFFFFF else "1"]
    numbers += [good_number(rng) for _ in range(20)]
    for number in numbers:
        require_same(b"1 3:%b\n" % number.encode(), Rules())


# -- lines -----------------------------------------------------------------------------------------

NO_NUMBERS = [
    "nan", "-inf", "Infinity", "1_0", "0x10", "0x1p3", "1e", "1e+", "e5", ".", "", "+", "+-1",
    "1.2.3", "1e5e3", "1,5", "2:3", "\uff11", "\u0661", "1\xa0", "1e5.0", "1\0", "x", "1f", "1d0",
]  # fmt: skip
INDICES = [
    "0", "-1", "+3", "04", "1.0", "", "x", "40", "41", "100000000", "100000001", "2147483647",
    "2147483648", "4294967297", "9223372036854775808", "18446744073709551617", "00000000000001",
    "0" * 99 + "1", "0" * 100 + "1", "\uff11", "qid",
]  # fmt: skip
WORDS = ["spam", "ham", "C#", "e", "-", "+", "1-2", "1_0", "Grün", "x" * 256, "x" * 257, "qid"]
WORDS += ["nan", "inf", "-Infinity", "1,2", ",", "\ufeff1", "a\x85", "1e999", "1e", "0x10"]
QUERIES = ["qid:3", "qid:-3", "qid:+03", "qid:0", "qid:9223372036854775807", "qid:" + "0" * 20]
NO_QUERIES = [
    "qidc:3", "qidfoo:9", "qid", "qid:", "qid:nan", "qid:1_0", "qid:1.0", "qid:-", "QID:3", "qi:1",
    "qid:9223372036854775808", "qid:-9223372036854775808", "qid:3:1", "qid:" + "0" * 101, "qid:3x",
]  # fmt: skip
SPACES = ["  ", "\t", "\r", "\v", "\f", " \t ", "\x1c", "\xa0", "\0"]
COMMENTS = [" # a 1:1", "#", " #qid:3", "# é", " # 1 # 2", "\r", " ", " \r", "#\0"]


def mostly(rng, good, odd, share):
    return rng.choice(odd) if rng.random() < share else good


def any_line(rng, numbers):
    """Return a line that may be right, or wrong in some way."""
    share = rng.choice([0, 0, 0.03, 0.15])
    label = rng.choice(numbers) if rng.random() < 0.7 else rng.choice(WORDS[:3])
    tokens = [mostly(rng, label, WORDS, share)]
    if rng.random() < 0.4:
        tokens.append(mostly(rng, rng.choice(QUERIES), NO_QUERIES, share))
    index = 0
    for _ in range(rng.choice([0, 1, 2, 3, 8])):
        index += rng.choice([1, 1, 1, 2, 9, 100, 12345])
        value = mostly(rng, rng.choice(numbers), NO_NUMBERS, share / 2)
        tokens.append(f"{mostly(rng, str(index), INDICES, share / 2)}:{value}")
    if rng.random() < share:
        rng.shuffle(tokens)
    space = mostly(rng, " ", SPACES, share)
    line = mostly(rng, "", SPACES, share) + space.join(tokens)
    line = bytearray((line + mostly(rng, "", COMMENTS, 0.1)).encode())
    for _ in range(rng.choice([0, 0, 0, 0, 0, 1, 1, 2])):
        place = rng.randint(0, len(line))
        byte = bytes([rng.choice(b" \t\r\v\f#+-.:,eEqid0123456789\xff\xc3\x00\x80\x1f_nf")])
        line[place : place + rng.choice([0, 1, 1, 2])] = rng.choice([byte, byte, b"", byte * 2])
    return bytes(line)


def compare_lines(seed, n_lines):
    """Compare so many lines, and return how many were right, and how many were wrong."""
    rng = random.Random(seed)
    rules = RULES[seed % len(RULES)]
    numbers = [good_number(rng) for _ in range(n_lines // 5)]
    good, n_wrong = {False: [], True: []}, 0
    for _ in range(n_lines):
        line = any_line(rng, numbers) + b"\n"
        lines, fault = read_slowly(line, rules)
        if fault is None:
            good[bool(lines) and lines[0].is_word].append((line, lines))
        else:
            n_wrong += 1
            require_same(line, rules)
    for texts in good.values():
        piece = read_chunk(b"".join(text for text, _ in texts), rules)
        assert piece.fault is None
        require_rows(piece, [line for _, lines in texts for line in lines], rules)
    return n_lines - n_wrong, n_wrong


@pytest.mark.parametrize("seed", range(8))
def test_lines_of_all_kinds(seed):
    n_right, n_wrong = compare_lines(seed, 500)
    assert min(n_right, n_wrong) > 50


@pytest.mark.slow
@pytest.mark.parametrize("part", range(50))
def test_a_million_lines(part):
    for k in range(2):
        compare_lines(1000 + 2 * part + k, 10_000)


def compare_texts(seed, n_texts):
    """Compare texts of several lines, in which any line may be wrong; return how many were."""
    rng = random.Random(seed)
    rules = RULES[seed % len(RULES)]
    numbers = [good_number(rng) for _ in range(50)]
    kinds = [any_line(rng, numbers) for _ in range(300)]
    right = [line for line in kinds if read_slowly(line, rules)[1] is None] or [b"# none"]
    n_wrong = 0
    for _ in range(n_texts):
        lines = [rng.choice(right) for _ in range(rng.randint(1, 12))]
        if rng.random() < 0.6:
            lines[rng.randrange(len(lines))] = rng.choice(kinds)
        n_wrong += not require_same(b"\n".join(lines) + b"\n", rules)
    return n_wrong


@pytest.mark.parametrize("seed", range(4))
def test_texts_of_several_lines(seed):
    assert 20 < compare_texts(seed, 200) < 180


@pytest.mark.slow
@pytest.mark.parametrize("part", range(25))
def test_a_hundred_thousand_texts(part):
    compare_texts(1000 + part, 4000)


ALPHABET = st.sampled_from(
    ["1", "0", "9", ".", "e", "-", "+", ":", " ", "\n", "#", "qid:", "1:", " 2:3", "x", ",", "\r"]
)


@settings(max_examples=1500)
@given(text=st.lists(ALPHABET, max_size=25).map("".join), rules=st.sampled_from(RULES))
@example(text="# only\n\n   # comments", rules=Rules())
@example(text="1 1:2:3", rules=Rules())
@example(text="1 1:1 qid:3", rules=Rules())
@example(text="1 qidc:3 1:1", rules=Rules(queries=True))
@example(text="a 1:1\n1 1:1", rules=Rules())
@example(text="1 1:1\na 1:1", rules=Rules())
@example(text="a 1:1\nnan 1:1\nb 0:1", rules=Rules())
def test_any_text_of_the_characters_that_count(text, rules):
    require_same(text.encode() + b"\n", rules)


@settings(max_examples=300)
@given(text=st.binary(max_size=80), rules=st.sampled_from(RULES))
def test_any_bytes(text, rules):
    require_same(text + b"\n", rules)


# -- files -----------------------------------------------------------------------------------------


def outcome(path, rules):
    try:
        X, y, qid = read_svmlight(path, n_features=rules.n_features, queries=rules.queries)
    except InputError as error:
        return str(error)
    parts = (
        (X.data, X.indices, X.indptr, y) if qid is None else (X.data, X.indices, X.indptr, y, qid)
    )
    return X.shape, [(str(part.dtype), part.tobytes()) for part in parts]


@pytest.mark.parametrize("seed", range(150))
def test_how_a_file_is_cut_leaves_no_trace(seed, tmp_path, monkeypatch):
    rng = random.Random(seed)
    numbers = [good_number(rng) for _ in range(20)]
    kinds = [any_line(rng, numbers) for _ in range(40)]
    right = [line for line in kinds if read_slowly(line, Rules())[1] is None and b"\0" not in line]
    lines = [rng.choice(right) for _ in range(rng.choice([3, 30, 100]))]
    if rng.random() < 0.5:
        lines[rng.randrange(len(lines))] = rng.choice(kinds)
    path = tmp_path / "data"
    path.write_bytes(rng.choice([b"\n", b"\r\n"]).join(lines) + rng.choice([b"", b"\n"]))
    rules = rng.choice(RULES)
    whole = outcome(path, rules)
    monkeypatch.setattr(sources.Limits, "PART", rng.choice([1, 7, 100]))
    monkeypatch.setattr(svmlight.Sizes, "CHUNK", rng.choice([1, 50, 1000]))
    assert outcome(path, rules) == whole
