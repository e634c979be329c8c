"""Figures over the rounds of a measurement: spread, paired ratios, and whether the machine was busy.

A round is one turn of every model. Ratios are taken inside a round, between turns that follow each other, and
only their median is reported, so that activity that comes and goes during the measurement cancels out.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

# A pass on an idle machine takes about as long as the CPU time it uses, or less with several threads. Beyond
# this, the process was waiting for a core.
MOST_WALL_PER_CPU = 1.25
# Interquartile range of the rounds, as a share of their median.
MOST_SPREAD = 0.5

BUSY = "the machine was busy"


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """Return the first and the third quartile.

    >>> quartiles([1.0, 2.0, 3.0, 4.0, 5.0])
    (2.0, 4.0)
    """
    low, high = np.quantile(values, [0.25, 0.75])
    return float(low), float(high)


def spread(values: Sequence[float]) -> float:
    """Return the interquartile range as a share of the median.

    >>> spread([1.0, 2.0, 4.0, 5.0, 9.0])
    0.75
    """
    low, high = quartiles(values)
    return (high - low) / statistics.median(values)


def is_steady(values: Sequence[float]) -> bool:
    """Return whether the rounds agree well enough for their median to mean something."""
    return spread(values) <= MOST_SPREAD


def was_busy(wall: Sequence[float], cpu: Sequence[float]) -> bool:
    """Return whether other activity disturbed a model: it waited for a core, or its rounds differ too much.

    Args:
        wall: seconds of a pass in each round.
        cpu: seconds of CPU time of a pass in each round.
    """
    waited = statistics.median(wall) > MOST_WALL_PER_CPU * statistics.median(cpu)
    return waited or not is_steady(wall)


def paired_ratio(first: Sequence[float], other: Sequence[float]) -> float:
    """Return how many times larger the first is: the median of the ratios inside each round.

    >>> paired_ratio([8.0, 80.0, 8.0], [2.0, 16.0, 2.0])
    4.0
    """
    return statistics.median(one / two for one, two in zip(first, other, strict=True))


def two_digits(ratio: float) -> float:
    """Round to two significant digits: more are never reproducible.

    >>> [two_digits(ratio) for ratio in (196.4, 16.36, 2.349, 0.8749)]
    [200.0, 16.0, 2.3, 0.87]
    """
    return float(f"{ratio:.2g}")


def describe_rounds(wall: Sequence[float], cpu: Sequence[float]) -> dict[str, Any]:
    """Return the medians and quartiles of the seconds of each round, in milliseconds."""
    figures: dict[str, Any] = {}
    for median, spread_name, values in (
        ("median_ms", "quartiles_ms", wall),
        ("cpu_ms", "cpu_quartiles_ms", cpu),
    ):
        figures[median] = round(statistics.median(values) * 1e3, 4)
        figures[spread_name] = [round(one * 1e3, 4) for one in quartiles(values)]
    return figures


def compare_rounds(
    base: tuple[Sequence[float], Sequence[float]], other: tuple[Sequence[float], Sequence[float]]
) -> dict[str, Any]:
    """Compare a model with the first one, both as wall and CPU seconds of each round.

    Returns:
        `busy`: whether either was disturbed. `times_faster`: the ratio of their wall times, None if busy.
        `cpu_times_faster`: the ratio of their CPU times, None if these are not steady.
    """
    busy = was_busy(*base) or was_busy(*other)
    steady = is_steady(base[1]) and is_steady(other[1])
    return {
        "busy": busy,
        "times_faster": None if busy else two_digits(paired_ratio(base[0], other[0])),
        "cpu_times_faster": two_digits(paired_ratio(base[1], other[1])) if steady else None,
    }


def say_ratio(ratio: float, times: str = " times") -> str:
    """Put a speed-up into words.

    >>> [say_ratio(ratio) for ratio in (196.4, 16.36, 2.3, 1.04, 1.0, 0.5)]
    ['200 times faster', '16 times faster', '2.3 times faster', 'as fast', 'as fast', '2 times slower']
    """
    if 0.95 <= ratio < 1.05:
        return "as fast"
    faster, figure = ("faster", ratio) if ratio > 1 else ("slower", 1 / ratio)
    return f"{two_digits(figure):.0f}{times} {faster}" if figure >= 10 else f"{figure:.2g}{times} {faster}"


def say_size(ratio: float, times: str = " times") -> str:
    """Put a ratio of sizes into words.

    >>> [say_size(ratio) for ratio in (30.1, 1.0, 0.4)]
    ['30.1 times smaller', 'as large', '2.5 times larger']
    """
    if 0.95 <= ratio < 1.05:
        return "as large"
    return f"{ratio:.1f}{times} smaller" if ratio > 1 else f"{1 / ratio:.1f}{times} larger"


def say_speed(figures: Mapping[str, Any]) -> str:
    """Put a model's speed-up into words, or say that the machine was too busy to tell.

    Args:
        figures: `times_faster` and `cpu_times_faster`, as `compare_rounds` returns them.

    >>> say_speed({"times_faster": None, "cpu_times_faster": 16.0})
    'the machine was busy; 16 times faster by CPU time'
    """
    if figures["times_faster"] is not None:
        return say_ratio(figures["times_faster"])
    if figures["cpu_times_faster"] is not None:
        return f"{BUSY}; {say_ratio(figures['cpu_times_faster'])} by CPU time"
    return BUSY


def short_speed(figures: Mapping[str, Any]) -> str:
    """Say the same for a cell of a table.

    >>> short_speed({"times_faster": 16.0, "cpu_times_faster": 17.0})
    '16× faster'
    >>> short_speed({"times_faster": None, "cpu_times_faster": 17.0})
    'busy, CPU 17×'
    >>> short_speed({"times_faster": None, "cpu_times_faster": 0.09})
    'busy, CPU 1/11'
    """
    if figures["times_faster"] is not None:
        return say_ratio(figures["times_faster"], "×")
    if figures["cpu_times_faster"] is not None:
        ratio = figures["cpu_times_faster"]
        return f"busy, CPU {two_digits(ratio):g}×" if ratio >= 0.95 else f"busy, CPU 1/{1 / ratio:.2g}"
    return "busy"
