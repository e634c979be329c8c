"""The data settings of a recipe."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from understudy.data.text_files import is_encoding

# YAML reads 0 as a number, which is converted; no and yes become booleans and must be quoted by the user.
LabelName = Annotated[str, BeforeValidator(lambda name: str(name) if type(name) in (int, float) else name)]


def _check_encoding(name: str) -> str:
    if not is_encoding(name):
        raise ValueError("must be a text encoding of Python, e.g. cp1252, utf-16 or gb18030")
    return name


class DataSettings(BaseModel):
    """The sources of the rows, and the handling of bad ones.

    Give either `source` (a folder in the task's published layout, or a hub dataset), or `train`,
    `dev` and `test` files (CSV, TSV, JSONL, Parquet, SQuAD JSON, CoNLL) or folders written by
    `Dataset.save_to_disk`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str | None = None
    """A folder in the task's own layout, or a hub dataset as `name` or `name@revision`."""
    config: str | None = None
    """The configuration of the hub dataset, e.g. `mrpc` of `nyu-mll/glue`."""
    splits: dict[str, str] = {}
    """The hub dataset's split for each of ours, e.g. `{dev: test}` if it has no validation split."""
    train: str | None = None
    dev: str | None = None
    """Without it, a distillation holds out unlabelled rows and uses the teacher's predictions as labels, so
    that scores measure how far the student agrees with its teacher."""
    dev_share: Annotated[float, Field(gt=0.0, lt=1.0)] | None = None
    """The share of `train` to hold out and score on, instead of `dev`. The split is by a hash of a row's
    text, so equal texts are on the same side."""
    test: str | None = None
    unlabelled: list[str] | None = None
    """Rows without labels: files, folders or patterns, e.g. `[texts/*.parquet]`. Plain text (`.txt`) has one
    text per line. The student learns from the teacher's outputs on them."""
    labelled_share: Annotated[float, Field(gt=0.0, lt=1.0)] | None = None
    """The share of labelled rows in an epoch, which reads every unlabelled row once; None reads every row
    once."""
    augmented: str | None = None
    """A folder that `understudy augment` wrote from this training set, read instead of it."""
    columns: dict[str, str | int] = {}
    """The file's column for each of our fields, e.g. `{text: review}`; numbers if there is no header."""
    encoding: Annotated[str, AfterValidator(_check_encoding)] | None = None
    """The encoding of text files, by its name in Python, e.g. `cp1251`. By default it is detected for each
    file: from a byte order mark, else UTF-8 or Windows-1252."""
    labels: Annotated[list[LabelName], Field(min_length=2)] | None = None
    """Label names in the order of their ids."""
    max_length: Annotated[int, Field(ge=8)] | None = None
    """Tokens per example, including special tokens. Defaults to the task's."""
    stride: Annotated[int, Field(ge=0)] | None = None
    """Tokens shared by neighbouring windows in question answering. Defaults to 128, or to a third of the
    window if that is less."""
    max_rows: Annotated[int, Field(ge=1)] | None = None
    """Train on this many rows of the training set, drawn once at random. Defaults to all. All augmented rows
    are always read: augment with the same number, so that they are made from these rows."""
    bad_rows: Literal["refuse", "drop"] = "refuse"
    """Whether to stop with a list of the bad rows, or to leave them out and report how many."""


def without_unlabelled(data: DataSettings) -> DataSettings:
    """Return the settings of the labelled rows alone."""
    return data.model_copy(update={"unlabelled": None, "labelled_share": None})


class CorpusSettings(BaseModel):
    """Settings for turning general text into token blocks; read by `understudy corpus`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sources: Annotated[list[str], Field(min_length=1)] | None = None
    """Files, folders, patterns (`wiki/*.parquet`), fsspec URLs, or hub datasets."""
    tokenizer: str | None = None
    """The teacher's tokenizer: a folder or a hub name."""
    column: str = "text"
    """The column with the text, in Parquet files and JSON lines."""
    max_length: Annotated[int, Field(ge=8)] = 128
    """Tokens per block, including special tokens."""
    pairs: bool = False
    """Whether a block has two segments, as in BERT, instead of one."""
    held_out: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.005
    """The share of documents that are held out."""
    shard_megabytes: Annotated[float, Field(gt=0.0)] = 64.0
    """Megabytes of text that go into one file of blocks."""
