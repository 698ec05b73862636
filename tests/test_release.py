"""What is released: packages that install and work, and files that are as their schemas say."""

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


def run(*command, cwd=ROOT):
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False
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
@pytest.mark.parametrize("suffix", [".whl", ".gz"])
def test_packages_install_and_work_in_an_empty_environment(distributions, suffix, tmp_path):
    venv.create(tmp_path / "environment", with_pip=True)
    scripts = tmp_path / "environment" / ("Scripts" if sys.platform == "win32" else "bin")
    run(scripts / "python", "-m", "pip", "install", distributions[suffix])
    version, path = run(scripts / "python", "-c", SMOKE, cwd=tmp_path).split()
    assert Path(path).is_relative_to(tmp_path)
    assert version in distributions[suffix].name
    assert run(scripts / "cutplane", "--version", cwd=tmp_path) == f"cutplane {version}\n"
    assert "Certificate" in run(scripts / "cutplane", "demo", cwd=tmp_path)
    for package in (tmp_path / "environment").rglob("cutplane/py.typed"):
        assert (package.parent / "__init__.pyi").exists()


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
