"""Summaries of a run: teacher and student side by side, and one line per stage."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from understudy.artifacts.artifact import ARTIFACT
from understudy.models.settings import DISTILLED
from understudy.recipe.recipe import Recipe
from understudy.recipe.whole_run import ExportSettings
from understudy.report.verdict import judge_student
from understudy.workspace.folders import ARTIFACT_FOLDER, BENCH, EVALUATION, RESULT, TEACHER_INT8
from understudy.workspace.hashes import versions
from understudy.workspace.predictions import PREDICTIONS, read_predictions

_SLIGHT = 0.2  # below this, Cohen's kappa is called slight agreement
_AGREEMENT = "Scores are agreement with the teacher: there are no development labels."

# The figures of a model by batch size, and their names in a benchmark.
_TIMES = {
    "milliseconds": "median_ms",
    "quartiles": "quartiles_ms",
    "cpu_milliseconds": "cpu_ms",
    "cpu_quartiles": "cpu_quartiles_ms",
    "busy": "busy",
    "times_faster": "times_faster",
    "cpu_times_faster": "cpu_times_faster",
}


def read(folder: Path) -> dict[str, Any]:
    """Read a stage's result."""
    content: dict[str, Any] = json.loads((folder / RESULT).read_text("utf-8"))
    return content


def summarize(recipe: Recipe, folder: Path) -> dict[str, Any]:
    """Compare teacher and student: scores with intervals, parameters, sizes, times."""
    evaluation, timed = read(folder / EVALUATION), read(folder / BENCH)
    distilled = read(folder / DISTILLED)
    artifact = json.loads((folder / ARTIFACT_FOLDER / ARTIFACT).read_text("utf-8"))
    split = next(iter(evaluation["scores"]))
    last_stage = list(distilled["stages"].values())[-1]
    exported = (recipe.export or ExportSettings()).teacher_int8
    teacher_int8 = read(folder / TEACHER_INT8) if exported else None
    scores = {"teacher": evaluation["against"]["scores"], "student": evaluation["scores"]}
    scores |= {f"student, {name}": model["scores"] for name, model in artifact["models"].items()}
    scores |= {"teacher, int8": (teacher_int8 or {}).get("scores")}
    rows: list[dict[str, Any]] = []
    for name, model in timed["models"].items():
        times = {row["batch"]: row for row in timed["rows"] if row["model"] == name}
        who = _who(name) if rows else "teacher"
        rows.append(
            {
                "model": who,
                "form": model["form"],
                "scores": scores[who][split],
                "parameters": model["parameters"],
                "bytes": model["bytes"],
                "times_smaller": model["times_smaller"],
                **{
                    name: {str(batch): row[figure] for batch, row in times.items()}
                    for name, figure in _TIMES.items()
                },
            }
        )
    constant = constant_answers(folder / EVALUATION / PREDICTIONS, split)
    content = {
        "stage": "run",
        "task": recipe.task,
        "method": recipe.method,
        "split": split,
        "scores": evaluation["scores"],
        "against": evaluation["against"],
        "difference": evaluation["difference"],
        "agreement": evaluation.get("agreement", {}),
        "counts": {**distilled["counts"], **evaluation["counts"]},
        "constant": list(constant),
        "teacher_guess": guess_of_teacher(folder / EVALUATION / PREDICTIONS, split, recipe),
        "notes": [
            *(note_constant(who, answer) for who, answer in constant.items()),
            *([_AGREEMENT] if distilled.get("labels_from") == "teacher" else []),
        ],
        "models": rows,
        "teacher_int8": teacher_int8,
        "parameters": distilled["parameters"],
        "stages": distilled["stages"],
        "length": timed["rows"][0]["length"],
        "machine": timed["machine"],
        "precision": last_stage["precision"],
        "seed": recipe.seed,
        "hashes": distilled["hashes"],
        "versions": versions(),
    }
    verdict = judge_student(content, folder / DISTILLED, recipe.tolerate)
    return content | {"verdict": asdict(verdict)}


