"""Augment a task's training set (TinyBERT's Algorithm 1)."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import torch
import yaml
from transformers import AutoModelForMaskedLM

from understudy.augmentation.candidates import Candidates, MaskedWords
from understudy.augmentation.run import augment_rows, shard_counts, shard_schema, write_shard
from understudy.augmentation.vectors import load_vectors
from understudy.data.kind import Row
from understudy.data.labels import label_names
from understudy.data.load import TaskData, load_data
from understudy.data.sources import AUGMENTED_ROWS
from understudy.errors import ModelError, RecipeError
from understudy.files import hash_file
from understudy.models.pretrained import check_max_length, default_device, load_config, load_tokenizer
from understudy.progress import progress
from understudy.recipe.load import build_recipe, what_is_given
from understudy.recipe.recipe import Recipe
from understudy.stages.engines import Engine, Job, check_engine, run_jobs
from understudy.stages.result import (
    StageResult,
    announce,
    check_output,
    data_content,
    hash_model,
    resolve_paths,
    start_output,
    versions,
    write_result,
)
from understudy.training.cpu import tune_cpu
from understudy.training.precision import hardware_precision

logger = logging.getLogger(__name__)

ROWS_PER_SHARD = 512


def augment(
    model: str | Path | None = None,
    *,
    output_dir: str | Path,
    task: str | None = None,
    data: str | Path | None = None,
    recipe: str | Path | None = None,
    settings: Sequence[str] | Mapping[str, Any] = (),
    engine: Engine = "local",
    workers: int = 1,
    overwrite: bool = False,
) -> StageResult:
    """Make variants of every training row by replacing words.

    Args:
        model: a masked language model, a folder or a hub name; the recipe's where not given.
        recipe: a shipped name or a file; `augment-TASK` or `augment-KIND` where not given.
        settings: over the recipe, e.g. `{"augment.variants": 10, "augment.vectors": "glove.6B.300d.txt"}`.
        engine: `local`, or `ray`: `workers` processes of Ray Data, on one machine or a cluster.
        output_dir: gets Parquet files in `rows/`, result.json and recipe.yaml. A run that was interrupted
            there continues. `distill` reads it with `data.augmented`.

    Example:
        >>> understudy.augment(                                    # doctest: +SKIP
        ...     "bert-base-uncased", task="mrpc", data="nyu-mll/glue", output_dir="augmented/mrpc"
        ... ).content["augmented"]
        {'rows': 3668, 'tried': …, 'written': …}
    """
    given = what_is_given({"augment.model": model, "data.source": data})
    built = build_recipe("augment", given, task=task, recipe=recipe, settings=settings)
    return augment_from_recipe(built, Path(output_dir), engine=engine, workers=workers, overwrite=overwrite)


def augment_from_recipe(
    recipe: Recipe, output_dir: Path, *, engine: Engine = "local", workers: int = 1, overwrite: bool = False
) -> StageResult:
    """Augment as a recipe says; see `augment`."""
    settings = recipe.augment
    if settings is None or settings.model is None:
        raise RecipeError("augment.model must be given: a folder or a hub name of a masked language model.")
    if not recipe.task_row.kind.has_entities and settings.entities != "keep":
        raise RecipeError(f"augment.entities has no effect on {recipe.task_row.kind}. Leave it out.")
    unread = [name for name in ("model", "training", "dropout", "attention") if getattr(recipe, name)]
    if unread:
        raise RecipeError(f"{unread[0]} has no effect on augmentation. Leave it out.")
    check_engine(engine)
    if engine == "local" and workers != 1:
        raise RecipeError(
            "--workers has no effect with --engine local, which is this process. Use --engine ray."
        )
    recipe, output_dir = resolve_paths(recipe), output_dir.expanduser().resolve()
    check_output(output_dir, recipe, overwrite=overwrite)
    tune_cpu()
    given, recipe = recipe, with_precision(recipe)  # once, and the same for every worker
    data = load_data(recipe.task_row, recipe.data, ["train"])
    announce(data)
    maker = ShardMaker(recipe, data, ROWS_PER_SHARD)
    hashes = {"model": hash_model(settings.model), **data.hashes}
    for name in (settings.vectors, settings.vector_words):
        if name is not None:
            hashes[Path(name).name] = hash_file(Path(name))
    start_output(output_dir, given, hashes, overwrite=overwrite)
    folder = output_dir / AUGMENTED_ROWS
    folder.mkdir(exist_ok=True)
    started = time.perf_counter()
    numbers = range(-(-len(data.splits["train"]) // ROWS_PER_SHARD))
    missing = [number for number in numbers if not shard_path(folder, number).exists()]
    if len(missing) < len(numbers):
        logger.warning("%d of %d shards are there already.", len(numbers) - len(missing), len(numbers))
    if engine == "local":
        made: Iterable[Any] = (maker(number, folder) for number in missing)
    else:
        arguments = (recipe.to_yaml(), ROWS_PER_SHARD, folder)
        made = run_jobs("ray", workers, missing, make_shard_job, *arguments)
    with progress("Augmenting", len(missing), "shards", leave=True, hidden=not missing) as advance:
        for _ in made:
            advance(1)
    files = [shard_path(folder, number) for number in numbers]
    counts = sum((shard_counts(file) for file in files), Counter())
    content = {
        "stage": "augment",
        "task": recipe.task,
        "augmented": dict(counts),
        "examples": some_variants(files[0]),
        **data_content(data),
        # Since the last start, where the run was interrupted.
        "seconds": round(time.perf_counter() - started, 1),
        "precision": "bf16" if recipe.augment is not None and recipe.augment.bf16 else "fp32",
        "files": {file.name: hash_file(file) for file in files},
        "seed": recipe.seed,
        "hashes": hashes,
        "versions": versions(),
    }
    write_result(output_dir, content)
    return StageResult(output_dir, content)


def with_precision(recipe: Recipe) -> Recipe:
    """The recipe with the precision of its masked language model decided."""
    settings = recipe.augment
    assert settings is not None
    if settings.bf16 is not None:
        return recipe
    name = hardware_precision().name if recipe.precision == "auto" else recipe.precision
    return recipe.model_copy(update={"augment": settings.model_copy(update={"bf16": name == "bf16"})})


def some_variants(file: Path, count: int = 3) -> list[dict[str, str]]:
    """A few variants to look at: a text and what became of it."""
    examples: dict[int, dict[str, str]] = {}  # one of a row
    original: dict[str, Any] = {}
    for row in pq.read_table(file).to_pylist():
        if row["variant"] is None:
            original = row
        elif row["source_row"] not in examples and len(examples) < count:
            before, after = (_side(one, row["side"]) for one in (original, row))
            examples[row["source_row"]] = {"before": before, "after": after}
    return list(examples.values())


def _side(row: Row, name: str) -> str:
    column, _, place = name.partition(".")
    value = row[column][int(place)] if place else row[column]
    return " ".join(value) if isinstance(value, list) else str(value)


def shard_path(folder: Path, number: int) -> Path:
    """The file of a shard."""
    return folder / f"part-{number:06d}.parquet"


class ShardMaker:
    """Makes shards of `num_rows` rows each of a recipe's training set; every worker has one."""

    def __init__(self, recipe: Recipe, data: TaskData, num_rows: int) -> None:
        settings = recipe.augment
        assert settings is not None
        self.recipe, self.data, self.settings = recipe, data, settings
        self.num_rows = num_rows
        self.kind = recipe.task_row.kind
        self.schema = shard_schema(self.kind, pair="text_pair" in data.columns)
        swap = settings.entities == "swap"
        names = self.kind.entity_names(self.rows(range(len(data.splits["train"])))) if swap else {}
        vectors = (
            load_vectors(
                Path(settings.vectors), Path(settings.vector_words) if settings.vector_words else None
            )
            if settings.vectors is not None
            else None
        )
        self.ask = Candidates(load_masked_words(recipe), vectors, names)

    def __call__(self, number: int, folder: Path) -> int:
        """Make and write one shard; its number."""
        start = number * self.num_rows
        stop = min(start + self.num_rows, len(self.data.splits["train"]))
        rows = list(self.rows(range(start, stop)))
        made, counts = augment_rows(rows, self.kind, self.settings, self.recipe.seed, self.ask)
        write_shard(shard_path(folder, number), made, self.schema, counts)
        return number

    def rows(self, places: Iterable[int]) -> Iterator[Row]:
        """Checked rows with their labels by name."""
        rows, labels = self.data.splits["train"], self.data.labels
        for place in places:
            row = rows[place]
            if labels is not None:
                field = self.kind.label_field
                row[field] = label_names(row[field], labels)
            yield row


