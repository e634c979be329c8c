r"""Do the published tools reach the same score with the same training, and at what cost?

TinyBERT's two task stages on MRPC and CoLA with the authors' code, TextBrewer, torchdistill and ours:
the same teacher, the same student (4 layers of 312, cut from the teacher and fitted to it), the same 1,600
rows, batch size, steps and learning rates, three seeds, on one thread. `theirs` is ours with the authors'
losses (means over padding, one projection, attention at weight 1, a constant rate for the layers), `ours` is
the shipped recipe. Every student is scored by `understudy evaluate`.

    python benchmarks/same_work.py --tinybert SOURCE/TinyBERT --teachers teachers --output-dir peers

The published code is not part of this repository: `--tinybert` is the folder of its sources. All of them
compute matrix products in bf16 if the processor supports it. Runs that are in the output folder are not
repeated. `--quick` makes one run of each tool on 64 rows of MRPC and writes no results.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from transformers import BertForSequenceClassification

from published.models import BATCH, load_rows, save_for_authors, save_rows
from published.processes import run_peer
from runs import RECORD, git_commit, machine, settings_options, show_means, students_parser
from understudy.models.pretrained import load_tokenizer

RESULTS = Path(__file__).parent / "results" / "same_work.json"
LAYER_RATE, PREDICTION_RATE = 3e-4, 1e-4
# Folder (and the authors' name), the longest row in tokens, epochs of each stage.
TASKS = {"mrpc": ("MRPC", 128, 1), "cola": ("CoLA", 64, 1)}
ROWS = (
    1_600  # the first ones of the training set: a core takes a minute for ten to twenty of the authors' steps
)
LIBRARIES = {"textbrewer": "brewer", "torchdistill": "distillbox"}  # and the script that uses each
TOOLS = ("authors", "textbrewer", "torchdistill", "theirs", "ours")
SEEDS = (1, 2, 3)


def main() -> None:
    parser = students_parser(__doc__)
    parser.add_argument("--tinybert", type=Path, required=True, help="folder TinyBERT of the authors' code")
    parser.add_argument("--environments", type=Path, default=Path("peers-environments"))
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=list(TOOLS))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    options.output_dir = options.output_dir.resolve()
    if options.quick:
        options.output_dir /= "quick"  # so that no real run takes them for its own
        options.tasks, options.seeds = ["mrpc"], [1]
    results = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    for task in options.tasks:
        start = make_start(task, options)
        for seed in options.seeds:
            for tool in options.tools:
                results[f"{task}-{tool}-{seed}"] = learn(task, tool, seed, start, options)
                if not options.quick:
                    RESULTS.write_text(json.dumps(dict(sorted(results.items())), indent=2) + "\n", "utf-8")
    show_means(results, [f"{task}-{tool}" for task in TASKS for tool in TOOLS])
    print(json.dumps(results))


def make_start(task: str, options: argparse.Namespace) -> Path:
    """The student that all begin with, the rows as arrays, both models as the authors' code reads them."""
    length = TASKS[task][1]
    place: Path = options.output_dir / f"start-{task}"
    if (place / "finished").exists():
        return place
    place.mkdir(parents=True, exist_ok=True)
    settings = {"task": task, "seed": 1, "data.max_length": length}
    for stage in ("intermediate", "prediction"):
        settings |= {f"{stage}.training.max_steps": 1, f"{stage}.training.learning_rate": 0.0}
    command = ["understudy", "distill", str(teacher_of(task, options)), "--recipe", "desk-tinybert-mrpc"]
    command += ["--data", str(data_of(task, options)), *settings_options(settings)]
    subprocess.run([*command, "--output-dir", str(place / "cut"), "--overwrite"], check=True)
    tokenizer = load_tokenizer(str(teacher_of(task, options)))
    rows = load_rows(data_of(task, options), tokenizer, task, length)
    save_rows(rows, tokenizer, place / "rows.npz", length)
    projections = load_file(cut_of(place) / "projections.safetensors")
    weight = next(value for name, value in projections.items() if name.endswith("weight"))
    fit = torch.nn.Linear(weight.shape[1], weight.shape[0])
    fit.load_state_dict({"weight": weight, "bias": torch.zeros(len(weight))})
    student = BertForSequenceClassification.from_pretrained(cut_of(place), dtype=torch.float32)
    teacher = BertForSequenceClassification.from_pretrained(teacher_of(task, options), dtype=torch.float32)
    save_for_authors(student, tokenizer, place / "authors-student", fit=fit)
    save_for_authors(teacher, tokenizer, place / "authors-teacher")
    (place / "finished").touch()
    return place


