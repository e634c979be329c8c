"""Is a small student better if it learns from a medium-sized student instead of the teacher?

A chain of three models, on five GLUE tasks: the fine-tuned teacher (12 layers of 384), a public encoder of 6
layers of 384 that learns its predictions, and 4 layers of 312 that are cut from this one and learn from it.

- `labels`: the public encoder, all-MiniLM-L6-v2, on the labels alone;
- `soft`: the same steps on labels and the teacher's soft labels, half each; this is the student of 6 layers;
- `assisted`: 4 layers of 312 cut from `soft`, both stages of TinyBERT with `soft` as the teacher;
- `four-labels`: the same start, on the labels alone for as many steps as both stages;
- `direct`: 4 layers of 312 cut from the 12-layer teacher, both stages with as many steps.

    python benchmarks/assistants.py --minilm FOLDER --teachers teachers --assets ../shared/assets

Runs that are already in the output folder are not repeated, so the script can be stopped and run again, and
several can run side by side. `--tasks`, `--ways` and `--seeds` select a part. `--quick` makes a few steps of
each way on MRPC and writes no results.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from runs import collect, finish, settings_options, show_means, students_parser

RESULTS = Path(__file__).parent / "results" / "assistants.json"
TASKS = {"sst2": "accuracy", "cola": "matthews", "mrpc": "f1", "rte": "accuracy", "stsb": "pearson"}
WAYS = ("labels", "soft", "assisted", "four-labels", "direct")
SIX_STEPS = {"sst2": 2000, "cola": 1300, "mrpc": 460, "rte": 400, "stsb": 720}
FOUR_STEPS = {
    "sst2": (2000, 1000),
    "cola": (2000, 800),
    "mrpc": (600, 300),
    "rte": (500, 200),
    "stsb": (900, 300),
}
COMMON = {
    "per_device_train_batch_size": 32,
    "gradient_accumulation_steps": None,
    "eval_strategy": "no",
    "save_strategy": "no",
    "load_best_model_at_end": None,
    "lr_scheduler_type": "linear",
    "warmup_steps": 0.1,
}


def main() -> None:
    parser = students_parser(__doc__)
    parser.add_argument("--minilm", type=Path, required=True, help="folder of all-MiniLM-L6-v2")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    options = parser.parse_args()
    if options.quick:
        options.output_dir /= "quick"  # so that no real run takes them for its own
        print(json.dumps({way: learn("mrpc", way, 1, options)["scores"] for way in options.ways}))
        return
    for seed in options.seeds:
        for task in options.tasks:
            for way in options.ways:
                learn(task, way, seed, options)
                results = collect(RESULTS, options)
    show_means(results, [f"{task}-{way}" for task in TASKS for way in WAYS])
    print(json.dumps(results))


def folder(task: str, way: str, seed: int, options: argparse.Namespace) -> Path:
    """The output folder of a run."""
    return Path(options.output_dir) / f"{RESULTS.stem}-{task}-{way}-{seed}"


def learn(task: str, way: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Make one run, or read what it left; its record."""
    teacher = options.teachers / task
    settings: dict[str, Any] = {"seed": seed, "dropout": 0.0}
    layer_steps, prediction_steps = (5, 5) if options.quick else FOUR_STEPS[task]
    if way in ("labels", "soft"):
        steps = 5 if options.quick else SIX_STEPS[task]
        student = str(options.minilm)
        settings |= soft_labels(task, 0.0 if way == "labels" else 0.5, steps, 1e-4)
    else:
        student = "tinybert-4l-312d"
        settings |= {"student.init": "cut", "student.layers": None, "student.num_hidden_layers": None}
        if way != "direct":
            learn(task, "soft", seed, options)
            teacher = folder(task, "soft", seed, options)
    if way == "four-labels":
        settings |= soft_labels(task, 0.0, layer_steps + prediction_steps, 3e-4)
    elif way in ("assisted", "direct"):
        settings |= {
            **block("intermediate", layer_steps, 1e-3),
            "intermediate.weights.attention": 0.02,
            "intermediate.training.eval_strategy": None,  # nothing is scored before the predictions
            **block("prediction", prediction_steps, 1e-4),
            "prediction.search": None,
        }
    method = "tinybert" if way in ("assisted", "direct") else "soft-labels"
    command = ["understudy", "distill", str(teacher), "--method", method, "--task", task]
    command += ["--data", str(options.assets / "glue"), "--student", student, *settings_options(settings)]
    output = folder(task, way, seed, options)

    def describe(result: dict[str, Any]) -> dict[str, Any]:
        return {
            "teacher": {name: figure["value"] for name, figure in result["against"]["scores"]["dev"].items()},
            "difference": result["difference"]["dev"],
            "steps": {name: stage["steps"] for name, stage in result["stages"].items()},
            "seconds": {name: stage["seconds"]["training"] for name, stage in result["stages"].items()},
        }

    return finish([*command, "--output-dir", str(output)], output, describe)


def soft_labels(task: str, alpha: float, steps: int, rate: float) -> dict[str, Any]:
    """Settings of labels and soft labels in one sum."""
    settings = {
        **block("soft_labels", steps, rate),
        "soft_labels.search": None,
        "soft_labels.alpha": alpha,
    }
    # A number has no temperature.
    return settings if task == "stsb" else settings | {"soft_labels.temperature": 2.0}


def block(stage: str, steps: int, rate: float) -> dict[str, Any]:
    """The training block of a stage."""
    training = {**COMMON, "max_steps": steps, "learning_rate": rate}
    return {f"{stage}.training.{key}": value for key, value in training.items()}


if __name__ == "__main__":
    main()
