"""The part of a student's folder that is uploaded: the model, its tokenizer, and a model card."""

from __future__ import annotations

import json
from fnmatch import fnmatch
from pathlib import Path

from understudy.artifacts.artifact import CARD
from understudy.artifacts.card import Student, write_student_card
from understudy.artifacts.upload import Content
from understudy.errors import OutputError
from understudy.models.cut import CUT
from understudy.models.projections import PROJECTIONS
from understudy.models.settings import DISTILLED, student_inside
from understudy.recipe.load import load_recipe
from understudy.workspace.folders import RESULT
from understudy.workspace.models import refuse_unfinished
from understudy.workspace.origin import find_origin
from understudy.workspace.recipes import saved_recipe

# The files that transformers saves for a model and a tokenizer, and those that a next stage continues from.
# recipe.yaml and result.json are left out, as they contain paths; the card has their content without paths.
_FILES = (
    "config.json",
    "model*.safetensors",
    "model.safetensors.index.json",
    PROJECTIONS,
    CUT,
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "*.model",
    # Files of a sentence-transformers model.
    "modules.json",
    "sentence_bert_config.json",
    "[0-9]_*/config.json",
    "[0-9]_*/model.safetensors",
)


def student_content(folder: Path) -> Content:
    """Return the part of a student's folder to upload.

    Args:
        folder: the folder of a model, or of the distillation that made it.
    """
    inside = folder / DISTILLED
    model = folder if inside.is_dir() else Path(student_inside(folder))  # a whole run has two to upload
    files = {file.relative_to(model).as_posix(): file for file in sorted(model.rglob("*")) if file.is_file()}
    found = {name: file for name, file in files.items() if any(_fits(name, one) for one in _FILES)}
    names = list(found)
    if "config.json" not in names or not any(fnmatch(name, "model*.safetensors") for name in names):
        hint = f" It is a whole run: give {folder / 'artifact'} or {inside}." if inside.is_dir() else ""
        raise OutputError(
            f"{folder} is neither an artifact (artifact.json, from understudy export) nor a student "
            f"(config.json and model.safetensors, from understudy distill).{hint}"
        )
    refuse_unfinished(model)
    own = model / CARD
    card = own.read_text("utf-8") if own.is_file() else _card(folder, model)
    return Content("student", card, found)


def _fits(name: str, pattern: str) -> bool:
    """Return whether a path matches a pattern with the same number of parts."""
    return name.count("/") == pattern.count("/") and fnmatch(name, pattern)


def _card(folder: Path, model: Path) -> str:
    saved = saved_recipe(model)
    result = json.loads(saved.with_name(RESULT).read_text("utf-8")) if saved is not None else {}
    if saved is None or "scores" not in result:
        raise OutputError(
            f"{model} has no {CARD}, its model card, and no {RESULT} with scores to write one from. Give the "
            f"folder that understudy distill wrote, or write {model / CARD}."
        )
    recipe, parameters = load_recipe(saved), result["parameters"]
    student = Student(
        task=result["task"],
        kind=recipe.task_definition.kind,
        labels=result["labels"],
        parameters=parameters["student"] if isinstance(parameters, dict) else parameters,
        max_length=recipe.max_length,
        scores=result["scores"],
        scored_by_teacher=result.get("labels_from") == "teacher",
    )
    return write_student_card(student, find_origin(str(folder), str(model)))
