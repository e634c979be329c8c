"""What does it save to distil several students in one pass?

Three students learn their teacher's layers, first one after the other, then together (`--student A,B,C`), for
as many steps and on the same batches. Each is a command of its own; the seconds are those of the training
steps, the memory is the peak of the process.

    python benchmarks/together.py TEACHER --output-dir students

TEACHER is a folder that `finetune` wrote. Nothing else may run beside it. `--quick` makes two steps and
writes no results.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runs import git_commit, machine, settings_options

RESULTS = Path(__file__).parent / "results" / "together.json"
STUDENTS = ("6l-384d", "4l-312d", "2l-256d")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("teacher", type=Path)
    parser.add_argument("--output-dir", type=Path, default=Path("students"))
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    if options.quick:
        options.steps, options.rounds = 2, 1
    alone: list[dict[str, Any]] = []
    together: list[dict[str, Any]] = []
    for number in range(options.rounds):
        folder = options.output_dir / f"together-{number}"
        alone.append({name: distil([name], folder / f"alone-{name}", options) for name in STUDENTS})
        together.append(distil(STUDENTS, folder / "all", options))
    ratios = [
        one["seconds"] / sum(run["seconds"] for run in runs.values())
        for one, runs in zip(together, alone, strict=True)
    ]
    equal = all(
        one["weights"][name] == run["weights"][name]
        for one, runs in zip(together, alone, strict=True)
        for name, run in runs.items()
    )
    results = {
        "time_ratio": round(sum(ratios) / len(ratios), 3),
        "time_ratios": [round(ratio, 3) for ratio in ratios],
        "weights_are_equal": equal,
        "steps": options.steps,
        "alone": alone,
        "together": together,
        "machine": machine(),
        "commit": git_commit(),
    }
    if not options.quick:
        RESULTS.write_text(json.dumps(results, indent=2) + "\n", "utf-8")
    print(json.dumps(results))


def distil(students: Sequence[str], output: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Train the layers of some students; return seconds, the hashes of their weights, and peak memory."""
    settings = {
        "intermediate.training.max_steps": options.steps,
        "intermediate.training.save_strategy": "no",
        "intermediate.training.per_device_train_batch_size": 32,
        "student.init": "cut",
        "prediction.training.max_steps": 1,
        "prediction.search": None,
    }
    command = [sys.executable, "-c", _MEASURED, "distill", str(options.teacher), "--overwrite"]
    command += ["--student", ",".join(students), *settings_options(settings), "--output-dir", str(output)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    folders = [output / name if len(students) > 1 else output for name in students]
    stages = [json.loads((folder / "intermediate" / "result.json").read_text()) for folder in folders]
    return {
        # Together, each one's training lasts as long as all of them.
        "seconds": max(stage["seconds"]["training"] for stage in stages),
        "memory_mb": round(int(done.stdout.split()[-1]) / 1024),
        "weights": {
            name: hashlib.sha256(
                (folder / "intermediate" / "student" / "model.safetensors").read_bytes()
            ).hexdigest()
            for name, folder in zip(students, folders, strict=True)
        },
    }


_MEASURED = """
import resource, sys
from understudy.cli.app import app
try:
    app(sys.argv[1:])
except SystemExit as stopped:
    if stopped.code: raise
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


if __name__ == "__main__":
    main()
