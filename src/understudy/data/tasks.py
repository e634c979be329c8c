"""The task table: one row says everything the rest of the code needs to know about a task.

Adding a task is adding a row. A kind says which columns a checked row has and which model class
reads it; how it is encoded is in `encode.py`, what its scores are in `evaluation/metrics.py`.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from understudy.errors import RecipeError

KindName = Literal[
    "classification", "regression", "question-answering", "multiple-choice", "token-classification"
]


@dataclass(frozen=True)
class Kind:
    """What all tasks of a kind have in common.

    Attributes:
        auto_class: the class in transformers that loads such a model.
        required: fields every source row must have.
        optional: fields a source row may have.
    """

    name: KindName
    auto_class: str
    required: tuple[str, ...]
    optional: tuple[str, ...] = ()


KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(
            "classification",
            "AutoModelForSequenceClassification",
            ("text", "label"),
            optional=("text_pair",),
        ),
        Kind(
            "regression",
            "AutoModelForSequenceClassification",
            ("text", "label"),
            optional=("text_pair",),
        ),
        Kind(
            "question-answering",
            "AutoModelForQuestionAnswering",
            ("question", "context", "answers"),
            optional=("id",),
        ),
        Kind(
            "multiple-choice",
            "AutoModelForMultipleChoice",
            ("context", "choices", "label"),
            optional=("question",),
        ),
        Kind("token-classification", "AutoModelForTokenClassification", ("words", "tags")),
    )
}


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
    """

    name: str
    kind: KindName
    metrics: tuple[str, ...]
    max_length: int = 128
    labels: tuple[str, ...] | None = None
    folder: Folder | None = None
    hub: Hub | None = None
    dev_splits: tuple[str, ...] = ("dev",)
    unanswerable: bool = False

    @property
    def auto_class(self) -> str:
        return KINDS[self.kind].auto_class

    @property
    def headline(self) -> str:
        """The metric that is quoted, and by which a best checkpoint is chosen."""
        return self.metrics[0]


_TSV = {"train": ("train.tsv",), "dev": ("dev.tsv",), "test": ("test.tsv",)}
_MNLI_TSV = {
    "train": ("train.tsv",),
    "dev_matched": ("dev_matched.tsv",),
    "dev_mismatched": ("dev_mismatched.tsv",),
}
_ENTAILMENT = ("entailment", "not_entailment")


def _glue(
    name: str,
    metrics: tuple[str, ...],
    folder: str,
    columns: Mapping[str, str | int],
    hub_columns: Mapping[str, str],
    labels: tuple[str, ...] | None,
    *,
    kind: KindName = "classification",
    max_length: int = 128,
) -> Task:
    return Task(
        name,
        kind,
        metrics,
        max_length=max_length,
        labels=labels,
        folder=Folder(folder, _TSV, columns),
        hub=Hub("nyu-mll/glue", name, hub_columns),
    )


def _pair(first: str, second: str, label: str = "label") -> dict[str, str]:
    return {"text": first, "text_pair": second, "label": label}


_SENTENCES = _pair("sentence1", "sentence2")
_CONLL_LABELS = ("O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC", "B-MISC", "I-MISC")


def _squad(name: str, version: str, hub: str, unanswerable: bool) -> Task:
    return Task(
        name,
        "question-answering",
        ("squad_f1", "exact_match"),
        max_length=384,
        folder=Folder(
            "SQuAD",
            {
                "train": (f"train-v{version}.json", "train.json"),
                "dev": (f"dev-v{version}.json", "dev.json"),
            },
        ),
        hub=Hub(
            hub,
            None,
            {"id": "id", "question": "question", "context": "context", "answers": "answers"},
        ),
        unanswerable=unanswerable,
    )


