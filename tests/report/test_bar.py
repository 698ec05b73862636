"""The bar: lines in files, something that moves on terminals."""

import io

from cutplane.report.progress import Bar, Lines, bar_on


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_the_display_suits_the_stream():
    assert isinstance(bar_on(Terminal()), Bar)
    assert isinstance(bar_on(io.StringIO()), Lines)


def test_lines():
    stream = io.StringIO()
    with Lines(stream) as progress:
        progress(0.0, "begin")
        progress(0.5, "half")
    assert stream.getvalue() == "  0 %  begin\n 50 %  half\n"


def test_bar(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    with Bar(stream) as progress:
        progress(0.5, "half")
    assert "half" in stream.getvalue()
    assert "50%" in stream.getvalue()
