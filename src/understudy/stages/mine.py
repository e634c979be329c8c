"""Find text similar to a task's in a corpus without labels."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from understudy.data.load import announce, load_data
from understudy.data.settings import without_unlabelled
from understudy.data.sources import AUGMENTED_ROWS, dev_splits
from understudy.distillation.mined import (
    check_models,
    count_groups,
    make_rows,
    predicted_groups,
    search_corpus,
)
from understudy.distillation.recipes import check_mine, mine_recipe
from understudy.files import hash_file, write_atomically
from understudy.jobs import Engine, check_engine
from understudy.mining.rows import balanced_places
from understudy.mining.task_texts import task_texts
from understudy.recipe.recipe import Recipe
from understudy.recipe.resolve import resolve_paths
from understudy.training.cpu import tune_cpu
from understudy.workspace.corpus_shards import open_sources
from understudy.workspace.folders import FOUND, check_output, remove_leftovers, start_output
from understudy.workspace.hashes import hash_model, versions
from understudy.workspace.lock import one_at_a_time
from understudy.workspace.result import data_content, write_result
from understudy.workspace.results import MineResult

logger = logging.getLogger(__name__)


def mine(
    sources: Sequence[str | Path] | None = None,
    *,
    output_dir: str | Path,
    teacher: str | Path | None = None,
    encoder: str | Path | None = None,
    task: str | None = None,
    data: str | Path | None = None,
    recipe: str | Path | None = None,
    settings: Sequence[str] | Mapping[str, Any] = (),
    engine: Engine = "local",
    workers: int = 1,
    overwrite: bool = False,
) -> MineResult:
    """Find sentences, or make pairs of sentences, that are similar to a task's training rows.

    Args:
        sources: the corpus: files, folders, patterns, fsspec URLs or hub datasets of Parquet, JSON lines or
            plain text with empty lines between documents.
        teacher: a model fine-tuned on the task, whose predictions balance the rows. A folder written by
            `finetune` knows its task and data.
        encoder: the encoder whose vectors are compared. Defaults to the model that the teacher started from.
        recipe: a shipped name or a file. Defaults to `mine`.
        settings: override the recipe, e.g. `{"mine.rows": 50_000}`.
        engine: `local` for `workers` processes on this machine, `ray` for `workers` processes of Ray Data.
        output_dir: gets Parquet files in `rows/` and result.json. An interrupted run is resumed. `distill`
            reads the rows with `unlabelled`.

    Examples:
        >>> understudy.mine(                                       # doctest: +SKIP
        ...     ["wiki/*.parquet"], teacher="teachers/cola", output_dir="mined/cola"
        ... ).num_rows
        42113
    """
    built = mine_recipe(
        sources, teacher=teacher, encoder=encoder, task=task, data=data, recipe=recipe, settings=settings
    )
    return mine_from_recipe(built, Path(output_dir), engine=engine, workers=workers, overwrite=overwrite)


@one_at_a_time
def mine_from_recipe(
    recipe: Recipe, output_dir: Path, *, engine: Engine = "local", workers: int = 1, overwrite: bool = False
) -> MineResult:
    """Mine a corpus according to a recipe. See `mine`."""
    recipe, output_dir = resolve_paths(recipe), output_dir.expanduser().resolve()
    settings, task = check_mine(recipe), recipe.task_definition
    assert settings.sources is not None  # check_mine
    assert settings.encoder is not None
    check_engine(engine)
    check_output(output_dir, recipe, overwrite=overwrite)
    tune_cpu()
    files, pieces = open_sources(
        settings.sources, settings.column, settings.shard_megabytes, output_dir, block="mine"
    )
    loaded = load_data(task, without_unlabelled(recipe.data), ("train", *dev_splits(task, recipe.data)))
    announce(loaded)
    texts = task_texts(loaded, task.kind, settings, recipe.data, recipe.seed)
    check_models(recipe, loaded.labels)
    models = {
        "encoder": settings.encoder,
        "teacher": recipe.teacher,
        "augment.model": recipe.augment.model if recipe.augment is not None else None,
    }
    hashes = {name: hash_model(model) for name, model in models.items() if model is not None}
    hashes |= loaded.hashes | texts.hashes
    # Sizes detect changed files of the corpus.
    inputs = {file: str(size) for file, size in files.items()} | hashes
    start_output(output_dir, recipe, inputs, overwrite=overwrite)
    folder = output_dir / FOUND
    folder.mkdir(exist_ok=True)
    started = time.perf_counter()
    megabytes = sum(files.values()) / 1e6
    logger.info("Searching %.3g MB for text like %d texts", megabytes, len(texts.queries))
    found, counts = search_corpus(texts, settings, pieces, folder, engine, workers)
    rows = make_rows(found, texts.fields, recipe)
    balances = settings.balance and recipe.teacher is not None
    groups = predicted_groups(rows, recipe, loaded.labels, folder) if balances else None
    kept = balanced_places(groups, len(rows), settings.rows)
    chosen = [rows[place] for place in kept]
    file = output_dir / AUGMENTED_ROWS / "part-000000.parquet"
    file.parent.mkdir(exist_ok=True)
    table = pa.Table.from_pylist(chosen)
    write_atomically(file, lambda temporary: pq.write_table(table, temporary))
    content = {
        "stage": "mine",
        "task": recipe.task,
        "mined": {
            "texts": len(texts.queries),
            **counts,
            "found": len(rows),
            "written": len(chosen),
            "pairs": dict(Counter(row["pair"] for row in chosen if "pair" in row)),
            "groups": None if groups is None else count_groups(groups[kept], loaded.labels),
        },
        "examples": chosen[:: max(1, len(chosen) // 5)][:5],
        **data_content(loaded),
        # Since the last start, if the run was interrupted.
        "seconds": round(time.perf_counter() - started, 1),
        "files": {file.name: hash_file(file)},
        "seed": recipe.seed,
        "hashes": hashes,
        "versions": versions(),
    }
    write_result(output_dir, content)
    remove_leftovers(output_dir)
    return MineResult(output_dir, content)
