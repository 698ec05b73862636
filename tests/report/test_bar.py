"""The bar: lines in files, something that moves on terminals."""

import io

from cutplane.report.progress import bar_on


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_lines():
    stream = io.StringIO()
    with bar_on(stream) as progress:
        progress(0.0, "begin")
        progress(0.5, "half")
    assert stream.getvalue() == "  0 %  begin\n 50 %  half\n"


def test_bar(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    with bar_on(stream) as progress:
        progress(0.5, "half")
    assert "half" in stream.getvalue()
    assert "50%" in stream.getvalue()
