"""Model cards of artifacts and students: what they are, how good and how fast they are, how to use them."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from huggingface_hub import EvalResult, ModelCardData

from understudy.artifacts.artifact import Artifact
from understudy.data.kind import RowKind

# Placeholder for the folder in a card; `understudy push` replaces it with the repository's name.
THIS_MODEL = "THIS_FOLDER"

_CITATIONS = {
    "tinybert": "Jiao et al., TinyBERT: Distilling BERT for Natural Language Understanding, EMNLP 2020",
    "joint": "Jiao et al., TinyBERT: Distilling BERT for Natural Language Understanding, EMNLP 2020",
    "patient": "Sun et al., Patient Knowledge Distillation for BERT Model Compression, EMNLP 2019",
    "soft-labels": "Hinton et al., Distilling the Knowledge in a Neural Network, 2015",
}


@dataclass(frozen=True)
class Origin:
    """The origin of a student, as far as it is known.

    Attributes:
        name: the name of the student, for the title.
        teacher: the teacher's name, not a local path.
        method: `tinybert`, `joint`, `patient`, `soft-labels`, or None for a model that was not distilled.
        base_models: hub names of the models that its weights and its teacher come from; no local paths.
        dataset: the dataset's hub name; None for local files.
        teacher_scores: scores by split and metric.
        vocabulary: how many of the teacher's tokens it keeps, and the share of held-out tokens outside them.
        recipe: the resolved recipe, without paths.
    """

    name: str
    teacher: str | None = None
    method: str | None = None
    base_models: Sequence[str] = ()
    dataset: str | None = None
    teacher_scores: Mapping[str, Mapping[str, Mapping[str, float]]] = field(default_factory=dict)
    teacher_parameters: int | None = None
    vocabulary: Mapping[str, float] | None = None
    recipe: str | None = None


@dataclass(frozen=True)
class Student:
    """A torch model, as its card describes it.

    Attributes:
        scores: scores by split and metric.
        scored_by_teacher: whether the scores measure agreement with the teacher, because there are no labels.
    """

    task: str
    kind: RowKind
    labels: Sequence[str] | None
    parameters: int
    max_length: int
    scores: Mapping[str, Mapping[str, Mapping[str, float]]]
    scored_by_teacher: bool = False


def write_card(artifact: Artifact, origin: Origin, kind: RowKind) -> str:
    """Return the text of an artifact's README.md."""
    forms = {name: model.scores for name, model in artifact.models.items()}
    tags = ["onnx", *(["int8"] if "int8" in artifact.models else [])]
    scored_by_teacher = artifact.details.get("labels_from") == "teacher"
    limits = [*_artifact_limits(artifact, kind), *_score_limits(scored_by_teacher)]
    parts = [
        _metadata(origin, kind, artifact.task, "onnx", tags, forms),
        f"# {origin.name}",
        _summary(artifact.task, kind, artifact.labels, artifact.parameters, origin, "as ONNX files"),
        "## Scores\n\n" + _scores(artifact, origin),
        "## Size and speed\n\n" + _speed(artifact),
        "## Use\n\n" + _use(artifact, kind),
        "## Limits\n\n" + "\n".join(limits),
    ]
    return _join(parts, origin)


def write_student_card(student: Student, origin: Origin) -> str:
    """Return the text of README.md for a model that transformers loads."""
    kind = student.kind
    rows = [("teacher", origin.teacher_scores)] if origin.teacher_scores else []
    rows.append(("student" if origin.method else "model", student.scores))
    limits = [_length_limit(student.max_length, kind), *_score_limits(student.scored_by_teacher)]
    parts = [
        _metadata(origin, kind, student.task, kind.library, [], {"fp32": student.scores}),
        f"# {origin.name}",
        _summary(student.task, kind, student.labels, student.parameters, origin, f"for {kind.library}"),
        "## Scores\n\n" + _score_table(rows),
        "## Use\n\n" + _use_student(student),
        "## Limits\n\n" + "\n".join(limits),
    ]
    return _join(parts, origin)


