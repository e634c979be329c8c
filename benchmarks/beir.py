"""Read a retrieval set in BEIR's layout."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def read_beir(folder: Path, split: str) -> tuple[dict[str, str], dict[str, str], dict[str, dict[str, float]]]:
    """Return documents and queries by id, and for each query of a split its relevant documents with gains."""
    documents = {
        one["_id"]: f"{one['title']} {one['text']}".strip() for one in read_jsonl(folder / "corpus.jsonl")
    }
    queries = {one["_id"]: one["text"] for one in read_jsonl(folder / "queries.jsonl")}
    relevant: dict[str, dict[str, float]] = {}
    with (folder / "qrels" / f"{split}.tsv").open(encoding="utf-8") as lines:
        for query, document, score in list(csv.reader(lines, delimiter="\t"))[1:]:
            relevant.setdefault(query, {})[document] = float(score)
    return documents, queries, relevant


def read_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file."""
    for line in path.read_text("utf-8").splitlines():
        yield json.loads(line)
