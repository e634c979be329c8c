"""A page that compares several students of one teacher: what each costs, and what it loses."""

from __future__ import annotations

import html
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from understudy.files import write_atomically
from understudy.report.charts import frontier
from understudy.report.figures import first_metric, main_models, points, shipped_difference, shipped_form
from understudy.report.markup import safe, section, side_by_side, table, with_note
from understudy.report.page import PAGE, REPORT
from understudy.workspace.hashes import versions


def holds(run: Mapping[str, Any], lose: float) -> bool:
    """Return whether the shipped form of a student loses at most some points."""
    lost = round(-100 * shipped_difference(run)["value"], 6)  # 0.93 - 0.92 is more than 0.01
    return lost <= lose and "student" not in run["constant"]


def summarize_students(
    runs: Mapping[str, Mapping[str, Any]], lose: float, milliseconds: Mapping[str, float]
) -> dict[str, Any]:
    """Compare the runs of several students, and choose the fastest that loses no more than it may.

    Args:
        runs: the result of each student's whole run.
        lose: the points that a student may lose.
        milliseconds: the time that each student and the teacher take for one text.
    """
    first = next(iter(runs.values()))
    metric = first_metric(first)
    teachers = {
        one["model"]: {
            "score": one["scores"][metric],
            "milliseconds": milliseconds[one["model"]],
            "megabytes": one["bytes"] / 1e6,
        }
        for one in main_models(first)
        if one["model"].startswith("teacher")
    }
    students = {}
    for name, run in runs.items():
        shipped = shipped_form(run)
        students[name] = {
            "score": shipped["scores"][metric],
            "difference": shipped_difference(run),
            "holds": holds(run, lose),
            "milliseconds": milliseconds[name],
            "megabytes": shipped["bytes"] / 1e6,
            "parameters": shipped["parameters"],
            "run": run,
        }
    holding = [name for name, one in students.items() if one["holds"]]
    return {
        "stage": "students",
        "task": first["task"],
        "metric": metric,
        "lose": lose,
        "chosen": min(holding, key=lambda name: students[name]["milliseconds"]) if holding else None,
        "teachers": teachers,
        "students": students,
        "versions": versions(),
    }


def describe_choice(content: Mapping[str, Any]) -> str:
    """Describe the student that was chosen: its loss with the interval, its size and its time."""
    name, allowed = content["chosen"], f"{content['lose']:g} point{'s' * (content['lose'] != 1)}"
    if name is None:
        best = max(content["students"], key=lambda one: content["students"][one]["score"]["value"])
        lost = -100 * content["students"][best]["difference"]["value"]
        return f"No student loses at most {allowed}. The best one, {best}, loses {lost:.1f}."
    one = content["students"][name]
    value, low, high = (points(one["difference"][side]) for side in ("value", "low", "high"))
    return (
        f"{name} is the fastest student that loses at most {allowed}: {value} ({low} to {high} with 95 % "
        f"confidence), {one['megabytes']:.1f} MB, {one['milliseconds']:.1f} ms for one text."
    )


def write_frontier(folder: Path, content: Mapping[str, Any]) -> None:
    """Write report.html with a picture of all students, a table, and links to their own reports."""
    metric, lines = content["metric"], []
    shown = {
        name: (one["milliseconds"], one["megabytes"], one["score"])
        for name, one in {**content["teachers"], **content["students"]}.items()
    }
    for name, (milliseconds, megabytes, score) in shown.items():
        student = content["students"].get(name)
        title = f"<a href='{safe(name)}/{REPORT}'>{safe(name)}</a>" if student else safe(name)
        if name == content["chosen"]:
            title += "<small>chosen</small>"
        shown_score = with_note(f"{score['value']:.3f}", f"{score['low']:.3f}–{score['high']:.3f}")
        lost = ""
        if student is not None:
            value, low, high = (points(student["difference"][side]) for side in ("value", "low", "high"))
            lost = with_note(value, f"{low} to {high}")
        lines.append([title, shown_score, lost, f"{megabytes:.1f} MB", f"{milliseconds:.1f} ms"])
    pictures = [
        frontier(
            {name: (figures[place], figures[2]) for name, figures in shown.items()},
            chosen=content["chosen"],
            axis=axis,
            metric=metric,
        )
        for place, axis in enumerate(("ms for one text", "MB"))
    ]
    figures = f"<div class=figures>{table(['', metric, 'points', 'file', 'one text'], lines)}</div>"
    level = "ready" if content["chosen"] is not None else "not-ready"
    body = f"<h1>{safe(content['task'])}</h1><p class='verdict {level}'>{safe(describe_choice(content))}</p>"
    body += section("Students of one teacher", side_by_side(pictures) + figures)
    style = (resources.files("understudy") / "report" / "style.css").read_text("utf-8")
    title = f"{content['task']}: students of one teacher"
    write_atomically(folder / REPORT, PAGE.format(title=html.escape(title), style=style, body=body))
