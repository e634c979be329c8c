"""The blocks of a recipe that `understudy run` reads in addition to those of a distillation."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from understudy.recipe.class_weights import ClassWeights


class FinetuneSettings(BaseModel):
    """Settings for fine-tuning the teacher, if there is none yet."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str | None = None
    """The encoder to fine-tune: a folder or a hub name."""
    dropout: Annotated[float, Field(ge=0.0, lt=1.0)] | None = None
    """Every dropout probability while it trains. Defaults to the model's own."""
    held_out: Annotated[float, Field(gt=0.0, lt=1.0)] | None = None
    """The share of training rows that choose the best step; see `held_out` of a fine-tuning recipe."""
    folds: Annotated[int, Field(ge=2)] | None = None
    """The number of further teachers, each without one part of the rows; see `folds` of a fine-tuning
    recipe."""
    class_weights: ClassWeights | None = None
    """Weights of the classes; see `class_weights` of a fine-tuning recipe."""
    training: dict[str, Any] = {}
    """transformers' TrainingArguments by name."""


class ExportSettings(BaseModel):
    """Settings for exporting student and teacher; see `understudy export`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tolerance: Annotated[float, Field(ge=0.0)] = 0.5
    """How many points of the first metric int8 may lose."""
    int4: Literal["embeddings", "all"] | None = None
    """Also write a form with weights of 4 bits: those of the embeddings, or all."""
    openvino: bool = False
    """Also write int8 for OpenVINO; needs the extra `openvino`."""
    teacher_int8: bool = True
    """Also export, score and time the teacher in int8, the alternative to the student."""
