"""The settings for augmenting a training set."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Context = Literal["original", "sequential"]


class AugmentSettings(BaseModel):
    """The parameters of TinyBERT's Algorithm 1, and the sources of candidates."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str | None = None
    """The masked language model that suggests words: a folder or a hub name."""
    vectors: str | None = None
    """A file of word vectors for words of several tokens; without it, the model suggests those too."""
    vector_words: str | None = None
    """The words of `vectors`, if those are an array."""
    variants: Annotated[int, Field(ge=1)] = 20
    """N_a: the number of variants to try per row."""
    probability: Annotated[float, Field(gt=0.0, le=1.0)] = 0.4
    """p_t: the probability of replacing a word."""
    candidates: Annotated[int, Field(ge=1)] = 15
    """K: the number of candidates for a word."""
    context: Context = "original"
    """Whether the model reads the original text, or the text with the replacements before the word, as the
    algorithm is written."""
    stop_words: str = "english"
    """Words that are never replaced: `english`, `none`, or a file."""
    entities: Literal["keep", "swap"] = "keep"
    """Whether entities in token classification are kept, or swapped for others of their type in the data."""
    max_length: Annotated[int, Field(ge=8)] = 128
    """Number of tokens around a word that the model reads."""
    bf16: bool | None = None
    """Whether the model computes in bfloat16. Defaults to the recipe's `precision`."""
