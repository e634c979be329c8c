"""Models and datasets in memory, written to the cache for the stages to read.

A stage reads from paths, so that it can be interrupted, resumed and reproduced. An object is saved under a
hash of its content: the same object gets the same path, so a run that uses it can be resumed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from understudy.data.load import cache_folder
from understudy.data.sources import IN_MEMORY, SPLITS, hash_saved_dataset
from understudy.errors import DataError, ModelError, RecipeError, did_you_mean
from understudy.recipe.load import parse_settings, without_none
from understudy.workspace.hashes import hash_model

# Other names of data settings: splits in `datasets`, and an option of the command line.
_NAMES = {"validation": "dev", "val": "dev", "eval": "dev", "split": "dev_share"}
_COLUMNS = ("text", "text_pair", "label")  # options that name a column


def model_path(
    model: str | Path | PreTrainedModel | Any | None,
    processing_class: PreTrainedTokenizerFast | None = None,
    *,
    revision: str | None = None,
) -> str | None:
    """Return the folder or hub name of a model; a model in memory is saved with its tokenizer first.

    Args:
        revision: a commit, tag or branch of a hub model.
    """
    if model is None:
        if revision is not None:
            raise ModelError("revision goes with a model on the hub; none is given.")
        return None
    if type(model).__module__.startswith("sentence_transformers"):  # it has its own tokenizer
        save: Callable[[str], None] = model.save  # type: ignore[union-attr, assignment]
        return str(_keep("models", lambda folder: save(str(folder)), lambda one: hash_model(str(one))))
    if not isinstance(model, PreTrainedModel):
        if not isinstance(model, str | Path):
            raise ModelError(
                "a model must be a folder, a hub name, or a model of transformers or sentence-transformers; "
                f"got {type(model).__name__}."
            )
        if processing_class is not None:
            raise ModelError("processing_class goes with a model in memory; a folder has its own tokenizer.")
        if revision is not None and Path(model).expanduser().exists():
            raise ModelError(f"revision goes with a hub name; {model} is a folder here.")
        return f"{model}@{revision}" if revision is not None else str(model)
    if processing_class is None:
        raise ModelError("a model in memory needs its tokenizer: give processing_class=tokenizer.")
    if revision is not None:
        raise ModelError("revision goes with a hub name, not with a model in memory.")

    def write(folder: Path) -> None:
        model.save_pretrained(folder)
        processing_class.save_pretrained(folder)

    return str(_keep("models", write, lambda folder: hash_model(str(folder))))


def data_settings(data: str | Path | Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the recipe settings for data given as a folder, a hub name, files, or datasets in memory.

    Args:
        data: a mapping holds splits: `{"train": …, "dev": …}` or a `DatasetDict`, with paths,
            `datasets.Dataset`, or frames of pandas or polars as values. `{"train": …, "split": 0.1}` holds
            out a share of the training rows, and `text`, `text_pair` and `label` name columns, as the
            options of the command line do.
    """
    if data is None:
        return {}
    if isinstance(_to_dataset(data), Dataset):
        raise DataError(
            'data must be a mapping, e.g. {"train": dataset, "dev": dataset}, or '
            '{"train": dataset, "split": 0.1}.'
        )
    if not isinstance(data, Mapping):
        if Path(data).is_file():
            raise DataError(
                f'a file must be named as a split: data={{"train": {str(data)!r}, "split": 0.1}}.'
            )
        return {"data.source": str(data)}
    settings: dict[str, Any] = {}
    columns = {name: data[name] for name in _COLUMNS if name in data}
    if columns:
        settings["data.columns"] = {**data.get("columns", {}), **columns}
    for given, value in data.items():
        if columns and given in (*_COLUMNS, "columns"):
            continue
        name = _NAMES.get(given, given)
        value = _to_dataset(value)
        if isinstance(value, Dataset):
            if name not in SPLITS:
                hint = did_you_mean(given, [*SPLITS, *_NAMES])
                raise RecipeError(f"data has train, dev and test; got {given!r}.{hint}")
            value = _dataset_path(value)
        if f"data.{name}" in settings:
            raise RecipeError(f"data has two splits for {name}; the second is {given!r}.")
        settings[f"data.{name}"] = str(value) if isinstance(value, Path) else value
    return settings


def given_settings(
    data: str | Path | Mapping[str, Any] | None,
    unlabelled: Sequence[str | Path | Dataset],
    metric: str | None,
    settings: Sequence[str] | Mapping[str, Any],
) -> dict[str, Any]:
    """Return the recipe settings for the arguments of `run` and `distill`; `settings` take precedence."""
    return {
        **data_settings(data),
        **unlabelled_settings(unlabelled),
        **without_none({"metric": metric}),
        **parse_settings(settings),
    }


def unlabelled_settings(unlabelled: Sequence[str | Path | Dataset]) -> dict[str, Any]:
    """Return the recipe settings for rows without labels: files, folders, patterns, or datasets."""
    if not unlabelled:
        return {}
    read = [_to_dataset(one) for one in unlabelled]
    names = [_dataset_path(one) if isinstance(one, Dataset) else str(one) for one in read]
    return {"data.unlabelled": names}


def _to_dataset(value: Any) -> Any:
    """Convert a frame of pandas or polars to a dataset; anything else is returned as it is."""
    package = type(value).__module__.partition(".")[0]
    if type(value).__name__ != "DataFrame":
        return value
    if package == "pandas":
        return Dataset.from_pandas(value, preserve_index=False)
    return Dataset.from_polars(value) if package == "polars" else value


def _dataset_path(dataset: Dataset) -> str:
    """Save a dataset and return its folder."""

    def write(folder: Path) -> None:
        dataset.save_to_disk(folder, num_shards=1)

    return str(_keep(IN_MEMORY, write, hash_saved_dataset))


def _keep(what: str, write: Callable[[Path], None], hash_content: Callable[[Path], str]) -> Path:
    """Write to a cache folder named after a hash of its content."""
    parent = cache_folder() / what
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=parent, prefix="writing-") as temporary:
        written = Path(temporary) / "content"
        write(written)
        folder = parent / hash_content(written)[:32]
        if not folder.exists():
            try:
                written.rename(folder)
            except OSError:
                if not folder.exists():  # otherwise another process wrote the same
                    raise
    return folder
