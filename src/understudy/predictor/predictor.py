"""Predictions from an artifact, with only tokenizers, numpy and the artifact's engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

from understudy.artifacts.artifact import TOKENIZER, Artifact, checked_file, read_artifact, shipped_inside
from understudy.artifacts.session import Logits, Session, open_model, pad
from understudy.data.kind import Prediction, Row
from understudy.data.tokens import TextReader
from understudy.errors import DataError, ModelError, RecipeError
from understudy.kinds import get_rows
from understudy.kinds.given import is_several

# Rows are processed in parts, so that a long list takes no more memory than a short one.
_ROWS_AT_ONCE = 1_000
_CHARACTERS_AT_ONCE = 2_000_000


class Predictor:
    """A student loaded from an artifact, to be called on text.

    Args:
        artifact_dir: a folder written by `understudy export` or `understudy run`.
        model: one of the artifact's models by name, e.g. `fp32`. Defaults to the artifact's default (`int8`).
        threads: threads per forward pass. Defaults to the engine's choice.

    Examples:
        >>> from understudy import Predictor                       # doctest: +SKIP
        >>> predict = Predictor("artifacts/sst2")                  # doctest: +SKIP
        >>> predict("a film one would rather forget")              # doctest: +SKIP
        {'label': 'negative', 'score': 0.98, 'probabilities': {'negative': 0.98, 'positive': 0.02}}
    """

    def __init__(
        self, artifact_dir: str | Path, *, model: str | None = None, threads: int | None = None
    ) -> None:
        folder = shipped_inside(artifact_dir)
        artifact = read_artifact(folder)
        self._check(folder, artifact)
        session = open_model(folder, artifact, artifact.choose(model), threads=threads)
        self._assemble(artifact, session, _open_tokenizer(checked_file(folder, artifact, TOKENIZER)))

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path,
        *,
        revision: str | None = None,
        model: str | None = None,
        threads: int | None = None,
    ) -> Predictor:
        """Open an artifact from a folder, or from a repository that `understudy push` filled.

        A folder is opened without touching the network. From a repository, only the files of the chosen model
        are downloaded, once, to the cache of huggingface_hub.

        Args:
            name: a folder, or `user/name` on the hub.
            revision: a branch, tag or commit of the repository; `user/name@revision` means the same.
            model, threads: see `Predictor`.

        Examples:
            >>> Predictor.from_pretrained("ada/reviews-4l")("a fine film")["label"]  # doctest: +SKIP
            'positive'
        """
        from understudy.artifacts.download import find_artifact

        return cls(find_artifact(str(name), revision, model), model=model, threads=threads)

    @classmethod
    def from_parts(cls, artifact: Artifact, session: Session, tokenizer: Tokenizer) -> Predictor:
        """Build a predictor from parts that are not in a folder."""
        made = cls.__new__(cls)
        made._assemble(artifact, session, tokenizer)
        return made

    @staticmethod
    def _check(folder: Path, artifact: Artifact) -> None:
        try:
            kind = get_rows(artifact.kind)
        except RecipeError as error:
            raise ModelError(f"{folder}: {error}") from None
        if kind.has_named_labels and not artifact.labels:
            raise ModelError(f"{folder} must have the labels of a {kind} model. Export the student again.")

    def _assemble(self, artifact: Artifact, session: Session, tokenizer: Tokenizer) -> None:
        self.artifact, self._session = artifact, session
        self.kind = get_rows(artifact.kind)
        self._reader = TextReader(
            tokenizer,
            windows=self.kind.has_windows,
            max_length=artifact.max_length,
            stride=artifact.stride,
            truncation_side=artifact.truncation_side,
        )

    def __repr__(self) -> str:
        labels = f", labels: {', '.join(self.labels)}" if self.labels else ""
        return f"Predictor({self.artifact.task}, {self.kind}{labels})"

    @property
    def labels(self) -> list[str]:
        """The labels that a prediction may have, in the model's order; empty if it has none."""
        return self.kind.predicted_labels(self.artifact.labels or ())

    def __call__(self, inputs: Any, *, batch_size: int = 32) -> Any:
        """Return the prediction for one input, or a list of predictions for several.

        Several inputs are a list, a column of a pandas or polars frame, an array, or another iterable, but
        not a tuple.
        An input is a string or, if there are several fields, a tuple in the order of `artifact.fields` or a
        mapping: `("first", "second")`, `{"question": …, "context": …}`, `{"context": …, "question": …,
        "choices": […]}`, `{"words": […]}`. The keys of the prediction depend on the kind:

        - classification: `label`, `score`, `probabilities`
        - multi-label: `labels`, those whose probability reaches the artifact's threshold, and `probabilities`
        - regression: `score`
        - ranking: `score`, the probability that the passage is relevant; `rank` orders passages of a query
        - question answering: `answer`, `start`, `end` (characters of the context), `score`; also `has_answer`
          if questions may be unanswerable
        - multiple choice: `choice`, `score`, `probabilities`
        - embedding: `vector`, a list of numbers; `embed` returns all of them as one array
        - token classification: `entities`, each with `label`, `text`, `start`, `end` (characters, or words if
          words were given), `score`

        `truncated` is present, and true, if a text was longer than the model's limit.
        """
        if is_several(inputs):
            return list(self.stream(inputs, batch_size=batch_size))
        return next(self.stream([inputs], batch_size=batch_size))

    def embed(
        self,
        texts: Sequence[str],
        *,
        batch_size: int = 32,
        dtype: Literal["float32", "int8"] = "float32",
        dimension: int | None = None,
    ) -> NDArray[Any]:
        """Return the vectors of several texts as an array with a row for each.

        Args:
            dtype: `int8` scales each vector to length 1 and rounds to whole numbers from -127 to 127, in a
                quarter of the memory. Convert to int32 before you multiply: products of int8 overflow.
            dimension: keep this many values from the start of each vector, scaled to length 1 again.

        Examples:
            >>> embed = Predictor("artifacts/search").embed            # doctest: +SKIP
            >>> vectors = embed(["a text", "another"])                 # doctest: +SKIP
            >>> vectors @ vectors.T                                    # doctest: +SKIP
        """
        if isinstance(texts, str):
            raise DataError("embed takes several texts: a list of strings.")
        if dtype not in ("float32", "int8"):
            raise DataError(f"dtype must be float32 or int8; got {dtype!r}.")
        if not self.kind.has_vectors:
            raise ModelError(f"this artifact predicts for {self.kind}; only embedding models make vectors.")
        rows = [np.array(one["vector"], np.float32) for one in self.stream(texts, batch_size=batch_size)]
        vectors = np.stack(rows) if rows else np.zeros((0, 0), np.float32)
        if dimension is not None and rows:
            if not 1 <= dimension <= vectors.shape[1]:
                raise DataError(f"dimension must be from 1 to {vectors.shape[1]}; got {dimension}.")
            vectors = vectors[:, :dimension]
        if dimension is not None or dtype == "int8":
            vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        if dtype == "int8":
            return np.rint(vectors * 127).astype(np.int8)
        return vectors

    def rank(
        self, query: str, passages: Sequence[str], *, top: int | None = None, batch_size: int = 32
    ) -> list[tuple[int, float]]:
        """Return the places of the passages with their scores, the most relevant first.

        Args:
            top: return this many at most.

        Examples:
            >>> rank = Predictor("artifacts/rerank").rank              # doctest: +SKIP
            >>> rank("how do I pay", ["By card.", "Open on Sundays."])  # doctest: +SKIP
            [(0, 0.97), (1, 0.02)]
        """
        if not self.kind.has_relevance:
            raise ModelError(f"this artifact predicts for {self.kind}; only ranking models rank passages.")
        pairs = ((query, passage) for passage in passages)
        scores = [one["score"] for one in self.stream(pairs, batch_size=batch_size)]
        order = sorted(range(len(scores)), key=lambda place: -scores[place])
        return [(place, scores[place]) for place in order[:top]]

    def stream(self, inputs: Any, *, batch_size: int = 32) -> Iterator[Prediction]:
        """Yield predictions for any number of inputs, in order, with constant memory."""
        part: list[Row] = []
        characters = 0
        for given in inputs:
            row = self.kind.parse(given, self.artifact.fields)
            part.append(row)
            characters += _size(row)
            if len(part) == _ROWS_AT_ONCE or characters > _CHARACTERS_AT_ONCE:
                yield from self._predict(part, batch_size)
                part, characters = [], 0
        if part:
            yield from self._predict(part, batch_size)

    def _predict(self, rows: Sequence[Row], batch_size: int) -> Iterator[Prediction]:
        artifact, kind = self.artifact, self.kind
        readings = list(kind.read(rows, self._reader, artifact.fields))
        logits = iter(self._run([one for reading in readings for one in reading.encodings], batch_size))
        for reading in readings:
            found = [next(logits) for _ in reading.encodings]
            prediction = kind.decode(
                reading, found, artifact.labels or (), unanswerable=artifact.unanswerable
            )
            if artifact.thresholds is not None:
                prediction = kind.apply_thresholds(prediction, artifact.thresholds)
            if not kind.has_windows and any(one.overflowing for one in reading.encodings):
                prediction["truncated"] = True
            yield prediction

    def _run(self, encodings: Sequence[Encoding], batch_size: int) -> list[Logits]:
        """Run the model in batches of similar length; return the logits of each encoding in order."""
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
                made[place] = tuple(value / self.artifact.temperature for value in values)
        return made


def _open_tokenizer(path: Path) -> Tokenizer:
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises plain Exception
        raise ModelError(f"{path} cannot be read: {error}. Export the student again.") from None


def _size(row: Row) -> int:
    return sum(
        len(value) if isinstance(value, str) else sum(map(len, value)) for value in row.values() if value
    )
