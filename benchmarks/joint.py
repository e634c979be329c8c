r"""What do students that learn everything in one sum keep of their teachers, as shipped?

On five GLUE tasks, `--method joint` (layers, predictions and labels in one sum, as in `schedules.py`):

- `joint`: 4 layers of 312, cut from the fine-tuned teacher;
- `joint6`: 6 layers of 384, cut from it too;

and both in int8 (`joint-int8`, `joint6-int8`), with the teacher in int8 beside them (`teacher-int8`).

    python benchmarks/joint.py --teachers teachers --assets ../shared/assets --output-dir students

Adds to `results/desk.json`; `joint_kept_percent` is there what the int8 students keep of their teachers, task
by task. Runs that are in the output folder are not made again. `--tasks`, `--ways` and `--seeds` choose a
part; `--quick` makes a few steps of MRPC and writes no results.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from runs import record, students_parser
from schedules import learn

RESULTS = Path(__file__).parent / "results" / "desk.json"
STEPS = {"sst2": 1000, "cola": 2000, "mrpc": 700, "rte": 400, "stsb": 1000}
STARTS = {"joint": "cut", "joint6": "cut6"}


def main() -> None:
    parser = students_parser(__doc__)
    parser.add_argument("--tasks", nargs="+", choices=STEPS, default=list(STEPS))
    parser.add_argument("--ways", nargs="+", choices=STARTS, default=list(STARTS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    options = parser.parse_args()
    if options.quick:
        options.tasks, options.seeds, options.output_dir = ["mrpc"], [1], options.output_dir / "quick"
    results: dict[str, Any] = json.loads(RESULTS.read_text("utf-8"))
    for task in options.tasks:
        results[f"{task}-teacher-int8"] = ship(options.teachers / task, f"{task}-teacher", options)
        for seed in options.seeds:
            for way in options.ways:
                results |= make(task, way, seed, options)
    results["joint_kept_percent"] = {way: kept(results, way) for way in STARTS}
    if not options.quick:
        RESULTS.write_text(json.dumps(dict(sorted(results.items())), indent=2) + "\n", "utf-8")
    print(json.dumps(results["joint_kept_percent"]))


def make(task: str, way: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Distil and export a student, unless that is done; both records."""
    steps = 4 if options.quick else STEPS[task]
    learnt = learn(task, STARTS[way], "joint", steps, seed, options) | {"steps": {"joint": steps}}
    folder = options.output_dir / f"schedules-{task}-{STARTS[way]}-joint-{steps}-{seed}"
    shipped = ship(folder, f"{task}-{way}-{seed}", options) | {"teacher": learnt["teacher"]}
    return {f"{task}-{way}-{seed}": learnt, f"{task}-{way}-int8-{seed}": shipped}


def ship(model: Path, name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Export a model to int8, unless that is done; scores and sizes of its files."""
    artifact = options.output_dir / "artifacts" / name
    command = ["understudy", "export", str(model), "--no-speed", "--output-dir", str(artifact)]
    if not artifact.exists():
        print(shlex.join(command), file=sys.stderr)
        subprocess.run(command, check=True)
    content = json.loads((artifact / "artifact.json").read_text("utf-8"))
    forms, details = content["models"], content["details"]
    shown = record({"scores": forms["int8"]["scores"], "versions": details["versions"]}, command)
    return shown | {
        "fp32_scores": forms["fp32"]["scores"]["dev"],
        "bytes": {name: form["bytes"] for name, form in forms.items()},
        "parameters": content["parameters"],
    }


def kept(results: dict[str, Any], way: str) -> dict[str, float]:
    """How much of its teacher's score the int8 student of a task has, in percent, as a mean over seeds."""
    found = {}
    for task in STEPS:
        runs = [run for name, run in results.items() if name.startswith(f"{task}-{way}-int8-")]
        if runs:
            metric = next(iter(runs[0]["scores"]))
            shares = [run["scores"][metric]["value"] / run["teacher"][metric] for run in runs]
            found[task] = round(100 * statistics.mean(shares), 1)
    return found


if __name__ == "__main__":
    main()
