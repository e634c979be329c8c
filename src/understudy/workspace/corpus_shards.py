"""The shards of a corpus: how they are written, checked and described."""

from __future__ import annotations

import hashlib
import logging
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

import numpy as np
import yaml

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
from understudy.data.documents import MissingColumnError, Piece, find_files, read_documents, split_files
from understudy.errors import DataError, OutputError
from understudy.files import hash_file, is_whole, write_array
from understudy.jobs import Engine, Job, run_jobs
from understudy.models.pretrained import load_tokenizer
from understudy.progress import progress
from understudy.recipe.recipe import Recipe
from understudy.workspace.folders import HASHES

logger = logging.getLogger(__name__)
PARTS = (TRAIN, HELD_OUT)
_COUNTED = ("documents_kept", "blocks", "tokens")
KEEP = "keep.npy"
_LOOK_AT = 1_000  # documents checked before anything is written


def open_sources(
    sources: Sequence[str], column: str, megabytes: float, output_dir: Path, *, block: str
) -> tuple[dict[str, int], list[Piece]]:
    """Return the files of a corpus with their sizes, and their pieces of about the size that is set.

    Args:
        block: the block of the recipe that names the sources.

    Raises:
        DataError: if there is no text.
        OutputError: if the output folder overlaps with the sources.
    """
    files = find_files(sources, key=f"{block}.sources")
    folders = [Path(source) for source in sources if "://" not in source and Path(source).is_dir()]
    inside = any(output_dir.is_relative_to(folder) for folder in folders)
    around = any(Path(file.removeprefix("file://")).is_relative_to(output_dir) for file in files)
    if inside or around:
        raise OutputError(
            f"--output-dir must not be inside {block}.sources, nor contain them; got {output_dir}."
        )
    pieces = split_files(files, int(megabytes * 1e6))
    if not pieces:
        raise DataError(f"{block}.sources: all {len(files)} files are empty.")
    hint = f"Say which column holds the text: --set {block}.column=…"
    try:
        first = list(islice(read_documents(pieces[0], column), _LOOK_AT))
    except MissingColumnError as error:
        raise DataError(f"{error} {hint}") from None
    if first and not any(first):
        raise DataError(
            f"none of the first {len(first)} documents of {pieces[0].file} has text in the column "
            f"{column!r}. {hint}"
        )
    return files, pieces


@dataclass(frozen=True)
class Shards:
    """A summary of the shards of a corpus.

    Attributes:
        hash: a hash of all documents.
        files: counts, bytes and hash of each shard by name.
    """

    num_documents: int
    num_unreadable: int
    num_kept: int
    hash: str
    files: dict[str, Any]


def make_shards(
    recipe: Recipe, pieces: Sequence[Piece], output_dir: Path, engine: Engine, workers: int
) -> Shards:
    """Write every missing shard: first the hashes of all documents, then the blocks."""
    assert recipe.corpus is not None
    for name in (HASHES, TRAIN, HELD_OUT):
        (output_dir / name).mkdir(exist_ok=True)
    hash_files = [output_dir / HASHES / f"part-{number:06d}.npy" for number in range(len(pieces))]
    arguments: tuple[Any, ...] = (recipe.corpus.column, pieces, output_dir)
    run_pass("Reading", engine, workers, [[file] for file in hash_files], make_hash_job, *arguments)
    hashes = [np.load(file) for file in hash_files]
    sizes = [len(part) for part in hashes]
    everything = np.concatenate(hashes)
    del hashes
    keep = first_copies(everything)
    write_array(output_dir / HASHES / KEEP, keep)
    bounds = [(end - size, end) for size, end in zip(sizes, accumulate(sizes), strict=True)]
    block_files = [[shard_path(output_dir, part, number) for part in PARTS] for number in range(len(pieces))]
    arguments = (recipe.to_yaml(), bounds, pieces, output_dir)
    run_pass("Writing", engine, workers, block_files, make_block_job, *arguments)
    shards = [shard_path(output_dir, part, number) for part in PARTS for number in range(len(pieces))]
    return Shards(
        len(everything),
        int((~everything.any(axis=1)).sum()),
        int(keep.sum()),
        hashlib.sha256(everything.tobytes()).hexdigest(),
        {f"{file.parent.name}/{file.name}": describe_shard(file) for file in shards},
    )


def run_pass(
    title: str, engine: Engine, workers: int, files: Sequence[Sequence[Path]], make_job: Any, *arguments: Any
) -> None:
    """Run the jobs of a pass whose files are missing or damaged, with a progress bar.

    Args:
        files: the files of each job.
    """
    missing = [number for number, made in enumerate(files) if not all(map(is_whole, made))]
    if len(missing) < len(files):
        logger.warning("%s: %d of %d are done already.", title, len(files) - len(missing), len(files))
    done = run_jobs(engine, workers, missing, make_job, *arguments)
    with progress(title, len(missing), "shards", leave=True, hidden=not missing) as advance:
        for _ in done:
            advance(1)


def make_hash_job(column: str, pieces: Sequence[Piece], output_dir: Path) -> Job:
    """Return a job that writes the hashes of a piece's documents."""

    def job(number: int) -> None:
        hashes = hash_documents(read_documents(pieces[number], column))
        path = output_dir / HASHES / f"part-{number:06d}.npy"
        write_array(path, hashes)

    return job


def make_block_job(
    recipe_yaml: str, bounds: Sequence[tuple[int, int]], pieces: Sequence[Piece], output_dir: Path
) -> Job:
    """Return a job that writes the blocks of a piece's documents, held-out ones first."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # no more processes than requested
    recipe = Recipe.from_mapping(yaml.safe_load(recipe_yaml))
    settings = recipe.corpus
    assert settings is not None
    assert settings.tokenizer is not None
    maker = BlockMaker(load_tokenizer(settings.tokenizer), settings.max_length, pairs=settings.pairs)

    def job(number: int) -> None:
        keep = np.load(output_dir / HASHES / KEEP, mmap_mode="r")[slice(*bounds[number])]
        hashes = np.load(output_dir / HASHES / f"part-{number:06d}.npy")
        held_out = choose_held_out(hashes, settings.held_out)
        texts: dict[str, list[str]] = {HELD_OUT: [], TRAIN: []}
        documents = read_documents(pieces[number], settings.column)
        for text, is_kept, is_held_out in zip(documents, keep, held_out, strict=True):
            if is_kept and text is not None:
                texts[HELD_OUT if is_held_out else TRAIN].append(text)
        for place, (part, chosen) in enumerate(texts.items()):
            blocks = maker(chosen, np.random.default_rng([recipe.seed, number, place]))
            write_blocks(
                shard_path(output_dir, part, number), blocks, maker, Counter(documents_kept=len(chosen))
            )

    return job


def shard_path(output_dir: Path, part: str, number: int) -> Path:
    """Return the path of a shard."""
    return output_dir / part / f"part-{number:06d}.arrow"


def describe_shard(file: Path) -> dict[str, Any]:
    """Describe a shard for result.json."""
    counts = block_counts(file)
    return {name: counts[name] for name in _COUNTED} | {"bytes": file.stat().st_size, "hash": hash_file(file)}


def sum_counts(files: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Sum the counts of all shards by part, and their bytes."""
    counts = {
        name: {part: sum(one[name] for file, one in files.items() if file.startswith(part)) for part in PARTS}
        for name in _COUNTED
    }
    return {**counts, "bytes": sum(one["bytes"] for one in files.values())}
