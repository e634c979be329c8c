"""General text to token blocks: the corpus that general distillation reads.

Two passes over the same pieces. The first takes every document's hash, so that exact copies are known
whoever reads them; the second writes each piece's blocks to a file of its own. Both are decided by the text
and the settings, so that the files are the same whoever makes them, and in whatever order. A file appears
whole or not at all; one that is there is not made again.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from understudy.data.corpus import (
    HELD_OUT,
    TRAIN,
    BlockMaker,
    block_counts,
    choose_held_out,
    first_copies,
    hash_documents,
    write_blocks,
)
from understudy.data.documents import Piece, find_files, read_documents, split_files
from understudy.data.settings import CorpusSettings
from understudy.errors import DataError, OutputError, RecipeError
from understudy.files import hash_file, write_atomically
from understudy.models.pretrained import check_max_length, hash_tokenizer, load_config, load_tokenizer
from understudy.progress import progress
from understudy.recipe.load import load_recipe, parse_settings, what_is_given
from understudy.recipe.recipe import Recipe
from understudy.stages.engines import Engine, Job, check_engine, run_jobs
from understudy.stages.result import (
    RESULT,
    StageResult,
    check_output,
    resolve_paths,
    start_output,
    versions,
    write_result,
)

logger = logging.getLogger(__name__)

_HASHES = "documents"  # the first pass's folder, gone when all is done


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
) -> StageResult:
    """Turn general text into token blocks on disk.

    Args:
        sources: files, folders, patterns, fsspec addresses or hub datasets: Parquet, JSON lines (`.jsonl`)
            or plain text with empty lines between documents; compressed ones too.
        tokenizer: the teacher's, a folder or a hub name.
        recipe: a shipped name or a file; `corpus` where not given.
        settings: over the recipe, e.g. `{"corpus.max_length": 512}`.
        engine: `local`, `workers` processes here; or `ray`, `workers` processes of Ray Data.
        output_dir: gets Arrow files in `train/` and `held-out/`, and result.json, which names them with
            their counts and hashes. A run that was interrupted there continues. `general` reads it.

    Example:
        >>> understudy.corpus(                                     # doctest: +SKIP
        ...     ["wiki/*.parquet"], tokenizer="bert-base-uncased", output_dir="corpora/wiki"
        ... ).content["corpus"]
        {'documents': …, 'blocks': …, 'tokens': …}
    """
    given: dict[str, Any] = what_is_given({"corpus.tokenizer": tokenizer})
    if sources:
        given["corpus.sources"] = [str(source) for source in sources]
    built = load_recipe(recipe or "corpus", given | parse_settings(settings))
    return corpus_from_recipe(built, Path(output_dir), engine=engine, workers=workers, overwrite=overwrite)


def corpus_from_recipe(
    recipe: Recipe, output_dir: Path, *, engine: Engine = "local", workers: int = 1, overwrite: bool = False
) -> StageResult:
    """Make a corpus as a recipe says; see `corpus`."""
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
    files = find_files(settings.sources)
    _check_places(settings.sources, files, output_dir)
    pieces = split_files(files, int(settings.shard_megabytes * 1e6))
    if not pieces:
        raise DataError(f"corpus.sources: all {len(files)} files are empty.")
    _check_column(pieces[0], settings.column)
    logger.info("%d files, %.1f MB: %d shards", len(files), sum(files.values()) / 1e6, len(pieces))
    if overwrite:
        (output_dir / RESULT).unlink(missing_ok=True)
        for name in (_HASHES, TRAIN, HELD_OUT):
            shutil.rmtree(output_dir / name, ignore_errors=True)
    # Sizes tell other files from these; what is in them is hashed by the first pass.
    inputs = {file: str(size) for file, size in files.items()} | {"tokenizer": hash_tokenizer(tokenizer)}
    start_output(output_dir, recipe, inputs, overwrite=overwrite)
    for leftover in output_dir.rglob("*.writing"):  # of a run that was killed
        leftover.unlink()
    started = time.perf_counter()
    for name in (_HASHES, TRAIN, HELD_OUT):
        (output_dir / name).mkdir(exist_ok=True)
    hash_files = [output_dir / _HASHES / f"part-{number:06d}.npy" for number in range(len(pieces))]
    arguments = (settings.column, pieces, output_dir)
    _run("Reading", engine, workers, hash_files, make_hash_job, *arguments)
    hashes = [np.load(file) for file in hash_files]
    sizes = [len(part) for part in hashes]
    everything = np.concatenate(hashes)
    del hashes
    keep = first_copies(everything)
    write_atomically(output_dir / _HASHES / _KEEP, lambda path: _save(path, keep))
    bounds = [(end - size, end) for size, end in zip(sizes, accumulate(sizes), strict=True)]
    train_files = [_shard(output_dir, TRAIN, number) for number in range(len(pieces))]
    _run("Writing", engine, workers, train_files, make_block_job, recipe.to_yaml(), bounds, *arguments[1:])
    unreadable = int((~everything.any(axis=1)).sum())
    if unreadable:
        logger.warning("%d documents were left out: empty, or not to be read.", unreadable)
    shards = [_shard(output_dir, part, number) for part in _PARTS for number in range(len(pieces))]
    written = {f"{file.parent.name}/{file.name}": _describe(file) for file in shards}
    content = {
        "stage": "corpus",
        "corpus": {
            "documents": len(everything),
            "unreadable": unreadable,
            "duplicates": len(everything) - unreadable - int(keep.sum()),
            **_sums(written),
            "max_length": settings.max_length,
        },
        # Since the last start, where the run was interrupted.
        "seconds": round(time.perf_counter() - started, 1),
        "files": written,
        "seed": recipe.seed,
        "hashes": {
            "documents": hashlib.sha256(everything.tobytes()).hexdigest(),
            "tokenizer": inputs["tokenizer"],
        },
        "versions": versions(),
    }
    write_result(output_dir, content)
    shutil.rmtree(output_dir / _HASHES)
    return StageResult(output_dir, content)


_PARTS = (TRAIN, HELD_OUT)
_COUNTED = ("documents_kept", "blocks", "tokens")
_KEEP = "keep.npy"
_LOOK_AT = 1_000  # documents, before anything is written


def _check_places(sources: Sequence[str], files: Mapping[str, int], output_dir: Path) -> None:
    """What is written must not be among what is read."""
    folders = [Path(source) for source in sources if "://" not in source and Path(source).is_dir()]
    inside = any(output_dir.is_relative_to(folder) for folder in folders)
    around = any(Path(file.removeprefix("file://")).is_relative_to(output_dir) for file in files)
    if inside or around:
        raise OutputError(
            f"--output-dir must lie apart from corpus.sources; {output_dir} and what is read are one in the "
            "other."
        )


def _check_column(piece: Piece, column: str) -> None:
    first = list(islice(read_documents(piece, column), _LOOK_AT))
    if first and not any(first):
        raise DataError(
            f"none of the first {len(first)} documents of {piece.file} has text in the column {column!r}. "
            "Say which column has: --set corpus.column=…"
        )


def _run(
    title: str, engine: Engine, workers: int, files: Sequence[Path], make_job: Any, *arguments: Any
) -> None:
    missing = [number for number, file in enumerate(files) if not file.exists()]
    if len(missing) < len(files):
        logger.warning("%s: %d of %d are done already.", title, len(files) - len(missing), len(files))
    done = run_jobs(engine, workers, missing, make_job, *arguments)
    with progress(title, len(missing), "shards", leave=True, hidden=not missing) as advance:
        for _ in done:
            advance(1)


def make_hash_job(column: str, pieces: Sequence[Piece], output_dir: Path) -> Job:
    """Writes the hashes of a piece's documents."""

    def job(number: int) -> None:
        hashes = hash_documents(read_documents(pieces[number], column))
        path = output_dir / _HASHES / f"part-{number:06d}.npy"
        write_atomically(path, lambda temporary: _save(temporary, hashes))

    return job


