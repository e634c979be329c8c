"""The verdict on whether a student is ready to ship, from its paired interval against the teacher."""

from __future__ import annotations

import csv
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import yaml

from understudy.report.figures import (
    find_model,
    first_metric,
    points,
    shipped_difference,
    shipped_form,
    speed_at,
)
from understudy.timing.rounds import say_size, say_speed
from understudy.workspace.folders import OUTCOMES, RECIPE, RESULT, TEACHER, TEACHER_INT8
from understudy.workspace.result import read_outcomes

Level = Literal["ready", "close", "not ready"]
_FEW_ROWS = 2_000
_FEW_SCORED = 20
_FEW_STEPS, _ENOUGH_STEPS = 100, 1_000
_FALLING = 0.02  # relative fall of the loss between the last two fifths of the steps


@dataclass(frozen=True)
class Verdict:
    """The verdict on a student.

    Attributes:
        level: `ready`: at most the tolerated points are lost, with 95 % confidence; `not ready`: more are,
            with the same confidence; `close`: anything in between.
        sentence: the level with its figures.
        causes: the probable reasons why a student is not ready.
        steps: options of `understudy run` that are likely to help, most likely first.
        alternative: the teacher in int8 with its figures; None if it was left out of the run.
        prefers_teacher: whether the teacher in int8 is the better choice.
    """

    level: Level
    sentence: str
    causes: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    alternative: str | None = None
    prefers_teacher: bool = False


def judge_student(summary: Mapping[str, Any], folder: Path, tolerate: float) -> Verdict:
    """Judge the shipped form of a student.

    Args:
        summary: the table of the run.
        folder: the folder of the distillation, with the losses of its stages.
        tolerate: points of the first metric that may be lost.
    """
    guess = summary["teacher_guess"]
    if "teacher" in summary["constant"]:
        return _useless_teacher("its teacher gives one answer to every row", folder.parent / TEACHER)
    if guess is not None:
        said = (
            f"its teacher is right on {guess['right']:.0%} of the development rows, hardly more than always "
            f"answering {guess['answer']!r} ({guess['share']:.0%})"
        )
        return _useless_teacher(said, folder.parent / TEACHER)
    student, shipped = find_model(summary, "student"), shipped_form(summary)
    assert student is not None
    metric = first_metric(summary)
    exported = 100 * (shipped["scores"][metric]["value"] - student["scores"][metric]["value"])
    difference = shipped_difference(summary)
    low, value, high = (round(100 * difference[name], 6) for name in ("low", "value", "high"))
    level: Level = "ready" if low >= -tolerate else "not ready" if high < -tolerate else "close"
    num_scored = _num_scored(folder, summary["split"])
    if level == "ready" and num_scored is not None and num_scored < _FEW_SCORED:
        level = "close"  # so few rows have no meaningful interval
    if "student" in summary["constant"]:
        level = "not ready"  # whatever its constant answer scores
    lost = f"loses {-value:.1f} points" if value < 0 else f"gains {value:.1f} points"
    doubt = ""
    if level == "close" and low >= -tolerate:
        doubt = f", but the number of rows or queries that could be scored is {num_scored}"
    elif level == "close" and value >= -tolerate:
        rows = summary["counts"][summary["split"]]["rows"]
        doubt = f", but {rows:,} development rows do not rule out a loss of {-low:.1f}"
    sentence = (
        f"{level.capitalize()}: it {lost} of {metric} against its teacher{doubt} "
        f"(95 %: {low:+.1f} to {high:+.1f}); {tolerate:g} may be lost."
    )
    alternative, prefers_teacher = judge_teacher_int8(summary, level, tolerate)
    causes, steps = find_causes(summary, folder, value, exported, tolerate) if level != "ready" else ([], [])
    return Verdict(level, sentence, tuple(causes), tuple(steps), alternative, prefers_teacher)


def _num_scored(folder: Path, split: str) -> int | None:
    """Return on how many rows, or queries of a ranking, a student was scored; None if that is not saved."""
    if not (folder / OUTCOMES).is_file():
        return None
    return len(read_outcomes(folder, "student", split))


def _useless_teacher(said: str, teacher: Path) -> Verdict:
    """Return the verdict on a student of a teacher that has learnt nothing.

    Args:
        teacher: the folder of the teacher, if the run has fine-tuned it.
    """
    step = "fine-tune the teacher longer, or with another learning rate"
    steps = _teacher_steps(teacher)
    if steps is not None:
        count = 3 * steps if steps >= _FEW_STEPS else _ENOUGH_STEPS
        step = f"--set finetune.training.max_steps={count}"
    return Verdict(
        "not ready",
        f"Not ready: {said}.",
        ("A student can be no better than its teacher, so look at the teacher first.",),
        (step,),
    )


def _teacher_steps(teacher: Path) -> int | None:
    """Return how many steps a run has fine-tuned its teacher for; None if it has not."""
    if not (teacher / RESULT).is_file():
        return None
    steps: int = json.loads((teacher / RESULT).read_text("utf-8"))["steps"]
    return steps