def load_masked_words(recipe: Recipe) -> MaskedWords:
    """The masked language model of a recipe."""
    settings = recipe.augment
    assert settings is not None
    assert settings.model is not None
    config, tokenizer = load_config(settings.model), load_tokenizer(settings.model)
    check_max_length(config, tokenizer, settings.max_length, key="augment.max_length")
    if not any("MaskedLM" in name or "PreTraining" in name for name in config.architectures or ()):
        found = ", ".join(config.architectures or ("none",))
        raise ModelError(
            f"augment.model must have a masked language model's head; {settings.model} is {found}. Give the "
            "pretrained model and not a fine-tuned one."
        )
    model = AutoModelForMaskedLM.from_pretrained(settings.model, dtype=torch.float32)
    return MaskedWords(
        model.to(default_device()),
        tokenizer,
        count=settings.candidates,
        max_length=settings.max_length,
        precision=torch.bfloat16 if settings.bf16 else torch.float32,
    )


def make_shard_job(recipe_yaml: str, num_rows: int, folder: Path) -> Job:
    """What a worker does: it loads the model and the data once."""
    tune_cpu()
    recipe = Recipe.from_mapping(yaml.safe_load(recipe_yaml))
    maker = ShardMaker(recipe, load_data(recipe.task_row, recipe.data, ["train"]), num_rows)

    def job(number: int) -> None:
        maker(number, folder)

    return job
