"""What does our training step cost compared with a bare loop?

The intermediate stage of a `tinybert-4l-312d` student on MRPC, once with `DistillationTrainer` and
everything it does (batches, named losses, logs, clipping, schedule), once with a plain loop over the same
models, batches and losses. Both take turns in one process: a step of ours, a step of the loop. `ratio` is our
median seconds per step divided by the loop's.

    python benchmarks/step_overhead.py --teacher teachers/mrpc --assets ../shared/assets

`--quick` makes 20 steps each instead of 100.
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import TrainerCallback, set_seed

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
from understudy.training.arguments import build_arguments
from understudy.training.cpu import tune_cpu
from understudy.training.order import length_grouped_order
from understudy.training.trainer import DistillationTrainer

BATCH, RATE, WARM_UP = 32, 5e-4, 5


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--teacher", type=Path, default=Path("teachers/mrpc"))
    parser.add_argument("--assets", type=Path, default=Path("../shared/assets"))
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    tune_cpu()
    steps = (20 if options.quick else 100) + WARM_UP
    task = get_task("mrpc")
    tokenizer = load_tokenizer(str(options.teacher))
    data = load_data(task, DataSettings(source=str(options.assets / "glue")), ["train"])
    rows = encode(data.splits["train"], task.kind, tokenizer, max_length=128)
    set_seed(0)
    settings = StudentSettings(shape="tinybert-4l-312d")
    student, _ = load_student(
        settings, str(options.teacher), task, data.labels, sample=lambda: (), dropout=0.0, attention="eager"
    )
    teacher = load_teacher(str(options.teacher), task, data.labels)
    flat = FlatLoop(copy.deepcopy(student), copy.deepcopy(teacher))
    model, layers = match(student, teacher, IntermediateSettings())
    flat.project.load_state_dict(model.projections.linears[0].state_dict())
    cast_linears(teacher, torch.bfloat16)

    collate = Collator(tokenizer)
    order = length_grouped_order(rows["length"][:], BATCH, seed=42, epoch=0)
    batches = [
        collate([rows[int(index)] for index in order[start : start + BATCH]])
        for start in range(0, BATCH * min(steps, len(order) // BATCH), BATCH)
    ]
    with tempfile.TemporaryDirectory() as folder:
        arguments = build_arguments(
            {
                "max_steps": steps,
                "per_device_train_batch_size": BATCH,
                "learning_rate": RATE,
                "bf16": True,
                "eval_strategy": "no",
                "save_strategy": "no",
                "logging_steps": 10,
                "warmup_steps": 0,
                "lr_scheduler_type": "constant",
            },
            Path(folder),
        )
        turns = InTurns(flat, batches)
        trainer = DistillationTrainer(
            model,
            teacher,
            args=arguments,
            train_dataset=rows,
            processing_class=tokenizer,
            teacher_layers=layers,
            callbacks=[turns],
        )
        trainer.train()
    ours, theirs = turns.ours[WARM_UP:], turns.theirs[WARM_UP:]
    figures = {
        "ratio": round(statistics.median(ours) / statistics.median(theirs), 3),
        "seconds_ours": [round(part, 4) for part in statistics.quantiles(ours, n=4)],
        "seconds_flat": [round(part, 4) for part in statistics.quantiles(theirs, n=4)],
        "steps": len(ours),
        # The same work: the mean losses of the first ten steps agree as far as rounding allows.
        "first_losses": [round(turns.losses[0], 2), round(statistics.mean(flat.losses[:10]), 2)],
    }
    print("seconds a step, quartiles", file=sys.stderr)
    for name in ("seconds_ours", "seconds_flat"):
        print(f"{name:>14}: {figures[name]}", file=sys.stderr)
    print(f"ratio of medians: {figures['ratio']}", file=sys.stderr)
    print(json.dumps(figures))


class InTurns(TrainerCallback):
    """After each step of the Trainer, a step of the flat loop on the same batch."""

    def __init__(self, flat: FlatLoop, batches: list[dict[str, Tensor]]) -> None:
        self.flat = flat
        self.batches = batches
        self.ours: list[float] = []
        self.theirs: list[float] = []
        self.losses: list[float] = []
        self.started = 0.0

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        self.started = time.perf_counter()

    def on_step_end(self, _arguments: Any, state: Any, _control: Any, **__: Any) -> None:
        # From the end of the last step on: reading the rows is part of ours.
        self.ours.append(time.perf_counter() - self.started)
        batch = self.batches[(state.global_step - 1) % len(self.batches)]
        before = time.perf_counter()
        self.flat.step(batch)
        self.theirs.append(time.perf_counter() - before)
        self.started = time.perf_counter()

    def on_log(self, *_: Any, logs: dict[str, float], **__: Any) -> None:
        if "loss" in logs:
            self.losses.append(logs["loss"])


class FlatLoop:
    """The same training, by hand: hooks on BERT's projections, losses in place, one optimiser."""

    def __init__(self, student: Any, teacher: Any) -> None:
        self.student, self.teacher = student, teacher
        self.project = nn.Linear(312, teacher.config.hidden_size)
        for module in teacher.modules():
            if isinstance(module, nn.Linear):
                module.to(torch.bfloat16)
        self.seen: dict[tuple[str, str, int], Tensor] = {}
        for side, model in (("student", student), ("teacher", teacher)):
            for index, layer in enumerate(model.bert.encoder.layer):
                attention = layer.attention.self
                for name in ("query", "key"):
                    getattr(attention, name).register_forward_hook(self.keep(side, name, index))
        self.parameters = [*student.parameters(), *self.project.parameters()]
        self.optimizer = torch.optim.AdamW(self.parameters, lr=RATE, weight_decay=0.01, fused=True)
        self.losses: list[float] = []
        student.train()

    def keep(self, side: str, name: str, index: int) -> Any:
        def hook(_module: nn.Module, _inputs: Any, output: Tensor) -> None:
            self.seen[side, name, index] = output

        return hook

    def step(self, batch: dict[str, Tensor]) -> None:
        names = ("input_ids", "attention_mask", "token_type_ids")
        inputs = {name: batch[name] for name in names}
        mask = batch["attention_mask"].float()
        tokens = mask.sum(dim=1)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            with torch.no_grad():
                taught = self.teacher.bert(**inputs, output_hidden_states=True).hidden_states
            learnt = self.student.bert(**inputs, output_hidden_states=True).hidden_states
            learnt = [self.project(state) for state in learnt]
        loss: Any = 0.0
        heads = self.student.config.num_attention_heads
        for layer in range(5):
            difference = (learnt[layer].float() - taught[3 * layer].float()).square().mean(dim=-1)
            loss = loss + (difference * mask).sum(dim=1) / tokens
        for layer in range(4):
            scores = []
            for side, index in (("student", layer), ("teacher", 3 * layer + 2)):
                query, key = (
                    (self.seen[side, name, index].float() * mask[:, :, None])
                    .unflatten(-1, (heads, -1))
                    .transpose(1, 2)
                    for name in ("query", "key")
                )
                scores.append(query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5)
            total = (scores[0] - scores[1]).square().sum(dim=(-1, -2)).mean(dim=1)
            loss = loss + total / tokens.square()
        loss = loss.mean()
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.losses.append(loss.item())


if __name__ == "__main__":
    main()
