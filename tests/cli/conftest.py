import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file
from typer.testing import CliRunner

from cutplane.cli.app import app


@pytest.fixture
def run():
    """Return a function that runs the command line in this process."""

    def invoke(*arguments, stdin=None):
        result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception  # what a user would see as a traceback
        return result

    return invoke


@pytest.fixture
def complaint(run):
    """Return a function that runs a command that must fail, and gives its only line."""

    def invoke(*arguments, stdin=None):
        result = run(*arguments, stdin=stdin)
        assert result.exit_code == 2, result.output
        assert result.stdout == ""
        (line,) = result.stderr.splitlines()
        assert line.startswith("cutplane: ")
        return line.removeprefix("cutplane: ")

    return invoke


def _dump(path, X, y):
    dump_svmlight_file(X, y, str(path), zero_based=False)
    return path


@pytest.fixture
def two_classes(tmp_path):
    """A file of 60 lines with labels -1 and 1, and 4 features."""
    rng = np.random.default_rng(0)
    y = np.where(np.arange(60) % 3, 1, -1)
    return _dump(tmp_path / "two.svm", rng.normal(size=(60, 4)) + y[:, None], y)


@pytest.fixture
def three_classes(tmp_path):
    """A file of 60 lines with labels 0, 1 and 2, and 4 features."""
    rng = np.random.default_rng(1)
    y = np.arange(60) % 3
    return _dump(tmp_path / "three.svm", rng.normal(size=(60, 4)) + 2 * np.eye(3, 4)[y], y)


@pytest.fixture
def numbers(tmp_path):
    """A file of 60 lines with numbers to predict, and 4 features."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(60, 4))
    return _dump(tmp_path / "numbers.svm", X, X @ [1.0, 2.0, 0.0, -1.0] + rng.normal(size=60))


@pytest.fixture
def model(run, two_classes, tmp_path):
    """A model file trained on `two_classes`."""
    path = tmp_path / "model.safetensors"
    assert run("fit", two_classes, "--lam", 0.01, "--out", path, "-q").exit_code == 0
    return path
