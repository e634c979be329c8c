"""An export is finished only when what it lost is known, and is little enough."""

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
    """Quantise everything, and then less and less until the score is kept.

    Args:
        make: a model with these parts left as they are.
        points_lost: what it loses of its score, in hundredths.
        harm: of each part, what quantising it alone does to the logits; asked only where it is needed.
        tolerance: points that may be lost.

    Returns:
        The model, and what was tried: the parts kept, and the points lost.
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
        if len(kept) >= len(order) - 1:  # a model of which nothing is quantised is the fp32 one
            least = min(float(str(one["points_lost"])) for one in tried)
            raise ModelError(
                f"int8 loses {tried[0]['points_lost']} points, and {least} at the least with some parts left "
                f"in fp32; {tolerance:g} are allowed. Allow more with --tolerance (in a recipe "
                "export.tolerance), or leave this form out: --no-int8, or no --openvino."
            )
        kept.append(order[len(kept)])
