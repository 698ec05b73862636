"""Errors that nobody expected: one line, and exit code 70."""

import pytest

import cutplane.cli
from cutplane.cli.process import ExitCode


@pytest.fixture
def broken(monkeypatch):
    def fail(*arguments, **options):
        raise RuntimeError("an inner\nthing broke")

    monkeypatch.setattr("cutplane.io.examples.read_svmlight", fail)
    monkeypatch.delenv("CUTPLANE_TRACEBACK", raising=False)


@pytest.mark.usefixtures("broken")
def test_a_defect_is_one_line_and_has_an_exit_code_of_its_own(run, two_classes, tmp_path):
    result = run("fit", two_classes, "--out", tmp_path / "model")
    assert result.exit_code == ExitCode.DEFECT == 70
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("cutplane: unexpected RuntimeError: an inner thing broke (a defect")
    assert "CUTPLANE_TRACEBACK=1" in line
    assert not (tmp_path / "model").exists()


@pytest.mark.usefixtures("broken")
def test_the_traceback_is_shown_to_those_who_ask(run, two_classes, monkeypatch):
    monkeypatch.setenv("CUTPLANE_TRACEBACK", "1")
    result = run("fit", two_classes)
    assert result.exit_code == 70
    assert result.stderr.startswith("Traceback (most recent call last):\n")
    assert result.stderr.splitlines()[-1].startswith("cutplane: unexpected RuntimeError")


def test_a_defect_outside_the_commands(monkeypatch, capsys):
    def fail():
        raise ImportError("no module named numpy")

    monkeypatch.setattr("cutplane.cli.app.app", fail)
    monkeypatch.setattr("cutplane.cli.process.end_at_ctrl_c", lambda: None)
    with pytest.raises(SystemExit) as caught:
        cutplane.cli.main()
    assert caught.value.code == 70
    assert capsys.readouterr().err.startswith("cutplane: unexpected ImportError: no module named")


def test_ctrl_c_in_compiled_code_is_an_interruption(run, two_classes, monkeypatch):
    def interrupted(*arguments, **options):
        error = SystemError("CPUDispatcher(...) returned a result with an exception set")
        raise error from KeyboardInterrupt()

    monkeypatch.setattr("cutplane.io.examples.read_svmlight", interrupted)
    result = run("fit", two_classes)
    assert result.exit_code == 130
    assert result.stderr == "cutplane: interrupted\n"
