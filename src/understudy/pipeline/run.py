"""Run all stages from a teacher and a dataset to a shipped student, skipping those that are up to date."""

from __future__ import annotations

import datetime
import hashlib
import json
import logging
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import PreTrainedModel, PreTrainedTokenizerFast, TrainerCallback

from understudy.data.load import announce
from understudy.distillation.agreement import resolve_distillation
from understudy.distillation.recipes import distill_recipe, run_method, run_recipe_name
from understudy.errors import ModelError, PreflightError, RecipeError
from understudy.files import remove_half_written, write_atomically
from understudy.kinds import get_kind, kind_names
from understudy.kinds.tasks import get_task
from understudy.models.heads import has_head_for
from understudy.models.pretrained import load_config
from understudy.models.settings import teacher_inside
from understudy.pipeline.estimate import estimate_training
from understudy.pipeline.messages import show_messages
from understudy.pipeline.preflight.checks import preflight
from understudy.pipeline.preflight.planned_run import Finding, PlannedRun
from understudy.pipeline.run_stages import Stage, dev_length, stages_of
from understudy.pipeline.student import Distilled, student_name
from understudy.pipeline.summary import summarize
from understudy.planning.budget import with_target
from understudy.recipe.load import build_recipe, load_recipe
from understudy.recipe.recipe import Recipe
from understudy.recipe.resolve import input_paths
from understudy.report.page import REPORT
from understudy.training.arguments import check_callbacks
from understudy.training.cpu import tune_cpu
from understudy.training.precision import hardware_precision
from understudy.training.shared import SharedTeacher
from understudy.workspace.folders import (
    INPUTS,
    RECIPE,
    RESULT,
    STATE,
    check_apart,
    check_free,
    remove_leftovers,
)
from understudy.workspace.hashes import hash_model
from understudy.workspace.lock import one_at_a_time
from understudy.workspace.objects import given_settings, model_path
from understudy.workspace.result import write_result

logger = logging.getLogger(__name__)

SECONDS = "seconds"


