"""The settings for mining a corpus."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Share = Annotated[float, Field(ge=0.0)]


class PairShares(BaseModel):
    """Shares of each sort of partner that sentences get; the numbers are relative to their sum."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    neighbours: Share = 0.4
    """A sentence found for the other text of the same row."""
    adjacent: Share = 0.3
    """The sentence that follows it in the corpus."""
    random: Share = 0.3
    """Any sentence that was found."""
    augmented: Share = 0.0
    """Itself with some words replaced; needs `augment.model`."""

    @property
    def shares(self) -> dict[str, float]:
        """The shares of all sorts, which sum to 1; those of 0 are left out."""
        given = {name: share for name, share in self.model_dump().items() if share}
        return {name: share / sum(given.values()) for name, share in given.items()}


class MineSettings(BaseModel):
    """Settings for mining: what to search, how to compare sentences, and what to keep."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sources: Annotated[list[str], Field(min_length=1)] | None = None
    """The corpus: files, folders, patterns (`wiki/*.parquet`), fsspec URLs, or hub datasets."""
    column: str = "text"
    """The column with the text, in Parquet files and JSON lines."""
    encoder: str | None = None
    """The encoder whose vectors are compared: a folder or a hub name. Defaults to the model that the teacher
    was fine-tuned from, if it is known, and otherwise to the teacher."""
    vectors: Literal["static", "states"] = "static"
    """`static` has one vector per token and averages them: fast, for large corpora. `states` runs the encoder
    and averages its last hidden states."""
    texts: Annotated[int, Field(ge=1)] = 20_000
    """The number of the task's texts to search for, drawn with the seed if there are more."""
    neighbours: Annotated[int, Field(ge=1)] = 10
    """The number of sentences to find for each text."""
    rows: Annotated[int, Field(ge=1)] = 100_000
    """The maximum number of rows to write; the closest are kept."""
    duplicate: Annotated[float, Field(gt=0.0, le=1.0)] = 0.95
    """Texts with at least this cosine similarity are near duplicates. Only the closest of several near
    duplicates found for a text is kept, and none of a text that was searched for, a development row or an
    excluded row."""
    exclude: list[str] = []
    """Files of more rows, e.g. a test set, that must not be found."""
    balance: bool = True
    """Whether to limit each class that the teacher predicts to an equal share of the rows that are written;
    the others are left out."""
    pairs: PairShares = PairShares()
    """How sentences are paired for a task of pairs."""
    shard_megabytes: Annotated[float, Field(gt=0.0)] = 64.0
    """Megabytes of text that are searched at a time."""
