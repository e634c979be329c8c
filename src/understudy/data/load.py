"""Load sources as checked datasets: the single entry point for all task data.

    find the source → name its columns → agree on the labels → check every row → Arrow on disk

Checked rows are written once to a cache folder named after the content of the source and the settings
that affect it, and memory-mapped from there, so memory does not grow with the number of rows.
"""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
from datasets import ClassLabel, Dataset, Features, List, Value
from tqdm.auto import tqdm

from understudy.data.columns import COLUMN_OPTIONS, column_option
from understudy.data.kind import ColumnType, RowKind
from understudy.data.labels import SEPARATOR, fold, is_number, split_labels
from understudy.data.raw_rows import Problem
from understudy.data.rows import RowReport, check_row, label_ids, refuse_if_unusable
from understudy.data.settings import DataSettings
from understudy.data.sources import Source, check_settings, find_source
from understudy.data.task import Task
from understudy.data.text_files import encoding_name
from understudy.data.unlabelled import unlabelled_source
from understudy.errors import DataError, RecipeError
from understudy.files import SEAL, is_whole_folder, seal_folder

logger = logging.getLogger(__name__)

# Part of every cache key: increase it when the same source would give different rows.
FORMAT_VERSION = 2
ROWS_PER_BATCH = 10_000
UNLABELLED = "unlabelled"  # the split of rows without labels
MAX_LABELS = 1_000


@dataclass(frozen=True)
class TaskData:
    """Checked splits of a task.

    Attributes:
        splits: split name to its dataset, columns as in `rows.py`.
        labels: label names in the order of their ids; None for kinds without named labels.
        reports: what was read and dropped, by split.
        columns: the source's column for each of our fields.
        guessed: whether these columns were guessed.
        hashes: content hash by split.
        encodings: the encoding of each file that is not UTF-8.
    """

    splits: dict[str, Dataset]
    labels: tuple[str, ...] | None
    reports: dict[str, RowReport]
    columns: Mapping[str, str | int]
    guessed: bool
    hashes: dict[str, str]
    encodings: Mapping[str, str] = field(default_factory=dict)


def load_data(
    task: Task,
    settings: DataSettings,
    splits: Sequence[str],
    *,
    labels: Sequence[str] | None = None,
) -> TaskData:
    """Load and check splits of a task.

    Args:
        splits: `train`, `dev`, `test`, or a task's own names (`dev_matched`).
        labels: the model's labels, in its order; used if the data declares none and has the same ones.

    Raises:
        DataError: if a source is missing, cannot be read, or has bad rows (with `bad_rows: refuse`).
    """
    check_settings(task, settings)
    has_train = settings.source is not None or settings.train is not None or settings.augmented is not None
    wanted = [split for split in splits if split != "train" or has_train or settings.unlabelled is None]
    sources = {split: find_source(task, settings, split) for split in wanted}
    if not sources:
        raise RecipeError("data.train must be given: this needs the train split.")
    if not has_train and "train" in splits:
        for name in ("max_rows", "labelled_share"):
            if getattr(settings, name) is not None:
                raise RecipeError(f"data.{name} has no effect without labelled training rows.")
    declared = settings.labels or task.labels or next(iter(sources.values())).labels
    names = tuple(declared) if declared else None
    if names is None and task.rows.has_named_labels:
        first = next(iter(sources.values()))
        names = _discover_labels(task, first.whole or first, labels)
    if "train" in splits and settings.unlabelled is not None:
        # All rows of a batch must have the same fields.
        read = task.rows.learnt_fields if has_train else task.rows.inputs
        sources[UNLABELLED] = unlabelled_source(
            task.rows,
            settings.unlabelled,
            settings.columns,
            [name for name in next(iter(sources.values())).columns if name in read],
            optional=() if has_train else task.rows.unlabelled_fields,
            encoding=settings.encoding,
        )
    checked = {
        split: _check(task, source, names, labelled=split != UNLABELLED) for split, source in sources.items()
    }
    reports = {split: report for split, (_, report) in checked.items()}
    for split, source in sources.items():
        if source.whole is not None and reports[split].num_read == 0:
            raise DataError(
                f"--split {settings.dev_share:g} leaves no row of {source.whole.name} to "
                f"{'learn from' if split == 'train' else 'score on'}: there are too few. Use another "
                "share, or --dev with a file of its own."
            )
    refuse_if_unusable(list(reports.values()), allow_bad=settings.bad_rows == "drop")
    loaded = {split: _open(folder) for split, (folder, _) in checked.items()}
    _check_lists(task.rows, loaded)
    _check_scored(task, {split: source for split, source in sources.items() if split in splits}, loaded)
    _check_texts(task, next(iter(loaded.values())), next(iter(sources.values())))
    if UNLABELLED in loaded:
        known = [rows for split, rows in loaded.items() if split not in ("train", UNLABELLED)]
        loaded[UNLABELLED] = _without_known(loaded[UNLABELLED], known, task.rows.group_fields)
        num_used = len(loaded[UNLABELLED])
        if num_used < reports[UNLABELLED].num_kept:
            reports[UNLABELLED] = replace(reports[UNLABELLED], num_used=num_used)
    hashes = {split: source.key for split, source in sources.items()}
    # Augmented rows were already made from this many rows, so all of them are read.
    if settings.max_rows is not None and settings.augmented is None and "train" in loaded:
        loaded["train"] = _some_rows(loaded["train"], settings.max_rows)
        hashes["train"] += f"-{settings.max_rows}"
        reports["train"] = replace(reports["train"], num_used=len(loaded["train"]))
    first = next(iter(sources.values()))
    return TaskData(
        splits=loaded,
        labels=names,
        reports=reports,
        columns=first.columns,
        guessed=first.guessed,
        hashes=hashes,
        encodings={file: name for source in sources.values() for file, name in source.encodings.items()},
    )


