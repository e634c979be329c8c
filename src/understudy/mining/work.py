"""The search as a job for each piece of a corpus: what workers share, and what each of them does."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from understudy.data.documents import Piece, read_documents
from understudy.files import is_whole, write_array
from understudy.jobs import Job
from understudy.mining.found import embed_all, search_piece
from understudy.mining.sentences import fingerprint
from understudy.mining.settings import MineSettings
from understudy.mining.task_texts import TaskTexts
from understudy.mining.vectors import Embed, StateVectors, StaticVectors, Vectors, static_table
from understudy.models.pretrained import load_encoder, load_tokenizer

TABLE, QUERIES, EXCLUDED = "table.npy", "queries.npy", "excluded.npy"
_COUNTED_DOCUMENTS = 10_000  # in which tokens are counted
_MAX_LENGTH = 128  # tokens that the encoder reads, for `vectors: states`


def found_path(folder: Path, number: int) -> Path:
    """Return the file of the sentences found in a piece."""
    return folder / f"part-{number:06d}.parquet"


def prepare_search(
    texts: TaskTexts, settings: MineSettings, pieces: Sequence[Piece], folder: Path
) -> tuple[Embed, Vectors]:
    """Write what all workers read: vectors of tokens and of the task's texts, and texts to leave out.

    Returns:
        The function that turns sentences into vectors, and the vectors of the task's texts.
    """
    if settings.vectors == "static" and not is_whole(folder / TABLE):
        sample = (text for piece in pieces for text in read_documents(piece, settings.column) if text)
        encoder = str(settings.encoder)
        counted = islice(sample, _COUNTED_DOCUMENTS)
        table = static_table(load_tokenizer(encoder), load_encoder(encoder), counted)
        write_array(folder / TABLE, table)
    embed = load_embed(settings, folder)
    queries_QD = embed_all(texts.queries, embed)
    write_array(folder / QUERIES, queries_QD)
    keys = {fingerprint(text) for text in (*texts.train, *texts.excluded)}
    write_array(folder / EXCLUDED, np.frombuffer(b"".join(sorted(keys)), np.uint8).reshape(len(keys), -1))
    return embed, queries_QD


def load_embed(settings: MineSettings, folder: Path) -> Embed:
    """Return the function that turns sentences into vectors."""
    encoder = str(settings.encoder)
    tokenizer = load_tokenizer(encoder)
    if settings.vectors == "static":
        return StaticVectors(tokenizer, np.load(folder / TABLE))
    return StateVectors(tokenizer, load_encoder(encoder), _MAX_LENGTH)


def make_search_job(
    settings: MineSettings, lengths: tuple[int, int], pieces: Sequence[Piece], folder: Path
) -> Job:
    """Return a job that searches a piece of the corpus."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # workers are the parallelism
    embed, queries_QD = load_embed(settings, folder), np.load(folder / QUERIES)
    excluded = frozenset(bytes(key) for key in np.load(folder / EXCLUDED))

    def job(number: int) -> None:
        search_piece(
            pieces[number],
            settings.column,
            queries_QD,
            embed,
            count=settings.neighbours,
            lengths=lengths,
            excluded=excluded,
            path=found_path(folder, number),
        )

    return job
