"""`understudy run`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from understudy.cli.options import (
    DataOption,
    DevOption,
    JsonOption,
    LabelOption,
    OutputOption,
    OverwriteOption,
    RecipeOption,
    SetOption,
    SplitOption,
    TargetOption,
    TaskOption,
    TextOption,
    TextPairOption,
    TrainOption,
    UnlabelledOption,
)


def run_command(
    output_dir: OutputOption,
    model: Annotated[
        str | None,
        typer.Argument(
            help="Fine-tuned teacher, or an encoder to fine-tune: folder or hub name.", show_default=False
        ),
    ] = None,
    student: Annotated[
        str | None,
        typer.Option(
            "--student",
            help="Shape (tinybert-4l-312d, 6l-384d), or a saved encoder to start from. Several, separated by "
            "commas, are trained together and compared.",
        ),
    ] = None,
    target: TargetOption = None,
    task: TaskOption = None,
    data: DataOption = None,
    train: TrainOption = None,
    dev: DevOption = None,
    split: SplitOption = None,
    text: TextOption = None,
    text_pair: TextPairOption = None,
    label: LabelOption = None,
    unlabelled: UnlabelledOption = None,
    recipe: RecipeOption = None,
    settings: SetOption = None,
    tolerate: Annotated[
        float | None,
        typer.Option("--tolerate", min=0.0, help="Points that a ready student may lose; default 2."),
    ] = None,
    check: Annotated[bool, typer.Option("--check", metavar="", help="Run only the checks.")] = False,
    plan: Annotated[
        bool,
        typer.Option(
            "--plan",
            metavar="",
            help="Measure each stage briefly, print how long the run would take, and stop.",
        ),
    ] = False,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Turn a teacher and a dataset into a shipped student, in one command.

    `understudy run bert-base-uncased --recipe desk-sst2 --data nyu-mll/glue --output-dir runs/sst2`

    Checks everything first, fine-tunes the teacher if the model is still a plain encoder, then augments,
    distils, evaluates, exports student and teacher to int8, times them, and writes `report.html`. After
    an interruption, or with other settings, run the command again: stages that are finished and unchanged
    are skipped.

    Your own file, with a tenth of it held out for scoring:

    `understudy run bert-base-uncased --train reviews.csv --split 0.1 --text review --label stars
    --output-dir runs/reviews`

    The fastest student that loses at most a point; students are trained from large to small:

    `understudy run teachers/sst2 --target "lose 1 point" --output-dir runs/sst2`
    """
    from understudy.cli.checks import check_early, check_rows_early
    from understudy.distillation.recipes import find_teacher, preliminary_recipe
    from understudy.models.settings import parse_loss, split_students
    from understudy.recipe.load import file_settings, parse_settings
    from understudy.workspace.folders import STATE

    overrides = {
        **file_settings(
            train=train,
            dev=dev,
            split=split,
            text=text,
            text_pair=text_pair,
            label=label,
            unlabelled=unlabelled,
        ),
        **({"tolerate": tolerate} if tolerate is not None else {}),
        **parse_settings(settings or ()),
    }
    lose = parse_loss(target) if target is not None else None
    if target is not None and lose is None:
        overrides = {"student.target": target, **overrides}
    given: dict[str, Any] = {"task": task, "data": data, "recipe": recipe}
    students = split_students(student)
    for one in students.values():
        build = partial(preliminary_recipe, model, student=one, settings=overrides, **given)
        early = check_early(build, output_dir, (STATE,))
    check_rows_early(early, model or find_teacher(early), keeps_head=early.finetune is None)
    if len(students) > 1 or lose is not None:
        _refuse_several(model, "several students" if lose is None else "this target", check=check, plan=plan)
        names = [one for one in students.values() if one is not None]
        _run_students(model, names, lose, output_dir, overrides, given, as_json=as_json, overwrite=overwrite)
        return
    given["student"] = student

    from understudy.cli.console import people_on_stderr, print_json, say_how_to_continue
    from understudy.cli.run_summary import print_findings, print_plan, print_run
    from understudy.data.load import announce
    from understudy.distillation.agreement import resolve_distillation
    from understudy.pipeline.preflight.checks import preflight
    from understudy.pipeline.run import announce_precision, announce_rows, run_from_recipe, run_recipe
    from understudy.planning.budget import with_target
    from understudy.planning.plan import plan_from_recipe

    # Nothing is written by a check or a plan, so there is nothing to continue.
    hint = nullcontext() if check or plan else say_how_to_continue("with the stage that it was in")
    with people_on_stderr(), hint:
        built = run_recipe(model, settings=overrides, **given)
        if plan:
            cost = plan_from_recipe(built)
            print_plan(cost)
        elif check:
            planned, findings = preflight(with_target(resolve_distillation(built), output_dir), output_dir)
            announce(planned.data)
            announce_rows(planned)
            announce_precision(planned.recipe)
            print_findings(findings)
        else:
            result = run_from_recipe(built, output_dir, overwrite=overwrite)
            print_run(result)
    if plan:
        if as_json:
            print(json.dumps(cost))
        return
    if check:
        if as_json:
            print(json.dumps([asdict(finding) for finding in findings], ensure_ascii=False))
        raise typer.Exit(2 if any(finding.level == "error" for finding in findings) else 0)
    if as_json:
        print_json(result)


def _refuse_several(model: str | None, cause: str, *, check: bool, plan: bool) -> None:
    """Refuse options that only a run of one student supports."""
    from understudy.errors import RecipeError

    if model is None:
        raise RecipeError(f"with {cause}, the teacher or the encoder must be given as an argument of run.")
    if check or plan:
        raise RecipeError(f"--check and --plan do not work with {cause}, only for a single shape.")


def _run_students(
    model: str | None,
    students: Sequence[str],
    lose: float | None,
    output_dir: Path,
    settings: dict[str, Any],
    given: dict[str, Any],
    *,
    as_json: bool,
    overwrite: bool,
) -> None:
    from understudy.cli.console import people_on_stderr, print_json, say_how_to_continue
    from understudy.cli.run_summary import print_choice
    from understudy.pipeline.students import run_students

    assert model is not None
    with people_on_stderr(), say_how_to_continue("with the stage that it was in"):
        result = run_students(
            model,
            students,
            lose=lose,
            output_dir=output_dir,
            settings=settings,
            overwrite=overwrite,
            **given,
        )
        print_choice(result)
    if as_json:
        print_json(result)
