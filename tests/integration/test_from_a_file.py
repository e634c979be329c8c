"""A student that learns from a file is the student that learns from the teacher who wrote it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
import torch
from kinds import EXAMPLES
from safetensors.torch import load_file
from teaching import method_settings, train_teacher
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import understudy
from understudy.data.load import cache_folder
from understudy.errors import OutputError

SETTINGS = method_settings(("soft_labels",), max_steps=20) | {"student.num_hidden_layers": 1}

# Knows transformers and pandas, and nothing of us.
PROGRAM = """
import sys
sys.modules["understudy"] = None
import pandas as pd, torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer
teacher, rows, out = sys.argv[1:]
model = AutoModelForSequenceClassification.from_pretrained(teacher).eval()
tokenizer = AutoTokenizer.from_pretrained(teacher)
table = pd.read_csv(rows)
with torch.no_grad():
    probabilities = [
        model(**tokenizer(text, return_tensors="pt")).logits[0].softmax(-1).tolist() for text in table["text"]
    ]
pd.DataFrame({"row": table.index, "probabilities": probabilities}).to_parquet(out)
"""


def distil(folder: Path, encoder: Path, task: str, rows: Path, **source: Path) -> dict[str, torch.Tensor]:
    data = {"data.train": str(rows), "data.dev": str(rows), "student.source": str(encoder)}
    result = understudy.distill(
        **source, method="soft-labels", task=task, output_dir=folder, settings=SETTINGS | data
    )
    assert ("against" in result.content) == ("teacher" in source)
    return load_file(folder / "student" / "model.safetensors")


@pytest.mark.parametrize("kind", ["classification", "multi-label", "multiple-choice", "regression"])
def test_what_the_teacher_said_brought_by_pandas_gives_the_same_student(
    kind: str, encoder: Path, tmp_path: Path
) -> None:
    teacher, task = train_teacher(encoder, kind, tmp_path), EXAMPLES[kind].task
    (rows,) = tmp_path.glob("rows.*")
    expected = distil(tmp_path / "taught", encoder, task, rows, teacher=teacher)
    (cached,) = cache_folder().glob("teacher-*/predictions-*.arrow")
    table = pa.ipc.open_stream(cached.read_bytes()).read_pandas().sample(frac=1.0, random_state=0)
    if kind == "regression":
        table = pd.DataFrame({"row": table["row"], "score": table["logits"].str[0]})
    table.to_parquet(tmp_path / "file.parquet")
    found = distil(tmp_path / "read", encoder, task, rows, predictions=tmp_path / "file.parquet")
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_probabilities_of_another_program(encoder: Path, tmp_path: Path) -> None:
    teacher = train_teacher(encoder, "classification", tmp_path)
    (rows,) = tmp_path.glob("rows.*")
    file = tmp_path / "file.parquet"
    command = [sys.executable, "-c", PROGRAM, str(teacher), str(rows), str(file)]
    subprocess.run(command, check=True, env={**os.environ, "HF_HUB_OFFLINE": "1"})
    expected = distil(tmp_path / "taught", encoder, "classification", rows, teacher=teacher)
    found = distil(tmp_path / "read", encoder, "classification", rows, predictions=file)
    # Logarithms of rounded probabilities are not the logits to the last bit, and Adam makes much of little
    # where a gradient is zero but for rounding (the biases of keys): what the students say is the same.
    assert any(not torch.equal(found[name], expected[name]) for name in expected)
    assert torch.allclose(logits(tmp_path / "taught"), logits(tmp_path / "read"), atol=1e-3)


def logits(folder: Path) -> torch.Tensor:
    model = AutoModelForSequenceClassification.from_pretrained(folder / "student").eval()
    tokenizer = AutoTokenizer.from_pretrained(folder / "student")
    with torch.no_grad():
        return model(**tokenizer(["good film", "very awful film"], return_tensors="pt", padding=True)).logits


def test_a_run_is_not_continued_with_another_file(encoder: Path, tmp_path: Path) -> None:
    rows = EXAMPLES["classification"].write(tmp_path)
    file = tmp_path / "file.parquet"
    number = len(pd.read_csv(rows))
    pd.DataFrame({"row": range(number), "logits": [[1.0, 0.0]] * number}).to_parquet(file)
    distil(tmp_path / "out", encoder, "classification", rows, predictions=file)
    (tmp_path / "out" / "result.json").unlink()
    pd.DataFrame({"row": range(number), "logits": [[0.0, 1.0]] * number}).to_parquet(file)
    with pytest.raises(OutputError, match="holds an unfinished run on other data"):
        distil(tmp_path / "out", encoder, "classification", rows, predictions=file)
