"""The sources of rows: a user's files, a folder in a task's published layout, or the hub.

`datasets` and pyarrow are imported only where they are needed, so that a wrong column is found at once.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from understudy.data.columns import guess_columns
from understudy.data.raw_rows import RawRow
from understudy.data.readers import TEXT_SUFFIXES, read_file
from understudy.data.rows import RowReport, refuse_if_unusable
from understudy.data.settings import DataSettings
from understudy.data.task import Hub, Task
from understudy.data.text_files import choose_encoding
from understudy.errors import DataError, RecipeError, did_you_mean
from understudy.files import hash_file
from understudy.hub import split_revision

SPLITS = ("train", "dev", "test")
AUGMENTED_ROWS = "rows"  # the folder of augmented rows, next to their result.json
IN_MEMORY = "in-memory"  # the folder of datasets that were given in Python, in the cache


@dataclass(frozen=True)
class Source:
    """A source of rows, with what is known before the first row is checked.

    Attributes:
        name: its name in messages: the path, or the hub name.
        make_key: hashes its content.
        rows: reads it from the start, each time it is called.
        columns: its column for each of our fields.
        labels: label names in the order of their ids, if the source declares them.
        guessed: whether the columns were guessed from their names.
        whole: the source that it is a part of, which has all labels.
        encodings: the encoding of each file that is not UTF-8.
    """

    name: str
    make_key: Callable[[], str]
    rows: Callable[[], Iterator[RawRow]]
    columns: Mapping[str, str | int]
    labels: tuple[str, ...] | None
    guessed: bool = False
    encodings: Mapping[str, str] = field(default_factory=dict)
    whole: Source | None = None

    @cached_property
    def key(self) -> str:
        """A hash of its content."""
        return self.make_key()


def dev_splits(task: Task, settings: DataSettings) -> tuple[str, ...]:
    """Return the development sets to score: a task's own (MNLI has two), or the one file a user gave."""
    return task.dev_splits if settings.source is not None else ("dev",)


def check_settings(task: Task, settings: DataSettings) -> None:
    """Refuse data settings that conflict or have no effect."""
    files = [name for name in SPLITS if getattr(settings, name) is not None]
    if settings.labelled_share is not None and settings.unlabelled is None:
        raise RecipeError("data.labelled_share has no effect without data.unlabelled.")
    if settings.source is None and not files:
        raise RecipeError(
            "data.source or data.train and data.dev must be given. Point at a folder in GLUE's layout, a "
            "hub dataset or files, e.g. --data ../glue or --set data.train=train.csv."
        )
    if settings.source is not None and files:
        raise RecipeError(
            f"data.source and data.{files[0]} exclude each other; got both. Give a folder or hub "
            "name, or give files."
        )
    if settings.dev_share is not None and (settings.dev is not None or settings.train is None):
        other = (
            "and --dev (data.dev) has others. Leave one out"
            if settings.dev is not None
            else "and there is no --train (data.train)"
        )
        raise RecipeError(f"--split (data.dev_share) holds out training rows to score on, {other}.")
    on_hub = settings.source is not None and (
        not Path(settings.source).expanduser().exists()
        or is_dataset_copy(task, Path(settings.source).expanduser())
    )
    for name in ("config", "splits"):
        if getattr(settings, name) and not on_hub:
            raise RecipeError(f"data.{name} has an effect on hub datasets only; leave it out for files.")
    if settings.encoding is not None and not _reads_text(settings, on_hub=on_hub):
        raise RecipeError(
            "data.encoding has no effect: there are no text files (CSV, TSV, JSON lines …). Leave it out."
        )
    if settings.stride is not None and not task.rows.has_windows:
        raise RecipeError(f"data.stride has no effect on {task.rows}, which reads no windows; leave it out.")
    if settings.labels is not None:
        if not task.rows.has_named_labels:
            raise RecipeError(f"data.labels has no effect on {task.rows}; leave it out.")
        if len(set(settings.labels)) != len(settings.labels):
            raise RecipeError(f"data.labels must differ from each other; got {settings.labels}.")
        if task.labels and set(settings.labels) != set(task.labels):
            raise RecipeError(
                f"data.labels must be an order of {list(task.labels)} for task {task.name}; got "
                f"{settings.labels}."
            )
    fields = task.rows.fields
    for name in settings.columns:
        if name not in fields:
            raise RecipeError(f"data.columns must name {', '.join(fields)} for {task.rows}; got {name!r}.")


