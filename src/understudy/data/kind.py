"""What the rest of the code asks of a task kind. The kinds themselves are in `understudy.kinds`.

`RowKind` is the part without torch: which fields a row has, how it is checked, encoded and predicted.
`Kind` adds what learning needs: losses, scores, augmentation. No other module compares a kind's name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding

from understudy.data.tokens import TextReader

if TYPE_CHECKING:
    import pyarrow as pa
    from datasets import Dataset, Features
    from torch import Tensor

    from understudy.data.task import Task

Row = dict[str, Any]
Batch = Mapping[str, list[Any]]
Encoded = dict[str, list[Any]]
Prediction = dict[str, Any]
Logits = Sequence[tuple[NDArray[np.floating], ...]]
"""For each input of a row, the model's outputs."""


@dataclass(frozen=True)
class Reading:
    """A row as a model reads it: one input, or one for each window or choice.

    Attributes:
        details: what decoding needs beside the logits, by kind.
    """

    row: Row
    encodings: list[Encoding]
    details: Any = None


class RowKind(ABC):
    """The rows of a task kind, without torch.

    Attributes:
        name: in recipes and artifacts.
        auto_class: the class in transformers that loads such a model.
        pipeline: the name of the task on the hub.
        required, optional: fields of a source row.
        inputs: fields that a prediction needs, in the order in which a caller gives them.
        usual_columns: names of a field's column in published files, most telling first.
        label_field: the field with what is right.
        has_named_labels: whether labels have names, which the model's config holds.
        has_windows: whether long contexts are read in overlapping windows.
        outputs: names of the model's outputs.
        is_per_token: whether outputs have a value for each token.
        metrics, max_length, unanswerable: of a user's own files of this kind.
        example: an input for the model card.
    """

    name: ClassVar[str]
    auto_class: ClassVar[str]
    pipeline: ClassVar[str]
    required: ClassVar[tuple[str, ...]]
    optional: ClassVar[tuple[str, ...]] = ()
    inputs: ClassVar[tuple[str, ...]]
    usual_columns: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    label_field: ClassVar[str] = "label"
    has_named_labels: ClassVar[bool] = False
    has_windows: ClassVar[bool] = False
    outputs: ClassVar[tuple[str, ...]] = ("logits",)
    is_per_token: ClassVar[bool] = False
    metrics: ClassVar[tuple[str, ...]]
    max_length: ClassVar[int] = 128
    unanswerable: ClassVar[bool] = False
    example: ClassVar[str] = '"a text"'

    def __str__(self) -> str:
        return self.name

    @property
    def fields(self) -> tuple[str, ...]:
        return self.required + self.optional

    @abstractmethod
    def check(self, values: Mapping[str, Any], ids: Mapping[str, int] | None) -> Row:
        """Check the values of a source row and return a clean row.

        Args:
            ids: spelling of a label to its id; None for kinds whose labels have no names.

        Raises:
            BadRowError: saying what is wrong.
        """

    def label_names(self, value: Any) -> Iterable[str]:
        """The names of labels in a source row's label field."""
        raise TypeError(f"labels of {self.name} have no names")

    def order_labels(self, found: Iterable[str]) -> tuple[str, ...]:
        """The labels of a source in the order of their ids."""
        return tuple(sorted(found))

    def inside_labels(self, labels: Sequence[str] | None) -> list[int] | None:
        """For each label, the one that goes on with it; None where labels stand alone."""
        return None

    @abstractmethod
    def encode(
        self, batch: Batch, reader: TextReader, names: Sequence[str], inside: Sequence[int] | None = None
    ) -> Encoded:
        """Encode checked rows for training, with their labels."""

    @abstractmethod
    def parse(self, given: Any, fields: Sequence[str]) -> Row:
        """Turn what a caller gives into the fields of a row, checked."""

    @abstractmethod
    def read(self, rows: Sequence[Row], reader: TextReader, fields: Sequence[str]) -> Iterable[Reading]:
        """Encode parsed rows for a prediction."""

    @abstractmethod
    def decode(
        self, reading: Reading, logits: Logits, labels: Sequence[str], *, unanswerable: bool
    ) -> Prediction:
        """Turn logits into a prediction."""

    @abstractmethod
    def show(self, prediction: Prediction) -> str:
        """A prediction on one line, with tabs between its parts."""


