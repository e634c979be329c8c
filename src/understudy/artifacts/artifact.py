"""An artifact's folder, and its description in artifact.json. Reading it does not need torch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from understudy.errors import ModelError
from understudy.files import hash_file, sync_all, write_atomically

ARTIFACT = "artifact.json"
TOKENIZER = "tokenizer.json"
CARD = "README.md"
# Increased when older readers would misread the file.
FORMAT = 1


@dataclass(frozen=True)
class ExportedModel:
    """One form of a student's weights.

    Attributes:
        engine: `onnxruntime` or `openvino`.
        file: relative to the artifact's folder; for OpenVINO the `.xml`, with its `.bin` next to it.
        bytes: the size of all its files.
        scores: scores on the development sets with intervals, by split and metric.
        kept_in_fp32: parts that are not quantised because the score would have dropped.
    """

    engine: str
    file: str
    bytes: int
    scores: Mapping[str, Mapping[str, Mapping[str, float]]] = field(default_factory=dict)
    kept_in_fp32: Sequence[str] = ()


@dataclass(frozen=True)
class Artifact:
    """The content of artifact.json.

    Attributes:
        fields: the fields of a row: `text`, `text_pair`; `question`, `context` …
        labels: label names in the order of the logits; None if there are no names.
        unanswerable: whether a question may have no answer.
        max_length, stride, truncation_side: see `TextReader`.
        padding: each input of the model except the mask, with its padding value.
        inputs, outputs: names of the models' inputs and outputs, in order.
        models: the models by name: `int8`, `fp32` …
        default: the model that is used if none is named.
        files: every file that a prediction needs, with its SHA-256.
        details: figures of the export, for information only.
        columns: the column of each field in the files that the student was trained on, if it has one.
        temperature: divides the logits, so that probabilities are calibrated.
        thresholds: the lowest probability at which each label is predicted, chosen on the first development
            set; None if predictions have no thresholds.
    """

    task: str
    kind: str
    fields: Sequence[str]
    labels: Sequence[str] | None
    unanswerable: bool
    max_length: int
    stride: int | None
    truncation_side: str
    padding: Mapping[str, int]
    inputs: Sequence[str]
    outputs: Sequence[str]
    models: Mapping[str, ExportedModel]
    default: str
    parameters: int
    files: Mapping[str, str]
    details: Mapping[str, Any] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    temperature: float = 1.0
    thresholds: Mapping[str, float] | None = None

    def choose(self, model: str | None) -> ExportedModel:
        """Return a model by name, or the default."""
        if model is not None and model not in self.models:
            raise ModelError(f"the artifact has {', '.join(self.models)}; got {model!r}.")
        return self.models[model or self.default]


def write_artifact(folder: Path, artifact: Artifact) -> dict[str, Any]:
    """Write artifact.json, which marks the export as finished, once all other files are on disk."""
    sync_all(folder)
    content = {"format": FORMAT, **asdict(artifact)}
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
    write_atomically(folder / ARTIFACT, text + "\n")
    written: dict[str, Any] = json.loads(text)
    return written


def read_artifact(folder: Path) -> Artifact:
    """Read and check a folder's artifact.json."""
    file = folder / ARTIFACT
    if not folder.is_dir():
        raise ModelError(f"{folder} is not a folder. Give one that understudy export or run wrote.")
    if not file.is_file():
        raise ModelError(
            f"{folder} is not an artifact: it has no {ARTIFACT}. Make one of a student: understudy export "
            f"{folder} --output-dir ARTIFACT"
        )
    try:
        content = json.loads(file.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{file} is not JSON: {error}. Export the student again.") from None
    found = content.pop("format", None) if isinstance(content, dict) else None
    if found != FORMAT:
        raise ModelError(
            f"{file}: the format must be {FORMAT}; got {found!r}. Export the student again, or use the "
            "understudy that wrote it."
        )
    try:
        models = {name: ExportedModel(**model) for name, model in content.pop("models").items()}
        artifact = Artifact(models=models, **content)
    except (TypeError, KeyError, AttributeError) as error:
        known = ", ".join(one.name for one in fields(Artifact))
        raise ModelError(f"{file} must have {known}: {error}. Export the student again.") from None
    _check(file, artifact)
    return artifact


def _check(file: Path, artifact: Artifact) -> None:
    if not isinstance(artifact.files, dict):
        raise ModelError(f"{file}: files must have a hash for every name. Export the student again.")
    if artifact.default not in artifact.models:
        raise ModelError(f"{file}: default must be one of {', '.join(artifact.models)}.")
    if artifact.thresholds is not None and set(artifact.thresholds) != set(artifact.labels or ()):
        raise ModelError(f"{file}: thresholds must have every label and no other. Export the student again.")


def split_form(name: str | Path) -> tuple[str, str | None]:
    """Split `ARTIFACT:int8` into the artifact and its form; a name without a form is returned unchanged."""
    folder, _, form = str(name).rpartition(":")
    if not folder or Path(name).exists() or not Path(folder).expanduser().is_dir():
        return str(name), None
    shipped = shipped_inside(folder)
    if not is_artifact(shipped):
        raise ModelError(f"{folder} is not an artifact, so it has no {form!r}. Export it first.")
    return str(shipped), form


def shipped_inside(folder: str | Path) -> Path:
    """Return the artifact inside a whole run's folder; any other folder is returned unchanged."""
    given = Path(folder).expanduser()
    inside = given / "artifact"
    return inside if is_artifact(inside) and not is_artifact(given) else given


def is_artifact(folder: str | Path) -> bool:
    """Return whether a folder holds an artifact."""
    return (Path(folder).expanduser() / ARTIFACT).is_file()


def refuse_artifact(model: str | Path) -> None:
    """Refuse an artifact where a model to export is needed."""
    if is_artifact(model):
        raise ModelError(f"{model} is an artifact already. Export the student that it was made from.")


def checked_file(folder: Path, artifact: Artifact, name: str) -> Path:
    """Return the path of an artifact's file, refusing one that does not match its hash."""
    path = folder / name
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise ModelError(f"{folder / ARTIFACT}: {name} is outside of the folder. Export the student again.")
    if not path.is_file():
        raise ModelError(f"{path} is missing. Copy the whole artifact, or export the student again.")
    expected, found = artifact.files.get(name), hash_file(path)
    if found != expected:
        raise ModelError(
            f"{path} is not the file that was exported: its SHA-256 is {found[:12]}…, and {ARTIFACT} says "
            f"{str(expected)[:12]}…. Copy the artifact again; it may have been cut short."
        )
    return path
