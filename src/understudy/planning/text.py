"""The cost of making rows from general text and by augmentation, extrapolated from a sample."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from understudy.augmentation.replace import Question
from understudy.augmentation.run import augment_rows, write_shard
from understudy.augmentation.shards import ROWS_PER_SHARD, ShardMaker
from understudy.data.corpus import BlockMaker, block_counts, hash_documents, write_blocks
from understudy.data.documents import find_files, read_documents, split_files
from understudy.data.load import load_data
from understudy.errors import RecipeError
from understudy.models.flop import forward_flop
from understudy.models.pretrained import load_tokenizer
from understudy.planning.cost import Cost, Part
from understudy.recipe.inputs import check_augments
from understudy.recipe.recipe import Recipe
from understudy.recipe.resolve import with_precision


def cost_of_corpus(recipe: Recipe, folder: Path, seconds: float) -> Cost:
    """Estimate turning general text into token blocks with one process."""
    settings = recipe.corpus
    assert settings is not None
    if not settings.sources or settings.tokenizer is None:
        raise RecipeError("corpus.sources and corpus.tokenizer must be given.")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # as in the real stage
    files = find_files(settings.sources)
    maker = BlockMaker(load_tokenizer(settings.tokenizer), settings.max_length, pairs=settings.pairs)
    small = split_files(files, _PIECE_BYTES)
    total = sum(piece.num_bytes for piece in small)
    started, read, tokens, written = time.perf_counter(), 0, 0, 0
    for number in np.random.default_rng(0).permutation(len(small)).tolist():
        if time.perf_counter() - started > seconds:
            break
        texts = [text for text in read_documents(small[number], settings.column) if text is not None]
        hash_documents(texts)
        path = folder / f"{number}.arrow"
        write_blocks(path, maker(texts, np.random.default_rng(0)), maker, Counter())
        read += small[number].num_bytes
        tokens += block_counts(path)["tokens"]
        written += path.stat().st_size
    share = total / max(1, read)
    taken = (time.perf_counter() - started) * share
    disk = {"at most": written * share, "when done": written * share}
    return Cost([Part("corpus, one process", 0, tokens * share, 0.0, taken)], disk, 0.0)


_PIECE_BYTES = 1_000_000


def cost_of_augmentation(recipe: Recipe, folder: Path, seconds: float) -> Cost:
    """Estimate Algorithm 1 over a task's training set."""
    settings = recipe.augment
    assert settings is not None
    check_augments(recipe)
    recipe = with_precision(recipe)
    assert recipe.augment is not None
    settings = recipe.augment
    data = load_data(recipe.task_definition, recipe.data, ["train"])
    num_rows = len(data.splits["train"])
    maker = ShardMaker(settings, recipe.task_definition.kind, data, recipe.seed)
    asked = Counter[str]()

    def ask(questions: Iterable[Question]) -> Mapping[Question, Sequence[str]]:
        questions = list(questions)
        inputs = maker.ask.masked_words.mask(questions) if questions else []
        asked.update(passes=len(inputs), tokens=sum(len(ids) for ids, _ in inputs))
        return maker.ask(questions)

    def augment(count: int) -> tuple[float, float]:
        asked.clear()
        chosen = np.random.default_rng(0).permutation(num_rows)[:count].tolist()
        started = time.perf_counter()
        made, counts = augment_rows(
            list(maker.rows(chosen)), recipe.task_definition.kind, settings, recipe.seed, ask
        )
        write_shard(folder / "rows.parquet", made, maker.schema, counts)
        return time.perf_counter() - started, (folder / "rows.parquet").stat().st_size

    count = min(num_rows, _FEW_ROWS)
    taken, size = augment(count)
    wanted = min(num_rows, ROWS_PER_SHARD, int(count * seconds / taken))
    if wanted > count:
        count = wanted
        taken, size = augment(count)
    share = num_rows / count
    tokens = asked["tokens"] * share
    config = maker.ask.masked_words.model.config
    length = asked["tokens"] / max(1, asked["passes"])
    head = 2 * config.hidden_size * config.vocab_size * asked["passes"] * share  # computed only at the masks
    part = Part("augmentation", 0, tokens, tokens * forward_flop(config, length) + head, taken * share)
    weights = maker.ask.masked_words.model.num_parameters() * 4.0
    return Cost([part], {"at most": size * share, "when done": size * share}, weights, bool(settings.bf16))


_FEW_ROWS = 16
