"""What a distillation returns from Python: figures, and a student that one can call on text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from understudy.artifacts.artifact import ARTIFACT, Artifact, ExportedModel
from understudy.artifacts.onnx import TensorModel
from understudy.artifacts.session import Arrays, Logits
from understudy.data.load import load_data
from understudy.data.sources import dev_splits
from understudy.distillation.recipes import distill_recipe
from understudy.distillation.summary import hash_inputs
from understudy.errors import OutputError
from understudy.kinds.tasks import get_task
from understudy.models.pretrained import load_config, load_model, load_tokenizer, model_labels
from understudy.models.student import STUDENT
from understudy.pipeline.messages import show_messages
from understudy.predictor.predictor import Predictor
from understudy.recipe.load import load_recipe, parse_settings
from understudy.recipe.recipe import Recipe
from understudy.recipe.resolve import resolve_paths
from understudy.stages.distill import distill_from_recipe
from understudy.workspace.folders import ARTIFACT_FOLDER, RECIPE, RESULT
from understudy.workspace.result import StageResult


class Distilled(StageResult):
    """A finished distillation. Call it on text.

    Example:
        >>> student = understudy.distill("teachers/sst2", student="tinybert-4l-312d")  # doctest: +SKIP
        >>> student("a fine film")["label"]                                            # doctest: +SKIP
        'positive'
        >>> student.scores                                                             # doctest: +SKIP
        {'dev': {'accuracy': 0.87}}
    """

    @cached_property
    def predictor(self) -> Predictor:
        """What answers: the exported student where there is one, else the one in torch."""
        assert self.output_dir is not None  # a distillation always has a folder
        if (self.output_dir / ARTIFACT_FOLDER / ARTIFACT).is_file():
            return Predictor(self.output_dir / ARTIFACT_FOLDER)
        return open_student(self.output_dir)

    def __call__(self, inputs: Any, *, batch_size: int = 32) -> Any:
        """The answer to one input, or a list of answers to a list of them; see `Predictor`."""
        return self.predictor(inputs, batch_size=batch_size)

    def __repr__(self) -> str:
        scores = ", ".join(
            f"{name} {value:.3f}" for metrics in self.scores.values() for name, value in metrics.items()
        )
        return f"Distilled({str(self.output_dir)!r}: {scores})"


def distill(
    teacher: str | Path | None = None,
    *,
    output_dir: str | Path | None = None,
    student: str | None = None,
    method: str = "tinybert",
    predictions: str | Path | None = None,
    task: str | None = None,
    data: str | Path | Mapping[str, Any] | None = None,
    recipe: str | Path | None = None,
    settings: Sequence[str] | Mapping[str, Any] = (),
    overwrite: bool = False,
) -> Distilled:
    """Distil a fine-tuned teacher into a small student, score both, and return a student to call.

    Args:
        teacher: a folder or a hub name; one that `finetune` wrote knows its task and data.
        student: a shape (`tinybert-4l-312d`, `6l-384d`), started as the recipe says, or a saved encoder
            to start from; the recipe's where not given.
        method: `tinybert`, intermediate layers and then predictions; `soft-labels`, labels and the
            teacher's predictions; `patient`, these and the first token's states.
        predictions: a Parquet file of what any model said about the training rows, in place of a teacher,
            with method `soft-labels`; see `docs/reference/recipes.md`.
        data: a folder in the task's layout, a hub dataset, or files: `{"train": "a.csv", "dev": "b.csv"}`.
        recipe: a shipped name or a file; `tinybert-TASK`, `pkd-KIND` or `soft-labels-KIND` where not
            given.
        settings: over the recipe, e.g. `{"prediction.temperature": 2}`.
        output_dir: gets the student in `student/`, result.json, recipe.yaml and a folder per stage. A
            run that was interrupted there continues. Where not given it is `students/NAME-OF-THE-TEACHER`,
            and a finished run of the same recipe there is not made again.

    Example:
        >>> student = understudy.distill(                          # doctest: +SKIP
        ...     "teachers/mrpc", student="tinybert-4l-312d", output_dir="students/mrpc"
        ... )
        >>> student(("A cat sleeps.", "There is a sleeping cat."))  # doctest: +SKIP
        {'label': 'equivalent', 'probabilities': {…}}
    """
    settings = parse_settings(settings)
    source: str | Path | None = None
    if isinstance(data, Mapping):
        settings = {f"data.{key}": value for key, value in data.items()} | settings
    else:
        source = data
    built = distill_recipe(
        teacher,
        student=student,
        method=method,
        predictions=predictions,
        task=task,
        data=source,
        recipe=recipe,
        settings=settings,
    )
    folder = (
        Path(output_dir)
        if output_dir is not None
        else Path("students") / Path(str(built.tokenizer_model)).name
    )
    if output_dir is None and not overwrite and (found := _finished(folder, built)) is not None:
        return found
    with show_messages():
        result = distill_from_recipe(built, folder, overwrite=overwrite)
    return Distilled(result.output_dir, result.content)


def _finished(folder: Path, recipe: Recipe) -> Distilled | None:
    """A run of this recipe that is there already."""
    if not (folder / RESULT).is_file():
        return None
    recipe, content = resolve_paths(recipe), json.loads((folder / RESULT).read_text("utf-8"))
    saved = load_recipe(folder / RECIPE)
    if saved != recipe or content["hashes"] != _hashes(recipe):
        raise OutputError(
            f"{folder} holds a finished run of another recipe, or of data or a teacher that have changed "
            "since. Give an output_dir, or overwrite=True."
        )
    return Distilled(folder.resolve(), content)


def _hashes(recipe: Recipe) -> dict[str, str]:
    """Of what a distillation is made of, as it is now."""
    task, labels = (
        recipe.task_definition,
        model_labels(load_config(recipe.tokenizer_model), recipe.task_definition),
    )
    data = load_data(task, recipe.data, ("train", *dev_splits(task, recipe.data)), labels=labels)
    return hash_inputs(recipe, data)


def open_student(output_dir: Path) -> Predictor:
    """A predictor of the student that a distillation left, in torch."""
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
