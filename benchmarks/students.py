"""Does a student that learns from its teacher beat the same student that learns from labels alone?

For SST-2 and MRPC and three seeds each: a `tinybert-4l-312d` student from scratch goes through both
stages of TinyBERT with its `desk-tinybert-*` recipe, and the same student (the same first weights) is
fine-tuned on the labels for as many epochs as both stages together. All through the command line as a
user would, on the original training sets.

    python benchmarks/students.py --teachers teachers --assets ../shared/assets --output-dir students

Runs that are already in the results are skipped, so the script can be stopped and run again. `--quick` makes
a few steps of MRPC and writes no results.
"""

from __future__ import annotations

import argparse
import csv
import json
import shlex
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from runs import record, students_parser

RESULTS = Path(__file__).parent / "results" / "students.json"
TASKS, SEEDS = ("sst2", "mrpc"), (1, 2, 3)
LABELS_RATE = 5e-4  # of 1e-4 and 5e-4 the better on dev, tried on MRPC with one seed
QUICK = ["--set", "intermediate.training.max_steps=10", "--set", "prediction.training.max_steps=10"]


def main() -> None:
    parser = students_parser(__doc__)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=TASKS)
    options = parser.parse_args()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() and not options.quick else {}
    for seed in (1,) if options.quick else SEEDS:
        for task in ("mrpc",) if options.quick else options.tasks:
            for way, learn in (("distilled", distilled), ("labels", labels_only)):
                name = f"{task}-{way}-{seed}"
                if name in results:
                    continue
                results[name] = learn(task, seed, options)
                if not options.quick:
                    RESULTS.parent.mkdir(exist_ok=True)
                    RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    for task in TASKS:
        for way in ("distilled", "labels"):
            found = [results[name]["scores"] for name in results if name.startswith(f"{task}-{way}-")]
            for metric in found[0] if found else ():
                values = [scores[metric]["value"] for scores in found]
                print(
                    f"{task} {way:9} {metric:8} mean {statistics.mean(values):.4f}  "
                    f"{', '.join(f'{value:.4f}' for value in values)}",
                    file=sys.stderr,
                )
    print(json.dumps(results))


def distilled(task: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    output = options.output_dir / f"{task}-distilled-{seed}"
    command = ["understudy", "distill", str(options.teachers / task), "--recipe", f"desk-tinybert-{task}"]
    command += [
        "--data",
        str(options.assets / "glue"),
        "--set",
        "student.init=random",
        "--set",
        f"seed={seed}",
    ]
    command += ["--output-dir", str(output)]
    result = run([*command, *(QUICK if options.quick else [])])
    with (output / "intermediate" / "losses.csv").open() as file:
        lines = [{name: float(value) for name, value in line.items()} for line in csv.DictReader(file)]
    chosen = sorted({round(part * (len(lines) - 1) / 6) for part in range(7)})
    return record(result, command) | {
        "teacher": {name: figure["value"] for name, figure in result["against"]["scores"]["dev"].items()},
        "difference": result["difference"]["dev"],
        "agreement": result["agreement"]["dev"],
        "parameters": result["parameters"],
        "steps": {name: stage["steps"] for name, stage in result["stages"].items()},
        "minutes": {
            name: round(stage["seconds"]["training"] / 60, 1) for name, stage in result["stages"].items()
        },
        "losses": [lines[index] for index in chosen],
    }


def labels_only(task: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    from understudy.recipe.load import load_recipe

    recipe = load_recipe(f"desk-tinybert-{task}", {"student.init": "random"})
    stages = (recipe.intermediate.training, recipe.prediction.training)
    start = options.output_dir / f"{task}-start-{seed}"
    save_start(recipe, options.teachers / task, seed, start)
    settings = {
        "seed": seed,
        "dropout": recipe.dropout,
        "training.num_train_epochs": sum(stage["num_train_epochs"] for stage in stages),
        "training.learning_rate": LABELS_RATE,
        "training.per_device_train_batch_size": stages[0]["per_device_train_batch_size"],
    }
    if options.quick:
        settings["training.max_steps"] = 20
    command = ["understudy", "finetune", str(start), "--recipe", f"desk-finetune-{task}"]
    command += ["--data", str(options.assets / "glue")]
    command += [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    command += ["--output-dir", str(options.output_dir / f"{task}-labels-{seed}")]
    result = run(command)
    return record(result, command) | {
        "steps": result["steps"],
        "minutes": round(result["seconds"]["training"] / 60, 1),
    }


def save_start(recipe: Any, teacher: Path, seed: int, folder: Path) -> None:
    """The student as `distill` draws it from the seed."""
    from transformers import set_seed

    from understudy.models.heads import model_labels
    from understudy.models.pretrained import load_config, load_tokenizer
    from understudy.models.student import load_student

    labels = model_labels(load_config(str(teacher)), recipe.task_definition)
    set_seed(seed)
    student, _ = load_student(recipe.student, str(teacher), recipe.task_definition, labels, sample=lambda: ())
    student.save_pretrained(folder)
    load_tokenizer(str(teacher)).save_pretrained(folder)


def run(command: list[str]) -> dict[str, Any]:
    print(shlex.join(command), file=sys.stderr)
    # Not --overwrite: a run that was interrupted continues.
    finished = subprocess.run([*command, "--json"], check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(finished.stdout)


if __name__ == "__main__":
    main()