def make_block_job(
    recipe_yaml: str, bounds: Sequence[tuple[int, int]], pieces: Sequence[Piece], output_dir: Path
) -> Job:
    """Writes the blocks of a piece's documents, those held out first."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # as many processes as were asked for
    recipe = Recipe.from_mapping(yaml.safe_load(recipe_yaml))
    settings = recipe.corpus
    assert settings is not None
    assert settings.tokenizer is not None
    maker = BlockMaker(load_tokenizer(settings.tokenizer), settings.max_length, pairs=settings.pairs)

    def job(number: int) -> None:
        keep = np.load(output_dir / _HASHES / _KEEP, mmap_mode="r")[slice(*bounds[number])]
        hashes = np.load(output_dir / _HASHES / f"part-{number:06d}.npy")
        held_out = choose_held_out(hashes, settings.held_out)
        texts: dict[str, list[str]] = {HELD_OUT: [], TRAIN: []}
        documents = read_documents(pieces[number], settings.column)
        for text, is_kept, is_held_out in zip(documents, keep, held_out, strict=True):
            if is_kept and text is not None:
                texts[HELD_OUT if is_held_out else TRAIN].append(text)
        # The file of training blocks says that the piece is done: it comes last.
        for place, (part, chosen) in enumerate(texts.items()):
            blocks = maker(chosen, np.random.default_rng([recipe.seed, number, place]))
            write_blocks(_shard(output_dir, part, number), blocks, maker, Counter(documents_kept=len(chosen)))

    return job


def _shard(output_dir: Path, part: str, number: int) -> Path:
    return output_dir / part / f"part-{number:06d}.arrow"


def _describe(file: Path) -> dict[str, Any]:
    """A shard in result.json."""
    counts = block_counts(file)
    return {name: counts[name] for name in _COUNTED} | {"bytes": file.stat().st_size, "hash": hash_file(file)}


def _sums(files: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Counts of all shards by part, and their bytes."""
    counts = {
        name: {
            part: sum(one[name] for file, one in files.items() if file.startswith(part)) for part in _PARTS
        }
        for name in _COUNTED
    }
    return {**counts, "bytes": sum(one["bytes"] for one in files.values())}


def _save(path: Path, array: NDArray[Any]) -> None:
    with path.open("wb") as file:
        np.save(file, array)
