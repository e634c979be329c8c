"""The blocks of a recipe that say how a student learns from its teacher."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from understudy.models.layer_map import MapName
from understudy.models.projections import ProjectionKind

Method = Literal["tinybert", "joint", "patient", "soft-labels"]
Normalization = Literal["real", "padded"]
Positive = Annotated[float, Field(gt=0.0)]
Weight = Annotated[float, Field(ge=0.0)]


class LayerSettings(BaseModel):
    """How a student's layers are compared with its teacher's: TinyBERT's Eqs. 7 to 9."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    block: ClassVar[str]
    """Its name in a recipe."""

    layer_map: MapName | list[int] = "uniform"
    """Which teacher layer each student layer learns from; see `models/layer_map.py`."""
    projection: ProjectionKind = "shared"
    relation_heads: Annotated[int, Field(ge=1)] | None = None
    """Heads that both sides are read as in Eq. 7; needed where their numbers of heads differ."""
    weights: dict[str, Weight] = {}
    """By term (`attention_2`) or kind of term (`embeddings`, `attention`, `hidden`); 1 where not given,
    and 0 leaves it out."""


class IntermediateSettings(LayerSettings):
    """TinyBERT's intermediate layer distillation."""

    block = "intermediate"

    training: dict[str, Any] = {}
    """transformers' TrainingArguments by its own names."""

    def choices(self) -> list[Self]:
        """As of a stage that is searched: this one is trained once."""
        return [self]


class GeneralSettings(IntermediateSettings):
    """TinyBERT's general distillation: the same losses on general text."""

    block = "general"

    corpus: str | None = None
    """A folder that `understudy corpus` wrote."""


class TrialSettings(BaseModel):
    """A stage that may be trained several times, with the best on the development set kept."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    searchable: ClassVar[tuple[str, ...]] = ()
    """Keys of its own that a search may try; the others decide what a trial reads, and not how it learns."""

    training: dict[str, Any] = {}
    """transformers' TrainingArguments by its own names."""
    search: dict[str, Annotated[list[Any], Field(min_length=1)]] = {}
    """Values to try, of this block's keys or of TrainingArguments, e.g. `learning_rate: [1e-5, 2e-5]`:
    every combination is trained, and the best on the development set is kept."""

    def choose(self, values: Mapping[str, Any]) -> Self:
        """These settings with values over them, wherever each belongs."""
        own = {key: value for key, value in values.items() if key in type(self).model_fields}
        training = {key: value for key, value in values.items() if key not in own}
        merged = {**self.model_dump(), **own, "training": {**self.training, **training}}
        return type(self).model_validate(merged)

    def choices(self) -> list[Self]:
        """These settings with every combination of the values to try, and nothing left to search."""
        combinations = itertools.product(*self.search.values())
        return [
            self.choose({"search": {}, **dict(zip(self.search, values, strict=True))})
            for values in combinations
        ]


class PredictionSettings(TrialSettings):
    """TinyBERT's prediction layer distillation: Eq. 10."""

    searchable = ("temperature",)

    temperature: Positive = 1.0


class JointSettings(LayerSettings, TrialSettings):
    """Layers, predictions and labels in one sum, the weight of the layers falling over the steps."""

    block = "joint"
    searchable = ("layers", "until", "predictions", "labels", "temperature")

    layers: Weight = 1.0
    """The weight of all layer losses at the first step."""
    until: Annotated[float, Field(gt=0.0)] = 1.0
    """The share of the steps over which that weight falls linearly to 0; above 1 it never gets there."""
    predictions: Weight = 1.0
    """The weight of the loss against the teacher's predictions (Eq. 10)."""
    labels: Weight = 1.0
    """The weight of the loss against the labels."""
    temperature: Positive = 1.0


class SoftLabelSettings(TrialSettings):
    """Patient KD's L_KD = (1 − α) L_CE + α L_DS."""

    searchable = ("alpha", "temperature", "squared")

    alpha: Annotated[float, Field(ge=0.0, le=1.0)] = 0.5
    temperature: Positive = 10.0
    squared: bool = True
    """Multiply L_DS by the temperature squared, as the authors' code does and the paper does not."""
    predictions: str | None = None
    """A Parquet file of what any model said about the training rows, in place of a teacher; see
    `stages/predictions_file.py`."""


class PatientSettings(TrialSettings):
    """Patient KD's L_PT on the first token's states, beside `soft_labels`."""

    searchable = ("beta", "normalized")

    layer_map: MapName | list[int] = "skip"
    beta: Weight = 100.0
    normalized: bool = True
    projection: ProjectionKind = "none"
    """Needed where the widths differ, which the paper leaves out."""
