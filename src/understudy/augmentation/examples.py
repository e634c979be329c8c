"""What of a row may change, by kind, and the row that a change gives.

classification, regression   the text or its pair, one at a time
question-answering           the question or the context, but not an answer's words
multiple-choice              the context or one of the choices, never the question
token-classification         words outside entities; entities as wholes by a setting
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from understudy.augmentation.replace import Place, Variant
from understudy.augmentation.words import Span, find_words, put_words
from understudy.data.tasks import KindName

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Side:
    """A text of a row, and its places that may change.

    Attributes:
        name: its column; `choices.2` is the third choice.
    """

    name: str
    text: str
    places: tuple[Place, ...]


def sides_of(
    row: Row, kind: KindName, stop_words: frozenset[str], *, swap_entities: bool = False
) -> list[Side]:
    """The sides of a row that have something to change, in a fixed order."""
    if kind == "token-classification":
        sides = [_tagged(row, stop_words, swap_entities=swap_entities)]
    elif kind == "question-answering":
        answers = row["answers"]
        taken = [
            (start, start + len(text))
            for text, start in zip(answers["text"], answers["answer_start"], strict=True)
        ]
        sides = [
            _plain("question", row["question"], stop_words),
            _plain("context", row["context"], stop_words, taken),
        ]
    elif kind == "multiple-choice":
        sides = [_plain("context", row["context"], stop_words)]
        sides += [_plain(f"choices.{n}", text, stop_words) for n, text in enumerate(row["choices"])]
    else:
        names = [name for name in ("text", "text_pair") if row.get(name) is not None]
        sides = [_plain(name, row[name], stop_words) for name in names]
    return [side for side in sides if side.places]


def change(row: Row, side: Side, variant: Variant) -> dict[str, Any]:
    """The row with a variant of one of its sides; everything else as it was."""
    changed = dict(row)
    if side.name == "words":
        changed["words"], changed["tags"] = _retag(row, variant)
        return changed
    text = put_words(side.text, [(one.span, one.new) for one in variant])
    if side.name.startswith("choices."):
        place = int(side.name.removeprefix("choices."))
        changed["choices"] = [text if n == place else choice for n, choice in enumerate(row["choices"])]
        return changed
    changed[side.name] = text
    if side.name == "context" and "answers" in row:
        starts = [start + _shift(variant, start) for start in row["answers"]["answer_start"]]
        changed["answers"] = {"text": list(row["answers"]["text"]), "answer_start": starts}
    return changed


def entity_names(rows: Iterable[Row]) -> dict[str, tuple[str, ...]]:
    """Every entity of a training set by its type, each once, in a fixed order."""
    found: dict[str, set[str]] = {}
    for row in rows:
        for (start, stop), kind in _entities(row["tags"]):
            found.setdefault(kind, set()).add(" ".join(row["words"][start:stop]))
    return {kind: tuple(sorted(names)) for kind, names in sorted(found.items())}


def _plain(name: str, text: str, stop_words: frozenset[str], taken: Sequence[Span] = ()) -> Side:
    free = [
        span
        for span in find_words(text, stop_words)
        if all(span[1] <= start or span[0] >= stop for start, stop in taken)
    ]
    return Side(name, text, tuple(Place(span) for span in free))


def _shift(variant: Variant, place: int) -> int:
    """How far replacements before a place move it."""
    return sum(len(one.new) - len(one.old) for one in variant if one.span[1] <= place)


def _entities(tags: Sequence[str]) -> list[tuple[Span, str]]:
    """Entities of IOB2 tags: where in the words, and of which type."""
    found: list[tuple[Span, str]] = []
    for place, tag in enumerate(tags):
        if tag.startswith("B-"):
            found.append(((place, place + 1), tag[2:]))
        elif tag.startswith("I-"):
            (start, _), kind = found[-1]
            found[-1] = ((start, place + 1), kind)
    return found


def _tagged(row: Row, stop_words: frozenset[str], *, swap_entities: bool) -> Side:
    """Words joined by spaces; a place is a word outside of entities, or an entity."""
    words = row["words"]
    text, starts = " ".join(words), _starts(words)
    places = []
    for word, start, tag in zip(words, starts, row["tags"], strict=True):
        if tag == "O" and find_words(word, stop_words) == [(0, len(word))]:
            places.append(Place((start, start + len(word))))
    if swap_entities:
        for (first, stop), kind in _entities(row["tags"]):
            end = starts[stop - 1] + len(words[stop - 1])
            places.append(Place((starts[first], end), kind))
    return Side("words", text, tuple(sorted(places, key=lambda place: place.span)))


def _starts(words: Sequence[str]) -> list[int]:
    starts, start = [], 0
    for word in words:
        starts.append(start)
        start += len(word) + 1
    return starts


def _retag(row: Row, variant: Variant) -> tuple[list[str], list[str]]:
    """Words and tags with replacements; an entity of another length brings its own tags."""
    starts = _starts(row["words"])
    new = {one.span[0]: one for one in variant}
    words: list[str] = []
    tags: list[str] = []
    end = 0
    for word, start, tag in zip(row["words"], starts, row["tags"], strict=True):
        if start < end:  # the rest of an entity that was replaced
            continue
        one = new.get(start)
        if one is None:
            words.append(word)
            tags.append(tag)
            continue
        end = one.span[1]
        parts = one.new.split(" ")
        words += parts
        tags += [tag, *[f"I-{tag[2:]}"] * (len(parts) - 1)]
    return words, tags
