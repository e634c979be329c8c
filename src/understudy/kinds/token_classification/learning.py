"""Training for token classification: cross entropy at every token."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from datasets import Dataset
from numpy.typing import NDArray
from torch import Tensor, nn

from understudy.augmentation.examples import Side, replace_words, word_starts
from understudy.augmentation.replace import Place, Variant
from understudy.augmentation.words import Span, find_words
from understudy.capture.representations import Representations
from understudy.data.decode import word_tags
from understudy.data.encodings import IGNORED_LABEL
from understudy.data.kind import Kind, Row
from understudy.data.task import Task
from understudy.evaluation.metrics import Metric, own_metric, span_counts
from understudy.evaluation.outcomes import Predictions, places_of
from understudy.kinds.token_classification.rows import TokenClassificationRows
from understudy.objectives.tinybert import token_prediction_loss


class TokenClassification(TokenClassificationRows, Kind):
    """Entities among the words of a text, as IOB tags."""

    predicts_labels = False
    has_entities = True

    def prediction_losses(
        self,
        student: Representations,
        teacher: Representations,
        batch: Mapping[str, Tensor],
        *,
        temperature: float,
        padded: bool,
    ) -> dict[str, Tensor]:
        ours, theirs = student.logits["logits"], teacher.logits["logits"]
        loss_B = token_prediction_loss(
            ours, theirs, batch["attention_mask"], temperature=temperature, padded=padded
        )
        return {"predictions": loss_B}

    def label_loss(self, student: Representations, batch: Mapping[str, Tensor]) -> Tensor:
        logits_BCL, labels_BL = student.logits["logits"].float().transpose(1, 2), batch["labels"]
        loss_BL = nn.functional.cross_entropy(
            logits_BCL, labels_BL, reduction="none", ignore_index=IGNORED_LABEL
        )
        return loss_BL.sum(dim=1) / (labels_BL != IGNORED_LABEL).sum(dim=1).clamp(min=1)

    def soft_label_loss(
        self,
        student: Representations,
        teacher: Representations,
        batch: Mapping[str, Tensor],
        *,
        temperature: float,
        squared: bool,
    ) -> Tensor:
        ours, theirs = student.logits["logits"], teacher.logits["logits"]
        loss_B = token_prediction_loss(ours, theirs, batch["attention_mask"], temperature=temperature)
        return (temperature**2 if squared else 1.0) * loss_B

    def judge(
        self, task: Task, rows: Dataset, encoded: Dataset, logits: tuple[NDArray[Any], ...]
    ) -> Predictions:
        names: Sequence[str] = rows.features["tags"].feature.names
        all_word_ids = encoded["word_ids"]
        values, outcomes = [], []
        for row_tags, index in zip(rows["tags"], places_of(rows, encoded), strict=True):
            tags = word_tags(logits[0][index], all_word_ids[int(index)], len(row_tags), names.index("O"))
            predicted = [names[tag] for tag in tags]
            values.append(predicted)
            outcomes.append(span_counts(predicted, [names[tag] for tag in row_tags]))
        return Predictions(values, np.array(outcomes, dtype=np.float64), {})

    def metric(self, name: str) -> Metric:
        return own_metric(name, self.metrics)

    def sides(self, row: Row, stop_words: frozenset[str], *, swap_entities: bool) -> list[Side]:
        """Return the words outside entities, and whole entities if they may be swapped."""
        words, starts = row["words"], word_starts(row["words"])
        places = []
        for word, start, tag in zip(words, starts, row["tags"], strict=True):
            if tag == "O" and find_words(word, stop_words) == [(0, len(word))]:
                places.append(Place((start, start + len(word))))
        for (first, stop), kind in _entities(row["tags"]) if swap_entities else ():
            end = starts[stop - 1] + len(words[stop - 1])
            places.append(Place((starts[first], end), kind))
        return [Side("words", " ".join(words), tuple(sorted(places, key=lambda place: place.span)))]

    def change(self, row: Row, side: Side, variant: Variant) -> Row:
        """Replace words; an entity of another length brings its own tags."""
        words, tags = replace_words(row["words"], row["tags"], variant)
        return {**row, "words": words, "tags": tags}

    def entity_names(self, rows: Iterable[Row]) -> dict[str, tuple[str, ...]]:
        """Collect the distinct entities of a training set by type, in a fixed order."""
        found: dict[str, set[str]] = {}
        for row in rows:
            for (start, stop), kind in _entities(row["tags"]):
                found.setdefault(kind, set()).add(" ".join(row["words"][start:stop]))
        return {kind: tuple(sorted(names)) for kind, names in sorted(found.items())}

    def texts(self, row: Mapping[str, Any]) -> tuple[str, ...]:
        return (" ".join(row["words"]),)


def _entities(tags: Sequence[str]) -> list[tuple[Span, str]]:
    """Return the span and the type of each entity in IOB2 tags."""
    found: list[tuple[Span, str]] = []
    for place, tag in enumerate(tags):
        if tag.startswith("B-"):
            found.append(((place, place + 1), tag[2:]))
        elif tag.startswith("I-"):
            (start, _), kind = found[-1]
            found[-1] = ((start, place + 1), kind)
    return found


KIND = TokenClassification()
