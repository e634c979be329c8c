"""What do batches of similar lengths save, compared with padding every row to the recipe's maximum?

Steps of the intermediate stage (`tinybert-4l-312d` student, 12-layer teacher) on the same rows of SST-2
and MRPC: in our length-grouped batches, padded to their longest row, and as the published code has
them, in random batches padded to the recipe's maximum. Both take turns in one process. `speedup` is the
ratio of real tokens (padding not counted) per second.

    python benchmarks/real_lengths.py --teachers teachers --assets ../shared/assets

`--quick` takes 640 rows per task instead of 3,200.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import set_seed

from understudy.data.encode import Collator, encode
from understudy.data.load import load_data
from understudy.data.settings import DataSettings
from understudy.distillation.layers import match
from understudy.kinds.tasks import get_task
from understudy.models.pretrained import load_tokenizer
from understudy.models.settings import StudentSettings
from understudy.models.student import load_student
from understudy.models.teacher import cast_linears, load_teacher
from understudy.recipe.distillation import IntermediateSettings
from understudy.training.cpu import tune_cpu
from understudy.training.model import read_model
from understudy.training.order import length_grouped_order

BATCH, TURN = 32, 5


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--teachers", type=Path, default=Path("teachers"))
    parser.add_argument("--assets", type=Path, default=Path("../shared/assets"))
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    tune_cpu()
    figures = {
        task: measure(task, options.teachers / task, options.assets, 640 if options.quick else 3_200)
        for task in ("sst2", "mrpc")
    }
    headings = ("maximum", "real tokens", "mean width", "grouped/s", "padded/s", "speedup")
    print(f"{'task':6} " + " ".join(f"{heading:>11}" for heading in headings), file=sys.stderr)
    for task, row in figures.items():
        speeds = row["tokens_per_second"]
        cells = (
            f"{row['max_length']}",
            f"{row['mean_tokens']:.1f}",
            f"{row['mean_width']:.1f}",
            f"{speeds['grouped']:,.0f}",
            f"{speeds['padded']:,.0f}",
            f"{row['speedup']:.2f}",
        )
        print(f"{task:6} " + " ".join(f"{cell:>11}" for cell in cells), file=sys.stderr)
    print(json.dumps({"speedup": figures["sst2"]["speedup"], "tasks": figures}))


def measure(name: str, teacher_folder: Path, assets: Path, num_rows: int) -> dict[str, Any]:
    task = get_task(name)
    tokenizer = load_tokenizer(str(teacher_folder))
    data = load_data(task, DataSettings(source=str(assets / "glue")), ["train"])
    rows = encode(data.splits["train"], task.kind, tokenizer, max_length=task.max_length)
    chosen = np.random.default_rng(0).permutation(len(rows))[:num_rows]
    rows = rows.select(chosen)
    collate = Collator(tokenizer)
    orders = {
        "grouped": length_grouped_order(rows["length"][:], BATCH, seed=0, epoch=0),
        "padded": np.random.default_rng(0).permutation(len(rows)),
    }
    batches = {
        way: [
            collate([rows[int(index)] for index in order[start : start + BATCH]])
            for start in range(0, len(rows), BATCH)
        ]
        for way, order in orders.items()
    }
    batches["padded"] = [pad(batch, task.max_length) for batch in batches["padded"]]
    step = Step(teacher_folder, task, data.labels)
    step(batches["grouped"][0])  # warm
    step(batches["padded"][0])
    seconds, tokens = dict.fromkeys(batches, 0.0), dict.fromkeys(batches, 0)
    for start in range(0, len(batches["padded"]), TURN):
        for way in batches:
            for batch in batches[way][start : start + TURN]:
                before = time.perf_counter()
                step(batch)
                seconds[way] += time.perf_counter() - before
                tokens[way] += int(batch["attention_mask"].sum())
    assert tokens["grouped"] == tokens["padded"]
    speed = {way: tokens[way] / seconds[way] for way in batches}
    return {
        "rows": len(rows),
        "max_length": task.max_length,
        "mean_tokens": round(float(np.mean(rows["length"][:])), 1),
        "mean_width": round(float(np.mean([batch["input_ids"].shape[1] for batch in batches["grouped"]])), 1),
        "tokens_per_second": {way: round(value, 1) for way, value in speed.items()},
        "speedup": round(speed["grouped"] / speed["padded"], 2),
    }


def pad(batch: dict[str, Tensor], width: int) -> dict[str, Tensor]:
    """Filled up with zeros, which is BERT's padding everywhere."""
    return {
        name: nn.functional.pad(value, (0, width - value.shape[1])) if value.dim() == 2 else value
        for name, value in batch.items()
    }


class Step:
    """A training step as the stage makes it, without the Trainer around it."""

    def __init__(self, teacher_folder: Path, task: Any, labels: Any) -> None:
        set_seed(0)
        settings = StudentSettings(shape="tinybert-4l-312d")
        student, _ = load_student(
            settings, str(teacher_folder), task, labels, sample=lambda: (), dropout=0.0, attention="eager"
        )
        teacher = load_teacher(str(teacher_folder), task, labels)
        self.model, self.layers = match(student, teacher, IntermediateSettings())
        cast_linears(teacher, torch.bfloat16)
        self.teacher = teacher
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)
        self.model.train()

    def __call__(self, batch: dict[str, Tensor]) -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            with torch.no_grad():
                shown = read_model(self.teacher, batch, self.layers, self.model.objectives)
            terms = self.model(batch, shown)
        self.model.objectives.total(terms).mean().backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()


if __name__ == "__main__":
    main()
