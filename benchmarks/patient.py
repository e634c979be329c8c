"""Does Patient KD beat plain soft labels, and do soft labels beat labels alone?

For MRPC, RTE and SST-2, students of six and three layers and three seeds each: the first layers of the
pretrained encoder learn in four ways for equally many steps: `labels` (soft labels with a weight of 0),
`soft-labels`, `pkd-skip` and `pkd-last`. All of it runs through the command line, as a user would do it.

    python benchmarks/patient.py --grid      # a part of the paper's grid, on MRPC with three layers
    python benchmarks/patient.py             # with the values it found

Runs that are in the results or in the output folder are not repeated, so the script can be stopped, or
started twice side by side with different --layers or --ways. `--quick` makes a few steps of MRPC and writes
no results.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from runs import collect, finish, settings_options, show_means, students_parser

RESULTS = Path(__file__).parent / "results" / "patient.json"
TASKS, LAYERS, SEEDS = ("mrpc", "rte", "sst2"), (6, 3), (1, 2, 3)
WAYS = ("labels", "soft-labels", "pkd-skip", "pkd-last")
# Three epochs of MRPC and RTE; a fifth of one of SST-2. CoLA and STS-B are asked for by desk.py.
STEPS = {"mrpc": 345, "rte": 234, "sst2": 400, "cola": 400, "stsb": 400}
GRID_STEPS = 230
# Batch and learning rate are the teachers'; of the paper's 5e-5, 2e-5 and 1e-5 none moves a model of this
# width in so few steps.
TRAINING = {"per_device_train_batch_size": 32, "learning_rate": 1e-4, "bf16": True}
GRID = {
    "soft_labels.search": {"alpha": [0.2, 0.5, 0.7], "temperature": [5, 20]},
    "patient.search": {"beta": [10, 100, 1000]},
}
# What --grid found.
ALPHA, TEMPERATURE, BETA = 0.7, 20.0, 1000.0


def main() -> None:
    parser = students_parser(__doc__)
    parser.add_argument("--layers", nargs="+", type=int, choices=LAYERS, default=LAYERS)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    parser.add_argument("--seeds", nargs="+", type=int, choices=SEEDS, default=SEEDS)
    parser.add_argument("--grid", action="store_true")
    options = parser.parse_args()
    if options.quick:
        options.output_dir /= "quick"  # so that no real run takes them for its own
        print(json.dumps({way: learn(way, "mrpc", 3, 1, options)["scores"] for way in WAYS}))
        return
    if options.grid:
        learn("grid", "mrpc", 3, 1, options)
        collect(RESULTS, options)
        return
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for seed in options.seeds:
        for layers in options.layers:
            for task in TASKS:
                for way in options.ways:
                    if f"{task}-{layers}l-{way}-{seed}" not in known:
                        learn(way, task, layers, seed, options)
    results = collect(RESULTS, options)
    show_means(results, [f"{task}-{layers}l-{way}" for task in TASKS for layers in LAYERS for way in WAYS])
    print(json.dumps(results))


def learn(way: str, task: str, layers: int, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Make one run, or read what it left; its record."""
    steps = GRID_STEPS if way == "grid" else STEPS[task]
    training = {**TRAINING, "max_steps": 5 if options.quick else steps}
    settings: dict[str, Any] = {
        "seed": seed,
        "dropout": 0.0,
        "student.source": str(options.assets / "bert-12l-384h-mlm"),
        "student.num_hidden_layers": layers,
        "soft_labels.training": training,
        "soft_labels.search": {},
    }
    if way != "grid":
        settings["soft_labels.alpha"] = 0.0 if way == "labels" else ALPHA
        if task != "stsb":  # numbers have no temperature
            settings["soft_labels.temperature"] = TEMPERATURE
    patient = way in ("pkd-skip", "pkd-last", "grid")
    if patient:
        settings |= {
            "patient.training": training,
            "patient.search": {},
            "patient.layer_map": "last" if way == "pkd-last" else "skip",
        }
    if way == "grid":
        settings |= GRID
    elif patient:
        settings["patient.beta"] = BETA
        del settings["soft_labels.training"]  # soft labels alone are not trained
    output = options.output_dir / f"patient-{task}-{layers}l-{way}-{seed}"
    command = ["understudy", "distill", str(options.teachers / task)]
    command += ["--method", "patient" if patient else "soft-labels", "--data", str(options.assets / "glue")]
    command += settings_options(settings)
    command += ["--output-dir", str(output)]
    return finish(command, output, describe)


def describe(result: dict[str, Any]) -> dict[str, Any]:
    """What is kept of a run beside its scores."""
    last = list(result["stages"].values())[-1]
    found = {
        "teacher": {name: figure["value"] for name, figure in result["against"]["scores"]["dev"].items()},
        "difference": result["difference"]["dev"],
        "agreement": result.get("agreement", {}).get("dev"),  # numbers have none
        "parameters": result["parameters"],
        "steps": last["steps"],
        "minutes": round(last["seconds"]["training"] / 60, 1),
    }
    trials = {name: stage["trials"] for name, stage in result["stages"].items() if len(stage["trials"]) > 1}
    return found | ({"trials": trials} if trials else {})


if __name__ == "__main__":
    main()
