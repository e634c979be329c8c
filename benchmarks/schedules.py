"""Which training schedule gets the most out of its steps? Plots scores for four ways and three starts.

The ways: labels alone; labels and soft labels, half each; TinyBERT's two stages (two thirds of the steps for
the layers); everything in one sum (`--method joint`). The starts: 4 layers of 312 cut from the fine-tuned
teacher (`cut`), 4 layers of 312 that `embeddings.py` made from all-MiniLM-L6-v2 (`embedding`), and that
public encoder itself, 6 layers of 384 (`minilm`). Every way reads as many batches of 32.

    python benchmarks/schedules.py --teachers teachers --assets ../shared/assets --minilm FOLDER \
        --embedding students/embeddings-minilm-4l-312d-layers/student --output-dir students

Runs that are already in the output folder are not repeated, so the script can be stopped and run again.
`--steps`, `--tasks`, `--starts`, `--ways` and `--seeds` choose a part. `--quick` makes a few steps of CoLA,
and writes no results.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runs import collect, finish, settings_options, students_parser

RESULTS = Path(__file__).parent / "results" / "schedules.json"
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "schedules.svg"
TASKS = {"cola": "matthews", "stsb": "pearson", "mrpc": "f1", "rte": "accuracy", "sst2": "accuracy"}
DRAWN = ("cola", "stsb")
STEPS = (300, 1000, 3000, 10_000)
STARTS = ("cut", "embedding", "minilm")
WAYS = ("labels", "soft", "stages", "joint")
# A cut student has much to learn, a pretrained one little to lose.
RATES = {"cut": 3e-4, "embedding": 3e-4, "minilm": 1e-4}
LAYER_RATES = {"cut": 1e-3, "embedding": 5e-4, "minilm": 1e-4}
COMMON = {
    "per_device_train_batch_size": 32,
    "gradient_accumulation_steps": None,
    "eval_strategy": "no",
    "save_strategy": "no",
    "load_best_model_at_end": None,
    "warmup_steps": 0.1,
}


def main() -> None:
    parser = students_parser(__doc__)
    parser.add_argument("--minilm", type=Path, help="folder of all-MiniLM-L6-v2")
    parser.add_argument("--embedding", type=Path, help="a student that embeddings.py has made of it")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(DRAWN))
    parser.add_argument("--starts", nargs="+", choices=STARTS, default=list(STARTS))
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--steps", nargs="+", type=int, default=list(STEPS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    options = parser.parse_args()
    if options.quick:
        options.output_dir /= "quick"  # so that no real run takes them for its own
        print(json.dumps({way: learn("cola", "cut", way, 6, 1, options)["scores"] for way in WAYS}))
        return
    for steps in options.steps:
        for seed in options.seeds:
            for task in options.tasks:
                for start in options.starts:
                    for way in options.ways:
                        learn(task, start, way, steps, seed, options)
                        results = collect(RESULTS, options)
    draw(results)
    for name, run in results.items():
        metric = TASKS[name.split("-")[0]]
        print(f"{name:28} {run['scores'][metric]['value']:.3f}", file=sys.stderr)
    print(json.dumps(results))


def learn(
    task: str, start: str, way: str, steps: int, seed: int, options: argparse.Namespace
) -> dict[str, Any]:
    """Make one run, or read what it left; its record."""
    method, settings = way_settings(way, start, steps)
    settings |= {"seed": seed, "dropout": 0.0}
    output = options.output_dir / f"{RESULTS.stem}-{task}-{start}-{way}-{steps}-{seed}"
    command = ["understudy", "distill", str(options.teachers / task), "--method", method, "--task", task]
    command += ["--data", str(options.assets / "glue")]
    if start == "cut":
        command += ["--student", "tinybert-4l-312d"]
        settings |= {"student.init": "cut", "student.layers": None, "student.num_hidden_layers": None}
    else:
        command += ["--student", str(getattr(options, start))]
    command += [*settings_options(settings), "--output-dir", str(output)]

    def describe(result: dict[str, Any]) -> dict[str, Any]:
        return {
            "teacher": {name: figure["value"] for name, figure in result["against"]["scores"]["dev"].items()},
            "difference": result["difference"]["dev"],
            "seconds": {name: stage["seconds"]["training"] for name, stage in result["stages"].items()},
        }

    return finish(command, output, describe)


def way_settings(way: str, start: str, steps: int) -> tuple[str, dict[str, Any]]:
    """The method of a way, and its settings."""
    if way == "stages":
        layers = max(1, 2 * steps // 3)
        return "tinybert", {
            **block("intermediate", layers, LAYER_RATES[start]),
            "intermediate.weights.attention": 0.02,
            "intermediate.training.eval_strategy": None,
            "intermediate.training.lr_scheduler_type": "linear",
            **block("prediction", steps - layers, RATES[start]),
            "prediction.search": None,
        }
    if way == "joint":
        return "joint", block("joint", steps, RATES[start])
    alpha = {"labels": 0.0, "soft": 0.5}[way]
    return "soft-labels", {
        **block("soft_labels", steps, RATES[start]),
        "soft_labels.search": None,
        "soft_labels.alpha": alpha,
        "soft_labels.temperature": 2.0,
    }


def block(stage: str, steps: int, rate: float) -> dict[str, Any]:
    """The training block of a stage."""
    training = {**COMMON, "max_steps": steps, "learning_rate": rate}
    return {f"{stage}.training.{key}": value for key, value in training.items()}


def draw(results: Mapping[str, Any]) -> None:
    """Score against steps: a panel for each task and start, a line for each way, the teacher dashed."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(len(STARTS), len(DRAWN), figsize=(9, 9.5), squeeze=False)
    for row, start in enumerate(STARTS):
        for column, task in enumerate(DRAWN):
            metric = TASKS[task]
            panel = panels[row][column]
            for way in WAYS:
                points: dict[int, list[float]] = {}
                for name, run in results.items():
                    if name.startswith(f"{task}-{start}-{way}-"):
                        steps = int(name.split("-")[3])
                        points.setdefault(steps, []).append(run["scores"][metric]["value"])
                        panel.axhline(run["teacher"][metric], color="0.6", linestyle="--", linewidth=0.8)
                means = {steps: sum(values) / len(values) for steps, values in sorted(points.items())}
                panel.plot(list(means), list(means.values()), marker="o", label=way)
            panel.set(xscale="log", title=f"{task}, {start}", xlabel="steps of 32 rows", ylabel=metric)
    panels[0][0].legend()
    figure.tight_layout()
    figure.savefig(PICTURE, metadata={"Date": None})


if __name__ == "__main__":
    main()
