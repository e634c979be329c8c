"""The blocks of a recipe that `understudy run` reads beside those of a distillation."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field


class FinetuneSettings(BaseModel):
    """How the teacher is made, where there is none yet."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str | None = None
    """The encoder to fine-tune: a folder or a hub name."""
    dropout: Annotated[float, Field(ge=0.0, lt=1.0)] | None = None
    """Every dropout probability while it trains; the model's own where not given."""
    training: dict[str, Any] = {}
    """transformers' TrainingArguments by its own names."""


class ExportSettings(BaseModel):
    """How the student is shipped; see `understudy export`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tolerance: Annotated[float, Field(ge=0.0)] = 0.5
    """Points of the first metric that int8 may lose."""
    openvino: bool = False
    """Write int8 for OpenVINO too; needs the extra `openvino`."""
