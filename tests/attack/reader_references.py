"""Readers of all data files as the documentation describes them: slow, and obviously right.

Each takes the bytes of a file, and returns its values or raises `Refused` with the number of the
first bad line, or None where the file as a whole is bad. Nothing is shared with the readers that
they are compared with.
"""

import math

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
DIGITS = "0123456789"


class Refused(Exception):
    def __init__(self, line=None):
        super().__init__(line)
        self.line = line


def lines_of_text(content):
    """Return the lines of a text in UTF-8; the last is what follows the last newline."""
    content = content.removeprefix(BYTE_ORDER_MARK)
    if b"\0" in content:
        raise Refused
    lines = []
    for number, line in enumerate(content.split(b"\n"), 1):
        try:
            lines.append(line.decode("utf-8"))
        except UnicodeDecodeError:
            raise Refused(number) from None
    return lines


def is_whole(token):
    unsigned = token[1:] if token[:1] in ("+", "-") else token
    return bool(unsigned) and all(character in DIGITS for character in unsigned)


def is_decimal(token):
    """Whether a token has the form ``[sign] digits [. digits] [e [sign] digits]``."""
    mantissa, e, exponent = token.replace("E", "e").partition("e")
    if e and not is_whole(exponent):
        return False
    unsigned = mantissa[1:] if mantissa[:1] in ("+", "-") else mantissa
    before, _, after = unsigned.partition(".")
    return bool(before + after) and all(character in DIGITS for character in before + after)


def finite(token):
    if not math.isfinite(float(token)):
        raise Refused
    return float(token)


def label_word(word):
    invisible = [*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, 0xFEFF]
    if not word or len(word) > 256 or any(ord(character) in invisible for character in word):
        raise Refused
    return word


# -- svmlight --------------------------------------------------------------------------------------


def svmlight(content, n_features, queries):
    """Return rows of (index, value), labels and queries, and the number of columns."""
    content = content.removeprefix(BYTE_ORDER_MARK)
    if b"\0" in content:
        raise Refused
    rows, labels, qid = [], [], []
    lines = content.split(b"\n")
    with_data = [line for line in lines if line.split(b"#")[0].split()]
    if queries and with_data and b"qid:" not in content:
        raise Refused
    for number, line in enumerate(lines, 1):
        try:
            # A byte is a character here, but for labels, which are decoded.
            label, query, row = svmlight_line(line.decode("latin-1"), n_features, queries)
            if label is None:
                continue
            if labels and type(label) is not type(labels[0]):
                raise Refused
        except Refused:
            raise Refused(number) from None
        labels.append(label)
        qid.append(query)
        rows.append(row)
    indices = [index for row in rows for index, _ in row]
    if not rows or (not indices and n_features is None):
        raise Refused
    return rows, labels, qid if queries else None, n_features or max(indices)


def svmlight_line(line, n_features, queries):
    before, sign, _ = line.partition("#")
    spaced = "".join(" " if character in "\t\r\f\v" else character for character in before)
    tokens = [token for token in spaced.split(" ") if token]
    if not tokens:
        return None, None, None
    label, query, row = svmlight_label(tokens[0]), None, []
    if isinstance(label, str) and len(tokens) == 1 and sign and not spaced.endswith(" "):
        raise Refused  # is C# a label, or C with a comment?
    rest = tokens[1:]
    if rest and rest[0].startswith("qid:"):
        query = bounded(rest.pop(0)[4:], 2**63 - 1)
    elif queries:
        raise Refused
    for token in rest:
        index, colon, value = token.partition(":")
        if not colon or not is_decimal(value):
            raise Refused
        largest = 10**8 if n_features is None else min(n_features, 2**31 - 1)
        row.append((bounded(index, largest), finite(value)))
        if row[-1][0] <= (row[-2][0] if len(row) > 1 else 0):
            raise Refused
    return label, query, row


def bounded(token, largest):
    if not is_whole(token) or len(token) > 100 or abs(int(token)) > largest:
        raise Refused
    return int(token)


def svmlight_label(token):
    if is_decimal(token):
        return finite(token)
    unsigned = token[1:] if token[0] in "+-" else token
    if unsigned.lower() in ("nan", "inf", "infinity") or ":" in token or "," in token:
        raise Refused
    try:
        return label_word(token.encode("latin-1").decode("utf-8"))
    except UnicodeDecodeError:
        raise Refused from None