def _reads_text(settings: DataSettings, *, on_hub: bool) -> bool:
    """Return whether any file may be text: a folder in a task's layout, or a file that is not Parquet."""
    names = [None if on_hub else settings.source, settings.train, settings.dev, settings.test]
    paths = [Path(name).expanduser() for name in (*names, *(settings.unlabelled or ())) if name is not None]
    return any(path.suffix.lower() != ".parquet" and not is_saved_dataset(path) for path in paths)


def find_source(task: Task, settings: DataSettings, split: str) -> Source:
    """Find a split's source: a user's file, a folder in the task's layout, or the hub."""
    if split == "train" and settings.augmented is not None:
        return _augmented_source(task, settings, Path(settings.augmented).expanduser())
    if settings.source is None:
        path = getattr(settings, split, None) if split in SPLITS else None
        if settings.dev_share is not None and split in ("train", "dev"):
            return _share(task, settings, split)
        if path is None:
            raise RecipeError(_missing(split))
        return _given_source(task, settings, Path(path).expanduser())
    folder = Path(settings.source).expanduser()
    if is_dataset_copy(task, folder):
        return _hub_source(task, settings, split)
    if folder.is_dir():
        return _folder_source(task, settings, folder, split)
    if folder.is_file() or settings.source.startswith((".", "/", "~")):
        what = "is a file" if folder.is_file() else "does not exist"
        raise DataError(
            f"--data (data.source) must be a folder or a hub dataset; {settings.source} {what}. Check "
            "the path; single files are given as data.train and data.dev."
        )
    return _hub_source(task, settings, split)


def _missing(split: str) -> str:
    if split == "dev":
        return (
            "data.dev must be given: rows to score on. Use --dev FILE, or --split 0.1 to hold out a tenth of "
            "--train."
        )
    return f"data.{split} must be given: this needs the {split} split."


def _given_source(task: Task, settings: DataSettings, path: Path) -> Source:
    source = _saved_dataset_source if is_saved_dataset(path) else _file_source
    return source(task, settings, path)


def _share(task: Task, settings: DataSettings, split: str) -> Source:
    """Return the rows on one side of `data.dev_share`. Rows that cannot be read count as training rows."""
    share, whole = settings.dev_share, _given_source(task, settings, Path(str(settings.train)).expanduser())
    assert share is not None
    columns = [whole.columns[name] for name in task.rows.group_fields if name in whole.columns]

    def is_dev(row: RawRow) -> bool:
        content = json.dumps([row.values.get(column) for column in columns], default=str)
        digest = hashlib.sha256(content.encode(errors="surrogatepass")).digest()
        return row.problem is None and int.from_bytes(digest[:8]) < share * 2**64

    def rows() -> Iterator[RawRow]:
        numbered = (replace(row, number=number) for number, row in enumerate(whole.rows()))
        return (row for row in numbered if is_dev(row) == (split == "dev"))

    return replace(
        whole,
        name=f"{whole.name} ({split})",
        make_key=lambda: f"{whole.key}-{split}-{share}",
        rows=rows,
        whole=whole,
    )


def is_dataset_copy(task: Task, folder: Path) -> bool:
    """Return whether a folder is a copy of a hub dataset: Parquet files, but not the task's own layout."""
    if not folder.is_dir() or next(folder.rglob("*.parquet"), None) is None:
        return False
    splits = task.folder.files if task.folder else ()
    return not any(path.exists() for split in splits for path in _layout_paths(task, folder, split))


def _layout_paths(task: Task, folder: Path, split: str) -> list[Path]:
    """Return the possible paths of a split in a folder of the task's layout, most likely first."""
    layout = task.folder
    assert layout is not None
    return [base / name for base in (folder / layout.name, folder) for name in layout.files[split]]


