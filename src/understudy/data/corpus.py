"""Token blocks on disk: memory-mapped Arrow files, one for each piece of the source text.

A file has the column `input_ids` (with special tokens; uint16 if the vocabulary allows) and, in a corpus of
pairs whose tokenizer distinguishes segments, `second`: where the second segment begins. The folder's
result.json lists all files with their blocks and hashes.
"""

from __future__ import annotations

import hashlib
import json
import os
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from torch.utils.data import Dataset
from transformers import PreTrainedTokenizerFast

from understudy.data.blocks import Tokens, fill_blocks, fill_pairs, sentence_ends, split_sentences
from understudy.data.encode import special_tokens
from understudy.data.sources import read_corpus_result
from understudy.data.tokens import tokenize
from understudy.errors import DataError
from understudy.files import hash_file, write_sealed

TRAIN, HELD_OUT = "train", "held-out"
HASH_BYTES = 16
_DOCUMENTS_AT_A_TIME = 64
_COUNTS = b"understudy.counts"

Block = tuple[NDArray[Any], int]
"""Token ids, and where the second segment begins (0 if there is none)."""


def hash_documents(documents: Iterable[str | None]) -> NDArray[np.uint8]:
    """Hash each document's text to a row of 16 bytes; zeros for an unreadable one."""
    hashes = [
        hashlib.blake2b(text.encode(), digest_size=HASH_BYTES).digest()
        if text is not None
        else bytes(HASH_BYTES)
        for text in documents
    ]
    return np.frombuffer(b"".join(hashes), np.uint8).reshape(-1, HASH_BYTES)


def first_copies(hashes: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Return a mask of the first document with each text; unreadable ones are excluded."""
    whole = np.ascontiguousarray(hashes).view(np.dtype((np.void, HASH_BYTES))).ravel()
    _, first = np.unique(whole, return_index=True)
    keep = np.zeros(len(whole), bool)
    keep[first] = True
    keep &= hashes.any(axis=1)
    return keep


def choose_held_out(hashes: NDArray[np.uint8], share: float) -> NDArray[np.bool_]:
    """Return a mask of held-out documents: about this share of them, each chosen by its text alone."""
    heads = np.ascontiguousarray(hashes[:, :8]).view(np.uint64).ravel()
    chosen: NDArray[np.bool_] = heads < np.uint64(min(share * 2**64, 2**64 - 1))
    return chosen


class BlockMaker:
    """A callable that turns texts into blocks with a tokenizer's special tokens.

    Args:
        max_length: tokens per block, including special tokens.
        pairs: whether a block has two segments.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerFast, max_length: int, *, pairs: bool) -> None:
        self.tokenizer = tokenizer
        self.dtype = np.uint16 if len(tokenizer) <= 2**16 else np.uint32
        self.special = special_tokens(tokenizer, pair=pairs)
        self.room = max_length - sum(map(len, self.special))
        self.pairs = pairs
        self.has_segments = pairs and "token_type_ids" in tokenizer.model_input_names

    def __call__(self, texts: Iterable[str], generator: np.random.Generator) -> Iterator[Block]:
        """Yield the blocks of all texts; for pairs, drawn with the generator."""
        return self._pairs(texts, generator) if self.pairs else self._blocks(texts)

    def sentences(self, texts: Iterable[str]) -> Iterator[list[Tokens]]:
        """Yield each text's tokens by sentence; the tokenizer reads the text as a whole."""
        backend = self.tokenizer.backend_tokenizer
        backend.no_truncation()
        backend.no_padding()
        rest = iter(texts)
        while part := list(islice(rest, _DOCUMENTS_AT_A_TIME)):
            encodings = tokenize(backend, part, special_tokens=False)
            for text, encoding in zip(part, encodings, strict=True):
                token_ends = [end for _, end in encoding.offsets]
                yield split_sentences(encoding.ids, token_ends, sentence_ends(text))

    def _blocks(self, texts: Iterable[str]) -> Iterator[Block]:
        before, after = self.special
        for sentences in self.sentences(texts):
            for block in fill_blocks(sentences, self.room):
                yield np.concatenate([before, block, after]).astype(self.dtype), 0

    def _pairs(self, texts: Iterable[str], generator: np.random.Generator) -> Iterator[Block]:
        before, between, after = self.special
        documents = [sentences for sentences in self.sentences(texts) if sentences]
        for place in range(len(documents)):
            for first, second in fill_pairs(documents, place, self.room, generator):
                head = np.concatenate([before, first, between])
                yield np.concatenate([head, second, after]).astype(self.dtype), len(head)


