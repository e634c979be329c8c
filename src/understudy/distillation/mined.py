"""Mining for a task: its recipe, and the teacher's predictions for the rows that were found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from understudy.augmentation.shards import load_masked_words
from understudy.data.documents import Piece
from understudy.data.load import load_unlabelled
from understudy.data.settings import DataSettings
from understudy.errors import DataError
from understudy.evaluation.score import predict_logits
from understudy.jobs import Engine
from understudy.mining.found import Found, count_sentences, drop_duplicates, embed_all, merge_found
from understudy.mining.rows import pair_rows, single_rows
from understudy.mining.sentences import length_range
from understudy.mining.settings import MineSettings
from understudy.mining.task_texts import TaskTexts
from understudy.mining.variants import augment_texts
from understudy.mining.work import found_path, make_search_job, prepare_search
from understudy.models.pretrained import check_max_length, load_config, load_model, load_tokenizer
from understudy.recipe.recipe import Recipe
from understudy.recipe.resolve import with_precision
from understudy.workspace.corpus_shards import run_pass
from understudy.workspace.splits import split_of

_CANDIDATES = "candidates.parquet"


def search_corpus(
    texts: TaskTexts,
    settings: MineSettings,
    pieces: Sequence[Piece],
    folder: Path,
    engine: Engine,
    workers: int,
) -> tuple[list[list[Found]], Counter[str]]:
    """Return the closest sentences of each of the task's texts, without near duplicates, and the counts.

    Args:
        folder: keeps what was found in each piece, so that an interrupted search can be resumed.
    """
    embed, queries_QD = prepare_search(texts, settings, pieces, folder)
    parts = [found_path(folder, number) for number in range(len(pieces))]
    lengths = length_range(texts.queries)
    run_pass(
        "Searching",
        engine,
        workers,
        [[part] for part in parts],
        make_search_job,
        settings,
        lengths,
        pieces,
        folder,
    )
    found = merge_found(parts, len(texts.queries), settings.neighbours)
    excluded_ED = embed_all(texts.excluded, embed)
    found, counts = drop_duplicates(found, embed, queries_QD, excluded_ED, settings.duplicate)
    counts["sentences"] = sum(map(count_sentences, parts))
    return found, counts


def make_rows(
    found: Sequence[Sequence[Found]], fields: tuple[str, ...], recipe: Recipe
) -> list[dict[str, Any]]:
    """Make rows from the sentences that were found: texts, or pairs in the recipe's mix."""
    settings = recipe.mine
    assert settings is not None
    if len(fields) == 1:
        rows = single_rows(found, fields[0])
    else:
        vary = None
        if recipe.augment is not None:
            augment = with_precision(recipe).augment
            assert augment is not None
            vary = partial(augment_texts, settings=augment, seed=recipe.seed)
        rows = pair_rows(found, (fields[0], fields[1]), settings.pairs.shares, recipe.seed, vary)
    if not rows:
        raise DataError(
            "nothing was found: the corpus has no sentences as long as the task's texts, or only duplicates."
        )
    return rows


def check_models(recipe: Recipe, labels: Sequence[str] | None) -> None:
    """Load every model that is needed after the search, so that a wrong one is refused before the search."""
    if recipe.teacher is not None:
        load_model(recipe.teacher, recipe.task_definition, labels, fine_tuned=True)
        tokenizer = load_tokenizer(recipe.teacher)
        check_max_length(load_config(recipe.teacher), tokenizer, recipe.max_length)
    if recipe.augment is not None:
        load_masked_words(recipe.augment)


def predicted_groups(
    rows: Sequence[Mapping[str, Any]], recipe: Recipe, labels: Sequence[str] | None, folder: Path
) -> NDArray[np.int64] | None:
    """Return a group for each row by the teacher's prediction for it; None for a kind without groups."""
    assert recipe.teacher is not None
    file, task = folder / _CANDIDATES, recipe.task_definition
    pq.write_table(pa.Table.from_pylist(list(rows)), file)
    loaded, _ = load_unlabelled(task, DataSettings(unlabelled=[str(file)]), labels)
    assert len(loaded) == len(rows)
    tokenizer = load_tokenizer(recipe.teacher)
    split = split_of(recipe, loaded, tokenizer)
    model = load_model(recipe.teacher, task, labels, fine_tuned=True)
    logits = predict_logits(model, tokenizer, split.encoded, batch_size=64)
    found = task.kind.prediction_groups(logits)
    if found is None:
        return None
    groups = np.empty(len(rows), np.int64)
    groups[np.asarray(split.encoded["row"][:])] = found
    return groups


def count_groups(groups: NDArray[np.int64], labels: Sequence[str] | None) -> dict[str, int]:
    """Count the rows of each group, by the name of its class if it has one."""
    counts = Counter(groups.tolist())
    return {labels[group] if labels else str(group): counts[group] for group in sorted(counts)}
