"""`understudy finetune`."""

from __future__ import annotations

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
)


def finetune_command(
    output_dir: OutputOption,
    model: Annotated[
        str | None, typer.Argument(help="Encoder to start from: folder or hub name.", show_default=False)
    ] = None,
    task: TaskOption = None,
    data: DataOption = None,
    recipe: RecipeOption = None,
    settings: SetOption = None,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Fine-tune a teacher on a task.

    `understudy finetune bert-base-uncased --task mrpc --data nyu-mll/glue --output-dir teachers/mrpc`

    Your own files, with columns guessed or named:

    `understudy finetune bert-base-uncased --task classification --set data.train=train.csv
    --set data.dev=dev.csv --set data.columns.text=review --output-dir teacher`

    The result loads with plain transformers. After an interruption, run the same command again to resume.
    """
    from understudy.cli.console import people_on_stderr, print_json, say_how_to_continue
    from understudy.cli.summaries import print_scores
    from understudy.stages.finetune import finetune

    with people_on_stderr(), say_how_to_continue():
        result = finetune(
            model,
            task=task,
            data=data,
            recipe=recipe,
            settings=settings or (),
            output_dir=output_dir,
            overwrite=overwrite,
        )
        print_scores(result)
    if as_json:
        print_json(result)