def load_unlabelled(task: Task, settings: DataSettings, labels: Sequence[str] | None) -> tuple[Dataset, str]:
    """Load the rows without labels alone, and a hash of their content."""
    assert settings.unlabelled is not None
    source = unlabelled_source(task.rows, settings.unlabelled, settings.columns, encoding=settings.encoding)
    folder, report = _check(task, source, labels, labelled=False)
    refuse_if_unusable([report], allow_bad=settings.bad_rows == "drop")
    return _open(folder), source.key


def _without_known(rows: Dataset, known: Sequence[Dataset], fields: Sequence[str]) -> Dataset:
    """Leave out rows that are development rows: a student must not learn from what it is scored on."""
    if not known:
        return rows
    fields = [name for name in fields if name in rows.column_names]
    seen = {repr(values) for part in known for values in _values(part, fields)}
    if "text_pair" not in rows.column_names:  # inputs are single texts: those of pairs count one by one
        pairs = [part for part in known if "text_pair" in part.column_names]
        seen |= {repr(values) for part in pairs for values in _values(part, ["text_pair"])}
    keep = np.fromiter((repr(values) not in seen for values in _values(rows, fields)), bool, len(rows))
    if keep.all():
        return rows
    if not keep.any():
        raise DataError("data.unlabelled has nothing but development rows.")
    logger.info("%d unlabelled rows are left out: they are development rows.", int((~keep).sum()))
    return rows.select(np.flatnonzero(keep))


