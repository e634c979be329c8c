"""DistillationTrainer on two processes: equal to one, with every term left out in turn."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = """
import json, sys
from pathlib import Path

import torch
from datasets import Dataset
from transformers import BertConfig, BertForSequenceClassification, TrainingArguments

from understudy import DistillationTrainer, PatientObjectives, TinyBertObjectives, get_kind

torch.set_num_threads(1)


def model(layers, size):
    torch.manual_seed(layers)
    return BertForSequenceClassification(BertConfig(
        vocab_size=50, hidden_size=size, num_hidden_layers=layers, num_attention_heads=2,
        intermediate_size=2 * size, max_position_embeddings=16, initializer_range=0.2,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0))


def collate(rows):
    names = ("input_ids", "attention_mask", "labels")
    return {name: torch.tensor([row[name] for row in rows]) for name in names}


def train(objectives, batch, count, folder):
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(0, 50, (count, 8), generator=generator).tolist()
    labels = [number % 2 for number in range(count)]
    rows = Dataset.from_dict({"input_ids": ids, "attention_mask": [[1] * 8] * count, "labels": labels})
    trainer = DistillationTrainer(
        model(2, 16), model(4, 24), objectives,
        TrainingArguments(
            folder, max_steps=3, per_device_train_batch_size=batch, use_cpu=True, report_to="none",
            disable_tqdm=True, save_strategy="no", learning_rate=1e-3, optim="sgd", max_grad_norm=0.0,
            train_sampling_strategy="sequential", accelerator_config={"even_batches": False}),
        data_collator=collate, train_dataset=rows)
    trainer.train()
    return {name: value.double().sum().item() for name, value in trainer.model.state_dict().items()}


wanted = {
    "whole": TinyBertObjectives(),
    "embeddings": TinyBertObjectives(weights={"embeddings": 0.0}),
    "attention": TinyBertObjectives(weights={"attention": 0.0}),
    "hidden": TinyBertObjectives(weights={"hidden": 0.0}),
    "layers": TinyBertObjectives(weights={"hidden": 0.0, "attention": 0.0}),
    "per-layer": TinyBertObjectives(projection="per-layer", weights={"hidden_1": 0.0}),
    "patient": PatientObjectives(get_kind("classification"), "skip", beta=10.0, projection="shared"),
}
batch, count, out = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
found = {name: train(one, batch, count, str(out.parent / "training")) for name, one in wanted.items()}
if not torch.distributed.is_initialized() or torch.distributed.get_rank() == 0:
    out.write_text(json.dumps(found))
"""


def run(launcher: list[str], batch: int, count: int, folder: Path, name: str) -> dict[str, Any]:
    script = folder / "train.py"
    script.write_text(SCRIPT)
    finished = subprocess.run(
        [*launcher, str(script), str(batch), str(count), str(folder / name)],
        check=False,
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        timeout=600,
    )
    assert finished.returncode == 0, finished.stderr[-3000:]
    return json.loads((folder / name).read_text())


@pytest.mark.parametrize(("batch", "count"), [(2, 4), (3, 5)])
def test_two_processes_are_one_whatever_is_left_out(batch: int, count: int, tmp_path: Path) -> None:
    """Also where they have unequal numbers of rows: 3 and 2 weigh as 5."""
    one = run([sys.executable], count, count, tmp_path, "one.json")
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    two = run(launcher, batch, count, tmp_path, "two.json")
    for name, weights in one.items():
        assert two[name] == pytest.approx(weights, rel=1e-5, abs=1e-4), name
    learnt = {name: weights["projections.linears.0.weight"] for name, weights in one.items()}
    assert len(set(learnt.values())) > 4  # each of them trained something else
