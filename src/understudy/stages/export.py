"""Export a student to an artifact: ONNX in fp32 and int8, run and scored before it is published."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from understudy.artifacts.artifact import CARD, Artifact, refuse_artifact, write_artifact
from understudy.artifacts.card import write_card
from understudy.artifacts.forms import ExportSubject, FormMaker
from understudy.artifacts.onnx import OPSET
from understudy.artifacts.quantize import Int4
from understudy.distillation.agreement import labels_from
from understudy.evaluation.score import score_content
from understudy.files import hash_file
from understudy.models.settings import student_inside
from understudy.recipe.recipe import Recipe
from understudy.recipe.resolve import input_paths
from understudy.stages.bench import bench
from understudy.training.cpu import tune_cpu
from understudy.workspace.artifact_folder import replace_artifact, speed_content
from understudy.workspace.folders import check_apart, check_artifact_folder
from understudy.workspace.hashes import hash_model, versions
from understudy.workspace.inputs import describe_input
from understudy.workspace.lock import only_process_in
from understudy.workspace.models import load_subject
from understudy.workspace.origin import find_origin
from understudy.workspace.recipes import evaluation_recipe
from understudy.workspace.results import ExportResult

logger = logging.getLogger(__name__)


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
    int4: Int4 | None = None,
    openvino: bool = False,
    speed: bool = True,
    overwrite: bool = False,
) -> ExportResult:
    """Export a fine-tuned model to ONNX files that have been run and scored.

    The fp32 file must reproduce torch's outputs, and int8 must keep the score; if it does not, the parts that
    quantisation hurts most stay in fp32.

    Args:
        student: a folder or a hub name. A folder written by `distill` or `finetune` knows its task and data.
        tolerance: how many points of the first metric a quantised form may lose on a development set.
        int4: also write a form with 4-bit weights: `embeddings` only, a little slower than int8, or `all`,
            the smallest file, about twice as slow as int8.
        openvino: also write int8 for OpenVINO, calibrated on training rows; needs the extra `openvino`.
        speed: time the forms against torch, for the model card.
        output_dir: gets the artifact.

    Examples:
        >>> understudy.export("students/sst2", output_dir="artifacts/sst2")  # doctest: +SKIP
        >>> from understudy.predictor import Predictor                           # doctest: +SKIP
        >>> Predictor("artifacts/sst2")("a fine film")["label"]              # doctest: +SKIP
        'positive'
    """
    folder, model = Path(output_dir).expanduser(), student_inside(student)
    with only_process_in(folder):
        check_artifact_folder(folder, overwrite=overwrite)
        refuse_artifact(model)
        run = evaluation_recipe(model, task=task, data=data, recipe=recipe, settings=settings)
        check_apart(folder, [student, *input_paths(run)])
        tune_cpu()
        subject = load_subject(str(model), run, openvino=openvino)
        # Written next to its place and moved there when complete, so a folder never holds half an artifact.
        working = folder.with_name(f"{folder.name}.writing")
        shutil.rmtree(working, ignore_errors=True)
        (working / "onnx").mkdir(parents=True)
        try:
            maker = FormMaker(subject, working, tolerance)
            maker.fp32()
            if int8:
                maker.int8()
            if int4:
                maker.int4(int4)
            if openvino:
                maker.openvino()
            artifact = _describe(subject, run, maker)
            write_artifact(working, artifact)
            if speed:
                artifact = replace(artifact, details={**artifact.details, "speed": _time(subject, working)})
            (working / CARD).write_text(
                write_card(artifact, find_origin(str(student), str(model)), subject.kind), "utf-8"
            )
            content = write_artifact(working, artifact)
            replace_artifact(folder, working)
        finally:
            shutil.rmtree(working, ignore_errors=True)  # left over if not finished
        return ExportResult(folder, {"stage": "export", **content})


def _describe(subject: ExportSubject, run: Recipe, maker: FormMaker) -> Artifact:
    """Save the tokenizer and the config, and return the content of artifact.json."""
    folder, tokenizer = maker.folder, subject.tokenizer
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    tokenizer.save_pretrained(folder)
    subject.model.config.save_pretrained(folder)
    # A teacher's own predictions say nothing about how often it is right.
    calibration = maker.calibration() if labels_from(run) is None else None
    temperature = calibration.temperature if calibration is not None else 1.0
    files = [one for one in folder.rglob("*") if one.is_file() and one.name != CARD]
    return Artifact(
        **describe_input(run, tokenizer, subject.data, subject.inputs),
        thresholds=maker.thresholds(temperature),
        models=maker.models,
        default=maker.default,
        parameters=subject.model.num_parameters(),
        temperature=temperature,
        files={one.relative_to(folder).as_posix(): hash_file(one) for one in sorted(files)},
        details={
            "gate": maker.gates,
            "torch": score_content(maker.torch_scores)["scores"],
            "opset": OPSET,
            **({"calibration": calibration.content()} if calibration is not None else {}),
            **({"labels_from": labels_from(run)} if labels_from(run) else {}),
            "hashes": {"model": hash_model(subject.name), **subject.data.hashes},
            "versions": versions(),
        },
    )


def _time(subject: ExportSubject, folder: Path) -> dict[str, Any]:
    """Time the forms against torch: batches of 1 and 32 texts of the task's median length."""
    lengths = [length for split in subject.splits.values() for length in split.encoded["length"][:]]
    length = max(2, int(np.median(lengths)))
    return speed_content(
        bench([subject.name, folder], batches=(1, 32), lengths=(length,), threads=(1,)).content
    )
