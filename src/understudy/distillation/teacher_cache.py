"""A disk cache of a teacher's predictions on a training set, keyed by content.

The folder's name is a hash of everything that determines a prediction: the teacher's weights, the encoded
rows, the precision. It holds shards of 16,384 rows, each with its hash next to it:

- `predictions-….arrow`: the logits (`docs/reference/recipes.md`);
- `states-LAYERS-….arrow`: hidden states of the first token at chosen layers.

Both are memory-mapped, so memory does not grow with the number of rows.

Shards are written atomically, and one that does not match its hash is recomputed. So an interrupted run
continues with the next shard, several runs can share a folder, and each process of a distributed run takes
its share.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from datasets import Dataset, concatenate_datasets
from numpy.typing import NDArray
from transformers import PreTrainedModel, PreTrainedTokenizerFast, TrainingArguments

from understudy.data.encode import (
    ENCODER_INPUTS,
    TEACHER,
    TEACHER_STATES,
    TEACHER_TOKENS,
    Collator,
    keep_whole,
)
from understudy.data.kind import Kind
from understudy.data.load import cache_folder
from understudy.errors import OutputError
from understudy.files import is_whole, write_sealed
from understudy.progress import progress
from understudy.training.trainer import autocast_dtype

# Part of every cache key: increase it when the same rows would get different predictions.
FORMAT_VERSION = 3
ROWS_PER_SHARD = 16_384
BATCH_SIZE = 64


@dataclass(frozen=True)
class Shard:
    """A range of training rows, and the files that hold a teacher's predictions for them."""

    start: int
    stop: int
    predictions: Path
    states: Path | None

    @property
    def files(self) -> list[Path]:
        return [self.predictions] + ([self.states] if self.states is not None else [])


def add_teacher_answers(
    encoded: Dataset,
    kind: Kind,
    load_teacher: Callable[[], PreTrainedModel],
    tokenizer: PreTrainedTokenizerFast,
    teacher_hash: str,
    arguments: TrainingArguments,
    *,
    layers: Sequence[int] = (),
) -> Dataset:
    """Add a `teacher_…` column for each teacher output to the encoded rows.

    Token logits are stored for real tokens only, without padding.

    Args:
        load_teacher: returns the frozen teacher; not called if all predictions are cached.
        teacher_hash: a hash of its weights and config.
        arguments: give the precision, the device and this process's rank.
        layers: layers whose first-token states are wanted, counted from 1.
    """
    decided_by = [
        FORMAT_VERSION,
        teacher_hash,
        encoded._fingerprint,
        kind.name,
        str(autocast_dtype(arguments)),
    ]
    key = hashlib.sha256(json.dumps(decided_by).encode()).hexdigest()[:24]
    folder = cache_folder() / f"teacher-{key}"
    folder.mkdir(parents=True, exist_ok=True)
    shards = _shards(folder, len(encoded), layers)
    mine = shards[arguments.process_index :: arguments.world_size]
    missing = {shard: {file for file in shard.files if not is_whole(file)} for shard in mine}
    missing = {shard: files for shard, files in missing.items() if files}
    if missing:
        teacher = load_teacher().to(arguments.device)  # type: ignore[arg-type]  # transformers' decorator
        total = sum(shard.stop - shard.start for shard in missing)
        with progress("Teacher", total, "rows", leave=True, hidden=not arguments.should_save) as advance:
            for shard, files in missing.items():
                rows = encoded.select(range(shard.start, shard.stop))
                _fill(shard, files, rows, kind, teacher, tokenizer, arguments, layers, advance)
    if arguments.world_size > 1:
        torch.distributed.barrier()
        unseen = [shard for shard in shards if not all(file.exists() for file in shard.files)]
        if unseen:
            raise OutputError(
                f"{unseen[0].predictions} was written by another machine and is not here. Set "
                "UNDERSTUDY_CACHE to a folder that all machines share."
            )
    predictions = _open([shard.predictions for shard in shards]).remove_columns(["row"])
    prefix = TEACHER_TOKENS if kind.is_per_token else TEACHER
    predictions = predictions.rename_columns({name: prefix + name for name in predictions.column_names})
    if encoded._indices is not None:  # otherwise done below, for every part, without a seal
        file, rows = folder / "rows.arrow", encoded
        encoded = keep_whole(file, lambda: rows.flatten_indices(cache_file_name=str(file)))
    parts = [encoded, predictions]
    if layers:
        parts.append(_open([shard.states for shard in shards if shard.states is not None]))
    return concatenate_datasets(parts, axis=1)


