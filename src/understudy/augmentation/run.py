"""Run Algorithm 1 over a whole training set, shard by shard, in process or on Ray Data.

A shard holds the variants of 512 rows. Its rows and their variants depend only on the data, the settings and
the seed, so shards are the same whichever worker writes them and in whatever order. Shards are written
atomically, and existing ones are not rewritten.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from understudy.augmentation.examples import Side
from understudy.augmentation.replace import Question, Replacement, Variant, draw, vary
from understudy.augmentation.settings import AugmentSettings
from understudy.augmentation.words import load_stop_words
from understudy.data.kind import ColumnType, Kind
from understudy.files import write_sealed

Row = Mapping[str, Any]
Ask = Callable[[Iterable[Question]], Mapping[Question, Sequence[str]]]
"""A function that maps questions to candidates."""


@dataclass(frozen=True)
class Attempt:
    """A planned variant of a row: the side to change, and the random numbers to use."""

    row: Row
    number: int
    side: Side
    draws_P2: NDArray[np.float64]


def augment_rows(
    rows: Sequence[Row], kind: Kind, settings: AugmentSettings, seed: int, ask: Ask
) -> tuple[list[dict[str, Any]], Counter[str]]:
    """Return each row followed by its new variants, and the counts.

    Args:
        rows: checked rows, with their number in `row` and labels by name.
    """
    planned = [plan_attempts(row, kind, settings, seed) for row in rows]
    attempts = [attempt for planned_row in planned for attempt in planned_row]
    variants = iter(make_variants(attempts, settings, ask))
    counts = Counter(rows=len(rows), tried=len(attempts))
    result: list[dict[str, Any]] = []
    for row, attempts in zip(rows, planned, strict=True):
        result.append(_with_origin(row, seed))
        seen = {_content(row)}
        for attempt, variant in zip(attempts, variants, strict=False):
            changed = kind.change(dict(row), attempt.side, variant)
            content = _content(changed)
            if not variant:
                counts["unchanged"] += 1
            elif content in seen:
                counts["duplicates"] += 1
            else:
                seen.add(content)
                result.append(_with_origin(changed, seed, attempt, variant))
    counts["written"] = len(result)
    return result, counts


def plan_attempts(row: Row, kind: Kind, settings: AugmentSettings, seed: int) -> list[Attempt]:
    """Plan a row's N_a variants, which change its sides in turn; none if nothing can be changed."""
    stop_words = load_stop_words(settings.stop_words)
    sides = kind.sides(dict(row), stop_words, swap_entities=settings.entities == "swap")
    sides = [side for side in sides if side.places]
    if not sides:
        return []
    draws_VP2 = draw(seed, row["row"], settings.variants, max(len(side.places) for side in sides))
    turns = [sides[number % len(sides)] for number in range(settings.variants)]
    return [
        Attempt(row, number, side, draws_VP2[number, : len(side.places)]) for number, side in enumerate(turns)
    ]


def make_variants(attempts: Sequence[Attempt], settings: AugmentSettings, ask: Ask) -> list[Variant]:
    """Generate the variants of all attempts together, so that questions are asked in batches."""
    sequential = settings.context == "sequential"
    running = [
        vary(
            attempt.side.text,
            attempt.side.places,
            attempt.draws_P2,
            probability=settings.probability,
            sequential=sequential,
        )
        for attempt in attempts
    ]
    variants: list[Variant] = [[] for _ in attempts]
    waiting: list[tuple[int, Question]] = []

    def go_on(place: int, candidates: Sequence[str] | None) -> None:
        try:
            waiting.append((place, running[place].send(candidates)))  # type: ignore[arg-type]
        except StopIteration as stop:
            variants[place] = stop.value

    answers: dict[Question, Sequence[str]] = {}
    if not sequential:  # all questions are known beforehand
        answers |= ask(_questions(attempts, settings.probability))
    for place in range(len(attempts)):
        go_on(place, None)
    while waiting:
        asked, waiting[:] = waiting[:], []
        answers |= ask([question for _, question in asked if question not in answers])
        for place, question in asked:
            go_on(place, answers[question])
    return variants


def _questions(attempts: Iterable[Attempt], probability: float) -> list[Question]:
    """Return the distinct questions of variants of original texts."""
    return list(
        dict.fromkeys(
            Question(attempt.side.text, place.span, place.entity)
            for attempt in attempts
            for place, (first, _) in zip(attempt.side.places, attempt.draws_P2, strict=True)
            if first <= probability
        )
    )


_NOT_CONTENT = ("row", "id")


def _content(row: Row) -> str:
    return repr([value for name, value in row.items() if name not in _NOT_CONTENT])


def _with_origin(
    row: Row, seed: int, attempt: Attempt | None = None, variant: Sequence[Replacement] = ()
) -> dict[str, Any]:
    """Add the origin and the replacements to a row for writing."""
    content = {name: value for name, value in row.items() if name != "row"}
    if attempt is not None and "id" in content:
        content["id"] = f"{content['id']}-{attempt.number}"
    return content | {
        "source_row": row["row"],
        "variant": attempt.number if attempt is not None else None,
        "seed": seed,
        "side": attempt.side.name if attempt is not None else None,
        "replaced": [{"start": one.span[0], "old": one.old, "new": one.new} for one in variant],
    }


def shard_schema(kind: Kind, fields: Collection[str]) -> pa.Schema:
    """Return the schema of augmented rows: columns of checked rows, with labels by name, and their origin."""
    text = pa.string()
    origin = {
        "source_row": pa.int64(),
        "variant": pa.int64(),
        "seed": pa.int64(),
        "side": text,
        "replaced": pa.list_(pa.struct({"start": pa.int64(), "old": text, "new": text})),
    }
    # A changed text has another label where labels are not learnt from, e.g. another similarity.
    columns = kind.columns(fields if kind.learns_from_labels else kind.inputs)
    return pa.schema({name: _arrow_type(column) for name, column in columns.items()} | origin)


def _arrow_type(column: ColumnType) -> pa.DataType:
    """Return a column's type in Arrow; labels are names."""
    if isinstance(column, list):
        return pa.list_(_arrow_type(column[0]))
    if isinstance(column, dict):
        return pa.struct({name: _arrow_type(one) for name, one in column.items()})
    return {"integer": pa.int64(), "number": pa.float64()}.get(column, pa.string())


def write_shard(
    path: Path, rows: Sequence[Mapping[str, Any]], schema: pa.Schema, counts: Mapping[str, int]
) -> None:
    """Write a Parquet file of augmented rows with their counts and its hash next to it, atomically."""
    table = pa.Table.from_pylist(list(rows), schema.with_metadata({_COUNTS: json.dumps(counts)}))
    write_sealed(path, lambda temporary: pq.write_table(table, temporary))


_COUNTS = "understudy.counts"


def shard_counts(path: Path) -> Counter[str]:
    """Read the counts of a shard: rows, variants, duplicates."""
    return Counter(json.loads(pq.read_schema(path).metadata[_COUNTS.encode()]))
