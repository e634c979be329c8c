"""The sentence at the top of a report: what is kept, and how much faster, if that can be told."""

from __future__ import annotations

from typing import Any

from understudy.report.figures import busy_note, headline


def summary(times_faster: float | None, cpu_times_faster: float | None) -> dict[str, Any]:
    def model(name: str, score: float, smaller: float, *faster: float | None) -> dict[str, Any]:
        speed = {
            key: {"1": one} for key, one in zip(("times_faster", "cpu_times_faster"), faster, strict=True)
        }
        return {"model": name, "scores": {"accuracy": {"value": score}}, "times_smaller": smaller, **speed}

    return {
        "constant": [],
        "models": [
            model("teacher", 0.9, 1.0, 1.0, 1.0),
            model("student", 0.88, 2.0, 3.0, 3.0),
            model("student, int8", 0.855, 9.2, times_faster, cpu_times_faster),
        ],
    }


def test_the_headline_says_what_is_kept() -> None:
    assert headline(summary(20.0, 19.0)) == (
        "A student 9.2 times smaller and 20 times faster keeps 95.0% of its teacher's accuracy: 0.855 "
        "against 0.900."
    )


def test_a_student_that_gives_one_answer_is_not_praised() -> None:
    assert headline(summary(20.0, 19.0) | {"constant": ["student"]}) == (
        "The student has learnt nothing yet: it gives one answer to every row, which has accuracy 0.855 "
        "against 0.900."
    )


def test_a_student_of_a_teacher_that_gives_one_answer_is_not_praised() -> None:
    said = headline(summary(20.0, 19.0) | {"constant": ["teacher", "student"]})
    assert said.startswith("The teacher has learnt nothing yet: it gives one answer to every row")


def test_a_busy_machine_is_named_instead_of_a_figure() -> None:
    assert busy_note(summary(20.0, 19.0)) is None
    without = "A student 9.2 times smaller keeps 95.0% of its teacher's accuracy: 0.855 against 0.900."
    assert headline(summary(None, 19.0)) == headline(summary(None, None)) == without
    again = " To time them again, delete the folder bench and run the command again."
    assert busy_note(summary(None, 19.0)) == (
        "The machine was busy while the models were timed: by CPU time the student is 19 times faster."
        + again
    )
    assert busy_note(summary(None, None)) == (
        "The machine was busy while the models were timed: the student's speed is unknown." + again
    )
