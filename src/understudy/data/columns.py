"""Map the columns of a user's file to our fields, by the recipe or by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from understudy.data.kind import RowKind
from understudy.errors import DataError, closest, did_you_mean

# The options of `run`, `finetune` and `distill` for the usual fields.
COLUMN_OPTIONS = {"text": "--text", "text_pair": "--text-pair", "label": "--label"}
_HEADER = "If the file has no header, number its columns from 0: --set 'data.columns={text: 0, label: 1}'."


def column_option(name: str) -> str:
    """Return how a user names the column of a field: an option, and the key of a recipe.

    >>> column_option("label"), column_option("words")
    ('--label (in a recipe data.columns.label)', 'data.columns.words')
    """
    key = f"data.columns.{name}"
    return f"{COLUMN_OPTIONS[name]} (in a recipe {key})" if name in COLUMN_OPTIONS else key


def guess_columns(
    kind: RowKind,
    given: Mapping[str, str | int],
    available: Sequence[str | int],
    source: str,
    *,
    without_label: bool = False,
) -> tuple[dict[str, str | int], bool]:
    """Return the source's column for each of our fields, and whether any was guessed.

    Args:
        given: columns named by the recipe or the task's layout; these fields are not guessed.
        available: the source's columns.
        without_label: leave the label out.
    """
    # Files for training and for scoring may have different fields.
    may_lack = kind.unlabelled_fields if kind.learns_from_labels else kind.fields
    given = {name: column for name, column in given.items() if column in available or name not in may_lack}
    is_one = len(available) == 1 and any(mark in str(available[0]) for mark in ",;|\t")
    if is_one and (given or len(kind.required) > 1):
        raise DataError(
            f"{source}: only one column was found, {available[0]!r}. A .csv is read with commas, semicolons "
            "or tabs, a .tsv with tabs: rename the file, or save it with one of these."
        )
    for name, column in given.items():
        if column not in available:
            hint = did_you_mean(str(column), map(str, available)) or f" {_HEADER}"
            raise DataError(
                f"{source}: there is no column {column!r} for {name}; there are {_shown(available)}.{hint} "
                f"Name another with {column_option(name)}."
            )
    for name, column in given.items():
        same = [other for other in given if given[other] == column and other != name]
        if same:
            raise DataError(
                f"{source}: {name} and {same[0]} must be different columns; both are {column!r}. "
                f"There are {_shown(available)}."
            )
    columns = dict(given)
    lower = {str(column).lower(): column for column in available}
    # If the text column is given, do not guess a pair: as an input, the second text would be unexpected.
    is_input = "text_pair" in kind.inputs and "text_pair" not in kind.required
    skipped = {"text_pair"} if "text" in given and is_input else set()
    if without_label:
        skipped.add(kind.label_field)
    for name in kind.fields:
        if name in columns or name in skipped:
            continue
        usual_names = kind.usual_columns.get(name, (name,))
        free = [lower[usual] for usual in usual_names if usual in lower]
        found = next((column for column in free if column not in columns.values()), None)
        if found is not None:
            columns[name] = found
    required = [name for name in kind.required if not (without_label and name == kind.label_field)]
    missing = [name for name in required if name not in columns]
    rest = [column for column in available if column not in columns.values()]
    if len(missing) == 1 and len(available) == 2 and len(rest) == 1:
        columns[missing[0]] = rest[0]  # the other of two columns
        missing = []
    if missing:
        named = " ".join(f"{_option(name)}{_likely(kind, name, rest)}" for name in missing)
        raise DataError(
            f"{source}: cannot tell which column is {' and '.join(missing)}; there are "
            f"{_shown(available)}. Say it: {named} (in Python data.columns.{missing[0]}). {_HEADER}"
        )
    guessed = any(column != name for name, column in columns.items() if name not in given)
    return columns, guessed


def _option(name: str) -> str:
    return f"{COLUMN_OPTIONS[name]} " if name in COLUMN_OPTIONS else f"--set data.columns.{name}="


def _likely(kind: RowKind, name: str, columns: Sequence[str | int]) -> str:
    """Return the column most similar to a field's usual names, e.g. `txt` for the text; `NAME` if none is."""
    usual_names = kind.usual_columns.get(name, (name,))
    close = (closest(usual, map(str, columns), cutoff=0.8) for usual in usual_names)
    return next((column for column in close if column is not None), "NAME")


def _shown(columns: Sequence[str | int]) -> str:
    return ", ".join(repr(column) for column in columns) or "no columns"
