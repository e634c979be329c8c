"""The figures of a run that are shared by its summary, its verdict and its report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from understudy.timing.rounds import BUSY, say_ratio


def shipped_form(summary: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the form of a student that is used by default: int8 if there is one."""
    forms: dict[str, Mapping[str, Any]] = {one["model"]: one for one in summary["models"]}
    return forms.get("student, int8") or summary["models"][-1]


def find_model(summary: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """Return a row of a run's table; None if it has no such model."""
    return next((one for one in summary["models"] if one["model"] == name), None)


def main_models(summary: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the models to choose from: the teacher, the teacher in int8, and the student in int8."""
    return [one for one in summary["models"] if one["model"] not in ("student", "student, fp32")]


def shipped_difference(summary: Mapping[str, Any]) -> dict[str, float]:
    """Return the shipped form's first metric minus the teacher's, with its 95 % interval.

    The interval is that of the torch student, shifted: exporting changes the score, not how uncertain it is.
    """
    metric, student = first_metric(summary), find_model(summary, "student")
    assert student is not None
    moved = shipped_form(summary)["scores"][metric]["value"] - student["scores"][metric]["value"]
    difference = summary["difference"][summary["split"]][metric]
    return {name: difference[name] + moved for name in ("value", "low", "high")}


def points(difference: float) -> str:
    """Format a difference of scores in hundredths.

    >>> [points(one) for one in (-0.0523, 0.01, -0.0002)]
    ['-5.2', '+1.0', '+0.0']
    """
    return f"{round(100 * difference, 1) + 0.0:+.1f}"


def first_metric(summary: Mapping[str, Any]) -> str:
    """Return the metric that is reported first."""
    return str(next(iter(summary["models"][0]["scores"])))


def speed_at(model: Mapping[str, Any], batch: str) -> dict[str, float | None]:
    """Return a model's speed-up over the teacher for a number of texts, by wall time and by CPU time."""
    return {name: model[name][batch] for name in ("times_faster", "cpu_times_faster")}


def headline(summary: Mapping[str, Any]) -> str:
    """Summarise in one sentence what the student gains and loses, without its speed if that is unknown."""
    teacher, shipped = summary["models"][0], shipped_form(summary)
    metric = first_metric(summary)
    before, after = (one["scores"][metric]["value"] for one in (teacher, shipped))
    kept = (
        f"keeps {after / before:.1%} of its teacher's {metric}" if before > 0 else f"has {metric} {after:.3f}"
    )
    if "teacher" in summary["constant"]:
        return (
            f"The teacher has learnt nothing yet: it gives one answer to every row, which has {metric} "
            f"{before:.3f}. There is nothing that a student could learn from it."
        )
    if "student" in summary["constant"]:
        return (
            f"The student has learnt nothing yet: it gives one answer to every row, which has {metric} "
            f"{after:.3f} against {before:.3f}."
        )
    times = speed_at(shipped, "1")["times_faster"]
    faster = f" and {say_ratio(times)}" if times is not None else ""
    return (
        f"A student {shipped['times_smaller']:.1f} times smaller{faster} {kept}: {after:.3f} against "
        f"{before:.3f}."
    )


def busy_note(summary: Mapping[str, Any]) -> str | None:
    """Say that the machine was busy while the student was timed, and what is known; None if it was not."""
    speed = speed_at(shipped_form(summary), "1")
    if speed["times_faster"] is not None:
        return None
    by_cpu = speed["cpu_times_faster"]
    said = (
        f"by CPU time the student is {say_ratio(by_cpu)}"
        if by_cpu is not None
        else "the student's speed is unknown"
    )
    return (
        f"{BUSY.capitalize()} while the models were timed: {said}. To time them again, delete the folder "
        "bench and run the command again."
    )
