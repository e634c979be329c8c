"""`understudy run`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from understudy.cli.options import (
    DataOption,
    JsonOption,
    OutputOption,
    OverwriteOption,
    RecipeOption,
    SetOption,
    TaskOption,
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
    task: TaskOption = None,
    data: DataOption = None,
    unlabelled: UnlabelledOption = None,
    recipe: RecipeOption = None,
    settings: SetOption = None,
    tolerate: Annotated[
        float | None,
        typer.Option("--tolerate", min=0.0, help="Points that a student may lose to be ready; default 2."),
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Look for what would fail, and stop there.")] = False,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Turn a teacher and a dataset into a shipped student, in one command.

    `understudy run bert-base-uncased --recipe desk-sst2 --data nyu-mll/glue --output-dir runs/sst2`

    Checks everything first, fine-tunes the teacher if the model is still a plain encoder, then augments,
    distils, evaluates, exports to int8, times, and writes `report.html`. After an interruption, or with other
    settings, run the command again: stages that are finished and unchanged are skipped.

    `understudy run TEACHER --task classification --set data.train=train.csv --set data.dev=dev.csv
    --recipe desk-classification --output-dir runs/mine`
    """
    from understudy.cli.console import people_on_stderr, print_json, say_how_to_continue
    from understudy.cli.summaries import print_findings, print_run
    from understudy.data.load import announce
    from understudy.distillation.agreement import resolve_distillation
    from understudy.pipeline.preflight.checks import preflight
    from understudy.pipeline.run import announce_precision, check_folder, run_from_recipe, run_recipe
    from understudy.recipe.load import parse_settings
    from understudy.workspace.objects import unlabelled_settings

    with people_on_stderr(), say_how_to_continue("with the stage that it was in"):
        built = run_recipe(
            model,
            student=student,
            task=task,
            data=data,
            recipe=recipe,
            settings=unlabelled_settings(unlabelled or ())
            | ({"tolerate": tolerate} if tolerate is not None else {})
            | parse_settings(settings or ()),
        )
        if check:
            check_folder(output_dir)
            planned, findings = preflight(resolve_distillation(built), output_dir)
            announce(planned.data)
            announce_precision(planned.recipe)
            print_findings(findings)
        else:
            result = run_from_recipe(built, output_dir, overwrite=overwrite)
            print_run(result)
    if check:
        if as_json:
            print(json.dumps([asdict(finding) for finding in findings], ensure_ascii=False))
        raise typer.Exit(2 if any(finding.level == "error" for finding in findings) else 0)
    if as_json:
        print_json(result)