def _join(parts: Sequence[str], origin: Origin) -> str:
    last = []
    if origin.recipe is not None:
        last.append(f"## Recipe\n\n```yaml\n{origin.recipe.strip()}\n```")
    if origin.method is not None:
        last.append(f"## Citation\n\n{_CITATIONS[origin.method]}.")
    return "\n\n".join([*parts, *last]) + "\n"


def _metadata(
    origin: Origin,
    kind: RowKind,
    task: str,
    library: str,
    tags: Sequence[str],
    forms: Mapping[str, Mapping[str, Mapping[str, Mapping[str, float]]]],
) -> str:
    """Return the metadata block. The licence and the language are left for the user to add."""
    results = [
        EvalResult(
            task_type=kind.pipeline,
            dataset_type=origin.dataset or task,
            dataset_name=task,
            dataset_split=split,
            metric_type=metric,
            metric_value=round(figure["value"], 4),
            metric_name=f"{metric}, {form}",
        )
        for form, scores in forms.items()
        for split, metrics in scores.items()
        for metric, figure in metrics.items()
    ]
    data = ModelCardData(
        base_model=list(origin.base_models) or None,
        datasets=[origin.dataset] if origin.dataset else None,
        library_name=library,
        pipeline_tag=kind.pipeline,
        tags=["understudy", *(["distillation"] if origin.method else []), *tags],
        model_name=origin.name if results else None,
        eval_results=results or None,
    )
    return f"---\n{data.to_yaml().strip()}\n---"


def _summary(
    task: str,
    kind: RowKind,
    label_names: Sequence[str] | None,
    parameters: int,
    origin: Origin,
    form: str,
) -> str:
    made = {
        "tinybert": "distilled from its layers and then its predictions (TinyBERT)",
        "joint": "distilled from its layers, its predictions and the labels in one sum",
        "patient": "distilled from its predictions and the first token's states (Patient KD)",
        "soft-labels": "distilled from its predictions",
    }
    size = f"{parameters / 1e6:.1f}M parameters"
    what = task if task == kind.name else f"{task} ({kind})"
    # Names come from the data: Markdown would render any HTML in them.
    names = [html.escape(" ".join(name.split()), quote=False) for name in label_names or ()]
    labels = f" Labels: {', '.join(names)}." if names else ""
    if origin.method is None:
        return f"A model for {what} of {size}, {form}.{labels}"
    teacher = f"`{origin.teacher}`" if origin.teacher else "a file of predictions"
    if origin.teacher_parameters:
        teacher += f" ({origin.teacher_parameters / 1e6:.1f}M parameters)"
    how = made[origin.method] if origin.teacher else "distilled from predictions"
    tokens = f" {describe_vocabulary(origin.vocabulary)}" if origin.vocabulary else ""
    return f"A student of {size} for {what}. Its teacher is {teacher}; it was {how}.{tokens}{labels}"


def describe_vocabulary(vocabulary: Mapping[str, float]) -> str:
    """Describe a smaller vocabulary in a sentence.

    >>> describe_vocabulary({"size": 8000, "of": 30522, "outside": 0.0031})
    'The student keeps 8,000 of 30,522 tokens; 0.31 % of the development tokens are read as smaller pieces.'
    """
    outside = f"{100 * vocabulary['outside']:.2f} %"
    return (
        f"The student keeps {vocabulary['size']:,} of {vocabulary['of']:,} tokens; {outside} of the "
        "development tokens are read as smaller pieces."
    )


def _figure(figure: Mapping[str, float]) -> str:
    return f"{figure['value']:.3f} ({figure['low']:.3f}–{figure['high']:.3f})"