def judge_teacher_int8(summary: Mapping[str, Any], level: Level, tolerate: float) -> tuple[str | None, bool]:
    """Describe the teacher in int8, and say whether it is the better choice.

    It is if it loses at most the tolerated points with 95 % confidence, and the student is either not `ready`
    or neither smaller nor faster.
    """
    exported, model = summary["teacher_int8"], find_model(summary, "teacher, int8")
    if exported is None:
        return None, False
    if model is None:
        return f"The teacher in int8 is no alternative: {exported['failed']}", False
    student, metric = shipped_form(summary), first_metric(summary)
    difference = exported["difference"][summary["split"]][metric]
    low, value, high = (points(difference[name]) for name in ("low", "value", "high"))
    figures = (
        f"{metric} {model['scores'][metric]['value']:.3f} ({value} points, 95 %: {low} to {high}), "
        f"{model['bytes'] / 1e6:.1f} MB ({say_size(model['times_smaller'])} than the teacher), "
        f"{model['milliseconds']['1']:.1f} ms for one text ({say_speed(speed_at(model, '1'))})."
    )
    is_good = 100 * difference["low"] >= -tolerate
    if is_good and level != "ready":
        return f"For now the teacher in int8 (folder {TEACHER_INT8}) is the better choice: {figures}", True
    # CPU times are comparable even on a busy machine.
    is_smaller, is_faster = (
        student["bytes"] < model["bytes"],
        student["cpu_milliseconds"]["1"] < model["cpu_milliseconds"]["1"],
    )
    if is_good and not is_smaller and not is_faster:
        return f"The teacher in int8 is neither larger nor slower than the student: {figures}", True
    return f"For comparison, the teacher in int8: {figures}", False


def find_causes(
    summary: Mapping[str, Any], folder: Path, value: float, exported: float, tolerate: float
) -> tuple[list[str], list[str]]:
    """Return the likely causes of a loss, and options that may help."""
    causes, steps = [], []
    if exported <= -1 and exported < value / 2:
        causes.append(f"int8 loses {-exported:.1f} of these points; the fp32 file does not.")
        if 100 * summary["difference"][summary["split"]][first_metric(summary)]["low"] >= -tolerate:
            steps.append("use the fp32 model of the artifact: Predictor(…, model='fp32')")
    longer = {}
    taught = _teacher_steps(folder.parent / TEACHER)
    if taught is not None and taught < _FEW_STEPS:
        causes.append(f"The teacher was fine-tuned for {taught} steps only.")
        longer["finetune"] = _ENOUGH_STEPS
    for name, stage in summary["stages"].items():
        fallen = still_falling(folder / name / "losses.csv")
        if fallen is not None:
            causes.append(
                f"The loss of the stage {name} was still falling: by {fallen:.0%} over the last fifth of its "
                "steps."
            )
            longer[name] = 3 * stage["steps"]
        elif stage["steps"] < _FEW_STEPS:
            causes.append(f"The stage {name} took {stage['steps']} steps only.")
            longer[name] = _ENOUGH_STEPS
    options = [f"--set {name.replace('-', '_')}.training.max_steps={count}" for name, count in longer.items()]
    num_rows = sum(summary["counts"].get(split, {}).get("rows", 0) for split in ("train", "unlabelled"))
    max_rows = _max_rows(folder)
    leaves_rows_out = max_rows is not None and num_rows >= max_rows
    if leaves_rows_out:
        causes.append(f"It learnt from {num_rows:,} rows, because data.max_rows left the others out.")
        options.append("--set data.max_rows=null")
    if options:
        steps.append(" ".join(options))
    if not leaves_rows_out and num_rows < _FEW_ROWS:
        causes.append(
            f"It learnt from {num_rows:,} rows only. More text of the task helps, without labels too; "
            "`understudy mine` finds some in a corpus."
        )
        steps.append("--unlabelled FILE")
    if not causes:
        causes.append(
            "Nothing obvious: a larger student, a pretrained encoder as its start, or more rows may help."
        )
        steps.append("--student 6l-384d")
    return causes, steps


def _max_rows(folder: Path) -> int | None:
    """Return the limit of training rows in the recipe of a distillation; None if it has none."""
    file = folder / RECIPE
    if not file.is_file():
        return None
    found: int | None = yaml.safe_load(file.read_text("utf-8")).get("data", {}).get("max_rows")
    return found


def next_command(folder: Path, step: str, *, shown: str) -> str:
    """Return the command that repeats a run with one more option, in a new folder.

    The teacher is reused, unless the option gives it more rows or steps to learn from.

    Args:
        shown: the folder, as the command names it.
    """
    if not step.startswith("--"):
        return step
    number = next(number for number in itertools.count(2) if not Path(f"{folder}-{number}").exists())
    has_teacher = (folder / TEACHER).is_dir() and not re.search("data.max_rows|finetune", step)
    model = f" {shown}/{TEACHER}" if has_teacher else ""
    return f"understudy run{model} --recipe {shown}/{RECIPE} {step} --output-dir {shown}-{number}"


def still_falling(file: Path) -> float | None:
    """Return by what share the loss fell between the last two fifths of its logs; None if it hardly did."""
    if not file.is_file():
        return None
    with file.open(encoding="utf-8", newline="") as lines:
        losses = [float(line["loss"]) for line in csv.DictReader(lines)]
    return falling_share(losses)


def falling_share(losses: Sequence[float]) -> float | None:
    """Return by what share a loss fell between the last two fifths; None if it hardly did.

    >>> falling_share([10, 9, 8, 7, 6, 5, 3, 3, 1.5, 1.5])
    0.5
    >>> falling_share([10, 5, 2, 1, 1, 1, 1, 1, 1, 1])
    """
    part = len(losses) // 5
    if part == 0:
        return None
    before, after = (float(np.mean(one)) for one in (losses[-2 * part : -part], losses[-part:]))
    share = (before - after) / before if before > 0 else 0.0
    return share if share > _FALLING else None
