"""A student to an artifact: ONNX in fp32 and int8, run and scored before it is called finished."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from understudy.artifacts.artifact import ARTIFACT, Artifact, ExportedModel, read_artifact, write_artifact
from understudy.artifacts.card import Origin, write_card
from understudy.artifacts.gate import quantize_less
from understudy.artifacts.int8 import parts_of, quantize
from understudy.artifacts.onnx import OPSET, export_onnx, input_names
from understudy.artifacts.session import open_file
from understudy.data.encode import Collator
from understudy.data.kind import Kind
from understudy.data.load import TaskData, load_data
from understudy.data.sources import dev_splits
from understudy.errors import ModelError, OutputError
from understudy.evaluation.outcomes import Logits
from understudy.evaluation.score import (
    EvaluationSplit,
    Score,
    collect_logits,
    predict_logits,
    prepare_split,
    score_logits,
)
from understudy.files import hash_file, write_atomically
from understudy.kinds import get_rows
from understudy.models.pretrained import load_config, model_labels
from understudy.models.student import STUDENT, student_inside
from understudy.recipe.load import load_recipe
from understudy.recipe.recipe import Recipe
from understudy.stages.bench import bench
from understudy.stages.described import describe_input
from understudy.stages.evaluate import evaluation_recipe, load_to_score
from understudy.stages.result import (
    DISTILLED,
    RESULT,
    StageResult,
    announce,
    check_apart,
    check_is_folder,
    hash_model,
    input_paths,
    saved_recipe,
    score_content,
    versions,
)
from understudy.training.cpu import tune_cpu

logger = logging.getLogger(__name__)

# As transformers.js looks for them.
FP32, INT8 = "onnx/model.onnx", "onnx/model_quantized.onnx"
OPENVINO = "openvino/model_int8.xml"
CARD = "README.md"
# fp32 by another engine adds up in another order; more than this is another model.
PARITY = 1e-3
_SAMPLE = 256  # rows, to see which part quantisation hurts
_BATCH = 32


def export(
    student: str | Path,
    *,
    output_dir: str | Path,
    task: str | None = None,
    data: str | Path | None = None,
    recipe: str | Path | None = None,
    settings: Sequence[str] | Mapping[str, Any] = (),
    tolerance: float = 0.5,
    int8: bool = True,
    openvino: bool = False,
    speed: bool = True,
    overwrite: bool = False,
) -> StageResult:
    """Turn a fine-tuned model into ONNX files that were run and scored.

    The fp32 file must say what torch says, and int8 must keep the score; where it does not, the parts that
    quantisation hurts most stay in fp32.

    Args:
        student: a folder or a hub name. A folder that `distill` or `finetune` wrote knows its task and data.
        tolerance: points of the first metric that int8 may lose on a development set.
        openvino: write int8 for OpenVINO too, calibrated on training rows; needs the extra `openvino`.
        speed: time the forms against torch, for the card.
        output_dir: gets the artifact.

    Example:
        >>> understudy.export("students/sst2", output_dir="artifacts/sst2")  # doctest: +SKIP
        >>> from understudy.predictor import Predictor                           # doctest: +SKIP
        >>> Predictor("artifacts/sst2")("a fine film")["label"]              # doctest: +SKIP
        'positive'
    """
    folder, model = Path(output_dir).expanduser(), student_inside(student)
    check_is_folder(folder.resolve())
    is_artifact = (folder / ARTIFACT).is_file()
    if folder.is_dir() and any(folder.iterdir()) and not (is_artifact and overwrite):
        remedy = (
            "Use --overwrite to replace it, or another" if is_artifact else "It is no artifact: use another"
        )
        raise OutputError(f"{folder} is there already. {remedy} --output-dir.")
    run = evaluation_recipe(model, task=task, data=data, recipe=recipe, settings=settings)
    check_apart(folder, [student, *input_paths(run)])
    tune_cpu()
    subject = _load(str(model), run, openvino=openvino)
    # Beside its place, and moved there when it is whole: a folder is an artifact or is not there.
    working = folder.with_name(f"{folder.name}.writing")
    shutil.rmtree(working, ignore_errors=True)
    (working / "onnx").mkdir(parents=True)
    try:
        maker = _Maker(subject, working, tolerance)
        maker.fp32()
        if int8:
            maker.int8()
        if openvino:
            maker.openvino()
        artifact = _describe(subject, maker)
        write_artifact(working, artifact)
        if speed:
            artifact = replace(artifact, details={**artifact.details, "speed": _time(subject, working)})
        (working / CARD).write_text(
            write_card(artifact, _origin(str(student), str(model)), subject.kind), "utf-8"
        )
        content = write_artifact(working, artifact)
        _replace(folder, working)
    finally:
        shutil.rmtree(working, ignore_errors=True)  # what was not finished
    return StageResult(folder, {"stage": "export", **content})


def _replace(folder: Path, made: Path) -> None:
    """Put a finished artifact in the place of another, whose files are removed and no others."""
    if (folder / ARTIFACT).is_file():
        old = json.loads((folder / ARTIFACT).read_text("utf-8"))
        for name in (ARTIFACT, CARD, *old.get("files", ())):
            if (folder / name).resolve().is_relative_to(folder.resolve()):
                (folder / name).unlink(missing_ok=True)
        for inner in sorted((path for path in folder.rglob("*") if path.is_dir()), reverse=True):
            if not any(inner.iterdir()):
                inner.rmdir()
    if not folder.exists() or not any(folder.iterdir()):
        shutil.rmtree(folder, ignore_errors=True)
        made.replace(folder)
        return
    # Somebody's files are there too: ours go in among them, and the one that says "finished" last.
    for file in sorted(made.rglob("*"), key=lambda path: path.name == ARTIFACT):
        if file.is_file():
            target = folder / file.relative_to(made)
            target.parent.mkdir(parents=True, exist_ok=True)
            file.replace(target)


@dataclass(frozen=True)
class _Subject:
    """What is exported, and the rows it is tried on.

    Attributes:
        name: folder or hub name of the model.
        train: encoded rows to calibrate with; None where nothing is calibrated.
    """

    name: str
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerFast
    data: TaskData
    run: Recipe
    splits: dict[str, EvaluationSplit]
    train: EvaluationSplit | None
    inputs: tuple[str, ...]

    @property
    def kind(self) -> Kind:
        return self.run.task_row.kind


def _load(model: str, run: Recipe, *, openvino: bool) -> _Subject:
    names = [*dev_splits(run.task_row, run.data), *(["train"] if openvino else [])]
    labels = model_labels(load_config(model), run.task_row)
    data = load_data(run.task_row, run.data, names, labels=labels)
    announce(data)
    loaded, tokenizer = load_to_score(model, run, data)
    splits = {
        split: prepare_split(run.task_row, rows, tokenizer, max_length=run.max_length, stride=run.data.stride)
        for split, rows in data.splits.items()
    }
    train = splits.pop("train", None)
    inputs = input_names(loaded, tokenizer.model_input_names)
    return _Subject(model, loaded, tokenizer, data, run, splits, train, inputs)


@dataclass
class _Maker:
    """Makes one form after the other in a folder, each run and scored."""

    subject: _Subject
    folder: Path
    tolerance: float
    models: dict[str, ExportedModel] = field(default_factory=dict)
    gates: dict[str, Any] = field(default_factory=dict)
    logits: dict[str, Logits] = field(default_factory=dict)
    torch_scores: dict[str, Score] = field(default_factory=dict)
    scores: dict[str, Score] = field(default_factory=dict)

    def fp32(self) -> None:
        """The file that says what torch says."""
        subject, file = self.subject, self.folder / FP32
        truth = {
            name: predict_logits(subject.model, subject.tokenizer, split.encoded, batch_size=_BATCH)
            for name, split in subject.splits.items()
        }
        self.torch_scores = {name: score_logits(subject.splits[name], one) for name, one in truth.items()}
        logger.info("Exporting to ONNX")
        export_onnx(subject.model, subject.kind, subject.inputs, file)
        self.logits = self._logits(file, "onnxruntime")
        difference = max(_difference(self.logits[name], truth[name]) for name in truth)
        largest = max(float(np.abs(part).max()) for one in truth.values() for part in one)
        num_rows = sum(len(split.rows) for split in subject.splits.values())
        logger.info("fp32: at most %.1e from torch's logits on %d rows", difference, num_rows)
        if difference > PARITY * max(1.0, largest):
            raise ModelError(
                f"the ONNX file's logits differ from torch's by {difference:.3g} on {num_rows} rows; at most "
                f"{PARITY * max(1.0, largest):.3g} was expected. This model cannot be exported faithfully."
            )
        self.gates["fp32"] = {"rows": num_rows, "max_difference": difference, "largest_logit": largest}
        self.scores = self._scores(self.logits)
        self._add("fp32", "onnxruntime", [file], self.scores)

    def int8(self) -> None:
        """Weights in 8 bits, all of them or as many as keep the score."""
        source, target = self.folder / FP32, self.folder / INT8
        parts = list(parts_of(source))

        def make(keep: Sequence[str]) -> Path:
            quantize(source, target, keep=keep)
            return target

        self._gate("int8", "onnxruntime", parts, make, [target])

    def openvino(self) -> None:
        """Weights and activations in 8 bits, by ranges seen on training rows."""
        from understudy.artifacts.openvino import quantize_openvino

        source, target = self.folder / FP32, self.folder / OPENVINO
        target.parent.mkdir()
        rows = self.subject.train
        assert rows is not None
        arrays = _batches(self.subject, rows)

        def make(keep: Sequence[str]) -> Path:
            quantize_openvino(source, target, arrays, keep=keep)
            return target

        files = [target, target.with_suffix(".bin")]
        self._gate("openvino-int8", "openvino", list(parts_of(source)), make, files)

    def _gate(
        self,
        name: str,
        engine: str,
        parts: Sequence[str],
        make: Callable[[Sequence[str]], Path],
        files: Sequence[Path],
    ) -> None:
        scores: dict[str, Score] = {}

        def points_lost(file: Path) -> float:
            scores.clear()
            scores.update(self._scores(self._logits(file, engine)))
            metric = self.subject.run.task_row.headline
            lost = [
                100 * (self.scores[split].metrics[metric].value - score.metrics[metric].value)
                for split, score in scores.items()
            ]
            return max(lost)

        def harm() -> dict[str, float]:
            """The mean squared change of the logits of some rows, by each part alone."""
            logger.warning("%s loses too much: looking for the parts that it hurts most", name)
            found = {}
            for part in parts:
                file = make([other for other in parts if other != part])
                found[part] = self._change(file, engine)
            return found

        logger.info("Quantising: %s", name)
        _, tried = quantize_less(make, points_lost, harm, tolerance=self.tolerance)
        last = tried[-1]
        logger.info("%s: %s points lost, %g allowed", name, last["points_lost"], self.tolerance)
        kept: Any = last["kept_in_fp32"]
        if kept:
            logger.warning("%s: left in fp32, since the score would have fallen: %s", name, ", ".join(kept))
        self.gates[name] = {"tolerance": self.tolerance, "tried": tried}
        self._add(name, engine, files, scores, kept)

    def _add(
        self,
        name: str,
        engine: str,
        files: Sequence[Path],
        scores: Mapping[str, Score],
        kept: Sequence[str] = (),
    ) -> None:
        self.models[name] = ExportedModel(
            engine,
            files[0].relative_to(self.folder).as_posix(),
            sum(file.stat().st_size for file in files),
            score_content(scores)["scores"],
            tuple(kept),
        )

    def _scores(self, logits: Mapping[str, Logits]) -> dict[str, Score]:
        return {name: score_logits(self.subject.splits[name], one) for name, one in logits.items()}

    def _logits(self, file: Path, engine: str) -> dict[str, Logits]:
        return {
            name: run_exported(file, engine, self.subject, split.encoded)
            for name, split in self.subject.splits.items()
        }

    def _change(self, file: Path, engine: str) -> float:
        name, split = next(iter(self.subject.splits.items()))
        chosen = np.random.default_rng(0).permutation(len(split.encoded))[:_SAMPLE]
        found = run_exported(file, engine, self.subject, split.encoded.select(chosen))
        # Where rows were shorter than the split's longest, their logits are padded less.
        return float(
            np.mean(
                [
                    np.mean((part - whole[chosen][tuple(slice(size) for size in part.shape)]) ** 2)
                    for part, whole in zip(found, self.logits[name], strict=True)
                ]
            )
        )


def run_exported(file: Path, engine: str, subject: _Subject, encoded: Any) -> Logits:
    """Logits of encoded rows by an exported file."""
    session = open_file(file, engine, subject.inputs, subject.kind.outputs, threads=None)

    def run(batch: Mapping[str, Tensor]) -> tuple[NDArray[np.float32], ...]:
        arrays = {name: batch[name].numpy() for name in subject.inputs}
        shape = arrays["input_ids"].shape
        made = session({name: value.reshape(-1, shape[-1]) for name, value in arrays.items()})
        return tuple(subject.kind.join_texts(one, shape) for one in made)

    return collect_logits(run, subject.tokenizer, encoded, batch_size=_BATCH)


def _difference(first: Logits, second: Logits) -> float:
    pairs = zip(first, second, strict=True)
    return max(float(np.abs(one - other).max()) for one, other in pairs)


def _batches(subject: _Subject, rows: EvaluationSplit) -> list[dict[str, NDArray[np.int64]]]:
    """Some training rows, one by one: a batch's padding is nothing to calibrate with."""
    collate = Collator(subject.tokenizer)
    chosen = np.random.default_rng(0).permutation(len(rows.encoded))[:_SAMPLE].tolist()
    made = []
    for place in chosen:
        batch = collate([rows.encoded[place]])
        width = batch["input_ids"].shape[-1]
        made.append({name: batch[name].reshape(-1, width).numpy() for name in subject.inputs})
    return made


