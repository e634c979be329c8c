"""Every notebook in `examples/` runs from its first cell to its last, and is committed without outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[2] / "examples"
NOTEBOOKS = sorted(path.name for path in EXAMPLES.glob("*.ipynb"))


def execute(name: str, folder: Path, **parameters: Any) -> dict[str, str]:
    """Run a notebook in a folder, its parameters replaced; what its last cells show, by their source."""
    notebook = nbformat.read(EXAMPLES / name, as_version=4)
    (cell,) = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", ())]
    assert {line.split(" = ")[0] for line in cell.source.splitlines()} == set(parameters)
    cell.source = "\n".join(f"{key} = {value!r}" for key, value in parameters.items())
    NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    ).execute()
    return {
        cell.source: "\n".join(
            output.get("text", "") + output.get("data", {}).get("text/plain", "") for output in cell.outputs
        )
        for cell in notebook.cells
        if cell.cell_type == "code"
    }


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_has_no_outputs(name: str) -> None:
    notebook = nbformat.read(EXAMPLES / name, as_version=4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        assert cell.get("outputs", []) == []
        assert cell.get("execution_count") is None


def test_there_is_a_test_of_every_notebook() -> None:
    assert NOTEBOOKS == ["glue_task.ipynb", "serve_and_browser.ipynb", "your_csv.ipynb"]


def test_your_csv(encoder: Path, tmp_path: Path) -> None:
    shown = execute("your_csv.ipynb", tmp_path, encoder=str(encoder), student="1l-16d", steps=5)
    *_, table, last = shown.values()
    assert "student, int8: accuracy" in table
    assert "'label':" in last
    assert (tmp_path / "runs" / "reviews" / "report.html").is_file()


def test_serve_and_browser(encoder: Path, tmp_path: Path) -> None:
    shown = execute("serve_and_browser.ipynb", tmp_path, encoder=str(encoder), steps=20)
    *_, label, sizes = shown.values()
    assert label in ("'positive'", "'negative'")
    assert "onnx/model_quantized.onnx" in sizes


@pytest.mark.real
def test_a_glue_task(assets: Path, tmp_path: Path) -> None:
    folder = tmp_path / "glue" / "MRPC"
    folder.mkdir(parents=True)
    for name in ("train.tsv", "dev.tsv"):  # the whole development set takes minutes, again at every stage
        lines = (assets / "glue" / "MRPC" / name).read_text("utf-8").splitlines(keepends=True)
        (folder / name).write_text("".join(lines[:65]), "utf-8")
    model = str(assets / "bert-12l-384h-mlm")
    shown = execute("glue_task.ipynb", tmp_path, encoder=model, data=str(folder.parent), rows=64, steps=2)
    assert "int8: " in list(shown.values())[-2]
    assert (tmp_path / "artifacts" / "mrpc" / "artifact.json").is_file()
