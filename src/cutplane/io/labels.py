"""Labels between files and estimators: read as numbers or words, printed as they were written.

What an estimator is to predict is said by `Targets`; `training_labels` makes it of a file's labels
for a fit, `known_labels` and `target_numbers` to compare predictions with. Labels of another kind,
and names that no label has, raise `InputError`.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import MultiLabelBinarizer

from cutplane.estimators.description import Targets
from cutplane.io.files import InputError, reads_as_number

# More different labels than the first are believed to be classes only if they are in so many lines
# each, on average: 26 letters in 15,000 lines are, 214 numbers in 442 lines are not.
_MUST_REPEAT = {5: 2, 20: 10}
_MANY_CLASSES = max(_MUST_REPEAT)
_LARGEST_EXACT_INTEGER = 2.0**53
# What a spreadsheet takes for a formula, and where its next cell may begin. It drops blanks and
# quotation marks before both; some take the wide forms of the signs, too. A sign alone is text.
_FORMULA = re.compile(r"""(?:^|[,;|\t\r\n])["'\s]*[=+\-@\uff1d\uff0b\uff0d\uff20]\s*\S|^[\t\r]""")


def training_labels(
    labels: NDArray[Any],
    targets: Targets,
    name: str,
    *,
    task: str,
    certain: bool,
    named: dict[str, Any],
) -> NDArray[Any]:
    """Return the labels of the file ``name`` as an estimator of the task takes them.

    ``certain`` says whether the user named the task, so that classes need not look like it. The
    text of options that name labels (``pos_label``, ``unlabeled`` and ``categories`` in ``named``)
    becomes labels of the type that the file has.
    """
    if targets in (Targets.NOTHING, Targets.LABEL_SETS):
        return labels
    if targets is Targets.GRADES:
        grades = _grades(labels, name, words="categories" in named)
        if "categories" in named:
            categories = split_categories(named["categories"])
            order = _labels_of("--categories", categories, grades, name)
            for label in np.unique(grades).tolist():
                if label not in order:
                    raise InputError(
                        f"{name}: label {show_label(label)!r} is not in --categories "
                        f"{','.join(categories)}"
                    )
            named["categories"] = order
        return grades
    if targets is Targets.TAGS:
        return class_labels(labels, name, certain=True, least=1)
    if targets is not Targets.CLASSES:
        return target_numbers(labels, name, task)
    labels = class_labels(labels, name, certain=certain)
    if "pos_label" in named:
        if (n_classes := len(np.unique(labels))) > 2:
            raise InputError(f"--positive is for two classes, {name} has {n_classes}")
        named["pos_label"] = _label_there("--positive", named["pos_label"], labels, name)
    if "unlabeled" in named:
        named["unlabeled"] = _label_there("--unlabeled", named["unlabeled"], labels, name)
    return labels


def harmless(label: str) -> str:
    """Return a label as a spreadsheet may read it: a number as it is, text never as a formula.

    Text that one would evaluate begins with an apostrophe, and is one cell in quotation marks.
    """
    if _FORMULA.search(label) is None or reads_as_number(label):
        return label
    quoted = label.replace('"', '""')
    return f'"\'{quoted}"' if re.search(r"""[,;\t\r\n|"]""", label) else f"'{label}"


def label_matrix(sets: NDArray[Any]) -> tuple[NDArray[np.int64], list[str]]:
    """Return which example has which label, and the labels: numbers in their order, else words.

    ``sets`` are the labels of each line as `read_svmlight` gives them.
    """
    listed = [[label for label in text[1:].split(";") if label] for text in sets.tolist()]
    names = sorted({label for labels in listed for label in labels})
    if all(name.isascii() and name.isdigit() for name in names):
        names.sort(key=int)
    return MultiLabelBinarizer(classes=names).fit_transform(listed), names


def class_texts(
    classes: NDArray[Any], cells: Any = None, *, signed: bool = False
) -> list[str] | None:
    """Return classes as they stand in a file, if that is another text than `show_label` gives.

    ``cells`` are the labels of a table as they stand; ``signed`` says that numbers above zero have
    a sign.
    """
    shown = [show_label(label) for label in classes]
    texts = shown
    if cells is not None and classes.dtype.kind != "U":
        written: dict[float, set[str]] = {}
        for text in cells.unique().tolist():
            written.setdefault(float(text), set()).add(text)
        alone = {number: next(iter(of)) for number, of in written.items() if len(of) == 1}
        texts = [alone.get(float(label), text) for label, text in zip(classes, shown, strict=True)]
    elif signed and classes.dtype.kind in "if":
        texts = [
            f"+{text}" if label > 0 else text for label, text in zip(classes, shown, strict=True)
        ]
    return None if texts == shown else texts


