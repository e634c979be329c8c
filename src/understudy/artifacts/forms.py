"""The forms of an exported model, each run and scored: fp32, int8, int4, OpenVINO."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from understudy.artifacts.artifact import ExportedModel
from understudy.artifacts.gate import describe_loss, loses_too_much, quantize_less
from understudy.artifacts.onnx import export_onnx
from understudy.artifacts.quantize import EMBEDDINGS, Int4, parts_of, quantize
from understudy.artifacts.session import Session, open_file
from understudy.data.encode import Collator
from understudy.data.kind import Kind
from understudy.data.load import TaskData
from understudy.data.task import Task
from understudy.errors import ModelError
from understudy.evaluation.bootstrap import Estimate, estimate_difference
from understudy.evaluation.calibration import Calibration, calibrate
from understudy.evaluation.compare import differences
from understudy.evaluation.outcomes import Logits
from understudy.evaluation.score import (
    EvaluationSplit,
    Score,
    collect_logits,
    predict_logits,
    score_content,
    score_logits,
)

logger = logging.getLogger(__name__)

# The names that transformers.js expects.
FP32, INT8, INT4 = "onnx/model.onnx", "onnx/model_quantized.onnx", "onnx/model_q4.onnx"
OPENVINO = "openvino/model_int8.xml"

# Engines sum in different orders in fp32; a larger difference means a different model.
PARITY = 1e-3
_SAMPLE = 256  # rows for measuring which part quantisation hurts
_BATCH = 32


@dataclass(frozen=True)
class ExportSubject:
    """A model to export, and the rows to test it on.

    Attributes:
        name: folder or hub name of the model.
        train: encoded rows for calibration; None if nothing is calibrated.
    """

    name: str
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerFast
    data: TaskData
    task: Task
    splits: dict[str, EvaluationSplit]
    train: EvaluationSplit | None
    inputs: tuple[str, ...]

    @property
    def kind(self) -> Kind:
        return self.task.kind


@dataclass
class FormMaker:
    """Writes the forms of a model, and runs and scores each of them."""

    subject: ExportSubject
    folder: Path
    tolerance: float
    models: dict[str, ExportedModel] = field(default_factory=dict)
    gates: dict[str, Any] = field(default_factory=dict)
    logits: dict[str, Logits] = field(default_factory=dict)
    torch_scores: dict[str, Score] = field(default_factory=dict)
    scores: dict[str, Score] = field(default_factory=dict)
    form_logits: dict[str, dict[str, Logits]] = field(default_factory=dict)

    @property
    def default(self) -> str:
        """The form that is used if none is named."""
        return "int8" if "int8" in self.models else "fp32"

    def calibration(self) -> Calibration | None:
        """Calibrate the default form on the first development set."""
        split, rows = next(iter(self.subject.splits.items()))
        logits = self.form_logits[self.default][split]
        decisions = self.subject.kind.decisions(rows.rows, rows.encoded, logits)
        return calibrate(*decisions, num_rows=len(rows.rows)) if decisions is not None else None

    def thresholds(self, temperature: float) -> dict[str, float] | None:
        """Choose the thresholds of labels on the first development set, for the default form."""
        name, split = next(iter(self.subject.splits.items()))
        logits = tuple(one / temperature for one in self.form_logits[self.default][name])
        return self.subject.kind.choose_thresholds(split.rows, split.encoded, logits)

    def fp32(self) -> None:
        """Export fp32, and check that it reproduces torch's outputs."""
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
        self.form_logits["fp32"] = self.logits
        self._add("fp32", "onnxruntime", [file], self.scores)

    def int8(self) -> None:
        """Quantise weights to 8 bits: all of them, or fewer if that costs too much of the score."""
        self._quantize("int8", self.folder / INT8, None)

    def int4(self, weights: Int4) -> None:
        """Quantise embeddings to 4 bits, and the layers to 4 or 8."""
        self._quantize("int4", self.folder / INT4, weights)

    def _quantize(self, name: str, target: Path, int4: Int4 | None) -> None:
        source = self.folder / FP32

        def make(keep: Sequence[str]) -> Path:
            quantize(source, target, keep=keep, int4=int4)
            return target

        parts = list(parts_of(source))
        if int4 == "embeddings":  # in fp32 they would make the file larger than int8
            parts = [part for part in parts if part != EMBEDDINGS]
        elif int4 == "all":  # with a layer in fp32, the file would be larger than for "embeddings"
            parts = []
        self._gate(name, "onnxruntime", parts, make, [target])

    def openvino(self) -> None:
        """Quantise weights and activations to 8 bits, with ranges from training rows."""
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

        def points_lost(file: Path) -> Estimate:
            scores.clear()
            self.form_logits[name] = self._logits(file, engine)
            scores.update(self._scores(self.form_logits[name]))
            lost = [self._points_lost(split, score) for split, score in scores.items()]
            # The worst development set; those where the loss is more than chance come first.
            return max(lost, key=lambda one: (loses_too_much(one, self.tolerance), one.value))

        def harm() -> dict[str, float]:
            """Return the mean squared change of some rows' logits from quantising each part alone."""
            logger.warning(
                "%s loses more than %g points (--tolerance): looking for the parts to keep in fp32",
                name,
                self.tolerance,
            )
            found = {}
            for part in parts:
                file = make([other for other in parts if other != part])
                found[part] = self._change(file, engine)
            return found

        logger.info("Quantising: %s", name)
        _, tried = quantize_less(make, points_lost, harm, tolerance=self.tolerance, name=name)
        is_above = tried[-1]["points_lost"] > self.tolerance  # possibly by chance
        level = logging.WARNING if is_above else logging.INFO
        logger.log(level, "%s: %s", name, describe_loss(tried[-1], self.tolerance))
        kept = tried[-1]["kept_in_fp32"]
        if kept:
            logger.warning(
                "%s: left in fp32: %s; with them, %s points would be lost on %d rows. Size: %.1f MB",
                name,
                ", ".join(kept),
                tried[0]["points_lost"],
                sum(len(split.rows) for split in self.subject.splits.values()),
                sum(file.stat().st_size for file in files) / 1e6,
            )
        self.gates[name] = {
            "tolerance": self.tolerance,
            "tried": tried,
            # Against torch in fp32, row by row.
            "difference": differences(self.subject.task, scores, self.torch_scores),
        }
        self._add(name, engine, files, scores, kept)

    def _points_lost(self, split: str, score: Score) -> Estimate:
        """Return the points of the first metric that a form loses against the fp32 file."""
        lost = estimate_difference(
            self.subject.kind.metric(self.subject.task.headline),
            self.scores[split].predictions.outcomes,
            score.predictions.outcomes,
        )
        return Estimate(100 * lost.value, 100 * lost.low, 100 * lost.high)

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
        return {name: self._run(file, engine, split.encoded) for name, split in self.subject.splits.items()}

    def _run(self, file: Path, engine: str, encoded: Any) -> Logits:
        subject = self.subject
        session = open_file(file, engine, subject.inputs, subject.kind.outputs, threads=None)
        return run_exported(session, subject.kind, subject.inputs, subject.tokenizer, encoded)

    def _change(self, file: Path, engine: str) -> float:
        name, split = next(iter(self.subject.splits.items()))
        chosen = np.random.default_rng(0).permutation(len(split.encoded))[:_SAMPLE]
        found = self._run(file, engine, split.encoded.select(chosen))
        # If the rows are shorter than the split's longest, their logits have less padding.
        return float(
            np.mean(
                [
                    np.mean((part - whole[chosen][tuple(slice(size) for size in part.shape)]) ** 2)
                    for part, whole in zip(found, self.logits[name], strict=True)
                ]
            )
        )