def _file_source(
    task: Task,
    settings: DataSettings,
    path: Path,
    columns: Mapping[str, str | int] | None = None,
) -> Source:
    path = path.expanduser()
    if not path.exists():
        beside = [one.name for one in path.parent.iterdir()] if path.parent.is_dir() else []
        raise DataError(f"{path} does not exist.{did_you_mean(path.name, beside) or ' Check the path.'}")
    columns = dict(settings.columns or columns or {})
    header = not any(isinstance(column, int) for column in columns.values())
    if not header and not all(isinstance(column, int) for column in columns.values()):
        raise RecipeError(
            f"data.columns must be all names or all numbers; got {columns}. Numbers mean that the "
            "file has no header."
        )

    encoding = text_encoding(path, settings.encoding)

    def rows() -> Iterator[RawRow]:
        return read_file(path, header=header, encoding=encoding)

    first = next((row.values for row in rows() if row.problem is None), None)
    if first is None:  # no row to read columns from: explain why
        report = RowReport(str(path))
        for row in rows():
            report.num_read += 1
            if row.problem:
                report.add(row.where, row.problem)
        refuse_if_unusable([report])
    named, guessed = guess_columns(task.rows, columns, list(first or ()), str(path))

    def make_key() -> str:
        # The same bytes in another encoding are different rows.
        return _hash_path(path) + (f"-{settings.encoding}" if settings.encoding else "")

    other = not_utf8({path: encoding}, settings.encoding)
    return Source(str(path), make_key, rows, named, None, guessed, other)


def text_encoding(path: Path, given: str | None) -> str | None:
    """Return the encoding of a text file; None for other files. A folder's files are checked one by one."""
    if path.is_file() and path.suffix.lower() in TEXT_SUFFIXES:
        return choose_encoding(path, given)
    return given if path.is_dir() else None


def not_utf8(encodings: Mapping[Path, str | None], given: str | None) -> dict[str, str]:
    """Return the files whose encoding is not UTF-8 and was detected rather than given by the user."""
    return {path.name: name for path, name in encodings.items() if name and name not in ("utf-8", given)}


def _augmented_source(task: Task, settings: DataSettings, folder: Path) -> Source:
    """Return the rows written by `understudy augment`, whose columns have our names."""
    result = folder / "result.json"
    if not result.is_file():
        raise DataError(
            f"data.augmented must be a folder that understudy augment has finished; {folder} has no "
            "result.json."
        )
    content = json.loads(result.read_text("utf-8"))
    if content.get("task") != task.name:
        raise DataError(f"data.augmented: {folder} was made for {content.get('task')}, and not {task.name}.")
    if settings.dev_share is not None:
        expected = _share(task, settings, "train").key
        if not content["hashes"]["train"].startswith(expected):  # otherwise held-out rows would be trained on
            raise DataError(
                f"data.augmented: {folder} was made from other training rows. Augment them with --set "
                f"data.dev_share={settings.dev_share}."
            )
    files = [folder / AUGMENTED_ROWS / name for name in content["files"]]
    for file in files:
        if not file.is_file() or hash_file(file) != content["files"][file.name]:
            raise DataError(
                f"data.augmented: {file} is not what understudy augment wrote. Run it again with --overwrite."
            )
    import pyarrow.parquet as pq

    found = set(pq.read_schema(files[0]).names)
    columns = {name: name for name in task.rows.fields if name in found}

    def rows() -> Iterator[RawRow]:
        return itertools.chain.from_iterable(read_file(file) for file in files)

    return Source(str(folder), partial(hash_file, result), rows, columns, None)


def read_corpus_result(folder: Path) -> dict[str, Any]:
    """Return the result.json of a finished corpus."""
    try:
        content = json.loads((folder / "result.json").read_text("utf-8"))
    except (OSError, ValueError):
        content = None
    if not isinstance(content, dict) or "stage" not in content:
        raise DataError(
            f"general.corpus must be a folder that understudy corpus has finished; {folder} has no "
            "result.json."
        )
    if content["stage"] != "corpus":
        raise DataError(f"general.corpus: {folder} was made by understudy {content['stage']}.")
    return content


def _folder_source(task: Task, settings: DataSettings, folder: Path, split: str) -> Source:
    layout = task.folder
    if layout is None:
        raise DataError(
            f"task {task.name} has no folder layout; give its files: --set data.train=… --set data.dev=…"
        )
    if split not in layout.files:
        raise DataError(f"split must be one of {', '.join(layout.files)} for {task.name}; got {split!r}.")
    candidates = _layout_paths(task, folder, split)
    path = next((path for path in candidates if path.exists()), None)
    if path is None:
        looked = "\n  ".join(str(path) for path in candidates)
        raise DataError(f"{folder} has no {split} split of {task.name}. Looked for\n  {looked}")
    return _file_source(task, settings, path, layout.columns)