def class_labels(labels: NDArray[Any], name: str, *, certain: bool, least: int = 2) -> NDArray[Any]:
    """Return a file's labels as a classifier takes them: whole numbers, or words.

    Fractions become words too, because scikit-learn takes them for measurements. Fewer than the
    ``least`` classes are refused, and so are numbers too large to be told apart, and, unless
    they are ``certain`` to be classes, labels that look like measurements.
    """
    classes, counts = np.unique(labels, return_counts=True)
    if labels.dtype.kind == "f" and (abs(classes) >= _LARGEST_EXACT_INTEGER).any():
        large = classes[np.argmax(abs(classes))]
        raise InputError(
            f"{name}: label {large:.17g} is too large to tell it from its neighbors; "
            "put a letter before the numbers, so that they are words"
        )
    if len(classes) < least:
        only = show_label(classes[0])
        raise InputError(f"{name}: all labels are {only}; classification needs two classes")
    if labels.dtype.kind != "f":
        if not certain and _are_too_rare(counts, {_MANY_CLASSES: 2}):
            raise InputError(
                f"{name}: {len(classes)} different words as labels in {len(labels)} lines; "
                "give --task classification if they are classes"
            )
        return labels
    whole = _all_whole(classes)
    many_fractions = len(classes) > _MANY_CLASSES and not whole
    if not certain and (many_fractions or _are_too_rare(counts, _MUST_REPEAT)):
        raise InputError(
            f"{name}: {len(classes)} different labels in {len(labels)} lines look like numbers to "
            "predict, not classes; try --task regression (or --task classification if they are)"
        )
    return labels.astype(np.int64) if whole else as_words(labels)


def _are_too_rare(counts: NDArray[np.int64], must_repeat: dict[int, int]) -> bool:
    """Whether labels that occur so often are not to be believed to be classes."""
    return any(len(counts) > many and counts.mean() < n for many, n in must_repeat.items())


def _label_there(option: str, text: str, labels: NDArray[Any], name: str) -> Any:
    """Return the one of a file's labels that an option names."""
    classes = np.unique(labels)
    (found,) = _labels_of(option, [text], classes, name)
    if found not in classes.tolist():
        there = " and ".join(map(show_label, classes))
        raise InputError(f"{option} {text}: {name} has no such label, only {there}")
    return found


def split_categories(text: str) -> list[str]:
    """Return the names that ``--categories`` lists."""
    names = [part.strip() for part in text.split(",")]
    if len(names) < 2 or not all(names):
        raise InputError(f"--categories must be grades from low to high: low,high; not {text!r}")
    if len(set(names)) < len(names):
        raise InputError(f"--categories {text}: a grade is there twice")
    return names


def _grades(labels: NDArray[Any], name: str, *, words: bool) -> NDArray[Any]:
    """Return a file's grades; they may be words if their order is given."""
    if labels.dtype.kind == "U":
        if words:
            return labels
        raise InputError(
            f"{name}: ordinal needs numbers as labels, not {show_label(labels[0])!r}, or the order "
            "of the words: --categories low,mid,high"
        )
    if not _all_whole(labels):
        fraction = labels[labels != np.rint(labels)][0]
        raise InputError(f"{name}: grades are whole numbers, not {fraction:g}")
    return class_labels(labels, name, certain=True)


def _labels_of(option: str, names: list[str], labels: NDArray[Any], name: str) -> list[Any]:
    """Return names as labels of the type that a file has."""
    if labels.dtype.kind == "U":
        return names
    found = []
    for text in names:
        try:
            found.append(labels.dtype.type(float(text)).item())
        except (ValueError, OverflowError):
            raise InputError(f"{option}: labels of {name} are numbers, not {text!r}") from None
    return found


def known_labels(labels: NDArray[Any], classes: NDArray[Any], name: str) -> NDArray[Any]:
    """Return a file's labels in the type of a model's classes, so that they can be compared."""
    if classes.dtype.kind in "UO":
        labels = as_words(labels)
    elif classes.dtype.kind in "iu" and labels.dtype.kind == "f" and _all_whole(labels):
        labels = labels.astype(np.int64)
    comparable = classes.dtype.kind in "UO" or labels.dtype.kind != "U"
    if not comparable or not np.isin(labels, classes).any():
        known = ", ".join(show_label(label) for label in classes[:5])
        raise InputError(
            f"{name}: the model knows none of the labels: it knows {known}, "
            f"the first one here is {show_label(labels[0])}"
        )
    return labels


def target_numbers(
    labels: NDArray[Any], name: str, task: str = "regression"
) -> NDArray[np.float64]:
    """Return a file's labels as a regressor or a ranker takes them."""
    if labels.dtype.kind == "U":
        raise InputError(f"{name}: {task} needs numbers as labels, not {show_label(labels[0])!r}")
    return labels


def as_words(labels: NDArray[Any]) -> NDArray[Any]:
    """Return labels as text."""
    return labels if labels.dtype.kind == "U" else np.array([*map(show_label, labels)])


def show_label(label: Any) -> str:
    """Return a label as it stands in a file: whole numbers without a point."""
    plain = plain_label(label)
    if isinstance(plain, float) and _all_whole(np.array([plain])):
        return str(int(plain))
    return str(plain)


def plain_label(label: Any) -> Any:
    """Return a label as Python's own int, float, bool or str."""
    return label.item() if isinstance(label, np.generic) else label


def _all_whole(numbers: NDArray[np.float64]) -> bool:
    return bool(
        (numbers == np.rint(numbers)).all() and (abs(numbers) <= _LARGEST_EXACT_INTEGER).all()
    )
