"""Every kind, end to end: it learns, it is saved, and plain transformers reads it and says the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from kinds import EXAMPLES, same
from transformers import AutoTokenizer

import understudy
from understudy.data.load import load_data
from understudy.data.settings import DataSettings
from understudy.evaluation.score import prepare_split, score_model
from understudy.kinds.tasks import get_task
from understudy.models.pretrained import load_model
from understudy.workspace.result import StageResult

FAST = {
    "training.num_train_epochs": 1,
    "training.per_device_train_batch_size": 8,
    "training.gradient_accumulation_steps": 1,
    "training.report_to": "none",
    "training.load_best_model_at_end": False,
    "training.eval_strategy": "no",
    "training.save_strategy": "no",
    "training.disable_tqdm": True,
    "dropout": 0.0,
    "data.max_length": 64,
}


@pytest.mark.parametrize("kind", EXAMPLES)
def test_a_tiny_model_learns_is_saved_and_predicts_the_same(kind: str, encoder: Path, tmp_path: Path) -> None:
    example = EXAMPLES[kind]
    file = str(example.write(tmp_path))
    task = get_task(example.task)
    files = {"data.train": file, "data.dev": file}

    def train(name: str, steps: int, rate: float) -> StageResult:
        settings = FAST | files | {"training.max_steps": steps, "training.learning_rate": rate}
        return understudy.finetune(encoder, task=example.task, output_dir=tmp_path / name, settings=settings)

    start = train("start", steps=1, rate=0.0)
    trained = train(example.task, steps=example.steps, rate=5e-3)
    assert trained.scores["dev"][task.headline] > start.scores["dev"][task.headline]

    folder = tmp_path / example.task
    written = json.loads((folder / "result.json").read_text())
    assert written["scores"]["dev"][task.headline]["value"] == trained.scores["dev"][task.headline]
    # Trained with eager attention, evaluated with a fused one: the same up to rounding.
    assert understudy.evaluate(folder).scores["dev"] == pytest.approx(trained.scores["dev"])

    data = load_data(task, DataSettings(dev=file), ["dev"], labels=trained.content["labels"])
    model = load_model(str(folder), task, data.labels, fine_tuned=True)
    split = prepare_split(task, data.splits["dev"], AutoTokenizer.from_pretrained(folder), max_length=64)
    ours = score_model(model, AutoTokenizer.from_pretrained(folder), split).predictions.values
    predict = example.predict(folder)
    with torch.inference_mode():
        theirs = [predict(row) for row in data.splits["dev"]]
    assert all(same(one, other) for one, other in zip(ours, theirs, strict=True)), (ours, theirs)
