"""Answers from an artifact: tokenizers, numpy and the artifact's engine, nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

from understudy.artifacts.artifact import TOKENIZER, Artifact, checked_file, read_artifact
from understudy.artifacts.session import Logits, Session, open_model, pad
from understudy.data.decode import best_answer, entities, softmax, word_tags
from understudy.data.tokens import TextReader, Window
from understudy.errors import ModelError
from understudy.serve.rows import Row, read_row

Answer = dict[str, Any]
# Rows are read in parts, so that a long list takes no more memory than a short one.
_ROWS_AT_ONCE = 1_000
_CHARACTERS_AT_ONCE = 2_000_000


@dataclass(frozen=True)
class _Reading:
    """A row's inputs of the model: one, or one for each window or choice.

    Attributes:
        word_ids: see `TextReader.words`.
    """

    row: Row
    encodings: list[Encoding]
    windows: Sequence[Window] = ()
    word_ids: Sequence[int] = ()


class Predictor:
    """A student in use.

    Args:
        artifact_dir: a folder that `understudy export` wrote.
        model: one of the artifact's by name, e.g. `fp32`; its default (`int8`) where not given.
        threads: of one pass; the engine's choice where not given.

    Example:
        >>> from understudy.serve import Predictor                 # doctest: +SKIP
        >>> predict = Predictor("artifacts/sst2")                  # doctest: +SKIP
        >>> predict("a film one would rather forget")              # doctest: +SKIP
        {'label': 'negative', 'probabilities': {'negative': 0.98, 'positive': 0.02}}
    """

    def __init__(
        self, artifact_dir: str | Path, *, model: str | None = None, threads: int | None = None
    ) -> None:
        folder = Path(artifact_dir).expanduser()
        artifact = read_artifact(folder)
        session = open_model(folder, artifact, artifact.choose(model), threads=threads)
        self._assemble(artifact, session, _open_tokenizer(checked_file(folder, artifact, TOKENIZER)))

    @classmethod
    def of(cls, artifact: Artifact, session: Session, tokenizer: Tokenizer) -> Predictor:
        """A predictor of parts that lie in no folder."""
        made = cls.__new__(cls)
        made._assemble(artifact, session, tokenizer)
        return made

    def _assemble(self, artifact: Artifact, session: Session, tokenizer: Tokenizer) -> None:
        self.artifact, self._session = artifact, session
        self._reader = TextReader(
            tokenizer,
            artifact.kind,
            max_length=artifact.max_length,
            stride=artifact.stride,
            truncation_side=artifact.truncation_side,
        )

    def __call__(self, inputs: Any, *, batch_size: int = 32) -> Any:
        """The answer to one input, or a list of answers to a list of them.

        An input is a string, or for more than one field a tuple in the order of `artifact.fields` or a
        mapping: `("first", "second")`, `{"question": …, "context": …}`, `{"context": …, "question": …,
        "choices": […]}`, `{"words": […]}`. By kind the answer has:

        - classification: `label`, `probabilities`
        - regression: `score`
        - question answering: `answer`, `start`, `end` (characters of the context), `score`; where there may
          be none also `has_answer`
        - multiple choice: `choice`, `probabilities`
        - token classification: `entities`, each with `type`, `text`, `start`, `end` (characters, or words
          where words were given), `probability`

        `truncated` is there, and true, where a text was longer than the model reads.
        """
        if isinstance(inputs, list):
            return list(self.stream(inputs, batch_size=batch_size))
        return next(self.stream([inputs], batch_size=batch_size))

    def stream(self, inputs: Any, *, batch_size: int = 32) -> Iterator[Answer]:
        """Answers to any number of inputs, in their order; memory does not grow with them."""
        part: list[Row] = []
        characters = 0
        for given in inputs:
            row = read_row(given, self.artifact.kind, self.artifact.fields)
            part.append(row)
            characters += _size(row)
            if len(part) == _ROWS_AT_ONCE or characters > _CHARACTERS_AT_ONCE:
                yield from self._answer(part, batch_size)
                part, characters = [], 0
        if part:
            yield from self._answer(part, batch_size)

    def _answer(self, rows: Sequence[Row], batch_size: int) -> Iterator[Answer]:
        readings = list(self._read(rows))
        logits = iter(self._run([one for reading in readings for one in reading.encodings], batch_size))
        for reading in readings:
            found = [next(logits) for _ in reading.encodings]
            answer = _DECODERS[self.artifact.kind](self, reading, found)
            if not reading.windows and any(one.overflowing for one in reading.encodings):
                answer["truncated"] = True
            yield answer

    def _read(self, rows: Sequence[Row]) -> Iterator[_Reading]:
        kind = self.artifact.kind
        if kind == "question-answering":
            windows: list[list[Window]] = [[] for _ in rows]
            columns = [[row[name] for row in rows] for name in ("question", "context")]
            for window in self._reader.questions(*columns):
                windows[window.question].append(window)
            for row, own in zip(rows, windows, strict=True):
                yield _Reading(row, [window.encoding for window in own], windows=own)
        elif kind == "multiple-choice":
            for row in rows:
                yield _Reading(row, self._reader.choices(row["context"], row["question"], row["choices"]))
        elif kind == "token-classification":
            for row in rows:
                if row["text"] is None:
                    (read,) = self._reader.words([row["words"]])
                else:
                    ((read, spans),) = self._reader.raw_words([row["text"]])
                    row = {**row, "spans": spans}
                yield _Reading(row, [read.encoding], word_ids=read.word_ids)
        else:
            columns = [[row[name] for row in rows] for name in self.artifact.fields]
            for row, encoding in zip(rows, self._reader.texts(*columns), strict=True):
                yield _Reading(row, [encoding])

    def _run(self, encodings: Sequence[Encoding], batch_size: int) -> list[Logits]:
        """Logits of each, those of tokens without padding; texts of like length share a batch."""
        lengths = [len(one.ids) for one in encodings]
        order = sorted(range(len(encodings)), key=lambda place: -lengths[place])
        made: list[Logits] = [()] * len(encodings)
        for start in range(0, len(order), batch_size):
            places = order[start : start + batch_size]
            batch = pad(
                [
                    {"input_ids": encodings[place].ids, "token_type_ids": encodings[place].type_ids}
                    for place in places
                ],
                self.artifact.padding,
            )
            for place, *values in zip(places, *self._session(batch), strict=True):
                made[place] = tuple(values)
        return made

    def _label(self, _: _Reading, found: Sequence[Logits]) -> Answer:
        labels, probabilities = self.artifact.labels or (), softmax(found[0][0])
        return {
            "label": labels[int(probabilities.argmax())],
            "probabilities": dict(zip(labels, probabilities.tolist(), strict=True)),
        }

    def _score(self, _: _Reading, found: Sequence[Logits]) -> Answer:
        return {"score": float(found[0][0].reshape(-1)[0])}

    def _span(self, reading: _Reading, found: Sequence[Logits]) -> Answer:
        answer = best_answer(
            (starts, ends, window.starts, window.ends)
            for (starts, ends), window in zip(found, reading.windows, strict=True)
        )
        is_null = not np.isfinite(answer.score) or (self.artifact.unanswerable and answer.is_null())
        start, end = (0, 0) if is_null else (answer.start, answer.end)
        content = {
            "answer": reading.row["context"][start:end],
            "start": start,
            "end": end,
            "score": answer.null_score if is_null else answer.score,
        }
        return content | ({"has_answer": not is_null} if self.artifact.unanswerable else {})

    def _choice(self, _: _Reading, found: Sequence[Logits]) -> Answer:
        probabilities = softmax(np.array([one[0].reshape(-1)[0] for one in found]))
        return {"choice": int(probabilities.argmax()), "probabilities": probabilities.tolist()}

    def _entities(self, reading: _Reading, found: Sequence[Logits]) -> Answer:
        labels, words, text = self.artifact.labels or (), reading.row["words"], reading.row["text"]
        spans = reading.row["spans"]
        logits_LC: NDArray[Any] = found[0][0]
        tags = word_tags(logits_LC, reading.word_ids, len(spans), labels.index("O"))
        probabilities = softmax(logits_LC).max(axis=-1)
        sure = {word: float(probabilities[place]) for place, word in enumerate(reading.word_ids) if word >= 0}
        made = []
        for kind, first, last in entities([labels[tag] for tag in tags]):
            start, end = spans[first][0], spans[last][1]
            made.append(
                {
                    "type": kind,
                    "text": " ".join(words[first : last + 1]) if text is None else text[start:end],
                    "start": start,
                    "end": end,
                    "probability": min(sure[word] for word in range(first, last + 1)),
                }
            )
        return {"entities": made}


_DECODERS: Mapping[str, Any] = {
    "classification": Predictor._label,
    "regression": Predictor._score,
    "question-answering": Predictor._span,
    "multiple-choice": Predictor._choice,
    "token-classification": Predictor._entities,
}


def _open_tokenizer(path: Path) -> Tokenizer:
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises the bare class
        raise ModelError(f"{path} cannot be read: {error}. Export the student again.") from None


def _size(row: Row) -> int:
    return sum(
        len(value) if isinstance(value, str) else sum(map(len, value)) for value in row.values() if value
    )
