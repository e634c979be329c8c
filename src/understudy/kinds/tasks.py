"""The task table: each row holds everything the rest of the code needs to know about a task.

To add a task, add a row.
"""

from __future__ import annotations

from collections.abc import Mapping

from understudy.data.task import Folder, Hub, Task
from understudy.errors import RecipeError, did_you_mean
from understudy.kinds import get_kind, get_rows, kind_names

DEFAULT_KIND = "classification"  # for a user's own files, if none is named

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
    kind: str = "classification",
    max_length: int = 128,
) -> Task:
    return Task(
        name,
        get_rows(kind),
        get_kind,
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
        get_rows("question-answering"),
        get_kind,
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
        get_rows("classification"),
        get_kind,
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
        get_rows("multiple-choice"),
        get_kind,
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
        get_rows("token-classification"),
        get_kind,
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
)

_PUBLISHED: Mapping[str, Task] = {task.name: task for task in _ALL}


def task_names() -> list[str]:
    """Return the names of the published tasks, and of the kinds, which are tasks for a user's own files."""
    return [*_PUBLISHED, *kind_names()]


def get_task(name: str) -> Task:
    """Look up a task by name, ignoring case, hyphens and underscores.

    >>> get_task("mrpc").headline
    'f1'
    """
    names = task_names()
    # Accepts MRPC, SST-2 etc., as the folders are named.
    name = name if name in names else {_fold(task): task for task in names}.get(_fold(name), name)
    if name in _PUBLISHED:
        return _PUBLISHED[name]
    if name in names:  # the labels come from the data
        rows = get_rows(name)
        return Task(
            name,
            rows,
            get_kind,
            rows.metrics,
            max_length=rows.max_length,
            unanswerable=rows.unanswerable,
        )
    raise RecipeError(
        f"task must be one of {', '.join(names)}; got {name!r}.{did_you_mean(name, names)} For your own "
        "files, use the name of their kind, e.g. task: classification."
    )


def _fold(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")
