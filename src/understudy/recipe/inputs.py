"""Check the models, files and columns that a recipe names, without torch and without the hub.

Commands do this first, so that a mistake is refused at once.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from understudy.data.labels import check_labels
from understudy.data.settings import DataSettings
from understudy.data.sources import (
    check_settings,
    dev_splits,
    find_source,
    is_dataset_copy,
    is_saved_dataset,
    read_corpus_result,
)
from understudy.data.task import Task
from understudy.data.unlabelled import unlabelled_files, unlabelled_source
from understudy.errors import RecipeError, UnderstudyError
from understudy.files import check_text_source
from understudy.hub import check_model_name
from understudy.models.heads import model_labels, read_head
from understudy.models.layer_map import choose_layers
from understudy.models.settings import (
    check_narrower,
    check_projection,
    check_start,
    check_teacher,
    check_width,
    parse_shape,
)
from understudy.recipe.recipe import Recipe
from understudy.recipe.resolve import resolve_paths


def check_planned(recipe: Recipe) -> None:
    """Refuse to plan a recipe that names no model."""
    if recipe.augment is not None or recipe.run == "corpus":
        return  # these have their own checks, with other inputs
    if recipe.run == "general":
        key, model, what = (
            "teacher",
            recipe.teacher,
            "a pretrained encoder, e.g. --set teacher=bert-base-uncased",
        )
    elif recipe.run is None:
        key, model, what = "model", recipe.model, "an encoder, e.g. --set model=bert-base-uncased"
    elif recipe.finetune is not None:
        key, model = "finetune.model", recipe.finetune.model
        what = "an encoder, e.g. --set finetune.model=bert-base-uncased"
    elif recipe.soft_labels is not None and recipe.soft_labels.predictions is not None:
        return  # refused with a reason when its cost is estimated
    else:
        key, model, what = "teacher", recipe.teacher, "a fine-tuned model, e.g. --set teacher=teachers/mrpc"
    if model is None:
        raise RecipeError(f"{key} must be given: {what}.")


def check_augments(recipe: Recipe) -> None:
    """Refuse to augment without a model."""
    if recipe.augment is None or recipe.augment.model is None:
        raise RecipeError("augment.model must be given: a folder or a hub name of a masked language model.")


def check_has_teacher(recipe: Recipe) -> None:
    """Refuse to distil without a teacher or a file of predictions."""
    predictions = recipe.soft_labels.predictions if recipe.soft_labels is not None else None
    if recipe.teacher is None and predictions is None:
        raise RecipeError(
            "teacher must be given: a folder or a hub name of a fine-tuned model; or, with method: "
            "soft-labels, soft_labels.predictions: a file of predictions."
        )


def check_inputs(recipe: Recipe) -> None:
    """Refuse a shape, a model, a file or a column that does not exist; nothing on the hub is checked."""
    check_start(recipe.student)
    if recipe.student.shape is not None:
        parse_shape(recipe.student.shape)
    models = {
        "model": recipe.model,
        "teacher": recipe.teacher,
        "student": recipe.student.model,
        "student.source": recipe.student.source,
        "finetune.model": recipe.finetune.model if recipe.finetune is not None else None,
        "augment.model": recipe.augment.model if recipe.augment is not None else None,
    }
    for key, name in models.items():
        if name is not None:
            check_model_name(name, key)
    if recipe.teacher is not None:
        check_teacher(recipe.teacher)
    check_sizes(recipe, recipe.teacher)
    if recipe.general is not None and recipe.general.corpus is not None:
        read_corpus_result(Path(recipe.general.corpus).expanduser())
    for block, key in ((recipe.corpus, "corpus.sources"), (recipe.mine, "mine.sources")):
        for source in (block.sources or ()) if block is not None else ():
            check_text_source(source, key)
    if recipe.student.vocabulary is not None and recipe.student.vocabulary.corpus:
        unlabelled_files(recipe.student.vocabulary.corpus, key="student.vocabulary.corpus")
    data = recipe.data
    if recipe.task is not None and (data.source or data.train or data.dev):
        augments = recipe.augment is not None and recipe.method is None  # and scores nothing
        check_rows(recipe.task_definition, data, unread=["dev"] if augments else [])
    if recipe.task is not None and data.unlabelled is not None:
        rows = recipe.task_definition.rows
        unlabelled_source(rows, data.unlabelled, data.columns, encoding=data.encoding)


def check_values(
    recipe: Recipe, model: str | None, splits: Sequence[str] | None = None, *, keeps_head: bool = True
) -> None:
    """Read the rows of local files and refuse bad ones.

    Checked rows are cached, so a command that reads them afterwards does not check them again.

    Args:
        model: the model that the rows are for; its config has its labels.
        splits: what the command reads. Defaults to the training rows and the development sets.
        keeps_head: whether the model must have the labels of the rows; if not, it gets a new head.
    """
    data = recipe.data
    has_dev = any(one is not None for one in (data.source, data.dev, data.dev_share))
    if recipe.task is None or not (has_dev or splits) or _is_elsewhere(recipe.task_definition, data):
        return
    labels = None
    if recipe.task_definition.rows.has_named_labels:
        head = read_head(Path(model).expanduser()) if model is not None else None
        if head is None:
            return  # on the hub, or broken: its labels are not known
        labels = model_labels(head, recipe.task_definition)
    from understudy.data.load import load_data  # takes a second

    recipe = resolve_paths(recipe)
    messages = logging.getLogger("understudy")
    level = messages.level
    messages.setLevel(logging.ERROR)  # warnings come when the command reads the rows
    try:
        wanted = splits or ("train", *dev_splits(recipe.task_definition, recipe.data))
        loaded = load_data(recipe.task_definition, recipe.data, wanted, labels=labels)
        if keeps_head and labels is not None and loaded.labels is not None:
            check_labels(str(model), labels, len(labels), loaded.labels)
    except UnderstudyError:
        raise
    except Exception:
        return  # e.g. of a full disk: the command comes across it too, and says what to do
    finally:
        messages.setLevel(level)


def _is_elsewhere(task: Task, data: DataSettings) -> bool:
    """Return whether rows come from the hub, or from a copy of it, which takes a second to open."""
    if data.source is None:
        return False
    place = Path(data.source).expanduser()
    is_path = place.exists() or data.source.startswith((".", "/", "~"))
    return is_dataset_copy(task, place) or not is_path


def check_sizes(recipe: Recipe, teacher: str | None) -> None:
    """Refuse sizes of a student that do not fit its heads, its layers or its teacher's states.

    A student has its teacher's heads unless they are given.
    """
    student = recipe.student
    sizes = (parse_shape(student.shape) if student.shape is not None else {}) | student.sizes
    source = student.source or teacher
    if source is None or "hidden_size" not in sizes:
        return
    own = _read_config(source)
    heads = sizes.get("num_attention_heads", own.get("num_attention_heads"))
    if isinstance(heads, int) and heads > 0:
        check_width(sizes["hidden_size"], heads)
    layers, num_source = sizes.get("num_hidden_layers"), own.get("num_hidden_layers")
    if student.start == "cut" and layers is not None and isinstance(num_source, int):
        choose_layers(student.layers or "spaced", layers, num_source)
    if student.start == "cut" and isinstance(own.get("hidden_size"), int):
        check_narrower("width", sizes["hidden_size"], own["hidden_size"])
    width = _read_config(teacher).get("hidden_size") if teacher is not None else None
    if recipe.method == "patient" and recipe.patient is not None and isinstance(width, int):
        check_projection(recipe.patient.projection, sizes["hidden_size"], width, key="patient.projection")


def _read_config(model: str) -> dict[str, Any]:
    """Return the config of a local model; empty if it is on the hub, or broken."""
    try:
        config = json.loads((Path(model).expanduser() / "config.json").read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return config if isinstance(config, dict) else {}


def check_rows(task: Task, data: DataSettings, *, unread: Sequence[str] = ()) -> None:
    """Refuse files, folders or columns of the training and the development rows that do not exist.

    Args:
        unread: `train` or `dev`, if the command does not read these rows.
    """
    check_settings(task, data)
    if _is_elsewhere(task, data):
        return
    if data.source is None:
        # Without a development set, unlabelled rows are held out.
        files = {"train": data.train, "dev": data.train if data.dev_share is not None else data.dev}
        wanted = [split for split in files if files[split] or (split == "dev" and data.unlabelled is None)]
        splits = [one for one in wanted if not is_saved_dataset(Path(str(files[one])).expanduser())]
    else:
        splits = ["train", *dev_splits(task, data)]
    for split in splits:
        if ("train" if split == "train" else "dev") in unread:
            continue
        find_source(task, data, split)
