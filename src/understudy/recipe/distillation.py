"""The blocks of a recipe that say how a student learns from its teacher."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from understudy.models.layer_map import MapName
from understudy.models.projections import ProjectionKind

Method = Literal["tinybert"]
Normalization = Literal["real", "padded"]
Positive = Annotated[float, Field(gt=0.0)]
Weight = Annotated[float, Field(ge=0.0)]


class IntermediateSettings(BaseModel):
    """TinyBERT's intermediate layer distillation: Eqs. 7 to 9."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    layer_map: MapName | list[int] = "uniform"
    """Which teacher layer each student layer learns from; see `models/layer_map.py`."""
    projection: ProjectionKind = "shared"
    relation_heads: Annotated[int, Field(ge=1)] | None = None
    """Heads that both sides are read as in Eq. 7; needed where their numbers of heads differ."""
    weights: dict[str, Weight] = {}
    """By term (`attention_2`) or kind of term (`embeddings`, `attention`, `hidden`); 1 where not given,
    and 0 leaves it out."""
    training: dict[str, Any] = {}
    """transformers' TrainingArguments by its own names."""


class PredictionSettings(BaseModel):
    """TinyBERT's prediction layer distillation: Eq. 10."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    temperature: Positive = 1.0
    training: dict[str, Any] = {}
    """transformers' TrainingArguments by its own names."""
    search: dict[str, Annotated[list[Any], Field(min_length=1)]] = {}
    """Values of TrainingArguments to try, e.g. `learning_rate: [1e-5, 2e-5]`: every combination is
    trained, and the best on the development set is kept."""
