"""How much is saved by distilling several students in one pass?

Three students learn a task from one teacher by `--method joint`, first one after the other, then together
(`--student A,B,C`), for as many steps and on the same batches. Each call is a separate process. Seconds are
counted from the end of the first few steps to the end of the last but one, because a student goes on to
scoring after its last step; memory is the peak of the process.

    python benchmarks/together.py TEACHER --output-dir students

TEACHER is a folder that `finetune` wrote; for another, pass `--task` and `--train`. Nothing else may run at
the same time. `--quick` makes a few steps and writes no results.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

import understudy
from runs import git_commit, machine

RESULTS = Path(__file__).parent / "results" / "together.json"
STUDENTS = ("6l-384d", "4l-312d", "2l-240d")
FIRST = 3  # steps that do not count


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("teacher", type=Path)
    parser.add_argument("--output-dir", type=Path, default=Path("students"))
    parser.add_argument("--steps", type=int, default=33)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--name", default="small", help="of the teacher, in the results")
    parser.add_argument("--sizes", nargs="+", default=list(STUDENTS))
    parser.add_argument("--task", help="of a teacher that does not know it")
    parser.add_argument("--train", type=Path)
    parser.add_argument("--dev", type=Path)
    parser.add_argument("--students", nargs="+", help="train these in this process, and print its figures")
    options = parser.parse_args()
    if options.students:
        print(json.dumps(distil(options)))
        return
    if options.quick:
        options.steps, options.rounds = FIRST + 2, 1
    rounds = []
    for number in range(options.rounds):
        folder = options.output_dir / f"together-{number}"
        alone = {name: call([name], folder / f"alone-{name}", options) for name in options.sizes}
        together = call(options.sizes, folder / "all", options)
        weights = {name: one["weights"][name] for name, one in alone.items()}
        rounds.append(
            {
                "ratio": round(together["seconds"] / sum(one["seconds"] for one in alone.values()), 3),
                "weights_are_equal": weights == together["weights"],
                "alone": alone,
                "together": together,
            }
        )
    results = {
        "time_ratio": round(sum(one["ratio"] for one in rounds) / len(rounds), 3),
        "steps": options.steps - 1 - FIRST,
        "rounds": rounds,
        "machine": machine(),
        "commit": git_commit(),
    }
    if not options.quick:
        known = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
        RESULTS.write_text(json.dumps(known | {options.name: results}, indent=2) + "\n", "utf-8")
    print(json.dumps(results))


def call(students: Sequence[str], output: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Train some students in a process of their own; return its figures."""
    command = [sys.executable, __file__, str(options.teacher), "--output-dir", str(output)]
    for name in ("task", "train", "dev"):
        value = getattr(options, name)
        command += [f"--{name}", str(value)] if value is not None else []
    command += ["--steps", str(options.steps), "--students", *students]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def distil(options: argparse.Namespace) -> dict[str, Any]:
    """Train some students; return seconds, the hashes of their weights, and peak memory."""
    clock = Clock(len(options.students))
    training = {
        "max_steps": options.steps,
        "per_device_train_batch_size": 32,
        "learning_rate": 3e-4,
        "save_strategy": "no",
        "eval_strategy": "no",
        "load_best_model_at_end": None,
        "report_to": "none",
    }
    settings = {f"joint.training.{name}": value for name, value in training.items()}
    settings |= {"joint.search": None, "student.init": "cut"}
    files = {name: str(file) for name in ("train", "dev") if (file := getattr(options, name)) is not None}
    if not files:
        settings["data.max_rows"] = 32 * options.steps
    understudy.distill_students(
        options.teacher,
        options.students,
        method="joint",
        task=options.task,
        data=files or None,
        output_dir=options.output_dir,
        settings=settings,
        callbacks=[clock],
        overwrite=True,
    )
    saved = {name: options.output_dir / name / "student" / "model.safetensors" for name in options.students}
    return {
        "seconds": round(clock.ends[options.steps - 1] - clock.ends[FIRST], 2),
        "memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "weights": {name: hashlib.sha256(file.read_bytes()).hexdigest() for name, file in saved.items()},
    }


class Clock(TrainerCallback):
    """Notes when all students have finished a step."""

    def __init__(self, num_students: int) -> None:
        self.num_students = num_students
        self.finished: dict[int, int] = {}
        self.ends: dict[int, float] = {}

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.finished[state.global_step] = self.finished.get(state.global_step, 0) + 1
        if self.finished[state.global_step] == self.num_students:
            self.ends[state.global_step] = time.perf_counter()


if __name__ == "__main__":
    main()
