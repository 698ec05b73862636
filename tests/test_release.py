"""What is released: packages that install and work, and files that are as their schemas say."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SMOKE = (
    "import cutplane as cp, numpy as np\n"
    "X = np.random.default_rng(0).normal(size=(60, 3))\n"
    "model = cp.LinearClassifier(lam=0.1).fit(X, X[:, 0] > 0)\n"
    "assert model.certificate_.valid and model.certificate_.status == 'optimal'\n"
    "cp.save_model(model, 'model')\n"
    "assert (cp.load_model('model').predict(X) == model.predict(X)).all()\n"
    "print(cp.__version__, cp.__file__)\n"
)


# Longer than any of these takes on a slow network or a busy machine; it is there for what hangs.
MINUTES = 60.0
STEP_SECONDS = 20 * MINUTES


def run(*command, cwd=ROOT, env=None):
    command = [str(part) for part in command]
    done = subprocess.run(
        command, cwd=cwd, env=env, capture_output=True, text=True, timeout=STEP_SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def distributions(tmp_path_factory):
    pytest.importorskip("build", reason="the package build is not installed")
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", folder)
    return {path.suffix: path for path in folder.iterdir()}


@pytest.mark.slow
def test_packages_are_described_as_the_index_wants(distributions):
    pytest.importorskip("twine", reason="twine is not installed")
    run(sys.executable, "-m", "twine", "check", "--strict", *distributions.values())


@pytest.mark.slow
def test_packages_install_and_work_in_an_empty_environment(distributions, tmp_path):
    # One environment for both: what they depend on is loaded and installed once.
    venv.create(tmp_path / "environment", with_pip=True)
    scripts = tmp_path / "environment" / ("Scripts" if sys.platform == "win32" else "bin")
    # Nothing of the sources here, nor of the environment that runs the tests.
    taken_out = ("PYTHON", "NUMBA_", "VIRTUAL_ENV")
    env = {name: value for name, value in os.environ.items() if not name.startswith(taken_out)}
    for suffix in (".whl", ".gz"):
        install = [scripts / "python", "-m", "pip", "install", "--disable-pip-version-check"]
        run(*install, distributions[suffix], cwd=tmp_path, env=env)
        version, path = run(scripts / "python", "-c", SMOKE, cwd=tmp_path, env=env).split()
        assert Path(path).is_relative_to(tmp_path)
        assert version in distributions[suffix].name
        said = run(scripts / "cutplane", "--version", cwd=tmp_path, env=env)
        assert said == f"cutplane {version}\n"
        assert "Certificate" in run(scripts / "cutplane", "demo", cwd=tmp_path, env=env)
        package = Path(path).parent
        assert (package / "py.typed").exists()
        assert (package / "__init__.pyi").exists()
        run(scripts / "python", "-m", "pip", "uninstall", "--yes", "cutplane", env=env)
        assert not (package / "__init__.py").exists()


def test_the_citation_is_as_its_schema_says():
    cffconvert = pytest.importorskip("cffconvert", reason="cffconvert is not installed")
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    cffconvert.Citation(text).validate()  # raises
    with pytest.raises(Exception, match="title"):
        cffconvert.Citation(text.replace("\ntitle:", "\nname:")).validate()


@pytest.mark.parametrize("name", ["tests.yml", "publish.yml"])
def test_workflows_are_as_their_schema_says(name):
    pytest.importorskip("check_jsonschema", reason="check-jsonschema is not installed")
    path = ROOT / ".github" / "workflows" / name
    program = [sys.executable, "-c", "from check_jsonschema import main; main()"]
    assert "ok" in run(*program, "--builtin-schema", "vendor.github-workflows", path)
