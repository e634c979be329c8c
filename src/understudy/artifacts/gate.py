"""The quantisation gate: an export is finished only if its loss is measured and small enough."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from understudy.errors import ModelError

Made = TypeVar("Made")


def quantize_less(
    make: Callable[[Sequence[str]], Made],
    points_lost: Callable[[Made], float],
    harm: Callable[[], Mapping[str, float]],
    *,
    tolerance: float,
) -> tuple[Made, list[dict[str, object]]]:
    """Quantise everything, then fewer and fewer parts until the score is kept.

    Args:
        make: makes a model with these parts left in fp32.
        points_lost: returns how much of its score a model loses, in hundredths.
        harm: returns how much quantising each part alone changes the logits; called only if needed.
        tolerance: points that may be lost.

    Returns:
        The model, and the attempts: parts kept in fp32, and points lost.
    """
    kept: list[str] = []
    order: list[str] | None = None
    tried: list[dict[str, object]] = []
    while True:
        made = make(kept)
        lost = points_lost(made)
        tried.append({"kept_in_fp32": list(kept), "points_lost": round(lost, 3)})
        if lost <= tolerance:
            return made, tried
        if order is None:
            found = harm()
            order = sorted(found, key=lambda part: -found[part])
        if len(kept) >= len(order) - 1:  # quantising nothing would give the fp32 model
            least = min(float(str(one["points_lost"])) for one in tried)
            raise ModelError(
                f"int8 loses {tried[0]['points_lost']} points, and {least} at the least with some parts left "
                f"in fp32; {tolerance:g} are allowed. Allow more with --tolerance (in a recipe "
                "export.tolerance), or leave this form out: --no-int8, or no --openvino."
            )
        kept.append(order[len(kept)])