def _describe(subject: _Subject, maker: _Maker) -> Artifact:
    """What artifact.json says; the tokenizer and the config are written here."""
    folder, tokenizer, run = maker.folder, subject.tokenizer, subject.run
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    tokenizer.save_pretrained(folder)
    subject.model.config.save_pretrained(folder)
    files = [one for one in folder.rglob("*") if one.is_file() and one.name != CARD]
    return Artifact(
        **describe_input(run, tokenizer, subject.data, subject.inputs),
        models=maker.models,
        default="int8" if "int8" in maker.models else "fp32",
        parameters=subject.model.num_parameters(),
        files={one.relative_to(folder).as_posix(): hash_file(one) for one in sorted(files)},
        details={
            "gate": maker.gates,
            "torch": score_content(maker.torch_scores)["scores"],
            "opset": OPSET,
            "hashes": {"model": hash_model(subject.name), **subject.data.hashes},
            "versions": versions(),
        },
    )


def _time(subject: _Subject, folder: Path) -> dict[str, Any]:
    """The forms beside torch: one text and 32, of the length that texts of this task mostly have."""
    lengths = [length for split in subject.splits.values() for length in split.encoded["length"][:]]
    length = max(2, int(np.median(lengths)))
    return _speed(bench([subject.name, folder], batches=(1, 32), lengths=(length,), threads=(1,)).content)


