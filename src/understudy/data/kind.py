"""The interface of a task kind. The kinds themselves are in `understudy.kinds`.

`RowKind` is the part without torch: the fields of a row, and how it is checked, encoded and predicted.
`Kind` adds what training needs: losses, scores, augmentation. No other module compares a kind's name.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding

from understudy.data.tokens import TextReader

if TYPE_CHECKING:
    from datasets import Dataset
    from torch import Tensor

    from understudy.data.task import Task

Row = dict[str, Any]
Batch = Mapping[str, list[Any]]
Encoded = dict[str, list[Any]]
Prediction = dict[str, Any]
Logits = Sequence[tuple[NDArray[np.floating], ...]]
"""The model's outputs for each input of a row."""
ColumnType: TypeAlias = "str | list[ColumnType] | dict[str, ColumnType]"
"""`text`, `label`, `integer` or `number`; a list of one of them; or several by name."""


@dataclass(frozen=True)
class Reading:
    """A row as model inputs: one, or one for each window or choice.

    Attributes:
        details: what decoding needs besides the logits, by kind.
    """

    row: Row
    encodings: list[Encoding]
    details: Any = None


class RowKind(ABC):
    """The rows of a task kind, without torch.

    Attributes:
        name: its name in recipes and artifacts.
        auto_class: the class in transformers that loads such a model.
        pipeline: the name of its task on the hub.
        required, optional: fields of a source row.
        inputs: fields that a prediction needs, in the order in which a caller gives them.
        usual_columns: common column names of a field in published files, most specific first.
        label_field: the field with the correct answer.
        has_named_labels: whether labels have names, which the model's config holds.
        has_plain_labels: whether the label of a row is one number, the id of a class or a score.
        has_windows: whether long contexts are read in overlapping windows.
        has_classes: whether predictions choose among classes, with probabilities that a temperature softens.
        accepts_predictions: whether soft labels may come from a file of predictions.
        outputs: names of the model's outputs.
        is_per_token: whether outputs have a value for each token.
        has_vectors: whether predictions are vectors.
        has_relevance: whether predictions say how relevant a passage is to a query.
        needs_head: whether a model must have been fine-tuned to predict; otherwise any encoder will do.
        learns_from_labels: whether training rows may have labels.
        scored_fields: fields that development rows must have besides the required ones.
        unlabelled_fields: fields of rows without labels besides the inputs; the rows may lack them.
        list_fields: inputs that are lists of strings.
        equal_lists: those of them that must have equal lengths in all rows, since a batch stacks them.
        takes_all_texts: whether all texts given on the command line form one row.
        sentence_fields: inputs that are plain text, for which similar sentences can be found in a corpus.
        metrics, max_length, unanswerable: defaults for a user's own files of this kind.
        example: an example input for the model card.
        call: how `Predictor` is called in the model card, with `{}` for the example.
        library: the library that loads a student.
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
    has_plain_labels: ClassVar[bool] = True
    has_windows: ClassVar[bool] = False
    has_classes: ClassVar[bool] = True
    accepts_predictions: ClassVar[bool] = False
    outputs: ClassVar[tuple[str, ...]] = ("logits",)
    is_per_token: ClassVar[bool] = False
    has_vectors: ClassVar[bool] = False
    has_relevance: ClassVar[bool] = False
    needs_head: ClassVar[bool] = True
    learns_from_labels: ClassVar[bool] = True
    scored_fields: ClassVar[tuple[str, ...]] = ()
    unlabelled_fields: ClassVar[tuple[str, ...]] = ()
    list_fields: ClassVar[tuple[str, ...]] = ()
    equal_lists: ClassVar[tuple[str, ...]] = ()
    takes_all_texts: ClassVar[bool] = False
    sentence_fields: ClassVar[tuple[str, ...]] = ()
    metrics: ClassVar[tuple[str, ...]]
    max_length: ClassVar[int] = 128
    unanswerable: ClassVar[bool] = False
    example: ClassVar[str] = '"a text"'
    call: ClassVar[str] = "predict({})"
    library: ClassVar[str] = "transformers"

    def __str__(self) -> str:
        return self.name

    @property
    def fields(self) -> tuple[str, ...]:
        return self.required + self.optional

    @property
    def learnt_fields(self) -> tuple[str, ...]:
        """The fields that a teacher reads."""
        return self.inputs + self.unlabelled_fields

    @property
    def group_fields(self) -> tuple[str, ...]:
        """The fields that define a group: rows with equal values are all trained on, or all scored."""
        return self.inputs

    def loading(self, name: str) -> str:
        """Return the code that loads a student, for the model card."""
        return (
            f"from transformers import {self.auto_class}, AutoTokenizer\n\n"
            f'model = {self.auto_class}.from_pretrained("{name}")\n'
            f'tokenizer = AutoTokenizer.from_pretrained("{name}")'
        )

    @abstractmethod
    def check(self, values: Mapping[str, Any], ids: Mapping[str, int] | None) -> Row:
        """Check the values of a source row and return a clean row.

        Args:
            ids: maps each spelling of a label to its id; None for kinds without named labels.

        Raises:
            BadRowError: if the row is invalid.
        """

    @abstractmethod
    def columns(self, fields: Collection[str]) -> dict[str, ColumnType]:
        """Return the type of each column of checked rows, except `row`, for a source with these fields."""

    def check_scored(self, rows: Dataset) -> str | None:
        """Return why development rows cannot be scored, or None."""
        return None

    def placeholder(self, values: Mapping[str, Any], ids: Mapping[str, int] | None) -> Any:
        """Return a valid label for a row that has none; losses against labels ignore it."""
        return next(iter(ids)) if ids else 0

    def label_names(self, value: Any) -> Iterable[str]:
        """Return the label names in a source row's label field."""
        raise TypeError(f"labels of {self.name} have no names")

    def order_labels(self, found: Iterable[str]) -> tuple[str, ...]:
        """Return the labels of a source in the order of their ids."""
        return tuple(sorted(found))

    @abstractmethod
    def encode(
        self, batch: Batch, reader: TextReader, names: Sequence[str], labels: Sequence[str] | None = None
    ) -> Encoded:
        """Encode checked rows for training, with their labels.

        Args:
            names: names of the model's inputs.
            labels: label names in the order of their ids; None for kinds without named labels.
        """

    @abstractmethod
    def parse(self, given: Any, fields: Sequence[str]) -> Row:
        """Check a caller's input and turn it into the fields of a row."""

    def num_texts(self, row: Row) -> int:
        """Return how many texts the model reads for a parsed row."""
        return 1

    @abstractmethod
    def read(self, rows: Sequence[Row], reader: TextReader, fields: Sequence[str]) -> Iterable[Reading]:
        """Encode parsed rows for prediction."""

    @abstractmethod
    def decode(
        self, reading: Reading, logits: Logits, labels: Sequence[str], *, unanswerable: bool
    ) -> Prediction:
        """Turn logits into a prediction."""

    def apply_thresholds(self, prediction: Prediction, thresholds: Mapping[str, float]) -> Prediction:
        """Apply an artifact's thresholds to a prediction: the lowest probability for each label."""
        raise TypeError(f"predictions of {self.name} have no thresholds")

    @abstractmethod
    def show(self, prediction: Prediction) -> str:
        """Format a prediction on one line, with tabs between its parts."""

    def predicted_labels(self, labels: Sequence[str]) -> list[str]:
        """Return the labels that predictions may have, given those of a model."""
        return list(labels)

    def labels_given(self, prediction: Prediction) -> list[str]:
        """Return the labels in a prediction, to count them."""
        return [str(prediction["label"])] if "label" in prediction else []

    def cells(self, prediction: Prediction) -> Prediction:
        """Format a prediction as cells of a table: lists and mappings are JSON."""
        return {
            name: json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value
            for name, value in prediction.items()
        }


