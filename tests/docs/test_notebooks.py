"""The notebooks run, and print what they show.

``python tests/docs/test_notebooks.py`` runs them and stores what they print and draw.
"""

import runpy
from pathlib import Path

import pytest
from tests.docs.test_code_blocks import assert_same_output

FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def texts(notebook):
    """Return what each cell prints; pictures and tables differ by the versions of what draws."""
    return [
        "".join(output["text"] for output in cell.outputs if output.get("name") == "stdout")
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def run(notebook, folder):
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    resources = {"metadata": {"path": str(folder)}}
    nbclient.NotebookClient(notebook, timeout=600, resources=resources).execute()
    return notebook


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("default")  # of the client and its sockets
def test_notebook(path, tmp_path):
    nbformat = pytest.importorskip("nbformat")
    shown = nbformat.read(path, as_version=4)
    found = run(nbformat.read(path, as_version=4), tmp_path)
    for place, (ours, theirs) in enumerate(zip(texts(shown), texts(found), strict=True)):
        assert_same_output(ours, theirs, f"{path.name}, cell {place}")
    pictures = [
        sum(
            "image/png" in output.get("data", {})
            for cell in each.cells
            if cell.cell_type == "code"
            for output in cell.outputs
        )
        for each in (shown, found)
    ]
    assert pictures[0] == pictures[1] > 0


def test_the_gallery_has_every_picture_of_the_pages():
    docs = FOLDER.parent
    made = runpy.run_path(str(docs / "gallery_page.py"))
    shown = made["pictures"](docs)
    assert set(shown) == {f"images/{picture.name}" for picture in (docs / "images").iterdir()}
    page = made["gallery"](docs)
    for picture, (_, name) in shown.items():
        assert f"({picture})]({name})" in page


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_kept_with_outputs_and_without_traces_of_a_machine(path):
    text = path.read_text(encoding="utf-8")
    assert '"image/png"' in text
    assert "Traceback" not in text
    assert not any(home in text for home in ("/home/", "/root/", "/tmp/", "/Users/"))


if __name__ == "__main__":
    import tempfile

    import nbformat

    for path in NOTEBOOKS:
        with tempfile.TemporaryDirectory() as folder:
            notebook = run(nbformat.read(path, as_version=4), folder)
        for cell in notebook.cells:
            cell.metadata.pop("execution", None)
            if cell.cell_type == "code":  # without what is told of compilation
                cell.outputs = [each for each in cell.outputs if each.get("name") != "stderr"]
            for output in cell.get("outputs", ()):
                # Whoever reads the page aloud needs words: the comment at the end of the cell.
                comments = [line for line in cell.source.splitlines() if line.startswith("# ")]
                if "image/png" in output.get("data", {}) and comments:
                    output.metadata["alt"] = comments[0].removeprefix("# ")
                    output.data.pop("text/plain", None)
        notebook.metadata = {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        }
        path.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8")