_ALL = (
    _glue(
        "cola",
        ("matthews",),
        "CoLA",
        {"text": 3, "label": 1},
        {"text": "sentence", "label": "label"},
        ("unacceptable", "acceptable"),
        max_length=64,
    ),
    _glue(
        "sst2",
        ("accuracy",),
        "SST-2",
        {"text": "sentence", "label": "label"},
        {"text": "sentence", "label": "label"},
        ("negative", "positive"),
        max_length=64,
    ),
    _glue(
        "mrpc",
        ("f1", "accuracy"),
        "MRPC",
        _pair("#1 String", "#2 String", "Quality"),
        _SENTENCES,
        ("not_equivalent", "equivalent"),
    ),
    _glue(
        "stsb",
        ("pearson", "spearman"),
        "STS-B",
        _pair("sentence1", "sentence2", "score"),
        _SENTENCES,
        None,
        kind="regression",
    ),
    _glue(
        "qqp",
        ("f1", "accuracy"),
        "QQP",
        _pair("question1", "question2", "is_duplicate"),
        _pair("question1", "question2"),
        ("not_duplicate", "duplicate"),
    ),
    Task(
        "mnli",
        "classification",
        ("accuracy",),
        labels=("entailment", "neutral", "contradiction"),
        folder=Folder("MNLI", _MNLI_TSV, _pair("sentence1", "sentence2", "gold_label")),
        hub=Hub(
            "nyu-mll/glue",
            "mnli",
            _pair("premise", "hypothesis"),
            {
                "train": "train",
                "dev_matched": "validation_matched",
                "dev_mismatched": "validation_mismatched",
            },
        ),
        dev_splits=("dev_matched", "dev_mismatched"),
    ),
    _glue(
        "qnli",
        ("accuracy",),
        "QNLI",
        _pair("question", "sentence"),
        _pair("question", "sentence"),
        _ENTAILMENT,
    ),
    _glue("rte", ("accuracy",), "RTE", _SENTENCES, _SENTENCES, _ENTAILMENT),
    _glue("wnli", ("accuracy",), "WNLI", _SENTENCES, _SENTENCES, ("not_entailment", "entailment")),
    _squad("squad", "1.1", "rajpurkar/squad", unanswerable=False),
    _squad("squad2", "2.0", "rajpurkar/squad_v2", unanswerable=True),
    Task(
        "race",
        "multiple-choice",
        ("accuracy",),
        max_length=512,
        folder=Folder("RACE", {"train": ("train",), "dev": ("dev",), "test": ("test",)}),
        hub=Hub(
            "ehovy/race",
            "all",
            {
                "context": "article",
                "question": "question",
                "choices": "options",
                "label": "answer",
            },
        ),
    ),
    Task(
        "conll2003",
        "token-classification",
        ("span_f1",),
        labels=_CONLL_LABELS,
        folder=Folder(
            "CoNLL-2003",
            {
                "train": ("train.conll", "train.txt", "eng.train"),
                "dev": ("dev.conll", "valid.txt", "eng.testa"),
                "test": ("test.conll", "test.txt", "eng.testb"),
            },
        ),
        hub=Hub("lhoestq/conll2003", None, {"words": "tokens", "tags": "ner_tags"}),
    ),
    # A user's own files: the kind is the task, the data decides the labels.
    Task("classification", "classification", ("accuracy", "macro_f1")),
    Task("regression", "regression", ("pearson", "spearman")),
    Task(
        "question-answering",
        "question-answering",
        ("squad_f1", "exact_match"),
        max_length=384,
        unanswerable=True,
    ),
    Task("multiple-choice", "multiple-choice", ("accuracy",), max_length=512),
    Task("token-classification", "token-classification", ("span_f1",)),
)

TASKS: Mapping[str, Task] = {task.name: task for task in _ALL}


def _fold(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def get_task(name: str) -> Task:
    """Look a task up by name, in any capitals, with hyphens or without.

    >>> get_task("mrpc").headline
    'f1'
    """
    if name in TASKS:
        return TASKS[name]
    folded = {_fold(task): task for task in TASKS}
    if _fold(name) in folded:  # MRPC, SST-2, as their folders are called
        return TASKS[folded[_fold(name)]]
    close = difflib.get_close_matches(name.lower(), TASKS, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise RecipeError(
        f"task must be one of {', '.join(TASKS)}; got {name!r}.{hint} For files of your own use the "
        "name of their kind, e.g. task: classification."
    )
