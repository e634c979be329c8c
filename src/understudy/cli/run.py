"""`understudy run`."""

from __future__ import annotations

import json
from dataclasses import asdict
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
            help="Fine-tuned teacher, or an encoder that becomes one: folder or hub name.", show_default=False
        ),
    ] = None,
    student: Annotated[
        str | None,
        typer.Option(
            "--student", help="Shape (tinybert-4l-312d, 6l-384d), or a saved encoder to start from."
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
        typer.Option("--tolerate", min=0.0, help="Points that a student may lose to be ready; default 2."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", metavar="", help="Look for what would fail, and stop there.")
    ] = False,
    plan: Annotated[
        bool,
        typer.Option(
            "--plan",
            metavar="",
            help="Measure each stage briefly, say how long it would take, and stop there.",
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

    Your own file, a tenth of it held out to score on:

    `understudy run bert-base-uncased --train reviews.csv --split 0.1 --text review --label stars
    --output-dir runs/reviews`
    """
    from understudy.cli.checks import check_early
    from understudy.distillation.recipes import preliminary_recipe
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
        **({"student.target": target} if target is not None else {}),
        **parse_settings(settings or ()),
    }
    given: dict[str, Any] = {"student": student, "task": task, "data": data, "recipe": recipe}
    check_early(lambda: preliminary_recipe(model, settings=overrides, **given), output_dir, (STATE,))

    from understudy.cli.console import people_on_stderr, print_json, say_how_to_continue
    from understudy.cli.summaries import print_findings, print_plan, print_run
    from understudy.data.load import announce
    from understudy.distillation.agreement import resolve_distillation
    from understudy.pipeline.preflight.checks import preflight
    from understudy.pipeline.run import announce_precision, announce_rows, run_from_recipe, run_recipe
    from understudy.planning.budget import with_target
    from understudy.planning.plan import plan_from_recipe

    with people_on_stderr(), say_how_to_continue("with the stage that it was in"):
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
