"""Mining for a task: its recipe, and what the teacher says of the rows that were found."""

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

from understudy.data.documents import Piece
from understudy.data.encode import encode
from understudy.data.load import UNLABELLED, load_data
from understudy.data.sources import dev_splits
from understudy.errors import DataError, RecipeError
from understudy.evaluation.score import predict_logits
from understudy.jobs import Engine
from understudy.mining.found import Found, count_sentences, drop_duplicates, embed_all, merge_found
from understudy.mining.rows import pair_rows, single_rows
from understudy.mining.sentences import usual_lengths
from understudy.mining.settings import MineSettings
from understudy.mining.task_texts import TaskTexts
from understudy.mining.variants import augment_texts
from understudy.mining.work import found_path, make_search_job, prepare_search
from understudy.models.pretrained import load_config, load_model, load_tokenizer, model_labels
from understudy.models.student import student_inside
from understudy.recipe.load import load_recipe, parse_settings, without_none
from understudy.recipe.recipe import Recipe
from understudy.recipe.resolve import with_precision
from understudy.workspace.corpus_shards import run_pass
from understudy.workspace.recipes import saved_recipe

_CANDIDATES = "candidates.parquet"


def mine_recipe(
    sources: Sequence[str | Path] | None,
    *,
    teacher: str | Path | None,
    encoder: str | Path | None,
    task: str | None,
    data: str | Path | None,
    recipe: str | Path | None,
    settings: Sequence[str] | Mapping[str, Any],
) -> Recipe:
    """Build the recipe from a command's arguments and the teacher's own recipe."""
    teacher = student_inside(teacher) if teacher is not None else None
    given: dict[str, Any] = without_none(
        {"teacher": teacher, "mine.encoder": encoder, "task": task, "data.source": data}
    )
    if sources:
        given["mine.sources"] = [str(source) for source in sources]
    saved = saved_recipe(teacher) if teacher is not None else None
    known = load_recipe(saved) if saved is not None else None
    if known is not None:
        own = (
            known.data.model_dump(exclude_defaults=True)
            if data is None and task in (None, known.task)
            else {}
        )
        given = {"task": known.task, **{f"data.{key}": value for key, value in own.items()}, **given}
        start = known.model or (known.finetune.model if known.finetune is not None else None)
        given.setdefault("mine.encoder", start or str(teacher))
    elif teacher is not None:
        given.setdefault("mine.encoder", str(teacher))
    return load_recipe(recipe or "mine", given | parse_settings(settings))


def check_mine(recipe: Recipe) -> MineSettings:
    """Return the block of a recipe for mining, or say what it lacks."""
    settings = recipe.mine
    if settings is None or not settings.sources:
        raise RecipeError("mine.sources must be given: files, folders or hub datasets of text.")
    if recipe.task is None:
        raise RecipeError("--task must be given, e.g. --task mrpc; or a teacher that knows its task.")
    if settings.encoder is None:
        raise RecipeError("mine.encoder or a teacher must be given: a folder or a hub name.")
    if not settings.pairs.shares:
        raise RecipeError("mine.pairs leaves no pairs to make: every share is 0.")
    varies = settings.pairs.augmented > 0
    if varies and (recipe.augment is None or recipe.augment.model is None):
        raise RecipeError("mine.pairs.augmented needs augment.model: a masked language model.")
    if recipe.augment is not None and not varies:
        raise RecipeError("augment has no effect without a share of mine.pairs.augmented.")
    return settings


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
        folder: keeps what was found in each piece, so that an interrupted search goes on.
    """
    embed = prepare_search(texts, settings, pieces, folder)
    parts = [found_path(folder, number) for number in range(len(pieces))]
    lengths = usual_lengths(texts.queries)
    run_pass("Searching", engine, workers, parts, make_search_job, settings, lengths, pieces, folder)
    found = merge_found(parts, len(texts.queries), settings.neighbours)
    found, counts = drop_duplicates(found, embed, embed_all(texts.excluded, embed), settings.duplicate)
    counts["sentences"] = sum(map(count_sentences, parts))
    return found, counts


def rows_of(
    found: Sequence[Sequence[Found]], fields: tuple[str, ...], recipe: Recipe
) -> list[dict[str, Any]]:
    """Make rows of the sentences that were found: texts, or pairs in the recipe's mix."""
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


def predicted_groups(
    rows: Sequence[Mapping[str, Any]], recipe: Recipe, folder: Path
) -> NDArray[np.int64] | None:
    """Return a group for each row by the teacher's prediction for it; None for a kind without groups."""
    assert recipe.teacher is not None
    file, task = folder / _CANDIDATES, recipe.task_definition
    pq.write_table(pa.Table.from_pylist(list(rows)), file)
    update = {"unlabelled": [str(file)], "labelled_share": None, "augmented": None, "bad_rows": "refuse"}
    data = load_data(
        task,
        recipe.data.model_copy(update=update),
        ("train", *dev_splits(task, recipe.data)),
        labels=model_labels(load_config(recipe.teacher), task),
    )
    tokenizer = load_tokenizer(recipe.teacher)
    encoded = encode(
        data.splits[UNLABELLED], task.kind, tokenizer, max_length=recipe.max_length, stride=recipe.data.stride
    )
    order = np.argsort(-np.asarray(encoded["length"][:]), kind="stable")
    model = load_model(recipe.teacher, task, data.labels, fine_tuned=True)
    logits = predict_logits(model, tokenizer, encoded.select(order), batch_size=64)
    found = task.kind.prediction_groups(logits)
    if found is None:
        return None
    groups = np.empty(len(rows), np.int64)
    groups[order] = found
    return groups