# -- columns ---------------------------------------------------------------------------------------


def columns(content, labels):
    """Return the separator, and sequences of tokens of columns."""
    sequences, separator, width = [[]], None, None
    for number, line in enumerate(lines_of_text(content), 1):
        line = line[:-1] if line.endswith("\r") else line
        if all(character in " \t" for character in line):
            sequences.append([])
            continue
        if separator is None:
            separator = "\t" if "\t" in line else " "
        token = [""]
        for character in line:
            if character == "\t" or (separator == " " and character == " "):
                token.append("")
            else:
                token[-1] += character
        if separator == " ":
            token = [word for word in token if word]
        width = width or len(token)
        if len(token) != width or "\r" in line or line.startswith("\ufeff"):
            raise Refused(number)
        if labels:
            try:
                label_word(token[-1])
            except Refused:
                raise Refused(number) from None
        sequences[-1].append(tuple(token))
    sequences = [sequence for sequence in sequences if sequence]
    if not sequences:
        raise Refused
    return separator, sequences


# -- frames ----------------------------------------------------------------------------------------


def frames(content, n_features, needed):
    """Return sequences of frames, and the labels of all frames, None if there are none."""
    sequences, labels, commas, width = [[]], [], None, None
    for number, line in enumerate(lines_of_text(content), 1):
        line = line[:-1] if line.endswith("\r") else line
        if all(character in " \t" for character in line):
            sequences.append([])
            continue
        if commas is None:
            commas = "," in line
        if commas:
            columns = [column.strip(" \t") for column in line.split(",")]
        else:
            columns = [word for word in line.replace("\t", " ").split(" ") if word]
        try:
            if "\r" in line or line.startswith("\ufeff") or len(columns) != (width or len(columns)):
                raise Refused
            width = len(columns)
            features = width - 1 if n_features is None else n_features
            if features == 0 or width not in (
                [features + 1] if needed else [features, features + 1]
            ):
                raise Refused
            if width == features + 1:
                labels.append(frame_label(columns.pop(0), commas))
                if type(labels[-1]) is not type(labels[0]):
                    raise Refused
            if not all(map(is_decimal, columns)):
                raise Refused
            sequences[-1].append([finite(column) for column in columns])
        except Refused:
            raise Refused(number) from None
    sequences = [sequence for sequence in sequences if sequence]
    if not sequences:
        raise Refused
    return sequences, labels or None


def frame_label(word, commas):
    if is_decimal(word):
        return finite(word)
    if commas and len(word) > 1 and word.startswith('"') and word.endswith('"'):
        raise Refused
    return label_word(word)


# -- structures ------------------------------------------------------------------------------------


def structures(content):
    """Return names, sequences and structures."""
    lines = [line.strip() for line in lines_of_text(content)]
    while lines and not lines[-1]:
        lines.pop()
    items = []
    for begin in range(0, len(lines), 3):
        name, sequence, structure = (*lines[begin : begin + 3], "", "")[:3]
        if not name.startswith(">"):
            raise Refused(begin + 1)
        if not sequence or any(base not in "ACGUTacgut" for base in sequence):
            raise Refused(begin + 2)
        left = structure.replace(".", "")
        while "()" in left:
            left = left.replace("()", "")
        if left or len(structure) != len(sequence):
            raise Refused(begin + 3)
        items.append((name[1:].strip(), sequence, structure))
    return items


# -- templates -------------------------------------------------------------------------------------


def templates(content):
    """Return the texts and the places of each template."""
    found = []
    for number, line in enumerate(lines_of_text(content), 1):
        line = line.strip(" \t\r")
        if line in ("", "B") or line.startswith("#"):
            continue
        if not line.startswith("U") or "\r" in line:
            raise Refused(number)
        first, *others = line.split("%")
        texts, places = [first], []
        for part in others:
            macro, bracket, text = part.partition("]")
            row, comma, column = macro.removeprefix("x[").partition(",")
            size = row.removeprefix("-")
            if not (bracket and comma and macro.startswith("x[")):
                raise Refused(number)
            if not all(1 <= len(n) <= 3 and set(n) <= set(DIGITS) for n in (size, column)):
                raise Refused(number)
            texts.append(text)
            places.append((int(row), int(column)))
        found.append((tuple(texts), tuple(places)))
    if not found:
        raise Refused
    return found