def cut_of(start: Path) -> Path:
    """The student as it was cut and fitted, with its projections: that of a stage that learnt nothing."""
    return start / "cut" / "intermediate" / "student"


def learn(task: str, tool: str, seed: int, start: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Make one run, or read what it left; its record."""
    output = options.output_dir / f"same-work-{task}-{tool}-{seed}"
    saved = output / RECORD
    if saved.exists():
        found: dict[str, Any] = json.loads(saved.read_text("utf-8"))
        return found
    print(output.name, file=sys.stderr)
    before, began = children_seconds(), time.monotonic()
    if tool in LIBRARIES:
        told = by_library(LIBRARIES[tool], task, seed, start, output, options)
    elif tool == "authors":
        told = by_authors(task, seed, start, output, options)
    else:
        told = by_ours(task, tool, seed, start, output, options)
    told |= {
        "cpu_seconds": round(children_seconds() - before, 1),
        "seconds": round(time.monotonic() - began, 1),
    }
    told["real_tokens_a_second"] = round(2 * TASKS[task][2] * real_tokens(start) / told["cpu_seconds"])
    command = ["understudy", "evaluate", str(output / "student"), "--task", task, "--json"]
    command += ["--data", str(options.assets / "glue")]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    told |= {"scores": json.loads(answer.stdout)["scores"]["dev"]}
    told |= {"commit": git_commit(), "machine": machine()}
    saved.write_text(json.dumps(told, indent=2) + "\n", "utf-8")
    return told


def by_authors(
    task: str, seed: int, start: Path, output: Path, options: argparse.Namespace
) -> dict[str, Any]:
    """Both stages of task_distill.py, each a command of its own."""
    folder, length, epochs = TASKS[task]
    steps = epochs * (len_rows(start) // BATCH)
    answers = []
    for stage, rate in (("layers", LAYER_RATE), ("predictions", PREDICTION_RATE)):
        student = start / "authors-student" if stage == "layers" else output / "layers"
        places = {
            "--data_dir": data_of(task, options) / folder,
            "--teacher_model": start / "authors-teacher",
            "--student_model": student,
            "--task_name": folder,
            "--output_dir": output / stage,
            "--max_seq_length": length,
            "--train_batch_size": BATCH,
            "--num_train_epochs": epochs,
            "--learning_rate": rate,
            "--seed": seed,
            # It saves when it evaluates only, and not at the end: so it evaluates at the last step.
            "--eval_step": steps + 1,
        }
        arguments = [str(part) for pair in places.items() for part in pair] + ["--do_lower_case"]
        job = {
            "what": "train",
            "arguments": [*arguments, *(["--pred_distill"] if stage == "predictions" else [])],
            "fit_size": 384,
            "no_relu": True,
            "bf16_products": True,
            "output": str(output.with_suffix(".bin")),
        }
        answers.append(run_peer("tinybert", options.tinybert, job, options))
    model = BertForSequenceClassification.from_pretrained(cut_of(start), dtype=torch.float32)
    model.load_state_dict(torch.load(output.with_suffix(".bin"), weights_only=True), strict=False)
    save_student(model, task, output, options)
    output.with_suffix(".bin").unlink()
    return {
        "steps": [answer["steps"] for answer in answers],
        "peak_mb": max(answer["peak_mb"] for answer in answers),
        "shims": answers[0]["shims"],
    }


def by_library(
    name: str, task: str, seed: int, start: Path, output: Path, options: argparse.Namespace
) -> dict[str, Any]:
    """Both stages by a library, in one process."""
    epochs = TASKS[task][2]
    output.mkdir(parents=True, exist_ok=True)
    job = {
        "teacher": str(teacher_of(task, options).resolve()),
        "student": str(cut_of(start)),
        "batches": str(start / "rows.npz"),
        "batch": BATCH,
        "seed": seed,
        "bf16_products": True,
        "stages": [
            {"name": "layers", "epochs": epochs, "rate": LAYER_RATE},
            {"name": "predictions", "epochs": epochs, "rate": PREDICTION_RATE},
        ],
        "output": str(output / name),
        "save": str(output / "learnt"),
    }
    answer = run_peer(name, None, job, options)
    model = BertForSequenceClassification.from_pretrained(output / "learnt", dtype=torch.float32)
    save_student(model, task, output, options)
    return {key: value for key, value in answer.items() if key != "seconds"} | {"lines": written_lines(name)}


def by_ours(
    task: str, tool: str, seed: int, start: Path, output: Path, options: argparse.Namespace
) -> dict[str, Any]:
    """Both stages by `understudy distill`."""
    _, length, epochs = TASKS[task]
    steps = epochs * (len_rows(start) // BATCH)
    settings: dict[str, Any] = {
        "task": task,
        "seed": seed,
        "data.max_length": length,
        "student": {"model": str(cut_of(start)), "fit": False},
        "intermediate.training.learning_rate": LAYER_RATE,
        "intermediate.training.max_steps": steps,
        "prediction.training.learning_rate": PREDICTION_RATE,
        "prediction.training.max_steps": steps,
    }
    if tool == "theirs":
        settings |= {
            "normalization": "padded",
            "intermediate.projection": "shared",
            "intermediate.weights.attention": 1.0,
            "intermediate.training.lr_scheduler_type": "constant",
        }
    command = ["understudy", "distill", str(teacher_of(task, options)), "--recipe", "desk-tinybert-mrpc"]
    command += ["--data", str(data_of(task, options)), *settings_options(settings)]
    process = subprocess.Popen([*command, "--output-dir", str(output), "--json"], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{output.name} failed, see above.")
    return {"steps": [steps, steps], "peak_mb": round(usage.ru_maxrss / 1000, 1)}


def save_student(model: Any, task: str, output: Path, options: argparse.Namespace) -> None:
    """A student of another tool as `understudy evaluate` reads it."""
    model.config.update({"id2label": teacher_config(task, options)["id2label"]})
    model.save_pretrained(output / "student")
    load_tokenizer(str(teacher_of(task, options))).save_pretrained(output / "student")


def teacher_config(task: str, options: argparse.Namespace) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((teacher_of(task, options) / "config.json").read_text("utf-8"))
    return config


def teacher_of(task: str, options: argparse.Namespace) -> Path:
    """The folder of a teacher's model."""
    folder: Path = options.teachers.resolve() / task
    return folder / "model" if (folder / "model").exists() else folder


def data_of(task: str, options: argparse.Namespace) -> Path:
    """A folder like GLUE's with the first training rows of the task, and few development rows: students are
    scored on all of these afterwards."""
    copy: Path = options.output_dir / "glue"
    folder = copy / TASKS[task][0]
    if not folder.exists():
        folder.mkdir(parents=True)
        header = task != "cola"
        for part, count in (("train", 2 * BATCH if options.quick else ROWS), ("dev", BATCH)):
            text = (options.assets / "glue" / folder.name / f"{part}.tsv").read_text("utf-8")
            lines = text.splitlines()[: count + header]
            (folder / f"{part}.tsv").write_text("\n".join(lines) + "\n", "utf-8")
    return copy


def len_rows(start: Path) -> int:
    return len(np.load(start / "rows.npz")["input_ids"])


def real_tokens(start: Path) -> int:
    """Tokens of the rows that are no padding."""
    return int(np.load(start / "rows.npz")["attention_mask"].sum())


def written_lines(name: str) -> int:
    """Lines of code in what a user of a library writes for this."""
    text = (Path(__file__).parent / "published" / f"{name}.py").read_text("utf-8")
    return sum(bool(line.strip()) and not line.strip().startswith("#") for line in text.splitlines())


def children_seconds() -> float:
    """CPU seconds of all processes that were started and have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
