"""Every script in `examples/` runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForSequenceClassification, BertConfig, BertForSequenceClassification

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("script", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_an_example_runs_and_leaves_an_ordinary_model(script: str, encoder: Path, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    teacher, student = tmp_path / "teacher", tmp_path / "student"
    torch.manual_seed(0)
    BertForSequenceClassification(BertConfig.from_pretrained(encoder)).save_pretrained(teacher)
    AutoTokenizer.from_pretrained(encoder).save_pretrained(teacher)
    command = [sys.executable, str(EXAMPLES / script), str(teacher), str(student)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    loaded = AutoModelForSequenceClassification.from_pretrained(student)
    assert loaded.config.num_hidden_layers == 1