def _values(rows: Dataset, fields: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Yield some fields of all rows, in batches of constant memory."""
    for batch in rows.select_columns(list(fields)).with_format(None).iter(ROWS_PER_BATCH):
        yield from zip(*(batch[name] for name in fields), strict=True)


def _check_scored(task: Task, sources: Mapping[str, Source], loaded: Mapping[str, Dataset]) -> None:
    """Refuse development rows that cannot be scored, e.g. because they lack a field."""
    for split, source in sources.items():
        missing = [name for name in task.rows.scored_fields if name not in source.columns]
        if missing and split != "train":
            raise DataError(
                f"{source.name}: rows to score {task.rows} on must have "
                f"{', '.join(task.rows.scored_fields)}; there is no {missing[0]}. Name its column with "
                f"{column_option(missing[0])}, or give other rows with --dev."
            )
        if split != "train":
            problem = task.rows.check_scored(loaded[split])
            if problem is not None:
                raise DataError(problem)


def _check_lengths(kind: RowKind, row: dict[str, Any], lengths: dict[str, int]) -> dict[str, Any] | Problem:
    """Check that a row's lists are as long as the first row's, whose lengths are recorded."""
    for name in kind.equal_lists:
        count = len(row[name])
        if count != lengths.setdefault(name, count):
            return Problem(
                f"wrong number of {name}", f"has {count} {name}, the first row has {lengths[name]}"
            )
    return row


def _check_lists(kind: RowKind, loaded: Mapping[str, Dataset]) -> None:
    """Refuse unlabelled rows whose lists (e.g. choices) differ in length: a batch cannot hold both."""
    parts = [loaded[split] for split in ("train", UNLABELLED) if split in loaded]
    for name in kind.equal_lists if len(parts) == 2 else ():
        counts = [len(rows[0][name]) for rows in parts]
        if counts[0] != counts[1]:
            raise DataError(f"labelled rows have {counts[0]} {name}, unlabelled ones {counts[1]}.")


def _check_texts(task: Task, rows: Dataset, source: Source) -> None:
    """Refuse a text column whose values are all different numbers: it is probably a row number."""
    for name in task.rows.sentence_fields:
        if name in rows.column_names and len(rows) >= _MANY:
            texts = rows[name][:_MANY]
            if all(map(is_number, texts)) and len(set(texts)) == len(texts):
                raise DataError(
                    f"{source.name}: {source.columns[name]!r} has numbers, all different, where texts should "
                    f"be. Name the column of the texts with {column_option(name)}."
                )


def _some_rows(rows: Dataset, count: int) -> Dataset:
    """Return a fixed sample of this many rows, in order."""
    if len(rows) <= count:
        return rows
    chosen = np.random.default_rng(0).permutation(len(rows))[:count]
    return rows.select(np.sort(chosen))


def _discover_labels(task: Task, source: Source, model_labels: Sequence[str] | None) -> tuple[str, ...]:
    """Find the labels of a source that declares none.

    If the source has only labels of the model, the model's are used, in its order; numbers are taken as its
    ids if there are as many of them. Otherwise the labels found are used: numbers in numerical order, words
    alphabetically, tags by type; `check_labels` then refuses a model with other labels.
    """
    found = _distinct_labels(task, source)
    if model_labels:
        same_names = {fold(name) for name in found} <= {fold(name) for name in model_labels}
        if same_names or found == {str(index) for index in range(len(model_labels))}:
            return tuple(model_labels)
    try:
        return task.rows.order_labels(found)
    except DataError as error:
        column = source.columns[task.rows.label_field]
        raise DataError(f"{source.name}: column {column!r}: {error}") from None


def _distinct_labels(task: Task, source: Source) -> set[str]:
    column = source.columns[task.rows.label_field]
    found: set[str] = set()
    num_given = 0  # a row may have several
    for row in source.rows():
        names = list(task.rows.label_names(row.values.get(column)))
        num_given += len(names)
        found.update(names)
        if len(found) > MAX_LABELS:
            raise _no_label(source, column, found, f"more than {MAX_LABELS:,} different values")
    # A label that occurs in a single row is in the training rows or in the development rows, never in both.
    if len(found) > max(20, num_given / 2):
        raise _no_label(source, column, found, f"{len(found):,} different values in {num_given:,} rows")
    if len(found) > 2 and all(map(is_number, found)) and any(float(name) % 1 for name in found):
        logger.warning(
            "The labels are numbers (%s …) and are taken as classes. To predict a number, use --task "
            "regression.",
            ", ".join(sorted(found, key=float)[:3]),
        )
    lists = [name for name in found if SEPARATOR in name and set(split_labels(name)) & found]
    if lists and task.rows.has_plain_labels:
        logger.warning(
            "Labels such as %r look like several labels in one cell. If a text may have several, use --task "
            "multi-label.",
            min(lists),
        )
    return found


def _no_label(source: Source, column: str | int, found: Collection[str], count: str) -> DataError:
    """Return the error for a column that is unlikely to be a label, with what it may be instead."""
    other = f"Name another with {column_option('label')}"
    if sum(SEPARATOR in name for name in found) > len(found) / 2:
        other += ", or use --task multi-label if a text may have several labels"
    elif all(is_number(name) for name in found):
        other += ", or use --task regression to predict a number"
    return DataError(f"{source.name}: column {column!r} has {count}, so it is hardly a label. {other}.")


def _check(
    task: Task, source: Source, labels: Sequence[str] | None, *, labelled: bool
) -> tuple[Path, RowReport]:
    """Check the rows of a source, unless they are in the cache; return their folder there and the report."""
    shape = [
        FORMAT_VERSION,
        task.rows.name,
        task.labels,
        source.key,
        source.name,
        dict(source.columns),
        labels,
        *([] if labelled else [UNLABELLED]),
    ]
    key = hashlib.sha256(json.dumps(shape).encode()).hexdigest()[:24]
    folder = cache_folder() / key
    if not (folder / "report.json").exists() or not _is_whole(folder, _newest(folder)):
        shutil.rmtree(folder, ignore_errors=True)
        _write_rows(task, source, labels, folder, labelled=labelled)
    return folder, RowReport(**json.loads((folder / "report.json").read_text("utf-8")))


@functools.lru_cache(maxsize=1000)  # hashed once in a process, unless they change
def _is_whole(folder: Path, _changed: tuple[int, ...]) -> bool:
    if is_whole_folder(folder):
        return True
    logger.warning("%s is not what was written: the rows are read again.", folder / "rows.arrow")
    return False


def _newest(folder: Path) -> tuple[int, ...]:
    """Return the times at which a folder's files were changed."""
    files = (folder / name for name in ("rows.arrow", "report.json", SEAL))
    return tuple(file.stat().st_mtime_ns for file in files if file.exists())


def _open(folder: Path) -> Dataset:
    rows = Dataset.from_file(str(folder / "rows.arrow"))
    rows._fingerprint = folder.name  # a hash of the content; the library's own depends on the file's time
    return rows


def row_features(kind: RowKind, fields: Collection[str], labels: Sequence[str] | None) -> Features:
    """Return the columns of checked rows of a source with these fields."""
    own = {name: _feature(column, labels) for name, column in kind.columns(fields).items()}
    return Features({"row": Value("int64"), **own})


def _feature(column: ColumnType, labels: Sequence[str] | None) -> Any:
    """Return a column's type as a feature of `datasets`; labels are ids."""
    if isinstance(column, list):
        return List(_feature(column[0], labels))
    if isinstance(column, dict):
        return {name: _feature(one, labels) for name, one in column.items()}
    if column == "label" and labels:
        return ClassLabel(names=list(labels))
    return Value({"text": "string", "integer": "int64"}.get(column, "float64"))


def _write_rows(
    task: Task, source: Source, labels: Sequence[str] | None, folder: Path, *, labelled: bool
) -> None:
    """Check a source row by row and write an Arrow file; the folder is created atomically."""
    features = row_features(task.rows, list(source.columns), labels)
    ids = label_ids(labels, task.labels) if labels else None
    report = RowReport(source.name)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="writing-") as temporary:
        target = Path(temporary) / folder.name
        target.mkdir()
        schema = features.arrow_schema
        with pa.OSFile(str(target / "rows.arrow"), "wb") as file, pa.ipc.new_stream(file, schema) as out:
            batch: list[dict[str, Any]] = []
            lengths: dict[str, int] = {}  # of the first row's lists
            reading = tqdm(source.rows(), desc="Checking", unit=" rows", leave=False, delay=1, disable=None)
            for number, raw in enumerate(reading):
                report.num_read += 1
                row = check_row(task.rows, raw, source.columns, ids, labelled=labelled)
                if isinstance(row, dict):
                    row = _check_lengths(task.rows, row, lengths)
                if not isinstance(row, dict):
                    report.add(raw.where, row)
                    continue
                report.num_kept += 1
                batch.append({"row": number if raw.number is None else raw.number, **row})
                if len(batch) == ROWS_PER_BATCH:
                    out.write_batch(pa.RecordBatch.from_pylist(batch, schema))
                    batch = []
            if batch:
                out.write_batch(pa.RecordBatch.from_pylist(batch, schema))
        (target / "report.json").write_text(json.dumps(asdict(report), ensure_ascii=True), "utf-8")
        seal_folder(target)
        try:
            target.rename(folder)
        except OSError:
            if not (folder / "report.json").exists():
                raise
            # Another process wrote the same rows first.
            shutil.rmtree(target)


