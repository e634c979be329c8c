"""What a recipe may say about its data."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

# YAML reads 0 as a number; what it reads no and yes as must be quoted by the user.
LabelName = Annotated[str, BeforeValidator(lambda name: str(name) if type(name) in (int, float) else name)]


class DataSettings(BaseModel):
    """Where the rows come from and what happens to bad ones.

    Give either `source` (a folder in the task's published layout, or a hub dataset), or `train`,
    `dev` and `test` files (CSV, TSV, JSONL, Parquet, SQuAD JSON, CoNLL) or folders that
    `Dataset.save_to_disk` wrote.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str | None = None
    """A folder in the task's own layout, or a hub dataset: its name, or `name@revision`."""
    config: str | None = None
    """Configuration of the hub dataset, e.g. `mrpc` of `nyu-mll/glue`."""
    splits: dict[str, str] = {}
    """Our split to the hub dataset's, e.g. `{dev: test}` where it has no validation split."""
    train: str | None = None
    dev: str | None = None
    test: str | None = None
    augmented: str | None = None
    """A folder that `understudy augment` wrote from this training set, read in its place."""
    columns: dict[str, str | int] = {}
    """Our field to the file's column, e.g. `{text: review}`; numbers for a file without a header."""
    labels: Annotated[list[LabelName], Field(min_length=2)] | None = None
    """Label names in the order of their ids."""
    max_length: Annotated[int, Field(ge=8)] | None = None
    """Tokens per example, special tokens included; the task's own where not given."""
    stride: Annotated[int, Field(ge=0)] | None = None
    """Question answering: tokens that neighbouring windows share; 128 or a third where not given."""
    max_rows: Annotated[int, Field(ge=1)] | None = None
    """Learn from so many rows of the training set, drawn once at random; from all where not given. Augmented
    rows are all read: augment with the same number, and they are made of these."""
    bad_rows: Literal["refuse", "drop"] = "refuse"
    """Stop with a list of the bad rows, or leave them out and report how many."""


class CorpusSettings(BaseModel):
    """General text to token blocks; read by `understudy corpus`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sources: Annotated[list[str], Field(min_length=1)] | None = None
    """Files, folders, patterns (`wiki/*.parquet`), fsspec addresses, or hub datasets."""
    tokenizer: str | None = None
    """The teacher's: a folder or a hub name."""
    column: str = "text"
    """The column that holds the text, in Parquet files and JSON lines."""
    max_length: Annotated[int, Field(ge=8)] = 128
    """Tokens of a block, special tokens included."""
    pairs: bool = False
    """Two segments a block, as BERT's, instead of one."""
    held_out: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.005
    """The share of documents that nothing learns from."""
    shard_megabytes: Annotated[float, Field(gt=0.0)] = 64.0
    """Of text that become one file of blocks."""