def run_exported(
    session: Session,
    kind: Kind,
    inputs: Sequence[str],
    tokenizer: PreTrainedTokenizerFast,
    encoded: Any,
) -> Logits:
    """Return the logits of encoded rows from an exported model."""

    def run(batch: Mapping[str, Tensor]) -> tuple[NDArray[np.float32], ...]:
        arrays = {name: batch[name].numpy() for name in inputs}
        shape = arrays["input_ids"].shape
        made = session({name: value.reshape(-1, shape[-1]) for name, value in arrays.items()})
        return tuple(kind.join_texts(one, shape) for one in made)

    return collect_logits(run, tokenizer, encoded, batch_size=_BATCH)


def _difference(first: Logits, second: Logits) -> float:
    pairs = zip(first, second, strict=True)
    return max(float(np.abs(one - other).max()) for one, other in pairs)


def _batches(subject: ExportSubject, rows: EvaluationSplit) -> list[dict[str, NDArray[np.int64]]]:
    """Return some training rows, one by one, so that padding does not affect the calibration."""
    collate = Collator(subject.tokenizer)
    chosen = np.random.default_rng(0).permutation(len(rows.encoded))[:_SAMPLE].tolist()
    made = []
    for place in chosen:
        batch = collate([rows.encoded[place]])
        width = batch["input_ids"].shape[-1]
        made.append({name: batch[name].reshape(-1, width).numpy() for name in subject.inputs})
    return made