class Kind(RowKind):
    """A task kind with everything needed for training.

    Attributes:
        classes_exclude: whether classes exclude each other, so that the probabilities of a row sum to 1.
        predicts_labels: whether predictions have the form of labels, so that a teacher can label rows.
        has_agreement: whether agreement of two models on a row is defined.
        has_entities: whether rows have entities that augmentation may swap.
        picture: how a report plots the predictions: `confusion`, `scatter`, or None.
    """

    classes_exclude: ClassVar[bool] = True
    has_agreement: ClassVar[bool] = True
    predicts_labels: ClassVar[bool] = True
    has_entities: ClassVar[bool] = False
    picture: ClassVar[str | None] = None

    def configure(self, config: Any, labels: Sequence[str] | None, teacher_config: Any | None = None) -> None:
        """Write the labels into a model's config.

        Args:
            teacher_config: its teacher's config, if the model is a student.
        """
        if labels is not None:
            config.id2label = dict(enumerate(labels))
            config.label2id = {name: index for index, name in enumerate(labels)}

    def own_class(self, config: Any) -> Any | None:
        """Return the model class for a config, if it is not in transformers."""
        return None

    def vector_size(self, config: Any) -> int | None:
        """Return the width of a model's vectors; None for kinds that predict something else."""
        return None

    def finish_cut(self, student: Any, channels: Tensor, source: Any) -> None:
        """Set the parameters of a cut student that its source does not have, other than those of a head.

        Args:
            channels: the source's hidden channels that the student keeps.
            source: the source's config.
        """

    def finish_folder(self, folder: Path, max_length: int) -> None:
        """Write any other files that a finished student's folder needs for other libraries to load it."""

    def check_head(self, config: Any) -> str | None:
        """Return what is wrong with a head for such a task, or None."""
        return None

    @abstractmethod
    def prediction_losses(
        self, student: Any, teacher: Any, batch: Mapping[str, Tensor], *, temperature: float, padded: bool
    ) -> dict[str, Tensor]:
        """Return the losses of TinyBERT Eq. 10 for this kind by name, one value per example."""

    def label_loss(self, student: Any, batch: Mapping[str, Tensor]) -> Tensor:
        """Return the loss against the labels, one value per example; for kinds that learn from labels."""
        raise TypeError(f"{self.name} is not learnt from labels")

    def soft_label_loss(
        self, student: Any, teacher: Any, batch: Mapping[str, Tensor], *, temperature: float, squared: bool
    ) -> Tensor:
        """Return the loss against the teacher's predictions, one value per example; see `label_loss`."""
        raise TypeError(f"{self.name} is not learnt from labels")

    @abstractmethod
    def judge(self, task: Task, rows: Dataset, encoded: Dataset, logits: tuple[NDArray[Any], ...]) -> Any:
        """Return the predictions and outcomes of a whole split; see `evaluation/outcomes.py`."""

    def compare(self, first: Any, second: Any) -> dict[str, float]:
        """Return figures on how close two models' predictions for the same rows are, besides agreement."""
        return {}

    def label_rows(
        self, task: Task, rows: Dataset, encoded: Dataset, logits: tuple[NDArray[Any], ...]
    ) -> list[Row]:
        """Return rows with a model's predictions as their labels, to score other models with."""
        values = self.judge(task, rows, encoded, logits).values
        return [
            {
                **{name: row[name] for name in self.inputs if row.get(name) is not None},
                self.label_field: value,
            }
            for row, value in zip(rows, values, strict=True)
        ]

    def choose_thresholds(
        self, rows: Dataset, encoded: Dataset, logits: tuple[NDArray[Any], ...]
    ) -> dict[str, float] | None:
        """Return the lowest probability at which each label is predicted, chosen on a split, or None."""
        return None

    @abstractmethod
    def metric(self, name: str) -> Any:
        """Return the metric with this name: a function of outcomes."""

    @abstractmethod
    def sides(self, row: Row, stop_words: frozenset[str], *, swap_entities: bool) -> list[Any]:
        """Return the texts of a row that augmentation may change."""

    @abstractmethod
    def change(self, row: Row, side: Any, variant: Any) -> Row:
        """Return the row with a variant of one of its sides."""

    def entity_names(self, rows: Iterable[Row]) -> dict[str, tuple[str, ...]]:
        """Return every entity of some rows by type."""
        return {}

    def best_guess(self, rows: Dataset) -> float | None:
        """Return the accuracy of the best constant answer; None if that is not meaningful."""
        return None

    def prediction_groups(self, logits: tuple[NDArray[Any], ...]) -> NDArray[np.int64] | None:
        """Return a group for each prediction, to balance rows by; None if that is not meaningful."""
        return None

    def decisions(
        self, rows: Dataset, encoded: Dataset, logits: tuple[NDArray[Any], ...]
    ) -> tuple[NDArray[Any], NDArray[np.int64]] | None:
        """Return logits over classes and the correct class of each decision, to calibrate probabilities with.

        None if predictions have no probabilities.
        """
        return None

    def num_values(self, encoded: Dataset, labels: Sequence[str] | None) -> NDArray[np.int64]:
        """Return how many numbers a file of predictions must have for each row."""
        return np.full(len(encoded), 1 if labels is None else len(labels))

    def separate_texts(self, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Reshape the inputs so that the model takes each text on its own."""
        return inputs

    def join_texts(self, logits: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
        """Join the logits of separate texts, for inputs of this shape."""
        return logits

    def texts(self, row: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the texts of a row in readable form."""
        return tuple(str(row[name]) for name in self.inputs if row.get(name))

    def gold(self, row: Mapping[str, Any]) -> Any:
        """Return the correct answer of a row."""
        return row[self.label_field]

    def count_tokens(self, tokenizer: Any, row: Mapping[str, Any]) -> int:
        """Return the number of tokens of a row before truncation."""
        return len(tokenizer(*self.texts(row))["input_ids"])
