"""Shards of augmented rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import torch
from transformers import AutoModelForMaskedLM

from understudy.augmentation.candidates import Candidates, MaskedWords
from understudy.augmentation.run import augment_rows, shard_schema, write_shard
from understudy.augmentation.settings import AugmentSettings
from understudy.augmentation.vectors import load_vectors
from understudy.data.kind import Kind, Row
from understudy.data.labels import label_names
from understudy.data.load import TaskData
from understudy.errors import ModelError
from understudy.hub import split_revision
from understudy.models.pretrained import (
    check_max_length,
    default_device,
    load_config,
    load_tokenizer,
    refuse_programs,
)

ROWS_PER_SHARD = 512


def shard_path(folder: Path, number: int) -> Path:
    """Return the path of a shard."""
    return folder / f"part-{number:06d}.parquet"


class ShardMaker:
    """A writer of shards of `num_rows` training rows each; every worker has one."""

    def __init__(
        self, settings: AugmentSettings, kind: Kind, data: TaskData, seed: int, num_rows: int = ROWS_PER_SHARD
    ) -> None:
        self.settings, self.kind, self.data, self.seed = settings, kind, data, seed
        self.num_rows = num_rows
        self.schema = shard_schema(self.kind, list(data.columns))
        swap = settings.entities == "swap"
        names = self.kind.entity_names(self.rows(range(len(data.splits["train"])))) if swap else {}
        vectors = (
            load_vectors(
                Path(settings.vectors), Path(settings.vector_words) if settings.vector_words else None
            )
            if settings.vectors is not None
            else None
        )
        self.ask = Candidates(load_masked_words(settings), vectors, names)

    def __call__(self, number: int, folder: Path) -> int:
        """Make and write one shard; return its number."""
        start = number * self.num_rows
        stop = min(start + self.num_rows, len(self.data.splits["train"]))
        rows = list(self.rows(range(start, stop)))
        made, counts = augment_rows(rows, self.kind, self.settings, self.seed, self.ask)
        write_shard(shard_path(folder, number), made, self.schema, counts)
        return number

    def rows(self, places: Iterable[int]) -> Iterator[Row]:
        """Yield checked rows with their labels by name."""
        rows, labels = self.data.splits["train"], self.data.labels
        for place in places:
            row = rows[place]
            if labels is not None:
                field = self.kind.label_field
                row[field] = label_names(row[field], labels)
            yield row


def load_masked_words(settings: AugmentSettings) -> MaskedWords:
    """Load the masked language model that suggests words."""
    assert settings.model is not None
    config, tokenizer = load_config(settings.model), load_tokenizer(settings.model)
    check_max_length(config, tokenizer, settings.max_length, key="augment.max_length")
    if not any("MaskedLM" in name or "PreTraining" in name for name in config.architectures or ()):
        found = ", ".join(config.architectures or ("none",))
        raise ModelError(
            f"augment.model must have a masked language model's head; {settings.model} is {found}. Give the "
            "pretrained model and not a fine-tuned one."
        )
    name, revision = split_revision(str(settings.model))
    with refuse_programs(name):
        model = AutoModelForMaskedLM.from_pretrained(name, revision=revision, dtype=torch.float32)
    return MaskedWords(
        model.to(default_device()),
        tokenizer,
        count=settings.candidates,
        max_length=settings.max_length,
        precision=torch.bfloat16 if settings.bf16 else torch.float32,
    )


def some_variants(file: Path, count: int = 3) -> list[dict[str, str]]:
    """Return a few variants for inspection: texts before and after."""
    examples: dict[int, dict[str, str]] = {}  # one per row
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
