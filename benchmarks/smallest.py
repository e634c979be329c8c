r"""How small can a file be that loses at most a point against the student with 4 layers of 312?

That student is the one that `desk.py` cuts from its teacher (200 + 200 steps, seed 1). It is distilled
further for some steps with the most frequent tokens of the task's rows only, and exported to int8 and with
weights of 4 bits. All are scored from their files on the development set; the differences are paired.

    python benchmarks/smallest.py --teachers teachers --assets ../shared/assets --output-dir students

`smallest_mb` in `results/budget.json` is the size of the smallest file within a point on all tasks. Runs that
are in the output folder are not repeated. `--quick` makes a few steps of MRPC and writes no results.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import sklearn.metrics
from numpy.typing import NDArray
from transformers import AutoTokenizer

from desk import SHORT_STEPS
from published.static import clock
from runs import students_parser, tinybert_student
from understudy.evaluation.bootstrap import estimate, estimate_difference
from understudy.predictor import Predictor

RESULTS = Path(__file__).parent / "results" / "budget.json"
TASKS = {"mrpc": ("MRPC", (3, 4), 0), "sst2": ("SST-2", (0,), 1)}  # folder, columns of texts, of the label
FURTHER_STEPS = {"intermediate": 100, "prediction": 100}
INT4 = {5_000: "embeddings", 15_000: "all"}  # which weights of 4 bits, by the number of tokens
ALLOWED = 1.0  # points
BASE = "4 layers of 312, all tokens, int8"


def main() -> None:
    parser = students_parser(__doc__)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=TASKS)
    options = parser.parse_args()
    if options.quick:
        options.tasks, options.output_dir = ["mrpc"], options.output_dir / "quick"
    known = json.loads(RESULTS.read_text("utf-8"))
    found: dict[str, Any] = {} if options.quick else known.get("students", {})
    for task in options.tasks:
        texts, labels = read_dev(task, options.assets)
        base: NDArray[np.float64] | None = None
        for name, artifact, form, record in make(task, options):
            figures, outcomes = judge(task, artifact, form, texts, labels, base)
            base = outcomes if base is None else base
            found.setdefault(name, {})[task] = record | figures
            print(task, name, json.dumps(figures), file=sys.stderr)
    tasks = set(found[BASE])
    within = {
        name: max(one["megabytes"] for one in scored.values())
        for name, scored in found.items()
        if set(scored) == tasks and all(one.get("points", 0.0) >= -ALLOWED for one in scored.values())
    }
    smallest = min(within, key=lambda name: within[name])
    results = {"smallest_mb": within[smallest], "smallest": smallest, "students": found}
    if not options.quick:
        RESULTS.write_text(json.dumps(known | results, indent=2) + "\n", "utf-8")
    print(json.dumps(results))


def make(task: str, options: argparse.Namespace) -> Iterator[tuple[str, Path, str, dict[str, Any]]]:
    """Distil and export the students of a task, unless that is done; the first is the one to compare with.

    Yields:
        The name of a form of a student, its artifact, the form, and its record.
    """
    whole = options.output_dir / f"desk-{task}-cut-1"
    steps = dict(zip(("intermediate", "prediction"), SHORT_STEPS, strict=True))
    record = tinybert_student(task, whole.name, {"seed": 1}, steps, options)
    yield BASE, export(whole, "embeddings"), "int8", kept(record)
    for tokens, weights in INT4.items():
        name = f"smallest-{task}-{tokens}"
        settings = {"seed": 1, "student": {"model": str(whole / "student"), "vocabulary": {"size": tokens}}}
        record = kept(tinybert_student(task, name, settings, FURTHER_STEPS, options))
        record["wiki_outside_percent"] = wiki_outside(options.output_dir / name / "student", options)
        artifact = export(options.output_dir / name, weights)
        for form, shown in (("int8", "int8"), ("int4", f"int4 ({weights})")):
            yield f"4 layers of 312, {tokens:,} tokens, {shown}", artifact, form, record


def wiki_outside(student: Path, options: argparse.Namespace) -> float:
    """The percentage of held-out Wikipedia's tokens that a student reads as smaller pieces."""
    whole = AutoTokenizer.from_pretrained(options.teachers / "sst2")
    names, kept_names = whole.get_vocab(), AutoTokenizer.from_pretrained(student).get_vocab()
    is_kept = np.zeros(1 + max(names.values()), bool)
    is_kept[[number for name, number in names.items() if name in kept_names]] = True
    texts = pq.read_table(options.assets / "wiki" / "validation.parquet")["text"].to_pylist()
    tokens = np.concatenate(whole(texts, add_special_tokens=False, verbose=False)["input_ids"])
    return round(100 * float(1 - is_kept[tokens].mean()), 2)


def kept(record: dict[str, Any]) -> dict[str, Any]:
    names = ("command", "commit", "date", "steps")
    return {name: record[name] for name in names if name in record}


def export(folder: Path, int4: str) -> Path:
    """The artifact of a student, with every form whatever it loses: that is what is asked here."""
    artifact = folder.with_name(f"{folder.name}-artifact")
    if not artifact.exists():
        command = ["understudy", "export", str(folder), "--int4", int4, "--no-speed", "--tolerance", "100"]
        subprocess.run([*command, "--output-dir", str(artifact)], check=True)
    return artifact


def judge(
    task: str,
    artifact: Path,
    form: str,
    texts: list[Any],
    labels: list[int],
    base: NDArray[np.float64] | None,
) -> tuple[dict[str, Any], NDArray[np.float64]]:
    """Score a form of an artifact; return its figures, and label and prediction of each row."""
    predictor = Predictor(artifact, model=form, threads=1)
    names = predictor.artifact.labels
    assert names is not None
    answers = [names.index(one["label"]) for one in predictor(texts)]
    outcomes = np.array([labels, answers], np.float64).T
    metric = f1 if task == "mrpc" else accuracy
    figures: dict[str, Any] = {
        "megabytes": round(predictor.artifact.choose(form).bytes / 1e6, 2),
        "milliseconds": round(clock(predictor, texts), 2),
        "score": asdict(estimate(metric, outcomes)),
    }
    if base is not None:
        difference = estimate_difference(metric, outcomes, base)
        figures |= {"points": round(100 * difference.value, 2), "difference": asdict(difference)}
    return figures, outcomes


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
