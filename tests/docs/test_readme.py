"""The README works after its own line of installation: what it shows needs nothing else."""

import os
import re
import shlex
import subprocess
import sys
import tomllib
import venv
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tests.docs.test_code_blocks import RUNNERS, assert_same_output, blocks_of, outputs_of
from tests.processes import PATIENCE

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def install_line():
    """Return the command by which the README says to install cutplane."""
    lines = [
        line
        for block in blocks_of(README.read_text())
        if block.kind == "sh not-run"
        for line in block.code.splitlines()
    ]
    (line,) = [line for line in lines if line.startswith("pip install")]
    return shlex.split(line, comments=True)


def extras_of(*lines):
    """Return the extras of the clone that installations ask for; all must ask for the same."""
    named = [line.partition(".[")[2].partition("]")[0] for line in lines]
    (found,) = {frozenset(re.findall(r"\w+", names)) for names in named}
    return found


def test_make_and_nox_install_what_the_readme_installs():
    files = [(ROOT / name).read_text() for name in ("Makefile", "noxfile.py")]
    lines = re.findall(r"^.*\.\[.*$", "\n".join(files), re.MULTILINE)
    assert len(lines) >= 4
    assert extras_of(*lines) == extras_of(*install_line()[2:])


def test_no_index_of_packages_is_named():
    # Where packages come from is a matter of the settings of pip.
    names = ["Makefile", "noxfile.py", "pyproject.toml", "Dockerfile", ".ci/run"]
    paths = [*(ROOT / name for name in names), *(ROOT / ".github").rglob("*.yml")]
    for path in filter(Path.exists, paths):  # an archive of the sources lacks some
        found = re.search(r"index-url|find-links|https?://\S*(pypi|pytorch)\.org", path.read_text())
        assert not found, f"{path}: {found[0]}"


def distributions_with(extras):
    """Return the names of all packages that come with cutplane and some of its extras."""
    direct = PROJECT["dependencies"] + [
        each for extra in extras for each in PROJECT["optional-dependencies"][extra]
    ]
    found, rest = set(), [Requirement(each) for each in direct]
    while rest:
        wanted = rest.pop()
        key = canonicalize_name(wanted.name), frozenset(wanted.extras)
        if key in found:
            continue
        found.add(key)
        try:
            below = map(Requirement, requires(wanted.name) or [])
        except PackageNotFoundError:  # for another system or Python
            continue
        environments = [{"extra": extra} for extra in ("", *wanted.extras)]
        rest += [
            each
            for each in below
            if each.marker is None or any(map(each.marker.evaluate, environments))
        ]
    return {name for name, _ in found}


class Missing:
    """Finds no module of packages that are not installed with some extras."""

    def __init__(self, extras):
        here = distributions_with(extras)
        self._missing = {
            module
            for module, names in packages_distributions().items()
            if not any(canonicalize_name(name) in here | {"cutplane"} for name in names)
        }

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self._missing:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def run_readme(*extras):
    """Run the README as if only some extras were installed; in a process of its own."""
    assert not {"matplotlib", "pandas", "pyarrow"} & set(sys.modules)
    sys.meta_path.insert(0, Missing(extras))
    for block, printed in outputs_of(README):
        assert_same_output(block.code, printed, f"README.md:{block.line}")


def run_with(extras):
    """Run the README in a process as if only some extras were installed."""
    code = f"from tests.docs.test_readme import run_readme; run_readme(*{sorted(extras)})"
    paths = [str(ROOT), *sys.path]
    return subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        stderr=subprocess.PIPE,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def test_the_readme_needs_no_more_than_it_installs(tmp_path, monkeypatch):
    for extra, needed in (("plot", "matplotlib"), ("tables", "pandas")):
        pytest.importorskip(needed, reason=f"the extra {extra} is not installed")
    monkeypatch.chdir(tmp_path)
    done = run_with(extras_of(*install_line()[2:]))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("extra", "needs"), [("plot", "matplotlib"), ("tables", "pandas")])
def test_each_extra_of_the_readme_is_needed(extra, needs, tmp_path, monkeypatch):
    # And the test above would find out.
    monkeypatch.chdir(tmp_path)
    done = run_with(extras_of(*install_line()[2:]) - {extra})
    assert done.returncode != 0
    assert needs in done.stderr


# In an environment that has what the line installs, and nothing else: no pytest.
SHOW = """
import subprocess
def show(kind, code, namespace={"__name__": "__main__"}):
    if kind == "python":
        exec(code, namespace)
    else:
        subprocess.run(code, shell=True, check=True)
    print("\\0", flush=True)
"""


@pytest.mark.slow  # installs packages
def test_the_readme_in_an_environment_made_by_its_own_line(tmp_path):
    venv.create(tmp_path / "environment", with_pip=True)
    scripts = tmp_path / "environment" / ("Scripts" if sys.platform == "win32" else "bin")
    # Nothing of the sources here, nor of the environment that runs the tests.
    taken_out = ("PYTHON", "NUMBA_", "VIRTUAL_ENV")
    env = {name: value for name, value in os.environ.items() if not name.startswith(taken_out)}
    env["PATH"] = os.pathsep.join([str(scripts), env["PATH"]])
    program, *arguments = install_line()
    subprocess.run([scripts / program, *arguments], cwd=ROOT, env=env, check=True)
    blocks = [block for block in blocks_of(README.read_text()) if block.kind in (*RUNNERS, "text")]
    runs = [f"show({each.kind!r}, {each.code!r})" for each in blocks if each.kind in RUNNERS]
    (tmp_path / "readme.py").write_text("\n".join([SHOW, *runs]))
    done = subprocess.run(
        [scripts / "python", "readme.py"],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    printed = iter(done.stdout.split("\0\n"))
    last = ""
    for block in blocks:
        if block.kind in RUNNERS:
            last = next(printed)
        else:
            assert_same_output(block.code, last, f"README.md:{block.line}")
