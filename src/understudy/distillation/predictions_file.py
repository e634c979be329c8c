"""Soft labels from a file: another model's predictions for the training rows.

The file is Parquet or an Arrow stream, with a row for each row of the training set in any order:

- `row`: its number in the training file, from 0;
- `logits` or `probabilities`: a list of numbers, one for each label in the order of the labels, or one for
  each choice; or, for regression, `score`: a number. Probabilities of a row sum to 1, unless its labels do
  not exclude each other.

The files that `teacher_cache` writes for these kinds have this format.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from datasets import Dataset, concatenate_datasets
from numpy.typing import NDArray

from understudy.data.encode import TEACHER
from understudy.data.kind import Kind
from understudy.errors import DataError

logger = logging.getLogger(__name__)

# Lower bound of probabilities, so that their logarithm is finite.
SMALLEST = 1e-6


def add_predictions(
    encoded: Dataset, kind: Kind, labels: Sequence[str] | None, file: Path, *, quiet: bool = False
) -> Dataset:
    """Add a column of logits read from the file to the encoded rows.

    Args:
        labels: the labels, in the order of the file's values.
        quiet: log nothing.
    """
    numbers, logits = _read(file, kind)
    order = np.argsort(numbers, kind="stable")
    numbers = numbers[order]
    _check_rows(file, numbers)
    wanted = np.asarray(encoded["row"][:])
    places = np.minimum(np.searchsorted(numbers, wanted), len(numbers) - 1)
    missing = wanted[numbers[places] != wanted]
    if len(missing) and np.isin(wanted + 1, numbers).all():
        raise DataError(f"{file}: row must count from 0; it goes from 1 to {numbers[-1]}. Subtract 1.")
    if len(missing):
        raise DataError(
            f"{file}: row must name every training row, and {len(missing):,} of {len(wanted):,} are not "
            f"there, e.g. {_few(missing)}. Add them, or take them out of the training file."
        )
    if len(numbers) > len(wanted) and not quiet:
        logger.warning(
            "%s: %d rows that are not in the training set are passed over.", file, len(numbers) - len(wanted)
        )
    chosen = [logits[index] for index in order[places]]
    _check_sizes(file, kind, labels, chosen, encoded)
    if kind.has_classes and not quiet:
        _say_agreement(file, kind, chosen, encoded, labels)
    column = pa.array(chosen, pa.list_(pa.float32()))
    return concatenate_datasets([encoded, Dataset(pa.table({TEACHER + "logits": column}))], axis=1)


def _read(file: Path, kind: Kind) -> tuple[NDArray[np.int64], list[NDArray[np.float32]]]:
    """Read row numbers and logits in the order of the file."""
    if not file.is_file():
        raise DataError(f"soft_labels.predictions must be a Parquet file; {file} is not one.")
    is_arrow = file.suffix == ".arrow"
    try:
        table = _read_arrow(file) if is_arrow else pq.read_table(file)
    except (OSError, pa.ArrowInvalid) as error:
        raise DataError(
            f"soft_labels.predictions: {file} cannot be read as {'Arrow' if is_arrow else 'Parquet'}: "
            f"{error} Write it with pandas' to_parquet."
        ) from None
    names = ("logits", "probabilities") if kind.has_classes else ("score", "logits")
    name = next((name for name in names if name in table.column_names), None)
    if name is None or "row" not in table.column_names:
        raise DataError(
            f"{file} must have the columns row and {' or '.join(names)}; it has "
            f"{', '.join(table.column_names)}."
        )
    if all(name in table.column_names for name in names):
        raise DataError(f"{file} must have one of {' and '.join(names)}; it has both. Drop one.")
    for column in ("row", name):
        if table[column].null_count:
            raise DataError(
                f"{file}: {column} is empty in {table[column].null_count:,} rows. Fill them in, or leave the "
                "rows out here and in the training file."
            )
    if not pa.types.is_integer(table["row"].type):
        raise DataError(f"{file}: row must be whole numbers from 0, got {table['row'].type}.")
    numbers = table["row"].to_numpy().astype(np.int64)
    try:
        values = table[name].cast(pa.float64() if name == "score" else pa.list_(pa.float64()))
    except pa.ArrowException:  # the cast does not exist, or fails for these values
        expected = "numbers" if name == "score" else "lists of numbers"
        raise DataError(f"{file}: {name} must be {expected}, got {table[name].type}.") from None
    if name == "score":
        return numbers, list(_finite(file, name, values)[:, None])
    lists = values.combine_chunks()
    sizes = lists.value_lengths().to_numpy()
    flat = _finite(file, name, lists.flatten())
    if not sizes.all():
        place = int(np.argmin(sizes))
        raise DataError(f"{file}: {name} of row {numbers[place]} is an empty list. Fill it in.")
    if name == "probabilities" and kind.classes_exclude:
        _check_probabilities(file, flat, sizes)
        flat = np.log(np.maximum(flat, SMALLEST))
    elif name == "probabilities":
        _check_single_probabilities(file, flat)
        flat = np.clip(flat, SMALLEST, 1 - SMALLEST)
        flat = np.log(flat) - np.log1p(-flat)
    return numbers, np.split(flat.astype(np.float32), np.cumsum(sizes)[:-1])


def _read_arrow(file: Path) -> pa.Table:
    with pa.memory_map(str(file)) as source, pa.ipc.open_stream(source) as reader:
        return reader.read_all()


def _finite(file: Path, name: str, column: pa.Array | pa.ChunkedArray) -> NDArray[np.float64]:
    values: NDArray[np.float64] = column.to_numpy(zero_copy_only=False)
    broken = int(np.sum(~np.isfinite(values)))
    if broken:
        raise DataError(
            f"{file}: {name} holds {broken:,} values that are not finite. Fix them, or leave their rows out "
            "here and in the training file."
        )
    return values


def _check_probabilities(file: Path, flat: NDArray[np.float64], sizes: NDArray[np.int64]) -> None:
    starts = np.cumsum(sizes) - sizes
    if not len(starts):
        return
    sums = np.add.reduceat(flat, starts)
    bad = (np.abs(sums - 1) > 0.01) | (np.minimum.reduceat(flat, starts) < 0)
    if bad.all() and (np.abs(sums - 100) < 1).all():
        raise DataError(f"{file}: probabilities must sum to 1; these sum to 100. Divide them by 100.")
    if bad.any():
        raise DataError(
            f"{file}: probabilities must be at least 0 and sum to 1; {int(bad.sum()):,} rows do not, e.g. "
            f"the one at place {int(np.argmax(bad))}. If they are logits or scores, call the column logits."
        )


def _check_single_probabilities(file: Path, flat: NDArray[np.float64]) -> None:
    bad = int(((flat < 0) | (flat > 1)).sum())
    if bad:
        raise DataError(
            f"{file}: probabilities must be between 0 and 1; {bad:,} are not. If they are logits or scores, "
            "call the column logits."
        )


def _check_rows(file: Path, numbers: NDArray[np.int64]) -> None:
    if not len(numbers):
        raise DataError(f"{file} must have a row for every training row; it has none.")
    twice = numbers[1:][numbers[1:] == numbers[:-1]]
    if len(twice):
        raise DataError(
            f"{file}: row must be unique; {len(twice):,} are repeated, e.g. {_few(twice)}. Keep one."
        )


def _check_sizes(
    file: Path,
    kind: Kind,
    labels: Sequence[str] | None,
    chosen: Sequence[NDArray[np.float32]],
    encoded: Dataset,
) -> None:
    """Check that there is one number for each label or choice."""
    found = np.array([len(values) for values in chosen])
    expected = kind.num_values(encoded, labels)
    what = f"labels ({', '.join(labels[:12])})" if labels is not None else f"predictions of {kind}"
    wrong = np.flatnonzero(found != expected)
    if len(wrong):
        place = int(wrong[0])
        raise DataError(
            f"{file}: there must be a value for each of the {expected[place]} {what}; row "
            f"{encoded['row'][place]} has {found[place]}. Write as many, in this order."
        )


def _say_agreement(
    file: Path,
    kind: Kind,
    chosen: Sequence[NDArray[np.float32]],
    encoded: Dataset,
    labels: Sequence[str] | None,
) -> None:
    """Log how often the file and the labels agree, which reveals a wrong order of labels."""
    said = np.array([int(values.argmax()) if kind.classes_exclude else values >= 0 for values in chosen])
    share = float((said == np.asarray(encoded["labels"][:])).mean())
    chance = 1 / max(len(values) for values in chosen) if kind.classes_exclude else 1 / 2
    order = f" Its values are taken in this order: {', '.join(labels)}." if labels else ""
    what = "rows" if kind.classes_exclude else "labels of all rows"
    logger.info("%s agrees with the labels on %.1f%% of the %s.%s", file, 100 * share, what, order)
    if share < chance:
        logger.warning(
            "That is worse than guessing. Are the rows in the right order, and the labels? data.labels says "
            "another one."
        )


def _few(numbers: NDArray[np.int64]) -> str:
    return ", ".join(str(number) for number in numbers[:5].tolist())
