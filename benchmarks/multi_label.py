"""How much of a teacher's F1 does a student keep if texts have several labels, and do thresholds help?

The task is made from CoNLL-2003: a text is a sentence, and its labels are the types of entities that occur
in it (PER, LOC, ORG, MISC; a fifth of the sentences have none). A teacher is fine-tuned, distilled by
TinyBERT into a `tinybert-4l-312d` cut from it, and exported to int8.

    python benchmarks/multi_label.py --assets ../shared/assets --output-dir students

On the development set, a label is predicted from a probability of 0.5. The thresholds in the artifact are
chosen on that set, so their benefit is measured on the test set, where nothing is chosen: the int8 file at
0.5 and at its thresholds.

Runs that are already in the output folder are not repeated. `--quick` makes a few steps on a few rows and
writes no results.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from runs import finish, settings_options
from understudy.artifacts.artifact import ARTIFACT
from understudy.data.readers import read_conll
from understudy.evaluation.bootstrap import estimate, estimate_difference
from understudy.evaluation.metrics import Outcomes, find_metric
from understudy.predictor import Predictor

RESULTS = Path(__file__).parent / "results" / "multi_label.json"
FILES = {"train": "train.conll", "dev": "dev.conll", "test": "test_labelled.conll"}
METRICS = ("micro_f1", "macro_f1")
Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--assets", type=Path, default=Path("../shared/assets"))
    parser.add_argument("--output-dir", type=Path, default=Path("students"))
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    folder = options.output_dir / ("multi-label-quick" if options.quick else "multi-label")
    steps = {"teacher": 500, "intermediate": 400, "prediction": 200}
    if options.quick:
        steps = dict.fromkeys(steps, 4)
    rows = {
        split: write_rows(
            options.assets / "ner" / name, folder / f"{split}.jsonl", 200 if options.quick else None
        )
        for split, name in FILES.items()
    }

    files = {f"data.{split}": str(folder / f"{split}.jsonl") for split in ("train", "dev")}
    common = {**files, "data.max_length": 64, "dropout": 0.0}
    batch = {"per_device_train_batch_size": 32}
    encoder = options.assets / "bert-12l-384h-mlm"
    training = {**batch, "max_steps": steps["teacher"], "learning_rate": 1e-4}
    command = ["understudy", "finetune", str(encoder), "--task", "multi-label"]
    command += [*settings_options({**common, "training": training}), "--output-dir", str(folder / "teacher")]
    results = {"teacher": finish(command, folder / "teacher", seconds)}

    settings = {
        **common,
        "student": {"init": "cut", "shape": "tinybert-4l-312d"},
        "intermediate.weights": {"attention": 0.02},
        "intermediate.training": {**batch, "max_steps": steps["intermediate"], "learning_rate": 1e-3},
        "prediction.training": {**batch, "max_steps": steps["prediction"], "learning_rate": 1e-4},
        "prediction.search": {},
    }
    command = ["understudy", "distill", str(folder / "teacher"), "--task", "multi-label"]
    command += [*settings_options(settings), "--output-dir", str(folder / "student")]
    results["student"] = finish(command, folder / "student", compared)
    results["int8"] = export(folder, tolerance=100.0 if options.quick else 0.5)
    results["test"] = measure_thresholds(folder / "artifact", rows["test"])

    show(results)
    if not options.quick:
        RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    print(json.dumps(results))


def write_rows(conll: Path, file: Path, count: int | None) -> list[Row]:
    """Write sentences with the types of their entities as labels, one JSON object a line."""
    rows = []
    for raw in read_conll(conll, "utf-8"):
        types = sorted({tag[2:] for tag in raw.values["tags"] if tag != "O"})
        rows.append({"text": " ".join(raw.values["words"]), "labels": types})
    rows = rows[:count]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return rows


def seconds(result: dict[str, Any]) -> dict[str, Any]:
    return {"seconds": result["seconds"]}


def compared(result: dict[str, Any]) -> dict[str, Any]:
    """What is kept of the student beside its scores."""
    return {
        "difference": result["difference"]["dev"],
        "agreement": result["agreement"]["dev"],
        "parameters": result["parameters"],
        "seconds": {name: stage["seconds"] for name, stage in result["stages"].items()},
    }


def export(folder: Path, *, tolerance: float) -> dict[str, Any]:
    """Export the student, unless that is done, and return the scores of int8 and the thresholds."""
    command = ["understudy", "export", str(folder / "student"), "--output-dir", str(folder / "artifact")]
    command += ["--tolerance", str(tolerance), "--no-speed"]
    if not (folder / "artifact" / ARTIFACT).exists():
        print(shlex.join(command), file=sys.stderr)
        subprocess.run([*command, "--json"], check=True, stdout=subprocess.DEVNULL)
    content = json.loads((folder / "artifact" / ARTIFACT).read_text("utf-8"))
    int8 = content["models"]["int8"]
    return {
        "scores": int8["scores"]["dev"],
        "bytes": int8["bytes"],
        "kept_in_fp32": int8["kept_in_fp32"],
        "thresholds": content["thresholds"],
        "command": shlex.join(command),
    }


def measure_thresholds(artifact: Path, rows: list[Row]) -> dict[str, Any]:
    """Score the int8 file on test rows at 0.5 and at its thresholds, and the difference."""
    predict = Predictor(artifact)
    labels = list(predict.artifact.labels or ())
    answers = predict([row["text"] for row in rows])
    at_half = [[name for name in labels if answer["probabilities"][name] >= 0.5] for answer in answers]
    gold = [row["labels"] for row in rows]
    half = outcomes(at_half, gold, labels)
    chosen = outcomes([answer["labels"] for answer in answers], gold, labels)
    metrics = {name: find_metric(name, of="label sets") for name in METRICS}
    return {
        "rows": len(rows),
        "at 0.5": {name: asdict(estimate(metric, half)) for name, metric in metrics.items()},
        "at thresholds": {name: asdict(estimate(metric, chosen)) for name, metric in metrics.items()},
        "difference": {
            name: asdict(estimate_difference(metric, chosen, half)) for name, metric in metrics.items()
        },
    }


def outcomes(given: list[list[str]], gold: list[list[str]], labels: list[str]) -> Outcomes:
    """A prediction for each label and each label of a row, as metrics take them."""
    sides = [[[float(name in one) for name in labels] for one in side] for side in (given, gold)]
    return np.concatenate([np.array(side) for side in sides], axis=1)


def show(results: dict[str, Any]) -> None:
    """Print a line for each model, and for each way to decide on the test set."""
    lines = {f"{name}, dev": results[name]["scores"] for name in ("teacher", "student", "int8")}
    lines |= {
        f"int8, test, {name}": results["test"][name] for name in ("at 0.5", "at thresholds", "difference")
    }
    for name, figures in lines.items():
        shown = [
            "{} {value:.4f} ({low:.4f}–{high:.4f})".format(metric, **figures[metric]) for metric in METRICS
        ]
        print(f"{name:26} {'  '.join(shown)}", file=sys.stderr)


if __name__ == "__main__":
    main()