def _who(timed: str) -> str:
    """Return the name of a timed model in a run's table. Only the last parts count, as a run may be moved.

    >>> [_who(timed) for timed in ("a/distilled", "a/artifact:fp32", "a/teacher-int8:int8")]
    ['student', 'student, fp32', 'teacher, int8']
    """
    last = Path(timed).name
    folder, _, form = last.partition(":")
    return "student" if last == DISTILLED else f"{'teacher' if folder == TEACHER_INT8 else 'student'}, {form}"


def constant_answers(file: Path, split: str) -> dict[str, str]:
    """Return the models that give the same answer to every row, `teacher` or `student`, with that answer."""
    rows, found = read_predictions(file, split), {}
    for who, name in (("teacher", "against"), ("student", "prediction")):
        answers = {json.dumps(row[name]) for row in rows}
        if len(answers) == 1 and len(rows) > 1 and not isinstance(rows[0][name], float):
            found[who] = answers.pop()
    return found


def guess_of_teacher(file: Path, split: str, recipe: Recipe) -> dict[str, Any] | None:
    """Return how a teacher compares with always giving the most frequent label, if it is hardly better.

    None for kinds whose rows do not have named labels as a whole.
    """
    kind = recipe.task_definition.rows
    if not kind.has_named_labels or kind.is_per_token:
        return None
    rows = [
        [_answer(row[name]) for name in (kind.label_field, "against")]
        for row in read_predictions(file, split)
    ]
    labels, answers = (Counter(column) for column in zip(*rows, strict=True))
    right = sum(label == answer for label, answer in rows) / len(rows)
    answer, count = labels.most_common(1)[0]
    share = count / len(rows)
    chance = 2 * (share * (1 - share) / len(rows)) ** 0.5
    # Of a rare class a good teacher may find half, and be right hardly more often than one answer.
    by_chance = sum(labels[name] * answers[name] for name in labels) / len(rows) ** 2
    kappa = (right - by_chance) / (1 - by_chance) if by_chance < 1 else 0.0
    is_guess = right <= share + chance and kappa < _SLIGHT
    return {"right": right, "answer": answer, "share": share} if is_guess else None


def _answer(given: str | list[str]) -> str:
    """Return a label, or several as one string."""
    return given if isinstance(given, str) else ", ".join(given) or "no label"


def note_constant(who: str, answer: str) -> str:
    """State that a model gives one answer to every row."""
    return (
        f"The {who} gives the same answer to every row: {answer}. It has learnt nothing yet, and its score "
        "is what that one answer gets. Train it longer, or with another learning rate."
    )


def scores_line(content: Mapping[str, Any]) -> str:
    """Format the scores of a stage, with the teacher's if it was scored too."""
    split, metrics = next(iter(content["scores"].items()))
    shown = ", ".join(f"{name} {figure['value']:.3f}" for name, figure in metrics.items())
    against = content.get("against")
    teacher = next(iter(metrics)) if against else None
    beside = f" (teacher {against['scores'][split][teacher]['value']:.3f})" if against and teacher else ""
    return f"{split} {shown}{beside}"


def agreement_line(content: Mapping[str, Any]) -> str:
    """Format how often student and teacher agree, or how close their vectors are."""
    shares = content.get("agreement", {})
    lines = [f"the same answer on {share:.1%} of {split}" for split, share in shares.items()]
    for split, figures in content.get("closeness", {}).items():
        lines.append(f"{split} " + ", ".join(f"{name} {value:.3f}" for name, value in figures.items()))
    return ", ".join(lines)


def sizes_line(folder: Path) -> str:
    """Format the file sizes of an artifact."""
    models = json.loads((folder / ARTIFACT).read_text("utf-8"))["models"]
    return ", ".join(f"{name} {model['bytes'] / 1e6:.1f} MB" for name, model in models.items())


def speed_line(content: Mapping[str, Any]) -> str:
    """Format the latency of the student's fastest form on one text, with the teacher's."""
    teacher, *others = [row for row in content["rows"] if row["batch"] == 1]
    students = [row for row in others if _who(row["model"]).startswith("student")]
    best = min(students, key=lambda row: row["median_ms"])
    return f"one text in {best['median_ms']:.1f} ms, the teacher in {teacher['median_ms']:.1f} ms"
