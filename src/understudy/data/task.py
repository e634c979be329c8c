"""A task: one row of the table in `understudy.kinds.tasks`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from understudy.data.kind import Kind


@dataclass(frozen=True)
class Folder:
    """Where a task lies in a folder of its own published layout.

    Attributes:
        name: the sub-folder, e.g. `CoLA`.
        files: split name to file name; several names are alternatives, the first that exists counts.
        columns: our field to the file's column; numbers mean the file has no header.
    """

    name: str
    files: Mapping[str, tuple[str, ...]]
    columns: Mapping[str, str | int] = field(default_factory=dict)


@dataclass(frozen=True)
class Hub:
    """Where a task lies on the hub; `columns` and `splits` lead from our names to its own."""

    dataset: str
    config: str | None
    columns: Mapping[str, str]
    splits: Mapping[str, str] = field(
        default_factory=lambda: {"train": "train", "dev": "validation", "test": "test"}
    )


@dataclass(frozen=True)
class Task:
    """One row of the table.

    Attributes:
        labels: label names in the order of their ids; None where the data decides.
        metrics: official metrics, the one that is quoted first.
        max_length: tokens, special tokens included.
        dev_splits: every development set; the first one is used for choosing, all are reported.
        unanswerable: whether a question may have no answer.
    """

    name: str
    kind: Kind
    metrics: tuple[str, ...]
    max_length: int = 128
    labels: tuple[str, ...] | None = None
    folder: Folder | None = None
    hub: Hub | None = None
    dev_splits: tuple[str, ...] = ("dev",)
    unanswerable: bool = False

    @property
    def auto_class(self) -> str:
        return self.kind.auto_class

    def with_metric(self, name: str) -> Task:
        """The task with another metric before its own."""
        self.kind.metric(name)  # refuses an unknown one
        return replace(self, metrics=(name, *(one for one in self.metrics if one != name)))

    @property
    def headline(self) -> str:
        """The metric that is quoted, and by which a best checkpoint is chosen."""
        return self.metrics[0]