# -- traces ----------------------------------------------------------------------------------------


def traces(content):
    """Return the fields of every record."""
    records = []
    for number, line in enumerate(content.split(b"\n")[:-1], 1):
        try:
            fields = Json(line.decode("utf-8")).document()
            if not isinstance(fields, dict):
                raise Refused
            counts = [fields[name] for name in ("iteration", "evaluations", "planes")]
            if not all(type(count) is int and count >= 0 for count in counts):
                raise Refused
            numbers = [
                missing if fields[name] is None else plain_number(fields[name])
                for name, missing in [
                    ("objective", math.inf), ("lower_bound", -math.inf), ("seconds", math.nan)
                ]
            ]  # fmt: skip
        except (Refused, KeyError, UnicodeDecodeError):
            raise Refused(number) from None
        records.append((*counts, *numbers))
    return records


def plain_number(value):
    if type(value) not in (int, float):
        raise Refused
    try:
        return finite(value)
    except OverflowError:
        raise Refused from None


class Json:
    """RFC 8259, character by character."""

    def __init__(self, text):
        self.text, self.place = text, 0

    def document(self):
        value = self.value()
        if self.next():
            raise Refused
        return value

    def next(self):
        """Return the next character that is no white space, without taking it."""
        while self.text[self.place : self.place + 1] in (" ", "\t", "\r", "\n"):
            self.place += 1
        return self.text[self.place : self.place + 1]

    def take(self, expected):
        if not self.text.startswith(expected, self.place):
            raise Refused
        self.place += len(expected)

    def value(self):
        character = self.next()
        if character == "{":
            pairs = self.items("{", "}", self.pair)
            if len(dict(pairs)) != len(pairs):
                raise Refused
            return dict(pairs)
        if character == "[":
            return self.items("[", "]", self.value)
        if character == '"':
            return self.string()
        for word, value in {"true": True, "false": False, "null": None}.items():
            if self.text.startswith(word, self.place):
                self.take(word)
                return value
        return self.number()

    def items(self, opening, closing, read):
        self.take(opening)
        found = []
        while self.next() != closing:
            if found:
                self.take(",")
            found.append(read())
        self.take(closing)
        return found

    def pair(self):
        self.next()
        name = self.string()
        self.next()
        self.take(":")
        return name, self.value()

    def string(self):
        self.take('"')
        characters = []
        while (character := self.text[self.place : self.place + 1]) != '"':
            if character < " ":  # a control character, or the end
                raise Refused
            self.place += 1
            characters.append(self.escaped() if character == "\\" else character)
        self.take('"')
        return "".join(characters)

    def escaped(self):
        character = self.text[self.place : self.place + 1]
        self.place += 1
        if character == "u":
            digits = self.text[self.place : self.place + 4]
            if len(digits) < 4 or not set(digits) <= set(DIGITS + "abcdefABCDEF"):
                raise Refused
            self.place += 4
            return chr(int(digits, 16))
        escapes = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
        escapes |= {sign: sign for sign in '"\\/'}
        if character not in escapes:
            raise Refused
        return escapes[character]

    def digits(self):
        begin = self.place
        while self.text[self.place : self.place + 1] in tuple(DIGITS):
            self.place += 1
        if begin == self.place:
            raise Refused
        return self.text[begin : self.place]

    def number(self):
        begin, is_whole_number = self.place, True
        if self.text.startswith("-", self.place):
            self.take("-")
        digits = self.digits()
        if len(digits) > 1 and digits.startswith("0"):
            raise Refused
        if self.text.startswith(".", self.place):
            self.take(".")
            self.digits()
            is_whole_number = False
        if self.text[self.place : self.place + 1] in ("e", "E"):
            self.place += 1
            if self.text[self.place : self.place + 1] in ("+", "-"):
                self.place += 1
            self.digits()
            is_whole_number = False
        text = self.text[begin : self.place]
        return int(text) if is_whole_number else float(text)