def write_blocks(path: Path, blocks: Iterable[Block], maker: BlockMaker, counts: Counter[str]) -> None:
    """Write a file of blocks with its counts and its hash next to it, atomically."""
    made = list(blocks)
    lengths = [len(ids) for ids, _ in made]
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int64())
    values = np.concatenate([ids for ids, _ in made]) if made else np.empty(0, maker.dtype)
    columns = {"input_ids": pa.LargeListArray.from_arrays(offsets, pa.array(values))}
    if maker.has_segments:
        columns["second"] = pa.array([second for _, second in made], pa.uint16())
    table = pa.table(columns)
    counts = counts + Counter(blocks=len(made), tokens=sum(lengths))
    table = table.replace_schema_metadata({_COUNTS: json.dumps(counts)})

    def write(temporary: Path) -> None:
        with pa.ipc.new_file(str(temporary), table.schema) as writer:
            writer.write_table(table)

    write_sealed(path, write)


def block_counts(path: Path) -> Counter[str]:
    """Read the counts of a file of blocks: documents, blocks, tokens."""
    with pa.memory_map(str(path)) as file:
        return Counter(json.loads(pa.ipc.open_file(file).schema.metadata[_COUNTS]))


class Blocks(Dataset[dict[str, Any]]):
    """All blocks of several files by number, read from disk on demand."""

    def __init__(self, files: Sequence[Path], counts: Sequence[int], hashes: Sequence[str] = ()) -> None:
        self.files, self.hashes = tuple(files), tuple(hashes)
        self.ends = tuple(accumulate(counts))
        self._open: dict[int, tuple[Any, Any, Any]] = {}

    def __len__(self) -> int:
        return self.ends[-1] if self.ends else 0

    def __getitem__(self, number: int) -> dict[str, Any]:
        if not 0 <= number < len(self):
            raise IndexError(number)
        place = bisect_right(self.ends, number)
        ids, offsets, seconds = self._file(place)
        inside = number - (self.ends[place - 1] if place else 0)
        tokens = ids[offsets[inside] : offsets[inside + 1]].tolist()
        block = {"input_ids": tokens, "row": number}
        if seconds is not None:
            second = int(seconds[inside])
            block["token_type_ids"] = [0] * second + [1] * (len(tokens) - second)
        return block

    def _file(self, place: int) -> tuple[Any, Any, Any]:
        if place not in self._open:
            # Once for all processes of a distributed run, since each of them reads every file.
            is_first = os.environ.get("RANK", "0") == "0"
            if is_first and self.hashes and hash_file(self.files[place]) != self.hashes[place]:
                raise _is_not_ours(self.files[place])
            batch = pa.ipc.open_file(pa.memory_map(str(self.files[place]))).get_batch(0)
            blocks = batch.column("input_ids")
            seconds = batch.column("second").to_numpy() if "second" in batch.schema.names else None
            self._open[place] = blocks.values.to_numpy(), blocks.offsets.to_numpy(), seconds
        return self._open[place]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": {}}  # another process maps the files itself


def open_corpus(folder: Path) -> tuple[dict[str, Any], dict[str, Blocks]]:
    """Open a finished corpus: its result.json, and its training and held-out blocks.

    File sizes are checked here; hashes when the first process opens a file, since a corpus may be larger than
    the part that is read.
    """
    content = read_corpus_result(folder)
    blocks = {}
    for part in (TRAIN, HELD_OUT):
        names = {name: known for name, known in content["files"].items() if name.startswith(f"{part}/")}
        for name, known in names.items():
            if not (folder / name).is_file() or (folder / name).stat().st_size != known["bytes"]:
                raise _is_not_ours(folder / name)
        filled = {name: known for name, known in names.items() if known["blocks"]}
        counts, hashes = ([known[key] for known in filled.values()] for key in ("blocks", "hash"))
        blocks[part] = Blocks([folder / name for name in filled], counts, hashes)
    return content, blocks


def _is_not_ours(file: Path) -> DataError:
    return DataError(
        f"general.corpus: {file} is not what understudy corpus wrote. Run it again with --overwrite."
    )
