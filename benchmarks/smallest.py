"""How small can a file be that loses at most a point against the student of 4 layers of 312?

On each task a teacher is distilled by its `desk-tinybert-*` recipe into that student, and into smaller ones:
other shapes, each with its whole vocabulary and with the most frequent tokens of its rows only. All are
exported to int8 and scored from their files on the development set; the differences are paired.

    python benchmarks/smallest.py --teachers teachers --assets ../shared/assets --output-dir students

`smallest_mb` in `results/budget.json` is the size of the smallest file within a point on all tasks. Runs that
are in the output folder are not made again. `--quick` makes a few steps of MRPC and writes no results.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import sklearn.metrics
from numpy.typing import NDArray

from runs import finish, settings_options, students_parser
from understudy.evaluation.bootstrap import estimate, estimate_difference
from understudy.predictor import Predictor

RESULTS = Path(__file__).parent / "results" / "budget.json"
TASKS = {"mrpc": ("MRPC", (3, 4), 0), "sst2": ("SST-2", (0,), 1)}  # folder, columns of texts, of the label
BASE = "tinybert-4l-312d"
STUDENTS = {
    "base": (BASE, None),
    "words": (BASE, 5_000),
    "small": ("4l-264d", 5_000),
    "smaller": ("3l-240d", 4_000),
}
ALLOWED = 1.0  # points


def main() -> None:
    parser = students_parser(__doc__)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=TASKS)
    parser.add_argument("--only", nargs="+", default=list(STUDENTS), choices=STUDENTS)
    options = parser.parse_args()
    if options.quick:
        options.tasks, options.output_dir = ["mrpc"], options.output_dir / "quick"
    found: dict[str, Any] = {}
    for task in options.tasks:
        texts, labels = read_dev(task, options.assets)
        base: NDArray[np.float64] | None = None
        for name in options.only:
            artifact, record = make(task, name, options)
            figures, outcomes = judge(task, artifact, texts, labels, base)
            base = outcomes if base is None else base
            found.setdefault(name, {})[task] = record | figures
            print(task, name, json.dumps(figures), file=sys.stderr)
    within = {
        name: max(one["megabytes"] for one in tasks.values())
        for name, tasks in found.items()
        if all(one.get("points", 0.0) >= -ALLOWED for one in tasks.values())
    }
    smallest = min(within, key=lambda name: within[name])
    results = {"smallest_mb": within[smallest], "smallest": smallest, "students": found}
    if not options.quick:
        known = json.loads(RESULTS.read_text("utf-8"))
        kept = results["students"]
        results["students"] = {
            name: known.get("students", {}).get(name, {}) | kept.get(name, {}) for name in STUDENTS
        }
        RESULTS.write_text(json.dumps(known | results, indent=2) + "\n", "utf-8")
    print(json.dumps(results))


def make(task: str, name: str, options: argparse.Namespace) -> tuple[Path, dict[str, Any]]:
    """Distil and export a student, unless that is done; return its artifact and its record."""
    shape, tokens = STUDENTS[name]
    output = options.output_dir / f"smallest-{task}-{name}"
    settings: dict[str, Any] = {"student.shape": shape}
    if tokens is not None:
        settings["student.vocabulary.size"] = tokens
    if options.quick:
        settings |= {f"{stage}.training.max_steps": 2 for stage in ("intermediate", "prediction")}
    command = ["understudy", "distill", str(options.teachers / task), "--recipe", f"desk-tinybert-{task}"]
    command += [*settings_options(settings), "--output-dir", str(output)]
    record = finish(command, output, lambda result: {"vocabulary": result.get("vocabulary")})
    artifact = output.with_name(f"{output.name}-artifact")
    if not artifact.exists():
        export = ["understudy", "export", str(output), "--no-speed", "--tolerance", "100"]
        subprocess.run([*export, "--output-dir", str(artifact)], check=True)
    return artifact, {key: record[key] for key in ("command", "commit", "date", "vocabulary")}


def judge(
    task: str, artifact: Path, texts: list[Any], labels: list[int], base: NDArray[np.float64] | None
) -> tuple[dict[str, Any], NDArray[np.float64]]:
    """Score a file in int8; return its figures, and label and prediction of each row."""
    predictor = Predictor(artifact, model="int8", threads=1)
    names = predictor.artifact.labels
    assert names is not None
    answers = [names.index(one["label"]) for one in predictor(texts)]
    outcomes = np.array([labels, answers], np.float64).T
    metric = f1 if task == "mrpc" else accuracy
    figures: dict[str, Any] = {
        "megabytes": round(predictor.artifact.choose("int8").bytes / 1e6, 2),
        "milliseconds": round(milliseconds(predictor, texts), 2),
        "score": asdict(estimate(metric, outcomes)),
    }
    if base is not None:
        difference = estimate_difference(metric, outcomes, base)
        figures |= {"points": round(100 * difference.value, 2), "difference": asdict(difference)}
    return figures, outcomes


def milliseconds(predictor: Predictor, texts: list[Any]) -> float:
    """Return the median time of a call with one text, of a hundred."""
    times = []
    for text in texts[:100]:
        before = time.perf_counter()
        predictor(text)
        times.append(1e3 * (time.perf_counter() - before))
    return statistics.median(times)


def f1(outcomes: NDArray[np.float64]) -> float:
    return float(sklearn.metrics.f1_score(outcomes[:, 0], outcomes[:, 1]))


def accuracy(outcomes: NDArray[np.float64]) -> float:
    return float((outcomes[:, 0] == outcomes[:, 1]).mean())


def read_dev(task: str, assets: Path) -> tuple[list[Any], list[int]]:
    """Return the texts and labels of a development set."""
    folder, columns, label = TASKS[task]
    lines = (assets / "glue" / folder / "dev.tsv").read_text("utf-8").splitlines()[1:]
    rows = [line.split("\t") for line in lines]
    texts = [row[columns[0]] if len(columns) == 1 else tuple(row[one] for one in columns) for row in rows]
    return texts, [int(row[label]) for row in rows]


if __name__ == "__main__":
    main()