def _open(files: Sequence[Path]) -> Dataset:
    """Open several Arrow files as one memory-mapped dataset."""
    return concatenate_datasets([Dataset.from_file(str(file)) for file in files])


def _shards(folder: Path, num_rows: int, layers: Sequence[int]) -> list[Shard]:
    names = "-".join(map(str, layers))
    return [
        Shard(
            start,
            min(start + ROWS_PER_SHARD, num_rows),
            folder / f"predictions-{start:012d}.arrow",
            folder / f"states-{names}-{start:012d}.arrow" if layers else None,
        )
        for start in range(0, num_rows, ROWS_PER_SHARD)
    ]


def _fill(
    shard: Shard,
    files: Collection[Path],
    rows: Dataset,
    kind: Kind,
    teacher: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    arguments: TrainingArguments,
    layers: Sequence[int],
    advance: Callable[[int], None],
) -> None:
    """Predict a shard in batches of similar length, and write the predictions in row order.

    Args:
        files: the shard's files to write. The others stay as they are: an unfinished run may have learnt
            from them, and another machine rounds differently.
    """
    collate = Collator(tokenizer)
    lengths = np.asarray(rows["length"][:])
    order = np.argsort(-lengths, kind="stable")
    precision = autocast_dtype(arguments)
    names, per_token = kind.outputs, kind.is_per_token
    predictions: dict[str, list[Any]] = {name: [None] * len(rows) for name in names}
    states: list[Any] = [None] * len(rows)
    for start in range(0, len(rows), BATCH_SIZE):
        chosen = order[start : start + BATCH_SIZE].tolist()
        batch = collate([rows[index] for index in chosen])
        inputs = {name: value.to(arguments.device) for name, value in batch.items() if name in ENCODER_INPUTS}
        enabled = precision != torch.float32
        with torch.no_grad(), torch.autocast(arguments.device.type, dtype=precision, enabled=enabled):
            output = teacher(**inputs, output_hidden_states=bool(layers))
        for name in names:
            for index, values in zip(chosen, output[name].float().cpu().numpy(), strict=True):
                predictions[name][index] = values[: lengths[index]].copy() if per_token else values
        if layers:
            # (rows or rows × choices, K, H)
            first = torch.stack([output["hidden_states"][layer][:, 0] for layer in layers], dim=1)
            arrays = first.float().cpu().numpy().reshape(len(chosen), -1)
            for index, values in zip(chosen, arrays, strict=True):
                states[index] = values.tobytes()
        advance(len(chosen))
    columns = {name: float_lists(values) for name, values in predictions.items()}
    table = pa.table({"row": pa.array(rows["row"][:], pa.int64()), **columns})
    if shard.predictions in files:
        write_sealed(shard.predictions, lambda path: _write_arrow(table, path))
    if shard.states is not None and shard.states in files:
        column = pa.table({TEACHER_STATES: pa.array(states, pa.binary())})
        write_sealed(shard.states, lambda path: _write_arrow(column, path))


def float_lists(arrays: Sequence[NDArray[np.float32]]) -> pa.Array:
    """Convert arrays of one or two dimensions to a column of lists, or of lists of lists."""
    values = pa.array(np.concatenate([array.reshape(-1) for array in arrays]), pa.float32())
    if arrays[0].ndim == 2:
        width = arrays[0].shape[1]
        values = pa.ListArray.from_arrays(pa.array(range(0, len(values) + 1, width), pa.int32()), values)
    offsets = np.cumsum([0, *(len(array) for array in arrays)])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)


def _write_arrow(table: pa.Table, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as out:
        out.write_table(table, max_chunksize=1_000)
