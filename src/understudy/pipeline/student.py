"""`understudy.distill`, which returns the scores and a student to call on text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import PreTrainedModel, PreTrainedTokenizerFast, TrainerCallback

from understudy.artifacts.artifact import ARTIFACT, Artifact, ExportedModel
from understudy.artifacts.onnx import TensorModel
from understudy.artifacts.session import Arrays, Logits
from understudy.distillation.recipes import distill_recipe
from understudy.kinds.tasks import get_task
from understudy.models.pretrained import load_model, load_tokenizer
from understudy.models.settings import STUDENT, folder_name, name_students, refuse_one_shape, teacher_inside
from understudy.pipeline.messages import show_messages
from understudy.predictor.predictor import Predictor
from understudy.recipe.load import parse_settings
from understudy.recipe.recipe import Recipe
from understudy.report.notebook import html_table
from understudy.stages.distill import distill_from_recipe, distill_together, finished_distillation
from understudy.workspace.folders import ARTIFACT_FOLDER, RESULT
from understudy.workspace.objects import given_settings, model_path
from understudy.workspace.results import DistillResult, ModelFigures


class Distilled(DistillResult):
    """A finished distillation, which can be called on text.

    Examples:
        >>> student = understudy.distill("teachers/sst2", student="tinybert-4l-312d")  # doctest: +SKIP
        >>> student("a fine film")["label"]                                            # doctest: +SKIP
        'positive'
        >>> student.scores                                                             # doctest: +SKIP
        {'dev': {'accuracy': 0.87}}
    """

    @cached_property
    def predictor(self) -> Predictor:
        """The predictor: the exported student if there is one, otherwise the torch model."""
        assert self.output_dir is not None  # a distillation always has a folder
        if (self.output_dir / ARTIFACT_FOLDER / ARTIFACT).is_file():
            return Predictor(self.output_dir / ARTIFACT_FOLDER)
        return open_student(self.output_dir)

    def __call__(self, inputs: Any, *, batch_size: int = 32) -> Any:
        """Return the prediction for one input, or a list of them for a list of inputs. See `Predictor`."""
        return self.predictor(inputs, batch_size=batch_size)

    @property
    def models(self) -> list[ModelFigures]:
        """The table of a whole run, teacher first; empty if nothing was exported and timed."""
        return [ModelFigures.read(row) for row in self.content.get("models", ())]

    @property
    def verdict(self) -> str | None:
        """`ready`, `close` or `not ready` for the student of a whole run; None for other students."""
        verdict = self.content.get("verdict")
        return str(verdict["level"]) if verdict is not None else None

    def __repr__(self) -> str:
        """Show the scores of what is shipped: int8 after a whole run, otherwise the student itself."""
        shipped = [one for one in self.models if one.name == "student, int8"] or self.models[-1:]
        metrics = {name: figure.value for one in shipped for name, figure in one.scores.items()}
        splits = [metrics] if shipped else self.scores.values()
        scores = ", ".join(f"{name} {value:.3f}" for one in splits for name, value in one.items())
        verdict = f"; {self.content['verdict']['sentence']}" if self.verdict is not None else ""
        return f"Distilled({str(self.output_dir)!r}: {scores}{verdict})"

    def _repr_html_(self) -> str:
        """Show teacher and student side by side in a notebook."""
        verdict = self.verdict
        below = [] if verdict is None else [f"{verdict.capitalize()}. See {self.output_dir}/report.html."]
        if self.models:
            metrics = list(self.models[0].scores)
            header = ["model", *metrics, "MB", "ms for one text"]
            rows = []
            for one in self.models:
                scores = [str(one.scores[name]) for name in metrics]
                rows.append([one.name, *scores, f"{one.bytes / 1e6:.1f}", f"{one.milliseconds[1]:.1f}"])
            return html_table(header, rows, below)
        sides = {"teacher": self.teacher_scores or {}, "student": self.intervals}
        split, figures = next(iter(self.intervals.items()))
        rows = [
            [name, *(str(side[split][metric]) for metric in figures)]
            for name, side in sides.items()
            if split in side
        ]
        return html_table(["model", *figures], rows, below)


def distill(
    teacher: str | Path | PreTrainedModel | None = None,
    *,
    output_dir: str | Path | None = None,
    student: str | Path | PreTrainedModel | None = None,
    method: str | None = None,
    predictions: str | Path | None = None,
    task: str | None = None,
    data: str | Path | Mapping[str, Any] | None = None,
    unlabelled: Sequence[str | Path | Dataset] = (),
    recipe: str | Path | None = None,
    settings: Sequence[str] | Mapping[str, Any] = (),
    metric: str | None = None,
    processing_class: PreTrainedTokenizerFast | None = None,
    revision: str | None = None,
    callbacks: Sequence[TrainerCallback] = (),
    overwrite: bool = False,
) -> Distilled:
    """Distil a fine-tuned teacher into a small student, evaluate both, and return a student to call.

    Args:
        teacher: a folder, a hub name, or a model in memory with its `processing_class`. A folder written by
            `finetune` knows its task and data.
        student: a shape (`tinybert-4l-312d`, `6l-384d`), initialised according to the recipe, or an encoder
            to start from: a folder, a hub name or a model in memory. Defaults to the recipe's.
        method: `tinybert`: intermediate layers, then predictions; `joint`: layers, predictions and labels in
            one sum; `soft-labels`: labels and the teacher's predictions; `patient`: the same plus the hidden
            states of the first token. Defaults to the recipe's, or `tinybert` without a recipe.
        predictions: a Parquet file with any model's predictions for the training rows, instead of a teacher,
            for method `soft-labels`; see `docs/reference/recipes.md`.
        data: a folder in the task's layout, a hub dataset, files (`{"train": "a.csv", "dev": "b.csv"}`, or
            `{"train": "a.csv", "split": 0.1, "text": "review", "label": "stars"}`), or datasets in memory: a
            `DatasetDict`, or `{"train": dataset, "dev": dataset}`.
        unlabelled: rows without labels to learn from too: files, folders, patterns, or datasets in memory.
        recipe: a shipped name or a file. Defaults to `tinybert-TASK`, `joint-KIND`, `pkd-KIND` or
            `soft-labels-KIND`.
        settings: override the recipe, e.g. `{"prediction.temperature": 2}`.
        metric: the metric that is reported and selects the best checkpoint, e.g. `f1` or a scikit-learn
            scorer such as `balanced_accuracy`. Defaults to the task's.
        processing_class: the tokenizer of a teacher in memory.
        revision: a commit, tag or branch of a teacher on the hub.
        callbacks: callbacks of the transformers Trainer, for every training stage.
        output_dir: gets the student in `student/`, result.json, recipe.yaml and a folder per stage. An
            interrupted run is resumed. Defaults to `students/NAME-OF-THE-TEACHER`, where a finished run of
            the same recipe is not repeated.

    Examples:
        >>> student = understudy.distill(                          # doctest: +SKIP
        ...     "teachers/mrpc", student="tinybert-4l-312d", output_dir="students/mrpc"
        ... )
        >>> student(("A cat sleeps.", "There is a sleeping cat."))  # doctest: +SKIP
        {'label': 'equivalent', 'score': 0.97, 'probabilities': {…}}
    """
    built = _build_recipe(
        teacher,
        student=student,
        method=method,
        predictions=predictions,
        task=task,
        data=data,
        unlabelled=unlabelled,
        recipe=recipe,
        settings=settings,
        metric=metric,
        processing_class=processing_class,
        revision=revision,
    )
    folder = Path(output_dir) if output_dir is not None else _default_folder(built)
    if output_dir is None and not overwrite:
        finished = finished_distillation(built, folder)
        if finished is not None:
            return Distilled(finished.output_dir, finished.content)
    with show_messages():
        result = distill_from_recipe(built, folder, overwrite=overwrite, callbacks=callbacks)
    return Distilled(result.output_dir, result.content)


def _default_folder(recipe: Recipe) -> Path:
    """Return the default folder of a distillation, named after its teacher."""
    teacher = Path(recipe.tokenizer_model).absolute()  # "." has no name of its own
    return Path("students") / folder_name(str(teacher))


def distill_students(
    teacher: str | Path | PreTrainedModel | None,
    students: Sequence[str | Path],
    *,
    output_dir: str | Path,
    callbacks: Sequence[TrainerCallback] = (),
    overwrite: bool = False,
    **options: Any,
) -> dict[str, Distilled]:
    """Distil several students at once: each forward pass of the teacher serves all of them.

    Every student is the same, to the bit, as if it were distilled alone.

    Args:
        students: shapes, or folders of saved encoders to start from.
        output_dir: gets a folder per student, as `distill` writes it. Finished students are kept.
        callbacks: callbacks of the transformers Trainer; each one sees the training of every student.
        options: all other arguments of `distill`.

    Examples:
        >>> students = understudy.distill_students(                # doctest: +SKIP
        ...     "teachers/sst2", ["6l-384d", "4l-312d"], output_dir="students/sst2"
        ... )
        >>> students["4l-312d"]("a fine film")["label"]            # doctest: +SKIP
        'positive'
    """
    refuse_one_shape(parse_settings(options.get("settings", ())))
    recipes = {
        name: _build_recipe(teacher, student=student, **options)
        for name, student in name_students([str(student) for student in students]).items()
    }
    with show_messages():
        results = distill_together(recipes, Path(output_dir), overwrite=overwrite, callbacks=callbacks)
    return {name: Distilled(result.output_dir, result.content) for name, result in results.items()}


def _build_recipe(
    teacher: str | Path | PreTrainedModel | None,
    *,
    student: str | Path | PreTrainedModel | None = None,
    method: str | None = None,
    predictions: str | Path | None = None,
    task: str | None = None,
    data: str | Path | Mapping[str, Any] | None = None,
    unlabelled: Sequence[str | Path | Dataset] = (),
    recipe: str | Path | None = None,
    settings: Sequence[str] | Mapping[str, Any] = (),
    metric: str | None = None,
    processing_class: PreTrainedTokenizerFast | None = None,
    revision: str | None = None,
) -> Recipe:
    """Build the recipe from the arguments of `distill`."""
    # The tokenizer may only belong to a student in memory.
    own = processing_class if isinstance(teacher, PreTrainedModel) else None
    path = model_path(teacher, own, revision=revision)
    return distill_recipe(
        path,
        student=student_name(student, processing_class, path),
        method=method,
        predictions=predictions,
        task=task,
        data=None,
        recipe=recipe,
        settings=given_settings(data, unlabelled, metric, settings),
    )


def student_name(
    student: str | Path | PreTrainedModel | None,
    processing_class: PreTrainedTokenizerFast | None,
    teacher: str | None,
) -> str | None:
    """Return the shape, folder or hub name of a student. A model in memory is saved first."""
    if isinstance(student, PreTrainedModel):
        if processing_class is None and teacher is not None:
            processing_class = load_tokenizer(str(teacher_inside(teacher)))  # both read the same tokens
        return model_path(student, processing_class)
    return str(student) if student is not None else None


def open_student(output_dir: Path) -> Predictor:
    """Return a torch predictor for the student of a distillation."""
    folder = output_dir / STUDENT
    described = json.loads((output_dir / RESULT).read_text("utf-8"))["input"]
    task, inputs = get_task(described["task"]), described["inputs"]
    model = load_model(str(folder), task, described["labels"], fine_tuned=True)
    tokenizer = load_tokenizer(str(folder))
    plain = TensorModel(model, task.kind, inputs).eval()

    def session(arrays: Arrays) -> Logits:
        with torch.inference_mode():
            made = plain(*(torch.from_numpy(arrays[name]) for name in inputs))
        return tuple(one.float().numpy() for one in made)

    artifact = Artifact(
        **described,
        models={"fp32": ExportedModel("torch", STUDENT, 0)},
        default="fp32",
        parameters=model.num_parameters(),
        files={},
    )
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    return Predictor.from_parts(artifact, session, tokenizer.backend_tokenizer)
