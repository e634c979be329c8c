"""How a training set is augmented."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Context = Literal["original", "sequential"]


class AugmentSettings(BaseModel):
    """TinyBERT's Algorithm 1: its parameters, and where candidates come from."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str | None = None
    """The masked language model that offers words: a folder or a hub name."""
    vectors: str | None = None
    """A file of word vectors for words of several pieces; the model offers those too where there is none."""
    vector_words: str | None = None
    """The words of `vectors`, where those are an array."""
    variants: Annotated[int, Field(ge=1)] = 20
    """N_a: how many are tried for a row."""
    probability: Annotated[float, Field(gt=0.0, le=1.0)] = 0.4
    """p_t: of replacing a word."""
    candidates: Annotated[int, Field(ge=1)] = 15
    """K: from how many a word is chosen."""
    context: Context = "original"
    """What the model reads: the original text, or the text with the replacements before the word, as the
    algorithm is written."""
    stop_words: str = "english"
    """Words that stay: `english`, `none`, or a file."""
    entities: Literal["keep", "swap"] = "keep"
    """Of token classification: as they are, or others of the same type in the training set."""
    max_length: Annotated[int, Field(ge=8)] = 128
    """Tokens around a word that the model reads."""
    bf16: bool | None = None
    """Whether the model computes in bfloat16; as the recipe's `precision` says where not given."""
