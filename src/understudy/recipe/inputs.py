"""Check the models, files and columns that a recipe names, without torch and without the hub.

Commands do this first, so that a mistake is refused at once.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

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
from understudy.errors import RecipeError
from understudy.files import check_text_source
from understudy.hub import check_model_name
from understudy.models.settings import StudentSettings, check_start, check_teacher, check_width, parse_shape
from understudy.recipe.recipe import Recipe


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
    check_heads(recipe.student, recipe.teacher)
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


def check_heads(student: StudentSettings, teacher: str | None) -> None:
    """Refuse a width that does not fit the heads of the student, which are its teacher's unless given."""
    sizes = (parse_shape(student.shape) if student.shape is not None else {}) | student.sizes
    source = student.source or teacher
    if source is None or "hidden_size" not in sizes:
        return
    try:
        config = json.loads((Path(source).expanduser() / "config.json").read_text("utf-8"))
    except (OSError, ValueError):
        return  # on the hub, or broken, which is reported when it is loaded
    own = config.get("num_attention_heads") if isinstance(config, dict) else None
    heads = sizes.get("num_attention_heads", own)
    if isinstance(heads, int) and heads > 0:
        check_width(sizes["hidden_size"], heads)


def check_rows(task: Task, data: DataSettings, *, unread: Sequence[str] = ()) -> None:
    """Refuse files, folders or columns of the training and the development rows that do not exist.

    Args:
        unread: `train` or `dev`, if the command does not read these rows.
    """
    check_settings(task, data)
    place = Path(str(data.source)).expanduser()
    if data.source is None:
        # Without a development set, unlabelled rows are held out.
        files = {"train": data.train, "dev": data.train if data.dev_share is not None else data.dev}
        wanted = [split for split in files if files[split] or (split == "dev" and data.unlabelled is None)]
        splits = [one for one in wanted if not is_saved_dataset(Path(str(files[one])).expanduser())]
    elif is_dataset_copy(task, place) or not (place.exists() or data.source.startswith((".", "/", "~"))):
        return  # on the hub, or a copy of it, which takes a second to open
    else:
        splits = ["train", *dev_splits(task, data)]
    for split in splits:
        if ("train" if split == "train" else "dev") in unread:
            continue
        find_source(task, data, split)
