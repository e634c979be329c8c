"""Does a student that is cut from its teacher beat one from scratch?

For MRPC, CoLA and STS-B and three seeds each: a `tinybert-4l-312d` student goes through both stages of
TinyBERT for equally many steps, once from random weights and once cut from its teacher (every third layer,
the 312 channels, 26 dimensions a head and 1,200 neurons with the largest mean activation).

    python benchmarks/starts.py --teachers teachers --assets ../shared/assets --output-dir students

Runs that are already in the output folder are not made again, so the script can be stopped and run again.
`--quick` makes a few steps of MRPC and writes no results.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

from runs import finish, settings_options, students_parser

RESULTS = Path(__file__).parent / "results" / "starts.json"
TASKS, SEEDS, STARTS = ("mrpc", "cola", "stsb"), (1, 2, 3), ("random", "cut")
STEPS = 200  # of each stage


def main() -> None:
    parser = students_parser(__doc__)
    options = parser.parse_args()
    if options.quick:
        options.output_dir /= "quick"  # so that no real run takes them for its own
        print(json.dumps({start: learn("mrpc", start, 1, options)["held_out"] for start in STARTS}))
        return
    results: dict[str, Any] = {}
    for seed in SEEDS:
        for task in TASKS:
            for start in STARTS:
                results[f"{task}-{start}-{seed}"] = learn(task, start, seed, options)
                RESULTS.parent.mkdir(exist_ok=True)
                RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    for task in TASKS:
        for start in STARTS:
            found = [results[f"{task}-{start}-{seed}"] for seed in SEEDS]
            for metric in found[0]["scores"]:
                values = [run["scores"][metric]["value"] for run in found]
                shown = ", ".join(f"{value:.4f}" for value in values)
                print(
                    f"{task} {start:6} {metric:8} mean {statistics.mean(values):.4f}  {shown}",
                    file=sys.stderr,
                )
            for term in found[0]["held_out"]:
                first, last = (
                    statistics.mean(run["held_out"][term][when] for run in found)
                    for when in ("first", "last")
                )
                print(f"{task} {start:6} {term:12} {first:.4g} → {last:.4g}", file=sys.stderr)
    print(json.dumps(results))


def learn(task: str, start: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Make one run, or read what it left; its record."""
    settings = {"task": task, "seed": seed, "student.init": start} | {
        f"{stage}.training.max_steps": 5 if options.quick else STEPS
        for stage in ("intermediate", "prediction")
    }
    output = options.output_dir / f"start-{task}-{start}-{seed}"
    command = ["understudy", "distill", str(options.teachers / task), "--recipe", "desk-tinybert-mrpc"]
    command += ["--data", str(options.assets / "glue")]
    command += settings_options(settings)
    command += ["--output-dir", str(output)]
    return finish(command, output, describe)


def describe(result: dict[str, Any]) -> dict[str, Any]:
    """What is kept of a run beside its scores."""
    return {
        "teacher": {name: figure["value"] for name, figure in result["against"]["scores"]["dev"].items()},
        "difference": result["difference"]["dev"],
        "steps": {name: stage["steps"] for name, stage in result["stages"].items()},
        "held_out": result["stages"]["intermediate"]["held_out"],
    }


if __name__ == "__main__":
    main()
