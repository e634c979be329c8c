"""Tokenise general text into blocks: the corpus for general distillation.

Two passes read the same pieces. The first hashes every document, so that exact duplicates are known to all
workers; the second writes each piece's blocks to a file of its own. Both depend only on the text and the
settings, so the files are the same whichever worker writes them and in whatever order. Files are written
atomically, and existing ones are not rewritten.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from understudy.data.corpus import (
    HELD_OUT,
    TRAIN,
)
from understudy.data.settings import CorpusSettings
from understudy.distillation.recipes import corpus_recipe
from understudy.errors import RecipeError
from understudy.jobs import Engine, check_engine
from understudy.models.pretrained import check_max_length, hash_tokenizer, load_config, load_tokenizer
from understudy.recipe.recipe import Recipe
from understudy.recipe.resolve import resolve_paths
from understudy.workspace.corpus_shards import make_shards, open_sources, sum_counts
from understudy.workspace.folders import HASHES, RESULT, check_output, remove_leftovers, start_output
from understudy.workspace.hashes import versions
from understudy.workspace.lock import one_at_a_time
from understudy.workspace.result import write_result
from understudy.workspace.results import CorpusResult

logger = logging.getLogger(__name__)


def corpus(
    sources: Sequence[str | Path] | None = None,
    *,
    output_dir: str | Path,
    tokenizer: str | Path | None = None,
    recipe: str | Path | None = None,
    settings: Sequence[str] | Mapping[str, Any] = (),
    engine: Engine = "local",
    workers: int = 1,
    overwrite: bool = False,
) -> CorpusResult:
    """Turn general text into token blocks on disk.

    Args:
        sources: files, folders, patterns, fsspec URLs or hub datasets: Parquet, JSON lines (`.jsonl`) or
            plain text with empty lines between documents, optionally compressed.
        tokenizer: the teacher's tokenizer, as a folder or a hub name.
        recipe: a shipped name or a file. Defaults to `corpus`.
        settings: override the recipe, e.g. `{"corpus.max_length": 512}`.
        engine: `local` for `workers` processes on this machine, `ray` for `workers` processes of Ray Data.
        output_dir: gets Arrow files in `train/` and `held-out/`, and result.json, which lists them with
            their counts and hashes. An interrupted run is resumed. `general` reads it.

    Examples:
        >>> understudy.corpus(                                     # doctest: +SKIP
        ...     ["wiki/*.parquet"], tokenizer="bert-base-uncased", output_dir="corpora/wiki"
        ... ).content["corpus"]
        {'documents': …, 'blocks': …, 'tokens': …}
    """
    built = corpus_recipe(sources, tokenizer=tokenizer, recipe=recipe, settings=settings)
    return corpus_from_recipe(built, Path(output_dir), engine=engine, workers=workers, overwrite=overwrite)


@one_at_a_time
def corpus_from_recipe(
    recipe: Recipe, output_dir: Path, *, engine: Engine = "local", workers: int = 1, overwrite: bool = False
) -> CorpusResult:
    """Build a corpus according to a recipe. See `corpus`."""
    recipe, output_dir = resolve_paths(recipe), output_dir.expanduser().resolve()
    settings = recipe.corpus or CorpusSettings()
    if not settings.sources:
        raise RecipeError("corpus.sources must be given: files, folders or hub datasets of text.")
    if settings.tokenizer is None:
        raise RecipeError("corpus.tokenizer must be given: the teacher's, a folder or a hub name.")
    check_engine(engine)
    check_output(output_dir, recipe, overwrite=overwrite)
    tokenizer = load_tokenizer(settings.tokenizer)
    check_max_length(load_config(settings.tokenizer), tokenizer, settings.max_length, key="corpus.max_length")
    files, pieces = open_sources(
        settings.sources, settings.column, settings.shard_megabytes, output_dir, block="corpus"
    )
    logger.info("%d files, %.1f MB: %d shards", len(files), sum(files.values()) / 1e6, len(pieces))
    if overwrite:
        (output_dir / RESULT).unlink(missing_ok=True)
        for name in (HASHES, TRAIN, HELD_OUT):
            shutil.rmtree(output_dir / name, ignore_errors=True)
    # Sizes detect changed files; their content is hashed by the first pass.
    inputs = {file: str(size) for file, size in files.items()} | {"tokenizer": hash_tokenizer(tokenizer)}
    start_output(output_dir, recipe, inputs, overwrite=overwrite)
    started = time.perf_counter()
    made = make_shards(recipe, pieces, output_dir, engine, workers)
    if made.num_unreadable:
        logger.warning("%d documents were left out: empty, or not to be read.", made.num_unreadable)
    content = {
        "stage": "corpus",
        "corpus": {
            "documents": made.num_documents,
            "unreadable": made.num_unreadable,
            "duplicates": made.num_documents - made.num_unreadable - made.num_kept,
            **sum_counts(made.files),
            "max_length": settings.max_length,
        },
        # Since the last start, if the run was interrupted.
        "seconds": round(time.perf_counter() - started, 1),
        "files": made.files,
        "seed": recipe.seed,
        "hashes": {"documents": made.hash, "tokenizer": inputs["tokenizer"]},
        "versions": versions(),
    }
    write_result(output_dir, content)
    remove_leftovers(output_dir)
    return CorpusResult(output_dir, content)