def run(
    model: str | Path | PreTrainedModel | None = None,
    *,
    output_dir: str | Path,
    student: str | Path | PreTrainedModel | None = None,
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
    """Turn a teacher and a dataset into a tested, quantised and documented student.

    Fine-tunes the teacher if the model is still a plain encoder, augments if the recipe asks for it, then
    distils, evaluates, exports student and teacher, times them and writes the report. A stage whose
    data, models and settings have not changed is skipped.

    Args:
        model: a fine-tuned teacher, or an encoder to fine-tune: a folder, a hub name, or a model in memory
            with its `processing_class`. Defaults to the recipe's.
        output_dir: gets a folder for each stage, report.html and result.json.

    All other arguments are those of `distill`.

    Examples:
        >>> student = understudy.run(                              # doctest: +SKIP
        ...     "bert-base-uncased",
        ...     data={"train": "reviews.csv", "split": 0.1, "text": "review", "label": "stars"},
        ...     output_dir="runs/reviews",
        ... )
        >>> student("a fine film")["label"]                        # doctest: +SKIP
        'positive'
    """
    with show_messages():
        own = processing_class if isinstance(model, PreTrainedModel) else None
        path = model_path(model, own, revision=revision)
        built = run_recipe(
            path,
            student=student_name(student, processing_class, path),
            task=task,
            data=None,
            recipe=recipe,
            settings=given_settings(data, unlabelled, metric, settings),
        )
        return run_from_recipe(built, Path(output_dir), overwrite=overwrite, callbacks=callbacks)


def run_recipe(
    model: str | Path | None,
    *,
    student: str | None,
    task: str | None,
    data: str | Path | None,
    recipe: str | Path | None,
    settings: Sequence[str] | Mapping[str, Any],
) -> Recipe:
    """Build the recipe of a whole run from a command's arguments."""
    recipe = run_recipe_name(model, task, recipe, settings)
    teacher, encoder = None, None
    if model is not None:
        model = teacher_inside(model)
        config = load_config(str(model))
        # A model with a head for some task has been fine-tuned; the preflight checks that the task is right.
        with_heads = [kind for kind in map(get_kind, kind_names()) if kind.needs_head]
        if _needs_no_head(task, recipe) or any(has_head_for(config, kind) for kind in with_heads):
            teacher = str(model)
        else:
            encoder = str(model)
    built = distill_recipe(
        teacher,
        student=student,
        method=run_method(recipe),
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
        if built.finetune is None:  # same defaults as the finetune stage
            plain = build_recipe("finetune", {}, task=built.task, recipe=None, settings=())
            values["finetune"] = {"training": plain.training, "dropout": plain.dropout}
        values["finetune"] = {**values["finetune"], "model": encoder}
    if built.augment is not None and built.augment.model is None and "finetune" in values:
        values["augment"] = {**values["augment"], "model": values["finetune"].get("model")}
    return Recipe.from_mapping(values)


def _needs_no_head(task: str | None, recipe: str | Path | None) -> bool:
    """Return whether any encoder can teach the task as it is."""
    task = task or (load_recipe(recipe).task if recipe is not None else None)
    return task is not None and not get_task(task).rows.needs_head


@one_at_a_time
def run_from_recipe(
    recipe: Recipe,
    output_dir: Path,
    *,
    overwrite: bool = False,
    callbacks: Sequence[TrainerCallback] = (),
    shared: SharedTeacher | None = None,
) -> Distilled:
    """Run all stages of a recipe. See `run`."""
    started = time.monotonic()
    check_callbacks(callbacks)
    output_dir = output_dir.expanduser().resolve()
    recipe = with_target(resolve_distillation(recipe), output_dir)
    check_free(output_dir, (STATE,))
    check_apart(output_dir, input_paths(recipe))
    planned, findings = preflight(recipe, output_dir)
    refuse(findings)
    tune_cpu()
    output_dir.mkdir(parents=True, exist_ok=True)
    is_continued = start_state(output_dir, overwrite=overwrite)
    (output_dir / RESULT).unlink(missing_ok=True)  # left by the previous run
    write_atomically(output_dir / RECIPE, recipe.to_yaml())
    announce(planned.data)
    announce_precision(recipe)
    # Otherwise each stage would repeat the announcement.
    logging.getLogger(announce.__module__).setLevel(logging.WARNING)
    try:
        stages = list(stages_of(planned, callbacks, shared))
        is_new = not any((output_dir / stage.finished).exists() for stage in stages)
        announce_rows(planned)
        if is_new:
            announce_time(planned)
        seconds = make_all(stages, output_dir)
        logger.info(
            "%s took %s.", "This call" if is_continued else "All of it", _clock(time.monotonic() - started)
        )
    finally:
        logging.getLogger(announce.__module__).setLevel(logging.NOTSET)
    content = summarize(recipe, output_dir) | {"seconds": seconds}
    write_result(output_dir, content)
    return Distilled(output_dir, content)


def announce_rows(planned: PlannedRun) -> None:
    """Log how many rows of each sort there are."""
    counts = {split: len(rows) for split, rows in planned.data.splits.items()}
    logger.info("Rows: %s", ", ".join(f"{count:,} {split}" for split, count in counts.items()))


def announce_time(planned: PlannedRun) -> None:
    """Log about how long the training will take, and when it will end."""
    seconds = estimate_training(planned, dev_length(planned))
    if seconds is not None:
        end = datetime.datetime.now() + datetime.timedelta(seconds=seconds)  # local time, to be shown
        besides = "augmentation, export and timing" if planned.recipe.augment else "export and timing"
        logger.info(
            "Training takes about %s here, until about %s; %s come on top.",
            _rough(seconds),
            f"{end:%H:%M}",
            besides,
        )


def _rough(seconds: float) -> str:
    """
    >>> _rough(40), _rough(400), _rough(9000)
    ('a minute', '7 minutes', '2.5 hours')
    """
    minutes = seconds / 60
    if minutes < 1.5:
        return "a minute"
    return f"{minutes:.0f} minutes" if minutes < 100 else f"{minutes / 60:.1f} hours"


def announce_precision(recipe: Recipe) -> None:
    """Log the precision that the stages compute in, and why."""
    fastest = hardware_precision()
    if recipe.precision == "auto":
        logger.info("Precision: %s (%s)", fastest.name, fastest.reason)
    else:
        logger.info("Precision: %s (the recipe says so)", recipe.precision)


def make_all(stages: Sequence[Stage], output_dir: Path) -> dict[str, float]:
    """Run the stages that are not up to date; return the seconds each stage took when it was last run."""
    for number, stage in enumerate(stages, 1):
        place = f"[{number}/{len(stages)}]"
        before = time.monotonic()
        made = _make(stage, output_dir, place)
        if made:
            _note_seconds(output_dir, stage.name, round(time.monotonic() - before, 1))
        figures = stage.figures()
        took = f"in {_clock(time.monotonic() - before)}" if made else "unchanged, not made again"
        logger.info("%s ✓ %s (%s)%s", place, stage.title, took, f": {figures}" if figures else "")
    taken: dict[str, float] = _read_state(output_dir).get(SECONDS, {})
    return {stage.name: taken[stage.name] for stage in stages if stage.name in taken}


def start_state(output_dir: Path, *, overwrite: bool) -> bool:
    """Start recording which stages are up to date; return whether an earlier call left a record."""
    remove_half_written(output_dir / STATE)
    is_continued = (output_dir / STATE).exists() and not overwrite
    if not is_continued:
        _write_state(output_dir, {})
    return is_continued


def _read_state(output_dir: Path) -> dict[str, Any]:
    state: dict[str, Any] = json.loads((output_dir / STATE).read_text("utf-8"))
    return state


def _write_state(output_dir: Path, state: Mapping[str, Any]) -> None:
    write_atomically(output_dir / STATE, json.dumps(state, indent=2) + "\n")


def _note_seconds(output_dir: Path, stage: str, seconds: float) -> None:
    state = _read_state(output_dir)
    _write_state(output_dir, state | {SECONDS: state.get(SECONDS, {}) | {stage: seconds}})


def refuse(findings: Sequence[Finding]) -> None:
    """Log all warnings and notes, and raise if there are errors."""
    for finding in findings:
        if finding.level != "error":
            level = logging.WARNING if finding.level == "warning" else logging.INFO
            logger.log(level, "Check %s: %s", finding.check, finding.message)
    errors = [finding for finding in findings if finding.level == "error"]
    if errors:
        lines = "\n".join(f"- {finding.check}: {finding.message}" for finding in errors)
        things = "one thing" if len(errors) == 1 else f"{len(errors)} things"
        raise PreflightError(f"{things} would fail later. Nothing was started.\n{lines}")


def _make(stage: Stage, output_dir: Path, place: str) -> bool:
    """Run or resume a stage unless it is up to date; return whether anything was done."""
    state = _read_state(output_dir)
    wanted = {stage.name: _digest(stage.inputs())}
    wanted |= {f"{stage.name}/{part}": _digest(inputs()) for part, inputs in stage.parts.items()}
    same = state.get(stage.name) == wanted[stage.name]
    if same and (output_dir / stage.finished).exists():
        remove_leftovers(output_dir / stage.name)  # in case it was interrupted after writing its result
        _check_model(stage, output_dir)
        return False
    logger.info("%s %s", place, stage.title)
    if not same:
        if stage.name in state and (output_dir / stage.finished).exists():
            logger.info("  again, because its settings, data or models have changed")
        # Clear before writing the state: files left by an interruption then belong to these inputs.
        parts = [part for part in stage.parts if state.get(key := f"{stage.name}/{part}") == wanted[key]]
        _clear(output_dir / stage.name, [*parts, RECIPE, INPUTS] if parts else [])
        (output_dir / REPORT).unlink(missing_ok=True)  # it is out of date
    state.pop(_model_key(stage), None)
    _write_state(output_dir, state | wanted)
    stage.work()
    _check_model(stage, output_dir)
    return True


def _check_model(stage: Stage, output_dir: Path) -> None:
    """Record the hash of the model that a stage has made, or refuse one that has changed since."""
    if stage.model is None:
        return
    state, key, found = _read_state(output_dir), _model_key(stage), hash_model(stage.model)
    if key not in state:
        _write_state(output_dir, state | {key: found})
    elif state[key] != found:
        raise ModelError(
            f"{stage.model} is not the model that this run made: it is damaged, or was replaced. To make it "
            f"again, remove {output_dir / stage.name}; to keep it, use it in a run of its own."
        )


def _model_key(stage: Stage) -> str:
    return f"{stage.name}/model"


def _digest(inputs: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()


def _clear(place: Path, kept: Sequence[str]) -> None:
    """Remove a stage's file, or everything in its folder except `kept`."""
    if place.is_file():
        place.unlink()
        return
    for path in list(place.iterdir()) if place.is_dir() else []:
        if path.name not in kept:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _clock(seconds: float) -> str:
    """
    >>> _clock(83)
    '1:23'
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
