"""What may be said of timings: on a quiet machine, a busy one, and if only one model was disturbed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.timing.measure import Timing, Turn
from understudy.timing.rounds import (
    compare_rounds,
    describe_rounds,
    paired_ratio,
    quartiles,
    say_ratio,
    say_speed,
    short_speed,
    spread,
    two_digits,
    was_busy,
)

TEACHER = [0.046, 0.047, 0.045, 0.046, 0.048, 0.046, 0.045, 0.047, 0.046, 0.046]
STUDENT = [0.0028, 0.0029, 0.0028, 0.0027, 0.0028, 0.0029, 0.0028, 0.0028, 0.0027, 0.0028]


def test_a_quiet_machine_gives_both_ratios() -> None:
    said = compare_rounds((TEACHER, TEACHER), (STUDENT, STUDENT))
    assert said == {"busy": False, "times_faster": 16.0, "cpu_times_faster": 16.0}


def test_a_model_that_waits_for_a_core_has_no_wall_ratio() -> None:
    """As measured once: the teacher took 218 ms instead of 46."""
    waited = [4.7 * one for one in TEACHER]
    said = compare_rounds((waited, TEACHER), (STUDENT, STUDENT))
    assert said == {"busy": True, "times_faster": None, "cpu_times_faster": 16.0}
    # The first model's disturbance concerns every ratio to it; the other way round likewise.
    said = compare_rounds((TEACHER, TEACHER), ([4.7 * one for one in STUDENT], STUDENT))
    assert said == {"busy": True, "times_faster": None, "cpu_times_faster": 16.0}


def test_rounds_that_differ_too_much_have_no_ratio() -> None:
    """Waiting in half of the rounds: the median is still a quiet one, and cannot be trusted."""
    waited = [one * (3 if place % 2 else 1) for place, one in enumerate(STUDENT)]
    assert compare_rounds((TEACHER, TEACHER), (waited, STUDENT))["times_faster"] is None
    # If the CPU itself is slower for a while, CPU times differ too.
    said = compare_rounds((TEACHER, TEACHER), (waited, waited))
    assert said == {"busy": True, "times_faster": None, "cpu_times_faster": None}


def test_a_single_slow_round_changes_nothing() -> None:
    one_slow = [*STUDENT[:-1], 20 * STUDENT[-1]]
    said = compare_rounds((TEACHER, TEACHER), (one_slow, STUDENT))
    assert said == {"busy": False, "times_faster": 16.0, "cpu_times_faster": 16.0}


def test_several_threads_use_more_cpu_time_than_wall_time() -> None:
    assert not was_busy(wall=TEACHER, cpu=[2 * one for one in TEACHER])


def test_the_limits() -> None:
    flat = [1.0] * 4
    assert not was_busy([1.25] * 4, flat)
    assert was_busy([1.26] * 4, flat)
    # Quartiles of 1, 1, 2, 2 are 1 and 2, the median 1.5: a spread of two thirds.
    assert spread([1.0, 1.0, 2.0, 2.0]) == pytest.approx(2 / 3)
    assert was_busy([1.0, 1.0, 2.0, 2.0], [2.0] * 4)
    assert quartiles([0.0, 1.0, 2.0, 3.0, 4.0]) == (1.0, 3.0)
    assert not was_busy([3.0, 3.5, 4.0, 4.5, 5.0], [4.0] * 5)  # a spread of 1 / 4


def test_ratios_are_taken_inside_a_round() -> None:
    """Both slow down in the last two rounds: the ratios are 10, 10, 8 and 8."""
    teacher, student = [1.0, 1.0, 4.0, 4.0], [0.1, 0.1, 0.5, 0.5]
    assert paired_ratio(teacher, student) == 9.0
    with pytest.raises(ValueError, match="shorter"):
        paired_ratio(teacher, student[:3])


@given(
    st.lists(st.floats(0.001, 10.0), min_size=4, max_size=12),
    st.lists(st.floats(1.0, 50.0), min_size=12, max_size=12),
    st.floats(0.1, 50.0),
)
def test_what_slows_a_whole_round_does_not_move_the_ratio(
    base: list[float], slower: list[float], ratio: float
) -> None:
    disturbed = [one * by for one, by in zip(base, slower, strict=False)]
    assert paired_ratio(disturbed, [one / ratio for one in disturbed]) == pytest.approx(ratio)


def test_ratios_have_two_digits_and_are_put_into_words() -> None:
    assert [two_digits(one) for one in (196.4, 16.36, 2.349, 0.8749)] == [200.0, 16.0, 2.3, 0.87]
    assert say_ratio(196.4) == "200 times faster"
    assert say_ratio(9.99) == "10 times faster"
    assert say_ratio(1 / 3) == "3 times slower"
    assert say_ratio(1.0) == "as fast"
    both = {"times_faster": 16.0, "cpu_times_faster": 17.0}
    assert (say_speed(both), short_speed(both)) == ("16 times faster", "16× faster")
    by_cpu = both | {"times_faster": None}
    assert say_speed(by_cpu) == "the machine was busy; 17 times faster by CPU time"
    assert short_speed(by_cpu) == "busy, CPU 17×"
    neither = {"times_faster": None, "cpu_times_faster": None}
    assert (say_speed(neither), short_speed(neither)) == ("the machine was busy", "busy")


def test_a_turn_is_its_median_pass_and_its_mean_cpu_time() -> None:
    turns = [Turn([0.001, 0.002, 0.009], 0.006), Turn([0.003, 0.003, 0.003], 0.009)]
    timing = Timing("model", 1, 1, 8, turns)
    assert timing.wall == [0.002, 0.003]
    assert timing.cpu == [pytest.approx(0.002), pytest.approx(0.003)]
    assert timing.median == pytest.approx(0.0025)
    assert timing.passes == 6
    assert describe_rounds(timing.wall, timing.cpu) == {
        "median_ms": 2.5,
        "quartiles_ms": [2.25, 2.75],
        "cpu_ms": 2.5,
        "cpu_quartiles_ms": [2.25, 2.75],
    }
