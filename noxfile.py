"""What ``make`` does, where there is no make: ``python -m nox -s test``.

Each session has an environment of its own below ``.nox``.
"""

import shutil
from pathlib import Path

import nox

nox.options.sessions = ["lint", "test"]
nox.options.reuse_existing_virtualenvs = True


def install(session: nox.Session, *groups: str) -> None:
    """Install cutplane, editable, with groups of packages of pyproject.toml."""
    session.install("--upgrade", "pip>=25.1")
    session.install("--editable", ".[plot,tables]", *(f"--group={group}" for group in groups))


@nox.session
def demo(session: nox.Session) -> None:
    """Explain two small fits."""
    install(session)
    session.run("cutplane", "demo")


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and types, with the packages that they were checked with before."""
    install(session, "lint")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")


@nox.session
def test(session: nox.Session) -> None:
    """Run all tests but the slow ones; arguments after -- are those of pytest."""
    install(session, "test")
    run_tests(session)


def run_tests(session: nox.Session) -> None:
    """Run those that the arguments choose."""
    chosen = session.posargs or ["-m", "not slow"]
    session.run("pytest", "--numprocesses", "auto", *chosen)


@nox.session(python=["3.11", "3.12", "3.13"])
def newest(session: nox.Session) -> None:
    """Run the tests with the newest packages, with each Python that is there."""
    session.install("--upgrade", "pip>=25.1")
    everything = ["--upgrade", "--upgrade-strategy", "eager"]
    session.install(*everything, "--editable", ".[plot,tables]", "--group=test")
    run_tests(session)


@nox.session(python="3.11")
def lowest(session: nox.Session) -> None:
    """Run the tests with the oldest packages that pyproject.toml allows."""
    session.install("uv")
    session.run("uv", "pip", "install", "--resolution", "lowest-direct",
                "--editable", ".[plot,tables]", "--group", "test")  # fmt: skip
    run_tests(session)


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation, below docs/_build/html."""
    install(session, "docs")
    session.run("sphinx-build", "-b", "html", "-W", "--keep-going", "docs", "docs/_build/html")


@nox.session
def wheel(session: nox.Session) -> None:
    """Build a wheel and an sdist in dist, check them, try them in an empty environment."""
    shutil.rmtree("dist", ignore_errors=True)
    session.install("build", "twine")
    session.run("python", "-m", "build")
    built = sorted(map(str, Path("dist").iterdir()))
    session.run("twine", "check", "--strict", *built)
    for path in built:
        session.install("--force-reinstall", path)
        session.run("cutplane", "demo")