def _speed(timed: Mapping[str, Any], teacher: str | None = None) -> dict[str, Any]:
    """What a card says of a bench: the times of each form, and of the teacher where one took part."""
    forms = {name: model["form"] for name, model in timed["models"].items()}
    if teacher is not None:
        forms[teacher] = f"teacher, {forms[teacher]}"
    rows = [{**row, "form": forms[row["model"]]} for row in timed["rows"]]
    for row in rows:
        del row["model"]
    return {"machine": timed["machine"], "rows": rows}


def add_speed_to_card(folder: Path, student: str | Path, timed: Mapping[str, Any]) -> None:
    """Write an artifact's card again with times that were measured after the export, beside other models.

    Args:
        student: what was exported.
        timed: the content of a bench of the teacher, the student and the artifact.
    """
    artifact = read_artifact(folder)
    artifact = replace(
        artifact, details={**artifact.details, "speed": _speed(timed, next(iter(timed["models"])))}
    )
    origin = _origin(str(student), str(student_inside(student)))
    write_atomically(folder / CARD, write_card(artifact, origin, get_rows(artifact.kind)))


def _origin(student: str, model: str) -> Origin:
    """What the run that made a student left beside it."""
    saved = saved_recipe(model)
    name = _title(Path(student).resolve()) if Path(student).is_dir() else student
    if saved is None or not saved.with_name(RESULT).is_file():
        return Origin(name)
    recipe = load_recipe(saved)
    result = json.loads(saved.with_name(RESULT).read_text("utf-8"))
    origin = Origin(name, data=_shown(recipe.data.source or recipe.data.train), recipe=_without_paths(recipe))
    if result["stage"] != "distill":
        return origin
    return replace(
        origin,
        teacher=_teacher_name(recipe.teacher),
        method=result["method"],
        teacher_scores=result.get("against", {}).get("scores", {}),
        teacher_parameters=result["parameters"].get("teacher"),
    )


def _title(folder: Path) -> str:
    """What a student is called: its folder's name, or the run's where that says no more than what it is."""
    return folder.parent.name if folder.name in (DISTILLED, STUDENT) else folder.name


def _teacher_name(teacher: str | None) -> str | None:
    """The encoder that became the teacher, where it is known; else the teacher's own name."""
    saved = saved_recipe(teacher) if teacher is not None else None
    encoder = load_recipe(saved).model if saved is not None else None
    return f"{_shown(encoder)}, fine-tuned" if encoder is not None else _shown(teacher)


def _shown(name: str | None) -> str | None:
    """A hub name as it is; of a path its last part, for the rest is somebody's machine."""
    return Path(name).name if name is not None and Path(name).is_absolute() else name


def _without_paths(recipe: Recipe) -> str:
    def shorten(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: shorten(one) for key, one in value.items()}
        if isinstance(value, list):
            return [shorten(one) for one in value]
        return _shown(value) if isinstance(value, str) else value

    return yaml.safe_dump(shorten(yaml.safe_load(recipe.to_yaml())), sort_keys=False, allow_unicode=True)
