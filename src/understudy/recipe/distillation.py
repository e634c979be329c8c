"""The blocks of a recipe that define how a student learns from its teacher."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from understudy.models.layer_map import MapName
from understudy.models.settings import ProjectionKind

Method = Literal["tinybert", "joint", "patient", "soft-labels"]
Normalization = Literal["real", "padded"]
Positive = Annotated[float, Field(gt=0.0)]
Weight = Annotated[float, Field(ge=0.0)]


class LayerSettings(BaseModel):
    """Settings for comparing a student's layers with its teacher's: TinyBERT's Eqs. 7 to 9."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    block: ClassVar[str]
    """Its name in a recipe."""

    layer_map: MapName | list[int] = "uniform"
    """The teacher layer that each student layer learns from; see `models/layer_map.py`."""
    projection: ProjectionKind = "shared"
    relation_heads: Annotated[int, Field(ge=1)] | None = None
    """Number of heads that both models are regrouped into in Eq. 7; needed if their head counts differ."""
    weights: dict[str, Weight] = {}
    """Weights by term (`attention_2`) or kind of term (`embeddings`, `attention`, `hidden`). Defaults to 1;
    0 leaves a term out."""
    rows: Literal["all", "unlabelled"] = "all"
    """Which rows the layers learn from: all, or only those of `data.unlabelled`, which the teacher has not
    memorised."""


class IntermediateSettings(LayerSettings):
    """TinyBERT's intermediate layer distillation."""

    block = "intermediate"

    training: dict[str, Any] = {}
    """transformers' TrainingArguments by name."""

    def choices(self) -> list[Self]:
        """Return only these settings: unlike a `TrialSettings` stage, this one is trained once."""
        return [self]


class GeneralSettings(IntermediateSettings):
    """TinyBERT's general distillation: the same losses on general text."""

    block = "general"

    corpus: str | None = None
    """A folder written by `understudy corpus`."""


class TrialSettings(BaseModel):
    """A stage that may be trained several times, keeping the best on the development set."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    searchable: ClassVar[tuple[str, ...]] = ()
    """Its own keys that a search may vary; the others affect what a trial reads, not how it learns."""

    training: dict[str, Any] = {}
    """transformers' TrainingArguments by name."""
    average: Annotated[float, Field(gt=0.0, le=1.0)] | None = None
    """Keep the mean of the weights over this last share of the steps, e.g. 0.5, instead of the final ones."""
    search: dict[str, Annotated[list[Any], Field(min_length=1)]] = {}
    """Values to try for this block's keys or for TrainingArguments, e.g. `learning_rate: [1e-5, 2e-5]`. Every
    combination is trained, and the best on the development set is kept."""

    def choose(self, values: Mapping[str, Any]) -> Self:
        """Return these settings with the values applied, each where it belongs."""
        own = {key: value for key, value in values.items() if key in type(self).model_fields}
        training = {key: value for key, value in values.items() if key not in own}
        merged = {**self.model_dump(), **own, "training": {**self.training, **training}}
        return type(self).model_validate(merged)

    def choices(self) -> list[Self]:
        """Return these settings with every combination of the values to try, and nothing left to search."""
        combinations = itertools.product(*self.search.values())
        return [
            self.choose({"search": {}, **dict(zip(self.search, values, strict=True))})
            for values in combinations
        ]


class PredictionSettings(TrialSettings):
    """TinyBERT's prediction layer distillation: Eq. 10."""

    searchable = ("temperature", "similarities")

    temperature: Positive = 1.0
    dimensions: list[Annotated[int, Field(ge=1)]] = []
    """For embeddings: shorter widths to learn as well, so that vectors can be cut to their first numbers."""
    similarities: Weight = 0.0
    """For embeddings: the weight of the squared differences of cosines between the texts of a batch."""


class JointSettings(LayerSettings, TrialSettings):
    """Layers, predictions and labels in one sum; the weight of the layers falls over the steps."""

    block = "joint"
    searchable = ("layers", "until", "predictions", "labels", "temperature")

    layers: Weight = 1.0
    """The weight of all layer losses at the first step."""
    until: Annotated[float, Field(gt=0.0)] = 1.0
    """The share of the steps over which that weight falls linearly to 0; above 1 it never reaches 0."""
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
    """Multiply L_DS by the temperature squared, as in the authors' code but not in the paper."""
    predictions: str | None = None
    """A Parquet file with any model's predictions for the training rows, instead of a teacher; see
    `distillation/predictions_file.py`."""

    @property
    def reads_predictions(self) -> bool:
        """Whether any trial has a loss against predictions."""
        return any(choice.alpha > 0 for choice in self.choices())


class PatientSettings(TrialSettings):
    """Patient KD's L_PT on the first token's hidden states, in addition to `soft_labels`."""

    searchable = ("beta", "normalized")

    layer_map: MapName | list[int] = "skip"
    beta: Weight = 100.0
    normalized: bool = True
    projection: ProjectionKind = "none"
    """Needed if the widths differ, a case that the paper does not cover."""
