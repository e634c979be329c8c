"""From a teacher and a dataset to a shipped student: one stage after the other, each made once."""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from understudy.artifacts.artifact import ARTIFACT
from understudy.data.sources import dev_splits
from understudy.errors import OutputError, PreflightError, RecipeError
from understudy.evaluation.score import prepare_split
from understudy.files import hash_file, write_atomically
from understudy.kinds import get_kind, kind_names
from understudy.models.pretrained import has_head_for, load_config
from understudy.models.student import STUDENT, student_inside
from understudy.pipeline.facts import Facts, Finding
from understudy.pipeline.preflight import preflight
from understudy.pipeline.student import Distilled
from understudy.pipeline.summary import (
    agreement_line,
    read,
    scores_line,
    sizes_line,
    speed_line,
    summarize,
)
from understudy.pipeline.voice import speaking
from understudy.recipe.load import build_recipe, load_recipe
from understudy.recipe.recipe import Recipe
from understudy.recipe.whole_run import ExportSettings
from understudy.report.page import REPORT, write_report
from understudy.stages.augment import augment_from_recipe
from understudy.stages.bench import bench
from understudy.stages.distill import distill_from_recipe, distill_recipe
from understudy.stages.evaluate import evaluate
from understudy.stages.export import add_speed_to_card, export
from understudy.stages.finetune import finetune_from_recipe
from understudy.stages.result import (
    ARTIFACT_FOLDER,
    AUGMENTED,
    BENCH,
    DISTILLED,
    EVALUATION,
    INPUTS,
    INTERMEDIATE,
    RECIPE,
    RESULT,
    TEACHER,
    announce,
    check_apart,
    check_is_folder,
    hash_model,
    hash_start,
    input_paths,
    resolve_paths,
    write_result,
)
from understudy.training.cpu import tune_cpu
from understudy.training.precision import hardware_precision

logger = logging.getLogger(__name__)

STATE = "stages.json"  # what each stage was made of, and how long it took
SECONDS = "seconds"


def run(
    model: str | Path | None = None,
    *,
    output_dir: str | Path,
    student: str | None = None,
    task: str | None = None,
    data: str | Path | None = None,
    recipe: str | Path | None = None,
    settings: Sequence[str] | Mapping[str, Any] = (),
    overwrite: bool = False,
) -> Distilled:
    """Take a teacher and a dataset to a tested, quantised and documented student.

    Fine-tunes the teacher where the model is still a plain encoder, augments where the recipe says so,
    distils, scores, exports, times and reports. A stage whose data, models and settings are as they were is
    not made again.

    Args:
        model: a fine-tuned teacher, or an encoder that becomes one; the recipe's where not given.
        data: a folder in the task's layout, or a hub dataset; files go into `settings`.
        student, task, recipe, settings: as for `distill`.
        output_dir: gets a folder for each stage, report.html and result.json.

    Example:
        >>> student = understudy.run(                              # doctest: +SKIP
        ...     "bert-base-uncased", recipe="desk-sst2", data="nyu-mll/glue", output_dir="runs/sst2"
        ... )
        >>> student("a fine film")["label"]                        # doctest: +SKIP
        'positive'
    """
    with speaking():
        built = run_recipe(model, student=student, task=task, data=data, recipe=recipe, settings=settings)
        return run_from_recipe(built, Path(output_dir), overwrite=overwrite)


def run_recipe(
    model: str | Path | None,
    *,
    student: str | None,
    task: str | None,
    data: str | Path | None,
    recipe: str | Path | None,
    settings: Sequence[str] | Mapping[str, Any],
) -> Recipe:
    """The recipe of a whole run that a command's arguments describe."""
    method = "tinybert" if recipe is None else load_recipe(recipe).method
    if method is None:
        raise RecipeError(
            f"{recipe} has no method: to distil by. Recipes of whole runs are quickstart, desk-sst2 and "
            "others that `understudy recipes` lists."
        )
    teacher, encoder = None, None
    if model is not None:
        model = student_inside(model)
        config = load_config(str(model))
        # A model with a head for some task has been fine-tuned; the preflight sees where it is another's.
        if any(has_head_for(config, get_kind(name)) for name in kind_names()):
            teacher = str(model)
        else:
            encoder = str(model)
    built = distill_recipe(
        teacher,
        student=student,
        method=method,
        predictions=None,
        task=task,
        data=data,
        recipe=recipe,
        settings=settings,
        without=["finetune"] if teacher is not None else [],
    )
    if built.soft_labels is not None and built.soft_labels.predictions is not None:
        raise RecipeError(
            "run compares a student with its teacher, and soft_labels.predictions stands for one. Use "
            "understudy distill --predictions, then export and bench."
        )
    values = built.model_dump(exclude_defaults=True)
    if encoder is not None:
        if built.finetune is None:  # as finetune would do it
            plain = build_recipe("finetune", {}, task=built.task, recipe=None, settings=())
            values["finetune"] = {"training": plain.training, "dropout": plain.dropout}
        values["finetune"] = {**values["finetune"], "model": encoder}
    if built.augment is not None and built.augment.model is None and "finetune" in values:
        values["augment"] = {**values["augment"], "model": values["finetune"].get("model")}
    return Recipe.from_mapping(values)


