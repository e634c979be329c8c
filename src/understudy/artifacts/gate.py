"""The quantisation gate: an export is finished only if its loss is measured, and small or within chance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from understudy.errors import ModelError
from understudy.evaluation.bootstrap import Estimate

Made = TypeVar("Made")


def quantize_less(
    make: Callable[[Sequence[str]], Made],
    points_lost: Callable[[Made], Estimate],
    harm: Callable[[], Mapping[str, float]],
    *,
    tolerance: float,
    name: str = "int8",
) -> tuple[Made, list[dict[str, Any]]]:
    """Quantise everything, then fewer and fewer parts until the score is kept.

    Args:
        make: makes a model with these parts left in fp32.
        points_lost: returns how much of its score a model loses, in hundredths, with its interval.
        harm: returns how much quantising each part alone changes the logits; called only if needed.
        tolerance: points that may be lost.
        name: the form's name, for messages.

    Returns:
        The model, and the attempts: parts kept in fp32, and points lost.
    """
    kept: list[str] = []
    order: list[str] | None = None
    tried: list[dict[str, Any]] = []
    while True:
        made = make(kept)
        lost = points_lost(made)
        interval = [round(lost.low, 3), round(lost.high, 3)]
        tried.append({"kept_in_fp32": list(kept), "points_lost": round(lost.value, 3), "interval": interval})
        if not loses_too_much(lost, tolerance):
            return made, tried
        if order is None:
            found = harm()
            order = sorted(found, key=lambda part: -found[part])
        if len(kept) >= len(order) - 1:  # quantising nothing would give the fp32 model
            least = min(one["points_lost"] for one in tried)
            some = f", and {least} at the least with some parts left in fp32" if order else ""
            raise ModelError(
                f"{name} loses {tried[0]['points_lost']} points{some}; {tolerance:g} are allowed. Allow more "
                "with --tolerance (in a recipe export.tolerance), or leave this form out: --no-int8, no "
                "--int4 (or --int4 embeddings instead of all) or no --openvino."
            )
        kept.append(order[len(kept)])


def loses_too_much(lost: Estimate, tolerance: float) -> bool:
    """Return whether a loss is above the tolerance and more than chance.

    On a few hundred rows, two or three changed predictions already exceed half a point. That is not a reason
    to ship a file three times as large, so the 95 % interval of the loss must also exclude 0.

    >>> loses_too_much(Estimate(0.9, -0.3, 2.2), tolerance=0.5)
    False
    >>> loses_too_much(Estimate(0.9, 0.3, 1.6), tolerance=0.5)
    True
    """
    return lost.value > tolerance and lost.low > 0


def describe_loss(tried: Mapping[str, Any], tolerance: float) -> str:
    """Format the loss of a form: points, interval, and what is allowed.

    >>> describe_loss({"points_lost": 0.94, "interval": [-0.3, 2.2]}, 0.5)
    'changes by -0.94 points (95 %: -2.20 to +0.30): more than the 0.5 that may be lost, but within chance'
    """
    # Adding 0 makes -0.0 a plain 0.
    lost, low, high = (0.0 - round(value, 2) + 0.0 for value in (tried["points_lost"], *tried["interval"]))
    text = f"changes by {lost:+.2f} points (95 %: {high:+.2f} to {low:+.2f})"
    if tolerance >= 100:  # anything may be lost
        return text
    if tried["points_lost"] > tolerance:
        return f"{text}: more than the {tolerance:g} that may be lost, but within chance"
    return f"{text}; {tolerance:g} may be lost"
