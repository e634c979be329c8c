"""The model card of an artifact: what it is, how good, how fast, and how to use it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from huggingface_hub import EvalResult, ModelCardData

from understudy.artifacts.artifact import Artifact
from understudy.data.kind import RowKind

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
        data: the dataset's name.
        teacher_scores: split to metric to figure.
        recipe: the resolved recipe, without paths.
    """

    name: str
    teacher: str | None = None
    method: str | None = None
    data: str | None = None
    teacher_scores: Mapping[str, Mapping[str, Mapping[str, float]]] = field(default_factory=dict)
    teacher_parameters: int | None = None
    recipe: str | None = None


def write_card(artifact: Artifact, origin: Origin, kind: RowKind) -> str:
    """Return the text of README.md."""
    parts = [
        f"---\n{_metadata(artifact, origin, kind)}\n---",
        f"# {origin.name}",
        _summary(artifact, origin),
        "## Scores\n\n" + _scores(artifact, origin),
        "## Size and speed\n\n" + _speed(artifact),
        "## Use\n\n" + _use(artifact, kind),
        "## Limits\n\n" + _limits(artifact, kind),
    ]
    if origin.recipe is not None:
        parts.append(f"## Recipe\n\n```yaml\n{origin.recipe.strip()}\n```")
    if origin.method is not None:
        parts.append(f"## Citation\n\n{_CITATIONS[origin.method]}.")
    return "\n\n".join(parts) + "\n"


def _metadata(artifact: Artifact, origin: Origin, kind: RowKind) -> str:
    results = [
        EvalResult(
            task_type=kind.pipeline,
            dataset_type=origin.data or artifact.task,
            dataset_name=artifact.task,
            dataset_split=split,
            metric_type=metric,
            metric_value=round(figure["value"], 4),
            metric_name=f"{metric}, {form}",
        )
        for form, model in artifact.models.items()
        for split, metrics in model.scores.items()
        for metric, figure in metrics.items()
    ]
    data = ModelCardData(
        model_name=origin.name,
        library_name="onnx",
        pipeline_tag=kind.pipeline,
        tags=["understudy", "distillation", "onnx", *(["int8"] if "int8" in artifact.models else [])],
        eval_results=results,
    )
    return str(data.to_yaml()).strip()


def _summary(artifact: Artifact, origin: Origin) -> str:
    made = {
        "tinybert": "distilled from its layers and then its predictions (TinyBERT)",
        "joint": "distilled from its layers, its predictions and the labels in one sum",
        "patient": "distilled from its predictions and the first token's states (Patient KD)",
        "soft-labels": "distilled from its predictions",
    }
    size = f"{artifact.parameters / 1e6:.1f}M parameters"
    what = artifact.task if artifact.task == artifact.kind else f"{artifact.task} ({artifact.kind})"
    labels = f" Labels: {', '.join(artifact.labels)}." if artifact.labels else ""
    if origin.method is None:
        return f"A model for {what} of {size}, as ONNX files.{labels}"
    teacher = f"`{origin.teacher}`" if origin.teacher else "a file of predictions"
    if origin.teacher_parameters:
        teacher += f" ({origin.teacher_parameters / 1e6:.1f}M parameters)"
    how = made[origin.method] if origin.teacher else "distilled from predictions"
    return f"A student of {size} for {what}. Its teacher is {teacher}; it was {how}.{labels}"


def _figure(figure: Mapping[str, float]) -> str:
    return f"{figure['value']:.3f} ({figure['low']:.3f}–{figure['high']:.3f})"


def _scores(artifact: Artifact, origin: Origin) -> str:
    rows = [("teacher, fp32 (torch)", origin.teacher_scores)] if origin.teacher_scores else []
    details = artifact.details.get("torch", {})
    rows += [("fp32 (torch)", details)] if details else []
    rows += [(f"{name} ({model.engine})", model.scores) for name, model in artifact.models.items()]
    columns = [(split, metric) for split, metrics in rows[-1][1].items() for metric in metrics]
    lines = [["form", *(f"{metric}, {split}" for split, metric in columns)]]
    for name, scores in rows:
        cells = [_figure(scores[split][metric]) if split in scores else "" for split, metric in columns]
        lines.append([name, *cells])
    kept = [
        f"\n\nIn `{name}` these parts stay in fp32, since the score would have fallen: "
        f"{', '.join(model.kept_in_fp32)}."
        for name, model in artifact.models.items()
        if model.kept_in_fp32
    ]
    return _table(lines) + "\n\nIn brackets: 95 % intervals over the rows." + "".join(kept)


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
    return f"{_table(sizes)}\n\n{_table(lines)}\n\n{where}"


def _use(artifact: Artifact, kind: RowKind) -> str:
    example = '("a text", "another one")' if "text_pair" in artifact.fields else kind.example
    return (
        "```python\nfrom understudy import Predictor  # needs onnxruntime, tokenizers and numpy; no torch\n\n"
        f'predict = Predictor("THIS_FOLDER")\npredict({example})\n```'
    )


def _limits(artifact: Artifact, kind: RowKind) -> str:
    lines = [
        f"- It reads at most {artifact.max_length} tokens; "
        + (
            "longer contexts are read in windows."
            if kind.has_windows
            else "what comes after them is not seen."
        )
    ]
    if "int8" in artifact.models:
        lines.append(
            "- int8 rounds activations by the whole batch: beside others a text may get other last digits."
        )
    lines.append("- The scores are those of the development set named above; on other text it may do worse.")
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
    if artifact.details.get("labels_from") == "teacher":
        lines.append("- There were no development labels: the scores are agreement with the teacher.")
    return "\n".join(lines)


def _table(lines: Sequence[Sequence[str]]) -> str:
    head, *rows = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([head, "|" + "---|" * len(lines[0]), *rows])
