"""Labels by name: the same number for the same label in model and data, and several in one cell.

A model's labels are in its config. If they are just LABEL_0, LABEL_1 …, they are unnamed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from understudy.errors import ModelError, closest

# Between the labels of one cell.
SEPARATOR = ";"


def named_labels(id2label: Mapping[int, str]) -> tuple[str, ...] | None:
    """Return the label names of a model's config in the order of their ids, or None if they are unnamed."""
    names = tuple(id2label[index] for index in sorted(id2label))
    return None if all(re.fullmatch(r"LABEL_\d+", name) for name in names) else names


def check_labels(
    model: str, model_labels: Sequence[str] | None, num_model_labels: int, data_labels: Sequence[str]
) -> tuple[str, ...]:
    """Compare a fine-tuned model's labels with the data's, by name and order.

    Names are compared without regard to case and separators; the model's spelling is returned.

    Args:
        model: its name, for the message.
        model_labels: None if the model does not name them; then only their number is compared.

    Raises:
        ModelError: with both lists side by side.
    """
    if len(data_labels) == num_model_labels:
        if model_labels is None:
            return tuple(data_labels)
        if [fold(name) for name in model_labels] == [fold(name) for name in data_labels]:
            return tuple(model_labels)
    shown_model = list(model_labels or [f"LABEL_{index}" for index in range(num_model_labels)])
    lines = [
        f"The labels of {model} and of the data must agree in names and order:",
        f"  id  {'model':<24} data",
    ]
    for index in range(max(len(shown_model), len(data_labels))):
        left = shown_model[index] if index < len(shown_model) else "—"
        right = data_labels[index] if index < len(data_labels) else "—"
        lines.append(f"  {index:>2}  {left:<24} {right}")
    if sorted(map(fold, shown_model)) == sorted(map(fold, data_labels)):
        spelling = {fold(name): name for name in data_labels}
        order = json.dumps([spelling[fold(name)] for name in shown_model], ensure_ascii=False)
        lines.append(f"The order differs. Use the model's: --set 'data.labels={order}'")
    else:
        known = {fold(name) for name in shown_model}
        for name in data_labels:
            close = closest(name, shown_model)
            if fold(name) not in known and close is not None:
                lines.append(f"The data's {name!r} may be the model's {close!r}. If so, correct the file.")
        lines.append(
            "Rename the labels in the file to the model's, or use a model fine-tuned on these. If the rows "
            "are for another task, name it with --task."
        )
    raise ModelError("\n".join(lines))


def label_names(value: Any, labels: Sequence[str] | None) -> Any:
    """Return the name of a label, or of each in a list; a value without a name is returned as it is."""
    if isinstance(value, list):
        return [label_names(one, labels) for one in value]
    return labels[value] if labels is not None and isinstance(value, int) else value


def is_number(name: str) -> bool:
    """Return whether a label is written as a number.

    >>> is_number("-3"), is_number("4.5"), is_number("nan"), is_number("1st")
    (True, True, False, False)
    """
    return re.fullmatch(r"-?\d+(\.\d+)?", name, re.ASCII) is not None


def fold(name: str) -> str:
    """Normalise case and separators of a label: `Not Entailment` becomes `not_entailment`."""
    return re.sub(r"[\s_-]+", "_", name.casefold())


def split_labels(cell: str) -> list[Any]:
    """Split the labels in a cell of a table: a JSON list, or names with semicolons between them.

    >>> split_labels("sport; politics"), split_labels('["sport"]'), split_labels("")
    (['sport', 'politics'], ['sport'], [])
    """
    if cell.lstrip().startswith("["):
        try:
            listed = json.loads(cell)
        except ValueError:
            listed = None  # a name that begins with a bracket
        if isinstance(listed, list):
            return listed
    return [name.strip() for name in cell.split(SEPARATOR) if name.strip()]


def join_labels(names: Sequence[str]) -> str:
    """Join labels to one cell, which `split_labels` reads.

    >>> join_labels(["sport", "politics"]), join_labels(["sport; politics"])
    ('sport;politics', '["sport; politics"]')
    """
    cell = SEPARATOR.join(names)
    return cell if split_labels(cell) == list(names) else json.dumps(list(names), ensure_ascii=False)
