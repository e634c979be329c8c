"""General distillation: a student learns a pretrained teacher's layers on general text (TinyBERT Eq. 11,
Figure 2)."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from understudy.data.corpus import TRAIN, open_corpus
from understudy.distillation.general_text import announce_general, learn_general, prepare_general
from understudy.distillation.layers import match
from understudy.distillation.recipes import general_recipe
from understudy.distillation.runs import whole_batch
from understudy.errors import OutputError
from understudy.models.settings import STUDENT, name_students, refuse_one_shape
from understudy.recipe.load import load_recipe, parse_settings
from understudy.recipe.recipe import Recipe
from understudy.recipe.resolve import resolve_paths
from understudy.training.shared import SharedTeacher
from understudy.workspace.folders import (
    RECIPE,
    RESULT,
    check_output,
    refuse_single_run,
    remove_leftovers,
    start_output,
)
from understudy.workspace.hashes import hash_model, hash_start, versions
from understudy.workspace.lock import one_at_a_time
from understudy.workspace.result import write_result
from understudy.workspace.results import GeneralResult

logger = logging.getLogger(__name__)


def general(
    teacher: str | Path | None = None,
    *,
    output_dir: str | Path,
    corpus: str | Path | None = None,
    student: str | None = None,
    recipe: str | Path | None = None,
    settings: Sequence[str] | Mapping[str, Any] = (),
    overwrite: bool = False,
) -> GeneralResult:
    """Distil a pretrained teacher into a general student, a starting point for students of any task.

    Args:
        teacher: a pretrained encoder, as a folder or a hub name.
        corpus: a folder written by `corpus` with this teacher's tokenizer.
        student: a shape (`tinybert-4l-312d`, `6l-384d`), or a saved encoder to train further. Defaults to the
            recipe's.
        recipe: a shipped name or a file. Defaults to `general-tinybert`.
        settings: override the recipe, e.g. `{"general.training.max_steps": 1000}`.
        output_dir: gets the student in `student/`, its losses, result.json and recipe.yaml. An interrupted
            run is resumed.

    Examples:
        >>> understudy.general(                                    # doctest: +SKIP
        ...     "bert-base-uncased", corpus="corpora/wiki", output_dir="students/general"
        ... ).content["held_out"]
        {'embeddings': {'first': …, 'last': …}, …}
    """
    built = general_recipe(teacher, corpus=corpus, student=student, recipe=recipe, settings=settings)
    return general_from_recipe(built, Path(output_dir), overwrite=overwrite)


def general_students(
    teacher: str | Path | None,
    students: Sequence[str | Path],
    *,
    output_dir: str | Path,
    overwrite: bool = False,
    **options: Any,
) -> dict[str, GeneralResult]:
    """Train several general students at once: each forward pass of the teacher serves all of them.

    Every student is the same, to the bit, as if it were trained alone.

    Args:
        students: shapes, or saved encoders to train further.
        output_dir: gets a folder per student, as `general` writes it.
        options: all other arguments of `general`.
    """
    folder, shared = Path(output_dir).expanduser(), SharedTeacher()
    refuse_single_run(folder)
    given = {"corpus": None, "recipe": None, "settings": ()} | options
    refuse_one_shape(parse_settings(given["settings"]))
    recipes = {
        name: resolve_paths(general_recipe(teacher, student=student, **given))
        for name, student in name_students([str(student) for student in students]).items()
    }
    done = {}
    for name, recipe in recipes.items():
        if not overwrite and (found := _finished(recipe, folder / name)) is not None:
            done[name] = found
    runs = {
        name: partial(general_from_recipe, recipe, folder / name, overwrite=overwrite, shared=shared)
        for name, recipe in recipes.items()
        if name not in done
    }
    done |= shared.run_all(runs)
    return {name: done[name] for name in recipes}


def _finished(recipe: Recipe, folder: Path) -> GeneralResult | None:
    """Return the finished general distillation of a recipe in a folder, or None."""
    if not (folder / RESULT).is_file():
        return None
    content = json.loads((folder / RESULT).read_text("utf-8"))
    assert recipe.general is not None  # every recipe of this stage has it
    same = load_recipe(folder / RECIPE) == recipe
    if same:
        corpus, _ = open_corpus(Path(str(recipe.general.corpus)))
        current = {"teacher": hash_model(str(recipe.teacher)), "corpus": _hash_corpus(corpus)}
        same = all(content["hashes"][name] == value for name, value in current.items())
    if not same:
        raise OutputError(
            f"{folder} holds a finished run of another recipe, teacher or corpus. Use --overwrite to replace "
            "it, or another --output-dir."
        )
    return GeneralResult(folder.resolve(), content)


def _hash_corpus(corpus: Mapping[str, Any]) -> str:
    """Hash the files of a corpus, from its result."""
    return hashlib.sha256(json.dumps(corpus["files"]).encode()).hexdigest()


@one_at_a_time
def general_from_recipe(
    recipe: Recipe, output_dir: Path, *, overwrite: bool = False, shared: SharedTeacher | None = None
) -> GeneralResult:
    """Run general distillation according to a recipe. See `general`.

    In a distributed run every process returns, but only the first one's result has content.
    """
    recipe, output_dir = resolve_paths(recipe), output_dir.expanduser().resolve()
    # The split of a batch among processes may change, but not its total size.
    check_output(
        output_dir,
        recipe,
        overwrite=overwrite,
        may_differ=[
            f"general.training.{name}"
            for name in ("per_device_train_batch_size", "gradient_accumulation_steps")
        ],
    )
    run = prepare_general(recipe, output_dir)
    arguments, corpus = run.arguments, run.corpus
    match(run.student, run.teacher, run.settings, run.cut)  # before anything is written
    parameters = {"student": run.student.num_parameters(), "teacher": run.teacher.num_parameters()}
    hashes = {
        "blocks of a step": str(whole_batch(arguments)),
        "teacher": hash_model(str(recipe.teacher)),
        "corpus": _hash_corpus(corpus),
    }
    hashes |= hash_start(recipe)
    with arguments.main_process_first(desc="preparing the output folder"):
        if arguments.should_save:
            start_output(output_dir, recipe, hashes, overwrite=overwrite)
            announce_general(run)
    learnt = learn_general(run, output_dir, shared)
    if not learnt:
        return GeneralResult(output_dir, {})
    result = {
        "stage": "general",
        "model": str(output_dir / STUDENT),
        **learnt,
        "corpus": corpus["corpus"],
        "blocks": len(run.rows.train),
        "tokens": round(corpus["corpus"]["tokens"][TRAIN] * run.num_epochs),
        "epochs": round(run.num_epochs, 4),
        "parameters": parameters,
        "processes": arguments.world_size,
        "hashes": hashes,
        "versions": versions(),
    }
    write_result(output_dir, result)
    remove_leftovers(output_dir)
    return GeneralResult(output_dir, result)
