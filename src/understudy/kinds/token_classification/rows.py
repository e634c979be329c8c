"""Rows of token classification: words with a tag each."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from numpy.typing import NDArray

from understudy.data.decode import entities, softmax, word_tags
from understudy.data.encodings import IGNORED_LABEL, TRUNCATED, are_truncated, model_columns, with_lengths
from understudy.data.kind import Batch, ColumnType, Encoded, Logits, Prediction, Reading, Row, RowKind
from understudy.data.rows import BadRowError, check_text, label_id
from understudy.data.tokens import TextReader
from understudy.kinds.given import check_given, check_strings, name_fields


class TokenClassificationRows(RowKind):
    """Entities among the words of a text, as IOB tags."""

    name = "token-classification"
    has_plain_labels = False
    auto_class = "AutoModelForTokenClassification"
    pipeline = "token-classification"
    required = ("words", "tags")
    inputs = ("words",)
    usual_columns: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "words": ("words", "tokens"),
        "tags": ("tags", "ner_tags", "labels", "pos_tags"),
    }
    label_field = "tags"
    has_named_labels = True
    is_per_token = True
    list_fields = ("words",)
    metrics = ("span_f1",)
    example = '"A text with names in it."'

    def columns(self, fields: Collection[str]) -> dict[str, ColumnType]:
        return {"words": ["text"], "tags": ["label"]}

    def check(self, values: Mapping[str, Any], ids: Mapping[str, int] | None) -> Row:
        words, tags = values["words"], values["tags"]
        if not isinstance(words, list) or not isinstance(tags, list):
            raise BadRowError("words and tags have the wrong form", "words and tags must be lists")
        if not words:
            raise BadRowError("empty text", "the sentence has no words")
        if len(words) != len(tags):
            raise BadRowError(
                "words and tags differ in number", f"has {len(words)} words and {len(tags)} tags"
            )
        for tag in tags:
            if tag != "O" and not (str(tag).startswith(("B-", "I-")) and len(tag) > 2):
                raise BadRowError("unknown label", f"tag must be O, B-… or I-…; got {tag!r}")
        return {
            "words": [check_text(word, f"word {index}") for index, word in enumerate(words)],
            "tags": [label_id(tag, ids or {}) for tag in to_iob2(tags)],
        }

    def placeholder(self, values: Mapping[str, Any], ids: Mapping[str, int] | None) -> Any:
        return ["O"] * len(values["words"]) if isinstance(values["words"], list) else []

    def label_names(self, value: Any) -> Iterable[str]:
        return to_iob2([str(tag) for tag in value]) if isinstance(value, list) else []

    def order_labels(self, found: Iterable[str]) -> tuple[str, ...]:
        """Sort tags by type, B- before I-."""
        types = sorted({tag[2:] for tag in found if tag[:2] in ("B-", "I-")})
        return ("O", *(f"{prefix}-{name}" for name in types for prefix in "BI"))

    def encode(
        self, batch: Batch, reader: TextReader, names: Sequence[str], labels: Sequence[str] | None = None
    ) -> Encoded:
        """Encode words: the first token of a word carries its tag, later tokens the matching inside tag.

        Other tokens carry none. The tag of a word without a token is predicted as O.
        """
        read, inside = reader.words(batch["words"]), inside_tags(labels or ())
        encodings = [one.encoding for one in read]
        encoded = model_columns(encodings, names)
        encoded[TRUNCATED] = are_truncated(encodings)
        encoded["word_ids"] = [one.word_ids for one in read]
        encoded["labels"] = [
            [
                tags[word] if word >= 0 else inside[tags[part]] if part >= 0 else IGNORED_LABEL
                for word, part in zip(one.word_ids, one.inside_ids, strict=True)
            ]
            for one, tags in zip(read, batch["tags"], strict=True)
        ]
        return with_lengths(encoded, batch["row"])

    def parse(self, given: Any, fields: Sequence[str]) -> Row:
        """Parse a raw text, or a list of words."""
        if isinstance(given, str):
            given = {"text": given}
        elif isinstance(given, Sequence) and not isinstance(given, bytes):
            given = {"words": given}
        row = name_fields(given, fields, also=["text"])
        if "words" in row:
            return {"words": check_strings(row["words"], "words")}
        check_given(row.get("text"), "text")
        return {"text": row["text"]}

    def read(self, rows: Sequence[Row], reader: TextReader, fields: Sequence[str]) -> Iterable[Reading]:
        for row in rows:
            if "words" in row:
                (read,) = reader.words([row["words"]])
                spans = [(place, place + 1) for place in range(len(row["words"]))]
            else:
                ((read, spans),) = reader.raw_words([row["text"]])
            yield Reading(row, [read.encoding], (read.word_ids, spans))

    def decode(
        self, reading: Reading, logits: Logits, labels: Sequence[str], *, unanswerable: bool
    ) -> Prediction:
        word_ids, spans = reading.details
        logits_LC: NDArray[Any] = logits[0][0]
        tags = word_tags(logits_LC, word_ids, len(spans), labels.index("O"))
        probabilities = softmax(logits_LC).max(axis=-1)
        sure = {word: float(probabilities[place]) for place, word in enumerate(word_ids) if word >= 0}
        found = []
        for kind, first, last in entities([labels[tag] for tag in tags]):
            start, end = spans[first][0], spans[last][1]
            words = reading.row.get("words")
            found.append(
                {
                    "label": kind,
                    "text": reading.row["text"][start:end] if words is None else " ".join(words[start:end]),
                    "start": start,
                    "end": end,
                    "score": min(sure[word] for word in range(first, last + 1)),
                }
            )
        return {"entities": found}

    def predicted_labels(self, labels: Sequence[str]) -> list[str]:
        types = (label.partition("-")[2] or label for label in labels if label != "O")
        return list(dict.fromkeys(types))

    def labels_given(self, prediction: Prediction) -> list[str]:
        return [one["label"] for one in prediction["entities"]]

    def show(self, prediction: Prediction) -> str:
        return "\t".join(
            f"{one['text']} [{one['label']} {one['score']:.3f}]" for one in prediction["entities"]
        )


def inside_tags(labels: Sequence[str]) -> list[int]:
    """Return, for each tag, the id of the tag that continues it: I-PER for B-PER.

    >>> inside_tags(["O", "B-PER", "I-PER"])
    [0, 2, 2]
    """
    ids = {name: place for place, name in enumerate(labels)}
    return [ids.get(f"I-{name[2:]}", place) if name[:2] == "B-" else place for name, place in ids.items()]


def to_iob2(tags: Sequence[str]) -> list[str]:
    """Convert IOB1 tags to IOB2, in which every entity begins with B-; IOB2 tags are unchanged.

    >>> to_iob2(["I-PER", "I-PER", "O", "I-ORG", "B-ORG"])
    ['B-PER', 'I-PER', 'O', 'B-ORG', 'B-ORG']
    """
    result = []
    previous = "O"
    for tag in tags:
        inside = tag.startswith("I-") and previous != "O" and previous[2:] == tag[2:]
        result.append("B-" + tag[2:] if tag.startswith("I-") and not inside else tag)
        previous = tag
    return result


ROWS = TokenClassificationRows()
