"""Rows of embeddings: texts to learn from, without labels, and pairs with a score to evaluate on."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from understudy.data.encodings import TRUNCATED, are_truncated, model_columns, several_columns, with_lengths
from understudy.data.kind import Batch, ColumnType, Encoded, Logits, Prediction, Reading, Row
from understudy.data.rows import BadRowError
from understudy.data.tokens import TextReader
from understudy.kinds.texts import TextRows, check_number

_SHOWN = 4  # numbers of a vector on one line


class EmbeddingRows(TextRows):
    """A vector for each text."""

    name = "embedding"
    auto_class = "AutoModel"
    pipeline = "sentence-similarity"
    required = ("text",)
    optional = ("text_pair", "label")
    inputs = ("text",)
    sentence_fields = ("text",)
    accepts_predictions = False
    has_classes = False
    has_plain_labels = False
    has_vectors = True
    needs_head = False
    learns_from_labels = False
    scored_fields = ("text_pair", "label")
    metrics = ("spearman", "pearson")
    example = '["a text", "another"]'
    call = "vectors = predict.embed({})"
    library = "sentence-transformers"

    def loading(self, name: str) -> str:
        return (
            "from sentence_transformers import SentenceTransformer\n\n"
            f'model = SentenceTransformer("{name}")\nmodel.encode({self.example})'
        )

    def columns(self, fields: Collection[str]) -> dict[str, ColumnType]:
        if "text_pair" not in fields:
            return {"text": "text"}
        return {"text": "text", "text_pair": "text", "label": "number"}

    def check(self, values: Mapping[str, Any], ids: Mapping[str, int] | None) -> Row:
        if "text_pair" not in values:
            return self.check_texts(values)
        if "label" not in values:
            raise BadRowError("missing column", "a pair must have a score in a column label")
        pair = self.check_texts({"text": values["text_pair"]})["text"]
        return {**self.check_texts(values), "text_pair": pair, "label": check_number(values["label"])}

    def encode(
        self, batch: Batch, reader: TextReader, names: Sequence[str], labels: Sequence[str] | None = None
    ) -> Encoded:
        """Encode texts; for pairs, `input_ids` has one list for each text."""
        if "text_pair" not in batch:
            encodings = reader.texts(batch["text"], None)
            encoded = model_columns(encodings, names)
            encoded[TRUNCATED] = are_truncated(encodings)
            return with_lengths(encoded, batch["row"])
        sides = [reader.texts(batch[name], None) for name in ("text", "text_pair")]
        encoded = several_columns(list(zip(*sides, strict=True)), names)
        return {**encoded, "labels": batch["label"], "row": list(batch["row"])}

    def decode(
        self, reading: Reading, logits: Logits, labels: Sequence[str], *, unanswerable: bool
    ) -> Prediction:
        return {"vector": logits[0][0].tolist()}

    def show(self, prediction: Prediction) -> str:
        vector = prediction["vector"]
        return " ".join(f"{value:.4f}" for value in vector[:_SHOWN]) + f" … ({len(vector)} numbers)"


ROWS = EmbeddingRows()
