"""Models on disk that can be timed: folders in torch, and artifacts in each of their forms."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from understudy.artifacts.artifact import is_artifact, read_artifact, split_form
from understudy.artifacts.onnx import input_names
from understudy.data.kind import Kind
from understudy.errors import ModelError
from understudy.kinds import get_kind, kind_names
from understudy.kinds.tasks import get_task, task_names
from understudy.models.heads import has_head_for
from understudy.models.pretrained import build_model, load_config, load_tokenizer, local_folder
from understudy.models.settings import student_inside
from understudy.timing.measure import Candidate
from understudy.workspace.folders import RESULT, STATE, refuse_figures
from understudy.workspace.models import refuse_unfinished
from understudy.workspace.recipes import saved_recipe
from understudy.workspace.runners import open_artifact, open_folder


@dataclass(frozen=True)
class TimedModel:
    """A candidate, and what is known about it without running it.

    Attributes:
        bytes: the size of its weights on disk.
        scores: metric to value, on the first development set; empty if it was never scored.
    """

    candidate: Candidate
    folder: str
    form: str
    bytes: int
    parameters: int
    config: Any
    scores: dict[str, float]
    task: str | None


def find_models(model: str) -> list[TimedModel]:
    """Return a folder's model, or those of an artifact."""
    refuse_figures(model)
    folder, form = split_form(model)
    if (Path(folder) / STATE).is_file():
        raise ModelError(
            f"{folder} is a whole run: give its models, e.g. {folder}/teacher {folder}/artifact."
        )
    if is_artifact(folder):
        return _forms(folder, form)
    return [_torch_model(local_folder(str(student_inside(folder))), folder)]


def _forms(folder: str, form: str | None) -> list[TimedModel]:
    artifact = read_artifact(Path(folder))
    config = load_config(folder)
    if form is not None:
        artifact.choose(form)
    made = []
    for name, model in artifact.models.items():
        if form not in (None, name):
            continue
        candidate = Candidate(
            f"{folder}:{name}",
            functools.partial(open_artifact, folder, name),
            [one for one in artifact.inputs if one != "attention_mask"],
            config.vocab_size,
        )
        made.append(
            TimedModel(
                candidate,
                folder,
                f"{name} ({model.engine})",
                model.bytes,
                artifact.parameters,
                config,
                first_scores(model.scores),
                artifact.task,
            )
        )
    return made


def _torch_model(folder: str, shown: str) -> TimedModel:
    import torch
    import transformers

    refuse_unfinished(folder)
    config = load_config(folder)
    kind = _kind_of(folder, config)
    with torch.device("meta"):
        if kind is None:
            model = transformers.AutoModel.from_config(config)  # type: ignore[no-untyped-call]
        else:
            kind.configure(config, None)
            model = build_model(kind, config)
    names = input_names(model, load_tokenizer(folder).model_input_names)
    candidate = Candidate(
        shown,
        functools.partial(open_folder, folder, kind.name if kind is not None else None),
        [name for name in names if name != "attention_mask"],
        config.vocab_size,
    )
    saved = saved_recipe(folder)
    result = json.loads(saved.with_name(RESULT).read_text("utf-8")) if saved is not None else {}
    weights = list(Path(folder).glob("*.safetensors")) or list(Path(folder).glob("*.bin"))
    return TimedModel(
        candidate,
        folder,
        "fp32 (torch)",
        sum(file.stat().st_size for file in weights),
        model.num_parameters(),
        config,
        first_scores(result.get("scores", {})),
        result.get("task"),
    )


def _kind_of(folder: str, config: Any) -> Kind | None:
    """Return the kind of a model by the recipe that it was saved with, or by its head."""
    saved = saved_recipe(folder)
    result = json.loads(saved.with_name(RESULT).read_text("utf-8")) if saved is not None else {}
    if result.get("task") in task_names():
        return get_task(result["task"]).kind
    found = [kind for kind in map(get_kind, kind_names()) if kind.needs_head and has_head_for(config, kind)]
    return found[0] if found else None


def first_scores(scores: Any) -> dict[str, float]:
    """Return metric to value on the first split."""
    for metrics in scores.values():
        return {name: figure["value"] for name, figure in metrics.items()}
    return {}
