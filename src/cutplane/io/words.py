"""What a word must be to serve as a label."""

from __future__ import annotations

import re

LONGEST_LABEL = 256
"""In characters. NumPy gives every label of an array the room of the longest."""

# Control characters, separators of lines, and the byte order mark that stands in the middle of
# files that were appended to each other: a label with one of them looks like another label.
_INVISIBLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff]")


def what_is_wrong_with_label(word: str) -> str | None:
    """Return what is wrong with a label, in words that follow "label ..."; None if it is good."""
    if len(word) > LONGEST_LABEL:
        return f"has {len(word):,} characters; {LONGEST_LABEL} are allowed"
    if found := _INVISIBLE.search(word):
        return f"has the invisible character U+{ord(found[0]):04X}"
    return None
