"""The figures of a run that its summary, its verdict and its report have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from understudy.timing.rounds import BUSY, say_ratio


def shipped_form(summary: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the form of a student that is used by default: int8 if there is one."""
    forms: dict[str, Mapping[str, Any]] = {one["model"]: one for one in summary["models"]}
    return forms.get("student, int8") or summary["models"][-1]


def first_metric(summary: Mapping[str, Any]) -> str:
    """Return the metric that is reported first."""
    return str(next(iter(summary["models"][0]["scores"])))


def speed_at(model: Mapping[str, Any], batch: str) -> dict[str, float | None]:
    """Return a model's speed-up over the teacher for a number of texts, by wall time and by CPU time."""
    return {name: model[name][batch] for name in ("times_faster", "cpu_times_faster")}


def headline(summary: Mapping[str, Any]) -> str:
    """Summarise in one sentence what the student gains and loses; a second one if the machine was busy."""
    teacher, shipped = summary["models"][0], shipped_form(summary)
    metric = first_metric(summary)
    before, after = (one["scores"][metric]["value"] for one in (teacher, shipped))
    kept = (
        f"keeps {after / before:.1%} of its teacher's {metric}" if before > 0 else f"has {metric} {after:.3f}"
    )
    speed = speed_at(shipped, "1")
    faster = f" and {say_ratio(speed['times_faster'])}" if speed["times_faster"] is not None else ""
    sentence = (
        f"A student {shipped['times_smaller']:.1f} times smaller{faster} {kept}: {after:.3f} against "
        f"{before:.3f}."
    )
    return sentence if speed["times_faster"] is not None else f"{sentence} {_busy(speed)}"


def _busy(speed: Mapping[str, float | None]) -> str:
    by_cpu = speed["cpu_times_faster"]
    said = f"by CPU time it is {say_ratio(by_cpu)}" if by_cpu is not None else "its speed cannot be told"
    return (
        f"{BUSY.capitalize()} while it was timed: {said}. To time it again, delete the folder bench and run "
        "the command again."
    )