def _scores(artifact: Artifact, origin: Origin) -> str:
    rows = [("teacher, fp32 (torch)", origin.teacher_scores)] if origin.teacher_scores else []
    details = artifact.details.get("torch", {})
    rows += [("fp32 (torch)", details)] if details else []
    rows += [(f"{name} ({model.engine})", model.scores) for name, model in artifact.models.items()]
    kept = [
        f"\n\nIn `{name}` these parts stay in fp32, since the score would have fallen: "
        f"{', '.join(model.kept_in_fp32)}."
        for name, model in artifact.models.items()
        if model.kept_in_fp32
    ]
    return _score_table(rows) + "".join(kept)


def _score_table(rows: Sequence[tuple[str, Mapping[str, Mapping[str, Mapping[str, float]]]]]) -> str:
    """Return a row per model, with the splits and metrics of the last one as columns."""
    columns = [(split, metric) for split, metrics in rows[-1][1].items() for metric in metrics]
    lines = [["form", *(f"{metric}, {split}" for split, metric in columns)]]
    for name, scores in rows:
        cells = [_figure(scores[split][metric]) if split in scores else "" for split, metric in columns]
        lines.append([name, *cells])
    return _table(lines) + "\n\nIn brackets: 95 % intervals over the rows."


def _speed(artifact: Artifact) -> str:
    sizes = [["form", "file"]] + [
        [f"{name} ({model.engine})", f"{model.bytes / 1e6:.1f} MB"] for name, model in artifact.models.items()
    ]
    speed: Mapping[str, Any] = artifact.details.get("speed", {})
    if not speed:
        return _table(sizes)
    lines = [["form", "texts", "tokens", "median", "95 %"]]
    lines += [
        [
            row["form"],
            str(row["batch"]),
            str(row["length"]),
            f"{row['median_ms']:.2f} ms",
            f"{row['p95_ms']:.2f} ms",
        ]
        for row in speed["rows"]
    ]
    machine = speed["machine"]
    where = f"One run on {machine['processor']}, one thread: the ratios carry over better than the times."
    if any(row["busy"] for row in speed["rows"]):
        where += " The machine was busy with other work too, so that these times are only a rough guide."
    return f"{_table(sizes)}\n\n{_table(lines)}\n\n{where}"


def _use(artifact: Artifact, kind: RowKind) -> str:
    example = '("a text", "another one")' if "text_pair" in artifact.fields else kind.example
    return (
        "```python\nfrom understudy import Predictor  # needs onnxruntime, tokenizers and numpy; no torch\n\n"
        f'predict = Predictor.from_pretrained("{THIS_MODEL}")\n{kind.call.format(example)}\n```'
    )


def _use_student(student: Student) -> str:
    return f"```python\n{student.kind.loading(THIS_MODEL)}\n```"


def _artifact_limits(artifact: Artifact, kind: RowKind) -> list[str]:
    lines = [_length_limit(artifact.max_length, kind)]
    if "int8" in artifact.models:
        lines.append(
            "- In other runtimes, run int8 one text at a time, as `Predictor` does: ONNX Runtime rounds all "
            "activations of a batch by one scale."
        )
    calibration = artifact.details.get("calibration")
    if calibration is not None:
        lines.append(
            f"- Its probabilities are calibrated with a temperature of {artifact.temperature:.2f}: the "
            f"expected calibration error is {calibration['error_after']:.3f}, and "
            f"{calibration['error_before']:.3f} without it."
        )
    if artifact.thresholds:
        lines.append(
            "- Scores count a label from a probability of 0.5 on. `Predictor` uses the thresholds in "
            "`artifact.json`, chosen on the development set."
        )
    return lines


def _length_limit(max_length: int, kind: RowKind) -> str:
    longer = (
        "longer contexts are read in windows." if kind.has_windows else "what comes after them is not seen."
    )
    return f"- It reads at most {max_length} tokens; {longer}"


def _score_limits(scored_by_teacher: bool) -> list[str]:
    lines = ["- The scores are those of the development set named above; on other text it may do worse."]
    if scored_by_teacher:
        lines.append("- There were no development labels: the scores are agreement with the teacher.")
    return lines


def _table(lines: Sequence[Sequence[str]]) -> str:
    head, *rows = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([head, "|" + "---|" * len(lines[0]), *rows])
