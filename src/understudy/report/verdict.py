"""Is a student ready to be shipped? A verdict by the paired interval against its teacher."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from understudy.report.figures import shipped_form

Level = Literal["ready", "close", "not ready"]
_FEW_ROWS = 2_000
_FALLING = 0.02  # of the loss, between the last two fifths of the steps


@dataclass(frozen=True)
class Verdict:
    """What to think of a student.

    Attributes:
        level: `ready`: at most the tolerated points are lost, with 95 % confidence; `not ready`: more are,
            with the same confidence; `close`: anything in between.
        sentence: the level with its figures.
        causes: why a student that is not ready probably is not.
        steps: options of `understudy run` that are likely to help, most likely first.
    """

    level: Level
    sentence: str
    causes: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()


def judge_student(summary: Mapping[str, Any], folder: Path, tolerate: float) -> Verdict:
    """Judge the shipped form of a student.

    Args:
        summary: the table of the run.
        folder: the folder of the distillation, with the losses of its stages.
        tolerate: points of the first metric that may be lost.
    """
    teacher, student = summary["models"][:2]
    shipped = shipped_form(summary)
    metric = next(iter(teacher["scores"]))
    # The interval is that of the torch student; exporting moves the score, not what the rows say about it.
    exported = 100 * (shipped["scores"][metric]["value"] - student["scores"][metric]["value"])
    difference = summary["difference"][summary["split"]][metric]
    low, value, high = (100 * difference[name] + exported for name in ("low", "value", "high"))
    level: Level = "ready" if low >= -tolerate else "not ready" if high < -tolerate else "close"
    lost = f"loses {-value:.1f} points" if value < 0 else f"gains {value:.1f} points"
    sentence = (
        f"{level.capitalize()}: it {lost} of {metric} against its teacher (95 %: {low:+.1f} to {high:+.1f}); "
        f"{tolerate:g} may be lost."
    )
    if level == "ready":
        return Verdict(level, sentence)
    causes, steps = find_causes(summary, folder, value, exported)
    return Verdict(level, sentence, tuple(causes), tuple(steps))


def find_causes(
    summary: Mapping[str, Any], folder: Path, value: float, exported: float
) -> tuple[list[str], list[str]]:
    """Return the likely causes of a loss, and options that may help."""
    causes, steps = [], []
    if exported < 0 and exported < value / 2:
        causes.append(f"int8 loses {-exported:.1f} of these points; the fp32 file does not.")
        steps.append("use the fp32 model of the artifact: Predictor(…, model='fp32')")
    name, stage = list(summary["stages"].items())[-1]
    fallen = still_falling(folder / name / "losses.csv")
    if fallen is not None:
        causes.append(f"Its loss was still falling: by {fallen:.0%} over the last fifth of the steps.")
        steps.append(f"--set {name.replace('-', '_')}.training.max_steps={3 * stage['steps']}")
    num_rows = sum(summary["counts"].get(split, {}).get("rows", 0) for split in ("train", "unlabelled"))
    if num_rows < _FEW_ROWS:
        causes.append(f"It learnt from {num_rows:,} rows only.")
        steps.append("--unlabelled FILE with more text of the task, or of `understudy mine`")
    if not causes:
        causes.append("Nothing obvious: a larger student, another start or more rows may help.")
        steps.append("--student 6l-384d, or --student with a pretrained encoder of that size")
    return causes, steps


def still_falling(file: Path) -> float | None:
    """Return by which share the loss fell between the last two fifths of its logs; None if it hardly did."""
    if not file.is_file():
        return None
    with file.open(encoding="utf-8", newline="") as lines:
        losses = [float(line["loss"]) for line in csv.DictReader(lines)]
    return falling_share(losses)


def falling_share(losses: Sequence[float]) -> float | None:
    """Return by which share a loss fell between the last two fifths; None if it hardly did.

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
