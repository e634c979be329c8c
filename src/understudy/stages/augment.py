"""Augment a task's training set (TinyBERT's Algorithm 1)."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from understudy.augmentation.run import shard_counts
from understudy.augmentation.shards import ROWS_PER_SHARD, ShardMaker, shard_path, some_variants
from understudy.data.load import announce, load_data
from understudy.data.sources import AUGMENTED_ROWS
from understudy.distillation.recipes import augment_recipe
from understudy.errors import RecipeError
from understudy.files import hash_file, is_whole
from understudy.jobs import Engine, Job, check_engine, run_jobs
from understudy.progress import progress
from understudy.recipe.inputs import check_augments
from understudy.recipe.recipe import Recipe
from understudy.recipe.resolve import resolve_paths, with_precision
from understudy.training.cpu import tune_cpu
from understudy.workspace.folders import check_output, remove_leftovers, start_output
from understudy.workspace.hashes import hash_model, versions
from understudy.workspace.lock import one_at_a_time
from understudy.workspace.result import data_content, write_result
from understudy.workspace.results import AugmentResult

logger = logging.getLogger(__name__)


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
) -> AugmentResult:
    """Generate variants of every training row by replacing words.

    Args:
        model: a masked language model, as a folder or a hub name. Defaults to the recipe's.
        recipe: a shipped name or a file. Defaults to `augment-TASK` or `augment-KIND`.
        settings: recipe overrides, e.g. `{"augment.variants": 10, "augment.vectors": "glove.6B.300d.txt"}`.
        engine: `local`, or `ray` for `workers` processes of Ray Data on one machine or a cluster.
        output_dir: gets Parquet files in `rows/`, result.json and recipe.yaml. An interrupted run is
            resumed. `distill` reads it with `data.augmented`.

    Examples:
        >>> understudy.augment(                                    # doctest: +SKIP
        ...     "bert-base-uncased", task="mrpc", data="nyu-mll/glue", output_dir="augmented/mrpc"
        ... ).content["augmented"]
        {'rows': 3668, 'tried': …, 'written': …}
    """
    built = augment_recipe(model, task=task, data=data, recipe=recipe, settings=settings)
    return augment_from_recipe(built, Path(output_dir), engine=engine, workers=workers, overwrite=overwrite)


@one_at_a_time
def augment_from_recipe(
    recipe: Recipe, output_dir: Path, *, engine: Engine = "local", workers: int = 1, overwrite: bool = False
) -> AugmentResult:
    """Augment according to a recipe. See `augment`."""
    check_augments(recipe)
    settings = recipe.augment
    assert settings is not None
    assert settings.model is not None
    if not recipe.task_definition.kind.has_entities and settings.entities != "keep":
        raise RecipeError(f"augment.entities has no effect on {recipe.task_definition.kind}. Leave it out.")
    unread = [name for name in ("model", "training", "dropout", "attention") if getattr(recipe, name)]
    if unread:
        raise RecipeError(f"{unread[0]} has no effect on augmentation. Leave it out.")
    check_engine(engine)
    if engine == "local" and workers != 1:
        raise RecipeError(
            "--workers has no effect with --engine local, which is this process. Use --engine ray."
        )
    recipe, output_dir = resolve_paths(recipe), output_dir.expanduser().resolve()
    settings = recipe.augment
    assert settings is not None
    assert settings.model is not None
    check_output(output_dir, recipe, overwrite=overwrite)
    tune_cpu()
    given, recipe = recipe, with_precision(recipe)  # resolved once, so that it is the same for every worker
    data = load_data(recipe.task_definition, recipe.data, ["train"])
    announce(data)
    assert recipe.augment is not None
    maker = ShardMaker(recipe.augment, recipe.task_definition.kind, data, recipe.seed, ROWS_PER_SHARD)
    hashes = {"model": hash_model(settings.model), **data.hashes}
    for name in (settings.vectors, settings.vector_words, settings.stop_words):
        if name is not None and Path(name).is_file():
            hashes[Path(name).name] = hash_file(Path(name))
    start_output(output_dir, given, hashes, overwrite=overwrite)
    folder = output_dir / AUGMENTED_ROWS
    folder.mkdir(exist_ok=True)
    started = time.perf_counter()
    numbers = range(-(-len(data.splits["train"]) // ROWS_PER_SHARD))
    missing = [number for number in numbers if not is_whole(shard_path(folder, number))]
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
        # Since the last start, if the run was interrupted.
        "seconds": round(time.perf_counter() - started, 1),
        "precision": "bf16" if recipe.augment is not None and recipe.augment.bf16 else "fp32",
        "files": {file.name: hash_file(file) for file in files},
        "seed": recipe.seed,
        "hashes": hashes,
        "versions": versions(),
    }
    write_result(output_dir, content)
    remove_leftovers(output_dir)
    return AugmentResult(output_dir, content)


def make_shard_job(recipe_yaml: str, num_rows: int, folder: Path) -> Job:
    """Return a worker's job, which loads the model and the data once."""
    tune_cpu()
    recipe = Recipe.from_mapping(yaml.safe_load(recipe_yaml))
    data = load_data(recipe.task_definition, recipe.data, ["train"])
    assert recipe.augment is not None
    maker = ShardMaker(recipe.augment, recipe.task_definition.kind, data, recipe.seed, num_rows)

    def job(number: int) -> None:
        maker(number, folder)

    return job