@dataclass(frozen=True)
class Stage:
    """A part of a run.

    Attributes:
        name: of its folder, or of its file.
        title: what people read while it runs.
        inputs: all that its result depends on, as values or hashes.
        finished: the file whose presence says that it is done.
        work: makes it, or goes on with it.
        figures: what it came to, in a line.
        parts: folders in its own with inputs of their own, which stay where those are as they were.
    """

    name: str
    title: str
    inputs: Callable[[], Mapping[str, Any]]
    finished: str
    work: Callable[[], object]
    figures: Callable[[], str] = lambda: ""
    parts: Mapping[str, Callable[[], Mapping[str, Any]]] = field(default_factory=dict)


def run_from_recipe(recipe: Recipe, output_dir: Path, *, overwrite: bool = False) -> Distilled:
    """Do all that a recipe says; see `run`."""
    recipe, output_dir = resolve_paths(recipe), output_dir.expanduser().resolve()
    check_folder(output_dir)
    check_apart(output_dir, input_paths(recipe))
    facts, findings = preflight(recipe, output_dir)
    refuse(findings)
    tune_cpu()
    output_dir.mkdir(parents=True, exist_ok=True)
    if overwrite or not (output_dir / STATE).exists():
        _write_state(output_dir, {})
    (output_dir / RESULT).unlink(missing_ok=True)  # of the run before
    write_atomically(output_dir / RECIPE, recipe.to_yaml())
    announce(facts.data)
    announce_precision(recipe)
    # Each stage would say it again.
    logging.getLogger(announce.__module__).setLevel(logging.WARNING)
    try:
        seconds = _make_all(list(stages_of(facts)), output_dir)
    finally:
        logging.getLogger(announce.__module__).setLevel(logging.NOTSET)
    content = summarize(recipe, output_dir) | {"seconds": seconds}
    write_result(output_dir, content)
    return Distilled(output_dir, content)


def announce_precision(recipe: Recipe) -> None:
    """Say what the stages compute in, and why."""
    fastest = hardware_precision()
    if recipe.precision == "auto":
        logger.info("Precision: %s (%s)", fastest.name, fastest.reason)
    else:
        logger.info("Precision: %s (the recipe says so)", recipe.precision)


def _make_all(stages: Sequence[Stage], output_dir: Path) -> dict[str, float]:
    """Make what is not there, one after the other; the seconds that each stage took when it was made."""
    started = time.monotonic()
    for number, stage in enumerate(stages, 1):
        place = f"[{number}/{len(stages)}]"
        before = time.monotonic()
        made = _make(stage, output_dir, place)
        if made:
            _note_seconds(output_dir, stage.name, round(time.monotonic() - before, 1))
        figures = stage.figures()
        took = f"in {_clock(time.monotonic() - before)}" if made else "unchanged, not made again"
        logger.info("%s ✓ %s %s%s", place, stage.title, took, f": {figures}" if figures else "")
    logger.info("All of it took %s.", _clock(time.monotonic() - started))
    taken: dict[str, float] = _read_state(output_dir).get(SECONDS, {})
    return {stage.name: taken[stage.name] for stage in stages if stage.name in taken}


def _read_state(output_dir: Path) -> dict[str, Any]:
    state: dict[str, Any] = json.loads((output_dir / STATE).read_text("utf-8"))
    return state


def _write_state(output_dir: Path, state: Mapping[str, Any]) -> None:
    write_atomically(output_dir / STATE, json.dumps(state, indent=2) + "\n")


def _note_seconds(output_dir: Path, stage: str, seconds: float) -> None:
    state = _read_state(output_dir)
    _write_state(output_dir, state | {SECONDS: state.get(SECONDS, {}) | {stage: seconds}})


