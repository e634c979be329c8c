"""A teacher's logits on a training set, computed once and kept on disk by content.

The folder's name is made of everything that decides a logit: the teacher's weights, the encoded
rows, the precision. Shards appear whole or not at all, so an interrupted run goes on at the next one,
and the processes of a distributed run each take their share.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from datasets import Dataset, concatenate_datasets
from numpy.typing import NDArray
from tqdm.auto import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerFast, TrainingArguments

from understudy.data.encode import ENCODER_INPUTS, TEACHER, Collator
from understudy.data.load import cache_folder
from understudy.data.tasks import KindName

# Part of every cache key: raise it when the same rows would get other logits.
FORMAT_VERSION = 1
ROWS_PER_SHARD = 16_384
BATCH_SIZE = 64


def add_teacher_logits(
    encoded: Dataset,
    kind: KindName,
    teacher: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    teacher_hash: str,
    arguments: TrainingArguments,
) -> Dataset:
    """The encoded rows with a `teacher_…` column for each kind of logits, memory-mapped.

    Logits of tokens are stored for real tokens alone.

    Args:
        teacher: frozen.
        teacher_hash: of its weights and config.
        arguments: say the precision, the device and this process' place among others.
    """
    decided_by = [FORMAT_VERSION, teacher_hash, encoded._fingerprint, kind, str(autocast_dtype(arguments))]
    key = hashlib.sha256(json.dumps(decided_by).encode()).hexdigest()[:24]
    folder = cache_folder() / f"teacher-{key}"
    folder.mkdir(parents=True, exist_ok=True)
    starts = range(0, len(encoded), ROWS_PER_SHARD)
    shards = [folder / f"rows-{start:012d}.arrow" for start in starts]
    mine = list(zip(starts, shards, strict=True))[arguments.process_index :: arguments.world_size]
    missing = [(start, shard) for start, shard in mine if not shard.exists()]
    if missing:
        teacher = teacher.to(arguments.device)  # type: ignore[arg-type]  # transformers' decorator
        total = sum(min(ROWS_PER_SHARD, len(encoded) - start) for start, _ in missing)
        with tqdm(total=total, desc="Teacher", unit=" rows", disable=not arguments.should_save) as bar:
            for start, shard in missing:
                rows = encoded.select(range(start, min(start + ROWS_PER_SHARD, len(encoded))))
                _write(shard, _predict(rows, kind, teacher, tokenizer, arguments, bar))
    if arguments.world_size > 1:
        torch.distributed.barrier()
    logits = concatenate_datasets([Dataset.from_file(str(shard)) for shard in shards])
    return concatenate_datasets([encoded, logits], axis=1)


def autocast_dtype(arguments: TrainingArguments) -> torch.dtype:
    """The precision of forward passes under these arguments."""
    if arguments.bf16:
        return torch.bfloat16
    return torch.float16 if arguments.fp16 else torch.float32


def _predict(
    rows: Dataset,
    kind: KindName,
    teacher: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    arguments: TrainingArguments,
    bar: tqdm,
) -> dict[str, list[NDArray[np.float32]]]:
    """Logits by column, in the order of the rows; computed longest first, alike in length."""
    collate = Collator(tokenizer)
    lengths = np.asarray(rows["length"][:])
    order = np.argsort(-lengths, kind="stable")
    precision = autocast_dtype(arguments)
    columns: dict[str, list[NDArray[np.float32]]] = {}
    for start in range(0, len(rows), BATCH_SIZE):
        chosen = order[start : start + BATCH_SIZE].tolist()
        batch = collate([rows[index] for index in chosen])
        inputs = {name: value.to(arguments.device) for name, value in batch.items() if name in ENCODER_INPUTS}
        enabled = precision != torch.float32
        with torch.no_grad(), torch.autocast(arguments.device.type, dtype=precision, enabled=enabled):
            output = teacher(**inputs)
        names = ("start_logits", "end_logits") if kind == "question-answering" else ("logits",)
        for name in names:
            column = columns.setdefault(TEACHER + name, [np.empty(0, np.float32)] * len(rows))
            for index, values in zip(chosen, output[name].float().cpu().numpy(), strict=True):
                per_token = kind in ("question-answering", "token-classification")
                column[index] = values[: lengths[index]] if per_token else values
        bar.update(len(chosen))
    return columns


def _write(path: Path, columns: Mapping[str, Sequence[NDArray[np.float32]]]) -> None:
    """An Arrow file that appears whole or not at all."""
    first = next(iter(columns.values()))[0]
    kind = pa.list_(pa.float32())
    schema = pa.schema([(name, pa.list_(kind) if first.ndim == 2 else kind) for name in columns])
    temporary = path.with_name(f"{path.name}.{os.getpid()}.writing")
    table = pa.table({name: [value.tolist() for value in values] for name, values in columns.items()}, schema)
    with pa.OSFile(str(temporary), "wb") as file, pa.ipc.new_stream(file, schema) as out:
        out.write_table(table, max_chunksize=1_000)
    os.replace(temporary, path)
