"""What does a grid search cost with the teacher's predictions cached, and with the teacher run in every step?

Patient KD's grid on MRPC rows with the real teacher and a student of three layers: each trial is trained
twice in turns, once from the cache and once with the teacher's forward pass in the step, its weights
rounded once as our intermediate stage has them. The pass that fills the cache counts as part of the grid.

    python benchmarks/teacher_cache.py --teacher teachers/mrpc --assets ../shared/assets

Prints one JSON object: `speedup` of the grid as it was run, the seconds of both ways, the teacher's rows,
bytes on disk, and the speedup that the same steps would have over the paper's grid of 39 trials of 4 epochs.
`--quick` runs two trials of a few steps and writes no results.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runs import git_commit, machine

RESULTS = Path(__file__).parent / "results" / "teacher_cache.json"
GRID = {"temperature": (5.0, 20.0), "beta": (10.0, 100.0, 1000.0)}
PAPER_TRIALS, PAPER_EPOCHS = 39, 4
ROWS, BATCH, LAYERS = 1_920, 32, 3


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--teacher", type=Path, default=Path("teachers/mrpc"))
    parser.add_argument("--assets", type=Path, default=Path("../shared/assets"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["UNDERSTUDY_CACHE"] = str(Path(folder) / "cache")
        results = measure(options, Path(folder))
    print(json.dumps(results))
    if not options.quick:
        RESULTS.write_text(json.dumps(results, indent=2) + "\n")


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    import torch
    from transformers import set_seed

    from understudy.data.encode import Collator
    from understudy.distillation.rows import prepare
    from understudy.distillation.teacher_cache import add_teacher_answers
    from understudy.models.layer_map import layer_map
    from understudy.models.student import load_student
    from understudy.models.teacher import cast_linears, load_teacher
    from understudy.recipe.load import load_recipe
    from understudy.training.arguments import build_arguments
    from understudy.training.cpu import tune_cpu
    from understudy.training.model import match_models
    from understudy.training.objectives import PatientObjectives
    from understudy.training.trainer import DistillationTrainer
    from understudy.workspace.hashes import hash_model

    torch.set_num_threads(options.threads)
    tune_cpu()
    teacher_name = str(options.teacher)
    rows = 128 if options.quick else ROWS
    steps = rows // BATCH
    recipe = load_recipe(
        "pkd-classification",
        {
            "task": "mrpc",
            "teacher": teacher_name,
            "data.source": str(options.assets / "glue"),
            "student.num_hidden_layers": LAYERS,
            "dropout": 0.0,
        },
    )
    arguments = build_arguments(
        {
            "max_steps": steps,
            "per_device_train_batch_size": BATCH,
            "learning_rate": 1e-4,
            "bf16": True,
            "eval_strategy": "no",
            "save_strategy": "no",
            "report_to": "none",
            "disable_tqdm": True,
        },
        folder,
    )
    prepared = prepare(recipe, teacher_name, arguments)
    chosen = prepared.train.select(range(rows))
    labels = prepared.data.labels
    teacher = load_teacher(teacher_name, prepared.task, labels)
    config = teacher.config
    taught = layer_map("skip", LAYERS, config.num_hidden_layers)
    asked: list[int] = []
    teacher.register_forward_pre_hook(
        lambda _, __, inputs: asked.append(len(inputs["input_ids"])), with_kwargs=True
    )
    started = time.perf_counter()
    answered = add_teacher_answers(
        chosen, prepared.task.kind, lambda: teacher, prepared.tokenizer, hash_model(teacher_name), arguments,
        layers=taught,
    )  # fmt: skip
    seconds_fill = time.perf_counter() - started
    rows_filled = sum(asked)
    on_disk = {
        kind: sum(
            path.stat().st_size
            for path in (folder / "cache").rglob(f"{kind}-*.*")
            if path.suffix != ".sha256"
        )
        for kind in ("predictions", "states")
    }

    cast_linears(teacher, torch.bfloat16)

    def train(values: Mapping[str, float], *, cached: bool) -> float:
        set_seed(1)
        student, _ = load_student(recipe.student, teacher_name, prepared.task, labels, sample=lambda: ())
        objectives = PatientObjectives(
            prepared.task.kind, taught, beta=values["beta"], temperature=values["temperature"]
        )
        model, layers = match_models(student, None, objectives, teacher_config=config)
        trainer = DistillationTrainer(
            model,
            None if cached else teacher,
            args=arguments,
            data_collator=Collator(prepared.tokenizer, keep_row=True, state_size=config.hidden_size),
            train_dataset=answered if cached else chosen,
            teacher_layers=layers,
        )
        started = time.perf_counter()
        trainer.train()
        return time.perf_counter() - started

    trials = [dict(zip(GRID, values, strict=True)) for values in itertools.product(*GRID.values())]
    seconds: dict[bool, list[float]] = {True: [], False: []}
    train(trials[0], cached=True)  # the first run of a process is slower
    for trial in trials[:2] if options.quick else trials:
        for cached in (True, False):
            seconds[cached].append(train(trial, cached=cached))
    step = {cached: statistics.median(values) / steps for cached, values in seconds.items()}
    paper_steps = PAPER_TRIALS * PAPER_EPOCHS * steps
    with_cache = seconds_fill + sum(seconds[True])
    return {
        "speedup": round(sum(seconds[False]) / with_cache, 3),
        "speedup_of_a_step": round(step[False] / step[True], 3),
        "computed_for_the_papers_grid": round(
            paper_steps * step[False] / (seconds_fill + paper_steps * step[True]), 3
        ),
        "trials": len(seconds[True]),
        "steps_of_a_trial": steps,
        "seconds": {
            "filling": round(seconds_fill, 2),
            "cached": [round(value, 2) for value in seconds[True]],
            "recomputed": [round(value, 2) for value in seconds[False]],
        },
        "rows": rows,
        "teacher_rows_with_cache": rows_filled,
        "teacher_rows_recomputed": sum(asked) - rows_filled,
        "bytes_on_disk": on_disk,
        "bytes_of_the_numbers": {
            "predictions": rows * config.num_labels * 4,
            "states": rows * len(taught) * config.hidden_size * 4,
        },
        "threads": options.threads,
        "machine": machine(),
        "commit": git_commit(),
    }


if __name__ == "__main__":
    main()
