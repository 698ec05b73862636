"""Elements escape their text, wherever it comes from."""

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from cutplane.report.words import Html, element, join, shortened, table


class Seen(HTMLParser):
    """What a reader of HTML finds: elements, attributes and text."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.text = [], [], ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.text += data


TEXTS = st.text(st.characters(exclude_characters="\r\x00", exclude_categories=["Cs"]), min_size=1)


@given(text=TEXTS, value=TEXTS)
def test_text_stays_text(text, value):
    seen = Seen(element("p", text, element("b", 1), title=value))
    assert seen.tags == ["p", "b"]
    assert seen.attributes == [("title", value)]
    assert seen.text == text + "1"


@given(cells=st.lists(TEXTS, min_size=2, max_size=2))
def test_cells_are_text(cells):
    seen = Seen(table(["a", "b"], [cells]))
    assert seen.tags == ["div", "table", "thead", "tr", "th", "th", "tbody", "tr", "td", "td"]
    assert seen.text == "ab" + "".join(map(shortened, cells))


def test_only_markup_stays_markup():
    assert join([Html("<b>"), "<b>"]) == "<b>&lt;b&gt;"
    assert element("td", None, class_=None) == "<td>None</td>"


def test_long_texts_are_cut():
    assert shortened("a" * 80) == "a" * 80
    assert shortened("a" * 81) == "a" * 79 + "…"
