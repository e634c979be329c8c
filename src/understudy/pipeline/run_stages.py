"""The stages of a whole run, and the inputs of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from understudy.artifacts.artifact import ARTIFACT
from understudy.data.load import UNLABELLED
from understudy.data.sources import dev_splits
from understudy.distillation.vocabulary import hash_vocabulary
from understudy.files import hash_file, write_atomically
from understudy.models.settings import DISTILLED, STUDENT
from understudy.pipeline.preflight.planned_run import PlannedRun
from understudy.pipeline.summary import (
    agreement_line,
    read,
    scores_line,
    sizes_line,
    speed_line,
    summarize,
)
from understudy.pipeline.teacher_int8 import export_teacher, teacher_int8_line
from understudy.planning.budget import usual_length
from understudy.recipe.parts import augment_part, distill_part, teacher_part
from understudy.recipe.recipe import Recipe
from understudy.recipe.whole_run import ExportSettings
from understudy.report.page import REPORT, write_report
from understudy.stages.augment import augment_from_recipe
from understudy.stages.bench import bench
from understudy.stages.distill import distill_from_recipe
from understudy.stages.evaluate import evaluate
from understudy.stages.export import export
from understudy.stages.finetune import finetune_from_recipe
from understudy.training.shared import SharedTeacher
from understudy.workspace.artifact_folder import add_speed_to_card
from understudy.workspace.folders import (
    ARTIFACT_FOLDER,
    AUGMENTED,
    BENCH,
    EVALUATION,
    INTERMEDIATE,
    RECIPE,
    RESULT,
    TEACHER,
    TEACHER_INT8,
)
from understudy.workspace.hashes import hash_model, hash_start
from understudy.workspace.result import write_result


@dataclass(frozen=True)
class Stage:
    """A stage of a run.

    Attributes:
        name: the name of its folder or file.
        title: the text shown while it runs.
        inputs: everything that its result depends on, as values or hashes.
        finished: the file whose presence marks it as done.
        work: runs or resumes it.
        figures: a one-line summary of its result.
        parts: subfolders with inputs of their own, which are kept if those have not changed.
        model: the model it makes, which later stages read.
    """

    name: str
    title: str
    inputs: Callable[[], Mapping[str, Any]]
    finished: str
    work: Callable[[], object]
    figures: Callable[[], str] = lambda: ""
    parts: Mapping[str, Callable[[], Mapping[str, Any]]] = field(default_factory=dict)
    model: str | None = None


def stages_of(
    planned: PlannedRun, callbacks: Sequence[TrainerCallback] = (), shared: SharedTeacher | None = None
) -> Iterator[Stage]:
    """Yield the stages of a run in order. A stage's inputs are evaluated when its turn comes."""
    recipe, folder, data = planned.recipe, planned.output_dir, planned.data
    teacher = planned.teacher if planned.fine_tuned else str(folder / TEACHER)
    dev = {split: key for split, key in data.hashes.items() if split not in ("train", UNLABELLED)}

    labelled = {split: key for split, key in data.hashes.items() if split != UNLABELLED}

    def continued(name: str, part: Recipe) -> Path:
        """Return a stage's folder; an unfinished run in it continues with these settings."""
        place = folder / name
        if (place / RECIPE).exists():  # the inputs are the same, or it would have been cleared
            write_atomically(place / RECIPE, part.to_yaml())
        return place

    if not planned.fine_tuned:
        teacher_recipe = teacher_part(recipe)
        yield Stage(
            TEACHER,
            "Fine-tuning the teacher",
            lambda: {
                "recipe": dump(teacher_recipe, data.columns),
                "model": hash_model(planned.teacher),
                **labelled,
            },
            f"{TEACHER}/{RESULT}",
            lambda: finetune_from_recipe(
                teacher_recipe, continued(TEACHER, teacher_recipe), callbacks=callbacks
            ),
            lambda: scores_line(read(folder / TEACHER)),
            model=teacher,
        )
    if recipe.augment is not None:
        augment_recipe = augment_part(recipe)
        settings = recipe.augment
        yield Stage(
            AUGMENTED,
            "Augmenting the training set",
            lambda: {
                "recipe": dump(augment_recipe, data.columns),
                "model": hash_model(str(settings.model)),
                "files": [
                    hash_file(Path(name))
                    for name in (settings.vectors, settings.vector_words, settings.stop_words)
                    if name is not None and Path(name).is_file()
                ],
                "train": data.hashes["train"],
            },
            f"{AUGMENTED}/{RESULT}",
            lambda: augment_from_recipe(augment_recipe, continued(AUGMENTED, augment_recipe)),
            lambda: "{rows:,} rows became {written:,}".format(**read(folder / AUGMENTED)["augmented"]),
        )
    distill_part_recipe = distill_part(recipe, teacher, folder / AUGMENTED)
    student = str(folder / DISTILLED / STUDENT)

    def distil_from(without: Sequence[str] = ()) -> dict[str, Any]:
        # The paths of teacher and rows do not matter; their hashes are included below.
        said = dump(distill_part(recipe, "", Path(AUGMENTED)), data.columns)
        return {
            "recipe": {key: value for key, value in said.items() if key not in without},
            "teacher": hash_model(teacher),
            **hash_start(recipe),
            **hash_vocabulary(recipe),
            **data.hashes,
            "augmented": read(folder / AUGMENTED)["files"] if recipe.augment is not None else None,
        }

    def distil() -> None:
        place = continued(DISTILLED, distill_part_recipe)  # same layers, but maybe other predictions
        distill_from_recipe(distill_part_recipe, place, callbacks=callbacks, shared=shared)

    yield Stage(
        DISTILLED,
        "Distilling",
        distil_from,
        f"{DISTILLED}/{RESULT}",
        distil,
        lambda: scores_line(read(folder / DISTILLED)),
        # The intermediate stage comes before the prediction stage and does not depend on it.
        parts={INTERMEDIATE: lambda: distil_from(without=["prediction"])},
        model=student,
    )

    read_as = dump(recipe, data.columns)["data"]
    yield Stage(
        EVALUATION,
        "Scoring student and teacher, row by row",
        lambda: {
            "student": hash_model(student),
            "teacher": hash_model(teacher),
            "data": read_as,
            "metric": recipe.metric,
            **dev,
        },
        f"{EVALUATION}/{RESULT}",
        lambda: evaluate(student, against=teacher, output_dir=folder / EVALUATION),
        lambda: agreement_line(read(folder / EVALUATION)),
    )
    shipped = recipe.export or ExportSettings()
    yield Stage(
        ARTIFACT_FOLDER,
        "Exporting to ONNX and int8",
        lambda: {
            "student": hash_model(student),
            "export": shipped.model_dump(exclude={"teacher_int8"}),
            "data": read_as,
            "metric": recipe.metric,
            **dev,
        },
        f"{ARTIFACT_FOLDER}/{ARTIFACT}",
        lambda: export(
            folder / DISTILLED,
            output_dir=folder / ARTIFACT_FOLDER,
            tolerance=shipped.tolerance,
            int4=shipped.int4,
            openvino=shipped.openvino,
            speed=False,  # timed next to its teacher in a later stage
        ),
        lambda: sizes_line(folder / ARTIFACT_FOLDER),
    )
    if shipped.teacher_int8:
        yield Stage(
            TEACHER_INT8,
            "Exporting the teacher to int8, for comparison",
            lambda: {
                "teacher": hash_model(teacher),
                "data": read_as,
                "metric": recipe.metric,
                **dev,
            },
            f"{TEACHER_INT8}/{RESULT}",
            lambda: export_teacher(teacher, folder, recipe=folder / DISTILLED / RECIPE),
            lambda: teacher_int8_line(read(folder / TEACHER_INT8)),
        )
    length = dev_length(planned)

    def teachers() -> list[str]:
        exported = shipped.teacher_int8 and "failed" not in read(folder / TEACHER_INT8)
        return [teacher, *([f"{folder / TEACHER_INT8}:int8"] if exported else [])]

    def measure() -> None:
        student_dir, artifact_dir = folder / DISTILLED, folder / ARTIFACT_FOLDER
        models = [*teachers(), str(student_dir), str(artifact_dir)]
        timed = bench(models, batches=(1, 32), lengths=(length,)).content
        add_speed_to_card(artifact_dir, student_dir, timed, teachers())
        (folder / BENCH).mkdir(exist_ok=True)
        write_result(folder / BENCH, timed)

    yield Stage(
        BENCH,
        f"Timing teacher and student on texts of {length} tokens",
        lambda: {
            "teacher": hash_model(teacher),
            "artifact": hash_file(folder / ARTIFACT_FOLDER / ARTIFACT),
            "teacher_int8": hash_file(folder / TEACHER_INT8 / ARTIFACT) if len(teachers()) > 1 else None,
            "length": length,
        },
        f"{BENCH}/{RESULT}",
        measure,
        lambda: speed_line(read(folder / BENCH)),
    )
    yield Stage(
        REPORT,
        "Writing the report",
        lambda: {
            "tolerate": recipe.tolerate,
            **{
                name: hash_file(folder / name / file)
                for name, file in (
                    (DISTILLED, RESULT),
                    (EVALUATION, RESULT),
                    (ARTIFACT_FOLDER, ARTIFACT),
                    *([(TEACHER_INT8, RESULT)] if shipped.teacher_int8 else []),
                    (BENCH, RESULT),
                )
            },
        },
        REPORT,
        lambda: write_report(folder, teacher=teacher, summary=summarize(recipe, folder)),
        lambda: str(folder / REPORT),
    )


def dump(recipe: Recipe, columns: Mapping[str, str | int]) -> dict[str, Any]:
    """Return a recipe's values with the columns that are read, whether they were named or guessed."""
    values = recipe.model_dump(mode="json", exclude_defaults=True)
    return values | {"data": values.get("data", {}) | {"columns": dict(columns)}}


def dev_length(planned: PlannedRun) -> int:
    """Return the median number of tokens of the development set, the length at which models are timed."""
    rows = planned.data.splits[dev_splits(planned.task, planned.recipe.data)[0]]
    return usual_length(planned.recipe, rows, planned.tokenizer)