def refuse(findings: Sequence[Finding]) -> None:
    """Say all that was found; stop where something would fail."""
    for finding in findings:
        if finding.level == "warning":
            logger.warning("Check %s: %s", finding.check, finding.message)
    errors = [finding for finding in findings if finding.level == "error"]
    if errors:
        lines = "\n".join(f"- {finding.check}: {finding.message}" for finding in errors)
        things = "one thing" if len(errors) == 1 else f"{len(errors)} things"
        raise PreflightError(f"{things} would fail later. Nothing was started.\n{lines}")


def check_folder(output_dir: Path) -> None:
    """Refuse a folder that is neither new nor a run's, with --overwrite too."""
    check_is_folder(output_dir)
    ours = (output_dir / STATE).exists()
    if output_dir.is_dir() and any(output_dir.iterdir()) and not ours:
        raise OutputError(f"{output_dir} is not empty and not a run of ours. Use another --output-dir.")


def _make(stage: Stage, output_dir: Path, place: str) -> bool:
    """Make a stage, go on with it, or leave it as it is; whether anything was done."""
    state = _read_state(output_dir)
    wanted = {stage.name: _digest(stage.inputs())}
    wanted |= {f"{stage.name}/{part}": _digest(inputs()) for part, inputs in stage.parts.items()}
    same = state.get(stage.name) == wanted[stage.name]
    if same and (output_dir / stage.finished).exists():
        return False
    logger.info("%s %s", place, stage.title)
    if not same:
        # Before the state: what lies there when the stage is interrupted then belongs to these inputs.
        parts = [part for part in stage.parts if state.get(key := f"{stage.name}/{part}") == wanted[key]]
        _clear(output_dir / stage.name, [*parts, RECIPE, INPUTS] if parts else [])
        (output_dir / REPORT).unlink(missing_ok=True)  # it tells of what was
        _write_state(output_dir, state | wanted)
    stage.work()
    return True