class Kind(RowKind):
    """A task kind with all that learning it needs.

    Attributes:
        has_classes: whether predictions are a choice among classes, which a temperature softens.
        has_agreement: whether two models can be said to agree on a row.
        has_entities: whether rows have entities that augmentation may swap.
        picture: how a report shows the predictions: `confusion`, `scatter`, or not at all.
        accepts_predictions: whether soft labels may come from a file of predictions.
    """

    has_classes: ClassVar[bool] = True
    has_agreement: ClassVar[bool] = True
    has_entities: ClassVar[bool] = False
    picture: ClassVar[str | None] = None
    accepts_predictions: ClassVar[bool] = False

    @abstractmethod
    def features(self, labels: Sequence[str] | None, *, pair: bool) -> Features:
        """Columns of a checked dataset, but for `row`."""

    @abstractmethod
    def arrow_columns(self, *, pair: bool) -> dict[str, pa.DataType]:
        """Columns of augmented rows, with labels by name."""

    def configure(self, config: Any, labels: Sequence[str] | None) -> None:
        """Write the labels into a model's config."""
        if labels is not None:
            config.id2label = dict(enumerate(labels))
            config.label2id = {name: index for index, name in enumerate(labels)}

    def check_head(self, config: Any) -> str | None:
        """Say what is wrong with a head for such a task; None where nothing is."""
        return None

    @abstractmethod
    def prediction_losses(
        self, student: Any, teacher: Any, batch: Mapping[str, Tensor], *, temperature: float, padded: bool
    ) -> dict[str, Tensor]:
        """TinyBERT Eq. 10 as this kind has it, by name, one value for each example."""

    @abstractmethod
    def label_loss(self, student: Any, batch: Mapping[str, Tensor]) -> Tensor:
        """The loss against the labels, one value for each example."""

    @abstractmethod
    def soft_label_loss(
        self, student: Any, teacher: Any, batch: Mapping[str, Tensor], *, temperature: float, squared: bool
    ) -> Tensor:
        """The loss against the teacher's predictions, one value for each example."""

    @abstractmethod
    def judge(self, task: Task, rows: Dataset, encoded: Dataset, logits: tuple[NDArray[Any], ...]) -> Any:
        """Predictions and outcomes of a whole split; see `evaluation/outcomes.py`."""

    @abstractmethod
    def metric(self, name: str) -> Any:
        """The metric of a name: a function of outcomes."""

    @abstractmethod
    def sides(self, row: Row, stop_words: frozenset[str], *, swap_entities: bool) -> list[Any]:
        """The texts of a row that augmentation may change."""

    @abstractmethod
    def change(self, row: Row, side: Any, variant: Any) -> Row:
        """The row with a variant of one of its sides."""

    def entity_names(self, rows: Iterable[Row]) -> dict[str, tuple[str, ...]]:
        """Every entity of some rows by its type."""
        return {}

    def best_guess(self, rows: Dataset) -> float | None:
        """The share of rows that always giving one answer gets right; None where that says nothing."""
        return None

    def num_values(self, encoded: Dataset, labels: Sequence[str] | None) -> NDArray[np.int64]:
        """How many numbers a file of predictions must have for each row."""
        return np.full(len(encoded), 1 if labels is None else len(labels))

    def separate_texts(self, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Shape texts as the model takes them, each for itself."""
        return inputs

    def join_texts(self, logits: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
        """Put the logits of separate texts together again, for inputs of a shape."""
        return logits

    def texts(self, row: Mapping[str, Any]) -> tuple[str, ...]:
        """The texts of a row as people read them."""
        return tuple(str(row[name]) for name in self.inputs if row.get(name))

    def gold(self, row: Mapping[str, Any]) -> Any:
        """What is right for a row."""
        return row[self.label_field]

    def count_tokens(self, tokenizer: Any, row: Mapping[str, Any]) -> int:
        """Tokens of a row before it is cut."""
        return len(tokenizer(*self.texts(row))["input_ids"])