_MANY = 100  # rows: enough that texts are not all numbers by chance
CACHE_VARIABLE = "UNDERSTUDY_CACHE"


def cache_folder() -> Path:
    """Return `$UNDERSTUDY_CACHE`, or `understudy/` in the cache folder of `datasets`."""
    chosen = os.environ.get(CACHE_VARIABLE)
    return Path(chosen) if chosen else Path(datasets.config.HF_DATASETS_CACHE) / "understudy"


def announce(data: TaskData) -> None:
    """Log the encodings, columns and labels that are used, and what was left out or looks odd."""
    for file, encoding in data.encodings.items():
        logger.info(
            "%s is %s, not UTF-8, and is read as such. If its letters are wrong: --set data.encoding=….",
            file,
            encoding_name(encoding),
        )
    pairs = ", ".join(f"{field} = {column!r}" for field, column in data.columns.items())
    options = ", ".join(COLUMN_OPTIONS.get(field, f"data.columns.{field}") for field in data.columns)
    logger.info("Columns%s: %s", f" (guessed; to change them, use {options})" if data.guessed else "", pairs)
    if data.labels:
        shown = ", ".join(data.labels[:12]) + (" …" if len(data.labels) > 12 else "")
        logger.info("Labels (%d): %s", len(data.labels), shown)
        if len({fold(name) for name in data.labels}) < len(data.labels):
            logger.warning(
                "Some labels differ only in capitals or separators. Are they meant to be different?"
            )
    for report in data.reports.values():
        if report.num_bad:
            logger.warning("Left out: %s", report.describe())