def _digest(inputs: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()


def _clear(place: Path, kept: Sequence[str]) -> None:
    """Remove a stage's file, or all in its folder but what is kept."""
    if place.is_file():
        place.unlink()
        return
    for path in list(place.iterdir()) if place.is_dir() else []:
        if path.name not in kept:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def stages_of(facts: Facts) -> Iterator[Stage]:
    """The stages of a run in their order. What each is made of is looked up when its turn comes."""
    recipe, folder, data = facts.recipe, facts.output_dir, facts.data
    teacher = facts.teacher if facts.fine_tuned else str(folder / TEACHER)
    dev = {split: key for split, key in data.hashes.items() if split != "train"}

    if not facts.fine_tuned:
        teacher_recipe = teacher_part(recipe)
        yield Stage(
            TEACHER,
            "Fine-tuning the teacher",
            lambda: {"recipe": dump(teacher_recipe), "model": hash_model(facts.teacher), **data.hashes},
            f"{TEACHER}/{RESULT}",
            lambda: finetune_from_recipe(teacher_recipe, folder / TEACHER),
            lambda: scores_line(read(folder / TEACHER)),
        )
    if recipe.augment is not None:
        augment_recipe = augment_part(recipe)
        settings = recipe.augment
        yield Stage(
            AUGMENTED,
            "Augmenting the training set",
            lambda: {
                "recipe": dump(augment_recipe),
                "model": hash_model(str(settings.model)),
                "files": [
                    hash_file(Path(name))
                    for name in (settings.vectors, settings.vector_words, settings.stop_words)
                    if name is not None and Path(name).is_file()
                ],
                "train": data.hashes["train"],
            },
            f"{AUGMENTED}/{RESULT}",
            lambda: augment_from_recipe(augment_recipe, folder / AUGMENTED),
            lambda: "{rows:,} rows became {written:,}".format(**read(folder / AUGMENTED)["augmented"]),
        )
    distill_part_recipe = distill_part(recipe, teacher, folder)

    def distil_from(without: Sequence[str] = ()) -> dict[str, Any]:
        # Where teacher and rows lie is no matter; what they are is beside it.
        said = dump(distill_part(recipe, "", Path()))
        return {
            "recipe": {key: value for key, value in said.items() if key not in without},
            "teacher": hash_model(teacher),
            **hash_start(recipe),
            **data.hashes,
            "augmented": read(folder / AUGMENTED)["files"] if recipe.augment is not None else None,
        }

    def distil() -> None:
        if (folder / DISTILLED / RECIPE).exists():  # of other predictions, after the same layers
            write_atomically(folder / DISTILLED / RECIPE, distill_part_recipe.to_yaml())
        distill_from_recipe(distill_part_recipe, folder / DISTILLED)

    yield Stage(
        DISTILLED,
        "Distilling",
        distil_from,
        f"{DISTILLED}/{RESULT}",
        distil,
        lambda: scores_line(read(folder / DISTILLED)),
        # The layers are learnt before the predictions, and know nothing of them.
        parts={INTERMEDIATE: lambda: distil_from(without=["prediction"])},
    )
    student = str(folder / DISTILLED / STUDENT)

    read_as = recipe.data.model_dump(mode="json")
    yield Stage(
        EVALUATION,
        "Scoring student and teacher, row by row",
        lambda: {"student": hash_model(student), "teacher": hash_model(teacher), "data": read_as, **dev},
        f"{EVALUATION}/{RESULT}",
        lambda: evaluate(student, against=teacher, output_dir=folder / EVALUATION),
        lambda: agreement_line(read(folder / EVALUATION)),
    )
    shipped = recipe.export or ExportSettings()
    yield Stage(
        ARTIFACT_FOLDER,
        "Exporting to ONNX and int8",
        lambda: {"student": hash_model(student), "export": shipped.model_dump(), "data": read_as, **dev},
        f"{ARTIFACT_FOLDER}/{ARTIFACT}",
        lambda: export(
            folder / DISTILLED,
            output_dir=folder / ARTIFACT_FOLDER,
            tolerance=shipped.tolerance,
            openvino=shipped.openvino,
            speed=False,  # timed beside its teacher in a moment
        ),
        lambda: sizes_line(folder / ARTIFACT_FOLDER),
    )
    length = usual_length(facts)

    def measure() -> None:
        student_dir, artifact_dir = folder / DISTILLED, folder / ARTIFACT_FOLDER
        timed = bench([teacher, student_dir, artifact_dir], batches=(1, 32), lengths=(length,)).content
        add_speed_to_card(artifact_dir, student_dir, timed)
        (folder / BENCH).mkdir(exist_ok=True)
        write_result(folder / BENCH, timed)

    yield Stage(
        BENCH,
        f"Timing teacher and student on texts of {length} tokens",
        lambda: {
            "teacher": hash_model(teacher),
            "artifact": hash_file(folder / ARTIFACT_FOLDER / ARTIFACT),
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
            name: hash_file(folder / name / file)
            for name, file in (
                (DISTILLED, RESULT),
                (EVALUATION, RESULT),
                (ARTIFACT_FOLDER, ARTIFACT),
                (BENCH, RESULT),
            )
        },
        REPORT,
        lambda: write_report(folder, teacher=teacher, summary=summarize(recipe, folder)),
        lambda: str(folder / REPORT),
    )


def dump(recipe: Recipe) -> dict[str, Any]:
    """A recipe's values, whatever the order in which they were given."""
    return recipe.model_dump(mode="json", exclude_defaults=True)


def teacher_part(recipe: Recipe) -> Recipe:
    """The recipe by which a run fine-tunes its teacher."""
    settings = recipe.finetune
    assert settings is not None
    return recipe.model_copy(
        update={
            **_nothing_else(recipe),
            "method": None,
            "model": settings.model,
            "training": settings.training,
            "dropout": settings.dropout,
            "data": recipe.data.model_copy(update={"augmented": None}),
        }
    )


def augment_part(recipe: Recipe) -> Recipe:
    """The recipe by which a run augments its training set."""
    plain = {"method": None, "dropout": None, "attention": None}
    return recipe.model_copy(update={**_nothing_else(recipe), **plain, "augment": recipe.augment})


def distill_part(recipe: Recipe, teacher: str, folder: Path) -> Recipe:
    """The recipe by which a run distils: its own with the teacher, on the augmented rows."""
    data = recipe.data
    if recipe.augment is not None:
        data = data.model_copy(update={"augmented": str(folder / AUGMENTED)})
    return recipe.model_copy(
        update={"finetune": None, "augment": None, "export": None, "teacher": teacher, "data": data}
    )


def _nothing_else(recipe: Recipe) -> dict[str, Any]:
    """Every block but the task's and the data's as it comes."""
    kept = ("task", "data", "seed", "attention", "method")
    return {
        name: field.get_default(call_default_factory=True)
        for name, field in type(recipe).model_fields.items()
        if name not in kept
    }


def usual_length(facts: Facts) -> int:
    """Tokens of a row as the development set mostly has them."""
    rows = facts.data.splits[dev_splits(facts.task, facts.recipe.data)[0]]
    split = prepare_split(
        facts.task,
        rows,
        facts.tokenizer,
        max_length=facts.recipe.max_length,
        stride=facts.recipe.data.stride,
    )
    return max(2, int(np.median(split.encoded["length"][:])))


def _clock(seconds: float) -> str:
    """
    >>> _clock(83)
    '1:23'
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