def _hub_source(task: Task, settings: DataSettings, split: str) -> Source:
    import datasets

    name, revision = split_revision(str(settings.source))
    hub = task.hub or Hub(name, None, {})
    config = settings.config or (hub.config if hub.dataset == name else None)
    hub_split = settings.splits.get(split) or hub.splits.get(split, split)
    try:
        dataset = datasets.load_dataset(name, config, split=hub_split, revision=revision)
    except Exception as error:  # datasets raises many types for a missing dataset
        if Path(name).expanduser().is_dir():
            own = f" {task.name}'s own files would be in {task.folder.name}/." if task.folder else ""
            raise DataError(
                f"the folder {name} has Parquet files that are no dataset: {error}\nCheck the path.{own}"
            ) from error
        raise DataError(
            f"hub dataset {name!r} (configuration {config}, split {hub_split}) cannot be loaded: "
            f"{error}\nCheck the name and the network, or point data.source at a local folder."
        ) from error
    # A copy of the task's own dataset has its columns; another dataset may not.
    usual = hub.columns if set(hub.columns.values()) <= set(dataset.column_names) else {}
    columns = settings.columns or usual
    return _dataset_source(task, dataset, columns, f"{name} ({hub_split})", lambda: str(dataset._fingerprint))


def is_saved_dataset(folder: Path) -> bool:
    """Return whether a folder was written by `Dataset.save_to_disk`."""
    return (folder / "state.json").is_file() and (folder / "dataset_info.json").is_file()


def hash_saved_dataset(folder: Path) -> str:
    """Hash the rows of a saved dataset and the types of its columns."""
    info = json.loads((folder / "dataset_info.json").read_text("utf-8"))
    digest = hashlib.sha256(json.dumps(info["features"], sort_keys=True).encode())
    for file in json.loads((folder / "state.json").read_text("utf-8"))["_data_files"]:
        digest.update(bytes.fromhex(hash_file(folder / file["filename"])))
    return digest.hexdigest()


def _saved_dataset_source(task: Task, settings: DataSettings, folder: Path) -> Source:
    import datasets

    dataset = datasets.load_from_disk(str(folder)).with_format(None)
    name = "the data in memory" if folder.parent.name == IN_MEMORY else str(folder)
    return _dataset_source(task, dataset, settings.columns, name, partial(hash_saved_dataset, folder))


def _dataset_source(
    task: Task, dataset: Any, columns: Mapping[str, str | int], name: str, make_key: Callable[[], str]
) -> Source:
    """Return the rows of a `datasets.Dataset`, with the label names that its features declare."""
    from datasets import ClassLabel, List

    named, guessed = guess_columns(task.rows, columns, dataset.column_names, name)
    label_column = named.get(task.rows.label_field)
    feature = dataset.features.get(label_column)
    feature = feature.feature if isinstance(feature, List) else feature
    labels = tuple(feature.names) if isinstance(feature, ClassLabel) else None

    def rows() -> Iterator[RawRow]:
        for number, values in enumerate(dataset):
            if labels is not None:
                values = {**values, label_column: _label_names(values[label_column], labels)}
            yield RawRow(f"row {number}", values)

    return Source(name, make_key, rows, named, labels, guessed)


def _label_names(value: Any, labels: Sequence[str]) -> Any:
    """Convert ids to names; -1, which marks a hidden label on the hub, becomes null."""
    if isinstance(value, list):
        return [_label_names(item, labels) for item in value]
    return labels[value] if isinstance(value, int) and 0 <= value < len(labels) else None


def _hash_path(path: Path) -> str:
    """Hash a file's content, or all files in a folder with their names."""
    digest = hashlib.sha256()
    for file in sorted(path.rglob("*.txt")) if path.is_dir() else [path]:
        if path.is_dir():
            digest.update(file.relative_to(path).as_posix().encode())
        digest.update(bytes.fromhex(hash_file(file)))
    return digest.hexdigest()
