"""Tasks: the rows of the table in `understudy.kinds.tasks`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from understudy.data.kind import Kind, RowKind


@dataclass(frozen=True)
class Folder:
    """The location of a task in a folder with its published layout.

    Attributes:
        name: the sub-folder, e.g. `CoLA`.
        files: file names by split; several names are alternatives, and the first that exists is used.
        columns: the file's column for each of our fields; numbers mean that the file has no header.
    """

    name: str
    files: Mapping[str, tuple[str, ...]]
    columns: Mapping[str, str | int] = field(default_factory=dict)


@dataclass(frozen=True)
class Hub:
    """The location of a task on the hub; `columns` and `splits` map our names to its own."""

    dataset: str
    config: str | None
    columns: Mapping[str, str]
    splits: Mapping[str, str] = field(
        default_factory=lambda: {"train": "train", "dev": "validation", "test": "test"}
    )


@dataclass(frozen=True)
class Task:
    """A row of the task table.

    Attributes:
        rows: its kind without torch.
        find_kind: returns the whole kind of that name.
        labels: label names in the order of their ids; None if the data determines them.
        metrics: official metrics; the first is the headline.
        max_length: tokens, including special tokens.
        dev_splits: every development set; the first is used for model selection, all are reported.
        unanswerable: whether a question may have no answer.
    """

    name: str
    rows: RowKind
    find_kind: Callable[[str], Kind]
    metrics: tuple[str, ...]
    max_length: int = 128
    labels: tuple[str, ...] | None = None
    folder: Folder | None = None
    hub: Hub | None = None
    dev_splits: tuple[str, ...] = ("dev",)
    unanswerable: bool = False

    @property
    def kind(self) -> Kind:
        """Its kind with everything needed for training; the first use imports torch."""
        return self.find_kind(self.rows.name)

    @property
    def auto_class(self) -> str:
        return self.rows.auto_class

    def with_metric(self, name: str) -> Task:
        """Return the task with another metric in front of its own."""
        self.kind.metric(name)  # refuses an unknown metric
        return replace(self, metrics=(name, *(one for one in self.metrics if one != name)))

    @property
    def headline(self) -> str:
        """The metric that is reported first, and that selects the best checkpoint."""
        return self.metrics[0]
